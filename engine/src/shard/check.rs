//! Whether shards belong together: one plan, each part of it once, at one time.

use std::collections::BTreeMap;

use super::{Header, Place};

const NS_PER_S: f64 = 1e9;

/// Why shards do not become one result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// They are not parts of one load.
    #[error(
        "{other} is no part of the load of {first}: {what}; merge the shards of one load alone"
    )]
    Foreign {
        /// The shard that all are compared with.
        first: String,
        /// The one that does not fit.
        other: String,
        /// In what.
        what: String,
    },
    /// The same part came twice.
    #[error("{first} and {other} are both shard {shard}: leave one of them out")]
    Duplicate {
        /// Where it was first.
        first: String,
        /// And then.
        other: String,
        /// The part.
        shard: String,
    },
    /// They did not run at one time.
    #[error(
        "{other} began {seconds} s after the others had ended: shards of one load run at one time; \
         if the clocks of the hosts disagree so much, say by how much with --clocks"
    )]
    Apart {
        /// The one that came after.
        other: String,
        /// How long after.
        seconds: String,
    },
    /// Two shards sent the same request.
    #[error("shards {first} and {other} both hold request {index}: they are not parts of one load")]
    Twice {
        /// A shard.
        first: u32,
        /// Another one.
        other: u32,
        /// The request.
        index: u64,
    },
}

/// Shards that have been found to belong together.
#[derive(Debug, Default)]
pub struct Fellows {
    first: Option<(Header, String)>,
    names: BTreeMap<u32, String>,
}

impl Fellows {
    /// Lets another one in, which lies in the directory `name`.
    ///
    /// # Errors
    /// Why it does not belong to them.
    pub fn admit(&mut self, header: &Header, name: &str) -> Result<(), Refused> {
        if let Some((first, place)) = &self.first
            && let Some(what) = difference(first, header)
        {
            return Err(Refused::Foreign { first: place.clone(), other: name.to_owned(), what });
        }
        if let Some(before) = self.names.insert(header.shard.index, name.to_owned()) {
            let shard = header.shard.to_string();
            return Err(Refused::Duplicate { first: before, other: name.to_owned(), shard });
        }
        self.first.get_or_insert_with(|| (header.clone(), name.to_owned()));
        Ok(())
    }

    /// Where a shard lies.
    #[must_use]
    pub fn name(&self, shard: u32) -> &str {
        self.names.get(&shard).map_or("", String::as_str)
    }

    /// Whether all were at work at one time.
    ///
    /// # Errors
    /// The one that began after all before it had ended.
    pub fn overlap(&self, places: &[Place]) -> Result<(), Refused> {
        let mut by_start: Vec<&Place> = places.iter().collect();
        by_start.sort_by_key(|place| (place.start_ns, place.shard));
        let mut end = u64::MAX;
        for (number, place) in by_start.into_iter().enumerate() {
            if number > 0 && place.start_ns > end {
                let seconds = format!("{:.3}", (place.start_ns - end) as f64 / NS_PER_S);
                return Err(Refused::Apart { other: self.name(place.shard).to_owned(), seconds });
            }
            end = if number == 0 { place.end_ns } else { end.max(place.end_ns) };
        }
        Ok(())
    }
}

/// In what two shards differ that are not of one load.
fn difference(first: &Header, other: &Header) -> Option<String> {
    let differ = |what: &str, own: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
        Some(format!("its {what} is {theirs}, not {own}"))
    };
    if first.plan != other.plan {
        return differ("plan", &first.plan, &other.plan);
    }
    if first.seed != other.seed {
        return differ("seed", &first.seed, &other.seed);
    }
    if first.shard.of != other.shard.of {
        let of = |header: &Header| format!("{} of {}", header.shard.index, header.shard.of);
        return differ("shard", &format!("one of {}", first.shard.of), &of(other));
    }
    // Without a common start every host draws its own id.
    let is_common = first.start_at_ns.is_some() && other.start_at_ns.is_some();
    if is_common && first.run_id != other.run_id {
        let of = |header: &Header| {
            let at = header.start_at_ns.map_or(0.0, |ns| ns as f64 / NS_PER_S);
            format!("{} (to begin at {at:.3})", header.run_id)
        };
        return differ("run", &of(first), &of(other));
    }
    None
}

