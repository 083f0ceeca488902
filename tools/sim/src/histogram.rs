//! Histograms for `GET /metrics`: one thread fills each, any may read.

use std::fmt::Display;

use crate::document::put;
use crate::metrics::Count;

/// The bounds of a histogram's buckets, and how its values are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Upper bounds, in the unit of what is observed.
    bounds: &'static [u64],
    /// So many of that unit are one of the unit shown.
    unit: f64,
}

/// What was observed, by buckets.
#[derive(Debug)]
pub(crate) struct Histogram {
    scale: Scale,
    /// One more than there are bounds.
    counts: Box<[Count]>,
    sum: Count,
}

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Times to a first token, in s of ns: the bounds of vLLM.
pub(crate) const FIRST: Scale = Scale {
    bounds: &[
        MS,
        5 * MS,
        10 * MS,
        20 * MS,
        40 * MS,
        60 * MS,
        80 * MS,
        100 * MS,
        250 * MS,
        500 * MS,
        750 * MS,
        S,
        2_500 * MS,
        5 * S,
        7_500 * MS,
        10 * S,
        20 * S,
        40 * S,
        80 * S,
        160 * S,
        640 * S,
        2_560 * S,
    ],
    unit: S as f64,
};

/// Times between tokens, in s of ns: the bounds of vLLM.
pub(crate) const BETWEEN: Scale = Scale {
    bounds: &[
        10 * MS,
        25 * MS,
        50 * MS,
        75 * MS,
        100 * MS,
        150 * MS,
        200 * MS,
        300 * MS,
        400 * MS,
        500 * MS,
        750 * MS,
        S,
        2_500 * MS,
        5 * S,
        7_500 * MS,
        10 * S,
        20 * S,
        40 * S,
        80 * S,
    ],
    unit: S as f64,
};

/// Times of a request or a large part of it, in s of ns: the bounds of vLLM.
pub(crate) const LONG: Scale = Scale {
    bounds: &[
        300 * MS,
        500 * MS,
        800 * MS,
        S,
        1_500 * MS,
        2 * S,
        2_500 * MS,
        5 * S,
        10 * S,
        15 * S,
        20 * S,
        30 * S,
        40 * S,
        50 * S,
        60 * S,
        120 * S,
        240 * S,
        480 * S,
        960 * S,
        1_920 * S,
        7_680 * S,
    ],
    unit: S as f64,
};

/// Times of a hand-off, in s of ns: the bounds of vLLM.
pub(crate) const HANDOFF: Scale = Scale {
    bounds: &[
        5 * MS,
        10 * MS,
        25 * MS,
        50 * MS,
        75 * MS,
        100 * MS,
        200 * MS,
        300 * MS,
        500 * MS,
        750 * MS,
        S,
        5 * S,
    ],
    unit: S as f64,
};

/// Bytes of a hand-off: the bounds of vLLM, 2 KiB to 8 GiB.
pub(crate) const BYTES: Scale = Scale {
    bounds: &[
        1 << 11,
        1 << 13,
        1 << 15,
        1 << 17,
        1 << 19,
        1 << 21,
        1 << 23,
        1 << 25,
        1 << 27,
        1 << 29,
        1 << 31,
        1 << 33,
    ],
    unit: 1.0,
};

/// Times of a hand-off, in ms of ns: the bounds of SGLang.
pub(crate) const HANDOFF_MS: Scale = Scale {
    bounds: &[
        MS,
        2 * MS,
        5 * MS,
        10 * MS,
        25 * MS,
        50 * MS,
        100 * MS,
        250 * MS,
        500 * MS,
        S,
        2_500 * MS,
        5 * S,
    ],
    unit: MS as f64,
};

/// Bytes of a hand-off in MiB.
pub(crate) const MEBIBYTES: Scale = Scale {
    bounds: &[1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30, 1 << 32, 1 << 34],
    unit: (1u64 << 20) as f64,
};

impl Histogram {
    /// An empty one.
    pub(crate) fn new(scale: Scale) -> Self {
        let counts = (0..=scale.bounds.len()).map(|_| Count::default()).collect();
        Self { scale, counts, sum: Count::default() }
    }

    /// One more value.
    pub(crate) fn add(&self, value: u64) {
        let bucket = self.scale.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].add(1);
        self.sum.add(value);
    }
}

/// Writes the sum of `parts`, which have one scale, as the series `name` with these labels.
pub(crate) fn write(out: &mut Vec<u8>, name: &str, labels: &dyn Display, parts: &[&Histogram]) {
    let Some(scale) = parts.first().map(|part| part.scale) else { return };
    put(out, format_args!("# TYPE {name} histogram\n"));
    let mut below = 0;
    for bucket in 0..=scale.bounds.len() {
        below += parts.iter().map(|part| part.counts[bucket].get()).sum::<u64>();
        put(out, format_args!("{name}_bucket{{{labels},le=\""));
        match scale.bounds.get(bucket) {
            Some(&bound) => put(out, format_args!("{:?}", bound as f64 / scale.unit)),
            None => out.extend_from_slice(b"+Inf"),
        }
        put(out, format_args!("\"}} {below}\n"));
    }
    let sum: u64 = parts.iter().map(|part| part.sum.get()).sum();
    put(out, format_args!("{name}_sum{{{labels}}} {}\n", sum as f64 / scale.unit));
    put(out, format_args!("{name}_count{{{labels}}} {below}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_up_to_their_bound_and_all_threads_count() {
        let parts = [Histogram::new(HANDOFF), Histogram::new(HANDOFF)];
        parts[0].add(5 * MS);
        parts[0].add(6 * MS);
        parts[1].add(9 * S);
        let mut out = Vec::new();
        write(&mut out, "x", &r#"a="b""#, &[&parts[0], &parts[1]]);
        let text = String::from_utf8(out).unwrap();
        for line in [
            "# TYPE x histogram",
            r#"x_bucket{a="b",le="0.005"} 1"#,
            r#"x_bucket{a="b",le="0.01"} 2"#,
            r#"x_bucket{a="b",le="1.0"} 2"#,
            r#"x_bucket{a="b",le="+Inf"} 3"#,
            r#"x_sum{a="b"} 9.011"#,
            r#"x_count{a="b"} 3"#,
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn bounds_grow() {
        for scale in [FIRST, BETWEEN, LONG, HANDOFF, BYTES, HANDOFF_MS, MEBIBYTES] {
            assert!(scale.bounds.is_sorted());
        }
    }
}
