//! The options that make a load, apart from those that say what is sent, where and how.

use super::Options;

impl Options {
    /// What the loads of a sweep have in common: these options without those of a load.
    #[must_use]
    pub(crate) fn without_load(&self) -> Self {
        let mut rest = self.clone();
        rest.take_load(&Self::default());
        rest
    }

    /// Takes the load of other options.
    pub(crate) fn take_load(&mut self, from: &Self) {
        self.name.clone_from(&from.name);
        self.concurrency.clone_from(&from.concurrency);
        self.rate.clone_from(&from.rate);
        self.rates.clone_from(&from.rates);
        self.arrival.clone_from(&from.arrival);
        self.burstiness = from.burstiness;
        self.max_in_flight = from.max_in_flight;
        self.overflow.clone_from(&from.overflow);
        self.ramp = from.ramp;
        self.requests = from.requests;
        self.duration = from.duration;
        self.sessions = from.sessions;
        self.warmup = from.warmup;
        self.until.clone_from(&from.until);
        self.drain = from.drain;
        self.seed = from.seed;
        self.hosts.clone_from(&from.hosts);
    }
}

#[cfg(test)]
mod tests {
    use crate::args::parse_options;

    #[test]
    fn loads_of_one_content_differ_by_their_load_alone() {
        let first =
            parse_options(&["http://a", "--isl", "64", "-c", "4", "--seed", "1", "-d", "5s"]);
        let mut second = parse_options(&["http://a", "--isl", "64", "--rate", "4", "--seed", "2"]);
        assert_eq!(first.without_load(), second.without_load());
        let other = parse_options(&["http://a", "--isl", "65", "-c", "4"]);
        assert_ne!(first.without_load(), other.without_load());
        second.take_load(&first);
        assert_eq!(second, first);
    }
}
