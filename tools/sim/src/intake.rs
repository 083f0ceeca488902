//! Taking up requests: from the bytes of a connection to an answer under way.

use crate::active::Active;
use crate::ask::Ask;
use crate::clock;
use crate::connection::Connection;
use crate::document;
use crate::fault::Fault;
use crate::hall::Entry;
use crate::http::{self, Endpoint, Head, Refusal, Route};
use crate::legs::Flow;
use crate::legs::leg::{Leg, Task};
use crate::metrics::{self, Told};
use crate::reactor::{Id, Reactor, State};
use crate::truth::{self, Record};
use crate::wire::Answer;

impl Reactor {
    /// Takes up the complete requests in a connection's input, one after the other.
    pub(crate) fn take_up(
        &self,
        state: &mut State,
        connection: &mut Connection,
        id: Id,
        now_ns: u64,
    ) {
        while !connection.is_busy() && !connection.input.is_empty() {
            let (head, complete) = match read(connection) {
                Ok(Some(read)) => read,
                Ok(None) => return,
                Err(Refusal { status, message }) => {
                    connection.closing = true;
                    connection.input = Vec::new();
                    connection.answer(|out| document::error(out, status, message, true));
                    return;
                }
            };
            if !complete {
                let ask_for_body = head.expects && !connection.continued;
                connection.head = Some(head);
                if ask_for_body {
                    connection.continued = true;
                    connection.answer(|out| out.extend_from_slice(CONTINUE));
                }
                return;
            }
            connection.continued = false;
            self.dispatch(state, connection, id, head, now_ns);
        }
    }

    fn dispatch(
        &self,
        state: &mut State,
        connection: &mut Connection,
        id: Id,
        head: Head,
        now_ns: u64,
    ) {
        let close = head.close;
        let end = head.head_bytes + head.body_bytes;
        match head.route {
            Route::Generate(endpoint) if self.has(endpoint) => {
                let asked = Asked { id, endpoint, now_ns };
                match self.admit(state, connection, asked, head) {
                    Ok(fault) => {
                        let tally = &mut state.tally;
                        tally.first_read_ns = tally.first_read_ns.min(now_ns);
                        if let Some(fault) = fault {
                            tally.met(fault);
                        }
                    }
                    Err((status, message)) => {
                        connection.closing |= close;
                        connection.answer(|out| document::error(out, status, &message, close));
                    }
                }
            }
            Route::Metrics => {
                let figures = self.with_hall(state, |hall| {
                    hall.advance(now_ns);
                    hall.figures()
                });
                let shared = &self.shared;
                let figures = figures.unwrap_or_else(|| shared.figures());
                connection.closing |= close;
                let (model, role) = (shared.wire.model(), shared.settings.role.as_ref());
                let told = Told { model, role, figures, sent: &shared.sent };
                connection.answer(|out| metrics::answer(out, &told, close));
            }
            route => {
                connection.closing |= close;
                connection.answer(|out| match route {
                    Route::Models => self.shared.wire.models(out, close),
                    Route::Health => document::health(out, close),
                    Route::Version => document::version(out, close),
                    Route::ServerInfo => document::server_info(out, &self.shared.settings, close),
                    Route::WrongMethod(allowed) => {
                        let message = format!("this path takes {allowed} only");
                        document::error(out, 405, &message, close);
                    }
                    _ => document::error(out, 404, "there is nothing at this path", close),
                });
            }
        }
        connection.input.drain(..end);
        connection.input.shrink_to(INPUT_BYTES_KEPT_MAX);
    }

    /// Whether the server has this API.
    fn has(&self, endpoint: Endpoint) -> bool {
        let role = self.shared.settings.role.as_ref();
        endpoint != Endpoint::Native || role.is_some_and(|role| role.flow == Flow::Sglang)
    }

