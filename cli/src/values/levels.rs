//! One load, or the loads that a sweep goes through.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A step of a range of levels, unless it says otherwise.
const STEP: f64 = 2.0;
/// The smallest step.
const STEP_MIN: f64 = 1.01;

/// One load, or the loads that a sweep goes through: `8`; `1,2,4,8`; `1..64`, each twice the one
/// before; `1..64*1.5`; `auto`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Levels {
    /// One.
    One(f64),
    /// These.
    List(Vec<f64>),
    /// From one to another in equal ratios.
    Range {
        /// The first.
        from: f64,
        /// The last.
        to: f64,
        /// Each so many times the one before.
        step: f64,
    },
    /// Those that the service asks for.
    Auto,
}

impl Levels {
    /// The only one.
    #[must_use]
    pub(crate) fn one(&self) -> Option<f64> {
        match self {
            Self::One(value) => Some(*value),
            _ => None,
        }
    }
}

impl From<f64> for Levels {
    fn from(value: f64) -> Self {
        Self::One(value)
    }
}

impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = |text: &str| {
            text.trim().parse::<f64>().map_err(|_| {
                format!(
                    "`{}` is no number; give one, or levels: 1,2,4 or 1..64 or auto",
                    text.trim()
                )
            })
        };
        if let Some((from, to)) = text.split_once("..") {
            let (to, step) = to.split_once('*').map_or((to, None), |(to, step)| (to, Some(step)));
            let (from, to) = (number(from)?, number(to)?);
            let step = step.map_or(Ok(STEP), number)?;
            if !(from > 0.0 && to > from && to.is_finite()) {
                return Err(format!("`{text}`: a range goes up, from above 0, like 1..64"));
            }
            if !(step >= STEP_MIN && step.is_finite()) {
                return Err(format!("`{text}`: each level is at least {STEP_MIN} times the last"));
            }
            return Ok(Self::Range { from, to, step });
        }
        if !text.contains(',') {
            return number(text).map(Self::One);
        }
        let mut levels = text.split(',').map(number).collect::<Result<Vec<f64>, _>>()?;
        let given = levels.len();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        if levels.len() < given {
            return Err(format!("`{text}` names a level twice; --repeat repeats them"));
        }
        Ok(Self::List(levels))
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(value) => value.fmt(f),
            Self::List(levels) => {
                let levels: Vec<String> = levels.iter().map(f64::to_string).collect();
                f.write_str(&levels.join(","))
            }
            Self::Range { from, to, step } if *step == STEP => write!(f, "{from}..{to}"),
            Self::Range { from, to, step } => write!(f, "{from}..{to}*{step}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// One is a number, whole if it can be; several are text.
impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Up to 2^53 the two are one.
            Self::One(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                serializer.serialize_i64(*value as i64)
            }
            Self::One(value) => serializer.serialize_f64(*value),
            several => serializer.collect_str(several),
        }
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Number(f64),
            Text(String),
            List(Vec<f64>),
        }
        let text = match Given::deserialize(deserializer) {
            Ok(Given::Number(number)) => return Ok(Self::One(number)),
            Ok(Given::Text(text)) => text,
            Ok(Given::List(levels)) => {
                levels.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
            }
            Err(_) => {
                return Err(serde::de::Error::custom(
                    "expected a number, or levels: [1, 2, 4], \"1..64\" or \"auto\"",
                ));
            }
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_read_what_they_print() {
        for text in ["8", "0.5", "1,2,4,16", "1..64", "0.5..8*1.25", "auto"] {
            let levels: Levels = text.parse().unwrap();
            assert_eq!(levels.to_string(), text);
            let table =
                toml::to_string(&std::collections::BTreeMap::from([("c", &levels)])).unwrap();
            let back: std::collections::BTreeMap<String, Levels> = toml::from_str(&table).unwrap();
            assert_eq!(back["c"], levels, "{table}");
        }
        let list: std::collections::BTreeMap<String, Levels> =
            toml::from_str("c = [4, 1]").unwrap();
        assert_eq!(list["c"], Levels::List(vec![1.0, 4.0]));
    }

    #[test]
    fn what_is_no_level_is_told() {
        for (text, wrong) in [
            ("many", "`many` is no number"),
            ("1,x", "`x` is no number"),
            ("4..1", "goes up"),
            ("0..4", "goes up"),
            ("1..8*1", "at least 1.01 times"),
            ("1,1", "twice"),
        ] {
            let said = text.parse::<Levels>().unwrap_err();
            assert!(said.contains(wrong), "{text}: {said}");
        }
    }
}
