//! The fast path must give exactly what JSON gives: any sequence of events, made up, mutated or
//! hostile, against a decoder without memory and against a slow plain one.

mod plain;

use std::sync::Arc;

use plain::{Meaning, meaning};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tokclock_parser::dialect::{Decoder, Dialect, Known, Places, Template};
use tokclock_parser::event::{Event, Output};
use tokclock_parser::sse::Message;

const TEXTS: &[&str] = &[
    "",
    "a",
    " beta",
    "é",
    "😀",
    r"\n",
    r#"\""#,
    r"\\",
    r"\u00e9",
    r"\/",
    "}",
    "]}",
    "[DONE]",
    r#"\"},{\""#,
    "data: ",
    "\u{7f}",
    "0123456789012345678901234567890123456789",
];

const NUMBERS: &[&str] = &[
    "",
    "0",
    "7",
    "07",
    "12",
    "-3",
    "1.5",
    "1764000000",
    "999999999999999999",
    "1000000000000000000",
    "18446744073709551615",
    "18446744073709551616",
];

const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "7",
    "-1",
    "1.5",
    "2.0",
    "18446744073709551616",
    r#""""#,
    r#""a""#,
    r#""b\nc""#,
    "[]",
    "[1,2]",
    "{}",
    r#"{"content":"x"}"#,
    r#"[{"text":"p"}]"#,
];

/// A string, or now and then a value of any type.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(TEXTS).prop_map(|text| format!("\"{text}\"")),
        1 => select(VALUES).prop_map(str::to_owned),
    ]
}

fn object(fields: impl Strategy<Value = (&'static str, String)>) -> impl Strategy<Value = String> {
    (vec(fields, 0..4), select(&["", " "])).prop_map(|(fields, blank)| {
        let field = |(name, value): &(&str, String)| format!("{blank}\"{name}\":{blank}{value}");
        format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
    })
}

fn named(names: &'static [&'static str]) -> impl Strategy<Value = (&'static str, String)> {
    (select(names), value())
}

fn list(of: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    vec(of, 0..3).prop_map(|all| format!("[{}]", all.join(",")))
}

fn message() -> impl Strategy<Value = String> {
    let function = || object(named(&["name", "arguments", "x"])).boxed();
    let call = object(function().prop_map(|function| ("function", function)));
    let part = object(named(&["text", "refusal", "type"]));
    object(prop_oneof![
        6 => named(&["content", "content", "reasoning", "reasoning_content", "refusal", "role"]),
        1 => named(&["audio", "images", "tool_calls", "function_call", "cont\\u0065nt", "x"]),
        1 => list(call).prop_map(|calls| ("tool_calls", calls)),
        1 => function().prop_map(|function| ("function_call", function)),
        1 => list(part).prop_map(|parts| ("content", parts)),
        1 => object(named(&["data", "transcript"])).prop_map(|audio| ("audio", audio)),
    ])
}

fn choice() -> impl Strategy<Value = String> {
    object(prop_oneof![
        6 => message().prop_map(|message| ("delta", message)),
        2 => named(&["text", "finish_reason", "token_ids", "delta", "index"]),
        1 => select(&["stop", "length", "tool_calls", "content_filter", "abort"])
            .prop_map(|word| ("finish_reason", format!("\"{word}\""))),
    ])
}

fn event() -> impl Strategy<Value = String> {
    let counts = (0..5_u8).prop_map(|count| count.to_string());
    let details = object((select(&["reasoning_tokens", "cached_tokens", "x"]), counts.clone()));
    let names = &["prompt_tokens", "completion_tokens", "total_tokens"];
    let usage = object(prop_oneof![
        4 => (select(names), counts),
        1 => named(&["prompt_tokens", "total_tokens", "prompt_tokens_details"]),
        1 => (select(&["prompt_tokens_details", "completion_tokens_details"]), details),
    ]);
    let outer = object(prop_oneof![
        8 => list(choice()).prop_map(|choices| ("choices", choices)),
        2 => usage.prop_map(|usage| ("usage", usage)),
        2 => named(&["id", "created", "obfuscation", "usage", "choices", "object", "x"]),
        1 => select(NUMBERS).prop_map(|number| ("created", number.to_owned())),
    ]);
    let error = object(prop_oneof![
        object(named(&["message", "code", "type"])).prop_map(|error| ("error", error)),
        named(&["error", "message", "code", "id"]),
        Just(("object", "\"error\"".to_owned())),
    ]);
    prop_oneof![8 => outer, 1 => error, 1 => select(VALUES).prop_map(str::to_owned)]
}

