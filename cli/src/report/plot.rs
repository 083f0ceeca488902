//! Small plots in plain characters.
//!
//! Of the crates for terminal plots, textplots has no log axes, no marks and few labels, and
//! ratatui's charts no log axes and a screen library behind them; this is less than either.

use super::text::{Page, columns, wrap};

/// Columns of a plot, at most.
const WIDTH_MAX: usize = 80;
/// Lines of its area.
const HEIGHT: usize = 10;
/// A range of more than so many times needs a log scale.
const LOG_FROM: f64 = 20.0;
/// What is not below it is no figure of a server.
const LARGEST: f64 = 1e30;

/// An axis: a range, and whether it is logarithmic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    pub(super) is_log: bool,
}

impl Scale {
    /// One that has room for all `values`: from 0, or logarithmic where those above 0 lie more than 20
    /// times apart. `None` without a value above 0.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let known = values.filter(|value| *value > 0.0 && *value < LARGEST);
        let (low, high) = (known.clone().reduce(f64::min)?, known.reduce(f64::max)?);
        Some(if high / low > LOG_FROM {
            Self { low, high, is_log: true }
        } else {
            Self { low: 0.0, high, is_log: false }
        })
    }

    /// The same from 0, and so never logarithmic.
    pub(super) fn linear(self) -> Self {
        Self { low: 0.0, is_log: false, ..self }
    }

    /// The same with ends that read well.
    pub(super) fn rounded(self) -> Self {
        let low = if self.is_log { round(self.low, false) } else { 0.0 };
        Self { low, high: round(self.high, true), ..self }
    }

    /// The words for it.
    pub(super) fn said(self) -> &'static str {
        if self.is_log { " (log scale)" } else { "" }
    }

    /// Values worth a label: the ends, and the middle or the powers of ten between them.
    pub(super) fn ticks(self) -> Vec<f64> {
        if !self.is_log {
            return vec![self.low, self.high / 2.0, self.high];
        }
        let powers = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
        let inside = powers.map(|power| 10_f64.powi(power));
        let inside = inside.filter(|value| *value > self.low && *value < self.high);
        [self.low, self.high].into_iter().chain(inside).collect()
    }

    /// The cell of `value` among `cells`; what lies outside is at the nearer end.
    fn cell(self, value: f64, cells: usize) -> usize {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // A NaN becomes 0.
        (share.clamp(0.0, 1.0) * cells.saturating_sub(1) as f64).round() as usize
    }
}

/// The next number above or below that reads well.
fn round(value: f64, up: bool) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|step| step * power);
    // A hair of slack: what is such a number stays.
    let found = if up {
        steps.into_iter().find(|step| *step >= value * (1.0 - 1e-9))
    } else {
        steps.into_iter().rev().find(|step| *step <= value * (1.0 + 1e-9))
    };
    found.unwrap_or(value)
}

/// How a value on an axis is written.
pub(super) type Label = fn(f64) -> String;

/// What is drawn.
pub(super) struct Plot {
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) labels: [Label; 2],
    /// Values of x that get labels, as far as there is room, the most wanted first.
    pub(super) x_ticks: Vec<f64>,
    /// Points with their marks; a later one covers an earlier one. One without y is beyond all others.
    pub(super) marks: Vec<(f64, Option<f64>, char)>,
    /// Points that are joined by dots.
    pub(super) joined: Vec<[f64; 2]>,
    /// Values of x with an upright line.
    pub(super) uprights: Vec<f64>,
}

/// Lines and columns of characters, the first line on top.
type Area = Vec<Vec<char>>;

impl Plot {
    /// Writes it with a title and with what its marks mean.
    pub(super) fn write(&self, page: &mut Page, title: &str, legend: &str) {
        page.blank();
        for line in wrap(title, page.width) {
            page.line(&line);
        }
        for line in self.draw(page.width) {
            page.line(&line);
        }
        page.words("", legend);
    }

    /// Its lines, of at most `width` columns and at most 80.
    fn draw(&self, width: usize) -> Vec<String> {
        let mut ticks: Vec<(usize, String)> = Vec::new();
        for tick in self.y.ticks() {
            let line = HEIGHT - 1 - self.y.cell(tick, HEIGHT);
            if ticks.iter().all(|(taken, _)| *taken != line) {
                ticks.push((line, self.labels[1](tick)));
            }
        }
        let left = ticks.iter().map(|(_, label)| columns(label)).max().unwrap_or(0);
        let across = width.min(WIDTH_MAX).saturating_sub(left + 2).max(1);
        let mut lines: Vec<String> = Vec::new();
        if let Some(beyond) = self.beyond(across) {
            lines.push(format!("{:left$} |{beyond}", ""));
        }
        for (line, cells) in self.area(across).into_iter().enumerate() {
            let label = ticks.iter().find(|(at, _)| *at == line);
            let label = label.map_or("", |(_, label)| label.as_str());
            let edge = if label.is_empty() { '|' } else { '+' };
            lines.push(format!("{label:>left$} {edge}{}", String::from_iter(cells)));
        }
        lines.push(format!("{:left$} +{}", "", "-".repeat(across)));
        lines.push(format!("{:left$}  {}", "", self.below(across)));
        lines
    }

    fn area(&self, across: usize) -> Area {
        let mut area = vec![vec![' '; across]; HEIGHT];
        for x in &self.uprights {
            let column = self.x.cell(*x, across);
            area.iter_mut().for_each(|line| line[column] = ':');
        }
        let place = |[x, y]: [f64; 2]| (self.x.cell(x, across), self.y.cell(y, HEIGHT));
        for pair in self.joined.windows(2) {
            join(&mut area, place(pair[0]), place(pair[1]));
        }
        for (x, y, mark) in &self.marks {
            if let Some(y) = y {
                area[HEIGHT - 1 - self.y.cell(*y, HEIGHT)][self.x.cell(*x, across)] = *mark;
            }
        }
        area
    }

