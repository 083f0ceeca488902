//! How often faults happen, and to which requests: no clock, no socket.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, FaultError};
use crate::model::generator;

/// Rates that add up to one in decimal may miss it in binary by less than this.
const ROUNDING: f64 = 1e-9;

/// A fault and how often it happens, written `stall=5%`, `stall:3=5%` or `stall=0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// What happens.
    pub fault: Fault,
    /// To which share of the requests (of the connections: [`Fault::Refuse`]), 0 to 1.
    pub share: f64,
}

/// The faults of a server and their rates; by default none. Each request has one fault at most.
///
/// As text, rates with blanks between them: `reset=5% status:429,2s=1%`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Faults {
    rates: Vec<Rate>,
}

impl Faults {
    /// Faults at these rates.
    ///
    /// # Errors
    /// A share that is not between 0 and 1, a fault that is named twice, or requests with more
    /// than one fault: the shares without that of [`Fault::Refuse`] are at most 1 together.
    pub fn new(rates: Vec<Rate>) -> Result<Self, FaultError> {
        for (at, Rate { fault, share }) in rates.iter().enumerate() {
            if !(0.0..=1.0).contains(share) {
                return Err(FaultError(format!("fault {fault}: {WRONG_SHARE}")));
            }
            if rates[..at].iter().any(|before| before.fault == *fault) {
                return Err(FaultError(format!("fault {fault} is named twice; give it one rate")));
            }
        }
        let faults = Self { rates };
        let sum: f64 = faults.of_requests().map(|rate| rate.share).sum();
        if sum > 1.0 + ROUNDING {
            let percent = (sum * 1e6).round() / 1e4;
            return Err(FaultError(format!(
                "the rates of the faults add up to {percent}%, but a request has one fault at \
                 most; lower them to 100% or less"
            )));
        }
        Ok(faults)
    }

    /// The rates.
    #[must_use]
    pub fn rates(&self) -> &[Rate] {
        &self.rates
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The fault that request `number` draws; it depends on the number and the seed alone. Where
    /// it means nothing for what is asked (see [`Fault`]), the request is answered without.
    #[must_use]
    pub fn of_request(&self, seed: u64, number: u64) -> Option<Fault> {
        if self.rates.is_empty() {
            return None;
        }
        let mut left: f64 = generator(seed ^ OF_REQUESTS, number).random();
        for rate in self.of_requests() {
            left -= rate.share;
            if left < 0.0 {
                return Some(rate.fault);
            }
        }
        None
    }

    /// Whether connection `number`, counted from 0 as they are accepted, is refused.
    #[must_use]
    pub fn refuses(&self, seed: u64, number: u64) -> bool {
        let rate = self.rates.iter().find(|rate| rate.fault.is_of_connections());
        rate.is_some_and(|rate| {
            generator(seed ^ OF_CONNECTIONS, number).random::<f64>() < rate.share
        })
    }

    fn of_requests(&self) -> impl Iterator<Item = &Rate> {
        self.rates.iter().filter(|rate| !rate.fault.is_of_connections())
    }
}

/// They keep these draws apart from those of delays, so that faults move no token of others.
const OF_REQUESTS: u64 = 0x6661_756c_7473_0001;
const OF_CONNECTIONS: u64 = 0x6661_756c_7473_0002;

const WRONG_SHARE: &str = "its rate is not from 0% to 100%; write 5% or 0.05";

impl FromStr for Rate {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let wrong = |said: &str| FaultError(format!("fault {text:?}: {said}"));
        let Some((fault, share)) = text.split_once('=') else {
            return Err(wrong("its rate is missing; write KIND=RATE such as stall=5%"));
        };
        let fault = fault.parse()?;
        let share = share.trim();
        let value = match share.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => share.parse(),
        };
        match value {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(Self { fault, share }),
            _ => Err(wrong(WRONG_SHARE)),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As a plain fraction: a percentage would not always read back as the same number.
        write!(f, "{}={}", self.fault, self.share)
    }
}

