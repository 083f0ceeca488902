//! Tests of the whole way from text to entries.

use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::workload::{Field, OnBadLine, Source};

pub(super) fn spec() -> DataSpec {
    DataSpec::new(Source::Stdin)
}

pub(super) fn skipping() -> DataSpec {
    DataSpec { on_bad_line: OnBadLine::Skip, ..spec() }
}

pub(super) fn trace() -> DataSpec {
    DataSpec { is_trace: true, ..spec() }
}

pub(super) fn read(spec: &DataSpec, name: &str, text: &str) -> Result<DataSet, DataError> {
    DataSet::read(spec, name, Box::new(Cursor::new(text.as_bytes().to_vec())), None)
}

pub(super) fn lines(set: &DataSet) -> Vec<String> {
    let line = |entry| {
        let mut out = Vec::new();
        set.entry(entry).unwrap().write(&mut out);
        String::from_utf8(out).unwrap()
    };
    (0..set.len()).map(line).collect()
}

/// The normal form of a text; the name may end in the ending that counts.
pub(super) fn normal(spec: &DataSpec, name: &str, text: &str) -> Vec<String> {
    lines(&read(spec, name, text).unwrap())
}

pub(super) fn refusal(spec: &DataSpec, name: &str, text: &str) -> String {
    let error = read(spec, name, text).unwrap_err().to_string();
    assert!(!error.contains('\n'), "one line: {error}");
    error
}

fn no_hub(_: &str, _: Option<&str>, _: Option<&str>) -> Result<PathBuf, String> {
    Err("no hub here".to_owned())
}

#[test]
fn marks_blank_lines_and_ends_of_lines_do_not_matter() {
    for text in [
        "{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}\n",
        "\u{FEFF}{\"prompt\":\"one\"}\n{\"prompt\":\"two\"}",
        "{\"prompt\":\"one\"}\r\n\r\n  \r\n{\"prompt\":\"two\"}\r\n",
        "\u{FEFF}[{\"prompt\":\"one\"},\r\n{\"prompt\":\"two\"}]",
        "\u{FEFF}prompt,other\r\n\"one\",1\r\n\r\ntwo,2\r\n",
        "{\"data\":[{\"prompt\":\"one\"},{\"prompt\":\"two\"}],\"version\":1}",
        "{\n \"prompt\":\"one\"\n}\n{\n \"prompt\":\"two\"\n}\n",
    ] {
        let expected = [r#"{"prompt":"one"}"#, r#"{"prompt":"two"}"#];
        assert_eq!(normal(&spec(), "d", text), expected, "{text:?}");
    }
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"{\"prompt\":\"one\"}\n").unwrap();
    let packed = gz.finish().unwrap();
    let set = DataSet::read(&spec(), "d.jsonl.gz", Box::new(Cursor::new(packed.clone())), None);
    assert_eq!(set.unwrap().len(), 1);
    let cut = Cursor::new(packed[..packed.len() - 12].to_vec());
    let error = DataSet::read(&spec(), "d.jsonl.gz", Box::new(cut), None).unwrap_err();
    assert!(error.to_string().starts_with("cannot open d.jsonl.gz: "), "{error}");
}

#[test]
fn unknown_fields_are_listed() {
    let text = "{\"question_text\":\"one\",\"answer\":\"x\"}\n{\"question_text\":\"two\",\"answer\":\"y\"}\n";
    let found = refusal(&spec(), "d.jsonl", text);
    assert!(
        found.starts_with("d.jsonl: lines 1 and 2 cannot be used; line 1: no field"),
        "{found}"
    );
    assert!(found.contains("there are `question_text`, `answer`"), "{found}");
    assert!(found.ends_with("--field prompt=question_text"), "{found}");
    let found = refusal(&skipping(), "d.jsonl", text);
    assert!(found.starts_with("d.jsonl: no entries: all 2 were left out"), "{found}");
    let named = DataSpec { fields: vec![(Field::Prompt, "question_text".to_owned())], ..spec() };
    assert_eq!(read(&named, "d.jsonl", text).unwrap().len(), 2);
    let named = DataSpec { fields: vec![(Field::Prompt, "qestion".to_owned())], ..spec() };
    assert!(refusal(&named, "d.jsonl", text).contains("no `qestion`; there are `question_text`"));
    let named = DataSpec {
        fields: vec![
            (Field::Prompt, "question_text".to_owned()),
            (Field::System, "nowhere".to_owned()),
        ],
        ..spec()
    };
    assert!(refusal(&named, "d.jsonl", text).contains("no line has `nowhere`"));
    let text = "a,b\n1,2\n";
    assert!(refusal(&spec(), "d.csv", text).contains("there are `a`, `b`"));
}

