//! What a body says, whatever the API: its texts in order, each with its role.

use serde_json::Value;

/// A text of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) role: String,
    pub(super) text: String,
}

/// Members that hold a system prompt.
const SYSTEM: [&str; 2] = ["system", "instructions"];
/// Members that hold what the user says.
const PROMPT: [&str; 6] = ["messages", "prompt", "input", "text", "inputs", "text_input"];

impl Said {
    fn new(role: &str, text: impl Into<String>) -> Self {
        Self { role: role.to_owned(), text: text.into() }
    }
}

/// The texts of a body. Where none are found, it is its own text.
pub(super) fn said(body: &[u8]) -> Vec<Said> {
    let whole = || vec![Said::new("body", String::from_utf8_lossy(body))];
    let Ok(Value::Object(members)) = serde_json::from_slice(body) else { return whole() };
    let mut all = Vec::new();
    for name in SYSTEM {
        all.extend(members.get(name).map(|value| Said::new("system", text(value))));
    }
    let of_system = all.len();
    for name in PROMPT {
        all.extend(members.get(name).into_iter().flat_map(of_prompt));
    }
    if let Some(ids) = members.get("input_ids") {
        all.push(Said::new("ids", text(ids)));
    }
    if all.len() == of_system { whole() } else { all }
}

/// Characters of the texts of a body.
pub(super) fn characters(all: &[Said]) -> u64 {
    all.iter().map(|said| said.text.chars().count() as u64).sum()
}

fn of_prompt(value: &Value) -> Vec<Said> {
    match value {
        Value::Array(all) if all.iter().any(|one| one.get("role").is_some()) => {
            all.iter().map(message).collect()
        }
        Value::Array(all) if all.iter().all(Value::is_number) => {
            vec![Said::new("ids", text(value))]
        }
        _ => vec![Said::new("user", text(value))],
    }
}

fn message(message: &Value) -> Said {
    let role = message.get("role").and_then(Value::as_str).unwrap_or("message");
    let mut words = message.get("content").map(text).unwrap_or_default();
    if let Some(calls) = message.get("tool_calls") {
        words.push_str(&calls.to_string());
    }
    Said::new(role, words)
}

/// The text of a value: of a list those of its parts, of a part without text its kind.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(parts) if parts.iter().all(|part| part.is_object() || part.is_string()) => {
            parts.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

fn part(part: &Value) -> String {
    if let Some(text) = part.as_str().or_else(|| part.get("text")?.as_str()) {
        return text.to_owned();
    }
    match part.get("type").and_then(Value::as_str) {
        Some(kind) => format!("<{kind}>"),
        None => part.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &str) -> Vec<(String, String)> {
        said(body.as_bytes()).into_iter().map(|said| (said.role, said.text)).collect()
    }

    #[test]
    fn texts_are_found_in_the_words_of_every_api() {
        for (body, role, words) in [
            (r#"{"model":"m","messages":[{"role":"user","content":"q"}]}"#, "user", "q"),
            (r#"{"messages":[{"role":"tool","content":[{"text":"a"},"b"]}]}"#, "tool", "a\nb"),
            (r#"{"prompt":"q","max_tokens":3}"#, "user", "q"),
            (r#"{"prompt":[1,2,3]}"#, "ids", "[1,2,3]"),
            (r#"{"input":"q"}"#, "user", "q"),
            (r#"{"inputs":"q","parameters":{}}"#, "user", "q"),
            (r#"{"text_input":"q"}"#, "user", "q"),
            (r#"{"input_ids":[1],"sampling_params":{}}"#, "ids", "[1]"),
            (r#"{"odd":1}"#, "body", r#"{"odd":1}"#),
            ("no JSON", "body", "no JSON"),
        ] {
            assert_eq!(of(body), [(role.to_owned(), words.to_owned())], "{body}");
        }
    }

    #[test]
    fn a_system_prompt_comes_first() {
        let all = of(r#"{"messages":[{"role":"user","content":"é"}],"system":"s"}"#);
        assert_eq!(all[0], ("system".to_owned(), "s".to_owned()));
        let all = said(r#"{"messages":[{"role":"user","content":"é"}],"system":"s"}"#.as_bytes());
        assert_eq!(characters(&all), 2);
    }

    #[test]
    fn what_is_no_text_is_named() {
        let all = of(r#"{"messages":[{"role":"user","content":[{"type":"image_url"}]},
            {"role":"assistant","content":null,"tool_calls":[1]}]}"#);
        assert_eq!((all[0].1.as_str(), all[1].1.as_str()), ("<image_url>", "[1]"));
    }
}
