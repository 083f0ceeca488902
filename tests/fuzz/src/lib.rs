//! What must hold of every reader for any input: one read gives what any split gives.
//!
//! The first bytes of an input choose the settings and the split, the rest is what is read. The
//! fuzz targets call these functions with what the fuzzer makes up; an ordinary test replays the
//! corpus through them.

use std::io::{self, Read};
use std::sync::Arc;

use tokclock_engine::plan::data::DataSet;
use tokclock_engine::shard::lines::{Lines, Read as LineRead};
use tokclock_engine::shard::message::{self, Reply, Request};
use tokclock_engine::shard::{ShardFile, read_seconds_of};
use tokclock_engine::telemetry::server::{Counter, Gauge, Pair, counted};
use tokclock_engine::workload::{DataSpec, Format, OnBadLine, Source};
use tokclock_parser::answer::{Answer, Limits, Settings};
use tokclock_parser::body::{Body, Part};
use tokclock_parser::dialect::{Decoder, Dialect, Places, Template};
use tokclock_parser::head::{self, Framing};
use tokclock_parser::ndjson::Ndjson;
use tokclock_parser::sse::Sse;

/// A head is found as soon as it is whole, and stays what it is whatever follows.
pub fn head(input: &[u8]) {
    const HEAD_BYTES_MAX: usize = 512;
    let whole = head::read(input, HEAD_BYTES_MAX);
    for shown in 0..input.len() {
        match (head::read(&input[..shown], HEAD_BYTES_MAX), &whole) {
            (Ok(step), Ok(whole)) if step.item.is_some() => assert_eq!(step, *whole),
            (Ok(step), Ok(whole)) => assert!(whole.item.is_none() || step.used < whole.used),
            (Ok(step), Err(_)) => assert!(step.item.is_none(), "{step:?}"),
            (Err(error), whole) => assert_eq!(Err(error), *whole),
        }
    }
}

/// Payload, end and errors of a body do not depend on the split.
pub fn body(input: &[u8]) {
    let [framing, seed, wire @ ..] = input else { return };
    let framing = match framing {
        0..200 => Framing::Chunked,
        200 => Framing::UntilClose,
        length => Framing::Length(u64::from(length - 200)),
    };
    let one = body_in_pieces(framing, wire, &[wire.len()]);
    assert_eq!(body_in_pieces(framing, wire, &split(wire.len(), *seed)), one);
}

fn body_in_pieces(framing: Framing, wire: &[u8], pieces: &[usize]) -> (Vec<u8>, String) {
    let mut body = Body::new(framing);
    let (mut payload, mut base) = (Vec::new(), 0);
    for piece in pieces_of(wire, pieces) {
        let mut left = piece;
        loop {
            match body.step(left) {
                Ok(step) => {
                    left = &left[step.used..];
                    base += step.used;
                    match step.item {
                        Some(Part::Data(data)) => payload.extend_from_slice(data),
                        Some(Part::End) => return (payload, format!("end at {base}")),
                        None => break,
                    }
                }
                Err(error) => return (payload, format!("{:?} at {}", error.kind, base + error.at)),
            }
        }
        assert!(left.is_empty(), "without an item all is used");
    }
    let closed = body.eof();
    (payload, format!("closed {closed:?}"))
}

/// Whatever the files of a shard hold: what is read of them is sound, and no line of `seconds.hlog`
/// counts without being whole.
pub fn shard(input: &[u8]) {
    if let Ok(file) = ShardFile::read(input) {
        assert_eq!(file.start(), file.clock[0]);
        assert!(file.steps().len() < file.clock.len());
    }
    let count = |log: &[u8]| {
        let mut lines = 0_usize;
        let read = read_seconds_of(log, &mut |_, _, values| {
            lines += 1;
            assert!(values.is_empty() || values.max() >= values.min());
        });
        read.map(|()| lines)
    };
    let all = count(input);
    let cut = input.split_last().map_or(Ok(0), |(_, cut)| count(cut));
    if let (Ok(all), Ok(cut)) = (&all, &cut) {
        assert!(cut <= all);
    }
}

/// Events and errors of a stream do not depend on the split.
pub fn sse(input: &[u8]) {
    let [limit, seed, wire @ ..] = input else { return };
    let limit = usize::from(*limit);
    let one = sse_in_pieces(limit, wire, &[wire.len()]);
    assert_eq!(sse_in_pieces(limit, wire, &split(wire.len(), *seed)), one);
}

