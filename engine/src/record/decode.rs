//! Reads histograms in HDR V2, plain or compressed, straight into a sum: no histogram is made for each,
//! and nothing is believed that bytes from outside say of their size.

use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::Histogram;

use super::tally::{DIGITS, HIGHEST_NS, LOWEST_NS, histogram};

/// Begins a plain histogram, and a compressed one.
const PLAIN: u32 = 0x1c84_9313;
const COMPRESSED: u32 = 0x1c84_9314;
/// Bytes before the counts of a plain one.
const HEAD_BYTES: usize = 40;
/// Bytes of one count, at most.
const COUNT_BYTES: usize = 9;
/// Values that a histogram tells apart before their steps double, and half of them, as a power of two:
/// what three digits take.
const LINEAR_HALF: usize = 1 << LINEAR_HALF_BITS;
const LINEAR_HALF_BITS: usize = 10;

/// A reader of histograms with the bounds of ours; it keeps its memory.
pub(crate) struct Decoder {
    inflate: Decompress,
    plain: Vec<u8>,
    /// Counts that a histogram of ours has.
    places: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        let places = histogram().distinct_values();
        let plain = vec![0; HEAD_BYTES + places * COUNT_BYTES];
        Self { inflate: Decompress::new(true), plain, places }
    }
}

impl Decoder {
    /// Adds what `bytes` hold to `sum`. What they held before an error may be in it.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn add(&mut self, bytes: &[u8], sum: &mut Histogram<u64>) -> Result<(), String> {
        let (mark, rest) = number(bytes)?;
        match mark {
            PLAIN => add_plain(bytes, self.places, sum),
            COMPRESSED => {
                let (length, packed) = number(rest)?;
                let packed = packed.get(..length as usize).ok_or("it is cut short")?;
                self.inflate.reset(true);
                let how = FlushDecompress::Finish;
                match self.inflate.decompress(packed, &mut self.plain, how) {
                    Ok(Status::StreamEnd) => {}
                    Ok(_) => return Err("its compressed part is too long or too short".into()),
                    Err(error) => return Err(format!("its compressed part is damaged: {error}")),
                }
                let length = usize::try_from(self.inflate.total_out()).unwrap_or(0);
                add_plain(&self.plain[..length.min(self.plain.len())], self.places, sum)
            }
            _ => Err("it is no histogram".into()),
        }
    }
}

fn add_plain(bytes: &[u8], places: usize, sum: &mut Histogram<u64>) -> Result<(), String> {
    let head = bytes.get(..HEAD_BYTES).ok_or("it is cut short")?;
    let word = |at: usize| u64::from(u32::from_be_bytes(array(&head[at..])));
    let long = |at: usize| u64::from_be_bytes(array(&head[at..]));
    if word(0) != u64::from(PLAIN) {
        return Err("it is no histogram".into());
    }
    let is_ours = long(16) == LOWEST_NS && long(24) == HIGHEST_NS && word(12) == u64::from(DIGITS);
    if !is_ours || word(8) != 0 || f64::from_bits(long(32)) != 1.0 {
        return Err("its bounds are not those of this program".into());
    }
    let length = usize::try_from(word(4)).unwrap_or(usize::MAX);
    let mut counts = bytes[HEAD_BYTES..].get(..length).ok_or("it is cut short")?;
    let mut place = 0_usize;
    while !counts.is_empty() {
        let (count, rest) = varint(counts).ok_or("its last count is cut short")?;
        counts = rest;
        // Zigzag: a negative one is a run of so many zeros.
        let half = count >> 1;
        if count & 1 == 1 {
            let zeros = usize::try_from(half).unwrap_or(usize::MAX).saturating_add(1);
            place = place.saturating_add(zeros);
            continue;
        }
        if half > 0 {
            if place >= places {
                return Err("it has more counts than there are values".into());
            }
            let all = sum.len().checked_add(half);
            all.ok_or("it counts more than a number holds")?;
            sum.record_n(value_at(place), half).map_err(|error| error.to_string())?;
        }
        place = place.saturating_add(1);
    }
    Ok(())
}