/// Looks for a request that two shards hold, among `(index, shard)` of all.
///
/// # Errors
/// The first such request.
pub fn once(requests: &mut [(u64, u32)]) -> Result<(), Refused> {
    requests.sort_unstable();
    let twice = requests.windows(2).find_map(|pair| match *pair {
        [(index, first), (same, other)] if index == same && first != other => {
            Some(Refused::Twice { first, other, index })
        }
        _ => None,
    });
    twice.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Shard;

    fn header(index: u32) -> Header {
        Header {
            shard: Shard::new(index, 3).unwrap(),
            plan: "sha256:a".into(),
            seed: 7,
            run_id: "r".into(),
            start_at_ns: Some(5_000_000_000),
            version: "0".into(),
            host: serde_json::Value::Null,
        }
    }

    fn said(other: Header) -> String {
        let mut fellows = Fellows::default();
        fellows.admit(&header(0), "a").unwrap();
        fellows.admit(&other, "b").unwrap_err().to_string()
    }

    #[test]
    fn parts_of_one_load_belong_together() {
        let mut fellows = Fellows::default();
        for index in [2, 0, 1] {
            fellows.admit(&header(index), &format!("d{index}")).unwrap();
        }
        assert_eq!((fellows.name(2), fellows.name(9)), ("d2", ""));
        // Where nobody said when to begin, each host drew its own id.
        let alone =
            |index: u32| Header { start_at_ns: None, run_id: index.to_string(), ..header(index) };
        let mut fellows = Fellows::default();
        assert!((0..3).all(|index| fellows.admit(&alone(index), "").is_ok()));
    }

    #[test]
    fn foreign_and_doubled_shards_are_refused_by_name() {
        let plan = said(Header { plan: "sha256:b".into(), ..header(1) });
        assert!(
            plan.starts_with("b is no part of the load of a: its plan is sha256:b, not sha256:a")
        );
        assert!(said(Header { seed: 8, ..header(1) }).contains("its seed is 8, not 7"));
        let of = Header { shard: Shard::new(1, 4).unwrap(), ..header(1) };
        assert!(said(of).contains("its shard is 1 of 4, not one of 3"));
        let other = Header { run_id: "s".into(), start_at_ns: Some(6_500_000_000), ..header(1) };
        let run = said(other);
        assert!(
            run.contains("its run is s (to begin at 6.500), not r (to begin at 5.000)"),
            "{run}"
        );
        assert_eq!(said(header(0)), "a and b are both shard 0/3: leave one of them out");
    }

    #[test]
    fn runs_at_different_times_are_refused() {
        let place = |shard, start_ns, end_ns| Place {
            shard,
            start_ns,
            load_ns: start_ns,
            end_ns,
            start_late_ns: 0,
            first_reactor: 0,
            reactors: 1,
            cut_off: false,
        };
        let mut fellows = Fellows::default();
        (0..3).for_each(|index| fellows.admit(&header(index), &format!("d{index}")).unwrap());
        let chain = [place(0, 100, 200), place(1, 190, 300), place(2, 250, 260)];
        assert_eq!(fellows.overlap(&chain), Ok(()));
        let apart = [place(0, 100, 200), place(1, 2_000_000_200, 3_000_000_000)];
        let said = fellows.overlap(&apart).unwrap_err().to_string();
        assert!(said.starts_with("d1 began 2.000 s after the others had ended"), "{said}");
        assert_eq!(fellows.overlap(&[]), Ok(()));
    }

    #[test]
    fn a_request_of_two_shards_is_found() {
        assert_eq!(once(&mut [(3, 0), (1, 1), (2, 0), (1, 1)]), Ok(()), "a host may be odd");
        let twice = once(&mut [(3, 0), (1, 1), (2, 0), (3, 2)]).unwrap_err();
        assert_eq!(twice, Refused::Twice { first: 0, other: 2, index: 3 });
    }
}
