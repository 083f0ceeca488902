//! Answers that are one JSON document, errors among them, and the headers of all answers.

use std::io::Write;

use crate::serving::Refusal;
use crate::settings::Settings;

/// The header that every answer has.
pub(crate) const SERVER: &str = "server: tokclock-sim\r\n";

/// Headers that only some answers have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extra<'a> {
    /// `X-Request-Id`
    pub(crate) request_id: Option<&'a str>,
    /// `Retry-After`, in seconds.
    pub(crate) retry_after_s: Option<u32>,
    /// Whether the connection ends after it.
    pub(crate) close: bool,
}

/// That the server is there.
pub(crate) fn health(out: &mut Vec<u8>, close: bool) {
    json(out, 200, br#"{"status":"ok"}"#, Extra { close, ..Extra::default() });
}

/// Which version it is, as vLLM says it.
pub(crate) fn version(out: &mut Vec<u8>, close: bool) {
    let body = format!(r#"{{"version":"{}"}}"#, env!("CARGO_PKG_VERSION"));
    json(out, 200, body.as_bytes(), Extra { close, ..Extra::default() });
}

/// What it was told to be, but for paths of this host.
pub(crate) fn server_info(out: &mut Vec<u8>, settings: &Settings, close: bool) {
    let shown = Settings { unix: None, truth: None, ..settings.clone() };
    match serde_json::to_vec(&shown) {
        Ok(body) => json(out, 200, &body, Extra { close, ..Extra::default() }),
        Err(_) => error(out, 500, "the settings are no JSON", close),
    }
}

/// An error in OpenAI's form.
pub(crate) fn error(out: &mut Vec<u8>, status: u16, message: &str, close: bool) {
    error_with(out, status, message, Extra { close, ..Extra::default() });
}

/// An error in OpenAI's form, with headers.
pub(crate) fn error_with(out: &mut Vec<u8>, status: u16, message: &str, extra: Extra<'_>) {
    json(out, status, error_body(status, message).as_bytes(), extra);
}

/// An error that is no fault of the client's.
pub(crate) fn fault(out: &mut Vec<u8>, status: u16, extra: Extra<'_>) {
    error_with(out, status, FAULT, extra);
}

/// That the serving model does not serve a request.
pub(crate) fn refusal(out: &mut Vec<u8>, refusal: Refusal, extra: Extra<'_>) {
    match refusal {
        Refusal::Full => {
            const FULL: &str = "the server is full; try again later";
            error_with(out, 503, FULL, Extra { retry_after_s: Some(1), ..extra });
        }
        // No later attempt would succeed.
        Refusal::TooLong => {
            const TOO_LONG: &str = "prompt and output are longer than the whole KV cache";
            error_with(out, 400, TOO_LONG, extra);
        }
    }
}

/// The error object of an answer that has status 200 all the same.
pub(crate) fn error_object() -> Vec<u8> {
    error_body(500, FAULT).into_bytes()
}

const FAULT: &str = "this simulated server was told to fail here";

fn error_body(status: u16, message: &str) -> String {
    let (kind, code) = match status {
        404 => ("not_found_error", "not_found"),
        405 => ("invalid_request_error", "method_not_allowed"),
        429 => ("rate_limit_error", "rate_limit_exceeded"),
        500.. => ("server_error", "server_error"),
        _ => ("invalid_request_error", "invalid_request"),
    };
    let message = escaped(message);
    format!(r#"{{"error":{{"message":"{message}","type":"{kind}","code":"{code}"}}}}"#)
}

/// An answer whose body is `body`, a JSON text.
pub(crate) fn json(out: &mut Vec<u8>, status: u16, body: &[u8], extra: Extra<'_>) {
    typed(out, status, "application/json", body, extra);
}

/// An answer whose body is of the type `kind`.
pub(crate) fn typed(out: &mut Vec<u8>, status: u16, kind: &str, body: &[u8], extra: Extra<'_>) {
    put(out, format_args!("HTTP/1.1 {status} {}\r\n{SERVER}", reason(status)));
    put(out, format_args!("content-type: {kind}\r\n"));
    put_extra(out, extra);
    put(out, format_args!("content-length: {}\r\n\r\n", body.len()));
    out.extend_from_slice(body);
}

/// What a status is called; of those without a name here, as others of its class.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        500.. => "Internal Server Error",
        _ => "Bad Request",
    }
}

/// Writes the headers that only some answers have.
pub(crate) fn put_extra(out: &mut Vec<u8>, extra: Extra<'_>) {
    if let Some(id) = extra.request_id {
        put(out, format_args!("x-request-id: {id}\r\n"));
    }
    if let Some(seconds) = extra.retry_after_s {
        put(out, format_args!("retry-after: {seconds}\r\n"));
    }
    if extra.close {
        out.extend_from_slice(b"connection: close\r\n");
    }
}

/// Writes text.
pub(crate) fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

/// `text` as it stands inside a JSON string.
pub(crate) fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_status_and_when_to_come_back() {
        let mut out = Vec::new();
        fault(&mut out, 429, Extra { retry_after_s: Some(2), ..Extra::default() });
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
        assert!(text.contains("\r\nretry-after: 2\r\n") && text.contains("rate_limit_exceeded"));
        assert_eq!([reason(418), reason(599)], ["Bad Request", "Internal Server Error"]);
    }

    #[test]
    fn a_server_tells_what_it_was_told_to_be() {
        let mut out = Vec::new();
        let truth = Some("/a/path".into());
        server_info(&mut out, &Settings { truth, seed: 7, ..Settings::default() }, true);
        version(&mut out, true);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(r#""seed":7"#) && !text.contains("/a/path"), "{text}");
        assert!(text.contains(&format!(r#"{{"version":"{}"}}"#, env!("CARGO_PKG_VERSION"))));
    }

    #[test]
    fn a_refusal_says_whether_to_come_back() {
        let text = |why| {
            let mut out = Vec::new();
            refusal(&mut out, why, Extra { close: true, ..Extra::default() });
            String::from_utf8(out).unwrap()
        };
        let full = text(Refusal::Full);
        assert!(full.starts_with("HTTP/1.1 503 ") && full.contains("\r\nretry-after: 1\r\n"));
        assert!(full.contains(r#""type":"server_error""#) && full.contains("connection: close"));
        let long = text(Refusal::TooLong);
        assert!(long.starts_with("HTTP/1.1 400 ") && !long.contains("retry-after"));
    }

    #[test]
    fn an_error_keeps_its_json_whole_whatever_the_message() {
        let mut out = Vec::new();
        error(&mut out, 404, "the model \"x\\\" is\nnot here", true);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(head.contains("connection: close"));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["message"], "the model \"x\\\" is\nnot here");
    }
}
