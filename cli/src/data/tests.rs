//! The commands on small recordings and synthetic loads.

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Parser as _;
use tempfile::TempDir;
use tokclock_engine::measure::ArrivalVerdict;
use tokclock_engine::plan::data::{Content, Entry};

use super::figures::Document;
use super::load::{Bound, Load};
use super::{convert_load, page, stats};
use crate::args::{Cli, Command, DataCommand};
use crate::config::Options;
use crate::exit::{Code, Failure};

const CPUS: [usize; 2] = [0, 1];

const CHAT: &str = r#"{"messages":[{"role":"system","content":"short"},{"role":"user","content":"why?"}],"max_tokens":64}
{"messages":[{"role":"system","content":"short"},{"role":"user","content":"how?"}]}
"#;
const TRACE: &str = r#"{"timestamp":0,"input_length":1200,"output_length":50,"hash_ids":[1,2,3]}
{"timestamp":900,"input_length":1500,"output_length":80,"hash_ids":[1,2,4]}
{"timestamp":2100,"input_length":600,"output_length":20,"hash_ids":[5,6]}
"#;

fn file(name: &str, text: &str) -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

fn parse(line: &[&str]) -> DataCommand {
    let line = ["tokclock", "data"].iter().chain(line);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Data { command } => command,
        _ => unreachable!("the line says data"),
    }
}

fn run(line: &[&str]) -> Result<Code, Failure> {
    super::run(&parse(line), &CPUS)
}

fn options(line: &[&str]) -> Options {
    let whole: Vec<&str> = ["stats"].iter().chain(line).copied().collect();
    match parse(&whole) {
        DataCommand::Stats(args) => args.data.options().unwrap(),
        _ => unreachable!("the line says stats"),
    }
}

fn document(line: &[&str]) -> Document {
    let options = options(line);
    let load = Load::new(options.clone(), &CPUS).unwrap();
    stats::document(&load, options.requests, &options).unwrap()
}

/// (item, turn, input, output, ideally cached).
type Figures = (u64, u32, Option<u32>, u32, Option<u32>);

