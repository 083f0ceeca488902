//! Where an API lies below a base URL, dialect by dialect.

use crate::workload::{Dialect, Endpoint, Target};

/// Settles the path of the requests to each server, now that the model is known and whether answers
/// are streamed.
pub fn settle_paths(target: &mut Target) {
    let path = |endpoint: &Endpoint| match (target.dialect, &target.template) {
        (Dialect::Template, Some(template)) => {
            let path = template.path.replace("{{model}}", &escaped(&target.model));
            with_query(below(&endpoint.base_path, &path), &endpoint.query)
        }
        _ => request_path(endpoint, target.dialect, &target.model, target.stream),
    };
    let paths: Vec<String> = target.servers().map(path).collect();
    for (endpoint, path) in target.servers_mut().zip(paths) {
        endpoint.path = path;
    }
}

/// The APIs whose endpoint a URL's path ends in; none where it is a base.
#[must_use]
pub fn dialects_at(path: &str) -> Vec<Dialect> {
    let path = path.trim_end_matches('/');
    if triton_model(path).is_some() {
        return vec![Dialect::TritonGenerate];
    }
    let fitting = |dialect: &Dialect| {
        let fits = |ending: &&&str| path.ends_with(**ending);
        endings(*dialect).iter().filter(fits).map(|ending| ending.len()).max()
    };
    let longest = Dialect::ALL.iter().filter_map(fitting).max();
    let is_longest = |dialect: &&Dialect| longest.is_some() && fitting(dialect) == longest;
    Dialect::ALL.iter().filter(is_longest).copied().collect()
}

/// The path below which an API lies, from the path of a URL: with its prefix, without a slash at its
/// end and without the endpoint itself. What lies under `/v1` gets it where it is missing; what
/// does not loses it.
pub(super) fn base_path(given: &str, dialect: Dialect) -> String {
    let given = given.trim_end_matches('/');
    let mut endings = endings(dialect).iter();
    if let Some(base) = endings.find_map(|ending| given.strip_suffix(ending)) {
        return base.to_owned();
    }
    let roots: &[&str] = match dialect {
        _ if lies_under_v1(dialect) && given.ends_with("/v1") => &[],
        _ if lies_under_v1(dialect) => return format!("{given}/v1"),
        Dialect::OllamaChat | Dialect::OllamaGenerate => &["/v1", "/api"],
        Dialect::TritonGenerate => &["/v1", "/v2"],
        Dialect::Template => &[],
        _ => &["/v1"],
    };
    let base = roots.iter().find_map(|root| given.strip_suffix(root));
    base.unwrap_or(given).to_owned()
}

/// The path of the requests of every dialect but a template.
pub(super) fn request_path(
    endpoint: &Endpoint,
    dialect: Dialect,
    model: &str,
    stream: bool,
) -> String {
    let base = endpoint.base_path.as_str();
    let path = match (dialect, stream) {
        (Dialect::TritonGenerate, _) => {
            let ending = if stream { "generate_stream" } else { "generate" };
            match triton_model(base) {
                Some(_) => format!("/{ending}"),
                None => format!("/v2/models/{}/{ending}", escaped(model)),
            }
        }
        (Dialect::TgiGenerate, false) => "/generate".to_owned(),
        _ => endings(dialect).first().copied().unwrap_or_default().to_owned(),
    };
    with_query(format!("{base}{path}"), &endpoint.query)
}

/// A path that any server answers without doing anything: where it lists its models, if it does.
pub(super) fn models_path(endpoint: &Endpoint, dialect: Dialect) -> String {
    let base = endpoint.base_path.as_str();
    let path = match dialect {
        _ if lies_under_v1(dialect) => "/models",
        Dialect::OllamaChat | Dialect::OllamaGenerate => "/api/tags",
        Dialect::TritonGenerate if triton_model(base).is_some() => "/ready",
        Dialect::TritonGenerate => "/v2/health/ready",
        Dialect::Template => "/",
        _ => "/v1/models",
    };
    with_query(format!("{base}{path}"), &endpoint.query)
}

/// A path beside the API and not below it, such as `/metrics`.
pub(super) fn root_path(endpoint: &Endpoint, path: &str) -> String {
    let base = endpoint.base_path.as_str();
    with_query(format!("{}{path}", base.strip_suffix("/v1").unwrap_or(base)), &endpoint.query)
}

