//! The options of a run, all optional: what the command line and a TOML file share, one laid over
//! the other.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::secret;
use crate::values::{CpuList, Deadline, Length, Share, Span, WarmUp};

/// Every option of a run. In a TOML file the keys are the names of the options.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Options {
    /// Base URL of the server, such as http://127.0.0.1:8000; several share the requests in turn
    /// [default: the embedded simulator]
    #[arg(value_name = "URL")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    pub(crate) url: Vec<String>,

    /// API spoken with the server: openai-chat, openai-completions, openai-responses,
    /// openai-embeddings, anthropic-messages, sglang-generate, tgi-generate, triton-generate,
    /// llamacpp-completion, ollama-chat, ollama-generate, template [default: openai-chat]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub(crate) dialect: Option<String>,

    /// Model to ask for [default: the first that the server lists]
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub(crate) model: Option<String>,

    /// Header to add to every request (repeatable)
    #[arg(long, value_name = "K: V", help_heading = "Target")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) header: Vec<String>,

    /// Environment variable that holds the API key; only its name is saved
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub(crate) api_key_env: Option<String>,

    /// JSON object whose members are added to every body, or replace those of it
    #[arg(long, value_name = "JSON", help_heading = "Target")]
    pub(crate) extra_body: Option<String>,

    /// Wait so long for the server to answer before the run
    #[arg(long, value_name = "TIME", help_heading = "Target")]
    pub(crate) wait_ready: Option<Span>,

    /// Ask for whole answers instead of streams
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Target"
    )]
    pub(crate) no_stream: Option<bool>,

    /// File that describes an API of its own: what requests say, where in answers what lies
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    pub(crate) template: Option<PathBuf>,

    /// File whose first line is the API key; only its path is saved
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Send the greatest length alone, for servers that refuse min_tokens and ignore_eos
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Target"
    )]
    pub(crate) no_force_length: Option<bool>,

    /// Ask for the ids of the tokens in each event (vLLM, llama.cpp): they count its tokens
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Target"
    )]
    pub(crate) return_token_ids: Option<bool>,

    /// Ask for the count of tokens in each event (vLLM): it counts its tokens
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Target"
    )]
    pub(crate) continuous_usage: Option<bool>,

    /// Closed loop: so many users, each with one request at a time [default: 8]
    #[arg(long, short = 'c', value_name = "N", help_heading = "Load")]
    pub(crate) concurrency: Option<u64>,

    /// Open loop: so many requests per second, whether or not answers come
    #[arg(long, short = 'r', value_name = "R", help_heading = "Load")]
    pub(crate) rate: Option<f64>,

    /// Law of the gaps of an open loop: poisson, constant, gamma [default: poisson]
    #[arg(long, value_name = "LAW", help_heading = "Load")]
    pub(crate) arrival: Option<String>,

    /// Shape of gamma gaps, 1/CV²: 1 is Poisson, below 1 burstier
    #[arg(long, value_name = "B", help_heading = "Load")]
    pub(crate) burstiness: Option<f64>,

    /// Open loop: at most so many requests in flight
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) max_in_flight: Option<u64>,

    /// What an arrival does above --max-in-flight: wait, drop [default: wait]
    #[arg(long, value_name = "WHAT", help_heading = "Load")]
    pub(crate) overflow: Option<String>,

    /// Start the users of a closed loop over this time [default: 0s; above
    /// 100 users 500us each, at most 1s]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub(crate) ramp: Option<Span>,

    /// Requests of the measured part [default without --duration: 200, or 4 per user if more]
    #[arg(long, short = 'n', value_name = "N", help_heading = "Load")]
    pub(crate) requests: Option<u64>,

    /// Length of the measured part
    #[arg(long, short = 'd', value_name = "TIME", help_heading = "Load")]
    pub(crate) duration: Option<Span>,

    /// What goes before the measured part, extra: a time or a number of requests [default: 0]
    #[arg(long, value_name = "TIME|N", help_heading = "Load")]
    pub(crate) warmup: Option<WarmUp>,

    /// How long what is in flight may go on after the measured part [default: 30s]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub(crate) drain: Option<Span>,

    /// Share of requests that are cancelled on purpose, to load the server's way of aborting
    #[arg(long, value_name = "SHARE", help_heading = "Load")]
    pub(crate) cancel_rate: Option<Share>,

    /// When they are: so long after they were sent, or at the output event of this number
    /// [default: 4]
    #[arg(long, value_name = "TIME|N", help_heading = "Load")]
    pub(crate) cancel_after: Option<WarmUp>,

    /// Seed of every random choice [default: drawn, and saved with the result]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seed: Option<u64>,

    /// Input tokens of each prompt [default: 128]
    #[arg(long, value_name = "N", help_heading = "Content")]
    pub(crate) isl: Option<Length>,

    /// Output tokens asked for [default: 32]
    #[arg(long, value_name = "N", help_heading = "Content")]
    pub(crate) osl: Option<Length>,

    /// Embedded tokenizer that makes prompts and, when given, counts answers too: o200k_base,
    /// cl100k_base, qwen2 [default: o200k_base, for prompts alone]
    #[arg(long, value_name = "NAME", help_heading = "Content")]
    pub(crate) tokenizer: Option<String>,

    /// Objective on the run, such as 'p95(ttft)<500ms' (repeatable)
    #[arg(long, value_name = "RULE", help_heading = "Objectives")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) slo: Vec<String>,

    /// Limits that a good request meets, in ms, such as 'ttft:500 tpot:50 e2el:5000'
    #[arg(long, value_name = "LIMITS", help_heading = "Objectives")]
    pub(crate) goodput: Option<String>,

    /// Whether an output that ended at its length may count as good: ok, miss [default: ok]
    #[arg(long, value_name = "WHAT", help_heading = "Objectives")]
    pub(crate) capped: Option<String>,

    /// Cores that send and receive [default: as many as the load needs]
    #[arg(long, value_name = "N", help_heading = "Client")]
    pub(crate) reactors: Option<usize>,

    /// CPUs for them, such as 0,2-5 [default: chosen and printed]
    #[arg(long, value_name = "LIST", help_heading = "Client")]
    pub(crate) cpus: Option<CpuList>,

    /// Where the time of an arrival comes from: kernel, observed [default: kernel]
    #[arg(long, value_name = "WHAT", help_heading = "Client")]
    pub(crate) stamps: Option<String>,

    /// How our side ends a connection: fin, rst [default: fin]
    #[arg(long, value_name = "HOW", help_heading = "Client")]
    pub(crate) close: Option<String>,

    /// How long a connection serves: pooled, per-user, per-request [default: pooled]
    #[arg(long, value_name = "HOW", help_heading = "Connections")]
    pub(crate) connections: Option<String>,

    /// Requests that a connection carries before it is closed [default: no limit]
    #[arg(long, value_name = "N", help_heading = "Connections")]
    pub(crate) requests_per_connection: Option<u64>,

    /// Addresses that connections come from, in turn: for more ports than one address has
    #[arg(long, value_name = "IP,...", value_delimiter = ',', help_heading = "Connections")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) source_ip: Vec<IpAddr>,

    /// Addresses of a name, in place of the resolver's (repeatable)
    #[arg(long, value_name = "HOST:PORT:IP,...", help_heading = "Connections")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resolve: Vec<String>,

    /// Unix socket to connect to in place of the URL's address
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    pub(crate) unix_socket: Option<PathBuf>,

    /// Proxy to go through; those of the environment are never used
    #[arg(long, value_name = "URL", help_heading = "Connections")]
    pub(crate) proxy: Option<String>,

    /// Attempts after a failed one, if the server refused or was not reached [default: 0]
    #[arg(long, value_name = "N", help_heading = "Connections")]
    pub(crate) retries: Option<u32>,

    /// Pause before the first retry; it doubles each time, a longer Retry-After wins [default: 100ms]
    #[arg(long, value_name = "TIME", help_heading = "Connections")]
    pub(crate) retry_backoff: Option<Span>,

    /// PEM file of the certificate authorities to trust, in place of the system's
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) cacert: Option<PathBuf>,

    /// PEM file of our own certificate
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) cert: Option<PathBuf>,

    /// PEM file of its key
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) key: Option<PathBuf>,

    /// Do not check certificates; the report says so
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "TLS"
    )]
    pub(crate) insecure: Option<bool>,

    /// Name to ask for and to check, in place of the URL's host
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    pub(crate) sni: Option<String>,

    /// Whether new connections resume earlier sessions: on, off [default: on]
    #[arg(long, value_name = "WHAT", help_heading = "TLS")]
    pub(crate) tls_resumption: Option<String>,

    /// Limit on a whole request, or none [default: 10m]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) timeout: Option<Deadline>,

    /// Limit on opening a connection, or none [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) connect_timeout: Option<Deadline>,

    /// Limit on a TLS handshake, or none [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) tls_timeout: Option<Deadline>,

    /// Limit from the request sent to the first byte of the answer [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) first_byte_timeout: Option<Deadline>,

    /// Limit from the request sent to the first token [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) first_token_timeout: Option<Deadline>,

    /// Limit between bytes of an answer [default: none]
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(crate) idle_timeout: Option<Deadline>,

    /// Largest response head, bytes [default: 65536]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_head_bytes: Option<u64>,

    /// Largest event of a stream, bytes [default: 16777216]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_event_bytes: Option<u64>,

    /// Largest answer that is no stream, bytes [default: 67108864]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_body_bytes: Option<u64>,

    /// Share of failed requests above which the exit code is 5 [default: 5%]
    #[arg(long, value_name = "SHARE", help_heading = "Limits")]
    pub(crate) max_error_rate: Option<Share>,

    /// Directory of the results [default: tokclock-results/<time>-<name>]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    #[serde(skip_serializing)]
    pub(crate) out: Option<PathBuf>,

    /// Name of the run, part of the default directory [default: run]
    #[arg(long, value_name = "NAME", help_heading = "Results")]
    pub(crate) name: Option<String>,

    /// Keep the time of every output event in requests.jsonl
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Results"
    )]
    pub(crate) chunks: Option<bool>,

    /// Keep the generated text in requests.jsonl
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Results"
    )]
    pub(crate) keep_text: Option<bool>,
}

