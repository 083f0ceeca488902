//! What a server says of its own work on one request.

/// A time that a server may tell of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// From its arrival to the start of the work on it.
    Queue,
    /// The work on its prompt.
    Prefill,
    /// To its first token: since when depends on the [`Source`].
    Ttft,
    /// From the first token, or the end of the prefill, to the last token.
    Decode,
    /// All of it.
    E2e,
    /// Moving its KV cache from the prefill to the decode server.
    KvTransfer,
    /// The mean gap between its tokens.
    MeanItl,
    /// When it came, on the server's clock, since 1970.
    ReceivedAt,
    /// When its answer was sent, likewise.
    SentAt,
}

/// Where such times stand in an answer, which decides what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `timings` of llama.cpp.
    LlamacppTimings,
    /// `metrics` of vLLM.
    VllmMetrics,
    /// `meta_info` of SGLang.
    SglangMetaInfo,
    /// `nvext.timing` of Dynamo.
    DynamoNvext,
    /// The last line of Ollama.
    Ollama,
    /// The header `Server-Timing`, or what a server sends in its place after a stream.
    ServerTiming,
    /// Another header.
    Header,
}

/// What a server told of one request, ns. Absent is what it did not tell, or what is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTimes {
    /// By [`Time`]; [`ABSENT`] where it is not known.
    ns: [u64; KINDS],
    source: Source,
}

/// How many kinds of times there are.
const KINDS: usize = 9;
/// No number here is so large.
const ABSENT: u64 = u64::MAX;
/// The longest time that is taken for one, ns: signed numbers hold it as well.
const LONGEST: f64 = 9e18;

impl Default for ServerTimes {
    /// Nothing is known.
    fn default() -> Self {
        Self::of(Source::Header)
    }
}

impl ServerTimes {
    /// Nothing is known yet; what will be stands there.
    pub fn of(source: Source) -> Self {
        Self { ns: [ABSENT; KINDS], source }
    }

    /// Where they stood.
    pub fn source(&self) -> Source {
        self.source
    }

    /// One of them, ns.
    #[inline]
    pub fn get(&self, time: Time) -> Option<u64> {
        Some(self.ns[time as usize]).filter(|ns| *ns != ABSENT)
    }

    /// Is any of them known?
    #[inline]
    pub fn is_known(&self) -> bool {
        self.ns.iter().any(|ns| *ns != ABSENT)
    }

    /// Notes one of them; what is no time leaves it as it was.
    pub(crate) fn set(&mut self, time: Time, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.ns[time as usize] = ns;
        }
    }

    /// Forgets one of them.
    pub(crate) fn unset(&mut self, time: Time) {
        self.ns[time as usize] = ABSENT;
    }

    /// Takes what a later part of the answer told: it outweighs what was known.
    #[inline]
    pub(crate) fn take(&mut self, later: &Self) {
        if !later.is_known() {
            return;
        }
        if later.source != self.source {
            *self = *later;
            return;
        }
        for (known, later) in self.ns.iter_mut().zip(later.ns) {
            if later != ABSENT {
                *known = later;
            }
        }
    }
}

/// The unit in which a server writes a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Nanos,
}

impl Unit {
    /// The time that `text` is in this unit, ns; `None` if it is no number, or negative, or beyond
    /// every time.
    pub(crate) fn ns(self, text: &str) -> Option<u64> {
        // The standard parser also takes words such as `inf`, and a sign.
        if !text.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let places = match self {
            Self::Seconds => 9,
            Self::Millis => 6,
            Self::Nanos => 0,
        };
        let plain = shifted(text, places);
        plain.or_else(|| {
            let ns = text.parse::<f64>().ok()? * 10_f64.powi(places as i32);
            (0.0..=LONGEST).contains(&ns).then(|| ns.round() as u64)
        })
    }
}

/// A number without sign and exponent, its point moved right by so many places, exactly; what is
/// smaller than one is left out. A double would not hold a moment to the last digit.
fn shifted(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut all = whole.bytes().chain(fraction.bytes());
    if whole.is_empty() || !all.all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.bytes().chain(std::iter::repeat(b'0')).take(places);
    let number = whole
        .bytes()
        .chain(fraction)
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    (number <= LONGEST as u64).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["", "-1", "-0.5", "1e400", "NaN", "inf", "\"5\"", "null", "true", "+1", "1 "] {
            assert_eq!(Unit::Millis.ns(text), None, "{text}");
        }
        assert_eq!(Unit::Millis.ns("1e30"), None);
        assert_eq!(Unit::Millis.ns("12.5"), Some(12_500_000));
        assert_eq!(Unit::Seconds.ns("0"), Some(0));
        assert_eq!(Unit::Nanos.ns("7"), Some(7));
        assert_eq!(Unit::Seconds.ns("1767225600.1234567"), Some(1_767_225_600_123_456_700));
        assert_eq!(Unit::Millis.ns("1.5e3"), Some(1_500_000_000));
        assert_eq!(Unit::Millis.ns("0.12345678"), Some(123_456));
        assert_eq!(Unit::Nanos.ns("9100000000000000000"), None);
        assert_eq!(Unit::Nanos.ns("99999999999999999999"), None);
        assert_eq!(Unit::Millis.ns("1.x"), None);
    }

    #[test]
    fn later_ones_outweigh_and_those_of_another_place_replace() {
        let mut known = ServerTimes::of(Source::SglangMetaInfo);
        known.set(Time::Queue, Some(1));
        let mut later = ServerTimes::of(Source::SglangMetaInfo);
        later.set(Time::E2e, Some(5));
        known.take(&later);
        assert_eq!((known.get(Time::Queue), known.get(Time::E2e)), (Some(1), Some(5)));
        known.take(&ServerTimes::of(Source::Ollama));
        assert_eq!(known.source(), Source::SglangMetaInfo);
        let mut other = ServerTimes::of(Source::VllmMetrics);
        other.set(Time::Ttft, Some(2));
        known.take(&other);
        assert_eq!((known.get(Time::Queue), known.get(Time::Ttft)), (None, Some(2)));
    }
}
