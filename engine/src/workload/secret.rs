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

/// The secrets of a target, to be kept out of what servers say: some repeat the key they refuse.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Those that its headers hold.
    pub(crate) fn of(target: &Target) -> Self {
        let values = target.headers.iter().filter(|(name, _)| is_secret(name));
        // Of `Bearer KEY` the key alone, which is in the whole as well.
        let keys = values.filter_map(|(_, value)| value.split_ascii_whitespace().last());
        let long = keys.filter(|key| key.len() >= LOOKED_FOR_MIN);
        Self(long.map(str::to_owned).collect())
    }

    /// Takes them out of a text.
    pub(crate) fn hide(&self, text: &mut String) {
        for secret in self.0.iter().filter(|secret| !secret.is_empty()) {
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
    fn a_server_that_repeats_the_key_does_not_give_it_away() {
        let mut target = crate::workload::sample().target;
        target.headers.push(("Authorization".into(), "Bearer sk-12345".into()));
        target.headers.push(("X-Route".into(), "blue-green".into()));
        let mut text = "no such key: sk-12345 (route blue-green)".to_owned();
        Secrets::of(&target).hide(&mut text);
        assert_eq!(text, "no such key: <redacted> (route blue-green)");
    }
}
