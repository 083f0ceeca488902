//! The common names of what servers count.

/// Makes a list of figures with the names that they have in files.
macro_rules! figures {
    ($(#[$about:meta])* $list:ident { $($(#[$said:meta])* $figure:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $list {
            $($(#[$said])* $figure,)*
        }

        impl $list {
            /// All of them, in the order in which they stand in files.
            pub const ALL: &[Self] = &[$(Self::$figure,)*];

            /// Its name in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$figure => $name,)*
                }
            }
        }
    };
}

figures! {
    /// How something is at a moment.
    Gauge {
        /// Requests that are served.
        Running = "running",
        /// Requests that wait.
        Waiting = "waiting",
        /// Requests whose KV cache is on its way from one server to another.
        Transferring = "transferring",
        /// Share of the KV cache that is taken, 0 to 1; of several engines the mean.
        KvUse = "kv_use",
    }
}

figures! {
    /// What only grows.
    Counter {
        /// Tokens of prompts.
        PromptTokens = "prompt_tokens",
        /// Tokens that were generated.
        GenerationTokens = "generation_tokens",
        /// Requests that ended well.
        Finished = "finished",
        /// Requests that were refused.
        Rejected = "rejected",
        /// How often a running request lost its place.
        Preemptions = "preemptions",
        /// Prompt tokens that were computed here.
        Computed = "prompt_computed",
        /// Prompt tokens that were found in the cache.
        Cached = "prompt_cached",
        /// Prompt tokens whose KV came from another server.
        Transferred = "prompt_transferred",
        /// KV transfers that failed.
        TransferFailed = "transfers_failed",
        /// Requests whose KV was given up before it was fetched.
        TransferExpired = "transfers_expired",
        /// Word of a fetch that came when the KV had been given up.
        TransferLate = "transfers_after_expiry",
    }
}

figures! {
    /// A sum and what it is a sum over: their growth gives a mean, or a share. Times are in ns.
    Pair {
        /// Time in the queue.
        Queue = "queue",
        /// Time of prefill.
        Prefill = "prefill",
        /// Time of decode.
        Decode = "decode",
        /// Time to the first token.
        Ttft = "ttft",
        /// Time between tokens.
        Itl = "itl",
        /// Time per output token, a mean of each request.
        Tpot = "tpot",
        /// Time of the whole request.
        E2e = "e2e",
        /// Time of a KV transfer.
        Transfer = "transfer",
        /// Bytes of a KV transfer.
        TransferBytes = "transfer_bytes",
        /// What was found in the prefix cache, over what was looked up.
        Prefix = "prefix",
        /// The same of a cache outside of the server.
        ExternalPrefix = "external_prefix",
    }
}

impl Pair {
    /// Those whose quantiles are estimated.
    pub const WITH_BUCKETS: [Self; 2] = [Self::Ttft, Self::Itl];
}
