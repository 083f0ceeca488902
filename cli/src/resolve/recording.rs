//! Which recording is sent, from options.

use std::str::FromStr;

use tokclock_engine::workload::{DataSpec, Field, Order, Source, TimeUnit};

use super::word;
use crate::config::ContentOptions;
use crate::exit::Failure;

/// What becomes of the times of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// Every entry must have one.
    Needed,
    /// They are kept if every entry has one.
    Kept,
    /// The load has times of its own.
    Unused,
}

/// Which recording is read, and how.
pub(super) fn data_spec(
    options: &ContentOptions,
    source: &str,
    times: Times,
) -> Result<DataSpec, Failure> {
    let (mut format, mut order) = (options.data_format.clone(), options.data_order.clone());
    let mut bad = options.on_bad_line.clone();
    let source: Source = source.parse().unwrap_or_else(|never| match never {});
    let fields = options.field.iter().map(|text| field(text));
    Ok(DataSpec {
        source,
        format: word(&mut format, "auto")?,
        fields: fields.collect::<Result<_, _>>()?,
        on_bad_line: word(&mut bad, "fail")?,
        single_turn: options.single_turn.unwrap_or(false),
        is_trace: times == Times::Needed,
        ignore_times: times == Times::Unused,
        block_size: options.block_size,
        time_unit: options.time_unit.as_deref().map(time_unit).transpose()?,
        limit: options.data_limit,
        min_input: options.min_isl,
        max_input: options.max_isl,
        min_output: options.min_osl,
        max_output: options.max_osl,
        max_context: options.max_context,
        order: word::<Order>(&mut order, "sequential")?,
    })
}

fn field(text: &str) -> Result<(Field, String), Failure> {
    let (what, name) = text.split_once('=').ok_or_else(|| {
        Failure::usage(format!("--field `{text}`: expected WHAT=NAME, such as prompt=question"))
    })?;
    let what = Field::from_str(&what.trim().replace('_', "-"))
        .map_err(|error| Failure::usage(format!("--{error}")))?;
    Ok((what, name.trim().to_owned()))
}

fn time_unit(text: &str) -> Result<TimeUnit, Failure> {
    match text.trim() {
        "s" | "seconds" => Ok(TimeUnit::Seconds),
        "ms" | "milliseconds" => Ok(TimeUnit::Milliseconds),
        other => Err(Failure::usage(format!("--time-unit `{other}`: expected s or ms"))),
    }
}