#[test]
fn a_trace_needs_a_time_on_every_line() {
    let text = r#"{"timestamp":0,"input_length":10,"output_length":5}
{"input_length":10,"output_length":5}
{"timestamp":1000,"input_length":10,"output_length":5}
{"input_length":10,"output_length":5}
"#;
    let found = refusal(&trace(), "d.jsonl", text);
    assert!(found.contains("lines 2 and 4") && found.contains("no `timestamp`"), "{found}");
    let set = read(&DataSpec { ignore_times: true, ..trace() }, "d.jsonl", text).unwrap();
    assert_eq!((set.len(), set.has_times(), set.time_ns(0)), (4, false, None));
    let set = read(&spec(), "d.jsonl", text).unwrap();
    assert_eq!((set.len(), set.has_times()), (4, false));
    assert_eq!(set.report().notes, ["2 of 4 entries have no time: times are not used"]);
}

#[test]
fn bad_times_are_named() {
    for (time, reason) in [
        ("-1", "`-1` is negative"),
        ("NaN", "expected value"),
        ("\"NaN\"", "`NaN` is no time"),
        ("1e400", "`1e400` is no time"),
        ("1e300", "is too large for a time"),
        ("99999999999999999999", "is too large for a time"),
        ("[0]", "is a list, not a time"),
        ("true", "is true or false, not a time"),
        ("\"soon\"", "`soon` is no time"),
        ("null", "no `timestamp`"),
        ("5", "its time lies 0.005 s before that of an earlier line"),
    ] {
        let text = format!(
            "{{\"timestamp\":10,\"input_length\":1,\"output_length\":1}}\n\
             {{\"timestamp\":{time},\"input_length\":1,\"output_length\":1}}\n"
        );
        let found = refusal(&trace(), "d.jsonl", &text);
        assert!(found.starts_with("d.jsonl:2: ") && found.contains(reason), "{time}: {found}");
    }
}

#[test]
fn a_whole_trace_is_kept_in_order() {
    let line = |n| {
        format!(
            "{{\"timestamp\":{},\"input_length\":8,\"output_length\":3,\"text_input\":\"line {n:02}\"}}\n",
            1000 + n * 40
        )
    };
    let text: String = (0..25).map(line).collect();
    let set = read(&spec(), "d.jsonl", &text).unwrap();
    assert!(set.has_times());
    for entry in 0..25 {
        assert_eq!(set.time_ns(entry), Some(entry * 40_000_000));
        let found = set.entry(entry).unwrap();
        assert!(
            matches!(&found.turns[0].content, Content::Text(text) if *text == format!("line {entry:02}"))
        );
        assert_eq!((found.turns[0].input_tokens, found.turns[0].output_tokens), (Some(8), Some(3)));
    }
    assert!(set.entry(25).is_err() && set.turns(25) == 0);
    let first = read(&DataSpec { limit: Some(7), ..spec() }, "d.jsonl", &text).unwrap();
    assert_eq!((first.len(), first.report().lines), (7, 7));
    let text = "{\"session_id\":\"s\",\"text\":\"a\"}\n{\"session_id\":\"t\",\"text\":\"b\"}\n{\n\
                {\"session_id\":\"s\",\"text\":\"c\"}\n";
    let first = read(&DataSpec { limit: Some(1), ..spec() }, "d.jsonl", text).unwrap();
    assert_eq!((first.len(), first.turns(0)), (1, 2));
}

