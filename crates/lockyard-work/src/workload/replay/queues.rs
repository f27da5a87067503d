//! Threads of a replay that wait for each other.
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `units` | what is there to be had | a put adds; a get takes one if there is one |
//! | `waiting` | threads that wait, or are about to | a get adds itself; the thread that takes it out subtracts |
//! | `wakes` | threads that were taken out, and have not seen it | the thread that took one out adds; a woken get subtracts |
//!
//! A get that finds no unit adds itself to `waiting`, and looks again. A put adds units, and then
//! takes as many threads out of `waiting` as it finds there, up to the units. So one of the two
//! sees the other: in one order of all such steps (SeqCst), as with two flags that two threads set
//! and look at. A woken thread may find that another took the unit, as at a semaphore and a
//! condition variable; it waits again. Which of the waiting threads is woken is the machine's
//! choice.
//!
//! A thread that would wait while all others do has nobody to wake it: it takes itself out, and its
//! wait lasts as long as the model says. At the end all are taken out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use lockyard::platform::{Ordering, Platform, Word};
use lockyard_recording::model::{Get, Put, Queue};

use crate::machine::Machine;
use crate::tally::LockStatistics;

/// The queues of a replay.
pub(super) struct Queues<M: Platform> {
    queues: Vec<Units<M>>,
    threads: i64,
    /// Threads that are in `waiting` of a queue.
    idle: AtomicI64,
    over: AtomicBool,
}

struct Units<M: Platform> {
    units: M::U32,
    waiting: M::U32,
    wakes: M::U32,
}

/// How a get ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// There was a unit.
    AtOnce,
    /// After a wait, or at the end of the run.
    Woken,
    /// All other threads waited.
    Alone,
}

/// What is counted of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Got {
    units: u64,
    waits: u64,
    alone: u64,
    waited_ns: u64,
}

/// How many whole units are due of counts with fractions: as even as can be, each thread with
/// another beginning.
pub(super) struct Share(Vec<f64>);

impl Share {
    pub(super) fn new(count: usize, thread: usize) -> Self {
        // The golden ratio spreads beginnings evenly, however many threads there are.
        Self(vec![(thread as f64 * 0.618_034).fract(); count])
    }

    pub(super) fn of(&mut self, number: usize, count: f64) -> u32 {
        let due = &mut self.0[number];
        *due += count;
        let whole = *due as u32;
        *due -= f64::from(whole);
        whole
    }
}

impl Got {
    /// A get has ended: in the window or not, of which the window has so many ns.
    pub(super) fn note(&mut self, how: How, counts: bool, part: u64) {
        self.units += u64::from(counts);
        // Also before the window: it may be what set all others going.
        self.alone += u64::from(how == How::Alone);
        if how != How::AtOnce {
            self.waits += u64::from(counts);
            self.waited_ns += part;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.units += other.units;
        self.waits += other.waits;
        self.alone += other.alone;
        self.waited_ns += other.waited_ns;
    }

    pub(super) fn statistics(&self, lock: usize) -> LockStatistics {
        let Self { units, waits, alone, waited_ns } = *self;
        let numbers = [("units", units), ("waits", waits), ("alone", alone), ("waited_ns", waited_ns)];
        LockStatistics { lock, numbers: BTreeMap::from(numbers) }
    }
}

impl<M: Machine> Queues<M> {
    pub(super) fn new(queues: &[Queue], threads: usize) -> Self {
        let units = |queue: &Queue| {
            let word = M::U32::default;
            let units = Units::<M> { units: word(), waiting: word(), wakes: word() };
            units.units.store(queue.start, Ordering::Relaxed);
            units
        };
        Self {
            queues: queues.iter().map(units).collect(),
            threads: threads as i64,
            idle: AtomicI64::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Waits for a unit.
    pub(super) fn get(&self, get: &Get) -> How {
        let queue = &self.queues[get.queue];
        let mut how = How::AtOnce;
        while !queue.take() && !self.over.load(Relaxed) {
            how = How::Woken;
            queue.waiting.fetch_add(1, Ordering::SeqCst);
            let idle = self.idle.fetch_add(1, Relaxed) + 1;
            let looks = queue.units.load(Ordering::SeqCst) > 0 || self.over.load(Relaxed);
            if (looks || idle >= self.threads) && self.take_out(queue) {
                if !looks {
                    M::sleep(get.lasts);
                    return How::Alone;
                }
                continue;
            }
            queue.sleep();
        }
        how
    }

    /// Adds units, and wakes as many threads as it finds.
    pub(super) fn put(&self, put: &Put, times: u32) {
        let queue = &self.queues[put.queue];
        let units = match put.all {
            true if times > 0 => queue.waiting.load(Ordering::SeqCst),
            true => 0,
            false => times,
        };
        if units > 0 {
            queue.units.fetch_add(units, Ordering::SeqCst);
            (0..units).take_while(|_| self.wake(queue)).count();
        }
    }

    /// No thread waits from here on.
    pub(super) fn end(&self) {
        self.over.store(true, std::sync::atomic::Ordering::SeqCst);
        for queue in &self.queues {
            while self.wake(queue) {}
        }
    }

    /// Wakes a thread that waits. `false`: none does.
    fn wake(&self, queue: &Units<M>) -> bool {
        let found = self.take_out(queue);
        if found {
            queue.wakes.fetch_add(1, Ordering::Release);
            M::unpark(&queue.wakes);
        }
        found
    }

    fn take_out(&self, queue: &Units<M>) -> bool {
        let found = subtract(&queue.waiting);
        if found {
            self.idle.fetch_sub(1, Relaxed);
        }
        found
    }
}

impl<M: Machine> Units<M> {
    fn take(&self) -> bool {
        self.units.load(Ordering::Relaxed) > 0 && subtract(&self.units)
    }

    /// Sleeps until this thread was taken out of `waiting`, or another that was has slept on.
    fn sleep(&self) {
        while !subtract(&self.wakes) {
            M::park(&self.wakes, 0, None);
        }
    }
}

/// Subtracts one, unless it is zero. SeqCst: see the module's text.
fn subtract<W: Word<u32>>(word: &W) -> bool {
    let mut value = word.load(Ordering::SeqCst);
    while value > 0 {
        match word.compare_exchange(value, value - 1, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(found) => value = found,
        }
    }
    false
}
