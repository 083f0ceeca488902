//! Faults of real servers, each in bytes of our own: what the parser must make of them, however the
//! bytes are cut.

use tokclock_parser::ErrorKind;
use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::Dialect;
use tokclock_parser::event::{Event, Finish, OutputKind, unescape};
use tokclock_parser::head::CloseReason;

/// What a client knows once the response is over.
#[derive(Debug, Clone, Default, PartialEq)]
struct Known {
    status: u16,
    close_reason: Option<CloseReason>,
    retry_after: Option<u64>,
    location: Option<String>,
    interims: u32,
    outputs: Vec<OutputKind>,
    content: String,
    tools: String,
    reasoning: String,
    finish: Option<Finish>,
    output_tokens: Option<u64>,
    fault: Option<(String, Option<String>)>,
    malformed: u32,
    done: u32,
    ended: bool,
    error: Option<ErrorKind>,
    not_streaming: bool,
    coded: bool,
    error_body: String,
    left_over: usize,
}

impl Known {
    fn take(&mut self, signal: Signal<'_>) {
        match signal {
            Signal::Interim => self.interims += 1,
            Signal::Head(head) => {
                self.status = head.status;
                self.close_reason = head.close_reason;
                self.retry_after = head.retry_after;
                self.location = head.location.clone();
            }
            Signal::Event(event) => self.take_event(event),
            Signal::End => self.ended = true,
        }
    }

    fn take_event(&mut self, event: Event<'_>) {
        let (finish, usage) = match event {
            Event::Output(output) => {
                self.outputs.push(output.kind);
                let text = unescape(output.text.as_str());
                match output.kind {
                    OutputKind::ToolCall => self.tools.push_str(&text),
                    _ => self.content.push_str(&text),
                }
                self.reasoning.push_str(&unescape(output.reasoning.as_str()));
                (output.finish, output.usage)
            }
            Event::Tail(tail) => (tail.finish, tail.usage),
            Event::Fault(fault) => {
                self.fault = Some((fault.message.into(), fault.code.map(Into::into)));
                return;
            }
            Event::Done => return self.done += 1,
            Event::Malformed(_) => return self.malformed += 1,
            Event::Note(_) => return,
        };
        self.finish = finish.or(self.finish);
        self.output_tokens = usage.and_then(|usage| usage.output_tokens).or(self.output_tokens);
    }
}

fn settings() -> Settings {
    Settings { dialect: Dialect::OpenaiChat, stream: true, limits: Limits::default() }
}

fn read_in(settings: Settings, wire: &[u8], piece: usize) -> Known {
    let mut answer = Answer::new(settings);
    let mut known = Known::default();
    'wire: for mut bytes in wire.chunks(piece) {
        loop {
            match answer.next(bytes) {
                Ok(step) => {
                    bytes = &bytes[step.used..];
                    let Some(signal) = step.item else { break };
                    known.take(signal);
                }
                Err(error) => {
                    known.error = Some(error.kind);
                    break 'wire;
                }
            }
        }
        known.left_over += bytes.len();
    }
    loop {
        match answer.eof() {
            Ok(Some(signal)) => known.take(signal),
            Ok(None) => break,
            Err(error) => {
                known.error = Some(error.kind);
                break;
            }
        }
    }
    known.not_streaming = answer.not_streaming();
    known.coded = answer.unsupported_encoding();
    known.error_body = String::from_utf8_lossy(answer.error_body()).into();
    known
}

/// What is known of `wire`, after checking that no cut changes it.
fn read_with(settings: Settings, wire: impl AsRef<[u8]>) -> Known {
    let wire = wire.as_ref();
    let one = read_in(settings.clone(), wire, wire.len().max(1));
    for piece in [1, 2, 3, 5, 7, 11, 64, 100, 1000] {
        assert_eq!(read_in(settings.clone(), wire, piece), one, "in pieces of {piece}");
    }
    one
}

