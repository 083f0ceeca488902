//! How long request *i* is, drawn from (seed, *i*) alone.

use rand::Rng;

use crate::workload::law::{LENGTH_MAX, Law, LengthLaw, Weights};

use super::random::{Purpose, Streams};
use super::{INPUT_TOKENS_MAX, Lengths};

const _: () = assert!(LENGTH_MAX == INPUT_TOKENS_MAX, "every length drawn can be a prompt");

/// The lengths of all requests of a load.
#[derive(Debug, Clone)]
pub struct LengthSampler {
    law: LengthLaw,
    streams: Streams,
    /// Of the parts of a joint law; none if there are none to choose from.
    weights: Option<Weights>,
    /// The lengths of all requests, where they are the same: nothing is drawn then.
    fixed: Option<Lengths>,
}

impl LengthSampler {
    /// The lengths that `seed` gives.
    #[must_use]
    pub fn new(law: &LengthLaw, seed: u64) -> Self {
        let (weights, fixed) = match law {
            LengthLaw::Joint(parts) => {
                (Weights::new(parts.iter().map(|(weight, ..)| *weight)), None)
            }
            LengthLaw::Apart { input, output } if input.is_constant() && output.is_constant() => {
                (None, Some(Lengths { input: whole(input.mean()), output: whole(output.mean()) }))
            }
            _ => (None, None),
        };
        Self { law: law.clone(), streams: Streams::new(seed, Purpose::Lengths), weights, fixed }
    }

    /// How long request `index` is. One stream gives all of it: which part of a joint law, then
    /// the input, then the output.
    ///
    /// A joint law without a part of any weight gives 1 and 1; none that was read is one.
    #[must_use]
    pub fn at(&self, index: u64) -> Lengths {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let mut stream = self.streams.at(index);
        match (&self.law, &self.weights) {
            (LengthLaw::Apart { input, output }, _) => drawn(input, output, &mut stream),
            (LengthLaw::Joint(parts), Some(weights)) => {
                let (_, input, output) = &parts[weights.pick(&mut stream)];
                drawn(input, output, &mut stream)
            }
            (LengthLaw::Joint(_), None) => Lengths { input: 1, output: 1 },
            (LengthLaw::Pairs(pairs), _) => {
                let (input, output) = pairs.rows()[pairs.weights.pick(&mut stream)];
                Lengths { input, output }
            }
        }
    }
}

fn drawn<R: Rng>(input: &Law, output: &Law, stream: &mut R) -> Lengths {
    let input = whole(input.sample(stream));
    Lengths { input, output: whole(output.sample(stream)) }
}

/// A draw is whole already; the cast saturates.
fn whole(tokens: f64) -> u32 {
    tokens as u32
}

#[cfg(test)]
mod tests;
