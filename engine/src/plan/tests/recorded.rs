//! Recorded requests: texts, messages, blocks, bodies, conversations.

use std::io::Cursor;
use std::sync::Arc;

use super::data::DataSet;
use super::*;
use crate::workload::{CacheBust, Class, DataSpec, Format, History, Order, Replay, Source};

/// The load that sends the lines of `text`, and what it needs.
fn sends(format: Format, text: &str) -> (Workload, Materials) {
    let spec = DataSpec { format, ..DataSpec::new(Source::Stdin) };
    let data = DataSet::read(&spec, "d.jsonl", Box::new(Cursor::new(text.to_owned())), None);
    let mut workload = workload();
    set_lengths(&mut workload, 64, 9);
    content(&mut workload).data = Some(spec);
    let data = vec![Some(Arc::new(data.unwrap()))];
    (workload, Materials { data, ..Materials::default() })
}

fn of(made: &(Workload, Materials)) -> Plan {
    Plan::new(&made.0, &made.1, "run1").unwrap()
}

#[test]
fn a_text_is_sent_as_it_stands() {
    let text = "{\"prompt\":\"say \\\"hi\\\"\\n\\u00e9\",\"output_tokens\":3,\"input_tokens\":5}\n\
                {\"prompt\":\"two\",\"system\":\"be short\"}\n";
    let mut made = sends(Format::Native, text);
    let plan = of(&made);
    let (written, body) = said(&plan, 0);
    assert_eq!(prompt(&body), "say \"hi\"\n\u{e9}");
    assert_eq!((body["max_tokens"].as_u64(), written.output_tokens), (Some(3), 3));
    assert_eq!(written.input_tokens, Some(5));
    let (written, body) = said(&plan, 1);
    let system = json!({"role": "system", "content": "be short"});
    assert_eq!(body["messages"], json!([system, {"role": "user", "content": "two"}]));
    assert_eq!((written.input_tokens, written.output_tokens), (None, 9), "by the law of outputs");
    assert_eq!(said(&plan, 2).1, said(&plan, 0).1, "from the first again after the last");
    made.0.target.dialect = Dialect::OpenaiCompletions;
    assert_eq!(said(&of(&made), 1).1["prompt"], "be short two");
}

#[test]
fn messages_are_sent_as_they_were_recorded() {
    let text = r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"me"}],"temperature":0.5,"max_tokens":4,"tools":[{"type":"function"}]}"#;
    let mut made = sends(Format::OpenaiMessages, text);
    let (written, body) = said(&of(&made), 0);
    let recorded: Value = serde_json::from_str(text).unwrap();
    assert_eq!(body["messages"], recorded["messages"]);
    assert_eq!((&body["temperature"], &body["tools"]), (&json!(0.5), &recorded["tools"]));
    assert_eq!((written.output_tokens, &body["max_tokens"]), (4, &json!(4)));
    made.0.target.dialect = Dialect::OpenaiCompletions;
    let (_, body) = said(&of(&made), 0);
    assert_eq!(body["prompt"], "s\na\nb", "one text of all");
}

#[test]
fn members_and_tools_belong_to_their_entry_alone() {
    let text = "{\"prompt\":\"one\",\"extra\":{\"top_k\":7,\"ignore_eos\":false},\
                \"tools\":[{\"type\":\"function\"}]}\n{\"prompt\":\"two\"}\n";
    let mut made = sends(Format::Native, text);
    made.0.target.extra_body = json!({"top_k": 1}).as_object().unwrap().clone();
    content(&mut made.0).tools = Some("[{\"type\":\"other\"}]".into());
    let plan = of(&made);
    let [one, two] = [0, 1].map(|item| said(&plan, item).1);
    assert_eq!((&one["top_k"], &one["ignore_eos"]), (&json!(7), &json!(false)));
    assert_eq!(one["tools"], json!([{"type": "function"}]));
    assert_eq!((&two["top_k"], &two["ignore_eos"]), (&json!(1), &json!(true)));
    assert_eq!(two["tools"], json!([{"type": "other"}]));
}

#[test]
fn a_body_is_sent_byte_for_byte() {
    let line = r#"{ "model":"x",  "messages":[{"role":"user","content":"a"}], "n": 1.50 }"#;
    let plan = of(&sends(Format::RawPayload, line));
    let mut out = Vec::new();
    let written = plan.render(0, &mut out).unwrap();
    assert_eq!(String::from_utf8_lossy(&out[written.body]), line);
}

