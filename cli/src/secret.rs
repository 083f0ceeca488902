//! Headers and keys that must not be seen: what counts as secret, how it is left out of files and
//! errors.

use std::io::Read;
use std::path::Path;

use tokclock_engine::workload::{Dialect, REDACTED, is_secret};

use crate::exit::Failure;

/// Headers that the tool sets itself.
const OURS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "transfer-encoding", "x-request-id"];

/// The name of the header that carries the key in the dialect of this name.
#[must_use]
pub(crate) fn key_header(dialect: Option<&str>) -> &'static str {
    let dialect = dialect.and_then(|name| name.parse().ok()).unwrap_or(Dialect::OpenaiChat);
    dialect.key_header().0
}

/// Whether a `K: V` header has this name.
#[must_use]
pub(crate) fn is_named(header: &str, name: &str) -> bool {
    header.split(':').next().is_some_and(|theirs| theirs.trim().eq_ignore_ascii_case(name))
}

/// Headers for a saved file: as given, without values that may be secret.
#[must_use]
pub(crate) fn redact(headers: &[String]) -> Vec<String> {
    headers
        .iter()
        .map(|header| match header.split_once(':') {
            Some((name, _)) if is_secret(name) => format!("{name}: {REDACTED}"),
            _ => header.clone(),
        })
        .collect()
}

/// The headers of the command line over those of a file: one of the same name replaces it, so a
/// redacted header can be given again without repeating the others.
#[must_use]
pub(crate) fn merge_headers(typed: Vec<String>, mut file: Vec<String>) -> Vec<String> {
    let name = |header: &str| {
        header.split(':').next().map(|name| name.trim().to_ascii_lowercase()).unwrap_or_default()
    };
    file.retain(|below| !typed.iter().any(|above| name(above) == name(below)));
    file.extend(typed);
    file
}

/// Reads `K: V` headers.
///
/// # Errors
/// A usage error that names a header by its place or name and never shows its value.
pub(crate) fn parse_headers(headers: &[String]) -> Result<Vec<(String, String)>, Failure> {
    headers.iter().enumerate().map(|(at, header)| parse_header(at + 1, header)).collect()
}

fn parse_header(place: usize, header: &str) -> Result<(String, String), Failure> {
    let Some((name, value)) = header.split_once(':') else {
        return Err(Failure::usage(format!(
            "--header number {place} has no colon: write it as --header 'Name: value'"
        )));
    };
    let (name, value) = (name.trim(), value.trim());
    if !is_name(name) {
        return Err(Failure::usage(format!(
            "--header number {place} has no valid name: write it as --header 'Name: value'"
        )));
    }
    if value == REDACTED {
        return Err(Failure::usage(format!(
            "the value of header `{name}` was left out of this file because it may be secret: \
             give it again with --header '{name}: ...' or use --api-key-env"
        )));
    }
    check_header(name, value)
        .map_err(|reason| Failure::usage(format!("--header `{name}` {reason}")))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn is_name(name: &str) -> bool {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(in_name)
}

/// Checks a header that may be sent.
///
/// # Errors
/// What is wrong with it, to follow its name. The value is not shown.
pub(crate) fn check_header(name: &str, value: &str) -> Result<(), &'static str> {
    if !is_name(name) {
        return Err("is no name of a header");
    }
    if value.is_empty() || value.chars().any(|c| c.is_control() && c != '\t') {
        return Err("has an empty value or one with control characters");
    }
    if OURS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err("is set by tokclock itself: drop it");
    }
    Ok(())
}

/// The API key in environment variable `variable`, whose value is given.
///
/// # Errors
/// A usage error if the variable is unset, empty or unfit for a header. The key never shows; nor
/// does a name that could be a key given by mistake.
pub(crate) fn key_of_variable(variable: &str, value: Option<&str>) -> Result<String, Failure> {
    let shown = if variable.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
        format!("environment variable {variable}")
    } else {
        "the environment variable of that name".to_owned()
    };
    let Some(key) = value.map(str::trim).filter(|key| !key.is_empty()) else {
        return Err(Failure::usage(format!(
            "--api-key-env: {shown} is unset or empty (it takes the name of a variable, not a key)"
        )));
    };
    if key.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(Failure::usage(format!(
            "--api-key-env: {shown} holds blanks or characters that no header can carry"
        )));
    }
    Ok(key.to_owned())
}

/// The API key in the first line of a file.
///
/// # Errors
/// A usage error if there is none that a header can carry. Neither what the file holds is shown nor
/// its path, which could be a key given by mistake.
pub(crate) fn key_of_file(path: &Path) -> Result<String, Failure> {
    /// Longer than any key, shorter than a device that never ends.
    const KEY_BYTES_MAX: u64 = 64 << 10;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(KEY_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| {
            Failure::usage(format!(
                "--api-key-file: cannot read the file ({error}); it takes the path of a file, not \
                 a key"
            ))
        })?;
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return Err(Failure::usage("--api-key-file: the first line of the file is empty"));
    }
    match std::str::from_utf8(line) {
        Ok(key) if key.chars().all(|c| c.is_ascii_graphic()) => Ok(key.to_owned()),
        _ => Err(Failure::usage(
            "--api-key-file: the first line of the file holds blanks or characters that no header \
             can carry",
        )),
    }
}

