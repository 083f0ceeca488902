//! Which workload this is: a hash of all that decides what is sent and when, but for the seed.
//!
//! Two runs of one hash and one seed send the same requests at the same instants. What is said is
//! taken from the workload's own terms and from the bodies that it makes of a fixed seed, so that a
//! changed tokenizer or an edited file is another workload. Where the requests go, what is kept of
//! them, how this host sends and how long an answer may take is left out.

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::Path;

use ring::digest::{Context, SHA256};

use super::{Materials, Plan, PlanError};
use crate::workload::{
    Arrival, Class, Client, Content, Conversation, Endpoint, Groups, Law, LengthLaw, Load,
    Popularity, Schedule, Shard, Shared, Stop, Target, Text, Tokenizer, Warmup, Workload,
    is_secret,
};

/// Bodies that are looked at, at most: enough to show how texts are written and counted.
const BODIES: u64 = 16;
/// The seed that they are made of.
const SEED: u64 = 1;

/// What requests say, as a hash that the loads of a sweep share.
#[derive(Clone)]
pub struct Identity(Lines);

impl Identity {
    /// Looks at what the requests of `workload` say.
    ///
    /// # Errors
    /// A workload that cannot be carried out, or a recording that cannot be read any more.
    pub fn of(workload: &Workload, materials: &Materials) -> Result<Self, PlanError> {
        let Workload { target, text, mix, .. } = workload;
        let mut lines = Lines::new();
        lines.target(target);
        lines.text(text);
        for (at, class) in mix.iter().enumerate() {
            lines.class(class);
            let read = materials.data.get(at).and_then(Option::as_ref);
            if let Some(data) = read {
                data.each_piece(&mut |piece| lines.bytes("entry", piece))?;
            }
        }
        lines.bodies(workload, materials)?;
        Ok(Self(lines))
    }

    /// The hash of it under the load of `workload`: `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn with_load(&self, workload: &Workload) -> String {
        let mut lines = self.0.clone();
        lines.load(&workload.load);
        lines.stop(workload.stop);
        lines.client(&workload.client);
        lines.finish()
    }
}

/// Named values, one after another, none of which can be taken for a part of another.
#[derive(Clone)]
struct Lines(Context);

impl Lines {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn bytes(&mut self, name: &str, value: &[u8]) {
        for part in [name.as_bytes(), value] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    fn add(&mut self, name: &str, value: impl Display) {
        self.bytes(name, value.to_string().as_bytes());
    }

    /// What may be absent; then it counts as not said at all.
    fn maybe(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    fn law(&mut self, name: &str, law: Option<&Law>) {
        self.maybe(name, law.map(Law::identity));
    }

    /// What a file holds; its name where it cannot be read.
    fn file(&mut self, name: &str, path: &Path) {
        match fs::read(path) {
            Ok(bytes) => self.bytes(name, &bytes),
            Err(_) => self.add(name, path.display()),
        }
    }

    fn finish(self) -> String {
        let mut text = "sha256:".to_owned();
        for byte in self.0.finish().as_ref() {
            // Writing into a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    fn target(&mut self, target: &Target) {
        let Target { endpoints: _, tls: _, dialect, template, model, stream, .. } = target;
        let Target { force_length, return_token_ids, continuous_usage, .. } = target;
        let Target { session_header, headers, extra_body, .. } = target;
        self.add("dialect", dialect);
        if let Some(template) = template {
            self.add("template_path", &template.path);
            self.add("template_body", &template.body);
        }
        self.add("model", model);
        self.add("stream", stream);
        self.add("force_length", force_length);
        self.add("return_token_ids", return_token_ids);
        self.add("continuous_usage", continuous_usage);
        self.maybe("session_header", session_header.as_ref());
        // A key says who asks, not what.
        for (name, value) in headers.iter().filter(|(name, _)| !is_secret(name)) {
            self.add("header", format_args!("{}: {value}", name.to_ascii_lowercase()));
        }
        self.add("extra_body", serde_json::Value::Object(extra_body.clone()));
    }

    fn text(&mut self, text: &Text) {
        let Text { tokenizer, tokenizer_chosen, corpus, as_ids, ids } = text;
        match tokenizer {
            Tokenizer::File(path) => self.file("tokenizer", path),
            named => self.add("tokenizer", named),
        }
        self.add("tokenizer_chosen", tokenizer_chosen);
        if let Some(path) = corpus {
            self.file("corpus", path);
        }
        self.add("as_ids", as_ids);
        self.maybe("ids", ids.map(|(first, last)| format!("{first}-{last}")));
    }

    fn class(&mut self, class: &Class) {
        // A name and objectives change nothing that is sent.
        let Class { name: _, weight, model, content, objectives: _ } = class;
        let Content { lengths, shared, data, conversation, think, tools, .. } = content;
        self.add("class", weight);
        self.maybe("class_model", model.as_ref());
        self.lengths(lengths);
        self.shared(shared);
        self.maybe("data_order", data.as_ref().map(|data| data.order));
        let Conversation { turns, history } = conversation;
        if let Some(turns) = turns {
            self.law("turns", Some(&turns.count));
            self.law("turn_input", turns.input.as_ref());
            self.add("history", history);
        }
        self.law("think", think.as_ref());
        self.maybe("tools", tools.as_ref());
        self.add("cache_bust", content.cache_bust);
        self.add("template_tokens", content.template_tokens);
    }

    fn lengths(&mut self, lengths: &LengthLaw) {
        match lengths {
            LengthLaw::Apart { input, output } => {
                self.law("isl", Some(input));
                self.law("osl", Some(output));
            }
            LengthLaw::Joint(pairs) => {
                for (weight, input, output) in pairs {
                    self.add("pair", weight);
                    self.law("isl", Some(input));
                    self.law("osl", Some(output));
                }
            }
            LengthLaw::Pairs(pairs) => {
                for ((input, output), share) in pairs.rows().iter().zip(pairs.weights.shares()) {
                    self.add("row", format_args!("{input},{output},{share}"));
                }
            }
        }
    }

    fn shared(&mut self, shared: &Shared) {
        let Shared { system_tokens, groups, user, cached_share } = shared;
        self.add("system_tokens", system_tokens);
        if let Some(Groups { count, tokens, popularity }) = groups {
            self.add("groups", count);
            self.law("group_tokens", tokens.as_ref());
            match popularity {
                Popularity::Uniform => self.add("popularity", "uniform"),
                Popularity::Zipf(exponent) => self.add("popularity", exponent),
            }
        }
        if let Some(user) = user {
            self.law("user_tokens", Some(&user.tokens));
            self.maybe("users", user.population);
        }
        self.maybe("cached_share", *cached_share);
    }

    fn load(&mut self, load: &Load) {
        let (schedule, max_in_flight, overflow) = match load {
            Load::Closed { users, ramp_ns } => {
                self.add("closed", format_args!("{users} {ramp_ns}"));
                return;
            }
            Load::Open { schedule, max_in_flight, overflow } => (schedule, max_in_flight, overflow),
        };
        match schedule {
            Schedule::Rate { rate, arrival } => {
                self.add("rate", rate);
                self.arrival(*arrival);
            }
            Schedule::Series { series, arrival } => {
                for piece in series.pieces() {
                    let (length, from, to) = (piece.duration_ns, piece.from, piece.to);
                    self.add("piece", format_args!("{length} {from} {to}"));
                }
                self.arrival(*arrival);
            }
            Schedule::Replay(replay) => {
                self.add("replay", format_args!("{} {}", replay.speed, replay.start_ns));
                self.maybe("replay_end", replay.end_ns);
                self.add("loops", replay.loops);
            }
        }
        self.maybe("max_in_flight", max_in_flight.as_ref());
        if max_in_flight.is_some() {
            self.add("overflow", overflow);
        }
    }

    fn arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Constant => self.add("arrival", "constant"),
            Arrival::Poisson => self.add("arrival", "poisson"),
            Arrival::Gamma { burstiness } => self.add("arrival", burstiness),
        }
    }