#[test]
fn equal_blocks_are_equal_texts() {
    let text = "{\"timestamp\":0,\"input_length\":40,\"output_length\":3,\"hash_ids\":[1,2,3]}\n\
                {\"timestamp\":10,\"input_length\":48,\"output_length\":3,\"hash_ids\":[1,2,9]}\n\
                {\"timestamp\":20,\"input_length\":33,\"output_length\":3,\"hash_ids\":[7,2,3]}\n";
    let spec =
        DataSpec { format: Format::Mooncake, block_size: Some(16), ..DataSpec::new(Source::Stdin) };
    let mut made = sends(Format::Native, "{\"prompt\":\"x\"}");
    let data = DataSet::read(&spec, "d.jsonl", Box::new(Cursor::new(text.to_owned())), None);
    content(&mut made.0).data = Some(spec);
    made.1.data = vec![Some(Arc::new(data.unwrap()))];
    let plan = of(&made);
    let prompts = [0, 1, 2].map(|item| {
        let (written, body) = said(&plan, item);
        let text = prompt(&body).to_owned();
        assert_eq!(written.input_tokens, Some(tokens_of(&text)));
        text
    });
    assert_eq!(prompts.each_ref().map(|text| tokens_of(text)), [40, 48, 33]);
    let block = |text: &str, number: usize| {
        text.split(' ').skip(number * 16).take(16).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (block(&prompts[0], 0), block(&prompts[0], 1)),
        (block(&prompts[1], 0), block(&prompts[1], 1))
    );
    assert_eq!(block(&prompts[0], 1), block(&prompts[2], 1), "wherever it stands");
    assert_ne!(block(&prompts[0], 0), block(&prompts[2], 0));
    let (mut scratch, mut walk) = (Scratch::default(), plan.walk());
    let known = [(); 3].map(|()| {
        let place = walk.step(&plan);
        plan.write(&place, &mut scratch, &mut Vec::new()).unwrap().ideal_cached
    });
    assert_eq!(known, [Some(0), Some(32), Some(0)]);
    // The words are those of the seed.
    made.0.seed += 1;
    assert_ne!(prompt(&said(&of(&made), 0).1), prompts[0]);
}

