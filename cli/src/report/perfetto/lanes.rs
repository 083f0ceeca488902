//! Which thread a slice lies on: no two on one thread overlap, and there are as few as that allows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A time from the run's start, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Where something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// A core of ours.
    Reactor(u32),
    /// A server, by its URL.
    Server(&'a str),
}

/// A thread of a place: numbers of both, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lane {
    pub(super) place: u32,
    pub(super) thread: u32,
}

/// Spans before they have threads.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    reactors: BTreeMap<u32, u32>,
    servers: BTreeMap<String, u32>,
    names: Vec<String>,
    spans: Vec<(u32, Span)>,
}

/// Spans with their threads.
#[derive(Debug)]
pub(super) struct Assigned {
    /// The places, each with how many threads it has.
    pub(super) places: Vec<(String, u32)>,
    lanes: Vec<Lane>,
}

impl Lanes {
    /// Takes a span.
    pub(super) fn add(&mut self, place: Place<'_>, span: Span) {
        let next = self.names.len() as u32;
        let (known, name) = match place {
            Place::Reactor(reactor) => {
                let known = *self.reactors.entry(reactor).or_insert(next);
                (known, format!("reactor {reactor}"))
            }
            Place::Server(url) => match self.servers.get(url) {
                Some(known) => (*known, String::new()),
                None => {
                    self.servers.insert(url.to_owned(), next);
                    (next, url.to_owned())
                }
            },
        };
        if known == next {
            self.names.push(name);
        }
        self.spans.push((known, span));
    }

    /// Gives every span the first thread of its place that is free when it begins.
    pub(super) fn assign(self) -> Assigned {
        let mut order: Vec<usize> = (0..self.spans.len()).collect();
        order.sort_by_key(|at| {
            let (place, span) = self.spans[*at];
            (place, span.from, span.to, *at)
        });
        let mut lanes = vec![Lane::default(); self.spans.len()];
        let mut threads = vec![0_u32; self.names.len()];
        let mut taken: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let mut free: BinaryHeap<Reverse<u32>> = BinaryHeap::new();
        let mut here = None;
        for at in order {
            let (place, span) = self.spans[at];
            if here.replace(place) != Some(place) {
                taken.clear();
                free.clear();
            }
            while let Some(Reverse((end, thread))) = taken.peek().copied()
                && end <= span.from
            {
                taken.pop();
                free.push(Reverse(thread));
            }
            let count = &mut threads[place as usize];
            let thread = free.pop().map_or(*count, |Reverse(thread)| thread);
            *count = (*count).max(thread + 1);
            taken.push(Reverse((span.to, thread)));
            lanes[at] = Lane { place, thread };
        }
        Assigned { places: self.names.into_iter().zip(threads).collect(), lanes }
    }
}

impl Assigned {
    /// The threads of the spans in the order in which these were taken.
    pub(super) fn in_order(&self) -> impl Iterator<Item = Lane> {
        self.lanes.iter().copied()
    }
}
