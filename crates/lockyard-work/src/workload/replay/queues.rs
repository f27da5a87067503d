//! Threads of a replay that wait for each other.
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `units` | what is there to be had | a put adds; a get takes one if there is one |
//! | `waiting` | threads that wait, or are about to | a get adds itself; a put takes it out |
//! | `wakes` | threads that were taken out | the put adds; a get that has seen it subtracts |
//!
//! A get that finds no unit adds itself to `waiting`, and looks again. A put adds units, and then
//! takes as many threads out of `waiting` as it finds there, up to the units. So one of the two
//! sees the other: in one order of all such steps (SeqCst), as with two flags that two threads set
//! and look at. A woken thread may find that another took the unit, as at a semaphore and a
//! condition variable; it waits again. Which of the waiting threads is woken is the machine's
//! choice.
//!
//! **Groups.** The GNU C library's condition variable, from its version 2.25 to 2.40, signals
//! threads in groups: those that come while a group is there are of the next. Where the group is
//! empty, the signaller first sleeps until all of it have run, and makes those that wait the group.
//! So threads that hand to each other through a full or empty buffer run in turns. Where a lock
//! under test takes a lock's place, as under the preload library, there are no groups.
//!
//! A thread that would wait while all others do has nobody to wake it: it takes itself out, and its
//! wait lasts as long as the model says. At the end all are taken out.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64};

use lockyard::platform::{Ordering, Word};
use lockyard_recording::model::{Get, Put, Queue};

use crate::machine::Machine;
use crate::subject::Exclusive;
use crate::tally::LockStatistics;

/// The queues of a replay.
pub(super) struct Queues<M: Machine> {
    queues: Vec<Units<M>>,
    threads: i64,
    /// Threads that are in `waiting` of a queue.
    idle: AtomicI64,
    over: AtomicBool,
}

struct Units<M: Machine> {
    units: M::U32,
    waiting: M::U32,
    /// By the side that a thread is of; without groups all are of the first.
    wakes: [M::U32; 2],
    groups: Option<Groups<M>>,
}

/// The threads that are signalled before those of `waiting`.
struct Groups<M: Machine> {
    /// Of this struct and `waiting`.
    guard: M::Mutex,
    /// The side of `waiting`.
    side: M::U32,
    /// Threads of the group that have not been signalled.
    group: M::U32,
    /// Those that have been, and have not run.
    late: M::U32,
    /// Signallers that wait for those.
    settling: M::U32,
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
    /// `groups`: condition variables are the C library's.
    pub(super) fn new(queues: &[Queue], threads: usize, groups: bool) -> Self {
        let word = M::U32::default;
        let units = |queue: &Queue| {
            let group = || Groups {
                guard: <M::Mutex as Exclusive>::new(),
                side: word(),
                group: word(),
                late: word(),
                settling: word(),
            };
            let groups = (groups && queue.condition).then(group);
            let units = Units::<M> { units: word(), waiting: word(), wakes: [word(), word()], groups };
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
            let side = queue.join();
            let idle = self.idle.fetch_add(1, Relaxed) + 1;
            let looks = queue.units.load(Ordering::SeqCst) > 0 || self.over.load(SeqCst);
            if (looks || idle >= self.threads) && queue.leave(side) {
                self.idle.fetch_sub(1, Relaxed);
                if !looks {
                    M::stay_away(get.lasts);
                    return How::Alone;
                }
                continue;
            }
            queue.sleep(side);
        }
        how
    }

    /// Adds units, and wakes as many threads as it finds.
    pub(super) fn put(&self, put: &Put, times: u32) {
        let queue = &self.queues[put.queue];
        let units = match put.all {
            true if times > 0 => queue.waits(),
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
        // As units are: a get that is not seen waiting sees it.
        self.over.store(true, SeqCst);
        for queue in &self.queues {
            while self.wake(queue) {}
        }
    }

    /// Wakes a thread that waits. `false`: none does.
    fn wake(&self, queue: &Units<M>) -> bool {
        let side = queue.signal();
        if let Some(side) = side {
            self.idle.fetch_sub(1, Relaxed);
            queue.wakes[side].fetch_add(1, Ordering::Release);
            M::unpark(&queue.wakes[side]);
        }
        side.is_some()
    }
}

impl<M: Machine> Units<M> {
    fn take(&self) -> bool {
        self.units.load(Ordering::Relaxed) > 0 && subtract(&self.units)
    }

    /// How many threads wait: at least one, if one does. A thread that becomes one of the group
    /// is counted there before it is no longer counted here.
    fn waits(&self) -> u32 {
        let waiting = self.waiting.load(Ordering::SeqCst);
        waiting + self.groups.as_ref().map_or(0, |groups| groups.group.load(Ordering::SeqCst))
    }

    /// Adds the calling thread to those that wait. Its side.
    fn join(&self) -> usize {
        let join = || self.waiting.fetch_add(1, Ordering::SeqCst);
        match &self.groups {
            Some(groups) => groups.guard.with(|| {
                join();
                groups.side.load(Ordering::Relaxed) as usize
            }),
            None => {
                join();
                0
            }
        }
    }

    /// Takes the calling thread out again. `false`: another has.
    fn leave(&self, side: usize) -> bool {
        match &self.groups {
            Some(groups) => groups.guard.with(|| match groups.side.load(Ordering::Relaxed) as usize == side {
                true => subtract(&self.waiting),
                false => subtract(&groups.group),
            }),
            None => subtract(&self.waiting),
        }
    }

    /// Takes a thread out. Its side; `None`: none waits.
    fn signal(&self) -> Option<usize> {
        let Some(groups) = &self.groups else { return subtract(&self.waiting).then_some(0) };
        if self.waits() == 0 {
            return None;
        }
        loop {
            let found = groups.guard.with(|| {
                if groups.group.load(Ordering::Relaxed) == 0 {
                    let waiting = self.waiting.load(Ordering::SeqCst);
                    match groups.late.load(Ordering::SeqCst) {
                        _ if waiting == 0 => return Some(None),
                        0 => groups.next(waiting),
                        _ => return None,
                    }
                    self.waiting.store(0, Ordering::SeqCst);
                }
                subtract(&groups.group);
                groups.late.fetch_add(1, Ordering::SeqCst);
                Some(Some(1 - groups.side.load(Ordering::Relaxed) as usize))
            });
            match found {
                Some(side) => return side,
                None => groups.settle(),
            }
        }
    }

    /// Sleeps until this thread was taken out, or another of its side that was has slept on.
    fn sleep(&self, side: usize) {
        while !subtract(&self.wakes[side]) {
            M::park(&self.wakes[side], 0, None);
        }
        if let Some(groups) = &self.groups {
            groups.ran();
        }
    }
}

impl<M: Machine> Groups<M> {
    /// Those that wait are the group.
    fn next(&self, waiting: u32) {
        self.group.store(waiting, Ordering::SeqCst);
        self.side.store(1 - self.side.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Waits until all threads that were signalled have run. Not with `guard`, for which one of
    /// them may wait.
    fn settle(&self) {
        self.settling.fetch_add(1, Ordering::SeqCst);
        loop {
            match self.late.load(Ordering::SeqCst) {
                0 => break,
                late => M::park(&self.late, late, None),
            }
        }
        self.settling.fetch_sub(1, Ordering::Relaxed);
    }

    /// The calling thread, which was signalled, runs.
    fn ran(&self) {
        if self.late.fetch_sub(1, Ordering::SeqCst) == 1 {
            let settling = self.settling.load(Ordering::SeqCst);
            if settling > 0 {
                M::unpark_all(&self.late, settling);
            }
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
