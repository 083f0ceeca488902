//! Headers and keys that must not be seen: what counts as secret, how it is left out of files and
//! errors.

use crate::exit::Failure;

/// What stands in a saved file for a value that was left out. It refuses to be sent.
const REDACTED: &str = "<redacted>";

/// Headers that the tool sets itself.
const OURS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "transfer-encoding", "x-request-id"];

/// Whether the value of a header of this name may be secret.
#[must_use]
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    matches!(name.as_str(), "authorization" | "proxy-authorization" | "cookie")
        || ["token", "secret", "key", "password"].iter().any(|word| name.contains(word))
}

/// Whether a `K: V` header carries the key that `--api-key-env` would.
#[must_use]
pub(crate) fn is_authorization(header: &str) -> bool {
    header.split(':').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("authorization"))
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
    let in_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(in_name) {
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
    if value.is_empty() || value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Failure::usage(format!(
            "--header `{name}` has an empty value or one with control characters"
        )));
    }
    if OURS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(Failure::usage(format!(
            "--header `{name}` is set by tokclock itself: drop it"
        )));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Adds the header that carries the API key in environment variable `variable`.
///
/// Both dialects of this version take `Authorization: Bearer`.
///
/// # Errors
/// A usage error if the variable is unset, empty or unfit for a header, or if there is such a
/// header already. The key never shows; nor does a name that could be a key given by mistake.
pub(crate) fn add_api_key(
    headers: &mut Vec<(String, String)>,
    variable: &str,
    value: Option<&str>,
) -> Result<(), Failure> {
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
    if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        return Err(Failure::usage(
            "--api-key-env and --header 'Authorization: ...' both give a key: keep one",
        ));
    }
    headers.push(("Authorization".to_owned(), format!("Bearer {key}")));
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
    fn the_key_goes_into_the_header_and_into_no_error() {
        let mut headers = Vec::new();
        add_api_key(&mut headers, "MY_KEY", Some("s3cret")).unwrap();
        assert_eq!(headers, [("Authorization".to_owned(), "Bearer s3cret".to_owned())]);
        let twice = add_api_key(&mut headers, "MY_KEY", Some("s3cret")).unwrap_err();
        assert!(!twice.message.contains("s3cret"));
    }

    #[test]
    fn a_key_in_the_place_of_a_name_is_not_shown() {
        let error = add_api_key(&mut Vec::new(), "sk-s3cret", None).unwrap_err();
        assert!(!error.message.contains("s3cret"), "{error}");
        let error = add_api_key(&mut Vec::new(), "OPENAI_API_KEY", None).unwrap_err();
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
    }
}
