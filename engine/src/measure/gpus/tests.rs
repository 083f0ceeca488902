//! Figures of GPUs from looks at times that are known.

use super::*;
use crate::telemetry::gpu::{Gauge, Reading, Throttle};

const S: u64 = 1_000_000_000;
const INTERVAL: u64 = S / 5;

fn gpu(index: u32) -> Device {
    Device {
        index: Some(index),
        uuid: Some(format!("GPU-{index}")),
        name: Some("H100".to_owned()),
        ..Device::default()
    }
}

fn line(at: u64, device: &Device, reading: Reading) -> Logged {
    Logged { at, source: "NVML".to_owned(), device: device.clone(), reading }
}

fn rate() -> Rate {
    Rate { output_tps: Some(1000.0), input_tps: Some(500.0), ..Rate::default() }
}

/// The report of these lines over a window from 2 s to 6 s.
fn report(lines: &[Logged]) -> Option<GpusReport> {
    let mut sums = GpuSums::new(Window { start: 2 * S, end: 6 * S }, Some(INTERVAL));
    lines.iter().for_each(|line| sums.add(line));
    sums.finish(&rate(), &[])
}

/// Looks at one GPU every 200 ms from 0 to 8 s.
fn looks(reading: impl Fn(f64) -> Reading) -> Vec<Logged> {
    let at = |tick: u64| tick * INTERVAL;
    (0..=40).map(|tick| line(at(tick), &gpu(0), reading(at(tick) as f64 / S as f64))).collect()
}

fn near(got: Option<f64>, expected: f64) {
    let got = got.unwrap();
    assert!((got - expected).abs() <= expected.abs() * 1e-9, "{got} is not {expected}");
}

#[test]
fn the_counter_is_read_over_the_window_alone() {
    // 400 W inside the window, 100 W outside of it; what power says is another figure.
    let counter = |s: f64| {
        5e6 + 100.0 * s.min(2.0) + 400.0 * (s.clamp(2.0, 6.0) - 2.0) + 100.0 * (s - 6.0).max(0.0)
    };
    let lines =
        looks(|s| Reading::default().with(Gauge::Energy, counter(s)).with(Gauge::Power, 390.0));
    let got = report(&lines).unwrap();
    let one = &got.devices[0];
    assert_eq!(one.energy_by, Some(EnergyBy::Counter));
    near(one.energy_j, 1600.0);
    assert_eq!(one.energy_ns, Some([2 * S, 6 * S]));
    assert_eq!((one.samples, one.sampled_every_ns), (21, Some(INTERVAL)));
    assert_eq!(one.refreshed_every_ns, Some(INTERVAL));
    near(got.mean_power_w, 400.0);
    near(got.energy_j, 1600.0);
    near(got.output_tokens_per_joule, 2.5);
    near(got.joules_per_output_token, 0.4);
    near(got.input_tokens_per_joule, 1.25);
    near(got.output_tps_per_gpu, 1000.0);
    near(got.energy_covers, 1.0);
    assert_eq!((got.count, got.window_ns), (1, [2 * S, 6 * S]));
}

#[test]
fn without_a_counter_power_is_summed_over_time_and_cut_at_the_window() {
    // 100 W at 0 s and 100 W more each second; looks do not fall on the window's ends.
    let at = |tick: u64| tick * 700_000_000;
    let power = |at: u64| 100.0 + 100.0 * at as f64 / S as f64;
    let lines: Vec<Logged> = (0..12)
        .map(|tick| line(at(tick), &gpu(0), Reading::default().with(Gauge::Power, power(at(tick)))))
        .collect();
    let got = report(&lines).unwrap();
    assert_eq!(got.devices[0].energy_by, Some(EnergyBy::Power));
    near(got.devices[0].energy_j, 4.0 * 500.0);
    assert_eq!(got.devices[0].energy_ns, Some([2 * S, 6 * S]));
}

#[test]
fn a_source_that_refreshes_seldom_is_found_out() {
    // Each value stands for 3 s: changes are seen at 3 s and 6 s, so the counter reaches over 3 of 4 s.
    let held = |s: f64| (s / 3.0).floor() * 3.0;
    let lines = looks(|s| {
        Reading::default()
            .with(Gauge::Energy, 1000.0 + 250.0 * held(s))
            .with(Gauge::Power, 240.0 + held(s))
    });
    let one = &report(&lines).unwrap().devices[0];
    assert_eq!(one.refreshed_every_ns, Some(3 * S));
    assert_eq!(one.energy_by, Some(EnergyBy::Power), "power reaches over the whole window");
    let counter_alone = looks(|s| Reading::default().with(Gauge::Energy, 1000.0 + 250.0 * held(s)));
    let got = report(&counter_alone).unwrap();
    assert_eq!(got.devices[0].energy_ns, Some([3 * S, 6 * S]));
    near(got.devices[0].energy_j, 750.0);
    near(got.energy_covers, 0.75);
    near(got.energy_j, 1000.0);
    let still = report(&looks(|_| Reading::default().with(Gauge::Energy, 7.0))).unwrap();
    assert_eq!(still.devices[0].refreshed_every_ns, None);
    assert_eq!((still.energy_j, still.joules_per_output_token), (None, None));
}

