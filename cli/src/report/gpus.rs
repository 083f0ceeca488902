//! What the GPUs did during a run, in a few lines.

use tokclock_engine::measure::{EnergyBy, GpuReport, GpusReport, Spread, Summary};

use super::grid;
use super::text::{NONE, Page, duration, escape, number, percent};

/// Devices that have a line of their own, at most.
const SHOWN: usize = 16;
/// Figures that are older than so many looks are worth a remark.
const STALE: u64 = 2;
/// Between two looks, where nobody knows how often there was one, ns.
const LOOK_NS: u64 = 200_000_000;
/// Energy that is known over less of the window is worth one too.
const COVERS: f64 = 0.9;
const GIB: f64 = (1_u64 << 30) as f64;

/// Writes it, where any were looked at.
pub(super) fn write(page: &mut Page, summary: &Summary) {
    let Some(gpus) = &summary.gpus else { return };
    page.blank();
    words(page, gpus);
    let head = ["gpu", "busy", "power", "memory", "SM clock", "temp", "tensor", "DRAM", "slowed"];
    grid::write(page, &head, gpus.devices.iter().take(SHOWN).map(row));
    if gpus.devices.len() > SHOWN {
        let more = gpus.devices.len() - SHOWN;
        page.words("", &format!("{more} more of them are in summary.json"));
    }
    for device in gpus.devices.iter().take(SHOWN) {
        remarks(page, device);
    }
}

/// What they come to together.
pub(super) fn words(page: &mut Page, gpus: &GpusReport) {
    let sources: Vec<String> = gpus.sources.iter().map(|one| escape(&one.source)).collect();
    let names = models(gpus);
    page.words(
        "gpus",
        &format!(
            "{} ({}), looked at every {} by {}: {} output tokens/s for each",
            gpus.count,
            if names.is_empty() { NONE.to_owned() } else { names.join(", ") },
            duration(gpus.interval_ns),
            sources.join(", "),
            number(gpus.output_tps_per_gpu),
        ),
    );
    let mut parts = vec![
        format!("{} J in the window", number(gpus.energy_j)),
        format!("{} W", number(gpus.mean_power_w)),
        format!("{} J for each output token", number(gpus.joules_per_output_token)),
        format!("{} output tokens/J", number(gpus.output_tokens_per_joule)),
    ];
    if gpus.mean_power_w.is_none() {
        parts = vec!["not known: not every GPU tells its power".to_owned()];
    } else if let Some(by) = by(gpus) {
        parts.push(by.to_owned());
    }
    page.words("energy", &parts.join(", "));
    if let Some(covers) = gpus.energy_covers.filter(|covers| *covers < COVERS) {
        page.words(
            "",
            &format!(
                "known over {} of the window alone; its mean is taken to hold over the rest",
                percent(Some(covers))
            ),
        );
    }
    refreshing(page, gpus);
    for one in gpus.sources.iter().filter(|one| one.failed.unwrap_or(0) > 0) {
        let looks = one.looks.map_or_else(|| NONE.to_owned(), |looks| looks.to_string());
        let failed = one.failed.unwrap_or(0);
        let reason = one.reason.as_deref().unwrap_or(NONE);
        let source = escape(&one.source);
        page.words("", &format!("{source}: {failed} of {looks} looks failed ({})", escape(reason)));
    }
}

/// The models of the GPUs, each once.
fn models(gpus: &GpusReport) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in gpus.devices.iter().filter_map(|one| one.name.as_deref()).map(escape) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// How their energy is known.
fn by(gpus: &GpusReport) -> Option<&'static str> {
    let is = |by| gpus.devices.iter().any(|one| one.energy_by == Some(by));
    match (is(EnergyBy::Counter), is(EnergyBy::Power)) {
        (true, false) => Some("by their own counters"),
        (false, true) => Some("summed from their power"),
        (true, true) => Some("by counters and from power"),
        (false, false) => None,
    }
}

/// Says where figures stand still between looks.
fn refreshing(page: &mut Page, gpus: &GpusReport) {
    let slowest = gpus.devices.iter().filter_map(|one| one.refreshed_every_ns).max();
    let is_dcgm = gpus.sources.iter().any(|one| one.source.starts_with("DCGM"));
    let advice = if is_dcgm { " (dcgm-exporter --collect-interval sets it, in ms)" } else { "" };
    if let Some(every) =
        slowest.filter(|every| *every > gpus.interval_ns.unwrap_or(LOOK_NS).saturating_mul(STALE))
    {
        page.words(
            "",
            &format!(
                "figures change every {} alone: nothing shorter is seen{advice}",
                duration(Some(every))
            ),
        );
    } else if gpus.devices.iter().any(|one| one.refreshed_every_ns.is_none() && one.samples > 2) {
        page.words(
            "",
            &format!("figures changed less than twice: they are older than the run{advice}"),
        );
    }
}

fn row(device: &GpuReport) -> Vec<String> {
    let figures = &device.figures;
    let mean = |spread: Option<Spread>| spread.map(|spread| spread.mean);
    let with = |spread: Option<Spread>, unit: &str| match mean(spread) {
        Some(value) => format!("{} {unit}", number(Some(value))),
        None => NONE.to_owned(),
    };
    let memory = match (figures.memory_used_bytes, figures.memory_total_bytes) {
        (Some(used), Some(total)) => {
            format!("{} of {} GiB", number(Some(used.max / GIB)), number(Some(total / GIB)))
        }
        (Some(used), None) => format!("{} GiB", number(Some(used.max / GIB))),
        _ => NONE.to_owned(),
    };
    vec![
        label(device),
        percent(mean(figures.utilisation)),
        device.mean_power_w.map_or(NONE.into(), |watts| format!("{} W", number(Some(watts)))),
        memory,
        with(figures.sm_clock_mhz, "MHz"),
        with(figures.temperature_c, "°C"),
        percent(mean(figures.tensor_active)),
        percent(mean(figures.dram_active)),
        percent(device.throttled_share),
    ]
}

/// Which GPU it is: its number, and its host where that is another.
pub(super) fn label(device: &GpuReport) -> String {
    let mut label = device.index.map_or_else(|| "?".to_owned(), |index| index.to_string());
    if let Some(instance) = &device.instance {
        label.push_str(&format!("/{}", escape(instance)));
    }
    if let Some(host) = &device.host {
        label.push_str(&format!(" {}", escape(host)));
    }
    label
}

/// What held a GPU down, and what its driver complained of.
fn remarks(page: &mut Page, device: &GpuReport) {
    if device.throttled_share.is_some_and(|share| share > 0.0) {
        let harmless = ["gpu_idle", "applications_clocks_setting", "display_clock_setting"];
        let reasons = device.throttle_reasons.iter();
        let reasons = reasons.filter(|(name, _)| !harmless.contains(&name.as_str()));
        let said: Vec<String> =
            reasons.map(|(name, share)| format!("{name} {}", percent(Some(*share)))).collect();
        page.words("", &format!("GPU {} was slowed: {}", label(device), said.join(", ")));
    }
    if !device.xid_errors.is_empty() {
        let numbers: Vec<String> = device.xid_errors.iter().map(u64::to_string).collect();
        page.words("", &format!("GPU {}: XID error {}", label(device), numbers.join(", ")));
    }
}
