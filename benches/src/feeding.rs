//! Loads whose requests are written by the thread that feeds a reactor: prompts of 512 tokens from
//! each kind of source.

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;

use tempfile::NamedTempFile;
use tokclock_engine::plan::data::DataSet;
use tokclock_engine::plan::prompt::{Prompts, Text};
use tokclock_engine::plan::{Materials, Plan, PlanError, Scratch, Walk};
use tokclock_engine::workload::{
    Content, DataSpec, Format, Groups, Law, LengthLaw, Popularity, Source, Workload,
};

/// Requests per second that one thread is to write at least.
pub const GOAL_PER_S: f64 = 10_000.0;
/// Input tokens of every request, or their mean.
const TOKENS: u32 = 512;
/// Entries of a recording.
const ENTRIES: u64 = 5_000;
/// Tokens of a block of a trace.
const BLOCK_TOKENS: u32 = 64;

/// A load, ready to be written.
pub struct Feeding {
    /// Where its prompts come from.
    pub name: &'static str,
    plan: Plan,
    walk: Walk,
    scratch: Scratch,
    bytes: Vec<u8>,
}

impl Feeding {
    /// `like`, with prompts from each kind of source.
    ///
    /// # Errors
    /// If a recording cannot be written or read, or a load cannot be carried out.
    pub fn all(like: &Workload) -> Result<Vec<Self>, Box<dyn Error>> {
        let none = Materials::default();
        let (data, of_data) = recording(DataSpec::new, texts)?;
        let (trace, of_trace) = recording(blocks_of, blocks)?;
        Ok(vec![
            Self::new("synthetic", like, Content::of_lengths(TOKENS, 1), &none)?,
            Self::new("synthetic, spread lengths and groups", like, grouped()?, &none)?,
            Self::new("a data set", like, data, &of_data)?,
            Self::new("a trace with blocks", like, trace, &of_trace)?,
        ])
    }

    fn new(
        name: &'static str,
        like: &Workload,
        content: Content,
        materials: &Materials,
    ) -> Result<Self, PlanError> {
        let mut workload = like.clone();
        workload.mix.iter_mut().for_each(|class| class.content = content.clone());
        let plan = Plan::new(&workload, materials, "bench")?;
        let (walk, scratch) = (plan.walk(), Scratch::default());
        Ok(Self { name, plan, walk, scratch, bytes: Vec::new() })
    }

    /// Writes the next requests, as the feeder does; how many input tokens they have.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub fn write(&mut self, requests: u64) -> Result<u64, PlanError> {
        let mut tokens = 0;
        for _ in 0..requests {
            let place = self.walk.step(&self.plan);
            self.bytes.clear();
            let written = self.plan.write(&place, &mut self.scratch, &mut self.bytes)?;
            tokens += u64::from(written.input_tokens.unwrap_or(0));
        }
        Ok(tokens)
    }
}

/// A quarter of the mean length is the prefix of a group.
fn grouped() -> Result<Content, Box<dyn Error>> {
    let mut content = Content::of_lengths(TOKENS, 1);
    content.lengths = LengthLaw::Apart {
        input: Law::of_lengths("normal:384,96,min=64,max=704")?,
        output: Law::of_lengths("lognormal:median=200,p95=800")?,
    };
    content.shared.groups = Some(Groups {
        count: 64,
        tokens: Some(Law::of_lengths("128")?),
        popularity: Popularity::Zipf(1.0),
    });
    Ok(content)
}

/// Requests of a recording with these lines.
fn recording(
    spec: impl FnOnce(Source) -> DataSpec,
    lines: impl FnOnce() -> String,
) -> Result<(Content, Materials), Box<dyn Error>> {
    let file = NamedTempFile::with_suffix(".jsonl")?;
    std::fs::write(file.path(), lines())?;
    let spec = spec(Source::File(file.path().to_owned()));
    let no_hub = |_: &str, _: Option<&str>, _: Option<&str>| Err("the hub is not asked".to_owned());
    let data = DataSet::load(&spec, None, &no_hub)?;
    let content = Content { data: Some(spec), ..Content::of_lengths(TOKENS, 1) };
    Ok((content, Materials { data: vec![Some(Arc::new(data))], ..Materials::default() }))
}

fn texts() -> String {
    let (prompts, mut lines) = (Prompts::new(1), String::new());
    let mut prompt = Vec::new();
    for entry in 0..ENTRIES {
        prompt.clear();
        prompts.write(Text::Prompt, entry, TOKENS, true, &mut prompt);
        let text = String::from_utf8_lossy(&prompt);
        // Writing into a text cannot fail.
        let _ =
            writeln!(lines, r#"{{"prompt":"{text}","input_tokens":{TOKENS},"output_tokens":1}}"#);
    }
    lines
}

fn blocks_of(source: Source) -> DataSpec {
    let block_size = Some(BLOCK_TOKENS);
    DataSpec { format: Format::Mooncake, block_size, ..DataSpec::new(source) }
}

/// Half of the blocks of a prompt are those of one of a hundred beginnings.
fn blocks() -> String {
    let each = u64::from(TOKENS / BLOCK_TOKENS);
    let mut lines = String::new();
    for entry in 0..ENTRIES {
        let block = |number| match number < each / 2 {
            true => (entry % 100) * each + number,
            false => 1_000_000 + entry * each + number,
        };
        let ids = (0..each).map(|number| block(number).to_string()).collect::<Vec<_>>().join(",");
        let _ = writeln!(
            lines,
            r#"{{"timestamp":{entry},"input_length":{TOKENS},"output_length":1,"hash_ids":[{ids}]}}"#
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokclock_engine::workload::Load;
    use tokclock_sim::{Server, Settings};

    #[test]
    fn every_source_writes_prompts_of_512_tokens() {
        let server = Server::start(&Settings::default()).unwrap();
        let load = Load::Closed { users: 1, ramp_ns: 0 };
        let like = crate::load::workload(server.address(), load, 10, 1).unwrap();
        for mut feeding in Feeding::all(&like).unwrap() {
            let mean = feeding.write(200).unwrap() as f64 / 200.0;
            assert!((mean - f64::from(TOKENS)).abs() < 30.0, "{}: {mean}", feeding.name);
            assert!(feeding.write(200).unwrap() > 0, "it goes on from there");
        }
    }
}
