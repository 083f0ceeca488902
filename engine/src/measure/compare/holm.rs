//! One verdict on many figures: Holm's correction, and what all of them come to.

use serde::Serialize;

use super::Verdict;
use super::difference::Difference;

/// What all figures together say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overall {
    /// The other side is better in something and worse in nothing.
    Better,
    /// It is worse in something and better in nothing.
    Worse,
    /// Both.
    Mixed,
    /// Nothing differs beyond chance.
    NoDifference,
    /// No figure has an interval.
    Unknown,
}

/// Decides on every figure of a family: by its probability times the number of figures that are left
/// when the surer ones are taken away, and never by less than a surer one has (Holm 1979). So the
/// chance that anything at all is taken for a difference, where there is none, is at most `1 − level`.
pub fn settle<'a>(family: impl IntoIterator<Item = &'a mut Difference>, level: f64) {
    let mut family: Vec<&mut Difference> = family.into_iter().collect();
    family.sort_by(|a, b| a.p.unwrap_or(2.0).total_cmp(&b.p.unwrap_or(2.0)));
    let count = family.iter().filter(|one| one.p.is_some()).count();
    let mut least = 0.0_f64;
    for (place, one) in family.into_iter().enumerate() {
        let p_holm = one.p.map(|p| {
            least = least.max(p * (count - place) as f64).min(1.0);
            least
        });
        one.decide(p_holm, level);
    }
}

/// What `figures` say together.
#[must_use]
pub fn overall<'a>(figures: impl IntoIterator<Item = &'a Difference>) -> Overall {
    let (mut better, mut worse, mut known) = (false, false, false);
    for one in figures {
        better |= one.verdict == Verdict::Better;
        worse |= one.verdict == Verdict::Worse;
        known |= one.verdict != Verdict::NoInterval;
    }
    match (better, worse) {
        (true, true) => Overall::Mixed,
        (true, false) => Overall::Better,
        (false, true) => Overall::Worse,
        (false, false) if known => Overall::NoDifference,
        (false, false) => Overall::Unknown,
    }
}
