//! Which classes are several locks that have a part each, and not many that share one.
//!
//! Locks that one place of the program makes are a class. An array of locks from which threads
//! choose stays one: a model draws from it. A handful that every thread takes in a fixed order, or
//! one inside another, are as many locks, each with its own part in an operation: drawing among
//! them would lose the order. So a class is taken apart if it has at most [`FEW`] locks, and in
//! [`SURE`] of the cases the lock that a thread takes next is told by the one it took last, as long
//! as a model has room for them. So is a handful of condition variables or semaphores: one that
//! says that there is something, and one that says that there is room, may be first used in one
//! line.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::MOST_PARTS;
use crate::recording::{Recording, Sort};
use crate::walk::{self, Failed, Section, Told};

/// More locks are an array.
const FEW: usize = 8;
/// Of the sections of a class.
const SURE: f64 = 0.9;

/// The classes of a model: those of the recording, or locks of them.
pub(super) struct Classes {
    /// Of each lock.
    pub(super) of: Vec<usize>,
    /// Their names, and what they are.
    pub(super) known: Vec<(String, Sort)>,
    /// The class of the recording that each comes from.
    pub(super) from: Vec<usize>,
}

impl Classes {
    /// As the recording has them.
    fn recorded(recording: &Recording) -> Self {
        let known = recording.classes.iter().map(|class| (class.name.clone(), class.sort)).collect();
        let from = (0..recording.classes.len()).collect();
        Self { of: recording.locks.iter().map(|&class| class as usize).collect(), known, from }
    }

    pub(super) fn of(recording: &Recording) -> Self {
        let mut classes = Self::recorded(recording);
        let mut order = Order::new(&classes);
        let again = walk::Again::of(recording);
        for window in &recording.windows {
            order.last.clear();
            order.thread = window.thread;
            walk::window(window, &again, &mut order);
        }
        let (next, owners) = (order.next, order.owners);
        for class in 0..recording.classes.len() {
            let locks: Vec<usize> = (0..classes.of.len()).filter(|&lock| classes.of[lock] == class).collect();
            let sort = recording.classes[class].sort;
            let signalled = matches!(sort, Sort::Condition | Sort::Semaphore);
            // Locks that are taken in no whole section have no part.
            let has_part = |lock: &usize| signalled || next.contains_key(&(*lock as u32));
            let taken: Vec<usize> = locks.into_iter().filter(has_part).collect();
            if !(2..=FEW).contains(&taken.len()) || classes.known.len() + taken.len() > MOST_PARTS {
                continue;
            }
            let after = || taken.iter().filter_map(|&lock| next.get(&(lock as u32)));
            let all: u64 = after().flat_map(BTreeMap::values).sum();
            let told: u64 = after().filter_map(|after| after.values().max()).sum();
            if signalled || all > 0 && told as f64 >= SURE * all as f64 && !each_alone(&taken, &owners) {
                for (number, &lock) in taken.iter().enumerate() {
                    classes.of[lock] = classes.known.len();
                    classes.known.push((format!("{} {}", recording.classes[class].name, number + 1), sort));
                    classes.from.push(class);
                }
            }
        }
        classes
    }
}

/// Whether threads have a lock each, which others hardly take.
fn each_alone(locks: &[usize], owners: &BTreeMap<u32, BTreeMap<u32, u64>>) -> bool {
    let mut seen = BTreeSet::new();
    let owned = locks.iter().all(|&lock| {
        let Some(threads) = owners.get(&(lock as u32)) else { return false };
        let most = threads.iter().max_by_key(|(_, count)| **count);
        most.is_some_and(|(thread, count)| {
            seen.insert(*thread);
            *count as f64 >= SURE * threads.values().sum::<u64>() as f64
        })
    });
    owned && seen.len() > 1
}

/// How often a lock of a class follows another in a thread, and which threads take it.
struct Order<'a> {
    classes: &'a Classes,
    thread: u32,
    /// The last lock of each class, in this window.
    last: BTreeMap<usize, u32>,
    next: BTreeMap<u32, BTreeMap<u32, u64>>,
    owners: BTreeMap<u32, BTreeMap<u32, u64>>,
}

impl<'a> Order<'a> {
    fn new(classes: &'a Classes) -> Self {
        let (last, next, owners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { classes, thread: 0, last, next, owners }
    }
}

impl Told for Order<'_> {
    fn section(&mut self, section: &Section) {
        let class = self.classes.of[section.lock as usize];
        *self.owners.entry(section.lock).or_default().entry(self.thread).or_default() += 1;
        if let Some(last) = self.last.insert(class, section.lock) {
            *self.next.entry(last).or_default().entry(section.lock).or_default() += 1;
        }
    }

    fn gap(&mut self, _cpu: u64, _off: u64) {}

    fn failed(&mut self, _lock: u32, _outer: Option<u32>, _how: Failed) {}
}