/// Adds the header that carries the API key, as the dialect has it. `flag` is the option that gave
/// it.
///
/// # Errors
/// A usage error if there is such a header already.
pub(crate) fn add_key(
    headers: &mut Vec<(String, String)>,
    dialect: Dialect,
    flag: &str,
    key: &str,
) -> Result<(), Failure> {
    let (name, before) = dialect.key_header();
    if headers.iter().any(|(theirs, _)| theirs.eq_ignore_ascii_case(name)) {
        return Err(Failure::usage(format!(
            "{flag} and --header '{name}: ...' both give a key: keep one"
        )));
    }
    headers.push((name.to_owned(), format!("{before}{key}")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(headers: &[&str]) -> Vec<String> {
        headers.iter().map(|&header| header.to_owned()).collect()
    }

    #[test]
    fn values_that_look_secret_are_left_out_of_files() {
        let saved = redact(&texts(&[
            "authorization: Bearer s3cret",
            "Api-Key: s3cret",
            "X-API-KEY: s3cret",
            "Cookie: s3cret",
            "x-session-Token: s3cret",
            "X-Secret-Sauce: s3cret",
            "X-Route: blue",
        ]));
        assert!(saved.iter().all(|header| !header.contains("s3cret")));
        assert_eq!(saved[0], "authorization: <redacted>");
        assert_eq!(saved[6], "X-Route: blue");
    }

    #[test]
    fn a_redacted_header_refuses_to_run_again() {
        let error = parse_headers(&redact(&texts(&["Authorization: Bearer s3cret"]))).unwrap_err();
        assert!(error.message.contains("`Authorization` was left out"), "{error}");
        assert!(!error.message.contains("s3cret"));
    }

    #[test]
    fn a_header_of_the_command_line_replaces_the_redacted_one() {
        let file = texts(&["Authorization: <redacted>", "X-Route: blue"]);
        let merged = merge_headers(texts(&["authorization: Bearer new"]), file);
        assert_eq!(merged, texts(&["X-Route: blue", "authorization: Bearer new"]));
    }

    #[test]
    fn bad_headers_are_named_without_their_value() {
        for bad in ["Bearer s3cret", ": s3cret", "X Y: s3cret", "X-A: s3cret\r\nX-B: 1"] {
            let error = parse_headers(&texts(&[bad])).unwrap_err();
            assert!(!error.message.contains("s3cret"), "{error}");
        }
        assert!(parse_headers(&texts(&["Content-Length: 5"])).is_err());
    }

    #[test]
    fn the_key_goes_into_the_header_of_the_dialect_and_into_no_error() {
        let key = key_of_variable("MY_KEY", Some(" s3cret\n")).unwrap();
        let mut headers = Vec::new();
        add_key(&mut headers, Dialect::OllamaChat, "--api-key-env", &key).unwrap();
        assert_eq!(headers, [("Authorization".to_owned(), "Bearer s3cret".to_owned())]);
        let twice = add_key(&mut headers, Dialect::OpenaiChat, "--api-key-env", &key).unwrap_err();
        assert!(!twice.message.contains("s3cret"));
        add_key(&mut headers, Dialect::AnthropicMessages, "--api-key-file", &key).unwrap();
        assert_eq!(headers[1], ("x-api-key".to_owned(), "s3cret".to_owned()));
        assert!(is_secret("x-api-key"));
    }

    #[test]
    fn a_key_in_the_place_of_a_name_is_not_shown() {
        let error = key_of_variable("sk-s3cret", None).unwrap_err();
        assert!(!error.message.contains("s3cret"), "{error}");
        let error = key_of_variable("OPENAI_API_KEY", None).unwrap_err();
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
        let error = key_of_file(Path::new("sk-s3cret")).unwrap_err();
        assert!(error.message.contains("not a key") && !error.message.contains("s3cret"));
    }

    #[test]
    fn the_key_of_a_file_is_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for (held, key) in [("  s3cret \r\nmore\n", Ok("s3cret")), ("s3cret", Ok("s3cret"))] {
            std::fs::write(&path, held).unwrap();
            assert_eq!(key_of_file(&path).as_deref().map_err(|error| error.code as u8), key);
        }
        let cases: [(&[u8], &str); 4] = [
            (b"", "empty"),
            (b"\ns3cret", "empty"),
            (b"s3cret two", "blanks"),
            (b"s3cret\xff", "blanks"),
        ];
        for (held, expected) in cases {
            std::fs::write(&path, held).unwrap();
            let error = key_of_file(&path).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
            assert!(!error.message.contains("s3cret") && error.code as u8 == 2, "{error}");
        }
        assert!(key_of_file(dir.path()).unwrap_err().message.contains("cannot read"));
    }
}