/// The requests of so many items.
fn sent(line: &[&str], items: u64) -> Vec<Figures> {
    let load = Load::new(options(line), &CPUS).unwrap();
    let bound = Bound { items: Some(items), ..Bound::default() };
    let mut all = Vec::new();
    load.walk(bound, &mut |sent| {
        let (item, turn) = (sent.item, sent.turn);
        all.push((item, turn, sent.input_tokens, sent.output_tokens, sent.ideal_cached));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    all
}

fn converted(line: &[&str], most: Option<u64>) -> Vec<Entry> {
    let mut options = options(line);
    convert_load::prepare(&mut options).unwrap();
    let load = Load::new(options, &CPUS).unwrap();
    let mut all = Vec::new();
    convert_load::write(&load, most, true, &mut |entry| {
        all.push(entry.clone());
        Ok(())
    })
    .unwrap();
    all
}

#[test]
fn figures_of_a_recording_say_what_it_declares_and_shares() {
    let (_dir, path) = file("chat.jsonl", CHAT);
    let found = document(&[&path]);
    assert_eq!((found.items, found.requests, found.input.unknown), (2, 2, 2));
    assert_eq!(found.input.characters.as_ref().unwrap().max, 9);
    assert_eq!((found.input.tokens.is_none(), found.cache.ideal_share), (true, None));
    assert_eq!(found.recordings[0].output_known, 1);
    assert_eq!((found.system.prompts, found.system.distinct, found.system.commonest), (2, 1, 2));
    assert!(found.arrivals.is_none() && found.turns.is_none());
    assert!(found.notes.iter().all(|note| !note.contains("users")), "{:?}", found.notes);
    let page = page::write(&found, 80);
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["1 of 2 requests say nothing of their output", "neither declared nor counted"] {
        assert!(text.contains(words), "{page}");
    }
}

#[test]
fn a_tokenizer_counts_what_is_not_declared() {
    let (_dir, path) = file("chat.jsonl", CHAT);
    let found = document(&[&path, "--tokenizer", "o200k_base"]);
    assert_eq!((found.input.unknown, found.prefixes.unit), (0, "tokens"));
    assert!(found.input.tokens.is_some() && found.input.characters.is_none());
}

#[test]
fn figures_of_a_trace_have_its_blocks_and_times() {
    let (_dir, path) = file("trace.jsonl", TRACE);
    let found = document(&[&path]);
    let blocks = found.recordings[0].blocks.clone().unwrap();
    assert_eq!((blocks.blocks, blocks.distinct, blocks.distinct_first), (8, 6, 2));
    assert_eq!((found.cache.input_tokens, found.cache.ideal_cached_tokens), (3300, 1024));
    let arrivals = found.arrivals.unwrap();
    assert_eq!((arrivals.count, arrivals.duration_ns), (3, 2_100_000_000));
    // At other times there are others.
    let found = document(&[&path, "-c", "2"]);
    assert!(found.arrivals.is_none());
}

#[test]
fn a_synthetic_load_has_the_law_of_its_arrivals() {
    let found = document(&["--isl", "8", "--rate", "50", "-n", "500", "--seed", "1"]);
    assert_eq!(found.arrivals.unwrap().verdict, ArrivalVerdict::Exponential);
    assert_eq!((found.items, found.input.tokens.unwrap().max), (500, 8));
    let found = document(&["--isl", "8", "--rate", "50", "--duration", "2s", "--seed", "1"]);
    assert!((60..140).contains(&found.items), "{}", found.items);
    let found = document(&["--isl", "8", "--dialect", "openai-embeddings", "-n", "3"]);
    assert!(found.output.is_none());
}

#[test]
fn what_a_run_would_send_is_looked_at_where_its_options_say_it() {
    let options = options(&["--isl", "8", "--turns", "3", "-n", "7", "--warmup", "2"]);
    let load = Load::new(options.clone(), &CPUS).unwrap();
    let whole = stats::document(&load, None, &options).unwrap();
    assert_eq!((whole.items, whole.requests), (3, 9));
    let typed = stats::document(&load, Some(7), &options).unwrap();
    assert_eq!((typed.items, typed.requests), (7, 21));
}

#[test]
fn later_turns_take_answers_to_be_as_long_as_asked() {
    let line = ["--isl", "20", "--osl", "5", "--turns", "2", "--seed", "1"];
    let turns = sent(&line, 1);
    assert_eq!(turns[0], (0, 0, Some(20), 5, Some(0)));
    assert_eq!(turns[1], (0, 1, Some(45), 5, Some(25)));
}

#[test]
fn a_replay_ends_with_its_recording() {
    let (_dir, path) = file("trace.jsonl", TRACE);
    assert_eq!(sent(&[&path], 100).len(), 3);
    assert_eq!(sent(&["--trace", &path, "--trace-end", "1s"], 100).len(), 2);
}

#[test]
fn a_synthetic_load_is_handed_on_as_entries() {
    let line = ["--isl", "20", "--osl", "5", "--turns", "2", "--rate", "4", "--system-tokens", "5"];
    let entries = converted(&[&line[..], &["--think-time", "1s", "--seed", "1"]].concat(), Some(3));
    assert_eq!(entries.len(), 3);
    for entry in &entries {
        assert!(entry.timestamp_ns.is_some());
        assert_eq!(entry.system, entries[0].system);
        let tokens: Vec<_> = entry.turns.iter().map(|turn| turn.input_tokens).collect();
        assert_eq!(tokens, [Some(25), Some(20)]);
        assert_eq!(entry.turns[1].delay_ns, Some(1_000_000_000));
        assert!(entry.turns.iter().all(|turn| turn.output_tokens == Some(5)));
        assert!(matches!(&entry.turns[1].content, Content::Text(text) if !text.contains('<')));
    }
}

#[test]
fn a_load_that_was_converted_says_the_same() {
    let line = ["--isl", "uniform:5,40", "--osl", "uniform:1,9", "--seed", "4"];
    let (_dir, path) = {
        let mut text = Vec::new();
        for entry in converted(&line, Some(20)) {
            entry.write(&mut text);
            text.push(b'\n');
        }
        file("load.jsonl", &String::from_utf8(text).unwrap())
    };
    let lengths = |all: Vec<Figures>| {
        all.into_iter().map(|(_, _, input, output, _)| (input, output)).collect::<Vec<_>>()
    };
    assert_eq!(lengths(sent(&line, 20)), lengths(sent(&[&path, "-c", "1"], 20)));
}

#[test]
fn recorded_answers_are_handed_on_where_they_are_sent() {
    let line = ["--isl", "9", "--osl", "5", "--turns", "3", "--history", "recorded", "--seed", "1"];
    let entry = &converted(&line, Some(1))[0];
    let answers: Vec<bool> = entry.turns.iter().map(|turn| turn.answer.is_some()).collect();
    assert_eq!(answers, [true, true, false]);
    assert!(entry.turns.iter().all(|turn| turn.input_tokens == Some(9)));
}

#[test]
fn a_file_is_overwritten_only_by_force() {
    let (dir, path) = file("chat.jsonl", CHAT);
    let out: PathBuf = dir.path().join("out.jsonl");
    let to = out.to_str().unwrap();
    assert_eq!(run(&["convert", &path, "--to", to]), Ok(Code::Ok));
    let first = std::fs::read_to_string(&out).unwrap();
    assert_eq!(first.lines().count(), 2);
    let refused = run(&["convert", &path, "--to", to]).unwrap_err();
    assert!(refused.code == Code::Usage && refused.message.contains("--force"), "{refused}");
    assert_eq!(run(&["convert", to, "--to", to, "--force"]), Ok(Code::Ok));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), first, "our own form converts to itself");
    assert_eq!(run(&["convert", &path, "--to", to, "--force", "-n", "1"]), Ok(Code::Ok));
    assert_eq!(std::fs::read_to_string(&out).unwrap().lines().count(), 1);
    let (_other, trace) = file("trace.jsonl", TRACE);
    let part = ["convert", "--trace", &trace, "--trace-start", "500ms", "--trace-end", "2s"];
    assert_eq!(run(&[&part[..], &["--to", to, "--force"]].concat()), Ok(Code::Ok));
    let part = std::fs::read_to_string(&out).unwrap();
    assert!(part.starts_with("{\"timestamp\":900,") && part.lines().count() == 1, "{part}");
}

