//! Goes through the items of a load in order: the class of each, its number in that class, and the
//! number of its first request.

use super::Plan;

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number in the load.
    pub item: u64,
    /// The number of its first request.
    pub index: u64,
    /// Its class.
    pub class: usize,
    /// Its number in its class.
    pub nth: u64,
}

/// The items of a load, one after the other.
#[derive(Debug, Clone)]
pub struct Walk {
    item: u64,
    index: u64,
    /// Items so far of each class.
    of_class: Vec<u64>,
}

impl Walk {
    /// The number of the next item.
    #[must_use]
    pub const fn item(&self) -> u64 {
        self.item
    }

    /// The next item.
    pub fn step(&mut self, plan: &Plan) -> Place {
        let class = plan.class_of(self.item);
        let nth = self.of_class[class];
        let place = Place { item: self.item, index: self.index, class, nth };
        self.of_class[class] += 1;
        self.item += 1;
        self.index += u64::from(plan.classes[class].turns(&place));
        place
    }
}

impl Plan {
    /// The items from the first on.
    #[must_use]
    pub fn walk(&self) -> Walk {
        Walk { item: 0, index: 0, of_class: vec![0; self.classes.len()] }
    }

    /// The place of an item: at once where there is one class of single requests, else by going
    /// there.
    #[must_use]
    pub fn place(&self, item: u64) -> Place {
        if self.classes.len() == 1 && !self.has_sessions {
            return Place { item, index: item, class: 0, nth: item };
        }
        let mut walk = self.walk();
        loop {
            let place = walk.step(self);
            if place.item == item {
                return place;
            }
        }
    }
}
