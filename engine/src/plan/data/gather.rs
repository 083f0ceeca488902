//! Entries as they are read: checked against those before, filtered, counted and put away.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;

use super::Count;
use super::entry::{Content, Entry};
use super::error::DataError;
use super::reader::{Reader, goes_on, is_whole};
use super::records::{Place, Record};
use super::report::{BAD_LINES_KEPT, BadLine, DataReport};
use super::spool::Writer;
use super::stamps::shown;
use crate::plan::INPUT_TOKENS_MAX;
use crate::workload::{DataSpec, OnBadLine};

/// Most entries of a data set.
const ENTRIES_MAX: u64 = u32::MAX as u64;

/// Where an entry lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lies {
    /// The piece that it begins with.
    pub(super) piece: u32,
    /// Its requests, those of further pieces included.
    pub(super) turns: u32,
}

/// What was put away.
pub(super) struct Kept {
    pub(super) writer: Writer,
    pub(super) index: Vec<Lies>,
    /// Further pieces of entries that go on, in order.
    pub(super) more: HashMap<u32, Vec<u32>>,
    /// Since the first entry, in ns; empty unless every entry has one.
    pub(super) times: Vec<u64>,
}

/// Why an entry is not kept.
enum Refused {
    /// Its line is bad.
    Line(String),
    /// Nothing can be kept.
    All(DataError),
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self::Line(reason)
    }
}

/// A session that was met.
#[derive(Clone, Copy)]
struct Session {
    /// Its entry; none if that was left out for its length.
    entry: Option<u32>,
    /// Where.
    number: u64,
}

/// The sessions that were met, by two hashes of 64 bits: their names may be many and long.
#[derive(Default)]
struct Sessions {
    hashers: (RandomState, RandomState),
    met: HashMap<(u64, u64), Session>,
}

impl Sessions {
    fn find(&self, name: &str) -> Option<Session> {
        self.met.get(&self.key(name)).copied()
    }

    fn add(&mut self, name: &str, session: Session) {
        self.met.entry(self.key(name)).or_insert(session);
    }

    fn key(&self, name: &str) -> (u64, u64) {
        (self.hashers.0.hash_one(name), self.hashers.1.hash_one(name))
    }
}

/// Takes records and puts entries away.
pub(super) struct Gather<'a> {
    spec: &'a DataSpec,
    pub(super) reader: Reader<'a>,
    count: Option<&'a Count<'a>>,
    /// Told of each bad line; where there is someone to tell, entries are not put away.
    tell: Option<&'a mut dyn FnMut(&BadLine)>,
    pub(super) report: DataReport,
    pub(super) kept: Kept,
    sessions: Sessions,
    pub(super) first_ns: Option<u64>,
    last_ns: Option<u64>,
    pub(super) untimed: u64,
    pub(super) going_on: u64,
    pub(super) failed: Option<DataError>,
    line: Vec<u8>,
}

impl<'a> Gather<'a> {
    pub(super) fn new(
        spec: &'a DataSpec,
        reader: Reader<'a>,
        count: Option<&'a Count<'a>>,
        tell: Option<&'a mut dyn FnMut(&BadLine)>,
        memory_max: usize,
    ) -> Self {
        Self {
            spec,
            reader,
            count,
            tell,
            report: DataReport::new(spec.format),
            kept: Kept {
                writer: Writer::new(memory_max),
                index: Vec::new(),
                more: HashMap::new(),
                times: Vec::new(),
            },
            sessions: Sessions::default(),
            first_ns: None,
            last_ns: None,
            untimed: 0,
            going_on: 0,
            failed: None,
            line: Vec::new(),
        }
    }