impl Options {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// A usage error that names the file and, where it is about its content, the line.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
        Self::parse(&text)
            .map_err(|error| Failure::usage(format!("--config {}{error}", path.display())))
    }

    /// Reads the text of a TOML file; an error begins with its place, as in `:3: unknown field`.
    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let line = line_of(text, &error);
            // The list of all fields is the help's business, and the value may be a secret.
            let message = error.message();
            let message = match message.split_once(", expected one of") {
                Some((unknown, _)) => format!("{unknown}; the keys are the names of the options"),
                None if line_is_secret(text, line) => "the value has the wrong type".to_owned(),
                None => message.replace('\n', " "),
            };
            format!(":{line}: {message}")
        })
    }

    /// These options over those of a file: what is given here wins, and takes with it what in the
    /// file would contradict it.
    #[must_use]
    pub(crate) fn over(self, mut file: Self) -> Self {
        file.give_way_to(&self);
        let header = secret::merge_headers(self.header, file.header);
        Self {
            url: if self.url.is_empty() { file.url } else { self.url },
            dialect: self.dialect.or(file.dialect),
            model: self.model.or(file.model),
            header,
            api_key_env: self.api_key_env.or(file.api_key_env),
            extra_body: self.extra_body.or(file.extra_body),
            wait_ready: self.wait_ready.or(file.wait_ready),
            no_stream: self.no_stream.or(file.no_stream),
            template: self.template.or(file.template),
            api_key_file: self.api_key_file.or(file.api_key_file),
            no_force_length: self.no_force_length.or(file.no_force_length),
            return_token_ids: self.return_token_ids.or(file.return_token_ids),
            continuous_usage: self.continuous_usage.or(file.continuous_usage),
            concurrency: self.concurrency.or(file.concurrency),
            rate: self.rate.or(file.rate),
            arrival: self.arrival.or(file.arrival),
            burstiness: self.burstiness.or(file.burstiness),
            max_in_flight: self.max_in_flight.or(file.max_in_flight),
            overflow: self.overflow.or(file.overflow),
            ramp: self.ramp.or(file.ramp),
            requests: self.requests.or(file.requests),
            duration: self.duration.or(file.duration),
            warmup: self.warmup.or(file.warmup),
            drain: self.drain.or(file.drain),
            seed: self.seed.or(file.seed),
            isl: self.isl.or(file.isl),
            osl: self.osl.or(file.osl),
            tokenizer: self.tokenizer.or(file.tokenizer),
            slo: if self.slo.is_empty() { file.slo } else { self.slo },
            goodput: self.goodput.or(file.goodput),
            capped: self.capped.or(file.capped),
            reactors: self.reactors.or(file.reactors),
            cpus: self.cpus.or(file.cpus),
            stamps: self.stamps.or(file.stamps),
            close: self.close.or(file.close),
            connections: self.connections.or(file.connections),
            requests_per_connection: self.requests_per_connection.or(file.requests_per_connection),
            source_ip: if self.source_ip.is_empty() { file.source_ip } else { self.source_ip },
            resolve: if self.resolve.is_empty() { file.resolve } else { self.resolve },
            unix_socket: self.unix_socket.or(file.unix_socket),
            proxy: self.proxy.or(file.proxy),
            retries: self.retries.or(file.retries),
            retry_backoff: self.retry_backoff.or(file.retry_backoff),
            cacert: self.cacert.or(file.cacert),
            cert: self.cert.or(file.cert),
            key: self.key.or(file.key),
            insecure: self.insecure.or(file.insecure),
            sni: self.sni.or(file.sni),
            tls_resumption: self.tls_resumption.or(file.tls_resumption),
            tls_timeout: self.tls_timeout.or(file.tls_timeout),
            max_head_bytes: self.max_head_bytes.or(file.max_head_bytes),
            max_event_bytes: self.max_event_bytes.or(file.max_event_bytes),
            max_body_bytes: self.max_body_bytes.or(file.max_body_bytes),
            cancel_rate: self.cancel_rate.or(file.cancel_rate),
            cancel_after: self.cancel_after.or(file.cancel_after),
            timeout: self.timeout.or(file.timeout),
            connect_timeout: self.connect_timeout.or(file.connect_timeout),
            first_byte_timeout: self.first_byte_timeout.or(file.first_byte_timeout),
            first_token_timeout: self.first_token_timeout.or(file.first_token_timeout),
            idle_timeout: self.idle_timeout.or(file.idle_timeout),
            max_error_rate: self.max_error_rate.or(file.max_error_rate),
            out: self.out.or(file.out),
            name: self.name.or(file.name),
            chunks: self.chunks.or(file.chunks),
            keep_text: self.keep_text.or(file.keep_text),
        }
    }

    /// Drops what `above` rules out: the other kind of loop, the other stop rules, CPUs of another
    /// number of reactors.
    fn give_way_to(&mut self, above: &Self) {
        if above.rate.is_some() {
            (self.concurrency, self.ramp) = (None, None);
        }
        if above.rate.is_some() && self.connections.as_deref() == Some("per-user") {
            self.connections = None;
        }
        if above.concurrency.is_some() {
            (self.rate, self.arrival, self.burstiness) = (None, None, None);
            (self.max_in_flight, self.overflow) = (None, None);
            self.ramp = None;
        }
        if above.arrival.as_deref().is_some_and(|law| law != "gamma") {
            self.burstiness = None;
        }
        if above.requests.is_some() || above.duration.is_some() {
            (self.requests, self.duration) = (None, None);
        }
        if above.reactors.is_some() || above.cpus.is_some() {
            (self.reactors, self.cpus) = (None, None);
        }
        // A key is given in one way only, so that a redacted one can be given in another.
        let dialect = above.dialect.as_deref().or(self.dialect.as_deref());
        let key = secret::key_header(dialect);
        if above.api_key_env.is_some() || above.api_key_file.is_some() {
            (self.api_key_env, self.api_key_file) = (None, None);
            self.header.retain(|header| !secret::is_named(header, key));
        }
        if above.header.iter().any(|header| secret::is_named(header, key)) {
            (self.api_key_env, self.api_key_file) = (None, None);
        }
        if above.template.is_some() {
            self.dialect = None;
        }
        if above.dialect.as_deref().is_some_and(|dialect| dialect.trim() != "template") {
            self.template = None;
        }
    }
}

