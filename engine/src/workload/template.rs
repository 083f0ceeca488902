//! A dialect that the user describes: what requests say, and where in the answers what lies.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokclock_parser::dialect::{self as parser, Framing, Places};

/// A dialect as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Path of the requests below the URL; `{{model}}` in it is filled in.
    pub path: String,
    /// The JSON of a request. `{{prompt}}`, once and inside a string, `{{model}}` inside strings,
    /// `{{max_tokens}}` and `{{stream}}` are filled in.
    pub body: String,
    /// Headers of every request, for whoever makes the target: what is sent is `Target::headers`.
    /// Values may be secret.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How answers are read.
    pub answer: Reading,
}

/// How answers are read: where in the JSON of an event, or of a document, what lies (JSON pointers,
/// as in `/choices/0/text`), and what ends them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reading {
    /// How a stream is cut into events.
    pub format: Format,
    /// Generated text.
    pub text: Option<String>,
    /// Generated text that is reasoning.
    pub reasoning: Option<String>,
    /// A list of token ids, or how many tokens the event brings.
    pub tokens: Option<String>,
    /// Tokens of the prompt.
    pub input_tokens: Option<String>,
    /// Tokens of the answer so far.
    pub output_tokens: Option<String>,
    /// Why generation ended.
    pub finish: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Whether this is the last event.
    pub done: Option<String>,
    /// Data that ends the stream, which is no JSON: `[DONE]`.
    pub done_data: Option<String>,
    /// Each event repeats the text so far.
    pub cumulative: bool,
    /// A stream ends with its body, without a word.
    pub ends_with_body: bool,
}

/// How a stream is cut into events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Server-sent events.
    #[default]
    Sse,
    /// A JSON text per line.
    Ndjson,
}

/// What is filled in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling<'a> {
    pub(crate) model: &'a str,
    pub(crate) max_tokens: &'a str,
    pub(crate) stream: bool,
}

impl Template {
    /// Checks all that can be checked without a server.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn check(&self) -> Result<(), TemplateError> {
        if !self.path.starts_with('/') {
            return Err(TemplateError::new("path", "it must begin with `/`"));
        }
        let bare = self.path.replace(MODEL, "");
        if bare.contains("{{") || bare.contains('#') || !bare.bytes().all(|b| b.is_ascii_graphic())
        {
            let text = "plain ASCII without spaces, fragment and placeholders other than {{model}}";
            return Err(TemplateError::new("path", text));
        }
        self.frame(Filling { model: "m", max_tokens: "1", stream: true })?;
        self.answer.parsed().map(drop)
    }

    /// Whether the name of a model is filled in.
    #[must_use]
    pub fn names_model(&self) -> bool {
        self.path.contains(MODEL) || self.body.contains(MODEL)
    }

    /// What stands before and after the prompt.
    pub(crate) fn frame(&self, filling: Filling<'_>) -> Result<(String, String), TemplateError> {
        let body = |reason: String| TemplateError { key: "body".to_owned(), reason };
        let model = Value::from(filling.model).to_string();
        let mut parts = vec![String::new()];
        let mut rest = self.body.as_str();
        while let Some((before, placeholder, after)) = next_placeholder(rest) {
            let filled = match placeholder {
                "prompt" => "",
                // Without its quotes.
                "model" => &model[1..model.len() - 1],
                "max_tokens" => filling.max_tokens,
                "stream" if filling.stream => "true",
                "stream" => "false",
                other => {
                    return Err(body(format!(
                        "{{{{{other}}}}} is unknown; there are {{{{prompt}}}}, {{{{model}}}}, \
                         {{{{max_tokens}}}} and {{{{stream}}}}"
                    )));
                }
            };
            if let Some(part) = parts.last_mut() {
                part.push_str(before);
                part.push_str(filled);
            }
            if placeholder == "prompt" {
                parts.push(String::new());
            }
            rest = after;
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(rest);
        }
        let found = parts.len() - 1;
        let [before, after]: [String; 2] = parts
            .try_into()
            .map_err(|_| body(format!("it has {{{{prompt}}}} {found} times, not once")))?;
        holds_prompt(&before, &after).map_err(body)?;
        Ok((before, after))
    }
}

const MODEL: &str = "{{model}}";

/// What stands before the next `{{word}}`, the word, and what follows.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let open = from + text[from..].find("{{")?;
        let inner = &text[open + 2..];
        let end = inner.find(|letter: char| !(letter.is_ascii_lowercase() || letter == '_'))?;
        if end > 0 && inner[end..].starts_with("}}") {
            return Some((&text[..open], &inner[..end], &inner[end + 2..]));
        }
        from = open + 1;
    }
}

/// Whether a prompt between the two makes a JSON text that has it in a string.
fn holds_prompt(before: &str, after: &str) -> Result<(), String> {
    // Its first letter is none that a backslash may stand before.
    let mut mark = "a prompt".to_owned();
    while before.contains(&mark) || after.contains(&mark) {
        mark.push('!');
    }
    let filled: Value = serde_json::from_str(&format!("{before}{mark}{after}")).map_err(|error| {
        format!(
            "filled in it is no JSON ({error}); {{{{prompt}}}} and {{{{model}}}} go inside quotes"
        )
    })?;
    if contains(&filled, &mark) {
        Ok(())
    } else {
        Err("{{prompt}} is not in a string that is a value".to_owned())
    }
}

