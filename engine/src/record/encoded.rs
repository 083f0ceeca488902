//! Histograms inside JSON: HDR V2, compressed, in base64, as in an interval log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serializer, de::Error as _, ser::Error as _};

use super::decode::Decoder;
use super::tally::histogram;

/// Characters of one, at most: one of ours with every bucket in use has less.
const ENCODED_MAX: usize = 4 << 20;

/// Writes it as a string.
pub(super) fn serialize<S: Serializer>(
    values: &Histogram<u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(values, &mut bytes)
        .map_err(|error| S::Error::custom(format!("histogram: {error}")))?;
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// Reads it, with the bounds of ours.
pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Histogram<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.len() > ENCODED_MAX {
        return Err(D::Error::custom("histogram: it is too large"));
    }
    let bytes =
        STANDARD.decode(text).map_err(|_| D::Error::custom("histogram: it is not base64"))?;
    let mut values = histogram();
    Decoder::default()
        .add(&bytes, &mut values)
        .map_err(|error| D::Error::custom(format!("histogram: {error}")))?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use crate::record::Pooled;

    #[test]
    fn what_is_written_is_read() {
        let mut pooled = Pooled::default();
        pooled.icl.record_n(20_000_000, 3).unwrap();
        pooled.lag.record(1).unwrap();
        let text = serde_json::to_string(&pooled).unwrap();
        let read: Pooled = serde_json::from_str(&text).unwrap();
        assert!(read.icl == pooled.icl && read.lag == pooled.lag && read.itl.is_empty());
        assert!(text.len() < 1000, "{}", text.len());
    }

    #[test]
    fn what_is_none_is_refused() {
        let text = serde_json::to_string(&Pooled::default()).unwrap();
        for (from, to) in [("\"icl\":\"", "\"icl\":\"?"), ("\"icl\":\"", "\"icl\":\"AAAA")] {
            assert!(serde_json::from_str::<Pooled>(&text.replacen(from, to, 1)).is_err());
        }
    }
}