fn read(wire: impl AsRef<[u8]>) -> Known {
    read_with(settings(), wire)
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

fn content(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn tail() -> String {
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
     data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":2}}\n\n\
     data: [DONE]\n\n"
        .into()
}

fn good() -> String {
    content("Hel") + &content("lo") + &tail()
}

/// A chunked response whose chunks are these.
fn chunked(chunks: &[&str]) -> String {
    let chunk = |chunk: &&str| format!("{:x}\r\n{chunk}\r\n", chunk.len());
    format!("{STREAM}{CHUNKED}{}0\r\n\r\n", chunks.iter().map(chunk).collect::<String>())
}

#[track_caller]
fn is_good(known: &Known) {
    assert_eq!((known.content.as_str(), known.outputs.len()), ("Hello", 2), "{known:?}");
    assert_eq!((known.finish, known.output_tokens), (Some(Finish::Stop), Some(2)));
    assert_eq!((known.done, known.malformed, known.not_streaming), (1, 0, false));
    assert_eq!((&known.fault, known.error, known.ended), (&None, None, true));
}

#[test]
fn line_ends_blanks_marks_and_comments_change_nothing() {
    is_good(&read(chunked(&[&good()])));
    is_good(&read(chunked(&[&good().replace('\n', "\r\n")])));
    is_good(&read(chunked(&[&good().replace('\n', "\r")])));
    is_good(&read(chunked(&[&good().replace("data: ", "data:")])));
    is_good(&read(chunked(&["\u{feff}", &good()])));
    is_good(&read(chunked(&[
        "retry: 100\n\n: ping\n\n:\n\n",
        &good().replace("\n\n", "\n:\n\n:\n\n"),
    ])));
    is_good(&read(chunked(&[&good().replace("}\n\n", "} \n\n")])));
    is_good(&read(chunked(&[&good().replace("\"choices\"", "\ndata: \"choices\"")])));
}

#[test]
fn a_line_that_looks_like_the_rest_of_an_event_is_not_its_rest() {
    let two_lines = content("a").replace("\"delta\":", "\"delta\":\ndata: ");
    let one_field = content("b").replace("\"delta\":", "\"delta\":\n");
    let known = read(chunked(&[&two_lines, &one_field, &two_lines]));
    assert_eq!((known.content.as_str(), known.malformed), ("aa", 1));
}

#[test]
fn a_preamble_without_choices_and_a_role_are_no_output() {
    let preamble = "data: {\"choices\":[]}\n\n\
                    data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    is_good(&read(chunked(&[preamble, &good()])));
}

#[test]
fn a_character_cut_between_chunks_is_whole() {
    let event = content("é");
    let at = event.find('é').unwrap() + 1;
    let (first, second) = event.as_bytes().split_at(at);
    let mut wire = format!("{STREAM}{CHUNKED}{:x}\r\n", first.len()).into_bytes();
    wire.extend([first, format!("\r\n{:x}\r\n", second.len()).as_bytes(), second].concat());
    wire.extend_from_slice(b"\r\n0\r\n\r\n");
    assert_eq!(read(wire).content, "é");
}

#[test]
fn an_error_inside_a_200_is_a_fault_whatever_follows() {
    let error = "data: {\"error\":{\"message\":\"worker lost\",\"code\":500}}\n\n";
    let known = read(chunked(&[&content("a"), error, "data: [DONE]\n\n"]));
    assert_eq!(known.fault, Some(("worker lost".into(), Some("500".into()))));
    assert_eq!((known.outputs.len(), known.done), (1, 1));
    let text = read(chunked(&["data: {\"error\":\"no room\"}\n\n"]));
    assert_eq!(text.fault, Some(("no room".into(), None)));
    let quoted = read(chunked(&["data: {'error': {'message': 'lost'}}\n"]));
    assert_eq!(quoted.fault, Some(("{'error': {'message': 'lost'}}".into(), None)));
    let older = "data: {\"object\":\"error\",\"message\":\"too long\",\"code\":400}\n\n";
    assert_eq!(read(chunked(&[older])).fault, Some(("too long".into(), Some("400".into()))));
}

#[test]
fn an_empty_stream_has_no_events_and_keeps_the_connection() {
    let known = read(chunked(&[]));
    assert_eq!((known.outputs.len(), known.done, known.ended), (0, 0, true));
    assert_eq!((known.close_reason, known.not_streaming), (None, false));
}

#[test]
fn a_second_terminator_and_what_follows_it_change_nothing() {
    is_good(&read(chunked(&[&good(), "data: [DONE]\n\n", &content("late"), "data: {\n\n"])));
}

#[test]
fn the_terminator_needs_no_line_end_and_no_end_of_the_body() {
    let close = format!("{STREAM}Connection: close\r\n\r\n{}", good().trim_end());
    let known = read(close);
    is_good(&known);
    assert_eq!(known.close_reason, Some(CloseReason::ConnectionClose));
    let endless = format!("{STREAM}{CHUNKED}fff\r\n{}", good().trim_end());
    let known = read(endless);
    assert_eq!((known.done, known.error), (1, Some(ErrorKind::BodyTruncated)));
}

#[test]
fn a_body_without_length_runs_until_close() {
    let known = read(format!("{STREAM}\r\n{}", good()));
    is_good(&known);
    assert_eq!(known.close_reason, Some(CloseReason::UntilClose));
}

#[test]
fn a_close_before_the_promised_end_is_truncation_and_no_malformed_event() {
    let text = content("a") + &content("b");
    let length = format!("{STREAM}Content-Length: 999\r\n\r\n{}", &text[..text.len() - 9]);
    let chunk = format!("{STREAM}{CHUNKED}fff\r\n{}", &text[..text.len() - 9]);
    for wire in [length, chunk] {
        let known = read(wire);
        assert_eq!((known.outputs.len(), known.malformed, known.ended), (1, 0, false));
        assert_eq!(known.error, Some(ErrorKind::BodyTruncated));
    }
}

#[test]
fn a_close_before_or_within_the_head_is_told_apart() {
    assert_eq!(read("").error, Some(ErrorKind::ClosedEarly));
    assert_eq!(read("HTTP/1.1 100 Continue\r\n\r\n").error, Some(ErrorKind::ClosedEarly));
    assert_eq!(read("HTTP/1.1 200 OK\r\nConte").error, Some(ErrorKind::BodyTruncated));
    assert_eq!(read("SSH-2.0-OpenSSH\r\n").error, Some(ErrorKind::BadHead));
    assert_eq!(read("\x15\x03\x01\0\x02\x02F").error, Some(ErrorKind::BadHead));
}

#[test]
fn chunk_extensions_trailers_and_interim_heads_are_read_over() {
    let text = good();
    let wire = format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
         {STREAM}{CHUNKED}{:X};a;b=c;d=\"e;\\\"f\"\r\n{text}\r\n0;g\r\nX-Time: 3\r\n\r\n",
        text.len()
    );
    let known = read(&wire);
    is_good(&known);
    assert_eq!((known.interims, known.close_reason), (2, None));
    let next = read(wire + "HTTP/1.1 200 OK\r\n");
    assert_eq!((next.ended, next.left_over), (true, 17));
}

#[test]
fn chunked_beats_a_wrong_length() {
    let wire = chunked(&[&good()]).replacen("Transfer", "Content-Length: 30\r\nTransfer", 1);
    let known = read(wire);
    is_good(&known);
    assert_eq!(known.close_reason, Some(CloseReason::LengthAndChunked));
}

#[test]
fn framing_that_is_none_is_bad_framing() {
    for size in ["", "g", "-5", "5 5", "11112222333344445", "0x5"] {
        let known = read(format!("{STREAM}{CHUNKED}{size}\r\nhello\r\n"));
        assert_eq!(known.error, Some(ErrorKind::BadFraming), "{size:?}");
    }
    let lengths = format!("{STREAM}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc");
    assert_eq!(read(lengths).error, Some(ErrorKind::BadFraming));
}

#[test]
fn a_coded_body_is_said_to_be_coded() {
    let wire = format!("{STREAM}Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x08\0\0");
    let known = read(wire);
    assert_eq!((known.coded, known.ended, known.outputs.len()), (true, true, 0));
}

#[test]
fn what_is_no_stream_is_said_to_be_none() {
    let typed = |kind: &str, body: &str| {
        let length = body.len();
        read(format!("HTTP/1.1 200 OK\r\n{kind}Content-Length: {length}\r\n\r\n{body}"))
    };
    let ndjson = "{\"message\":{\"content\":\"a\"}}\n{\"done\":true}\n";
    for kind in ["Content-Type: application/x-ndjson\r\n", "Content-Type: text/plain\r\n", ""] {
        let known = typed(kind, ndjson);
        assert!(known.not_streaming && known.ended && known.outputs.is_empty(), "{known:?}");
        assert_eq!(known.error_body, ndjson);
    }
    let page = typed("Content-Type: text/html\r\n", "<html>Sign in</html>");
    assert!(page.not_streaming);
    let document = "{\"choices\":[{\"message\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}";
    for kind in ["application/json", "text/event-stream"] {
        let known = typed(&format!("Content-Type: {kind}\r\n"), document);
        assert!(known.not_streaming && known.content == "Hi", "{known:?}");
    }
    is_good(&typed("", &good()));
    is_good(&typed("Content-Type: text/plain\r\n", &good()));
}

#[test]
fn a_refusal_by_status_keeps_its_words_and_its_wait() {
    let body = "{\"error\":{\"message\":\"slow down\",\"type\":\"rate_limit\",\"code\":null}}";
    let length = body.len();
    let known = read(format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 2\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    ));
    assert_eq!((known.status, known.retry_after, known.ended), (429, Some(2), true));
    assert_eq!(known.fault, Some(("slow down".into(), Some("rate_limit".into()))));
    assert_eq!((known.error_body.as_str(), known.close_reason), (body, None));
    let known = read("HTTP/1.1 307 Moved\r\nLocation: /v2/chat\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((known.status, known.location.as_deref()), (307, Some("/v2/chat")));
}

#[test]
fn large_lines_and_heads_are_read_and_limits_hold() {
    let padding = "x".repeat(200_000);
    let large = content("a").replace("\"delta\"", &format!("\"pad\":\"{padding}\",\"delta\""));
    assert_eq!(read(chunked(&[&large])).content, "a");
    let cookie = format!("HTTP/1.1 200 OK\r\nSet-Cookie: {}\r\n", "c".repeat(12_000));
    is_good(&read(chunked(&[&good()]).replacen("HTTP/1.1 200 OK\r\n", &cookie, 1)));
    let small = |limits| read_with(Settings { limits, ..settings() }, chunked(&[&large]));
    let limits = Limits { event_bytes: 1000, ..Limits::default() };
    assert_eq!(small(limits).error, Some(ErrorKind::SizeLimit));
    let limits = Limits { head_bytes: 20, ..Limits::default() };
    assert_eq!(small(limits).error, Some(ErrorKind::SizeLimit));
}

#[test]
fn tool_calls_beside_null_content_are_output() {
    let call = |function: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":null,\"tool_calls\":[{{\"index\":0,\
             \"function\":{function}}}]}}}}]}}\n\n"
        )
    };
    let first = call("{\"name\":\"look_up\",\"arguments\":\"\"}");
    let second = call("{\"arguments\":\"{\\\"q\\\":\"}");
    let known = read(chunked(&[&first, &second, &call("{\"arguments\":\"1}\"}"), &call("{}")]));
    assert_eq!((known.tools.as_str(), known.content.as_str()), ("look_up{\"q\":1}", ""));
    assert_eq!(known.outputs, [OutputKind::ToolCall; 3]);
}