#[test]
fn a_long_line_is_kept_whole() {
    let long = "long ".repeat(300_000);
    let text =
        format!("{{\"prompt\":\"short\"}}\n{{\"prompt\":\"{long}\"}}\n{{\"prompt\":\"last\"}}\n");
    let set = read(&spec(), "d.jsonl", &text).unwrap();
    let chars: Vec<usize> = (0..3)
        .map(|entry| match &set.entry(entry).unwrap().turns[0].content {
            Content::Text(text) => text.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(chars, [5, 1_500_000, 4]);
}

#[test]
fn wrong_json_is_named_by_its_line() {
    for (line, reason) in [
        (r#"{"prompt":"a""#, "EOF while parsing an object"),
        ("not json", "expected"),
        ("[]", "expected an object"),
        ("5", "expected an object"),
        (r#"{"prompt":5}"#, "`prompt` is a number, not a text"),
        (r#"{"prompt":["a"]}"#, "`prompt` is a list, not a text"),
        (r#"{"prompt":null}"#, "`prompt` is empty, so"),
        (r#"{"prompt":""}"#, "`prompt` is empty"),
        (r#"{"prompt":"a","prompt":"b"}"#, "`prompt` is there twice"),
        (r#"{"prompt":"a","output_tokens":0}"#, "`output_tokens` is 0"),
        (r#"{"prompt":"a","output_tokens":-5}"#, "`output_tokens` is -5"),
        (r#"{"prompt":"a","output_tokens":1e99}"#, "at most"),
        (r#"{"prompt":"a","images":["b"]}"#, "images are not supported yet"),
        ("{} trailing", "trailing characters"),
    ] {
        let text = format!("{{\"prompt\":\"one\"}}\n{line}\n");
        let found = refusal(&spec(), "d.jsonl", &text);
        assert!(found.starts_with("d.jsonl:2: ") && found.contains(reason), "{line}: {found}");
        assert!(found.ends_with("(--on-bad-line skip leaves such lines out)"), "{found}");
        let set = read(&skipping(), "d.jsonl", &text).unwrap();
        assert_eq!((set.len(), set.report().first_skipped[0].number), (1, 2));
    }
    let found = refusal(&spec(), "d.json", "[{\"prompt\":\"a\"},{\"prompt\":}]");
    assert!(found.starts_with("d.json: item 2: expected value"), "{found}");
    assert!(refusal(&spec(), "d.json", "[{\"prompt\":\"a\"}] x").contains("item 2: trailing"));
    assert!(refusal(&spec(), "d.json", "[]").contains("no entries"));
    let bytes = Cursor::new(b"{\"prompt\":\"a\"}\n{\"prompt\":\"\xFF\"}\n".to_vec());
    let error = DataSet::read(&spec(), "d.jsonl", Box::new(bytes), None).unwrap_err();
    assert!(error.to_string().starts_with("d.jsonl:2: not UTF-8 (byte 12)"), "{error}");
}

#[test]
fn tables_are_read_with_their_quotes_and_their_lines() {
    let text = "prompt,output_tokens,id\n\"a, \"\"b\"\"\nc\",5,1\n\nd,,2\n";
    let set = read(&spec(), "d.csv", text).unwrap();
    assert_eq!(lines(&set), [r#"{"prompt":"a, \"b\"\nc","output_tokens":5}"#, r#"{"prompt":"d"}"#]);
    assert_eq!(set.report().notes, ["not used, as far as the first line shows: `id`"]);
    let found = refusal(&spec(), "d.csv", "prompt,n\r\n\"a\r\nb\",1\r\n\r\nc\r\n");
    assert!(found.starts_with("d.csv:5: 1 cells, but the header has 2"), "{found}");
    assert!(refusal(&spec(), "d.csv", "prompt,prompt\na,b\n").contains("two columns"));
    assert!(
        refusal(&spec(), "d.csv", "prompt\n").contains("no entries: there are no records in it")
    );
    assert!(refusal(&spec(), "d.csv", "").contains("it is empty"));
}

#[test]
fn files_and_folders_are_opened_or_say_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let load = |source| DataSet::load(&DataSpec::new(source), None, &no_hub);
    let reason = |source| load(source).unwrap_err().to_string();
    assert!(reason(Source::File(at("none.jsonl"))).contains("none.jsonl: No such file"));
    assert!(reason(Source::File(folder.path().into())).contains("no file in this folder ends in"));
    let hub = Source::Hub { repo: "o/n".into(), file: None, revision: None };
    assert_eq!(reason(hub), "no hub here");
    fs::write(at("b.jsonl"), "{\"prompt\":\"two\"}\n").unwrap();
    fs::write(at("a.csv"), "prompt\none\n").unwrap();
    fs::write(at("readme.md"), "# no data").unwrap();
    let set = load(Source::Folder(folder.path().into())).unwrap();
    assert_eq!(lines(&set), [r#"{"prompt":"one"}"#, r#"{"prompt":"two"}"#]);
    fs::write(at("c.jsonl"), "{\"prompt\":1}\n").unwrap();
    let found = reason(Source::Folder(folder.path().into()));
    assert!(found.contains("c.jsonl:1: `prompt` is a number"), "{found}");
    fs::write(at("d.parquet"), "PAR1....PAR1").unwrap();
    assert!(reason(Source::File(at("d.parquet"))).contains("d.parquet: "));
    fs::write(at("e.jsonl"), [0xFF, 0xFE, b'{', 0]).unwrap();
    assert!(reason(Source::File(at("e.jsonl"))).contains("save it as UTF-8"));
}

#[test]
fn lengths_are_counted_and_filtered() {
    let words = |text: &str| text.split_whitespace().count() as u64;
    let text = "{\"prompt\":\"a b c\"}\n{\"prompt\":\"a\"}\n";
    let read = |spec: &DataSpec, count: Option<&Count<'_>>| {
        DataSet::read(spec, "d.jsonl", Box::new(Cursor::new(text)), count)
    };
    assert_eq!(
        read(&spec(), Some(&words)).unwrap().entry(0).unwrap().turns[0].input_tokens,
        Some(3)
    );
    let long = DataSpec { min_input: Some(2), ..spec() };
    let set = read(&long, Some(&words)).unwrap();
    assert_eq!((set.len(), set.report().filtered), (1, 1));
    let found = read(&long, None).unwrap_err().to_string();
    assert!(found.contains("line 1 says nothing of its input tokens"), "{found}");
    let vast = |_: &str| u64::MAX;
    let found = read(&spec(), Some(&vast)).unwrap_err().to_string();
    assert!(found.contains("lines 1 and 2") && found.contains("at most 4194304"), "{found}");
    assert_eq!(read(&spec(), Some(&|_: &str| 0)).unwrap().len(), 2);
    let none = DataSpec { min_input: Some(9), ..spec() };
    let found = read(&none, Some(&words)).unwrap_err().to_string();
    assert!(found.contains("the filters on lengths left out all 2"), "{found}");
}

#[test]
fn a_check_tells_of_every_bad_line() {
    let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
    fs::write(file.path(), "{\"prompt\":\"a\"}\n{\n{\"prompt\":2}\n".repeat(20)).unwrap();
    let mut bad = Vec::new();
    let source = Source::File(file.path().into());
    let report = check(&DataSpec::new(source), &mut |line| bad.push(line.number), &no_hub).unwrap();
    assert_eq!((report.entries, report.skipped, bad.len()), (20, 40, 40));
    assert_eq!(report.first_skipped.len(), BAD_LINES_KEPT);
    assert_eq!(bad[..3], [2, 3, 5]);
}

fn format_of(choice: usize) -> Format {
    Format::ALL[choice % Format::ALL.len()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_upset_a_reader(
        choice in 0..17_usize,
        ending in 0..4_usize,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let name = ["d.jsonl", "d.json", "d.csv", "d"][ending];
        let spec = DataSpec { format: format_of(choice), ..skipping() };
        let _ = DataSet::read(&spec, name, Box::new(Cursor::new(bytes)), None);
    }

    #[test]
    fn no_pieces_of_records_upset_a_reader(
        choice in 0..17_usize,
        pieces in proptest::collection::vec(0..PIECES.len(), 0..40),
    ) {
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        let spec = DataSpec { format: format_of(choice), ..skipping() };
        if let Ok(set) = read(&spec, "d", &text) {
            let lines = lines(&set);
            let native = DataSpec { format: Format::Native, ..skipping() };
            prop_assert_eq!(normal(&native, "d.jsonl", &lines.join("\n")), lines);
        }
    }
}

const PIECES: [&str; 30] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\n",
    "\r\n",
    "\"prompt\":",
    "\"a\"",
    "\"messages\":",
    "{\"role\":\"user\",\"content\":\"q\"}",
    "\"timestamp\":",
    "-1",
    "0",
    "1e999",
    "null",
    "3.5",
    "\"input_length\":",
    "\"hash_ids\":",
    "{\"prompt\":\"a\"}\n",
    "\"turns\":",
    "\"text\":",
    "{\"input_length\":5,\"output_length\":1}\n",
    "a,b,prompt\n",
    "\"conversations\":",
    "{\"from\":\"human\",\"value\":\"q\"}",
    "\"data\":",
    "\"session_id\":\"s\"",
];
