//! How long requests are, from options: laws, and the words of other tools for them.

use tokclock_engine::workload::law::peers;
use tokclock_engine::workload::{Dialect, Law, LengthLaw};

use crate::config::ContentOptions;
use crate::exit::Failure;
use crate::values::LawText;

/// Input tokens of a prompt unless `--isl` says otherwise.
pub(super) const ISL: u32 = 128;
/// Output tokens asked for unless `--osl` says otherwise: with these a first run takes seconds.
pub(super) const OSL: u32 = 32;

/// Whether `--data` describes synthetic requests, as GuideLLM has it.
pub(super) fn is_synthetic(data: &str) -> bool {
    data.contains("prompt_tokens")
}

/// The law of lengths.
pub(super) fn lengths(options: &ContentOptions, dialect: Dialect) -> Result<LengthLaw, Failure> {
    let failed =
        |flag: &str, error: &dyn std::fmt::Display| Failure::usage(format!("{flag}: {error}"));
    let ways = [
        options.seq_dist.is_some(),
        options.length_pairs.is_some(),
        options.data.as_deref().is_some_and(is_synthetic),
    ];
    let apart = options.isl_stddev.is_some() || options.osl_stddev.is_some();
    if ways.iter().filter(|given| **given).count() > 1
        || (ways.contains(&true) && (apart || options.isl.is_some() || options.osl.is_some()))
    {
        return Err(Failure::usage(
            "--isl and --osl, --seq-dist, --length-pairs, and prompt_tokens in --data all say how \
             long requests are: give one of them",
        ));
    }
    if let Some(text) = &options.seq_dist {
        let genai = text.trim_start().starts_with(['D', 'N', 'U']);
        let read = if genai { peers::genai_bench(text) } else { peers::aiperf_seq_dist(text) };
        return read.map_err(|error| failed("--seq-dist", &error));
    }
    if let Some(path) = &options.length_pairs {
        return LengthLaw::of_pairs(&path.display().to_string())
            .map_err(|error| failed("--length-pairs", &error));
    }
    if let Some(text) = options.data.as_deref().filter(|text| is_synthetic(text)) {
        return peers::guidellm(text).map_err(|error| failed("--data", &error));
    }
    let ratios = options.random_range_ratio.as_ref().map(|text| peers::range_ratios(&text.0));
    let ratios = ratios.transpose().map_err(|error| failed("--random-range-ratio", &error))?;
    let input = one_law(
        ("--isl", options.isl.as_ref(), ISL),
        ("--isl-stddev", options.isl_stddev),
        ratios.map(|(input, _)| input),
    )?;
    let output = if dialect.generates() {
        one_law(
            ("--osl", options.osl.as_ref(), OSL),
            ("--osl-stddev", options.osl_stddev),
            ratios.map(|(_, output)| output),
        )?
    } else {
        Law::constant(0)
    };
    Ok(LengthLaw::Apart { input, output })
}

/// A law, or a mean with what spreads it.
fn one_law(
    (flag, text, default): (&str, Option<&LawText>, u32),
    (spread_flag, stddev): (&str, Option<f64>),
    ratio: Option<f64>,
) -> Result<Law, Failure> {
    let text = text.map_or_else(|| default.to_string(), |text| text.0.clone());
    if stddev.is_none() && ratio.is_none() {
        return law(flag, &LawText(text));
    }
    let (spread, how) = match (stddev, ratio) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!(
                "{spread_flag} and --random-range-ratio both spread {flag}: give one of them"
            )));
        }
        (Some(_), None) => (spread_flag, stddev),
        (None, _) => ("--random-range-ratio", None),
    };
    let mean: u32 = text.trim().parse().map_err(|_| {
        Failure::usage(format!(
            "{spread} spreads a number of tokens, and {flag} `{text}` is a law of its own: drop one"
        ))
    })?;
    let law = match (how, ratio) {
        (Some(stddev), _) => peers::with_stddev(mean, stddev),
        (None, ratio) => peers::with_range_ratio(mean, ratio.unwrap_or(0.0)),
    };
    law.map_err(|error| Failure::usage(format!("{spread}: {error}")))
}

/// A law of lengths alone.
pub(super) fn law(flag: &str, text: &LawText) -> Result<Law, Failure> {
    Law::of_lengths(&text.0).map_err(|error| Failure::usage(format!("{flag}: {error}")))
}
