//! Tests of what each format means.

use super::tests::{lines, normal, read, refusal, skipping, spec, trace};
use super::*;
use crate::workload::TimeUnit;

const SHAREGPT: &str = r#"[
 {"id":"x","conversations":[{"from":"human","value":"q1"},{"from":"gpt","value":"a1"},
  {"from":"human","value":"q2"},{"from":"gpt","value":"a2"},{"from":"human","value":"q3"},
  {"from":"gpt","value":"a3"}]},
 {"id":"y","conversations":[{"from":"human","value":"p1"},{"from":"gpt","value":"b1"}]}]"#;

#[test]
fn every_turn_of_a_conversation_is_a_request() {
    let set = read(&spec(), "d.json", SHAREGPT).unwrap();
    assert_eq!((set.len(), set.turns(0), set.turns(1)), (2, 3, 1));
    assert_eq!(set.report().format, Format::ShareGpt);
    assert_eq!(
        lines(&set),
        [
            r#"{"session":"x","turns":[{"prompt":"q1","answer":"a1"},{"prompt":"q2","answer":"a2"},{"prompt":"q3","answer":"a3"}]}"#,
            r#"{"session":"y","prompt":"p1","answer":"b1"}"#,
        ]
    );
    let single = DataSpec { single_turn: true, ..spec() };
    let set = read(&single, "d.json", SHAREGPT).unwrap();
    assert_eq!((set.len(), set.turns(0), set.report().dropped_turns), (2, 1, 2));
}

