//! A synthetic load as entries of our own JSONL: what each of its requests says, and when.

use std::ops::ControlFlow;

use serde_json::value::RawValue;

use tokclock_engine::plan::data::{Content, Entry, Turn};
use tokclock_engine::workload::{Dialect, History};

use super::load::{Bound, Load, Sent};
use super::said::said;
use crate::config::Options;
use crate::exit::Failure;

/// The API whose bodies keep system prompt, turns and answers apart.
const DIALECT: &str = "openai-chat";

/// Has bodies made in words that can be taken apart again.
///
/// # Errors
/// Token ids, which make no text.
pub(super) fn prepare(options: &mut Options) -> Result<(), Failure> {
    if options.prompt_as.as_deref().is_some_and(|how| how != "text") {
        return Err(Failure::usage(
            "--prompt-as token-ids: the JSONL holds text; leave it out, and give it to the run",
        ));
    }
    options.dialect = Some(DIALECT.to_owned());
    options.template = None;
    options.extra_body = None;
    (options.return_token_ids, options.continuous_usage) = (None, None);
    Ok(())
}

/// Whether the API that was asked for generates anything.
///
/// # Errors
/// There is no such API.
pub(super) fn generates(options: &Options) -> Result<bool, Failure> {
    let Some(name) = &options.dialect else { return Ok(true) };
    let dialect = name.parse::<Dialect>();
    let dialect = dialect.map_err(|error| Failure::usage(format!("--{error}")))?;
    Ok(dialect.generates())
}

/// Gives the entry of each item to `each`: `most`, or as many as a run would send.
///
/// # Errors
/// That nothing ends the load; those of `each`.
pub(super) fn write(
    load: &Load,
    most: Option<u64>,
    generates: bool,
    each: &mut dyn FnMut(&Entry) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let bound = match most {
        Some(_) => Bound { items: most, ..Bound::default() },
        None => load.whole().ok_or_else(|| {
            Failure::usage(
                "how many a closed loop sends in a --duration depends on the server: \
                            say how many to write with -n",
            )
        })?,
    };
    let mut entry = Entry::default();
    let mut before = None;
    load.walk(bound, &mut |sent| {
        let mut turn = turn(load, sent, before, &mut entry);
        if !generates {
            turn.output_tokens = None;
        }
        entry.turns.push(turn);
        before = Some((sent.input_tokens.unwrap_or(0), sent.output_tokens));
        if u64::from(sent.turn) + 1 == sent.turns {
            each(&entry)?;
            (entry, before) = (Entry::default(), None);
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// A turn of `entry`, whose beginning is noted in it. `before` are the tokens of the turn before and
/// of its answer.
fn turn(load: &Load, sent: &Sent<'_>, before: Option<(u32, u32)>, entry: &mut Entry) -> Turn {
    let content = &load.workload.mix[sent.class].content;
    let mut all = said(sent.body);
    let text = all.pop().map(|said| said.text).unwrap_or_default();
    let history = content.conversation.history;
    if sent.turn == 0 {
        entry.timestamp_ns = sent.time_ns;
        entry.system = all.into_iter().find(|said| said.role == "system").map(|said| said.text);
    } else if let (History::Recorded, Some(last)) = (history, entry.turns.last_mut()) {
        last.answer = all.pop().filter(|said| said.role == "assistant").map(|said| said.text);
    }
    let known = match (before, history) {
        (Some((input, answer)), History::Live | History::Recorded) => input.saturating_add(answer),
        _ => 0,
    };
    let mut turn = Turn::new(Content::Text(text));
    turn.output_tokens = Some(sent.output_tokens);
    // Of a later turn what it adds, as everywhere in our JSONL.
    turn.input_tokens = sent.input_tokens.map(|tokens| tokens.saturating_sub(known));
    turn.delay_ns = Some(sent.pause_ns).filter(|pause| *pause > 0);
    let tools = content.tools.as_ref().map(|tools| RawValue::from_string(tools.clone()));
    turn.tools = tools.and_then(Result::ok);
    turn
}
