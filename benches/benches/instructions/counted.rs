//! What is counted.

#![expect(unused_qualifications, reason = "the macros write whole paths")]

use std::hint::black_box;
use std::process::{Command, Stdio};

use gungraun::prelude::*;
use tokclock_benches::answers::{Counted, Wire, mix};
use tokclock_engine::record::Pooled;
use tokclock_parser::answer::Answer;
use tokclock_parser::dialect::Dialect;

/// Tokens of an answer, values of a histogram: a count divided by it is that of one.
const MANY: u64 = 1_000;

/// An answer, and a reader that has read one like it: the next on a connection that is in use.
fn next(dialect: Dialect) -> (Wire, Answer) {
    let before = Wire::new(&dialect, 1, MANY);
    let mut answer = before.reader();
    before.read(&mut answer, 0);
    (Wire::new(&dialect, 2, MANY), answer)
}

// An answer whose events each come in a read of their own.
#[library_benchmark(setup = next)]
#[bench::openai_chat(Dialect::OpenaiChat)]
#[bench::openai_responses(Dialect::OpenaiResponses)]
#[bench::anthropic_messages(Dialect::AnthropicMessages)]
#[bench::llamacpp_completion(Dialect::LlamacppCompletion)]
#[bench::tgi_generate(Dialect::TgiGenerate)]
#[bench::ollama_chat(Dialect::OllamaChat)]
fn answer_of_1000_tokens((wire, mut answer): (Wire, Answer)) -> Counted {
    black_box(wire.read(&mut answer, 0))
}

// The same in reads that hold many.
#[library_benchmark(setup = next)]
#[bench::openai_chat(Dialect::OpenaiChat)]
fn answer_of_1000_tokens_in_64_kib((wire, mut answer): (Wire, Answer)) -> Counted {
    black_box(wire.read(&mut answer, 65_536))
}

fn values() -> (Vec<u64>, Box<Pooled>) {
    ((0..MANY).map(|at| 5_000 + mix(at) % 50_000).collect(), Box::default())
}

// Values of a latency, as they come.
#[library_benchmark(setup = values)]
#[bench::lag()]
fn histogram_of_1000_values((values, mut pooled): (Vec<u64>, Box<Pooled>)) -> Box<Pooled> {
    for value in values {
        pooled.lag.saturating_record(black_box(value));
    }
    pooled
}

fn two() -> (Box<Pooled>, Box<Pooled>) {
    let (values, mut one) = values();
    values.into_iter().for_each(|value| one.lag.saturating_record(value));
    (one, Box::default())
}

// A second's histograms, added to those of the run.
#[library_benchmark(setup = two)]
#[bench::one()]
fn second_added((one, mut sum): (Box<Pooled>, Box<Pooled>)) -> Box<Pooled> {
    sum.add(black_box(&one));
    sum
}

library_benchmark_group!(
    name = parser,
    benchmarks = [answer_of_1000_tokens, answer_of_1000_tokens_in_64_kib]
);
library_benchmark_group!(name = record, benchmarks = [histogram_of_1000_values, second_added]);

gungraun::main!(library_benchmark_groups = [parser, record]);

/// Whether both programs are there that it takes, or run this one already.
pub(super) fn can_run() -> bool {
    if std::env::args().nth(1).is_some_and(|first| first.starts_with("--gungraun")) {
        return true;
    }
    ["valgrind", "gungraun-runner"].into_iter().all(|program| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    })
}

/// Counts all of it.
pub(super) fn run() {
    main();
}
