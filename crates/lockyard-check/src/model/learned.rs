//! Which words are modelled.
//!
//! A word that only one thread ever touches while threads run needs no model. Which ones are
//! touched by two is learned: such a word is noted, by the order in which it was made, and the
//! exploration starts again. Only an exploration in which nothing was learned counts.

use std::cell::{Cell, RefCell};

use super::notes::{FIXED, Fixed, Track};

/// What is known of the words of a scenario.
#[derive(Default)]
pub(super) struct Learned {
    ordinals: Cell<u32>,
    /// Words that are modelled in this exploration.
    known: RefCell<Vec<bool>>,
    /// And those that will be in the next.
    next: RefCell<Vec<bool>>,
    fresh: Cell<bool>,
    /// Words that are made once for all executions: where, and how one becomes a new one.
    known_fixed: RefCell<Vec<Fixed>>,
    next_fixed: RefCell<Vec<Fixed>>,
}

impl Learned {
    /// Whether something was learned in this exploration.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh.get()
    }

    /// A new scenario: nothing is learned yet.
    pub(super) fn forget(&self) {
        self.next.take();
        self.next_fixed.take();
    }

    /// An exploration begins, with what was learned in earlier ones.
    pub(super) fn set_out(&self) {
        self.fresh.set(false);
        self.known.replace(self.next.borrow().clone());
        self.known_fixed.replace(self.next_fixed.borrow().clone());
    }

    /// An execution begins.
    pub(super) fn begin(&self) {
        self.ordinals.set(0);
        for fixed in self.known_fixed.borrow().iter() {
            (fixed.renew)(fixed.word);
        }
    }

    /// The number of a new word, and whether it is known to be shared.
    pub(super) fn make(&self) -> (u32, bool) {
        let ordinal = self.ordinals.get();
        self.ordinals.set(ordinal + 1);
        (ordinal, self.known.borrow().get(ordinal as usize).is_some_and(|shared| *shared))
    }

    /// A second thread touches a word that is not modelled.
    #[cold]
    pub(super) fn learn(&self, track: &Track, fixed: impl FnOnce() -> Fixed) {
        if track.ordinal == FIXED {
            let (fixed, mut learned) = (fixed(), self.next_fixed.borrow_mut());
            if !learned.iter().any(|known| known.word == fixed.word) {
                learned.push(fixed);
                self.fresh.set(true);
            }
            return;
        }
        let mut learned = self.next.borrow_mut();
        let ordinal = track.ordinal as usize;
        if learned.len() <= ordinal {
            learned.resize(ordinal + 1, false);
        }
        if !std::mem::replace(&mut learned[ordinal], true) {
            self.fresh.set(true);
        }
    }
}
