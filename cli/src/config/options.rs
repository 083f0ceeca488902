//! Every option of a run, as it is typed or stands in a file.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::{ClassOptions, ContentOptions};
use super::disagg::DisaggOptions;
use super::hosts::HostOptions;
use super::{OneOrMore, label, one_or_more};
use crate::values::{CpuList, Deadline, Levels, Share, Span, TimeOrCount, WarmUp};

/// Every option of a run. In a TOML file the keys are the names of the options.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Options {
    /// Base URL of the server, such as http://127.0.0.1:8000; several share the requests in turn
    /// [default: the embedded simulator]
    #[arg(value_name = "URL")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore")]
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

    /// Do not ask the server for its version and settings before the load
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Target"
    )]
    pub(crate) no_server_facts: Option<bool>,

    /// Send each request as a trace of its own, in the header traceparent (W3C Trace Context)
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Target"
    )]
    pub(crate) traceparent: Option<bool>,

    /// Closed loop: so many users, each with one request at a time; for sweep and search levels, such
    /// as 1,2,4 or 1..64 or 1..64*1.5 or auto [default: 8]
    #[arg(long, short = 'c', value_name = "N", help_heading = "Load")]
    pub(crate) concurrency: Option<Levels>,

    /// Open loop: so many requests per second, whether or not answers come; levels likewise
    #[arg(long, short = 'r', value_name = "R", help_heading = "Load")]
    pub(crate) rate: Option<Levels>,

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

    /// Start the users of a closed loop over this time; let the rate of an open loop rise to --rate
    /// over it, before the measured part [default: 0s; above 100 users 500us each, at most 1s]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub(crate) ramp: Option<Span>,

    /// Requests of the measured part [default without --duration: 200, or 4 per user if more]
    #[arg(long, short = 'n', value_name = "N", help_heading = "Load")]
    pub(crate) requests: Option<u64>,

    /// Length of the measured part
    #[arg(long, short = 'd', value_name = "TIME", help_heading = "Load")]
    pub(crate) duration: Option<Span>,

    /// What goes before the measured part, extra: a time, a number of requests, or auto: until TTFT and
    /// throughput are steady [default: 0; of sweep and search auto]
    #[arg(long, value_name = "TIME|N|auto", help_heading = "Load")]
    pub(crate) warmup: Option<WarmUp>,

    /// End the measured part sooner, once a percentile is known well enough, such as
    /// 'ci(p95(ttft))<3%'
    #[arg(long, value_name = "RULE", help_heading = "Load")]
    pub(crate) until: Option<String>,

    /// How long what is in flight may go on after the measured part [default: 30s; of sweep and search
    /// 10s]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub(crate) drain: Option<Span>,

    /// Share of requests that are cancelled on purpose, to load the server's way of aborting
    #[arg(long, value_name = "SHARE", help_heading = "Load")]
    pub(crate) cancel_rate: Option<Share>,

    /// When they are: so long after they were sent, or at the output event of this number
    /// [default: 4]
    #[arg(long, value_name = "TIME|N", help_heading = "Load")]
    pub(crate) cancel_after: Option<TimeOrCount>,

    /// Seed of every random choice [default: drawn, and saved with the result]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) seed: Option<u64>,

    /// Where prefill and decode are apart.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) disagg: DisaggOptions,

    /// Where several hosts send one load together.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) hosts: HostOptions,

    /// What requests say.
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) content: ContentOptions,

    /// One of several classes of requests, such as 'name=chat weight=70 isl=512 model=x
    /// slo=p95(ttft)<1s'; the other options of content hold for all (repeatable)
    #[arg(long, value_name = "CLASS", help_heading = "Content")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) class: Vec<ClassOptions>,

    /// Tokenizer that makes prompts and, when given, counts recordings and answers too: o200k_base,
    /// cl100k_base, qwen2, a tokenizer.json, server (its /tokenize), owner/name on the hub
    /// [default: o200k_base, for synthetic prompts alone]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Content")]
    pub(crate) tokenizer: Option<String>,

    /// Text file whose words make the synthetic prompts, in place of our own
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub(crate) corpus: Option<PathBuf>,

    /// How prompts are sent: text, token-ids [default: text]
    #[arg(long, value_name = "HOW", help_heading = "Content")]
    pub(crate) prompt_as: Option<String>,

    /// Draw token ids from FIRST-LAST, in place of those of words
    #[arg(long, value_name = "FIRST-LAST", help_heading = "Content")]
    pub(crate) token_ids: Option<String>,

    /// Conversations of the load, at most
    #[arg(
        long,
        value_name = "N",
        help_heading = "Conversations",
        alias = "num-sessions",
        alias = "num-conversations"
    )]
    pub(crate) sessions: Option<u64>,

    /// Header that tells the server to which conversation a request belongs, such as X-Session-Id
    #[arg(long, value_name = "NAME", help_heading = "Conversations")]
    pub(crate) session_header: Option<String>,

    /// Send the requests of a recording at its own times
    #[arg(long, value_name = "FILE", help_heading = "Load", conflicts_with = "data")]
    pub(crate) trace: Option<String>,

    /// So many times as fast as it was recorded [default: 1]
    #[arg(long, value_name = "X", help_heading = "Load", alias = "synthesis-speedup-ratio")]
    pub(crate) trace_speed: Option<f64>,

    /// From this time of the recording on
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub(crate) trace_start: Option<Span>,

    /// And before this one
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    pub(crate) trace_end: Option<Span>,

    /// How often in a row [default: 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) trace_loops: Option<u64>,

    /// Open loop at rates that change: 50@2s,100@2s, a ramp 0..100@4s, or file:CSV of second,rate
    #[arg(long, value_name = "SERIES", help_heading = "Load")]
    pub(crate) rates: Option<String>,

    /// Objective on the run, such as 'p95(ttft)<500ms', 'error_rate<1%', 'goodput_share>=95%'
    /// (repeatable)
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

    /// Reactors never sleep: less lag and sharper sending, for a whole core each
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Client"
    )]
    pub(crate) spin: Option<bool>,

    /// Limit on a figure of the client's, beyond which a run is suspect or invalid, or none
    /// (repeatable): lag=1ms, slip=1ms, late=1%, unstamped=1%, coalesced=1%, busy=80%,
    /// ceiling=100%, starved=0.1%, steal=1%, retransmits=0.1%, drops=0 [default: those]
    #[arg(long, value_name = "FIGURE=LIMIT", help_heading = "Client")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) client_limit: Vec<String>,

    /// How our side ends a connection: fin, rst [default: fin]
    #[arg(long, value_name = "HOW", help_heading = "Client")]
    pub(crate) close: Option<String>,

    /// How long a connection serves: pooled, per-user, per-session, per-request [default: pooled]
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

    /// Where a server has Prometheus metrics, which are read during the load (repeatable); without a
    /// path /metrics is meant [default: beside the API of each URL, where there are any]
    #[arg(long, value_name = "URL", help_heading = "Telemetry")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore")]
    pub(crate) scrape: Vec<String>,

    /// From one look at those metrics to the next [default: 500ms]
    #[arg(long, value_name = "TIME", help_heading = "Telemetry")]
    pub(crate) scrape_interval: Option<Span>,

    /// Do not look for metrics of the servers
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Telemetry"
    )]
    pub(crate) no_scrape: Option<bool>,

    /// Directory of the results [default: tokclock-results/<time>-<name>]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    #[serde(skip_serializing)]
    pub(crate) out: Option<PathBuf>,

    /// Name of the run, part of the default directory [default: run]
    #[arg(long, value_name = "NAME", help_heading = "Results")]
    pub(crate) name: Option<String>,

    /// Something to remember the result by, kept with it, such as gpu=h200 (repeatable); a table in a
    /// file
    #[arg(long, value_name = "K=V", help_heading = "Results")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "label")]
    #[schemars(with = "std::collections::BTreeMap<String, label::Value>")]
    pub(crate) label: Vec<String>,

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

    /// GPUs of this host to look at during the load: auto (all, where the server is on this host),
    /// none, or numbers such as 0,1 [default: auto]
    #[arg(long, value_name = "WHICH", help_heading = "Telemetry")]
    pub(crate) gpu: Option<String>,

    /// DCGM exporter whose GPUs to look at, such as http://node:9400 (repeatable)
    #[arg(long, value_name = "URL", help_heading = "Telemetry")]
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore")]
    pub(crate) dcgm: Vec<String>,

    /// How often GPUs are looked at [default: 200ms]
    #[arg(long, value_name = "TIME", help_heading = "Telemetry")]
    pub(crate) gpu_interval: Option<Span>,
}
