//! What a server tells of itself, asked once before the load: its list of models first, which mostly
//! says what it is, then what a server of that kind answers.

use serde_json::Value;

use super::ask::{Answer, glance};
use super::{Asked, paths};
use crate::measure::ServerReport;
use crate::workload::{Dialect, Secrets, Target};

/// Kinds of servers that tell something of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vllm,
    Sglang,
    Tgi,
    LlamaCpp,
    Ollama,
    Triton,
    Simulator,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "ollama",
            Self::Triton => "triton",
            Self::Simulator => "tokclock-sim",
        }
    }

    /// The kind that a word of the server's own names: its owner of models, its `server` header.
    fn named(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let is = |name: &str| word.starts_with(name);
        [
            (Self::Vllm, "vllm"),
            (Self::Sglang, "sglang"),
            (Self::Tgi, "text-generation-inference"),
            (Self::LlamaCpp, "llama"),
            (Self::Ollama, "ollama"),
            (Self::Simulator, "tokclock-sim"),
        ]
        .into_iter()
        .find_map(|(kind, name)| is(name).then_some(kind))
    }

    /// The kind that alone speaks an API.
    const fn speaking(dialect: Dialect) -> Option<Self> {
        match dialect {
            Dialect::SglangGenerate => Some(Self::Sglang),
            Dialect::TgiGenerate => Some(Self::Tgi),
            Dialect::LlamacppCompletion => Some(Self::LlamaCpp),
            Dialect::OllamaChat | Dialect::OllamaGenerate => Some(Self::Ollama),
            Dialect::TritonGenerate => Some(Self::Triton),
            _ => None,
        }
    }

    /// Paths that tell of it. Of those in one list the first that answers is enough.
    const fn paths(self) -> &'static [&'static [&'static str]] {
        match self {
            // The settings are told in its development mode alone.
            Self::Vllm => &[&["/version"], &["/server_info?config_format=json"]],
            Self::Sglang => {
                &[&["/get_server_info", "/server_info"], &["/get_model_info", "/model_info"]]
            }
            Self::Tgi => &[&["/info"]],
            Self::LlamaCpp => &[&["/props"]],
            Self::Ollama => &[&["/api/version"]],
            Self::Triton => &[&["/v2"]],
            Self::Simulator => &[&["/version"], &["/server_info"]],
        }
    }
}

/// Where a server of unknown kind is looked for, and what it is if an answer has this member.
const GUESSES: [(&str, &str, Kind); 4] = [
    ("/version", "version", Kind::Vllm),
    ("/get_server_info", "tp_size", Kind::Sglang),
    ("/info", "docker_label", Kind::Tgi),
    ("/props", "default_generation_settings", Kind::LlamaCpp),
];

/// Where a version stands.
const VERSIONS: [&str; 3] = ["version", "build_info", "sglang_version"];

/// What the first server of `target` tells of itself, in a handful of short questions; `None` where it
/// tells nothing, or speaks an API of its own.
#[must_use]
pub fn server_facts(target: &Target) -> Option<ServerReport> {
    let asked = Asked::all(target).next().filter(|asked| asked.dialect != Dialect::Template)?;
    let mut report = ServerReport::default();
    let first = glance(&asked, &asked.models_path())?;
    report.take_headers(&first.headers);
    let list = document(&first);
    let entry = list.as_ref().and_then(|list| entry(list, &target.model));
    if let Some(entry) = entry {
        report.take_model(entry);
    }
    let owner = report.model.get("owned_by").and_then(Value::as_str);
    let header = report.headers.get("server").map(String::as_str);
    let named = owner.and_then(Kind::named).or_else(|| header.and_then(Kind::named));
    match Kind::speaking(target.dialect).or(named) {
        Some(kind) => told_by(kind, &asked, &mut report),
        None => guess(&asked, &mut report),
    }
    report.find_version(&VERSIONS);
    let secrets = Secrets::of(target);
    report.each_text(|text| secrets.hide(text));
    (!report.is_empty()).then_some(report)
}

/// Asks a server of a known kind.
fn told_by(kind: Kind, asked: &Asked<'_>, report: &mut ServerReport) {
    report.kind = Some(kind.name().to_owned());
    for paths in kind.paths() {
        for path in *paths {
            // One that is silent now will not be asked again.
            let Some(answer) = glance(asked, &at_root(asked, path)) else { return };
            report.take_headers(&answer.headers);
            if let Some(mut told) = document(&answer) {
                // There may be more than is kept: first what it was told to do, then where it runs.
                if let Some(settings) = told.get_mut("vllm_config").map(Value::take) {
                    report.take_config(&settings);
                }
                report.take_config(&told);
                break;
            }
        }
    }
}

/// Asks a server that may be anything.
fn guess(asked: &Asked<'_>, report: &mut ServerReport) {
    for (path, member, kind) in GUESSES {
        let Some(answer) = glance(asked, &at_root(asked, path)) else { return };
        let Some(told) = document(&answer).filter(|told| told.get(member).is_some()) else {
            continue;
        };
        report.kind = Some(kind.name().to_owned());
        report.take_config(&told);
        return;
    }
}

/// A path beside the API; its own query stands before that of the URL.
fn at_root(asked: &Asked<'_>, path: &str) -> String {
    let (bare, query) = path.split_once('?').map_or((path, None), |(path, own)| (path, Some(own)));
    let whole = paths::root_path(asked.endpoint, bare);
    match (query, whole.split_once('?')) {
        (None, _) => whole,
        (Some(own), None) => format!("{whole}?{own}"),
        (Some(own), Some((path, given))) => format!("{path}?{own}&{given}"),
    }
}