fn sse_in_pieces(limit: usize, wire: &[u8], pieces: &[usize]) -> Vec<String> {
    let mut sse = Sse::new(limit);
    let (mut found, mut base) = (Vec::new(), 0);
    for mut left in pieces_of(wire, pieces) {
        loop {
            match sse.step(left) {
                Ok(step) => {
                    left = &left[step.used..];
                    base += step.used;
                    let Some(message) = step.item else { break };
                    found.push(format!("{message:?} at {base}"));
                }
                Err(error) => {
                    // It may lie in an earlier piece.
                    found.push(format!("{:?} at {}", error.kind, error.at.wrapping_add(base)));
                    return found;
                }
            }
        }
    }
    match sse.eof() {
        Ok(last) => found.push(format!("last {last:?}")),
        Err(error) => found.push(format!("last {:?}", error.kind)),
    }
    found.push(format!("{} strange", sse.strange_lines()));
    found
}

/// Lines and errors of a stream of lines do not depend on the split.
pub fn ndjson(input: &[u8]) {
    let [limit, seed, wire @ ..] = input else { return };
    let limit = usize::from(*limit);
    let one = lines_in_pieces(limit, wire, &[wire.len()]);
    assert_eq!(lines_in_pieces(limit, wire, &split(wire.len(), *seed)), one);
}

fn lines_in_pieces(limit: usize, wire: &[u8], pieces: &[usize]) -> Vec<String> {
    let mut lines = Ndjson::new(limit);
    let (mut found, mut base) = (Vec::new(), 0);
    for mut left in pieces_of(wire, pieces) {
        loop {
            match lines.step(left) {
                Ok(step) => {
                    left = &left[step.used..];
                    base += step.used;
                    let Some(line) = step.item else { break };
                    found.push(format!("{line:?} at {base}"));
                }
                Err(error) => {
                    found.push(format!("{:?} at {}", error.kind, error.at.wrapping_add(base)));
                    return found;
                }
            }
        }
    }
    found.push(format!("last {:?}", lines.eof()));
    found
}

/// Signals, errors and findings of a whole response do not depend on the split, nor on what the
/// machine read before.
pub fn answer(input: &[u8]) {
    let [choice, seed, wire @ ..] = input else { return };
    let settings = Settings {
        dialect: match choice & 1 {
            0 => Dialect::OpenaiChat,
            _ => Dialect::OpenaiCompletions,
        },
        stream: choice & 2 == 0,
        limits: limits(choice & 4 != 0),
    };
    same_in_any_pieces(&settings, wire, *seed);
}

/// Likewise in this dialect for the body of a response, whose kind the first byte chooses; and what
/// an event means does not depend on which shapes are known.
pub fn dialect(dialect: &Dialect, input: &[u8]) {
    let [choice, seed, body @ ..] = input else { return };
    let settings = Settings {
        dialect: dialect.clone(),
        stream: choice & 1 == 0,
        limits: limits(choice & 2 != 0),
    };
    let kind = match choice >> 2 & 3 {
        0 => "Content-Type: text/event-stream\r\n",
        1 => "Content-Type: application/x-ndjson\r\n",
        2 => "Content-Type: application/json\r\n",
        _ => "",
    };
    let wire = [format!("HTTP/1.1 200 OK\r\n{kind}\r\n").as_bytes(), body].concat();
    same_in_any_pieces(&settings, &wire, *seed);
    same_without_shapes(dialect, body);
}

/// Likewise in a dialect that is described: the upper half of the first byte chooses how.
pub fn template(input: &[u8]) {
    let Some(choice) = input.first() else { return };
    let one = |pointer: &str| vec![pointer.to_owned()];
    let usual = Places {
        text: vec!["/out/0/text".to_owned(), "/text".to_owned()],
        reasoning: one("/out/0/think"),
        tokens: one("/ids"),
        input_tokens: one("/in"),
        output_tokens: one("/n"),
        finish: one("/why"),
        done: one("/last"),
        ..Places::default()
    };
    let places = match choice >> 4 & 7 {
        0 => usual,
        1 => Places { cumulative: true, ..usual },
        2 => Places { text: one(""), done_line: Some("\"END\"".to_owned()), ..Places::default() },
        3 => Places { text: one("/text"), finish: one("/text"), ..Places::default() },
        4 => Places { done_line: Some("{\"text\":\"END\"}".to_owned()), ..usual },
        5 => Places { tokens: one("/n"), text: one("/text/text"), error: one("/text"), ..usual },
        6 => Places { text: one("/~0~1/"), cumulative: true, ends_with_body: true, ..usual },
        _ => Places { text: one("/1"), done_line: Some("END".to_owned()), ..Places::default() },
    };
    let Ok(template) = Template::new(places) else { unreachable!("all of these are sound") };
    dialect(&Dialect::Template(Arc::new(template)), input);
}