#[test]
fn a_check_ends_with_1_if_a_line_is_bad() {
    let (_dir, good) = file("good.jsonl", CHAT);
    let (_other, bad) = file("bad.jsonl", &format!("{CHAT}{{\"messages\":[]}}\n"));
    assert_eq!(run(&["check", &good]), Ok(Code::Ok));
    assert_eq!(run(&["check", &bad]), Ok(Code::CouldNotRun));
    let (_third, empty) = file("empty.csv", "prompt,output_tokens\n");
    assert_eq!(run(&["check", &empty]), Ok(Code::CouldNotRun));
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let (_dir, path) = file("chat.jsonl", CHAT);
    for line in [
        &["check"][..],
        &["check", "no-such-file"],
        &["preview", "no-such-file"],
        &["preview", "--tokenizer", "server"],
        &["preview", "-n", "0"],
        &["stats", &path, "--isl", "5"],
        &["convert", "--to", "-", "--duration", "5s"],
        &["convert", "--to", "-", "--class", "name=a data=x.jsonl"],
        &["convert", "--to", "-", "--prompt-as", "token-ids", "--token-ids", "1-9"],
    ] {
        let refused = run(line).unwrap_err();
        assert!(!refused.message.contains('\n'), "{line:?}: {refused}");
        assert_eq!(refused.code, Code::Usage, "{line:?}: {refused}");
    }
}
