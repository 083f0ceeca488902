//! Where an API lies below a base URL, dialect by dialect.

use crate::workload::Dialect;

/// The API's base path and the path of requests. A trailing `/v1`, a slash and the whole endpoint
/// are understood; a query goes with every request.
pub(super) fn paths(url: &url::Url, dialect: Dialect) -> (String, String) {
    let endpoint = match dialect {
        Dialect::OpenaiChat => "/chat/completions",
        Dialect::OpenaiCompletions => "/completions",
        _ => "/chat/completions",
    };
    let given = url.path().trim_end_matches('/');
    let base = given.strip_suffix(endpoint).unwrap_or(given);
    let base = if base.ends_with("/v1") || given.ends_with(endpoint) {
        base.to_owned()
    } else {
        format!("{base}/v1")
    };
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = format!("{base}{endpoint}{query}");
    (base, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(url: &str) -> String {
        paths(&url::Url::parse(url).unwrap(), Dialect::OpenaiChat).1
    }

    #[test]
    fn base_urls_come_in_many_forms() {
        for (url, path) in [
            ("http://127.0.0.1:9", "/v1/chat/completions"),
            ("http://127.0.0.1:9/", "/v1/chat/completions"),
            ("http://127.0.0.1:9/v1", "/v1/chat/completions"),
            ("http://127.0.0.1:9/v1/", "/v1/chat/completions"),
            ("http://127.0.0.1:9/llm/a/v1", "/llm/a/v1/chat/completions"),
            ("http://127.0.0.1:9/llm/a", "/llm/a/v1/chat/completions"),
            ("http://127.0.0.1:9/v1/chat/completions", "/v1/chat/completions"),
            ("http://127.0.0.1:9/v1?key=1", "/v1/chat/completions?key=1"),
        ] {
            assert_eq!(path_of(url), path, "{url}");
        }
    }
}