    /// Lets a request into the queue, unless its fault or the serving model turns it away, and says
    /// what that fault is; or says with which status and why it is no request to generate.
    fn admit(
        &self,
        state: &mut State,
        connection: &mut Connection,
        asked: Asked,
        head: Head,
    ) -> Result<Option<Fault>, (u16, String)> {
        let Asked { endpoint, now_ns, .. } = asked;
        let settings = &self.shared.settings;
        let body = &connection.input[head.head_bytes..head.head_bytes + head.body_bytes];
        let ask = Ask::read(endpoint, body).map_err(|message| (400, message))?;
        if let Some(model) = ask.model.as_ref().filter(|model| **model != settings.model) {
            let served = &settings.model;
            return Err((404, format!("the model {model:?} does not exist; there is {served:?}")));
        }
        if ask.stream && !head.chunked {
            return Err((400, "a stream needs HTTP/1.1".to_owned()));
        }
        let leg = match &self.shared.stage {
            Some(stage) => {
                let leg = Leg::read(stage.role(), body, head.request_id.as_deref(), now_ns)
                    .map_err(|message| (400, message))?;
                Some(Box::new(leg))
            }
            None => None,
        };
        let mut answer = self.shared.wire.answer(endpoint, &ask, settings.default_output_tokens);
        answer.created = clock::realtime_ns() / 1_000_000_000;
        if leg.as_ref().is_some_and(|leg| leg.task == Task::Meet) {
            // Its first token is the prefill server's last.
            (answer.output_tokens, answer.capped) = (1, true);
        }
        answer.close = head.close;
        let (Entry { admission, refusal }, fault) = self.enter(state, asked, &answer, ask.stream);
        answer.number = admission.number;
        let record = self.shared.truth.is_some().then(|| Record {
            number: admission.number,
            request_id: head.request_id.clone(),
            stream: ask.stream,
            arrived_ns: connection.arrived_ns,
            read_ns: now_ns,
            body_hash: format!("{:016x}", truth::fnv1a(body)),
            in_flight: admission.in_flight,
            fault,
            role: settings.role.as_ref().map(|role| role.role),
            ..Record::default()
        });
        let mut active = Box::new(Active::new(answer, ask.stream, head.request_id, fault, record));
        active.refusal = refusal;
        active.marks.read_ns = now_ns;
        active.leg = leg;
        if admission.starts {
            active.start(&self.shared.timing, self.shared.stage_at(self.here(asked.id)), now_ns);
        } else if settings.serving.is_some() && !active.is_turned_away() {
            active.await_tokens(&self.shared.timing);
        }
        connection.output.drip = active.drip();
        connection.active = Some(active);
        Ok(fault)
    }

    /// Gives a request its number, and with it its fault and its place.
    fn enter(
        &self,
        state: &mut State,
        asked: Asked,
        answer: &Answer,
        stream: bool,
    ) -> (Entry, Option<Fault>) {
        let settings = &self.shared.settings;
        let place = self.here(asked.id);
        let fault_of = |number| {
            let fault = settings.faults.of_request(settings.seed, number);
            fault.filter(|fault| fault.fits(answer, stream))
        };
        let turns_away = |fault: Option<Fault>| fault.is_some_and(Fault::turns_away);
        let served = self.with_hall(state, |hall| {
            let fault = fault_of(hall.arrived());
            if turns_away(fault) {
                return (Entry { admission: hall.turn_away(), refusal: None }, fault);
            }
            let tokens = [answer.prompt_tokens, answer.output_tokens];
            let entry = hall.arrive(asked.now_ns, place, tokens);
            // What is refused cannot fail otherwise.
            (entry, fault.filter(|_| entry.refusal.is_none()))
        });
        served.unwrap_or_else(|| {
            let mut queue = self.shared.queue();
            let fault = fault_of(queue.arrived());
            let admission = if turns_away(fault) { queue.turn_away() } else { queue.arrive(place) };
            (Entry { admission, refusal: None }, fault)
        })
    }
}

/// Where a request is from, what it asks for and when.
#[derive(Clone, Copy, Debug)]
struct Asked {
    id: Id,
    endpoint: Endpoint,
    now_ns: u64,
}

/// Reads the head at the start of the input if it is there, and its body as far as it is there;
/// says whether that is all of it.
fn read(connection: &mut Connection) -> Result<Option<(Head, bool)>, Refusal> {
    let input = &mut connection.input;
    let head = match connection.head.take() {
        Some(head) => Some(head),
        None => http::read_head(input)?,
    };
    let Some(mut head) = head else { return Ok(None) };
    let complete = match &mut head.body_chunks {
        Some(chunks) => {
            let complete = chunks.undo(input, head.head_bytes)?;
            head.body_bytes = chunks.body_bytes;
            complete
        }
        None => input.len() >= head.head_bytes + head.body_bytes,
    };
    Ok(Some((head, complete)))
}

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const INPUT_BYTES_KEPT_MAX: usize = 64 * 1024;
