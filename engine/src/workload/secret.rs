//! Which headers must not be seen, and how what they hold is kept out of texts.

use super::Target;

/// What stands in the place of a value that was left out.
pub const REDACTED: &str = "<redacted>";

/// Shortest value that is looked for in texts, bytes: a shorter one is found by chance.
const LOOKED_FOR_MIN: usize = 6;

/// Whether the value of a header of this name may be secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    matches!(name.as_str(), "authorization" | "proxy-authorization" | "cookie")
        || ["token", "secret", "key", "password"].iter().any(|word| name.contains(word))
}

/// Whether the value under this name in a document or label may be secret: `hf_token` and `apiKey`
/// are, `max_total_tokens` and `tokenizer` are not.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    /// Words that make a name secret wherever they stand in it.
    const WORDS: [&str; 11] = [
        "apikey",
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "credential",
        "credentials",
        "passwd",
        "password",
        "secret",
        "token",
    ];
    let words = words_of(name);
    let is_key = |(at, word): (usize, &String)| {
        let before = at.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
        let kinds = ["access", "admin", "api", "auth", "private", "signing", "ssh"];
        word == "key" && (words.len() == 1 || before.is_some_and(|word| kinds.contains(&word)))
    };
    words.iter().any(|word| WORDS.contains(&word.as_str())) || words.iter().enumerate().any(is_key)
}

/// The words of a name, in lower case, parted by signs and by capitals.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Headers whose values everybody may see.
const PUBLIC: [&str; 6] = [
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "user-agent",
];

/// What may be secret of a target, to be kept out of what servers say: some repeat the key they
/// refuse. A header that is secret by another name is hidden too, so all are but those that are
/// public.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Those that its headers hold.
    pub(crate) fn of(target: &Target) -> Self {
        let public = |name: &str| PUBLIC.iter().any(|known| known.eq_ignore_ascii_case(name));
        let values = target.headers.iter().filter(|(name, _)| !public(name.trim()));
        // `Bearer KEY`, `name=KEY; name=KEY`: a server may repeat a part.
        let parts = values.flat_map(|(_, value)| value.split([' ', '\t', ';', ',', '=']));
        let mut long: Vec<String> =
            parts.filter(|part| part.len() >= LOOKED_FOR_MIN).map(str::to_owned).collect();
        // A scheme's name is no secret.
        long.retain(|part| !matches!(part.to_ascii_lowercase().as_str(), "bearer" | "digest"));
        long.sort_by_key(|part| std::cmp::Reverse(part.len()));
        Self(long)
    }

    /// Takes them out of a text.
    pub(crate) fn hide(&self, text: &mut String) {
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret.as_str(), REDACTED);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_secrets_are_told_from_those_that_count_tokens() {
        for name in [
            "api_key",
            "apiKey",
            "OPENAI_API_KEY",
            "apikey",
            "hf_token",
            "token",
            "server.ssl_keyfile_password",
            "authToken",
            "admin-api-key",
            "Client-Secret",
            "key",
            "aws.credentials",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in [
            "max_total_tokens",
            "tokenizer",
            "tokenizer_path",
            "num_key_value_heads",
            "kv_cache_dtype",
            "keys",
            "author",
            "",
            "secretary",
        ] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn a_server_that_repeats_the_key_does_not_give_it_away() {
        let mut target = crate::workload::sample().target;
        target.headers.push(("Authorization".into(), "Bearer sk-12345".into()));
        target.headers.push(("Cookie".into(), "session=abcdefgh; b=1".into()));
        target.headers.push(("anthropic-version".into(), "2023-06-01".into()));
        let mut text = "no key sk-12345 (bearer), no session abcdefgh, 2023-06-01".to_owned();
        Secrets::of(&target).hide(&mut text);
        assert_eq!(text, "no key <redacted> (bearer), no <redacted> <redacted>, 2023-06-01");
    }
}
