//! What a coordinator and its workers say to each other: one JSON object a line. Workers listen on
//! nothing; the lines go over whatever started them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::Snapshot;
use crate::workload::Shard;

/// Version of what is said. Both sides must have the same.
pub const PROTOCOL: u32 = 1;

/// What a coordinator asks of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Request {
    /// Who are you?
    Hello,
    /// What is your time? Answered at any moment, during a load too.
    Clock {
        /// Comes back with the answer.
        id: u64,
    },
    /// Get ready for a load.
    Prepare {
        /// Where its results go, such as `levels/03`.
        name: String,
        /// The options, as the text of a `run.toml`.
        options: String,
        /// Which part of the load it is.
        #[serde(with = "shard_text")]
        shard: Shard,
    },
    /// Begin.
    Start {
        /// When, CLOCK_REALTIME of the worker, ns.
        at_realtime_ns: u64,
        /// Starts every request id.
        run_id: String,
    },
    /// Send no more, let what is in flight end.
    Stop,
    /// Cut what is in flight too.
    Cut,
    /// Send the files of the result.
    Fetch,
    /// Remove them.
    Forget,
    /// That was all.
    Bye,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Reply {
    /// Who it is.
    Hello {
        /// Version of what is said.
        protocol: u32,
        /// Version of the program.
        version: String,
        /// Name of the host.
        host: String,
        /// The host, as results describe it.
        facts: Value,
        /// The worker's process.
        pid: u32,
    },
    /// Its time.
    Clock {
        /// That of the question.
        id: u64,
        /// When the question came, CLOCK_REALTIME, ns.
        received_ns: u64,
        /// When this was sent, CLOCK_REALTIME, ns.
        sent_ns: u64,
    },
    /// All stands ready for the load.
    Ready {
        /// Hash of the plan of the whole load.
        plan: String,
        /// Its seed.
        seed: u64,
    },
    /// What was asked for cannot be done.
    Failed {
        /// The exit code that it would have been.
        code: u8,
        /// What is wrong, in one line.
        message: String,
    },
    /// How far the load is.
    Progress(Snapshot),
    /// The load is over and its result written.
    Done {
        /// The exit code that it would have been.
        code: u8,
        /// Where the result lies on that host.
        dir: String,
    },
    /// A piece of a file of the result.
    File {
        /// Name of the file.
        name: String,
        /// Base64 of the piece, which is deflated (zlib) on its own.
        data: String,
        /// The file ends with it.
        last: bool,
    },
    /// All files were sent.
    Fetched,
    /// They are removed.
    Forgotten,
    /// The process that carries out loads has ended, and nobody asked it to. What it wrote can be
    /// fetched.
    Died {
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
    /// A line that is no request, or one that does not fit here.
    Error {
        /// What is wrong with it.
        message: String,
    },
}

/// Reads one line.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn read<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

/// One line, with its end.
#[must_use]
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and JSON: nothing in a message can fail to be written.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A shard as `1/3`.
mod shard_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::workload::Shard;

    pub(super) fn serialize<S: Serializer>(shard: &Shard, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(shard)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Shard, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_document_shows_them() {
        let shard = Shard::new(1, 3).unwrap();
        let (name, options) = ("levels/03".to_owned(), "rate = 5\n".to_owned());
        for (request, text) in [
            (Request::Hello, r#"{"do":"hello"}"#),
            (Request::Clock { id: 7 }, r#"{"do":"clock","id":7}"#),
            (
                Request::Prepare { name, options, shard },
                r#"{"do":"prepare","name":"levels/03","options":"rate = 5\n","shard":"1/3"}"#,
            ),
            (
                Request::Start { at_realtime_ns: 1_700_000_000_000_000_001, run_id: "ab".into() },
                r#"{"do":"start","at_realtime_ns":1700000000000000001,"run_id":"ab"}"#,
            ),
            (Request::Bye, r#"{"do":"bye"}"#),
        ] {
            assert_eq!(line(&request), format!("{text}\n").into_bytes());
            assert_eq!(read::<Request>(text.as_bytes()).unwrap(), request);
        }
    }

    #[test]
    fn what_is_no_request_is_told_in_one_line() {
        for wrong in [
            "",
            "hello",
            "{}",
            r#"{"do":"dance"}"#,
            r#"{"do":"clock"}"#,
            r#"{"do":"clock","id":-1}"#,
            r#"{"do":"prepare","name":"x","options":"","shard":"3/3"}"#,
            "[1]",
        ] {
            let said = read::<Request>(wrong.as_bytes()).unwrap_err();
            assert!(!said.is_empty() && !said.contains('\n'), "{wrong}: {said}");
        }
        assert!(read::<Request>(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn counters_of_hosts_add_up() {
        let one = Snapshot { ok: 30, in_flight: 3, ttft_mean_ns: Some(100), ..Snapshot::default() };
        let two = Snapshot {
            ok: 10,
            elapsed_ns: 9,
            ttft_mean_ns: Some(200),
            planned: Some(5),
            ..Snapshot::default()
        };
        let all = Snapshot::of_all(&[one, two, Snapshot::default()]);
        assert_eq!((all.ok, all.in_flight, all.elapsed_ns), (40, 3, 9));
        assert_eq!(all.ttft_mean_ns, Some(125));
        assert_eq!(all.planned, None, "one of them does not know");
        assert_eq!(Snapshot::of_all(&[]).ttft_mean_ns, None);
    }

    #[test]
    fn a_worker_that_says_more_is_understood() {
        let text = br#"{"is":"progress","ok":3,"new":true}"#;
        let read = read::<Reply>(text).unwrap();
        assert_eq!(read, Reply::Progress(Snapshot { ok: 3, ..Snapshot::default() }));
    }
}
