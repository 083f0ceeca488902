//! The options of what requests say: of all of them, or of one class.

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::values::{LawText, Share};

/// What requests say. In a TOML file the keys are the names of the options, at its top or in a
/// `[[class]]`.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ContentOptions {
    /// Input tokens of each prompt: 512, normal:512,128, lognormal:median=400,p95=4000,
    /// uniform:1,1024, gamma:512,128, exp:512, zipf:1.2,4096, mix:70%*512,30%*4096, file:PATH;
    /// any with ,min=1,max=8192 [default: 128]
    #[arg(long, value_name = "LAW", help_heading = "Content", alias = "random-input-len")]
    pub(crate) isl: Option<LawText>,

    /// Output tokens asked for, by the same laws [default: 32]
    #[arg(long, value_name = "LAW", help_heading = "Content", alias = "random-output-len")]
    pub(crate) osl: Option<LawText>,

    /// Standard deviation of a normal law whose mean is --isl
    #[arg(long, value_name = "N", help_heading = "Content")]
    pub(crate) isl_stddev: Option<f64>,

    /// Standard deviation of a normal law whose mean is --osl
    #[arg(long, value_name = "N", help_heading = "Content")]
    pub(crate) osl_stddev: Option<f64>,

    /// Spread lengths evenly over so much of --isl and --osl to both sides: 0.2, or
    /// {"input":0.2,"output":0.1}
    #[arg(long, value_name = "R", help_heading = "Content")]
    pub(crate) random_range_ratio: Option<LawText>,

    /// Pairs of lengths with their shares, such as '256|20,128|10:60;512,256:40'
    #[arg(long, value_name = "PAIRS", help_heading = "Content")]
    pub(crate) seq_dist: Option<String>,

    /// File of input,output[,weight] lines: lengths are drawn together
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub(crate) length_pairs: Option<PathBuf>,

    /// --isl includes the tokens that the server's chat template adds; they are measured first
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Content"
    )]
    pub(crate) isl_includes_template: Option<bool>,

    /// Tokens of a system prompt that all requests share, before those of --isl
    #[arg(
        long,
        value_name = "N",
        help_heading = "Shared prefixes",
        alias = "shared-system-prompt-length"
    )]
    pub(crate) system_tokens: Option<u32>,

    /// Prefixes that some of the requests share [default: 1 where there are --prefix-tokens]
    #[arg(long, value_name = "N", help_heading = "Shared prefixes", alias = "num-prefix-prompts")]
    pub(crate) prefix_groups: Option<u32>,

    /// Tokens of each of them, before those of --isl
    #[arg(
        long,
        value_name = "LAW",
        help_heading = "Shared prefixes",
        alias = "prefix-prompt-length",
        alias = "random-prefix-len"
    )]
    pub(crate) prefix_tokens: Option<LawText>,

    /// How often each of them is drawn: uniform, zipf:S [default: uniform]
    #[arg(long, value_name = "LAW", help_heading = "Shared prefixes")]
    pub(crate) prefix_popularity: Option<String>,

    /// Tokens of a context that all requests of one user share, before those of --isl
    #[arg(
        long,
        value_name = "LAW",
        help_heading = "Shared prefixes",
        alias = "user-context-prompt-length"
    )]
    pub(crate) user_tokens: Option<LawText>,

    /// How many such users there are [default: one for each conversation or request]
    #[arg(long, value_name = "N", help_heading = "Shared prefixes")]
    pub(crate) user_population: Option<u32>,

    /// So much of --isl is the beginning of a text that others share: what a cache could know
    #[arg(long, value_name = "SHARE", help_heading = "Shared prefixes")]
    pub(crate) cached_share: Option<Share>,

    /// Keep the server's prefix cache from knowing prompts: none, run (of earlier runs), request
    /// (of any) [default: none]
    #[arg(long, value_name = "WHAT", help_heading = "Shared prefixes")]
    pub(crate) cache_bust: Option<String>,

    /// Turns of each conversation: then items of the load are conversations
    #[arg(long, value_name = "LAW", help_heading = "Conversations")]
    pub(crate) turns: Option<LawText>,

    /// Input tokens that each turn but the first adds [default: as --isl]
    #[arg(long, value_name = "LAW", help_heading = "Conversations")]
    pub(crate) turn_isl: Option<LawText>,

    /// Pause before each request of a user or conversation but its first: 2s, exp:2s,
    /// lognormal:median=2s,p95=20s [default: 0]
    #[arg(long, value_name = "LAW", help_heading = "Conversations")]
    pub(crate) think_time: Option<LawText>,

    /// What later turns hold of earlier ones: live (the server's answers), recorded (those of the
    /// data set, or synthetic ones), none [default: live]
    #[arg(long, value_name = "WHAT", help_heading = "Conversations")]
    pub(crate) history: Option<String>,

    /// File with a JSON array of tool definitions, sent with every request
    #[arg(long, value_name = "FILE", help_heading = "Content")]
    pub(crate) tools: Option<PathBuf>,

    /// Send the requests of a file, a folder, standard input (-) or the hub (hf:owner/name/file)
    #[arg(long, value_name = "FILE", help_heading = "Data sets")]
    pub(crate) data: Option<String>,

    /// Its format: auto, native, lines, sharegpt, openai-messages, vllm-custom, aiperf-single-turn,
    /// aiperf-multi-turn, aiperf-random-pool, aiperf-inputs, raw-payload, mooncake, azure, burstgpt,
    /// bailian, lengths, columns [default: auto]
    #[arg(long, value_name = "NAME", help_heading = "Data sets", alias = "custom-dataset-type")]
    pub(crate) data_format: Option<String>,

    /// Column or member to read something from: prompt, system, messages, answer, input-tokens,
    /// output-tokens, timestamp, delay, session, tools, hash-ids, body (repeatable)
    #[arg(long, value_name = "WHAT=NAME", help_heading = "Data sets")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) field: Vec<String>,

    /// sequential (in order, once), shuffle (once, in another order), sample (with replacement)
    /// [default: sequential]
    #[arg(
        long,
        value_name = "ORDER",
        help_heading = "Data sets",
        alias = "dataset-sampling-strategy"
    )]
    pub(crate) data_order: Option<String>,

    /// Entries that are used, at most
    #[arg(long, value_name = "N", help_heading = "Data sets")]
    pub(crate) data_limit: Option<u64>,

    /// What bad lines do: fail (before any request), skip (they are counted) [default: fail]
    #[arg(long, value_name = "WHAT", help_heading = "Data sets")]
    pub(crate) on_bad_line: Option<String>,

    /// Send the first turn of each conversation alone
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Data sets"
    )]
    pub(crate) single_turn: Option<bool>,

    /// Tokens of the block that one hash id stands for [default: by format]
    #[arg(long, value_name = "N", help_heading = "Data sets", alias = "isl-block-size")]
    pub(crate) block_size: Option<u32>,

    /// Unit of times in the file: s, ms [default: by format]
    #[arg(long, value_name = "UNIT", help_heading = "Data sets")]
    pub(crate) time_unit: Option<String>,

    /// Tokens that the model's context holds; entries that do not fit are bad lines [default: what
    /// the server says]
    #[arg(long, value_name = "N", help_heading = "Data sets", alias = "max-context-length")]
    pub(crate) max_context: Option<u64>,

    /// Leave out entries of fewer input tokens
    #[arg(long, value_name = "N", help_heading = "Data sets")]
    pub(crate) min_isl: Option<u64>,

    /// Leave out entries of more input tokens
    #[arg(long, value_name = "N", help_heading = "Data sets")]
    pub(crate) max_isl: Option<u64>,

    /// Leave out entries of fewer output tokens
    #[arg(long, value_name = "N", help_heading = "Data sets")]
    pub(crate) min_osl: Option<u64>,

    /// Leave out entries of more output tokens
    #[arg(long, value_name = "N", help_heading = "Data sets")]
    pub(crate) max_osl: Option<u64>,
}