    fn stop(&mut self, stop: Stop) {
        let Stop { requests, duration_ns, sessions, warmup, drain_ns, until } = stop;
        self.maybe("requests", requests);
        self.maybe("duration", duration_ns);
        self.maybe("sessions", sessions);
        match warmup {
            Warmup::None => {}
            Warmup::Requests(requests) => self.add("warmup_requests", requests),
            Warmup::Time(ns) => self.add("warmup", ns),
            Warmup::Auto(most_ns) => self.add("warmup_auto", most_ns),
        }
        self.add("drain", drain_ns);
        if let Some(until) = until {
            let (quantile, metric, width) = (until.quantile, until.metric, until.width);
            self.add("until", format_args!("{quantile} {metric} {width}"));
        }
    }

    /// What a client does of its own accord: more requests, or fewer answers read to their end.
    fn client(&mut self, client: &Client) {
        if client.retries.max > 0 {
            let retries = client.retries;
            self.add("retries", format_args!("{} {}", retries.max, retries.backoff_ns));
        }
        if let Some(cancel) = client.cancel {
            self.add("cancel", format_args!("{} {:?}", cancel.rate, cancel.after));
        }
    }

    /// The first bodies, as a fixed seed makes them.
    fn bodies(&mut self, workload: &Workload, materials: &Materials) -> Result<(), PlanError> {
        let plain = Workload {
            target: Target { endpoints: vec![nowhere()], ..workload.target.clone() },
            stop: Stop::after(BODIES),
            load: Load::Closed { users: 1, ramp_ns: 0 },
            shard: Shard::WHOLE,
            seed: SEED,
            ..workload.clone()
        };
        let plan = Plan::new(&plain, materials, "identity")?;
        let recorded = materials.data.iter().flatten().map(|data| data.len()).min();
        let mut bytes = Vec::new();
        for item in 0..recorded.map_or(BODIES, |entries| entries.min(BODIES)) {
            bytes.clear();
            let written = plan.render(item, &mut bytes)?;
            self.bytes("body", &bytes[written.body]);
        }
        Ok(())
    }
}

/// A server whose name and address say nothing.
fn nowhere() -> Endpoint {
    Endpoint {
        url: String::new(),
        addresses: Vec::new(),
        host: "nowhere".to_owned(),
        base_path: String::new(),
        query: String::new(),
        path: "/".to_owned(),
        via: None,
        tunnel: None,
        tls: false,
        server_name: String::new(),
    }
}

#[cfg(test)]
mod tests;
