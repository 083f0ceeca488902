//! Lengths as other load generators write them, as laws of ours.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::{number, sums_to_100};
use super::{Law, LawError, LengthLaw};

/// Reads `--seq-dist` of AIPerf, in any of its forms: `256|20,128|10:60;512|50,256|20:40`,
/// `[(256,128):60,(512,256):40]`, or JSON with `pairs` of `isl`, `isl_stddev`, `osl`,
/// `osl_stddev` and `prob`. A length with a standard deviation is normal. Weights are percents.
///
/// # Errors
///
/// Another form, a figure that makes no sense, percents that do not make 100.
pub fn aiperf_seq_dist(text: &str) -> Result<LengthLaw, LawError> {
    let text = text.trim();
    let wrong = |problem: String| LawError::text(text, problem);
    let entries = match text.as_bytes().first() {
        Some(b'{') => json_pairs(text),
        Some(b'[') => bracketed_pairs(text),
        _ => text.split(';').filter(|entry| !entry.trim().is_empty()).map(plain_pair).collect(),
    };
    let entries = entries.map_err(wrong)?;
    if entries.is_empty() {
        return Err(wrong(format!("no pairs in it: {SEQ_DIST}")));
    }
    let percents: Vec<f64> = entries.iter().map(|(percent, _)| *percent).collect();
    sums_to_100(&percents).map_err(wrong)?;
    let part = |(percent, [input, output]): (f64, [Figures; 2])| {
        Ok((percent, input.law()?, output.law()?))
    };
    Ok(LengthLaw::Joint(entries.into_iter().map(part).collect::<Result<_, LawError>>()?))
}

const SEQ_DIST: &str = "write it like `256|20,128|10:60;512|50,256|20:40`";

/// A mean and a standard deviation, as texts.
struct Figures {
    mean: String,
    sd: Option<String>,
}

impl Figures {
    fn law(&self) -> Result<Law, LawError> {
        match &self.sd {
            Some(sd) => Law::of_lengths(&format!("normal:{},{sd}", self.mean)),
            None => Law::of_lengths(&self.mean),
        }
    }

    /// `mean` or `mean|sd`.
    fn read(text: &str) -> Self {
        match text.split_once('|') {
            Some((mean, sd)) => Self { mean: mean.trim().into(), sd: Some(sd.trim().into()) },
            None => Self { mean: text.trim().into(), sd: None },
        }
    }
}

type Entry = (f64, [Figures; 2]);

/// `input,output:percent`.
fn plain_pair(text: &str) -> Result<Entry, String> {
    let parts = text.rsplit_once(':');
    let parts = parts.and_then(|(lengths, percent)| Some((lengths.split_once(',')?, percent)));
    let ((input, output), percent) =
        parts.ok_or_else(|| format!("`{}` is no pair: {SEQ_DIST}", text.trim()))?;
    Ok((number(percent.trim())?, [Figures::read(input), Figures::read(output)]))
}

/// `[(input,output):percent,...]`.
fn bracketed_pairs(text: &str) -> Result<Vec<Entry>, String> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let inner = inner.ok_or("no `]` at its end")?;
    let entries = inner.split('(').map(|entry| entry.trim().trim_end_matches(',').trim());
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(|entry| plain_pair(&entry.replacen(')', "", 1))).collect()
}

fn json_pairs(text: &str) -> Result<Vec<Entry>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let pairs = value.get("pairs").and_then(Value::as_array).ok_or("no list `pairs` in it")?;
    let entry = |pair: &Value| {
        let field = |name: &str| pair.get(name).filter(|value| !value.is_null()).map(plain);
        let need = |name: &str| field(name).ok_or_else(|| format!("a pair has no `{name}`"));
        let input = Figures { mean: need("isl")?, sd: field("isl_stddev") };
        let output = Figures { mean: need("osl")?, sd: field("osl_stddev") };
        Ok((number(&need("prob")?)?, [input, output]))
    };
    pairs.iter().map(entry).collect()
}

/// A JSON value as one would type it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads the synthetic data of GuideLLM: `prompt_tokens=512,output_tokens=128`, each also with
/// `_stdev`, `_min` and `_max`, or the same as a JSON object. A length with a standard deviation
/// is normal, within five of them or within its bounds; with bounds alone it is uniform between
/// them.
///
/// # Errors
///
/// A key that another option of ours stands for, or none; a figure that makes no sense.
pub fn guidellm(text: &str) -> Result<LengthLaw, LawError> {
    let text = text.trim();
    let wrong = |problem: String| LawError::text(text, problem);
    let mut keys = guidellm_keys(text).map_err(wrong)?;
    if let Some(kind) = keys.remove("kind")
        && kind != "synthetic_text"
    {
        return Err(wrong(format!("kind `{kind}`: only synthetic_text is a law; see --data")));
    }
    let mut side = |name| guidellm_law(&mut keys, name);
    let (input, output) = (side("prompt_tokens"), side("output_tokens"));
    if let Some(key) = keys.keys().next() {
        return Err(wrong(format!("`{key}` is not taken here: {}", instead_of(key))));
    }
    let input = Law::of_lengths(&input.map_err(wrong)?)?;
    let output = Law::of_lengths(&output.map_err(wrong)?)?;
    Ok(LengthLaw::Apart { input, output })
}

fn instead_of(key: &str) -> &'static str {
    match key {
        "turns" | "turns_stdev" | "turns_min" | "turns_max" => "use --turns",
        "delay" | "turn_delay" => "use --think-time",
        _ if key.starts_with("prefix") => "use --prefix-groups",
        _ => "give prompt_tokens and output_tokens, with _stdev, _min and _max",
    }
}

