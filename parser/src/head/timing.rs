//! Header fields in which servers, and what stands before them, tell how long something took.

use crate::times::{ServerTimes, Source, Time, Unit};

/// What the header fields of an answer tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadTimes {
    /// Those whose meaning is known.
    pub times: ServerTimes,
    /// All of them by the name they have there, ns: the first so many.
    pub named: Vec<(String, u64)>,
}

/// Names that are kept, at most, and bytes of one.
const NAMED_MAX: usize = 16;
const NAME_MAX: usize = 64;

/// Fields that hold one number: its unit, and what it is, where that is certain.
const FIELDS: [(&str, Unit, Option<Time>); 8] = [
    ("x-compute-time", Unit::Seconds, None),
    ("x-total-time", Unit::Millis, Some(Time::E2e)),
    ("x-validation-time", Unit::Millis, None),
    ("x-queue-time", Unit::Millis, Some(Time::Queue)),
    ("x-inference-time", Unit::Millis, None),
    ("x-time-per-token", Unit::Millis, Some(Time::MeanItl)),
    ("openai-processing-ms", Unit::Millis, Some(Time::E2e)),
    // Of the way to the first byte of the head: what that is depends on the server.
    ("x-envoy-upstream-service-time", Unit::Millis, None),
];

/// Takes a header field if it tells a time.
#[inline]
pub(super) fn take(into: &mut Option<Box<HeadTimes>>, name: &str, value: &[u8]) {
    // Most fields are of no interest, and begin with other letters.
    if matches!(name.as_bytes().first(), Some(b's' | b'S' | b'x' | b'X' | b'o' | b'O')) {
        take_any(into, name, value);
    }
}

fn take_any(into: &mut Option<Box<HeadTimes>>, name: &str, value: &[u8]) {
    let Ok(value) = std::str::from_utf8(value) else { return };
    if name.eq_ignore_ascii_case("server-timing") {
        take_server_timing(into, value);
        return;
    }
    let field = FIELDS.iter().find(|(field, ..)| name.eq_ignore_ascii_case(field));
    let Some((field, unit, time)) = field else { return };
    let Some(ns) = unit.ns(value.trim()) else { return };
    let into = into.get_or_insert_default();
    into.keep(field, ns);
    into.first(*time, ns);
}

/// Takes the entries of a `Server-Timing` field (W3C Server Timing): `name;dur=12.5;desc="..."`,
/// with commas between them.
pub(crate) fn take_server_timing(into: &mut Option<Box<HeadTimes>>, value: &str) {
    let mut rest = value;
    while !rest.is_empty() {
        let (entry, after) = cut(rest, b',');
        rest = after;
        if let Some((name, ns)) = entry_of(entry) {
            let into = into.get_or_insert_default();
            if into.times.source() != Source::ServerTiming {
                into.times = ServerTimes::of(Source::ServerTiming);
            }
            into.keep(name, ns);
            into.first(meaning(name), ns);
        }
    }
}

impl HeadTimes {
    fn keep(&mut self, name: &str, ns: u64) {
        if self.named.len() < NAMED_MAX {
            self.named.push((name.to_owned(), ns));
        }
    }

    /// Of several of one meaning the first counts.
    fn first(&mut self, time: Option<Time>, ns: u64) {
        if let Some(time) = time.filter(|time| self.times.get(*time).is_none()) {
            self.times.set(time, Some(ns));
        }
    }

    /// The head of a stream comes before its end.
    pub(super) fn of_stream(&mut self) {
        self.times.unset(Time::E2e);
        self.times.unset(Time::Decode);
        self.times.unset(Time::MeanItl);
    }
}

/// The name of an entry and its time; `None` if it has no time.
fn entry_of(entry: &str) -> Option<(&str, u64)> {
    let (name, mut rest) = cut(entry, b';');
    let name = name.trim();
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name) {
        return None;
    }
    while !rest.is_empty() {
        let (parameter, after) = cut(rest, b';');
        rest = after;
        let Some((key, value)) = parameter.split_once('=') else { continue };
        if key.trim().eq_ignore_ascii_case("dur") {
            let ns = Unit::Millis.ns(value.trim().trim_matches('"').trim());
            return ns.map(|ns| (name, ns));
        }
    }
    None
}