#[test]
fn a_counter_that_begins_anew_adds_nothing_negative() {
    let lines = looks(|s| {
        let joules = if s < 4.0 { 1000.0 + 100.0 * s } else { 100.0 * (s - 4.0) };
        Reading::default().with(Gauge::Energy, joules)
    });
    let one = &report(&lines).unwrap().devices[0];
    // The 200 ms around the reset are not covered.
    near(one.energy_j, 380.0);
    near(one.mean_power_w, 100.0);
}

#[test]
fn a_device_that_vanishes_is_known_as_long_as_it_was_there() {
    let power = || Reading::default().with(Gauge::Power, 300.0).with(Gauge::Utilisation, 0.5);
    let mut lines = looks(|_| power());
    lines.extend((0..=20).map(|tick| line(tick * INTERVAL, &gpu(1), power())));
    let got = report(&lines).unwrap();
    let gone = &got.devices[1];
    assert_eq!(gone.energy_ns, Some([2 * S, 4 * S]));
    assert_eq!((gone.samples, gone.figures.utilisation.unwrap().mean), (11, 0.5));
    near(got.mean_power_w, 600.0);
    near(got.energy_covers, 0.5);
    near(got.energy_j, 2400.0);
    near(got.output_tps_per_gpu, 500.0);
    // Away for 3 s: what it took meanwhile is not known.
    let lines: Vec<Logged> =
        looks(|_| power()).into_iter().filter(|one| !(3 * S..6 * S).contains(&one.at)).collect();
    near(report(&lines).unwrap().devices[0].energy_j, 300.0 * 0.8);
}

#[test]
fn shares_and_spreads_are_over_the_looks_in_the_window() {
    let lines = looks(|s| {
        let throttle = match s {
            s if s < 2.0 => 0x8,
            s if s < 3.0 => 0x4 | 0x20,
            s if s < 4.0 => 0x1,
            _ => 0,
        };
        let reading = Reading::throttled(Some(Throttle(throttle)));
        reading
            .with(Gauge::Utilisation, s / 10.0)
            .with(Gauge::Xid, if s > 5.0 { 79.0 } else { 0.0 })
    });
    let one = &report(&lines).unwrap().devices[0];
    near(one.throttled_share, 5.0 / 21.0);
    let names: Vec<&str> = one.throttle_reasons.keys().map(String::as_str).collect();
    assert_eq!(names, ["gpu_idle", "sw_power_cap", "sw_thermal_slowdown"]);
    let busy = one.figures.utilisation.unwrap();
    assert_eq!((busy.min, busy.max), (0.2, 0.6));
    assert!((busy.mean - 0.4).abs() < 1e-9);
    assert_eq!(one.xid_errors, [79]);
    let old = report(&looks(|_| Reading::default().with(Gauge::Xid, 31.0))).unwrap();
    assert!(old.devices[0].xid_errors.is_empty(), "it may be of last week");
    assert_eq!((one.figures.tensor_active, one.energy_j), (None, None));
}

#[test]
fn a_gpu_that_is_told_of_twice_counts_once() {
    let power = |watts| Reading::default().with(Gauge::Power, watts);
    let mut lines = looks(|_| power(200.0));
    let instance = Device { instance: Some("3".to_owned()), ..gpu(0) };
    lines.extend((0..=40).map(|tick| line(tick * INTERVAL, &instance, power(200.0))));
    let elsewhere = |tick| Logged {
        source: "DCGM at http://a:9400".to_owned(),
        ..line(tick * INTERVAL, &Device { host: Some("a".to_owned()), ..gpu(0) }, power(210.0))
    };
    lines.extend((0..=40).map(elsewhere));
    let got = report(&lines).unwrap();
    assert_eq!((got.devices.len(), got.count), (3, 1));
    near(got.mean_power_w, 200.0);
    let names: Vec<&str> = got.sources.iter().map(|one| one.source.as_str()).collect();
    assert_eq!(names, ["NVML", "DCGM at http://a:9400"]);
}

#[test]
fn nothing_is_nothing_and_no_number_is_odd() {
    assert_eq!(report(&[]), None);
    // Not one look in the window, and a window without length.
    let lines = [line(0, &gpu(0), Reading::default().with(Gauge::Power, 1.0))];
    let mut sums = GpuSums::new(Window { start: 5 * S, end: 5 * S }, Some(INTERVAL));
    lines.iter().for_each(|line| sums.add(line));
    let got = sums.finish(&Rate::default(), &[]).unwrap();
    assert_eq!((got.devices[0].samples, got.devices[0].sampled_every_ns), (0, None));
    let text = serde_json::to_string(&got).unwrap();
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    assert_eq!(serde_json::from_str::<GpusReport>(&text).unwrap(), got);
}