#[test]
fn reasoning_with_content_is_one_output() {
    let reasoning = content("hm").replace("content", "reasoning_content");
    let both = content("Yes").replace("{\"content\"", "{\"reasoning\":\" so\",\"content\"");
    let known = read(chunked(&[&reasoning, &both, &content(".")]));
    assert_eq!((known.reasoning.as_str(), known.content.as_str()), ("hm so", "Yes."));
    assert_eq!(known.outputs, [OutputKind::Reasoning, OutputKind::Content, OutputKind::Content]);
}

#[test]
fn token_ids_without_text_are_output_and_blank_text_is_text() {
    let ids =
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[2]}]}\n\n";
    let known = read(chunked(&[&content(" "), ids]));
    assert_eq!(known.outputs, [OutputKind::Content, OutputKind::TokenIds]);
    assert_eq!((known.content.as_str(), known.finish), (" ", Some(Finish::Stop)));
}

#[test]
fn completions_send_text_and_may_finish_twice() {
    let text = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n";
    let last = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
    let completions = Settings { dialect: Dialect::OpenaiCompletions, ..settings() };
    let known = read_with(completions, chunked(&[text, text, last, last, "data: [DONE]\n\n"]));
    assert_eq!((known.content.as_str(), known.finish), ("aa", Some(Finish::Length)));
}