/// What stands before the first `mark` outside of quotes, and what stands after it.
fn cut(text: &str, mark: u8) -> (&str, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == mark && !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// What an entry of this name is, where the name says it. An orchestrator puts a word for each of its
/// servers before the names; of the whole request it is this one.
fn meaning(name: &str) -> Option<Time> {
    let whole = name.strip_prefix("disagg_").unwrap_or(name);
    match whole.strip_prefix("server_").unwrap_or(whole) {
        "queue" => Some(Time::Queue),
        "prefill" => Some(Time::Prefill),
        "ttft" => Some(Time::Ttft),
        "decode" => Some(Time::Decode),
        "e2e" => Some(Time::E2e),
        "kv_transfer" | "gen_server_kv_transfer" => Some(Time::KvTransfer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Option<HeadTimes> {
        let mut times = None;
        fields.iter().for_each(|(name, value)| take(&mut times, name, value.as_bytes()));
        times.map(|times| *times)
    }

    #[test]
    fn entries_of_server_timing_in_one_field_or_several() {
        let fields = [
            ("Server-Timing", "server_queue;dur=1.5, server_ttft;desc=\"a, b; c\" ; DUR=\"20\""),
            ("server-timing", "server_e2e;dur=90,cache;desc=hit;dur=0.25,miss"),
        ];
        let head = head(&fields).unwrap();
        let times = &head.times;
        assert_eq!(times.source(), Source::ServerTiming);
        assert_eq!(times.get(Time::Queue), Some(1_500_000));
        assert_eq!(times.get(Time::Ttft), Some(20_000_000));
        assert_eq!(times.get(Time::E2e), Some(90_000_000));
        let names: Vec<&str> = head.named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["server_queue", "server_ttft", "server_e2e", "cache"]);
        assert_eq!(head.named[3].1, 250_000);
    }

    #[test]
    fn fields_of_one_number() {
        let fields = [
            ("x-compute-time", "0.25"),
            ("X-Total-Time", "250"),
            ("x-queue-time", "3"),
            ("x-time-per-token", "12"),
        ];
        let head = head(&fields).unwrap();
        assert_eq!(head.times.source(), Source::Header);
        assert_eq!(head.times.get(Time::Queue), Some(3_000_000));
        assert_eq!(head.times.get(Time::E2e), Some(250_000_000));
        assert_eq!(head.times.get(Time::MeanItl), Some(12_000_000));
        assert_eq!(head.named[0], ("x-compute-time".to_owned(), 250_000_000));
    }

    #[test]
    fn what_is_broken_is_no_time_and_takes_no_room() {
        for value in [
            "",
            ",",
            ";",
            ";dur=5",
            "a",
            "a;dur",
            "a;dur=",
            "a;dur=-5",
            "a;dur=1e400",
            "a;dur=NaN",
            "a;dur=x;dur=5",
            "a b\u{e9};dur=5",
            "\"a;dur=5",
        ] {
            assert_eq!(head(&[("Server-Timing", value)]), None, "{value}");
        }
        for value in ["", "-1", "soon", "1e400", "NaN"] {
            assert_eq!(head(&[("openai-processing-ms", value)]), None, "{value}");
        }
        assert_eq!(head(&[("X-Total-Times", "5"), ("Server", "x"), ("Other", "5")]), None);
        let long = format!("{};dur=1", "n".repeat(65));
        assert_eq!(head(&[("Server-Timing", &long)]), None);
    }

    #[test]
    fn of_many_entries_the_first_are_kept_and_all_that_mean_something() {
        let many: String = (0..100).map(|number| format!("n{number};dur=1,")).collect();
        let head = head(&[("Server-Timing", &(many + "server_ttft;dur=7"))]).unwrap();
        assert_eq!(head.named.len(), NAMED_MAX);
        assert_eq!(head.times.get(Time::Ttft), Some(7_000_000));
    }
}
