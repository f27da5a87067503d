//! What threads of a role did with the locks of a class.

use super::{ALIKE, FLEETING, share, spread};
use crate::recording::Mode;
use crate::time::Times;
use crate::walk::Section;

/// So many calls that found a lock taken tell how many of them are tries.
const FEW: u64 = 20;
/// A first section so many times as long as the mean of at least as many others sets up what they
/// use.
const SETS_UP: u32 = 100;

/// Sections of a class, inside those of one other class or outside, and calls without one.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken {
    reads: Sections,
    writes: Sections,
    /// A thread's first section, until it is known whether it is like the others.
    first: Option<Section>,
    /// Tries in vain.
    pub(super) failed: u64,
    /// Waits until the time was up.
    pub(super) gave_up: u64,
    /// Calls that tried, and went on until they had the lock.
    pub(super) retried: u64,
    /// CPU time before those that are in no other section.
    pub(super) gaps: u64,
}

/// Sections that are alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Sections {
    /// Of those that had not to wait, and of those that had.
    free: Vec<u64>,
    awaited: Vec<u64>,
    slept: u64,
    sleepers: u64,
}

impl Taken {
    /// A section of one thread, in the order of their ends.
    pub(super) fn note(&mut self, section: &Section) {
        if self.count() == 0 && self.first.is_none() {
            self.first = Some(*section);
        } else {
            self.push(section);
        }
    }

    /// All of the thread's sections are noted. A first one that set up what the others use is not
    /// what they do, and no number of threads does it again.
    pub(super) fn settle(&mut self) {
        let Some(first) = self.first.take() else { return };
        let (others, many) = (self.all(), f64::from(SETS_UP));
        let longer = (first.own.saturating_add(first.slept)) as f64 > many * others.mean();
        if others.count() < SETS_UP as usize || !longer {
            self.push(&first);
        }
    }

    fn push(&mut self, section: &Section) {
        let sections = if section.mode == Mode::Read { &mut self.reads } else { &mut self.writes };
        if section.waited.is_some() { &mut sections.awaited } else { &mut sections.free }.push(section.own);
        sections.slept = sections.slept.saturating_add(section.slept);
        sections.sleepers += u64::from(section.slept > 0);
    }

    /// Sections.
    pub(super) fn count(&self) -> usize {
        self.reads.count() + self.writes.count()
    }

    /// Time in them.
    pub(super) fn held(&self) -> f64 {
        self.reads.held() + self.writes.held()
    }

    fn all(&self) -> Sections {
        let mut all = self.writes.clone();
        all.add(&self.reads);
        all
    }

    /// All of them, and the percentage that only reads; if `apart`, reads and writes for
    /// themselves, where they take another time.
    pub(super) fn ways(&self, apart: bool) -> Vec<(Sections, f64)> {
        let (reads, writes) = (&self.reads, &self.writes);
        let (short, long) = (reads.mean().min(writes.mean()), reads.mean().max(writes.mean()));
        if apart && reads.count() > 0 && writes.count() > 0 && long > ALIKE * short.max(FLEETING) {
            return vec![(reads.clone(), 100.0), (writes.clone(), 0.0)];
        }
        vec![(self.all(), share(reads.count() as u64, self.count()))]
    }

    /// Calls that had the lock, and tries that had not.
    pub(super) fn calls(&self) -> f64 {
        self.count() as f64 + self.failed as f64
    }

    /// Percentage of the calls that are tries. 0 if too few found the lock taken to tell.
    pub(super) fn tries(&self) -> f64 {
        let awaited = self.reads.awaited.len() + self.writes.awaited.len();
        let met = self.failed + self.gave_up + self.retried + awaited as u64;
        let few = self.failed == 0 || met < FEW.min(self.count() as u64);
        if few { 0.0 } else { share(self.failed, met as usize) }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.failed += other.failed;
        self.gave_up += other.gave_up;
        self.retried += other.retried;
        self.gaps = self.gaps.saturating_add(other.gaps);
    }
}

impl Sections {
    pub(super) fn count(&self) -> usize {
        self.free.len() + self.awaited.len()
    }

    fn held(&self) -> f64 {
        self.free.iter().chain(&self.awaited).map(|&ns| ns as f64).sum()
    }

    /// The mean time of one, sleep included.
    fn mean(&self) -> f64 {
        (self.held() + self.slept as f64) / self.count().max(1) as f64
    }

    /// CPU time in them.
    pub(super) fn hold(&self) -> Times {
        if self.free.len() * 3 >= self.count() {
            return spread(&self.free);
        }
        spread(&self.free.iter().chain(&self.awaited).copied().collect::<Vec<u64>>())
    }

    /// Time off the CPU in those that sleep, and the percentage of them.
    pub(super) fn sleep(&self) -> (Times, f64) {
        let share = if self.sleepers == 0 { 100.0 } else { share(self.sleepers, self.count()) };
        (Times::one(self.slept / self.sleepers.max(1)), share)
    }

    fn add(&mut self, other: &Self) {
        self.free.extend(&other.free);
        self.awaited.extend(&other.awaited);
        self.slept = self.slept.saturating_add(other.slept);
        self.sleepers += other.sleepers;
    }
}
