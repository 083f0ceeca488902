//! Recorded answers over real sockets: outcome, text, tokens and every time, each time compared with
//! the moment when the very bytes that decide it left the server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokclock_engine::measure::{ReasonKind, Request, Summary, summarize};
use tokclock_engine::record::Row;
use tokclock_engine::workload::{Arrival, Dialect, Overflow, Retries, Workload};
use tokclock_tests::cases::Case;
use tokclock_tests::replay::{Asked, EARLY_NS, Log};
use tokclock_tests::{MS, Ran, at_rate, carry_out, closed, requests, speak, workload};

/// What is expected of each of these is looked for where events are read one by one.
const SEEN_IN_EVENTS: [&str; 2] = ["saw_done", "tool_calls"];

/// One test for each case, so that the one that fails is named.
macro_rules! each {
    ($($(#[$meta:meta])* $id:ident)+) => {
        $($(#[$meta])* #[test] fn $id() { hold(&Case::named(stringify!($id))) })+
        const LISTED: &[&str] = &[$(stringify!($id)),+];
    };
}

each! {
    w001 w003 w005 w008 w009 w011 w013 w015 w017 w019 w021 w023 w025 w027 w029 w031 w033 w035 w037
    w039 w041 w043 w045 w047 w049 w051 w053 w055 w057 w059 w061 w063 w065 w081 w083
    m001 m003 m005 m007 m009 m011 m013 m015 m031 m035
}

#[test]
fn every_recorded_answer_is_tested() {
    let kept = Case::all().into_iter().filter(|case| !case.scripts.is_empty());
    // Cases of load and data serve an answer too; they do not look at it.
    let ids = kept.map(|case| case.id.to_lowercase()).filter(|id| !id.starts_with(['l', 'd']));
    assert_eq!(ids.collect::<BTreeSet<_>>(), LISTED.iter().map(|&id| id.to_owned()).collect());
}

/// Without a tokenizer a chunk of several tokens counts as one in ITL; with one they share the gap.
#[test]
fn m007_with_a_tokenizer_the_tokens_of_a_chunk_share_its_gap() {
    let case = Case::named("M007");
    let server = case.serve();
    let mut load = load_of(&case, server.address());
    load.text.tokenizer_chosen = true;
    let ran = carry_out(&load);
    let _ = server.stop();
    for row in &ran.rows {
        let tokens: Vec<u64> = row.chunks.iter().flatten().map(|chunk| chunk.1.into()).collect();
        assert_eq!(tokens.iter().sum::<u64>(), case.expected["tokens_out"], "{tokens:?}");
        let decode = row.last_token.unwrap() - row.first_token.unwrap();
        let tpot = Request::new(row, &load).tpot().unwrap();
        let shared = decode as f64 / tokens[1..].iter().sum::<u64>() as f64;
        assert!((tpot as f64 - shared).abs() <= 1.0, "{tpot} and not {shared}");
    }
    let later =
        |row: &Row| row.chunks.iter().flatten().skip(1).map(|c| u64::from(c.1)).sum::<u64>();
    let samples: u64 = ran.rows.iter().map(later).sum();
    assert_eq!(ran.facts.pooled.itl.len(), samples, "one sample of ITL for each token");
}

/// Without one the report says that ITL is a time per event.
#[test]
fn m007_without_a_tokenizer_the_report_says_what_itl_is() {
    let case = Case::named("M007");
    let server = case.serve();
    let load = load_of(&case, server.address());
    let ran = carry_out(&load);
    let _ = server.stop();
    let notes = summarize(&load, &ran.facts, ran.rows).notes;
    let note = notes.iter().find(|note| note.kind == ReasonKind::TokensPerEventUnknown).unwrap();
    assert!((note.figure - 10.0 / 3.0).abs() < 1e-9, "{note:?}");
}

/// Lines of JSON are whole answers where the API that has them is spoken.
#[test]
fn w061_is_a_whole_answer_of_ollama() {
    let case = Case::named("W061").spoken_as(Dialect::OllamaGenerate);
    hold_in(&case, Dialect::OllamaGenerate);
}

/// With retries its two answers are of one request, and what the first cost is no latency of the
/// server's.
#[test]
fn w053_with_a_retry_is_one_request_that_waited() {
    let case = Case::named("W053");
    let server = case.serve();
    let mut load = load_of(&case, server.address());
    load.stop = requests(1);
    load.client.retries = Retries { max: 1, backoff_ns: MS };
    let ran = carry_out(&load);
    let log = server.stop();
    let [refused, answered] = &case.scripts[..] else { panic!("two answers") };
    let posts: Vec<&Asked> = log.posts().collect();
    let (row, request) = (&ran.rows[0], Request::new(&ran.rows[0], &load));
    assert_eq!((ran.rows.len(), posts.len(), refused.pieces.len()), (1, 2, 1));
    let pieces = answered.pieces.len();
    let seen = Seen { row, next: None, request, asked: posts[1], pieces, ran: &ran };
    let wrong = seen.check(&case.expected["requests"][1]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((row.attempts, row.retries), (2, 1));
    let pause = case.expected["requests"][0]["retry_after_s"].as_u64().unwrap() * 1000 * MS;
    assert!(row.retry_ns >= pause && posts[1].at - posts[0].at >= pause, "{row:?}");
    let first_token = row.first_token.unwrap();
    let summary = summarize(&load, &ran.facts, ran.rows.clone());
    let latency = summary.latency;
    assert_eq!(latency.service.ttft.max, Some(first_token - row.write_start.unwrap()));
    assert_eq!(latency.ttft.max, Some(first_token - row.dispatched.unwrap()));
    assert!(latency.ttft.max >= Some(pause) && latency.service.ttft.max < Some(pause));
    assert_eq!((summary.requests.ok, summary.requests.failed), (1, 0));
    assert_eq!((summary.requests.retried, summary.requests.retries), (1, 1));
}

/// Everything that is expected of the case holds.
fn hold(case: &Case) {
    hold_in(case, case.dialect());
}

/// The same in a dialect that may not be the case's own.
fn hold_in(case: &Case, dialect: Dialect) {
    let server = case.serve();
    let mut load = load_of(case, server.address());
    speak(&mut load, dialect, None);
    let ran = carry_out(&load);
    let log = server.stop();
    let summary = summarize(&load, &ran.facts, ran.rows.clone());
    let mut wrong = whole_run(case, &ran, &log, &summary);
    for (turn, row) in ran.rows.iter().enumerate() {
        let request = Request::new(row, &load);
        let asked = log.post(&row.request_id);
        let pieces = case.scripts[turn.min(case.scripts.len() - 1)].pieces.len();
        let seen = Seen { row, next: ran.rows.get(turn + 1), request, asked, pieces, ran: &ran };
        let expected = case.expected["requests"].get(turn).unwrap_or(&case.expected);
        let missed = seen.check(expected);
        wrong.extend(missed.into_iter().map(|what| format!("request {turn}: {what}")));
    }
    assert!(wrong.is_empty(), "{}, {}:\n{}", case.id, case.title, wrong.join("\n"));
}

fn load_of(case: &Case, address: SocketAddr) -> Workload {
    // A case of one answer is asked twice, so that what a connection has read shows.
    let count = match (case.scripts.len(), case.expected["requests"].as_array()) {
        (_, Some(each)) => each.len(),
        (1, None) => 2,
        _ => 1,
    };
    let mut load = workload(address, closed(1), requests(count as u64));
    if let Some(think_ms) = case.client["think_time_ms"].as_u64() {
        // Arrivals as far apart as the answer and the pause after it.
        let answer_ms = case.scripts[0].pieces.last().map_or(0, |piece| piece.0);
        let rate = 1e3 / (think_ms + answer_ms) as f64;
        load.load = at_rate(rate, Arrival::Constant, None, Overflow::Wait);
    }
    load.client.keep_text = true;
    // A request that never ends must not keep the test.
    load.limits.request_ns = Some(20_000 * MS);
    load
}

/// What is expected of a run and not of one request.
fn whole_run(case: &Case, ran: &Ran, log: &Log, summary: &Summary) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, seen: usize, expected: usize| {
        if seen != expected {
            wrong.push(format!("{what}: {seen} and not {expected}"));
        }
    };
    // No request is sent twice unasked.
    same("requests at the server", log.posts().count(), ran.rows.len());
    let connections: BTreeSet<u64> = log.posts().map(|asked| asked.connection).collect();
    let expected = &case.expected;
    if let Some(count) = expected["connections"].as_u64() {
        same("connections", connections.len(), count as usize);
    }
    if let Some(count) = expected["failed"].as_u64() {
        same("failed", summary.requests.failed as usize, count as usize);
    }
    if let Some(warning) = expected["warning"].as_str() {
        let warned = summary.notes.iter().any(|note| note.kind == ReasonKind::BurstyStream);
        same(warning, usize::from(warned && warning == "bursty stream"), 1);
    }
    if let Some(each) = expected["itl_per_token_ms"].as_array() {
        let pooled = summary.latency.itl.count as usize;
        same("samples of ITL", pooled, each.len() * ran.rows.len());
    }
    wrong
}

/// One request, from both sides.
struct Seen<'a> {
    row: &'a Row,
    next: Option<&'a Row>,
    request: Request,
    asked: &'a Asked,
    /// Pieces of its answer.
    pieces: usize,
    ran: &'a Ran,
}

impl Seen<'_> {
    /// What does not hold of `expected`, and of any request.
    fn check(&self, expected: &Value) -> Vec<String> {
        let mut wrong = self.always();
        for (name, value) in expected.as_object().unwrap() {
            if let Err(seen) = self.one(name, value, expected) {
                wrong.push(format!("{name}: {seen} and not {value}"));
            }
        }
        wrong
    }

    /// What holds of any request.
    fn always(&self) -> Vec<String> {
        let row = self.row;
        let mut wrong = Vec::new();
        let marks = [
            Some(row.intended),
            row.dispatched,
            row.write_start,
            row.first_byte,
            row.first_token,
            row.last_token,
            row.done,
        ];
        let reached: Vec<u64> = marks.into_iter().flatten().collect();
        if !reached.is_sorted() {
            wrong.push(format!("marks out of order: {marks:?}"));
        }
        let start = self.ran.facts.start_monotonic_ns;
        if row.write_start.is_none_or(|at| at + start > self.asked.at + EARLY_NS) {
            wrong.push("it was read before it was written".to_owned());
        }
        let gaps: u64 = self.arrivals().windows(2).map(|pair| pair[1] - pair[0]).sum();
        let to_last = row.first_token.map(|first| first + gaps);
        if to_last != row.last_token {
            wrong.push("E2E is not TTFT and all gaps".to_owned());
        }
        wrong
    }

    /// Whether `name` is as expected; what was seen, if not.
    fn one(&self, name: &str, value: &Value, all: &Value) -> Result<(), String> {
        let row = self.row;
        let text = row.error_text.as_deref().unwrap_or("");
        match name {
            "outcome" => is(json!(row.outcome), value),
            "error_class" => is(json!(row.error), value),
            "http_status" => is(json!(row.status), value),
            "text" => is(json!(&row.text), value),
            "reasoning_text" => is(json!(&row.reasoning_text), value),
            "finish_reason" => is(json!(&row.finish), value),
            "malformed_events" => is(json!(row.malformed_events), value),
            "tokens_out" => is(json!(row.output_tokens), value),
            "tokens_out_source" => is(json!(row.output_source), value),
            "retry_after_s" => is(json!(row.retry_after), value),
            "location" => is(json!(text), value),
            "message" | "server_code" => holds(text, value),
            "token_events" => {
                is(json!((row.events, self.arrivals().len())), &json!([value, value]))
            }
            "chunk_tokens" => is(json!(self.tokens()), value),
            "ttfb_ms" => self.near(row.first_byte, value),
            "ttft_ms" => self.near(row.first_token, value),
            "ttfo_ms" => self.near(row.first_output, value),
            "ttst_ms" => self.near(row.second_token, value),
            "last_token_ms" => self.near(row.last_token, value),
            "e2e_ms" => self.near(row.done, value),
            "chunk_gaps_ms" => self.gaps(value, &all["ttft_ms"]),
            "itl_per_token_ms" => self.itl(value),
            "tpot_ms" => self.tpot(value, all),
            "conn_reusable" => self.reuse(value),
            "max_wall_ms" => self.wall(value),
            // Of the whole run.
            "warning" => Ok(()),
            _ if SEEN_IN_EVENTS.contains(&name) => Ok(()),
            _ => Err("nobody looks at this".to_owned()),
        }
    }

    fn arrivals(&self) -> Vec<u64> {
        self.row.chunks.iter().flatten().map(|chunk| chunk.0).collect()
    }

    fn tokens(&self) -> Vec<u32> {
        self.row.chunks.iter().flatten().map(|chunk| chunk.1).collect()
    }

    /// A mark lies where the piece of that time arrived.
    fn near(&self, mark: Option<u64>, at_ms: &Value) -> Result<(), String> {
        let (Some(mark), Some(at_ms)) = (mark, at_ms.as_u64()) else {
            return is(json!(mark), at_ms);
        };
        let told_apart = self.ran.tells_apart(self.row, self.pieces);
        self.asked.near(mark + self.ran.facts.start_monotonic_ns, at_ms, told_apart)
    }

    /// Every output event has a time of its own, and those that came together the same.
    fn gaps(&self, gaps: &Value, first: &Value) -> Result<(), String> {
        let gaps: Vec<u64> = gaps.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        let arrivals = self.arrivals();
        let Some(mut at_ms) = first.as_u64() else {
            return is(json!(arrivals.len()), &json!(0));
        };
        is(json!(arrivals.len()), &json!(gaps.len() + 1))?;
        for (gap, pair) in gaps.into_iter().zip(arrivals.windows(2)) {
            at_ms += gap;
            self.near(Some(pair[1]), &json!(at_ms))?;
            if gap == 0 {
                is(json!(pair[1] - pair[0]), &json!(0))?;
            }
        }
        Ok(())
    }

    /// A gap is shared by the tokens of the later event, each of which is a sample.
    fn itl(&self, each_ms: &Value) -> Result<(), String> {
        let (arrivals, tokens) = (self.arrivals(), self.tokens());
        let samples = tokens[1..].iter().map(|&tokens| tokens as usize).sum::<usize>();
        is(json!(samples), &json!(each_ms.as_array().unwrap().len()))?;
        // The mean of all samples is the whole decode over all tokens but the first ones.
        let mean = (arrivals[arrivals.len() - 1] - arrivals[0]) as f64 / samples as f64;
        is(json!(self.request.tpot()), &json!(mean.round() as u64))
    }

    /// TPOT is the decode over as many tokens as the case says.
    fn tpot(&self, tpot_ms: &Value, all: &Value) -> Result<(), String> {
        let Some(tpot_ms) = tpot_ms.as_f64() else {
            return is(json!(self.request.tpot()), &Value::Null);
        };
        let decode_ms = all["last_token_ms"].as_f64().unwrap() - all["ttft_ms"].as_f64().unwrap();
        let decode = self.row.last_token.unwrap() - self.row.first_token.unwrap();
        let tokens = (decode_ms / tpot_ms).round();
        let expected = if tpot_ms > 0.0 { decode as f64 / tokens } else { 0.0 };
        is(json!(self.request.tpot()), &json!(expected.round() as u64))
    }

    /// The next request of the same user is on the same connection, or on a new one.
    fn reuse(&self, reusable: &Value) -> Result<(), String> {
        let Some(next) = self.next else { return Ok(()) };
        is(json!(next.reused), reusable)?;
        is(json!(next.connection == self.row.connection), reusable)
    }

    /// Its user is free in time.
    fn wall(&self, most_ms: &Value) -> Result<(), String> {
        let begun = self.row.dispatched.unwrap();
        let free = self.next.map_or(self.ran.facts.end, |next| next.intended);
        let took = free - begun;
        // A second for a busy machine: what must not happen takes for ever.
        if took > (most_ms.as_u64().unwrap() + 1000) * MS {
            return Err(format!("{} ms", took / MS));
        }
        Ok(())
    }
}

/// Both are the same as JSON.
fn is(seen: Value, expected: &Value) -> Result<(), String> {
    if seen == *expected { Ok(()) } else { Err(seen.to_string()) }
}

/// The text holds the expected words or number.
fn holds(text: &str, expected: &Value) -> Result<(), String> {
    let word = expected.as_str().map_or_else(|| expected.to_string(), str::to_owned);
    if text.contains(&word) { Ok(()) } else { Err(format!("{text:?}")) }
}