/// A string, or a list of them.
fn one_or_more<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        One(String),
        More(Vec<String>),
    }
    Ok(match Given::deserialize(value)? {
        Given::One(one) => vec![one],
        Given::More(more) => more,
    })
}

/// The line of a TOML file that an error is about, from 1.
pub(crate) fn line_of(text: &str, error: &toml::de::Error) -> usize {
    error.span().map_or(1, |span| {
        text.as_bytes().iter().take(span.start).filter(|&&byte| byte == b'\n').count() + 1
    })
}

/// Whether a line of a TOML file may hold a secret: an error about it must not quote it.
fn line_is_secret(text: &str, line: usize) -> bool {
    let key = text.lines().nth(line.saturating_sub(1)).unwrap_or("").split('=').next();
    key.is_none_or(|key| matches!(key.trim(), "header" | "api-key-env" | "api-key-file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = Options::parse("seed = 1\nconcurency = 8\n").unwrap_err();
        assert!(error.starts_with(":2: unknown field `concurency`"), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn keys_are_the_names_of_the_options() {
        let text =
            "max-in-flight = 4\nisl = 512\nosl = \"64\"\nwarmup = \"5s\"\nno-stream = true\n";
        let options = Options::parse(text).unwrap();
        assert_eq!(options.max_in_flight, Some(4));
        assert_eq!((options.isl, options.osl), (Some(Length(512)), Some(Length(64))));
        assert_eq!(options.no_stream, Some(true));
    }

    #[test]
    fn a_bad_value_in_a_file_says_what_is_accepted() {
        let error = Options::parse("\ndrain = \"soon\"\n").unwrap_err();
        assert!(error.starts_with(":2: ") && error.contains("30s"), "{error}");
        let error = Options::parse("isl = \"normal:512,128\"\n").unwrap_err();
        assert!(error.contains("fixed number of tokens"), "{error}");
    }

    #[test]
    fn an_error_about_a_header_does_not_quote_it() {
        for text in ["header = \"Authorization: Bearer s3cret\"", "header = [[\"s3cret\"]]"] {
            let error = Options::parse(text).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let file = Options { seed: Some(1), osl: Some(Length(9)), ..Options::default() };
        let typed = Options { seed: Some(2), ..Options::default() };
        let both = typed.over(file);
        assert_eq!((both.seed, both.osl), (Some(2), Some(Length(9))));
    }

    #[test]
    fn a_key_on_the_command_line_replaces_that_of_the_file_however_it_is_given() {
        let redacted = || vec!["Authorization: <redacted>".to_owned()];
        let file = Options { header: redacted(), ..Options::default() };
        let typed = Options { api_key_env: Some("KEY".to_owned()), ..Options::default() };
        assert!(typed.over(file).header.is_empty());
        let file = Options { api_key_env: Some("KEY".to_owned()), ..Options::default() };
        let typed = Options { header: vec!["authorization: x".to_owned()], ..Options::default() };
        assert_eq!(typed.over(file).api_key_env, None);
    }

    #[test]
    fn a_key_is_given_in_one_way_whatever_header_carries_it() {
        let file = || Options {
            dialect: Some("anthropic-messages".to_owned()),
            header: vec!["X-Api-Key: <redacted>".to_owned(), "Authorization: a".to_owned()],
            api_key_env: Some("KEY".to_owned()),
            ..Options::default()
        };
        let typed = Options { api_key_file: Some("key".into()), ..Options::default() };
        let both = typed.over(file());
        assert_eq!(both.header, ["Authorization: a"]);
        assert_eq!((both.api_key_env, both.api_key_file), (None, Some("key".into())));
        let typed = Options { header: vec!["x-api-key: b".to_owned()], ..Options::default() };
        assert_eq!(typed.over(file()).api_key_env, None);
    }

    #[test]
    fn a_template_and_another_dialect_replace_each_other() {
        let template = || Options { template: Some("a.toml".into()), ..Options::default() };
        let dialect = || Options { dialect: Some("ollama-chat".into()), ..Options::default() };
        let both = template().over(dialect());
        assert_eq!((both.dialect, both.template), (None, Some("a.toml".into())));
        let both = dialect().over(template());
        assert_eq!((both.dialect, both.template), (Some("ollama-chat".into()), None));
    }

    #[test]
    fn a_rate_on_the_command_line_replaces_the_users_of_the_file() {
        let file = Options {
            concurrency: Some(8),
            ramp: Some(Span::from_ns(1)),
            requests: Some(200),
            ..Options::default()
        };
        let typed =
            Options { rate: Some(5.0), duration: Some(Span::from_ns(9)), ..Options::default() };
        let both = typed.over(file);
        assert_eq!((both.concurrency, both.ramp, both.requests), (None, None, None));
        assert_eq!(both.rate, Some(5.0));
    }
}