/// How the next event differs from the last.
#[derive(Debug, Clone)]
enum Next {
    New(String),
    /// One of its texts replaced.
    Text(Index, &'static str),
    /// One of its numbers replaced.
    Number(Index, &'static str),
    /// An earlier event again, so that several kinds of event take turns.
    Again(Index),
    /// A byte put in, or in place of another.
    Byte(Index, u8, bool),
    /// Cut short.
    Cut(Index),
}

fn next() -> impl Strategy<Value = Next> {
    next_of(event())
}

fn next_of(new: impl Strategy<Value = String>) -> impl Strategy<Value = Next> {
    // No `d` and no `e`: half surrogates and huge floats are not for the plain decoder.
    let bytes = select(b"\"\\{}[],: \n0a1nu/\xff\xc3\x01".as_slice());
    prop_oneof![
        2 => new.prop_map(Next::New),
        6 => (any::<Index>(), select(TEXTS)).prop_map(|(at, text)| Next::Text(at, text)),
        3 => (any::<Index>(), select(NUMBERS)).prop_map(|(at, new)| Next::Number(at, new)),
        3 => any::<Index>().prop_map(Next::Again),
        3 => (any::<Index>(), bytes, any::<bool>()).prop_map(|(at, byte, put)| Next::Byte(at, byte, put)),
        1 => any::<Index>().prop_map(Next::Cut),
    ]
}

impl Next {
    fn after(&self, past: &[Vec<u8>]) -> Vec<u8> {
        let mut data = past.last().cloned().unwrap_or_default();
        match self {
            Self::New(new) => return new.clone().into_bytes(),
            _ if data.is_empty() => {}
            Self::Text(at, text) => {
                // Between two neighbouring quotes, wherever they are: names are hit as well.
                let quotes: Vec<usize> = data
                    .iter()
                    .enumerate()
                    .filter(|(_, b)| **b == b'"')
                    .map(|(at, _)| at)
                    .collect();
                if quotes.len() > 1 {
                    let first = at.index(quotes.len() - 1);
                    data.splice(quotes[first] + 1..quotes[first + 1], text.bytes());
                }
            }
            Self::Number(at, new) => {
                let is_digit = |at: &usize| data[*at].is_ascii_digit();
                let digits: Vec<usize> = (0..data.len()).filter(is_digit).collect();
                if !digits.is_empty() {
                    let inside = digits[at.index(digits.len())];
                    let to = (inside..data.len()).find(|at| !is_digit(at)).unwrap_or(data.len());
                    let from = (0..inside).rfind(|at| !is_digit(at)).map_or(0, |before| before + 1);
                    data.splice(from..to, new.bytes());
                }
            }
            Self::Again(at) => return at.get(past).clone(),
            Self::Byte(at, byte, true) => data.insert(at.index(data.len()), *byte),
            Self::Byte(at, byte, false) => {
                let at = at.index(data.len());
                data[at] = *byte;
            }
            Self::Cut(at) => data.truncate(at.index(data.len())),
        }
        data
    }
}

fn dialect() -> impl Strategy<Value = Dialect> {
    select(&[Dialect::OpenaiChat, Dialect::OpenaiCompletions])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_sequence_of_events_reads_as_each_alone(dialect in dialect(), steps in vec(next(), 1..40)) {
        let mut remembers = Decoder::new(dialect.clone());
        let mut past = Vec::new();
        for step in steps {
            let data = step.after(&past);
            past.push(data.clone());
            let message = Message { name: b"", data: &data };
            let mut alone = Decoder::new(dialect.clone());
            let expected = alone.event(message);
            prop_assert_eq!(&remembers.event(message), &expected);
            prop_assert_eq!(Meaning::from(&expected), meaning(&dialect, &data));
        }
    }
}

const RESPONSES: &[&str] = &[
    r#"{"type":"response.output_text.delta","item_id":"i","sequence_number":7,"delta":"a"}"#,
    r#"{"type":"response.reasoning_text.delta","sequence_number":7,"delta":"a","obfuscation":"x"}"#,
    r#"{"type":"response.function_call_arguments.delta","delta":"{\"a\":"}"#,
    r#"{"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}"#,
    r#"{"type":"response.output_text.done","sequence_number":8,"text":"a"}"#,
    r#"{"type":"error","code":"a","message":"b"}"#,
    r#"{"sequence_number":7,"delta":"a"}"#,
];

const MESSAGES: &[&str] = &[
    r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"a"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#,
    r#"{"type":"ping"}"#,
    r#"{"delta":{"text":"a"}}"#,
];

const DESCRIBED: &[&str] = &[
    r#"{"id":"x","at":7,"out":[{"text":"a"}],"model":"m"}"#,
    r#"{"id":"x","out":[{"text":"a","why":"stop"}]}"#,
    r#"{"text":"a","ids":[1,2]}"#,
    r#"{"text":"a","ids":3,"id":7}"#,
    r#"{"in":7}"#,
    r#"{"text":"a","n":7}"#,
    r#"{"why":"stop","last":true}"#,
    r#"{"error":"a"}"#,
];

/// A dialect, events of it, and the names that they may have.
fn typed() -> impl Strategy<Value = (Dialect, &'static [&'static str], &'static [&'static str])> {
    let one = |pointer: &str| vec![pointer.to_owned()];
    let places = move |cumulative| Places {
        text: vec!["/out/0/text".to_owned(), "/text".to_owned()],
        tokens: one("/ids"),
        input_tokens: one("/in"),
        output_tokens: one("/n"),
        finish: vec!["/out/0/why".to_owned(), "/why".to_owned()],
        done: one("/last"),
        cumulative,
        ..Places::default()
    };
    let template = move |cumulative| {
        let Ok(template) = Template::new(places(cumulative)) else { unreachable!("it is sound") };
        (Dialect::Template(Arc::new(template)), DESCRIBED, &["", "", "chunk", "error"] as _)
    };
    prop_oneof![
        Just((
            Dialect::OpenaiResponses,
            RESPONSES,
            &["", "response.output_text.delta", "response.refusal.delta", "error"] as _,
        )),
        Just((
            Dialect::AnthropicMessages,
            MESSAGES,
            &["", "content_block_delta", "content_block_start", "ping"] as _,
        )),
        any::<bool>().prop_map(template),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_sequence_of_typed_events_reads_as_without_shapes(
        (dialect, names, steps) in typed().prop_flat_map(|(dialect, events, names)| {
            let new = select(events).prop_map(str::to_owned);
            (Just(dialect), Just(names), vec((0..4_usize, next_of(new)), 1..40))
        })
    ) {
        let mut learns = Decoder::new(dialect.clone());
        let mut forgets = Decoder::new(dialect);
        let mut past = Vec::new();
        for (name, step) in steps {
            let data = step.after(&past);
            past.push(data.clone());
            let message = Message { name: names[name].as_bytes(), data: &data };
            forgets.forget();
            prop_assert_eq!(learns.event(message), forgets.event(message));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn streams_that_share_their_shapes_read_as_without(
        (dialect, names, steps) in typed().prop_flat_map(|(dialect, events, names)| {
            let step = next_of(select(events).prop_map(str::to_owned));
            (Just(dialect), Just(names), vec((any::<bool>(), 0..4_usize, step), 1..60))
        })
    ) {
        let streams = || [Decoder::new(dialect.clone()), Decoder::new(dialect.clone())];
        let (mut sharing, mut forgetful) = (streams(), streams());
        let mut known = Known::default();
        let mut past = Vec::new();
        for (which, name, step) in steps {
            let data = step.after(&past);
            past.push(data.clone());
            let message = Message { name: names[name].as_bytes(), data: &data };
            let (shares, forgets) = (&mut sharing[which as usize], &mut forgetful[which as usize]);
            forgets.forget();
            shares.swap_known(&mut known);
            prop_assert_eq!(shares.event(message), forgets.event(message));
            shares.swap_known(&mut known);
        }
    }
}

/// The event of most servers, with this text.
fn usual(text: &str) -> String {
    format!(
        "{{\"id\":\"c1\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\
         \"finish_reason\":null}}]}}"
    )
}

#[test]
fn texts_that_try_to_break_out_read_as_json_reads_them() {
    let mut decoder = Decoder::new(Dialect::OpenaiChat);
    for text in [
        "\"},\"finish_reason\":\"stop\"}]}",
        "a\",\"content\":\"b",
        "a\"},\"x\":{\"y\":\"b",
        "a\\",
        "\\u12",
        "\\ud83d",
        "a\tb",
        "",
    ] {
        decoder.event(Message { name: b"", data: usual("Hello").as_bytes() });
        let data = usual(text);
        let message = Message { name: b"", data: data.as_bytes() };
        let mut alone = Decoder::new(Dialect::OpenaiChat);
        assert_eq!(decoder.event(message), alone.event(message), "{text:?}");
    }
}

#[test]
fn both_names_of_the_same_reasoning_are_one_text() {
    let data = br#"{"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]}"#;
    let mut decoder = Decoder::new(Dialect::OpenaiChat);
    let Event::Output(Output { reasoning, .. }) = decoder.event(Message { name: b"", data }) else {
        panic!("reasoning is output");
    };
    assert_eq!(reasoning.as_str(), "hm");
}

#[test]
fn an_event_by_name_is_a_ping_an_error_or_a_copy() {
    let mut decoder = Decoder::new(Dialect::OpenaiChat);
    let data = usual("a");
    let mut read = |name: &'static [u8]| {
        Meaning::from(&decoder.event(Message { name, data: data.as_bytes() }))
    };
    assert_eq!(read(b"ping"), Meaning::Ping);
    assert_eq!(read(b"tool_call_dispatch"), Meaning::Empty);
    assert_eq!(read(b"error"), Meaning::Fault(data.clone(), None));
    assert!(matches!(read(b"message"), Meaning::Output(..)));
}