impl FromStr for Faults {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        Self::new(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, rate) in self.rates.iter().enumerate() {
            let blank = if position == 0 { "" } else { " " };
            write!(f, "{blank}{rate}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Faults {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, FaultError> {
        text.parse()
    }
}

impl From<Faults> for String {
    fn from(faults: Faults) -> Self {
        faults.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Faults {
        text.parse().unwrap()
    }

    /// How many of 10 000 requests draw each fault of `faults`, and how many none.
    fn counts(faults: &Faults, seed: u64) -> Vec<usize> {
        let drawn: Vec<_> = (0..10_000).map(|number| faults.of_request(seed, number)).collect();
        let count = |fault| drawn.iter().filter(|drawn| **drawn == fault).count();
        let mut counts: Vec<usize> =
            faults.rates().iter().map(|rate| count(Some(rate.fault))).collect();
        counts.push(count(None));
        counts
    }

    #[test]
    fn rates_survive_being_written_and_read_back() {
        let text = "stall:3=0.05 status:429,2s=0.1 refuse=1 pings=0";
        let faults = faults(text);
        assert_eq!(faults.to_string(), text);
        let json = serde_json::to_string(&faults).unwrap();
        assert_eq!(serde_json::from_str::<Faults>(&json).unwrap(), faults);
        assert_eq!("stall = 5 %".parse::<Rate>().unwrap().share, 0.05);
        assert!("".parse::<Faults>().unwrap().is_empty());
    }

    #[test]
    fn rates_that_make_no_sense_are_told_so() {
        for (text, wrong) in [
            ("stall", "rate is missing"),
            ("stall=", "not from 0%"),
            ("stall=5", "not from 0%"),
            ("stall=-1%", "not from 0%"),
            ("stall=NaN", "not from 0%"),
            ("stahl=5%", "no kind"),
            ("stall=5% stall=6%", "named twice"),
            ("stall=60% reset=50%", "add up to 110%"),
        ] {
            let said = text.parse::<Faults>().unwrap_err().to_string();
            assert!(said.contains(wrong), "{text}: {said}");
        }
        let wrong = Rate { fault: Fault::Empty, share: f64::NAN };
        assert!(Faults::new(vec![wrong]).is_err());
        // Refused connections have no request, so they count apart.
        let ten = "stall=10% stall:1=10% reset=10% cut=10% empty=10% no-done=10% pings=10% \
                   malformed=10% drip=10% truncate=10% refuse=50%";
        assert_eq!(counts(&faults(ten), 1).last(), Some(&0), "all of them have one");
    }

    #[test]
    fn rates_hold() {
        let faults = faults("stall=5% status:503=20% pings=0 refuse=30%");
        for seed in [1, 2, 99] {
            let counts = counts(&faults, seed);
            // Five standard deviations of 10 000 draws.
            for (count, (share, bound)) in
                counts.iter().zip([(500, 109), (2_000, 200), (0, 0), (0, 0), (7_500, 217)])
            {
                assert!(count.abs_diff(share) <= bound, "seed {seed}: {count} of {share}");
            }
            let refused = (0..10_000).filter(|number| faults.refuses(seed, *number)).count();
            assert!(refused.abs_diff(3_000) <= 229, "seed {seed}: {refused} of 3000");
        }
    }

    #[test]
    fn draws_depend_on_seed_and_number_alone() {
        let faults = faults("stall=30% reset=30%");
        let drawn = |seed| (0..100).map(|number| faults.of_request(seed, number)).collect();
        let (one, again, two): (Vec<_>, Vec<_>, Vec<_>) = (drawn(1), drawn(1), drawn(2));
        assert_eq!(one, again);
        assert_ne!(one, two);
        assert_eq!(Faults::default().of_request(1, 1), None);
        assert!(!Faults::default().refuses(1, 1));
    }
}