/// The lowest value that is counted at `place`.
fn value_at(place: usize) -> u64 {
    match place >> LINEAR_HALF_BITS {
        0 => place as u64,
        bucket => ((place & (LINEAR_HALF - 1)) as u64 + LINEAR_HALF as u64) << (bucket - 1),
    }
}

/// A number of seven bits a byte, lowest first; the ninth byte has eight.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(COUNT_BYTES).enumerate() {
        let is_last = at == COUNT_BYTES - 1;
        let bits = if is_last { byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * at);
        if is_last || byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

fn number(bytes: &[u8]) -> Result<(u32, &[u8]), String> {
    let (word, rest) = bytes.split_first_chunk().ok_or("it is cut short")?;
    Ok((u32::from_be_bytes(*word), rest))
}

/// The first bytes of so many at least.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;

    fn both(values: &Histogram<u64>) -> [Vec<u8>; 2] {
        let (mut plain, mut packed) = (Vec::new(), Vec::new());
        V2Serializer::new().serialize(values, &mut plain).unwrap();
        V2DeflateSerializer::new().serialize(values, &mut packed).unwrap();
        [plain, packed]
    }

    fn read(bytes: &[u8]) -> Result<Histogram<u64>, String> {
        let mut sum = histogram();
        Decoder::default().add(bytes, &mut sum).map(|()| sum)
    }

    #[test]
    fn sums_add_up_whichever_way_they_are_written() {
        let mut values = histogram();
        for value in [0, 1, 1023, 1024, 2047, 2048, 4097, 20_000_000, HIGHEST_NS] {
            values.record_n(value, value % 7 + 1).unwrap();
        }
        values.saturating_record(u64::MAX);
        let mut sum = histogram();
        let mut decoder = Decoder::default();
        for bytes in both(&values) {
            decoder.add(&bytes, &mut sum).unwrap();
        }
        let mut twice = values.clone();
        twice.add(&values).unwrap();
        assert!(sum == twice && sum.len() == 2 * values.len());
        assert_eq!((sum.min(), sum.max()), (values.min(), values.max()));
    }

    #[test]
    fn what_is_none_of_ours_is_refused() {
        let mut values = histogram();
        values.record(5_000).unwrap();
        let [plain, packed] = both(&values);
        for cut in 0..plain.len() {
            assert!(read(&plain[..cut]).is_err(), "{cut}");
        }
        for cut in 0..packed.len() {
            assert!(read(&packed[..cut]).is_err(), "{cut}");
        }
        let others = Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
        assert!(both(&others).iter().all(|bytes| read(bytes).is_err()));
        // A run of more zeros than there are places, before a count.
        let mut far = plain[..HEAD_BYTES].to_vec();
        far[4..8].copy_from_slice(&10_u32.to_be_bytes());
        far.extend([0xff; 9]);
        far.push(2);
        assert!(read(&far).unwrap_err().contains("more counts"));
        // Counts whose sum is beyond a number.
        let mut many = plain[..HEAD_BYTES].to_vec();
        many[4..8].copy_from_slice(&27_u32.to_be_bytes());
        for _ in 0..3 {
            many.extend([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        }
        assert!(read(&many).unwrap_err().contains("holds"), "{:?}", read(&many));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            recorded in prop::collection::vec((0..=HIGHEST_NS, 1..1_000_000_u64), 0..60)
        ) {
            let mut values = histogram();
            for (value, times) in recorded {
                values.record_n(value >> (value % 40), times).unwrap();
            }
            for bytes in both(&values) {
                prop_assert!(read(&bytes).unwrap() == values);
            }
        }

        #[test]
        fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let mut plain = both(&histogram())[0][..HEAD_BYTES].to_vec();
            plain[4..8].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
            plain.extend(&bytes);
            let _ = read(&plain);
        }
    }
}