/// Entries, report and errors of a data set do not depend on the split, and what was read is read
/// again from its normal form. The first byte chooses the ending of the file and the format.
pub fn data(input: &[u8]) {
    let [choice, seed, text @ ..] = input else { return };
    let choice = usize::from(*choice);
    let name = ["d.jsonl", "d.csv", "d.json", "d"][choice % 4];
    let format = Format::ALL[choice / 4 % Format::ALL.len()];
    let spec = DataSpec { format, on_bad_line: OnBadLine::Skip, ..DataSpec::new(Source::Stdin) };
    let one = data_in_pieces(&spec, name, text, &[text.len()]);
    assert_eq!(data_in_pieces(&spec, name, text, &split(text.len(), *seed)), one);
    let Ok((entries, _)) = one else { return };
    let native = DataSpec { format: Format::Native, ..spec };
    let lines = entries.join(&b'\n');
    match data_in_pieces(&native, "d.jsonl", &lines, &[lines.len()]) {
        Ok((again, _)) => assert_eq!(again, entries),
        Err(error) => unreachable!("{error}"),
    }
}

/// No figure of a page of metrics is other than a number, and the bounds of buckets rise.
pub fn metrics(input: &[u8]) {
    let Some(counted) = counted(&String::from_utf8_lossy(input)) else { return };
    let gauges = Gauge::ALL.iter().filter_map(|gauge| counted.gauge(*gauge));
    let counters = Counter::ALL.iter().filter_map(|counter| counted.counter(*counter));
    assert!(gauges.chain(counters).chain(counted.kv_use_max).all(f64::is_finite));
    for pair in Pair::ALL {
        let pair_is_finite = |(sum, count): (f64, f64)| sum.is_finite() && count.is_finite();
        assert!(counted.pair(*pair).is_none_or(pair_is_finite));
        let buckets = counted.buckets(*pair);
        assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0), "{buckets:?}");
    }
}

type Entries = (Vec<Vec<u8>>, String);

fn data_in_pieces(
    spec: &DataSpec,
    name: &str,
    text: &[u8],
    pieces: &[usize],
) -> Result<Entries, String> {
    let pieces = pieces_of(text, pieces).map(<[u8]>::to_vec).filter(|piece| !piece.is_empty());
    let pieces = Pieces { left: pieces.collect::<Vec<_>>().into_iter(), piece: Vec::new() };
    let set = DataSet::read(spec, name, Box::new(pieces), None);
    let set = set.map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    for entry in 0..set.len() {
        let mut line = Vec::new();
        set.entry(entry).map_err(|error| error.to_string())?.write(&mut line);
        entries.push(line);
    }
    Ok((entries, format!("{:?}", set.report())))
}

/// Gives one piece a read, or less.
struct Pieces<I> {
    left: I,
    piece: Vec<u8>,
}

impl<I: Iterator<Item = Vec<u8>>> Read for Pieces<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = self.left.next().unwrap_or_default();
        }
        let bytes = self.piece.as_slice().read(buffer)?;
        self.piece.drain(..bytes);
        Ok(bytes)
    }
}

/// As they are, or so small that an input meets them.
fn limits(small: bool) -> Limits {
    match small {
        false => Limits::default(),
        true => Limits { head_bytes: 256, event_bytes: 128, body_bytes: 192 },
    }
}

fn same_in_any_pieces(settings: &Settings, wire: &[u8], seed: u8) {
    let mut fresh = Answer::new(settings.clone());
    let one = answer_in_pieces(&mut fresh, wire, &[wire.len()]);
    let pieces = split(wire.len(), seed);
    assert_eq!(answer_in_pieces(&mut Answer::new(settings.clone()), wire, &pieces), one);
    fresh.reset();
    assert_eq!(answer_in_pieces(&mut fresh, wire, &pieces), one);
}