fn guidellm_keys(text: &str) -> Result<BTreeMap<String, String>, String> {
    if text.starts_with('{') {
        let object: serde_json::Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
        let given = object.into_iter().filter(|(_, value)| !value.is_null());
        return Ok(given.map(|(key, value)| (key, plain(&value))).collect());
    }
    let mut keys = BTreeMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("`{}` is no KEY=VALUE", pair.trim()))?;
        if keys.insert(key.trim().to_owned(), value.trim().to_owned()).is_some() {
            return Err(format!("`{}` is given twice", key.trim()));
        }
    }
    Ok(keys)
}

/// Takes the keys of one side out; the law in our text.
fn guidellm_law(keys: &mut BTreeMap<String, String>, name: &str) -> Result<String, String> {
    let mut take = |end: &str| keys.remove(&format!("{name}{end}"));
    let (mean, sd, min, max) = (take(""), take("_stdev"), take("_min"), take("_max"));
    let mean = mean.ok_or_else(|| format!("no `{name}`: give its tokens"))?;
    let spread = sd.as_deref().map(number).transpose()?.filter(|sd| *sd > 0.0);
    Ok(match (spread, min, max) {
        (None, None, None) => mean,
        (None, min, max) => {
            let (low, high) = (min.as_ref().unwrap_or(&mean), max.as_ref().unwrap_or(&mean));
            format!("uniform:{low},{high}")
        }
        (Some(sd), min, max) => {
            let centre = number(&mean)?;
            let low = min.unwrap_or_else(|| (centre - 5.0 * sd).floor().max(1.0).to_string());
            let high = max.unwrap_or_else(|| (centre + 5.0 * sd).ceil().to_string());
            format!("normal:{mean},{sd},min={low},max={high}")
        }
    })
}

/// Lengths in vLLM's `--random-range-ratio`: whole numbers from ⌊m(1−r)⌋ to ⌈m(1+r)⌉, alike.
/// Those below 1 are set to 1.
///
/// # Errors
///
/// A ratio outside of 0 to 1, 1 not included; a mean below 1.
pub fn with_range_ratio(mean: u32, ratio: f64) -> Result<Law, LawError> {
    if !(0.0..1.0).contains(&ratio) {
        let problem = "give a ratio of 0 to 1, 1 not included; 0 is a fixed length";
        return Err(LawError::text(&ratio.to_string(), problem));
    }
    let mean = f64::from(mean);
    let (low, high) = ((mean * (1.0 - ratio)).floor(), (mean * (1.0 + ratio)).ceil());
    let same = low == high;
    Law::of_lengths(&if same { low.to_string() } else { format!("uniform:{low},{high}") })
}

/// The ratios of input and output in `--random-range-ratio`: a number for both, or
/// `{"input":0.2,"output":0.1}`, where what is left out is 0.
///
/// # Errors
///
/// Neither of these.
pub fn range_ratios(text: &str) -> Result<(f64, f64), LawError> {
    let text = text.trim();
    let wrong = || LawError::text(text, "give a number, or `{\"input\":0.2,\"output\":0.1}`");
    if !text.starts_with('{') {
        return number(text).map(|ratio| (ratio, ratio)).map_err(|_| wrong());
    }
    let object: BTreeMap<String, f64> = serde_json::from_str(text).map_err(|_| wrong())?;
    if object.keys().any(|key| key != "input" && key != "output") {
        return Err(wrong());
    }
    let ratio = |key| object.get(key).copied().unwrap_or(0.0);
    Ok((ratio("input"), ratio("output")))
}

/// A normal law as AIPerf's `--isl` and `--isl-stddev` have it; 0 is a fixed length.
///
/// # Errors
///
/// A mean below 1, a negative standard deviation.
pub fn with_stddev(mean: u32, sd: f64) -> Result<Law, LawError> {
    if sd == 0.0 {
        return Law::of_lengths(&mean.to_string());
    }
    Law::of_lengths(&format!("normal:{mean},{sd}"))
}

/// Reads a traffic scenario of genai-bench: `D(100,1000)`, `N(480,240)/(300,150)` or
/// `U(50,100)/(200,250)`; input, then output.
///
/// # Errors
///
/// Another form, a figure that makes no sense.
pub fn genai_bench(text: &str) -> Result<LengthLaw, LawError> {
    let text = text.trim();
    let wrong = || {
        let forms = "D(100,1000), N(480,240)/(300,150) or U(50,100)/(200,250)";
        LawError::text(text, format!("write it as {forms}"))
    };
    let inner = text.get(1..).and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
    let inner = inner.ok_or_else(wrong)?;
    let sides = inner.split_once(")/(");
    let law = |text: String| Law::of_lengths(&text);
    let (input, output) = match (text.as_bytes().first(), sides) {
        (Some(b'D'), None) => {
            let (input, output) = inner.split_once(',').ok_or_else(wrong)?;
            (law(input.trim().into())?, law(output.trim().into())?)
        }
        (Some(b'N'), Some((input, output))) => {
            (law(format!("normal:{input}"))?, law(format!("normal:{output}"))?)
        }
        (Some(b'U'), Some((input, output))) => {
            (law(format!("uniform:{input}"))?, law(format!("uniform:{output}"))?)
        }
        _ => return Err(wrong()),
    };
    Ok(LengthLaw::Apart { input, output })
}