/// The model that a path of Triton's names.
pub(super) fn triton_model(path: &str) -> Option<&str> {
    let (_, after) = path.split_once("/v2/models/")?;
    after.split('/').next().filter(|model| !model.is_empty())
}

/// How the endpoints of an API end: that for streams first.
fn endings(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::OpenaiChat => &["/chat/completions"],
        Dialect::OpenaiCompletions => &["/completions"],
        Dialect::OpenaiResponses => &["/responses"],
        Dialect::OpenaiEmbeddings => &["/embeddings"],
        Dialect::AnthropicMessages => &["/messages"],
        Dialect::SglangGenerate => &["/generate"],
        Dialect::TgiGenerate | Dialect::TritonGenerate => &["/generate_stream", "/generate"],
        Dialect::LlamacppCompletion => &["/completion"],
        Dialect::OllamaChat => &["/api/chat"],
        Dialect::OllamaGenerate => &["/api/generate"],
        Dialect::Template => &[],
    }
}

fn lies_under_v1(dialect: Dialect) -> bool {
    matches!(
        dialect,
        Dialect::OpenaiChat
            | Dialect::OpenaiCompletions
            | Dialect::OpenaiResponses
            | Dialect::OpenaiEmbeddings
            | Dialect::AnthropicMessages
    )
}

/// `path` below `base`, unless `base` ends in it already.
fn below(base: &str, path: &str) -> String {
    let bare = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    let base = if bare.is_empty() { base } else { base.strip_suffix(bare).unwrap_or(base) };
    format!("{base}{path}")
}

