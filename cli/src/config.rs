//! The options of a run, all optional: what the command line and a TOML file share, one laid over
//! the other.

mod options;

pub(crate) use options::Options;

use std::path::Path;

use crate::exit::Failure;
use crate::secret;

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
            spin: self.spin.or(file.spin),
            client_limit: if self.client_limit.is_empty() {
                file.client_limit
            } else {
                self.client_limit
            },
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
        if above.retries == Some(0) {
            self.retry_backoff = None;
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
mod tests;
