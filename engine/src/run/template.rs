//! The tokens that a server adds to a prompt: those of its chat template, or a beginning of text.

use serde_json::Value;

use crate::plan::{Materials, Plan};
use crate::reactor::probe::{Asked, try_out};
use crate::workload::{CacheBust, Class, Content, LengthLaw, Load, Stop, Workload};

/// Tokens of the prompts that are tried: two lengths, since a template may cut at the border.
const TRIED: [u32; 2] = [16, 48];

/// Tokens that the first server of `workload` adds to the prompts of a class, found by two requests
/// of one output token each, outside of any measured load.
///
/// # Errors
/// Why it cannot be found out: the server does not answer, does not count, or adds now more and now
/// less.
pub fn template_tokens(
    workload: &Workload,
    materials: &Materials,
    class: usize,
) -> Result<u32, String> {
    let class = workload.mix.get(class).ok_or("there is no such class")?;
    let mut added = Vec::new();
    for tokens in TRIED {
        let bare = bare(workload, class, tokens);
        let materials = Materials { data: Vec::new(), ..materials.clone() };
        let plan = Plan::new(&bare, &materials, "template").map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        let written = plan.render(0, &mut bytes).map_err(|error| error.to_string())?;
        let body = &bytes[written.body.clone()];
        let asked = Asked::all(&bare.target).next().ok_or("there is no server")?;
        let answer = try_out(&asked, body)?;
        let counted = input_tokens(&answer).ok_or("its answer does not count input tokens")?;
        let own = u64::from(written.input_tokens.unwrap_or(0));
        added.push(counted.checked_sub(own).ok_or_else(|| {
            format!(
                "it counts {counted} tokens where the tokenizer counts {own}: name the server's own \
                 with --tokenizer"
            )
        })?);
    }
    match added.as_slice() {
        [one, other] if one == other => u32::try_from(*one).map_err(|error| error.to_string()),
        _ => Err(format!(
            "it adds {} tokens to one prompt and {} to another: name its own tokenizer with \
             --tokenizer",
            added[0], added[1]
        )),
    }
}

/// One request of a class with a prompt of so many tokens and nothing shared.
fn bare(workload: &Workload, class: &Class, tokens: u32) -> Workload {
    let mut workload = workload.clone();
    workload.target.stream = false;
    workload.load = Load::Closed { users: 1, ramp_ns: 0 };
    workload.stop = Stop::after(1);
    // The system prompt stays: a template may treat it apart.
    let mut content = Content {
        lengths: LengthLaw::constant(tokens, 1),
        cache_bust: CacheBust::None,
        ..Content::of_lengths(tokens, 1)
    };
    content.shared.system_tokens = class.content.shared.system_tokens.min(tokens);
    content.tools.clone_from(&class.content.tools);
    workload.mix = vec![Class { content, ..class.clone() }];
    crate::reactor::probe::settle_paths(&mut workload.target);
    workload
}

/// Input tokens as the server counted them, in the words of each API.
fn input_tokens(answer: &Value) -> Option<u64> {
    const PLACES: [&str; 6] = [
        "/usage/prompt_tokens",
        "/usage/input_tokens",
        "/meta_info/prompt_tokens",
        "/prompt_eval_count",
        "/tokens_evaluated",
        "/response/usage/input_tokens",
    ];
    PLACES.iter().find_map(|place| answer.pointer(place)?.as_u64())
}