/// The JSON object of a good answer.
fn document(answer: &Answer) -> Option<Value> {
    let found: Option<Value> = serde_json::from_slice(&answer.body).ok();
    found.filter(|found| answer.status == 200 && found.is_object())
}

/// The entry of `model` in a list of models; the only entry where none has that name.
fn entry<'a>(list: &'a Value, model: &str) -> Option<&'a Value> {
    let entries = ["data", "models"].iter().find_map(|name| list.get(name)?.as_array())?;
    let is_it = |entry: &&Value| {
        let names = ["id", "name"].iter().filter_map(|name| entry.get(name)?.as_str());
        names.into_iter().any(|name| name == model)
    };
    entries.iter().find(is_it).or_else(|| entries.first().filter(|_| entries.len() == 1))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use serde_json::json;

    use super::*;
    use crate::workload::{Address, sample};

    /// A server that gives these bodies at these paths, and 404 elsewhere; the paths that it was asked
    /// for, once it has been asked `number` times.
    fn serve(
        pages: &'static [(&'static str, &'static str)],
        number: usize,
    ) -> (Target, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut target = sample().target;
        target.endpoints[0].addresses = vec![Address::Ip(listener.local_addr().unwrap())];
        target.model = "m".into();
        target.headers = vec![("Authorization".into(), "Bearer sk-12345".into())];
        let thread = std::thread::spawn(move || {
            let answer = |_| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = [0; 4096];
                let got = stream.read(&mut bytes).unwrap();
                let text = String::from_utf8_lossy(&bytes[..got]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                let page = pages.iter().find(|(at, _)| *at == path);
                let (status, body) = page.map_or((404, "no"), |(_, body)| (200, *body));
                let head = format!("HTTP/1.1 {status} X\r\nServer: uvicorn\r\nContent-Length: ");
                write!(stream, "{head}{}\r\n\r\n{body}", body.len()).unwrap();
                path
            };
            (0..number).map(answer).collect()
        });
        (target, thread)
    }

    #[test]
    fn vllm_is_known_by_its_models_and_asked_for_its_version() {
        static PAGES: &[(&str, &str)] = &[
            (
                "/v1/models",
                r#"{"data":[{"id":"n","owned_by":"x"},{"id":"m","owned_by":"vllm","created":5,"max_model_len":2048,"permission":[{"id":"p"}]}]}"#,
            ),
            ("/version", r#"{"version":"0.11.0","note":"sk-12345"}"#),
            (
                "/server_info?config_format=json",
                r#"{"system_env":{"os":"x","env_vars":"A=b"},"vllm_config":{"model_config":{"seed":0}}}"#,
            ),
        ];
        let (target, asked) = serve(PAGES, 3);
        let report = server_facts(&target).unwrap();
        let is = (report.kind.as_deref(), report.version.as_deref());
        assert_eq!(is, (Some("vllm"), Some("0.11.0")));
        assert_eq!(
            serde_json::to_value(&report.model).unwrap(),
            json!({"id": "m", "owned_by": "vllm", "max_model_len": 2048})
        );
        assert_eq!(report.headers["server"], "uvicorn");
        assert_eq!(report.config["note"], "<redacted>", "a server may repeat the key");
        let names: Vec<&String> = report.config.keys().collect();
        assert_eq!(names, ["model_config.seed", "note", "system_env.os", "version"]);
        let paths = ["/v1/models", "/version", "/server_info?config_format=json"];
        assert_eq!(asked.join().unwrap(), paths);
    }

    #[test]
    fn a_server_that_says_nothing_is_asked_a_handful_of_times() {
        let (target, asked) = serve(&[], 5);
        let report = server_facts(&target).unwrap();
        assert_eq!((report.kind, report.version), (None, None));
        assert_eq!(report.headers["server"], "uvicorn");
        assert_eq!(asked.join().unwrap().len(), 1 + GUESSES.len());
    }

    #[test]
    fn the_dialect_says_which_server_it_is() {
        static PAGES: &[(&str, &str)] = &[
            ("/get_server_info", r#"{"tp_size":2,"version":"0.5.1","api_key":"sk"}"#),
            ("/get_model_info", r#"{"model_path":"a/b"}"#),
        ];
        let (mut target, asked) = serve(PAGES, 3);
        target.dialect = Dialect::SglangGenerate;
        let report = server_facts(&target).unwrap();
        assert_eq!(report.version.as_deref(), Some("0.5.1"));
        let expected = json!({"tp_size": 2, "version": "0.5.1", "model_path": "a/b"});
        assert_eq!(serde_json::to_value(&report.config).unwrap(), expected);
        assert_eq!(asked.join().unwrap()[1..], ["/get_server_info", "/get_model_info"]);
    }

    #[test]
    fn nobody_there_or_an_api_of_its_own_tells_nothing() {
        let (mut target, asked) = serve(&[], 0);
        asked.join().unwrap();
        assert_eq!(server_facts(&target), None, "the port is closed by now");
        target.dialect = Dialect::Template;
        assert_eq!(server_facts(&target), None);
    }

    #[test]
    fn a_query_of_the_url_goes_along() {
        let mut target = sample().target;
        let path = |target: &Target, path: &str| at_root(&Asked::all(target).next().unwrap(), path);
        assert_eq!(path(&target, "/a?b=c"), "/a?b=c");
        target.endpoints[0].query = "?k=1".into();
        assert_eq!(path(&target, "/a?b=c"), "/a?b=c&k=1");
        assert_eq!(path(&target, "/a"), "/a?k=1");
    }
}