#[test]
fn data_that_is_no_json_is_malformed_and_the_stream_goes_on() {
    let known = read(chunked(&[&content("a"), "data: {\"choices\":[{]}\n\n", &content("b")]));
    assert_eq!((known.content.as_str(), known.malformed), ("ab", 1));
}

#[test]
fn a_document_that_was_asked_for_is_one_event() {
    let asked = Settings { stream: false, ..settings() };
    let document = |body: &str| {
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
        read_with(asked.clone(), format!("{head}Content-Length: {length}\r\n\r\n{body}"))
    };
    let known = document(
        "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\
         \"text\":\"He\"},{\"type\":\"text\",\"text\":\"llo\"}]},\"finish_reason\":\"length\"}],\
         \"usage\":{\"completion_tokens\":2}}",
    );
    assert_eq!((known.content.as_str(), known.outputs.len()), ("Hello", 1));
    assert_eq!((known.finish, known.output_tokens), (Some(Finish::Length), Some(2)));
    assert!(known.ended && !known.not_streaming);
    assert_eq!(document("{\"error\":{\"message\":\"bad\"}}").fault, Some(("bad".into(), None)));
    assert_eq!(document("{\"choices\":").malformed, 1);
    let limits = Limits { body_bytes: 5, ..Limits::default() };
    let wire =
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: application/json\r\n\r\n[1,2,]";
    let known = read_with(Settings { limits, ..asked }, wire);
    assert_eq!(known.error, Some(ErrorKind::SizeLimit));
}