#[test]
fn a_recorded_conversation_goes_on_with_the_history_asked_for() {
    let text = "{\"system\":\"s\",\"turns\":[{\"prompt\":\"q1\",\"answer\":\"a \\\"1\\\"\"},\
                {\"prompt\":\"q2\",\"answer\":\"a2\",\"delay\":250,\"output_tokens\":2},\
                {\"prompt\":\"q3\"}]}\n";
    let last = |history| {
        let mut made = sends(Format::Native, text);
        content(&mut made.0).conversation.history = history;
        let plan = of(&made);
        assert!(plan.has_sessions());
        let first = plan.render(0, &mut Vec::new()).unwrap();
        let script = first.script.unwrap();
        assert_eq!((script.turns_left(), script.pause_ns()), (2, Some(250_000_000)));
        let second = plan.write_turn(script, b"live", Some(1), &mut Vec::new()).unwrap();
        assert_eq!((second.output_tokens, second.turn), (2, Some(1)));
        let mut out = Vec::new();
        let third = plan.write_turn(second.script.unwrap(), b"live", Some(1), &mut out).unwrap();
        let body: Value = serde_json::from_slice(&out[third.body]).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|one| one["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(last(History::Live), ["s", "q1", "live", "q2", "live", "q3"]);
    assert_eq!(last(History::Recorded), ["s", "q1", "a \"1\"", "q2", "a2", "q3"]);
    assert_eq!(last(History::Nothing), ["s", "q3"]);
}

#[test]
fn recorded_answers_count_as_input_where_there_is_a_tokenizer() {
    let text = "{\"turns\":[{\"prompt\":\"one two\",\"input_tokens\":2,\
                \"answer\":\"three four five\"},{\"prompt\":\"six\",\"input_tokens\":1}]}\n";
    let second = |tokens| {
        let mut made = sends(Format::Native, text);
        made.1.tokens = tokens;
        content(&mut made.0).conversation.history = History::Recorded;
        let plan = of(&made);
        let first = plan.render(0, &mut Vec::new()).unwrap();
        let turn = plan.write_turn(first.script.unwrap(), b"live", Some(9), &mut Vec::new());
        turn.unwrap().input_tokens
    };
    assert_eq!(second(Some(Arc::new(Embedded::O200kBase))), Some(2 + 3 + 1));
    assert_eq!(second(None), None, "nothing is made up");
}

#[test]
fn a_template_is_filled_with_recorded_prompts() {
    let mut made = sends(Format::Native, "{\"prompt\":\"say \\\"hi\\\"\",\"output_tokens\":3}");
    made.0.target.dialect = Dialect::Template;
    let file = json!({"path": "/x", "body": "{\"q\": \"{{prompt}}\", \"n\": {{max_tokens}}}",
                      "answer": {"text": "/t"}});
    made.0.target.template = Some(serde_json::from_value(file).unwrap());
    assert_eq!(said(&of(&made), 0).1, json!({"q": "say \"hi\"", "n": 3}));
}

#[test]
fn recorded_prompts_are_hidden_from_caches_as_others_are() {
    let text = "{\"prompt\":\"the same\"}\n{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},\
                {\"role\":\"user\",\"content\":\"u\"}]}\n";
    let mut made = sends(Format::Native, text);
    content(&mut made.0).cache_bust = CacheBust::Request;
    let plan = of(&made);
    let system = |item| said(&plan, item).1["messages"][0].clone();
    assert_ne!(system(0), system(2));
    let marked = system(1)["content"].as_str().unwrap().to_owned();
    assert_eq!((tokens_of(&words(&marked, 4)), marked.ends_with(" s")), (4, true), "{marked}");
    assert_eq!(said(&plan, 1).1["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn entries_come_in_the_order_asked_for() {
    let text: String = (0..20).map(|n| format!("{{\"prompt\":\"p{n}\"}}\n")).collect();
    let order = |order, seed| {
        let mut made = sends(Format::Native, &text);
        content(&mut made.0).data.as_mut().unwrap().order = order;
        made.0.seed = seed;
        let plan = of(&made);
        (0..20).map(|item| prompt(&said(&plan, item).1).to_owned()).collect::<Vec<_>>()
    };
    let sequential = order(Order::Sequential, 1);
    assert_eq!(sequential[..3], ["p0", "p1", "p2"]);
    let shuffled = order(Order::Shuffle, 1);
    assert_ne!(shuffled, sequential);
    assert_eq!(shuffled.iter().collect::<HashSet<_>>().len(), 20, "each once");
    assert_eq!(shuffled, order(Order::Shuffle, 1));
    assert_ne!(shuffled, order(Order::Shuffle, 2));
    assert!(order(Order::Sample, 1).iter().collect::<HashSet<_>>().len() < 20);
}

#[test]
fn each_class_goes_through_its_own_recording() {
    let mut made = sends(Format::Native, "{\"prompt\":\"a1\"}\n{\"prompt\":\"a2\"}\n");
    let other = sends(Format::Native, "{\"prompt\":\"b1\"}\n{\"prompt\":\"b2\"}\n");
    made.0.mix.push(Class { weight: 1.0, ..other.0.mix[0].clone() });
    let unread = Plan::new(&made.0, &made.1, "run1").unwrap_err().to_string();
    assert_eq!(unread, "the recording of class 1 was not read");
    made.1.data.extend(other.1.data);
    let plan = of(&made);
    let mut of_class = [0_usize; 2];
    for item in 0..12 {
        let (written, body) = said(&plan, item);
        let expected = [["a1", "a2"], ["b1", "b2"]][written.class][of_class[written.class] % 2];
        assert_eq!(prompt(&body), expected);
        of_class[written.class] += 1;
    }
}

#[test]
fn a_replay_takes_a_part_of_a_trace_at_its_times() {
    let line = |n: u64| format!("{{\"timestamp\":{},\"prompt\":\"p{n}\"}}\n", n * 100);
    let text: String = (0..10).map(line).collect();
    let replay = |replay: Replay| {
        let mut made = sends(Format::Native, &text);
        made.0.load = Load::Open {
            schedule: Schedule::Replay(replay),
            max_in_flight: None,
            overflow: Overflow::Wait,
        };
        let plan = Plan::new(&made.0, &made.1, "run1").map_err(|error| error.to_string())?;
        let due: Vec<u64> = plan.arrivals(0, 1).unwrap().map(|(_, at)| at / 1_000_000).collect();
        let text = |item| prompt(&said(&plan, item).1).to_owned();
        Ok::<_, String>((due, (0..3).map(text).collect::<Vec<_>>()))
    };
    let (due, texts) = replay(Replay::default()).unwrap();
    assert_eq!((due, texts[0].as_str()), ((0..10).map(|n| n * 100).collect(), "p0"));
    let part = Replay { speed: 2.0, start_ns: 300_000_000, end_ns: Some(600_000_000), loops: 1 };
    let (due, texts) = replay(part).unwrap();
    assert_eq!((due, texts), (vec![0, 50, 100], vec!["p3".into(), "p4".into(), "p5".into()]));
    let none = Replay { start_ns: 5_000_000_000, ..Replay::default() };
    assert!(replay(none).unwrap_err().starts_with("no request of the recording lies"));
}
