//! Which part of a load this host sends.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Hosts that a load may be shared by, at most.
const HOSTS_MAX: u32 = 65_536;

/// One host's part of a load that several hosts send together: of an open loop the arrivals *i* with
/// *i* mod `of` = `index`, of a closed loop the users *u* likewise, with the items *i* whose user
/// (*i* mod users) is theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, from 0; below `of`.
    pub index: u32,
    /// How many hosts there are, at least 1.
    pub of: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Part `index` of so many.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn new(index: u32, of: u32) -> Result<Self, ShardError> {
        if of == 0 || of > HOSTS_MAX || index >= of {
            return Err(ShardError { text: format!("{index}/{of}") });
        }
        Ok(Self { index, of })
    }

    /// Whether it is all.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.of == 1
    }

    /// This host's part of `all` equal things; the parts add up.
    #[must_use]
    pub fn part_of(self, all: u64) -> u64 {
        let (index, of) = (u64::from(self.index), u64::from(self.of));
        all / of + u64::from(index < all % of)
    }

    /// Which of all reactors of all hosts reactor `number` of this host's `reactors` is, and how many
    /// there would be if every host had as many: it takes every *i* ≡ the former (mod the latter). That
    /// is ≡ `index` (mod `of`) whatever the other hosts have.
    #[must_use]
    pub fn of_reactor(self, number: u64, reactors: u64) -> (u64, u64) {
        let (index, of) = (u64::from(self.index), u64::from(self.of));
        (index + of * number, of * reactors)
    }

    /// How many of the first `items` items of a closed loop of so many users are this host's.
    #[must_use]
    pub fn items_of(self, items: u64, users: u64) -> u64 {
        let users = users.max(1);
        items / users * self.part_of(users) + self.part_of(items % users)
    }

    /// Whether item `item` of a closed loop of `users` users over all hosts is this host's.
    #[must_use]
    pub fn has_item(self, item: u64, users: u64) -> bool {
        item % users.max(1) % u64::from(self.of) == u64::from(self.index)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let wrong = || ShardError { text: text.to_owned() };
        let (index, of) = text.trim().split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        Self::new(number(index)?, number(of)?).map_err(|_| wrong())
    }
}

/// No part of a load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("shard {text}: give i/n, i from 0 to n - 1, such as 0/3 (n up to {HOSTS_MAX})")]
pub struct ShardError {
    /// What was given.
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_items_belong_to_one_host() {
        for (all, users) in [(1, 1), (7, 3), (64, 8), (1000, 17)] {
            for of in 1..=9 {
                let shards: Vec<Shard> = (0..of).map(|i| Shard::new(i, of).unwrap()).collect();
                assert_eq!(shards.iter().map(|shard| shard.part_of(all)).sum::<u64>(), all);
                let mut own = vec![0; of as usize];
                for item in 0..all {
                    let counted =
                        |(shard, own): (&Shard, &u64)| shard.items_of(item, users) == *own;
                    assert!(shards.iter().zip(&own).all(counted), "{item}");
                    let is_own = |shard: &&Shard| shard.has_item(item, users);
                    let owners: Vec<&Shard> = shards.iter().filter(is_own).collect();
                    assert_eq!(owners.len(), 1);
                    own[owners[0].index as usize] += 1;
                }
            }
        }
    }

    #[test]
    fn reactors_of_hosts_with_different_numbers_of_them_share_no_arrival() {
        let hosts = [(0, 1), (1, 3), (2, 2)];
        for item in 0..600_u64 {
            let takes = |&(index, reactors): &(u32, u64)| {
                (0..reactors)
                    .filter(|&number| {
                        let (at, of) = Shard::new(index, 3).unwrap().of_reactor(number, reactors);
                        item % of == at
                    })
                    .count()
            };
            assert_eq!(hosts.iter().map(takes).sum::<usize>(), 1, "{item}");
        }
    }

    #[test]
    fn a_shard_is_written_as_it_is_read() {
        let shard: Shard = " 2/3".parse().unwrap();
        assert_eq!((shard, shard.to_string()), (Shard { index: 2, of: 3 }, "2/3".to_owned()));
        for wrong in ["", "1", "3/3", "-1/3", "0/0", "0/65537", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