impl ContentOptions {
    /// These options over others: what is given here wins, and takes with it what below would
    /// contradict it.
    ///
    /// # Errors
    /// A usage error if the two do not go together.
    pub(crate) fn over(&self, below: &Self) -> Result<Self, Failure> {
        let mut below = below.clone();
        below.give_way_to(self);
        super::overlaid(self, &below)
    }

    /// Drops what `above` rules out: the other kinds of lengths, and of requests.
    fn give_way_to(&mut self, above: &Self) {
        if above.isl.is_some() || above.osl.is_some() {
            (self.seq_dist, self.length_pairs, self.random_range_ratio) = (None, None, None);
        }
        if above.isl.is_some() {
            self.isl_stddev = None;
        }
        if above.osl.is_some() {
            self.osl_stddev = None;
        }
        if above.seq_dist.is_some() || above.length_pairs.is_some() {
            *self = Self {
                isl: None,
                osl: None,
                isl_stddev: None,
                osl_stddev: None,
                random_range_ratio: None,
                seq_dist: None,
                length_pairs: None,
                ..std::mem::take(self)
            };
        }
        let synthetic =
            above.isl.is_some() || above.seq_dist.is_some() || above.length_pairs.is_some();
        if above.data.is_some() || (synthetic && above.data.is_none()) {
            (self.data, self.data_format) = (None, None);
            self.field = Vec::new();
        }
    }
}

