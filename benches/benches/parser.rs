//! What one event costs the parser: framing, event stream and meaning, with and without the fast
//! path.

#![expect(clippy::print_stdout, reason = "a benchmark reports to the console")]

use tokclock_benches::answers::{Counted, Wire};
use tokclock_benches::figures::best_ns;
use tokclock_parser::body::{Body, Part};
use tokclock_parser::dialect::{Decoder, Dialect};
use tokclock_parser::head::Framing;
use tokclock_parser::sse::Sse;

fn main() {
    for (answers, tokens) in SIZES {
        let wires = (0..answers).map(|seed| Wire::new(&Dialect::OpenaiChat, seed, tokens));
        report(&wires.collect::<Vec<_>>(), tokens);
    }
}

/// Answers and tokens of each: about as much as stays in a core's cache, since a read has just
/// been copied when it is parsed. In short answers the events that start and end them weigh more.
const SIZES: [(u64, u64); 3] = [(16, 50), (4, 200), (1, 800)];
const PASSES: usize = 400;

fn report(wires: &[Wire], tokens: u64) {
    let events: u64 = wires.iter().map(|wire| wire.expected.events).sum();
    let bytes: usize = wires.iter().map(|wire| wire.bytes.len()).sum();
    println!("{events} events of {} bytes, {tokens} tokens an answer", bytes as u64 / events);

    let Some(mut answer) = wires.first().map(Wire::reader) else { return };
    let mut pass = |read_bytes| {
        let read = |wire: &Wire| assert_eq!(wire.read(&mut answer, read_bytes), wire.expected);
        wires.iter().for_each(read);
    };
    let by_event = best_ns(events, PASSES, || pass(0));
    let by_buffer = best_ns(events, PASSES, || pass(65536));
    let all = || wires.iter().for_each(|wire| assert_eq!(json(wire), wire.expected));
    let by_json = best_ns(events, PASSES, all);

    println!("  fast path, a read per event   {by_event:7.1} ns/event");
    println!("  fast path, a read per 64 KiB  {by_buffer:7.1} ns/event");
    println!("  serde_json on every event     {by_json:7.1} ns/event");
    println!("  ratio                         {:7.1}", by_json / by_event);
}

/// The same without the fast path.
fn json(wire: &Wire) -> Counted {
    let mut body = Body::new(Framing::Chunked);
    let mut sse = Sse::new(1 << 20);
    let mut decoder = Decoder::new(wire.dialect.clone());
    let mut counted = Counted::default();
    let mut bytes = &wire.bytes[wire.cuts[0]..];
    while let Ok(step) = body.step(bytes) {
        bytes = &bytes[step.used..];
        let Some(Part::Data(mut data)) = step.item else { break };
        while let Ok(step) = sse.step(data) {
            data = &data[step.used..];
            let Some(message) = step.item else { break };
            decoder.forget();
            counted.count(&decoder.event(message));
        }
    }
    counted
}