fn contains(value: &Value, mark: &str) -> bool {
    match value {
        Value::String(text) => text.contains(mark),
        Value::Array(items) => items.iter().any(|item| contains(item, mark)),
        Value::Object(members) => members.values().any(|member| contains(member, mark)),
        _ => false,
    }
}

impl Reading {
    /// The parser's form of it.
    ///
    /// # Errors
    /// A key that cannot be used.
    pub(crate) fn parsed(&self) -> Result<parser::Template, TemplateError> {
        let one = |pointer: &Option<String>| pointer.iter().cloned().collect::<Vec<_>>();
        let places = Places {
            framing: match self.format {
                Format::Sse => Framing::Sse,
                Format::Ndjson => Framing::Ndjson,
            },
            text: one(&self.text),
            reasoning: one(&self.reasoning),
            tokens: one(&self.tokens),
            input_tokens: one(&self.input_tokens),
            output_tokens: one(&self.output_tokens),
            finish: one(&self.finish),
            error: one(&self.error),
            done: one(&self.done),
            done_line: self.done_data.clone(),
            cumulative: self.cumulative,
            ends_with_body: self.ends_with_body,
        };
        parser::Template::new(places).map_err(|error| match error {
            parser::TemplateError::Pointer { field, pointer, why } => TemplateError {
                key: format!("answer.{field}"),
                reason: format!("`{pointer}` is no JSON pointer such as `/a/0/b`: {why}"),
            },
            parser::TemplateError::NoOutput => TemplateError::new(
                "answer",
                "nothing would be read: give `text`, `reasoning` or `tokens`",
            ),
            parser::TemplateError::EmptyDoneLine => {
                TemplateError::new("answer.done_data", "it is empty; leave it out")
            }
            other => TemplateError::new("answer", &other.to_string()),
        })
    }
}

/// A template that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct TemplateError {
    /// The key in the file.
    pub key: String,
    /// What is wrong with it.
    pub reason: String,
}

impl TemplateError {
    fn new(key: &str, reason: &str) -> Self {
        Self { key: key.to_owned(), reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(path: &str, body: &str) -> Template {
        let answer = Reading { text: Some("/text".into()), ..Reading::default() };
        Template { path: path.into(), body: body.into(), headers: BTreeMap::new(), answer }
    }

    fn refusal(path: &str, body: &str) -> String {
        let text = template(path, body).check().unwrap_err().to_string();
        assert!(!text.contains('\n'), "{text}");
        text
    }

    #[test]
    fn placeholders_are_filled_in() {
        let body = r#"{"q": "Say: {{prompt}}.", "m": "{{model}}", "n": {{max_tokens}},
            "s": {{stream}}, "left": "{{ this }}"}"#;
        let filling = Filling { model: "a \"b\"", max_tokens: "7", stream: false };
        let (before, after) = template("/x", body).frame(filling).unwrap();
        let filled: Value = serde_json::from_str(&format!("{before}P{after}")).unwrap();
        let expected = serde_json::json!(
            {"q": "Say: P.", "m": "a \"b\"", "n": 7, "s": false, "left": "{{ this }}"}
        );
        assert_eq!(filled, expected);
    }

    #[test]
    fn a_prompt_must_stand_once_and_in_a_string() {
        let cases = [
            (r#"{"q": "x"}"#, "0 times"),
            (r#"{"q": "{{prompt}}{{prompt}}"}"#, "2 times"),
            (r#"{"q": {{prompt}}}"#, "inside quotes"),
            (r#"{"q": "\{{prompt}}"}"#, "no JSON"),
            (r#"{"q": "\u00{{prompt}}"}"#, "no JSON"),
            (r#"{"{{prompt}}": 1}"#, "that is a value"),
            (r#"{"q": "{{prompt}}", "q": 1}"#, "that is a value"),
            (r#"{"q": "{{prompt}}", "m": {{model}}}"#, "inside quotes"),
            (r#"{"q": "{{prompt}}", "n": {{length}}}"#, "{{length}} is unknown"),
            (r#"{"q": "{{prompt}}""#, "no JSON"),
        ];
        for (body, expected) in cases {
            let text = refusal("/x", body);
            assert!(text.starts_with("body: ") && text.contains(expected), "{body}: {text}");
        }
        template("/x", r#"["a prompt", "{{prompt}}"]"#).check().unwrap();
    }

    #[test]
    fn a_path_is_one() {
        let body = r#"["{{prompt}}"]"#;
        for path in ["x", "", "/a b", "/{{prompt}}", "/a#b", "/\u{e9}"] {
            assert!(refusal(path, body).starts_with("path: "), "{path}");
        }
        let named = template("/m/{{model}}/go?v=1", body);
        named.check().unwrap();
        assert!(named.names_model() && !template("/x", body).names_model());
    }

    #[test]
    fn an_answer_has_something_to_read() {
        let mut template = template("/x", r#"["{{prompt}}"]"#);
        template.answer.text = Some("text".into());
        assert!(template.check().unwrap_err().to_string().starts_with("answer.text: "));
        template.answer.text = None;
        assert!(template.check().unwrap_err().to_string().starts_with("answer: "));
        template.answer.tokens = Some("/ids".into());
        template.check().unwrap();
        template.answer.done_data = Some(String::new());
        assert_eq!(template.check().unwrap_err().key, "answer.done_data");
    }
}
