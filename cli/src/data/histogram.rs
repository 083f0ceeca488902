//! Histograms for a terminal: a bin a line, a bar of blocks, and how many.

use serde::Serialize;

use crate::report::text::count;

/// Bins at most.
const BINS: u64 = 12;
/// From this ratio of the largest value to the smallest on bins are even in the logarithm.
const WIDE: u64 = 20;
/// Columns of a line.
const WIDTH: usize = 80;
/// Eighths of a block.
const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Values from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Bin {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) count: u64,
}

/// The bins of `sorted` values; none if there are none.
pub(super) fn bins(sorted: &[u64]) -> Vec<Bin> {
    let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let mut starts = if max / min.max(1) > WIDE { by_ratio(min, max) } else { even(min, max) };
    starts.dedup();
    let ends = starts.iter().skip(1).map(|start| start - 1).chain([max]);
    let mut from_rank = 0;
    let bins = starts.iter().zip(ends).map(|(&from, to)| {
        let to_rank = sorted.partition_point(|value| *value <= to);
        let count = (to_rank - from_rank) as u64;
        from_rank = to_rank;
        Bin { from, to, count }
    });
    bins.collect()
}

fn even(min: u64, max: u64) -> Vec<u64> {
    let span = u128::from(max - min) + 1;
    let bins = span.min(BINS.into());
    // Below `max`, which fits.
    (0..bins).map(|bin| min + (span * bin / bins) as u64).collect()
}

fn by_ratio(min: u64, max: u64) -> Vec<u64> {
    let (low, high) = (min.max(1) as f64, max as f64);
    let ratio = (high / low).powf(1.0 / BINS as f64);
    let mut starts = vec![min];
    for bin in 1..BINS {
        let start = (low * ratio.powf(bin as f64)).round() as u64;
        starts.push(start.clamp(min, max));
    }
    starts
}

/// A line for each bin.
pub(super) fn lines(bins: &[Bin]) -> Vec<String> {
    let labels: Vec<String> = bins.iter().map(label).collect();
    let label_width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    let counts: Vec<String> = bins.iter().map(|bin| tail(bin.count, all)).collect();
    let count_width = counts.iter().map(|count| count.chars().count()).max().unwrap_or(0);
    let room = WIDTH.saturating_sub(label_width + count_width + 4).max(8);
    let rows = bins.iter().zip(labels.iter().zip(&counts));
    let line = |(bin, (label, count)): (&Bin, (&String, &String))| {
        let bar = bar(bin.count, most, room);
        format!("  {label:>label_width$} {bar} {count:>count_width$}")
    };
    rows.map(line).collect()
}

fn label(bin: &Bin) -> String {
    if bin.from == bin.to {
        return count(bin.from);
    }
    format!("{}–{}", count(bin.from), count(bin.to))
}

fn tail(number: u64, all: u64) -> String {
    format!("{} {:5.1} %", count(number), number as f64 / all.max(1) as f64 * 100.0)
}

/// A bar of `room` columns, full where `number` is `most`; a count that is not 0 is seen.
fn bar(number: u64, most: u64, room: usize) -> String {
    let eighths = u128::from(number) * room as u128 * 8 / u128::from(most);
    // At most eight times the room.
    let eighths = (eighths as usize).max(usize::from(number > 0));
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(PARTS[eighths % 8]);
    }
    let used = eighths.div_ceil(8);
    bar.extend(std::iter::repeat_n(' ', room.saturating_sub(used)));
    bar
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn narrow_values_have_even_bins_and_wide_ones_bins_by_ratio() {
        let narrow: Vec<u64> = (100..=219).collect();
        let found = bins(&narrow);
        let first = found[0];
        assert_eq!((found.len(), first.from, first.to, first.count), (12, 100, 109, 10));
        let wide: Vec<u64> = (0..=12).map(|power| 1 << power).collect();
        let found = bins(&wide);
        assert_eq!((found.len(), found[11].from, found[11].to), (12, 2048, 4096));
        assert_eq!(bins(&[7, 7]), [Bin { from: 7, to: 7, count: 2 }]);
        assert_eq!(bins(&[]), []);
    }

    #[test]
    fn lines_are_80_columns_and_the_fullest_bin_has_the_longest_bar() {
        let lines = lines(&bins(&[1, 1, 1, 5, 900]));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        let blocks = |line: &String| line.matches('█').count();
        assert!(lines.iter().all(|line| blocks(line) <= blocks(&lines[0])));
        assert!(lines[0].ends_with("3  60.0 %"), "{lines:#?}");
    }

    proptest! {
        #[test]
        fn every_value_is_in_one_bin(mut values in prop::collection::vec(any::<u64>(), 1..50)) {
            values.sort_unstable();
            let bins = bins(&values);
            let counted: u64 = bins.iter().map(|bin| bin.count).sum();
            prop_assert_eq!(counted, values.len() as u64);
            prop_assert!(bins.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
            prop_assert!(bins.iter().all(|bin| bin.from <= bin.to));
        }
    }
}