    /// A line above the area for the points without y, if there are any.
    fn beyond(&self, across: usize) -> Option<String> {
        let mut line = vec![' '; across];
        for (x, _, mark) in self.marks.iter().filter(|(_, y, _)| y.is_none()) {
            line[self.x.cell(*x, across)] = *mark;
        }
        line.iter().any(|cell| *cell != ' ').then(|| String::from_iter(line))
    }

    /// The labels of x. Each has a space on both sides.
    fn below(&self, across: usize) -> String {
        let mut line = vec![' '; across];
        for tick in &self.x_ticks {
            let label: Vec<char> = self.labels[0](*tick).chars().collect();
            let middle = self.x.cell(*tick, across);
            let Some(last) = across.checked_sub(label.len()) else { continue };
            let start = middle.saturating_sub(label.len() / 2).min(last);
            let end = start + label.len();
            let around = start.saturating_sub(1)..(end + 1).min(across);
            if line[around].iter().all(|taken| *taken == ' ') {
                line[start..end].copy_from_slice(&label);
            }
        }
        String::from_iter(line)
    }
}

/// Dots from one cell to another, counted from the left and from below, where nothing is yet.
fn join(area: &mut Area, from: (usize, usize), to: (usize, usize)) {
    let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
    for step in 1..steps {
        let between = |a: usize, b: usize| {
            let share = step as f64 / steps as f64;
            (a as f64 + (b as f64 - a as f64) * share).round() as usize
        };
        let cell = &mut area[HEIGHT - 1 - between(from.1, to.1)][between(from.0, to.0)];
        if *cell == ' ' {
            *cell = '.';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(values: &[f64]) -> Option<Scale> {
        Scale::of(values.iter().copied())
    }

    fn plain(x: Scale, y: Scale, points: &[[f64; 2]]) -> Plot {
        Plot {
            x,
            y,
            labels: [|value| format!("{value}"), |value| format!("{value}")],
            x_ticks: points.iter().map(|point| point[0]).collect(),
            marks: points.iter().map(|[x, y]| (*x, Some(*y), '*')).collect(),
            joined: points.to_vec(),
            uprights: Vec::new(),
        }
    }

    #[test]
    fn a_wide_range_is_logarithmic_and_a_narrow_one_starts_at_0() {
        assert_eq!(scale(&[1.0, 20.0]), Some(Scale { low: 0.0, high: 20.0, is_log: false }));
        assert_eq!(scale(&[1.0, 21.0]), Some(Scale { low: 1.0, high: 21.0, is_log: true }));
        assert_eq!(scale(&[0.0, f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn ends_are_rounded_outwards() {
        let ends = |values: &[f64]| scale(values).map(|s| (s.rounded().low, s.rounded().high));
        assert_eq!(ends(&[300.0, 430.0]), Some((0.0, 500.0)));
        assert_eq!(ends(&[0.028, 2100.0]), Some((0.025, 2500.0)));
        assert_eq!(ends(&[3.0, 5284.0]), Some((3.0, 6000.0)));
        assert_eq!(ends(&[1.0, 1000.0]), Some((1.0, 1000.0)), "round already");
    }

    #[test]
    fn points_lie_where_their_figures_say() {
        let linear = Scale { low: 0.0, high: 10.0, is_log: false };
        let lines = plain(linear, linear, &[[0.0, 0.0], [10.0, 10.0]]).draw(25);
        assert_eq!(lines.len(), HEIGHT + 2);
        assert!(lines[0].starts_with("10 +") && lines[0].ends_with('*'), "{lines:?}");
        assert_eq!(lines[HEIGHT - 1], format!(" 0 +*.{:19}", ""));
        assert!(lines[HEIGHT + 1].ends_with("10"), "{lines:?}");
        let log = Scale { low: 1.0, high: 100.0, is_log: true };
        assert_eq!((log.cell(10.0, 11), log.cell(0.0, 11), log.cell(1e9, 11)), (5, 0, 10));
        assert_eq!(log.ticks(), [1.0, 100.0, 10.0]);
    }

    #[test]
    fn a_point_without_a_figure_is_above_all_and_an_upright_is_under_the_marks() {
        let linear = Scale { low: 0.0, high: 10.0, is_log: false };
        let mut plot = plain(linear, linear, &[[5.0, 5.0]]);
        plot.marks.push((10.0, None, '^'));
        plot.uprights.push(5.0);
        let lines = plot.draw(25);
        assert!(lines[0].ends_with('^') && lines[1].starts_with("10 +"), "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.contains(':')).count(), HEIGHT - 1);
        assert_eq!(lines.iter().filter(|line| line.contains('*')).count(), 1);
    }

    #[test]
    fn no_line_is_too_long_and_labels_do_not_touch() {
        let x = Scale { low: 0.0, high: 1000.0, is_log: false };
        let points: Vec<[f64; 2]> = (1..200).map(|i| [f64::from(i * 5), f64::from(i)]).collect();
        for width in [0, 1, 5, 40, 80, 200] {
            let plot = plain(x, Scale { low: 0.0, high: 200.0, is_log: false }, &points);
            let lines = plot.draw(width);
            assert!(lines.iter().all(|line| columns(line) <= width.clamp(6, WIDTH_MAX)));
        }
        let plot = plain(x, x, &points);
        let labels = plot.draw(80).pop().unwrap();
        let values: Vec<u32> =
            labels.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!(values.len() > 5 && values.is_sorted() && values.iter().all(|v| v % 5 == 0));
    }
}