    /// Takes a record; says whether more are wanted.
    pub(super) fn take(
        &mut self,
        place: Place<'_>,
        record: Result<Record, String>,
    ) -> ControlFlow<()> {
        self.report.lines += 1;
        let kept = match record.and_then(|record| self.reader.entry(record)) {
            Ok(Some(entry)) => self.keep(place, entry),
            Ok(None) => Ok(()),
            Err(reason) => Err(reason.into()),
        };
        match kept {
            Err(Refused::All(error)) => {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
            // Beyond the limit only further turns of what was kept are looked for.
            Err(Refused::Line(_)) if self.is_full() => {}
            Err(Refused::Line(reason)) => self.bad(place, reason),
            Ok(()) => {}
        }
        if self.is_full() && self.sessions.met.is_empty() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn bad(&mut self, place: Place<'_>, reason: String) {
        let Place { file, unit, number } = place;
        let bad = BadLine { file: file.to_owned(), unit, number, reason };
        self.report.skipped += 1;
        if let Some(tell) = &mut self.tell {
            tell(&bad);
        }
        if self.report.first_skipped.len() < BAD_LINES_KEPT {
            self.report.first_skipped.push(bad);
        }
    }

    fn is_full(&self) -> bool {
        self.spec.limit.is_some_and(|limit| self.report.entries >= limit)
    }

    fn keep(&mut self, place: Place<'_>, mut entry: Entry) -> Result<(), Refused> {
        let before = entry.session.as_deref().and_then(|session| self.sessions.find(session));
        let format = self.reader.format();
        let may_go_on = goes_on(format) && entry.timestamp_ns.is_none();
        if let Some(session) = before.filter(|_| may_go_on) {
            return self.go_on(place, session.entry, entry);
        }
        if self.is_full() {
            return Ok(());
        }
        let is_double = entry.turns.len() > 1 || entry.timestamp_ns.is_none();
        if let Some(first) = before.filter(|_| is_whole(format) && is_double) {
            let session = shown(&entry.session.unwrap_or_default());
            let (word, number) = (place.unit.word(), first.number);
            return Err(format!("session {session} is there already, on {word} {number}").into());
        }
        self.check_time(&entry)?;
        if self.spec.single_turn {
            self.report.dropped_turns += entry.turns.len().saturating_sub(1) as u64;
            entry.turns.truncate(1);
        }
        self.count(&mut entry)?;
        self.check_context(&entry)?;
        let fits = self.fits(place, &entry)?;
        let number = if fits { Some(self.put_away(&entry)?) } else { None };
        self.last_ns = entry.timestamp_ns.or(self.last_ns);
        if let Some(session) = entry.session.filter(|_| goes_on(format) || is_whole(format)) {
            self.sessions.add(&session, Session { entry: number, number: place.number });
        }
        Ok(())
    }

    /// Adds a further turn to an entry that was kept.
    fn go_on(
        &mut self,
        place: Place<'_>,
        first: Option<u32>,
        mut entry: Entry,
    ) -> Result<(), Refused> {
        if self.spec.is_trace && !self.spec.ignore_times && entry.turns[0].delay_ns.is_none() {
            let reason = "no `timestamp` and no `delay`: a trace needs one on every line";
            return Err(reason.to_owned().into());
        }
        self.going_on += 1;
        if self.spec.single_turn {
            self.report.dropped_turns += entry.turns.len() as u64;
            return Ok(());
        }
        self.count(&mut entry)?;
        let fits = self.fits(place, &entry)?;
        let Some(first) = first.filter(|_| fits) else {
            self.report.filtered += u64::from(fits);
            return Ok(());
        };
        let turns = entry.turns.len();
        let piece = self.piece(&entry)?;
        self.kept.more.entry(first).or_default().push(piece);
        if let Some(lies) = self.kept.index.get_mut(first as usize) {
            lies.turns = lies.turns.saturating_add(turns as u32);
        }
        self.report.turns += turns as u64;
        Ok(())
    }

    fn check_time(&self, entry: &Entry) -> Result<(), String> {
        match (entry.timestamp_ns, self.last_ns) {
            (None, _) if self.spec.is_trace && !self.spec.ignore_times => {
                Err("no `timestamp`: a trace needs one on every line".to_owned())
            }
            (Some(time), Some(last)) if time < last => Err(format!(
                "its time lies {} s before that of an earlier line: sort the lines by time",
                (last - time) as f64 / 1e9
            )),
            _ => Ok(()),
        }
    }

    /// Whether a conversation of known lengths fits the model's context to its last answer.
    fn check_context(&self, entry: &Entry) -> Result<(), String> {
        let Some(most) = self.spec.max_context else { return Ok(()) };
        let mut before = 0;
        for (turn, number) in entry.turns.iter().zip(1..) {
            let Some(input) = turn.input_tokens.map(u64::from) else { return Ok(()) };
            let is_whole = matches!(turn.content, Content::Messages(_) | Content::Body(_));
            let input = if is_whole { input } else { before + input };
            let output = turn.output_tokens.map_or(1, u64::from);
            if input + output > most {
                let turn = match entry.turns.len() {
                    1 => String::new(),
                    _ => format!("turn {number}: "),
                };
                return Err(format!(
                    "{turn}{input} input and {output} output tokens do not fit the context of \
                     {most} (--max-context)"
                ));
            }
            before = input + output;
        }
        Ok(())
    }

    fn count(&self, entry: &mut Entry) -> Result<(), String> {
        let Some(count) = self.count else { return Ok(()) };
        let system = entry.system.as_deref().map_or(0, count);
        let turns = entry.turns.iter_mut().enumerate();
        for (number, turn) in turns.filter(|(_, turn)| turn.input_tokens.is_none()) {
            let system = if number == 0 { system } else { 0 };
            let tokens = turn.count(count).map(|tokens| tokens + system).filter(|all| *all > 0);
            if let Some(tokens) = tokens.filter(|tokens| *tokens > u64::from(INPUT_TOKENS_MAX)) {
                let most = INPUT_TOKENS_MAX;
                return Err(format!("a text of {tokens} tokens: at most {most} can be sent"));
            }
            turn.input_tokens = tokens.and_then(|tokens| u32::try_from(tokens).ok());
        }
        Ok(())
    }

    /// Whether all turns are of the lengths that are wanted; counts an entry that is not.
    fn fits(&mut self, place: Place<'_>, entry: &Entry) -> Result<bool, Refused> {
        if self.tell.is_some() {
            return Ok(true);
        }
        let spec = self.spec;
        for turn in &entry.turns {
            let answer = turn.answer.as_deref();
            let counted = || self.count.zip(answer).map(|(count, answer)| count(answer));
            let output = turn.output_tokens.map(u64::from).or_else(counted);
            let input = turn.input_tokens.map(u64::from);
            for (what, tokens, min, max) in [
                ("input", input, spec.min_input, spec.max_input),
                ("output", output, spec.min_output, spec.max_output),
            ] {
                if min.is_none() && max.is_none() {
                    continue;
                }
                let tokens = tokens.ok_or_else(|| uncounted(place, what))?;
                if min.is_some_and(|min| tokens < min) || max.is_some_and(|max| tokens > max) {
                    self.report.filtered += 1;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn put_away(&mut self, entry: &Entry) -> Result<u32, Refused> {
        if self.report.entries >= ENTRIES_MAX {
            let reason = format!("more than {ENTRIES_MAX} entries, which is more than can be held");
            return Err(reason.into());
        }
        let piece = self.piece(entry)?;
        let turns = u32::try_from(entry.turns.len()).unwrap_or(u32::MAX);
        let number = self.report.entries as u32;
        self.report.entries += 1;
        self.report.turns += u64::from(turns);
        match entry.timestamp_ns {
            Some(time) => {
                let first = *self.first_ns.get_or_insert(time);
                self.kept.times.push(time.saturating_sub(first));
            }
            None => self.untimed += 1,
        }
        if self.tell.is_none() {
            self.kept.index.push(Lies { piece, turns });
        }
        Ok(number)
    }

    fn piece(&mut self, entry: &Entry) -> Result<u32, Refused> {
        if self.tell.is_some() {
            return Ok(0);
        }
        self.line.clear();
        entry.write(&mut self.line);
        let piece = self.kept.writer.add(&self.line);
        let piece = piece.map_err(|error| Refused::All(DataError::Spool(error)))?;
        u32::try_from(piece).map_err(|_| Refused::Line("more turns than can be held".to_owned()))
    }

    /// Whether lines were bad that must not be.
    pub(super) fn has_failed(&self) -> bool {
        self.spec.on_bad_line == OnBadLine::Fail && self.tell.is_none() && self.report.skipped > 0
    }
}

fn uncounted(place: Place<'_>, what: &'static str) -> Refused {
    Refused::All(DataError::Uncounted {
        file: place.file.to_owned(),
        place: format!("{} {}", place.unit.word(), place.number),
        what,
    })
}