/// `query` has its question mark, or is empty.
fn with_query(path: String, query: &str) -> String {
    if path.contains('?') { path + &query.replacen('?', "&", 1) } else { path + query }
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Template;
    use crate::workload::template::Reading;

    fn settled(path: &str, dialect: Dialect, model: &str, stream: bool) -> Target {
        let mut target = crate::workload::sample().target;
        (target.dialect, target.model, target.stream) = (dialect, model.to_owned(), stream);
        let url = url::Url::parse(&format!("http://127.0.0.1:9{path}")).unwrap();
        target.endpoints[0].base_path = base_path(url.path(), dialect);
        let query = url.query().map(|query| format!("?{query}"));
        target.endpoints[0].query = query.unwrap_or_default();
        settle_paths(&mut target);
        target
    }

    fn path_of(path: &str, dialect: Dialect) -> String {
        settled(path, dialect, "m", true).endpoints[0].path.clone()
    }

    #[test]
    fn base_urls_come_in_many_forms() {
        for (given, path) in [
            ("", "/v1/chat/completions"),
            ("/", "/v1/chat/completions"),
            ("/v1", "/v1/chat/completions"),
            ("/v1/", "/v1/chat/completions"),
            ("/llm/a/v1", "/llm/a/v1/chat/completions"),
            ("/llm/a", "/llm/a/v1/chat/completions"),
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/chat/completions/", "/v1/chat/completions"),
            ("/deployments/x/chat/completions?v=1", "/deployments/x/chat/completions?v=1"),
            ("/v1?key=1#part", "/v1/chat/completions?key=1"),
        ] {
            assert_eq!(path_of(given, Dialect::OpenaiChat), path, "{given}");
        }
    }

    #[test]
    fn each_api_has_its_place_whatever_was_given_of_it() {
        let cases = [
            (Dialect::OpenaiChat, "/v1", "/chat/completions"),
            (Dialect::OpenaiCompletions, "/v1", "/completions"),
            (Dialect::OpenaiResponses, "/v1", "/responses"),
            (Dialect::OpenaiEmbeddings, "/v1", "/embeddings"),
            (Dialect::AnthropicMessages, "/v1", "/messages"),
            (Dialect::SglangGenerate, "", "/generate"),
            (Dialect::TgiGenerate, "", "/generate_stream"),
            (Dialect::TritonGenerate, "", "/v2/models/m/generate_stream"),
            (Dialect::LlamacppCompletion, "", "/completion"),
            (Dialect::OllamaChat, "", "/api/chat"),
            (Dialect::OllamaGenerate, "", "/api/generate"),
        ];
        for ((dialect, root, ending), prefix) in
            cases.into_iter().flat_map(|case| [(case, ""), (case, "/a/b")])
        {
            let whole = format!("{prefix}{root}{ending}");
            for given in ["", "/", "/v1", "/v1/", "?x=1", &format!("{root}{ending}")] {
                let url = format!("{prefix}{given}");
                let query = if given == "?x=1" { given } else { "" };
                assert_eq!(path_of(&url, dialect), format!("{whole}{query}"), "{dialect} {url}");
            }
        }
        assert_eq!(path_of("/api", Dialect::OllamaChat), "/api/chat");
        assert_eq!(path_of("/v2", Dialect::TritonGenerate), "/v2/models/m/generate_stream");
    }

    #[test]
    fn some_answer_whole_elsewhere() {
        let whole = |given, dialect| settled(given, dialect, "m", false).endpoints[0].path.clone();
        assert_eq!(whole("/generate_stream", Dialect::TgiGenerate), "/generate");
        assert_eq!(whole("", Dialect::TritonGenerate), "/v2/models/m/generate");
        assert_eq!(whole("", Dialect::SglangGenerate), "/generate");
    }

    #[test]
    fn a_model_is_one_segment_and_that_of_a_url_stands() {
        let target = settled("/p", Dialect::TritonGenerate, "a b/c?", true);
        assert_eq!(target.endpoints[0].path, "/p/v2/models/a%20b%2Fc%3F/generate_stream");
        let given = "/p/v2/models/x/versions/2/generate";
        let path = path_of(given, Dialect::TritonGenerate);
        assert_eq!(path, "/p/v2/models/x/versions/2/generate_stream");
        assert_eq!(
            path_of("/v2/models/x", Dialect::TritonGenerate),
            "/v2/models/x/generate_stream"
        );
        assert_eq!(triton_model("/p/v2/models/x/versions/2"), Some("x"));
        assert_eq!(triton_model("/v2/models/"), None);
    }

    #[test]
    fn models_are_listed_where_the_api_says() {
        let listed =
            |given, dialect| models_path(&settled(given, dialect, "m", true).endpoints[0], dialect);
        for (given, dialect, path) in [
            ("/a?k=1", Dialect::OpenaiResponses, "/a/v1/models?k=1"),
            ("/v1/messages", Dialect::AnthropicMessages, "/v1/models"),
            ("/a/v1", Dialect::SglangGenerate, "/a/v1/models"),
            ("/generate", Dialect::TgiGenerate, "/v1/models"),
            ("/completion", Dialect::LlamacppCompletion, "/v1/models"),
            ("/api/chat", Dialect::OllamaChat, "/api/tags"),
            ("", Dialect::TritonGenerate, "/v2/health/ready"),
            ("/v2/models/x/generate", Dialect::TritonGenerate, "/v2/models/x/ready"),
            ("/a", Dialect::Template, "/a/"),
        ] {
            assert_eq!(listed(given, dialect), path, "{dialect} {given}");
        }
    }

    #[test]
    fn a_template_brings_its_own_path() {
        let template = |path: &str| Template {
            path: path.into(),
            body: String::new(),
            headers: std::collections::BTreeMap::new(),
            answer: Reading::default(),
        };
        for (given, path, expected) in [
            ("", "/go", "/go"),
            ("/a/v1/", "/go", "/a/v1/go"),
            ("/a/go", "/go", "/a/go"),
            ("/a?k=1", "/go?v=2", "/a/go?v=2&k=1"),
            ("/a/go?k=1", "/go", "/a/go?k=1"),
            ("", "/", "/"),
            ("", "/m/{{model}}/go", "/m/x%2Fy/go"),
        ] {
            let mut target = settled(given, Dialect::Template, "x/y", true);
            target.template = Some(template(path));
            settle_paths(&mut target);
            assert_eq!(target.endpoints[0].path, expected, "{given} {path}");
        }
    }

    #[test]
    fn the_endpoint_of_another_api_is_known() {
        assert_eq!(dialects_at("/v1/chat/completions"), [Dialect::OpenaiChat]);
        assert_eq!(dialects_at("/v1/completions/"), [Dialect::OpenaiCompletions]);
        assert_eq!(dialects_at("/api/generate"), [Dialect::OllamaGenerate]);
        assert_eq!(dialects_at("/v2/models/m/generate"), [Dialect::TritonGenerate]);
        assert_eq!(
            dialects_at("/generate"),
            [Dialect::SglangGenerate, Dialect::TgiGenerate, Dialect::TritonGenerate]
        );
        for base in ["", "/", "/v1", "/llm/a"] {
            assert!(dialects_at(base).is_empty(), "{base}");
        }
    }
}