#[test]
fn odd_conversations_are_put_right_or_refused() {
    let text = concat!(
        r#"{"conversations":[{"from":"gpt","value":"hi"},{"from":"human","value":"a"},{"from":"human","value":"b"},{"from":"gpt","value":"c"}]}"#,
        "\n",
        r#"{"conversations":[{"role":"system","content":"s"},{"role":"user","content":"q"}],"tools":"[{\"type\":\"function\"}]"}"#,
        "\n",
    );
    let set = read(&spec(), "d.jsonl", text).unwrap();
    assert_eq!(
        lines(&set),
        [
            r#"{"prompt":"a\nb","answer":"c"}"#,
            r#"{"system":"s","prompt":"q","tools":[{"type":"function"}]}"#
        ]
    );
    assert!(set.report().notes[0].starts_with("1 message of the assistant before"));
    for (text, reason) in [
        (r#"{"conversations":[]}"#, "no turn of the user"),
        (r#"{"conversations":[{"from":"gpt","value":"a"}]}"#, "no turn of the user"),
        (r#"{"conversations":[{"from":"human","value":" "}]}"#, "turn 1 of the user is empty"),
        (r#"{"conversations":[{"from":"tool","value":"a"}]}"#, "unknown speaker `tool`"),
        (r#"{"conversations":[{"from":"human"}]}"#, "missing field `value`"),
        (r#"{"conversations":[{"from":"human","value":null}]}"#, "message 1: invalid type: null"),
        (r#"{"conversations":"x"}"#, "`conversations` is not usable"),
        (r#"{"conversations":[{"from":"human","value":"a"}],"image":"x.png"}"#, "not supported"),
    ] {
        let found = refusal(&spec(), "d.jsonl", text);
        assert!(found.starts_with("d.jsonl:1: ") && found.contains(reason), "{found}");
    }
}

#[test]
fn blocks_must_fit_their_length() {
    let text = r#"{"timestamp":0,"input_length":655,"output_length":5,"hash_ids":[0,1]}
{"timestamp":200,"input_length":20,"output_length":5,"hash_ids":[0,1]}
{"timestamp":400,"input_length":512,"output_length":5,"hash_ids":[2]}
{"timestamp":600,"input_length":1025,"output_length":5,"hash_ids":[0,1]}
"#;
    let found = refusal(&spec(), "d.jsonl", text);
    assert!(
        found.starts_with("d.jsonl: lines 2 and 4 cannot be used; line 2: 2 hash_ids"),
        "{found}"
    );
    let found = refusal(&DataSpec { block_size: Some(15), ..spec() }, "d.jsonl", text);
    assert!(found.starts_with("d.jsonl: lines 1, 3 and 4 cannot be used"), "{found}");
    let set = read(&skipping(), "d.jsonl", text).unwrap();
    assert_eq!((set.len(), set.report().skipped, set.report().format), (2, 2, Format::Mooncake));
    assert_eq!(
        lines(&set)[0],
        r#"{"timestamp":0,"input_length":655,"hash_ids":[0,1],"block_size":512,"output_tokens":5}"#
    );
    assert_eq!(set.time_ns(1), Some(400_000_000));
}

#[test]
fn traces_in_tables_have_their_units() {
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
                 2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0320000,3180,8\n";
    let set = read(&trace(), "a.csv", azure).unwrap();
    assert_eq!((set.report().format, set.time_ns(1)), (Format::Azure, Some(52_040_000)));
    let found = refusal(&trace(), "a.csv", &azure.replace(",8\n", ",0\n"));
    assert!(found.contains("a.csv:3: `GeneratedTokens` is 0"), "{found}");
    let found = refusal(&trace(), "a.csv", &azure.replace(",8\n", ",\n"));
    assert!(found.contains("a.csv:3: `GeneratedTokens` is empty"), "{found}");
    let forced = DataSpec { format: Format::Azure, ..trace() };
    let found = refusal(&forced, "a.csv", "TIMESTAMP,In,Out\n2023-11-16 18:17:03.9,1,2\n");
    assert!(found.contains("no `ContextTokens`; there are `TIMESTAMP`, `In`, `Out`"), "{found}");
    let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                 5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,x\n\
                 118,GPT-4,417,276,693,x\n";
    let set = read(&trace(), "b.csv", burst).unwrap();
    assert_eq!((set.report().format, set.len()), (Format::BurstGpt, 2));
    assert_eq!(set.time_ns(1), Some(113_000_000_000));
    assert!(set.report().notes[0].starts_with("1 request failed in the recording"));
    let bailian = r#"{"chat_id":1,"parent_chat_id":-1,"timestamp":61.1,"input_length":20,"output_length":4,"type":"text","turn":1,"hash_ids":[7,8]}"#;
    let set = read(&trace(), "c.jsonl", bailian).unwrap();
    assert_eq!(set.report().format, Format::Bailian);
    assert_eq!(
        lines(&set),
        [
            r#"{"timestamp":61100,"input_length":20,"hash_ids":[7,8],"block_size":16,"output_tokens":4}"#
        ]
    );
}

#[test]
fn times_of_the_other_unit_are_remarked_on() {
    let line = |n: u32| format!("{{\"timestamp\":{n},\"input_length\":8,\"output_length\":3}}\n");
    let text: String = (0..200).map(line).collect();
    let set = read(&spec(), "d.jsonl", &text).unwrap();
    assert!(set.report().notes[0].contains("last 0.199 s: if that is wrong, say --time-unit s"));
    let seconds = DataSpec { time_unit: Some(TimeUnit::Seconds), ..spec() };
    let set = read(&seconds, "d.jsonl", &text).unwrap();
    assert_eq!((set.time_ns(1), set.report().notes.len()), (Some(1_000_000_000), 0));
    let since_1970 = r#"{"timestamp":1700158623.9,"prompt":"a"}"#;
    let set = read(&spec(), "d.jsonl", since_1970).unwrap();
    assert!(set.report().notes[0].contains("look like seconds since 1970"));
}

#[test]
fn bodies_of_chat_requests_become_messages() {
    let text = r#"{"model":"m","stream":true,"n":1,"max_tokens":7,"temperature":0.5,"tools":[{"a":1}],"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":"r"}]}"#;
    let set = read(&spec(), "d.jsonl", text).unwrap();
    assert_eq!(
        lines(&set),
        [
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"}]}],"output_tokens":7,"answer":"r","tools":[{"a":1}],"extra":{"temperature":0.5}}"#
        ]
    );
    assert!(set.report().notes.iter().any(|note| note.starts_with("3 members of bodies")));
    for (text, reason) in [
        (r#"{"messages":[]}"#, "no messages"),
        (r#"{"messages":[{"content":"a"}]}"#, "message 1: missing field `role`"),
        (r#"{"messages":[{"role":"assistant","content":"a"}]}"#, "no message of the user"),
        (r#"{"messages":{}}"#, "`messages` is not usable"),
    ] {
        assert!(refusal(&spec(), "d.jsonl", text).contains(reason), "{text}");
    }
}

#[test]
fn what_aiperf_wrote_is_read() {
    let multi =
        r#"{"session_id":"s","turns":[{"text":"a","output_length":3},{"texts":["b"],"delay":50}]}"#;
    assert_eq!(
        normal(&spec(), "d.jsonl", multi),
        [r#"{"session":"s","turns":[{"prompt":"a","output_tokens":3},{"prompt":"b","delay":50}]}"#]
    );
    let found = refusal(&spec(), "d.jsonl", &format!("{multi}\n{multi}\n"));
    assert!(found.contains("session `s` is there already, on line 1"), "{found}");
    let single = "{\"session_id\":\"s\",\"text\":\"a\"}\n{\"session_id\":\"t\",\"text\":\"x\"}\n\
                  {\"session_id\":\"s\",\"text\":\"b\",\"delay\":5}\n";
    let set = read(&spec(), "d.jsonl", single).unwrap();
    assert_eq!((set.len(), set.turns(0), set.turns(1)), (2, 2, 1));
    assert_eq!(
        lines(&set)[0],
        r#"{"session":"s","turns":[{"prompt":"a"},{"prompt":"b","delay":5}]}"#
    );
    let inputs = r#"{"data":[{"session_id":"s","payloads":[{"model":"m","x":1.0},{"y":2}]}]}"#;
    assert_eq!(
        normal(&spec(), "inputs.json", inputs),
        [r#"{"session":"s","turns":[{"body":{"model":"m","x":1.0}},{"body":{"y":2}}]}"#]
    );
    let given = DataSpec { format: Format::InputsJson, ..spec() };
    for inputs in [
        "{\n\"version\":[1],\n\"data\":[{\"payloads\":[{\"y\":2}]}]}",
        "{\"payloads\":[{\"y\":2}]}\n",
    ] {
        assert_eq!(normal(&given, "d", inputs), [r#"{"body":{"y":2}}"#]);
    }
    let raw = DataSpec { format: Format::RawPayload, ..spec() };
    assert_eq!(normal(&raw, "d.jsonl", "{\"a\": 1}\n"), [r#"{"body":{"a": 1}}"#]);
}

#[test]
fn native_lines_pass_through_and_others_name_their_columns() {
    let line =
        r#"{"session":"s","turns":[{"prompt":"q","answer":"a"},{"prompt":"r","delay":1.5}]}"#;
    let set = read(&spec(), "d.jsonl", line).unwrap();
    assert_eq!(set.report().format, Format::Native);
    assert_eq!(lines(&set), [line]);
    for (text, format, normal) in [
        (
            r#"{"prompt":"q","output_tokens":5}"#,
            Format::VllmCustom,
            r#"{"prompt":"q","output_tokens":5}"#,
        ),
        (
            r#"{"Question":"q","Response":"r","system_prompt":"s","max_tokens":"9"}"#,
            Format::Columns,
            r#"{"system":"s","prompt":"q","answer":"r"}"#,
        ),
        (
            r#"{"input_tokens":7,"completion_tokens":3.0}"#,
            Format::Columns,
            r#"{"input_length":7,"output_tokens":3}"#,
        ),
        (
            r#"{"timestamp":5,"messages":[{"role":"user","content":"q"}],"output_length":2}"#,
            Format::Mooncake,
            r#"{"timestamp":5,"messages":[{"role":"user","content":"q"}],"output_tokens":2}"#,
        ),
        (
            r#"{"timestamp":5,"payload":{"a":1}}"#,
            Format::Mooncake,
            r#"{"timestamp":5,"body":{"a":1}}"#,
        ),
    ] {
        let found = read(&spec(), "d.jsonl", text);
        if text.contains("\"9\"") {
            assert!(found.unwrap_err().to_string().contains("`max_tokens` is a text"));
            continue;
        }
        let set = found.unwrap();
        assert_eq!((set.report().format, lines(&set)), (format, vec![normal.to_owned()]));
    }
}

#[test]
fn a_conversation_in_a_trace_begins_at_its_time_and_goes_on_by_delays() {
    let text = "{\"session_id\":\"s\",\"timestamp\":5,\"input_length\":3,\"output_length\":1}\n\
                {\"session_id\":\"s\",\"delay\":7,\"input_length\":4,\"output_length\":1}\n\
                {\"session_id\":\"s\",\"timestamp\":9,\"input_length\":5,\"output_length\":1}\n";
    let set = read(&trace(), "d.jsonl", text).unwrap();
    assert_eq!((set.len(), set.turns(0), set.turns(1), set.report().turns), (2, 2, 1, 3));
    assert!(set.has_times() && set.time_ns(1) == Some(4_000_000));
    let single = DataSpec { single_turn: true, ..trace() };
    let set = read(&single, "d.jsonl", text).unwrap();
    assert_eq!((set.len(), set.turns(0), set.report().dropped_turns), (2, 1, 1));
    let found = refusal(&trace(), "d.jsonl", &text.replace("\"delay\":7,", ""));
    assert!(found.starts_with("d.jsonl:2: no `timestamp` and no `delay`"), "{found}");
}

#[cfg(feature = "parquet")]
#[test]
fn rows_of_parquet_are_read() {
    use std::sync::Arc;

    use ::parquet::data_type::{ByteArrayType, Int64Type};
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;

    let schema = "message rows { required binary prompt (utf8); required int64 max_tokens; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    let mut writer =
        SerializedFileWriter::new(file.reopen().unwrap(), schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&["a".into(), "b".into()], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[5, 0], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let spec = DataSpec {
        on_bad_line: crate::workload::OnBadLine::Skip,
        ..DataSpec::new(crate::workload::Source::File(file.path().into()))
    };
    let set = DataSet::load(&spec, None, &|_, _, _| Err(String::new())).unwrap();
    assert_eq!(lines(&set), [r#"{"prompt":"a","output_tokens":5}"#]);
    let bad = &set.report().first_skipped[0];
    assert_eq!((bad.unit, bad.number), (Unit::Row, 2));
}