/// One class of requests: `name=chat weight=70 isl=512 model=x slo=p95(ttft)<1s`, or a `[[class]]`
/// of a TOML file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ClassOptions {
    /// Its name.
    pub(crate) name: Option<String>,
    /// Its share of all requests, over the sum of all weights.
    pub(crate) weight: Option<f64>,
    /// The model, or LoRA adapter, that it asks for.
    pub(crate) model: Option<String>,
    /// Objectives of its own.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::one_or_more"
    )]
    #[schemars(with = "super::OneOrMore")]
    pub(crate) slo: Vec<String>,
    /// Limits that a good request of it meets.
    pub(crate) goodput: Option<String>,
    /// What its requests say, over what all say.
    #[serde(flatten)]
    pub(crate) content: ContentOptions,
}

/// Keys of a class beside those of its content.
pub(crate) const CLASS_KEYS: [&str; 5] = ["name", "weight", "model", "slo", "goodput"];

impl std::str::FromStr for ClassOptions {
    type Err = String;

    /// Words of `key=value`, parted by blanks; a value with blanks stands in quotes.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut table = toml::Table::new();
        for word in words(text)? {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| format!("`{word}` is no key=value, as in `name=chat weight=70`"))?;
            super::check_class_key(key)?;
            let value = value.trim_matches(['\'', '"']);
            let repeats = matches!(key, "slo" | "field");
            let entry = table.entry(key.to_owned());
            match entry {
                toml::map::Entry::Vacant(entry) if repeats => {
                    entry.insert(toml::Value::Array(vec![value.into()]));
                }
                toml::map::Entry::Vacant(entry) => {
                    entry.insert(typed(value));
                }
                toml::map::Entry::Occupied(mut entry) => match entry.get_mut() {
                    toml::Value::Array(all) => all.push(value.into()),
                    _ => return Err(format!("`{key}` stands there twice")),
                },
            }
        }
        table.try_into().map_err(|error: toml::de::Error| error.message().replace('\n', " "))
    }
}

/// A number, a truth or a text, as TOML tells them apart.
fn typed(value: &str) -> toml::Value {
    if let Ok(number) = value.parse::<i64>() {
        return number.into();
    }
    match value {
        "true" => true.into(),
        "false" => false.into(),
        _ => value
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite())
            .map_or_else(|| value.into(), toml::Value::Float),
    }
}

/// The words of a text, parted at blanks that stand in no quotes.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (None, ' ') => words.push(String::new()),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (_, letter) => {
                if let Some(word) = words.last_mut() {
                    word.push(letter);
                }
            }
        }
    }
    if quote.is_some() {
        return Err(format!("`{text}`: a quote is not closed"));
    }
    words.retain(|word| !word.is_empty());
    Ok(words)
}