/// The events of a stream, and each again: by a decoder that learns shapes and by one that forgets.
fn same_without_shapes(dialect: &Dialect, body: &[u8]) {
    let (mut learns, mut forgets) = (Decoder::new(dialect.clone()), Decoder::new(dialect.clone()));
    let mut sse = Sse::new(1 << 20);
    let mut left = body;
    while let Ok(step) = sse.step(left) {
        left = &left[step.used..];
        let Some(message) = step.item else { break };
        for _ in 0..2 {
            forgets.forget();
            assert_eq!(learns.event(message), forgets.event(message));
            assert_eq!(learns.server_times(), forgets.server_times());
        }
    }
}

/// Everything an answer says about `wire`, when it comes in these pieces and then the peer closes.
pub fn answer_in_pieces(answer: &mut Answer, wire: &[u8], pieces: &[usize]) -> Vec<String> {
    let (mut found, mut left_over) = (Vec::new(), 0);
    let mut failed = false;
    'pieces: for mut left in pieces_of(wire, pieces) {
        loop {
            match answer.next(left) {
                Ok(step) => {
                    left = &left[step.used..];
                    let Some(signal) = step.item else { break };
                    found.push(format!("{signal:?}"));
                }
                Err(error) => {
                    found.push(format!("{error:?}"));
                    failed = true;
                    break 'pieces;
                }
            }
        }
        left_over += left.len();
    }
    while !failed {
        match answer.eof() {
            Ok(Some(signal)) => found.push(format!("{signal:?}")),
            Ok(None) => break,
            Err(error) => {
                found.push(format!("{error:?}"));
                failed = true;
            }
        }
    }
    let (not_streaming, coded) = (answer.not_streaming(), answer.unsupported_encoding());
    if !failed {
        found.push(format!("{left_over} left over"));
    }
    found.push(format!("{not_streaming} {coded} {:?}", answer.error_body()));
    found.push(format!("{:?} {:?}", answer.server_times(), answer.named_times()));
    found
}

fn pieces_of<'a>(wire: &'a [u8], pieces: &[usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = wire;
    let mut cuts = pieces.to_vec();
    cuts.push(wire.len());
    cuts.into_iter().map(move |length| {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        piece
    })
}

/// Lengths of pieces that add up to `bytes`: of one byte each for seed 0, else up to `seed` bytes.
pub fn split(bytes: usize, seed: u8) -> Vec<usize> {
    let mut random = u32::from(seed) + 1;
    let mut pieces = Vec::new();
    let mut left = bytes;
    while left > 0 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (1 + (random >> 16) as usize % (usize::from(seed) + 1)).min(left);
        pieces.push(length);
        left -= length;
    }
    pieces
}

/// What a coordinator and a worker read does not depend on the split; no line is a panic, and what is
/// understood is written as it is read.
pub fn worker(input: &[u8]) {
    let [limit, seed, wire @ ..] = input else { return };
    let limit = usize::from(*limit) + 1;
    let one = messages_in_pieces(limit, wire, &[wire.len()]);
    assert_eq!(messages_in_pieces(limit, wire, &split(wire.len(), *seed)), one);
    for line in wire.split(|byte| *byte == b'\n') {
        if let Ok(request) = message::read::<Request>(line) {
            assert_eq!(message::read::<Request>(&message::line(&request)).as_ref(), Ok(&request));
        }
        if let Ok(reply) = message::read::<Reply>(line) {
            assert!(message::read::<Reply>(&message::line(&reply)).is_ok());
        }
    }
}

fn messages_in_pieces(limit: usize, wire: &[u8], pieces: &[usize]) -> Vec<Vec<u8>> {
    let pieces = pieces_of(wire, pieces).map(<[u8]>::to_vec);
    let pieces = Pieces { piece: Vec::new(), left: pieces };
    let mut lines = Lines::at_most(io::BufReader::with_capacity(64, pieces), limit);
    let mut found = Vec::new();
    loop {
        match lines.next_line() {
            Ok(LineRead::Line(line)) => found.push(line.to_vec()),
            Ok(LineRead::TooLong) => found.push(b"(too long)\n".to_vec()),
            Ok(LineRead::End) | Err(_) => return found,
        }
    }
}
