//! What the parser says of an answer, added up.

use tokclock_parser::answer::{Answer, Limits, Settings, Signal};
use tokclock_parser::dialect::Dialect;
use tokclock_parser::event::{Event, OutputKind, unescape};

/// All that an answer says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) outputs: usize,
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// Names and arguments of tools.
    pub(crate) calls: String,
    pub(crate) finish: Option<&'static str>,
    /// Output tokens, by the last usage.
    pub(crate) tokens: Option<u64>,
    pub(crate) malformed: u64,
    pub(crate) faults: Vec<String>,
    pub(crate) done: bool,
    /// How the body ended: `end`, or the kind of error.
    pub(crate) end: String,
    pub(crate) not_streaming: bool,
    pub(crate) encoded: bool,
}

impl Heard {
    fn take(&mut self, signal: &Signal<'_>) {
        let event = match signal {
            Signal::Head(head) => return self.status = head.status,
            Signal::End => return self.end = "end".to_owned(),
            Signal::Event(event) => event,
            Signal::Interim => return,
        };
        let (finish, usage) = match event {
            Event::Output(output) => {
                self.outputs += 1;
                let text = unescape(output.text.as_str());
                let is_call = output.kind == OutputKind::ToolCall;
                if is_call { &mut self.calls } else { &mut self.text }.push_str(&text);
                self.reasoning.push_str(&unescape(output.reasoning.as_str()));
                (output.finish, output.usage)
            }
            Event::Tail(tail) => (tail.finish, tail.usage),
            Event::Fault(fault) => {
                let code = fault.code.as_deref().unwrap_or("no code");
                return self.faults.push(format!("{} {code}", fault.message));
            }
            Event::Malformed(_) => return self.malformed += 1,
            Event::Done => return self.done = true,
            Event::Note(_) => return,
        };
        self.finish = self.finish.or(finish.map(|finish| finish.as_str()));
        self.tokens = usage.and_then(|usage| usage.output_tokens).or(self.tokens);
    }
}

/// What `wire` says when it is read in pieces that end after so many bytes, and the peer closes.
pub(crate) fn heard(
    dialect: &Dialect,
    wire: &[u8],
    ends: impl IntoIterator<Item = usize>,
) -> Heard {
    let settings = Settings { dialect: dialect.clone(), stream: true, limits: Limits::default() };
    let mut answer = Answer::new(settings);
    let mut heard = Heard::default();
    let mut from = 0;
    for end in ends.into_iter().chain([wire.len()]) {
        let mut piece = &wire[from..end];
        from = end;
        loop {
            match answer.next(piece) {
                Ok(step) => {
                    let Some(signal) = step.item else { break };
                    heard.take(&signal);
                    piece = &piece[step.used..];
                }
                Err(error) => {
                    heard.end = format!("{:?}", error.kind);
                    return heard;
                }
            }
        }
    }
    while heard.end.is_empty() {
        match answer.eof() {
            Ok(Some(signal)) => heard.take(&signal),
            Ok(None) => break,
            Err(error) => heard.end = format!("{:?}", error.kind),
        }
    }
    heard.not_streaming = answer.not_streaming();
    heard.encoded = answer.unsupported_encoding();
    heard
}
