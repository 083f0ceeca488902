//! What workers say to people: shown once, whoever else says the same.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::output::Screen;

/// Remarks that are remembered, at most.
const KEPT: usize = 1000;

/// Remarks so far.
#[derive(Debug)]
pub(super) struct Remarks {
    screen: Screen,
    said: Mutex<HashSet<String>>,
}

impl Remarks {
    /// None yet.
    #[must_use]
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, said: Mutex::default() }
    }

    /// Shows what a worker says, unless one has said it before.
    pub(super) fn tell(&self, number: usize, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < KEPT && said.insert(text.to_owned()) {
            self.screen.note(format_args!("worker {number}: {text}"));
        }
    }
}
