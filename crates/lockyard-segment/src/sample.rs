//! What a process has counted: of it as a whole and of each lock class; what lies between two
//! samples, and the sum of several.

use core::sync::atomic::{AtomicU64, Ordering::*};

use crate::histogram::{self, BUCKETS};
use crate::hottest::{self, Leading};
use crate::layout::Tally;

mod caller;
mod within;

pub use caller::CallerSample;
pub use within::Within;

/// What a process has counted.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The process.
    pub process: u32,
    /// Which locks it uses, for people.
    pub locks: String,
    /// Over how long.
    pub seconds: f64,
    /// Threads that have counted something; a page may have had several, one after the other.
    pub threads: u32,
    /// Threads that have had one since the process began; 0: not known of this time.
    pub started: u32,
    /// Threads whose counts are not here: there was no memory for them, or no page.
    pub private: u32,
    /// ... of which there was no page for so many: more were under way than there are pages.
    pub beyond: u32,
    /// Lock events by name.
    pub events: Vec<(String, u64)>,
    /// Objects left to the C library, by reason.
    pub fallbacks: Vec<(String, u64)>,
    /// Lock classes.
    pub classes: Vec<ClassSample>,
    /// The threads that wait at this moment, or waited when the process ended, and those that hold
    /// what they wait for.
    pub waiters: Vec<ThreadSample>,
}

/// A piece of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The file it is in; empty: none.
    pub file: String,
    /// Its place in the file, or its address if there is none: what comes after the call. 0:
    /// unknown.
    pub place: u64,
}

/// A thread that waits for a lock, or holds one that others wait for.
#[derive(Debug, Clone, Default)]
pub struct ThreadSample {
    /// Its process.
    pub process: u32,
    /// The kernel's name of the thread.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// The lock that it waits for.
    pub waits: Option<Wait>,
    /// The locks that it holds, as far as noted.
    pub holds: Vec<Hold>,
}

/// A wait under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The lock's address.
    pub lock: u64,
    /// Its class, as a number in [`Sample::classes`].
    pub class: usize,
    /// Where the thread waits.
    pub place: Place,
    /// Since when, nanoseconds of the monotonic clock.
    pub since: u64,
    /// So far.
    pub ns: u64,
    /// The kernel's name of the thread that held the lock when the wait began; 0: unknown.
    pub holder: u32,
    /// Whether it ends in time without the lock.
    pub has_deadline: bool,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The lock's address.
    pub lock: u64,
    /// Where it was taken.
    pub place: Place,
    /// Whether together with others.
    pub shared: bool,
    /// For how long so far, in nanoseconds; 0: unknown.
    pub ns: u64,
}

/// What a lock class has counted.
#[derive(Debug, Clone, Default)]
pub struct ClassSample {
    /// Which lock.
    pub kind: String,
    /// What it is for; empty for locks that nobody has named.
    pub name: String,
    /// The code that makes them, or takes them first: its place in the file that `name` is, or its
    /// address if `name` is no path. 0: unknown.
    pub site: u64,
    /// Who waits for them at this moment.
    pub waiting: Waiting,
    /// The counts.
    pub counts: Counts,
    /// The code that takes them, where somebody had to wait.
    pub callers: Vec<CallerSample>,
    /// For which other locks threads waited that held one of these while others waited for it.
    pub within: Vec<Within>,
}

/// Who waits for locks of a class at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many threads.
    pub threads: u32,
    /// How long the one that has waited longest has waited so far, in nanoseconds.
    pub longest_ns: u64,
    /// How long all of them together.
    pub sum_ns: u64,
    /// The kernel's name of the thread that held its lock when it began; 0: unknown.
    pub holder: u32,
}

impl Waiting {
    pub(crate) fn add(&mut self, other: Self) {
        self.threads += other.threads;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        if other.longest_ns > self.longest_ns {
            (self.longest_ns, self.holder) = (other.longest_ns, other.holder);
        }
    }
}

impl ClassSample {
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.waiting.add(other.waiting);
        within::add(&mut self.within, &other.within);
        for caller in &other.callers {
            // The longest hold of all may be one without a place in the distribution.
            self.counts.hold_max = self.counts.hold_max.max(caller.hold_max);
            match self.callers.iter_mut().find(|known| known.is_same(caller)) {
                Some(known) => known.add(caller),
                None => self.callers.push(caller.clone()),
            }
        }
    }

    /// What its threads have lost, those that wait at this moment included, in nanoseconds.
    pub fn lost_ns(&self) -> u64 {
        self.counts.wait_ns.saturating_add(self.waiting.sum_ns)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.kind, &self.name, self.site) == (&other.kind, &other.name, other.site)
    }
}

/// Counts of a lock class. Times in nanoseconds.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Locks that have got the class, in the life of the process; 0: not known.
    pub locks: u64,
    /// Acquisitions.
    pub acquired: u64,
    /// Those that waited.
    pub contended: u64,
    /// Those of them that gave up.
    pub gave_up: u64,
    /// Sleeps.
    pub parks: u64,
    /// Handoffs asked for.
    pub handoffs: u64,
    /// Tries that found the lock taken, and did not wait.
    pub refused: u64,
    /// Waiting time.
    pub wait_ns: u64,
    /// The longest wait.
    pub wait_max: u64,
    /// Hold time of those whose hold time was taken: one in 64 to 256.
    pub hold_ns: u64,
    /// The longest hold time known: of those, and of all that had others wait.
    pub hold_max: u64,
    /// Waits by [class of time](crate::histogram).
    pub waits: Vec<u64>,
    /// Hold times, likewise.
    pub holds: Vec<u64>,
    /// The locks for which threads waited longest, and how long at least, ns.
    pub hottest: Leading,
    /// The most locks that a process has.
    pub most_locks: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            locks: 0,
            acquired: 0,
            contended: 0,
            gave_up: 0,
            parks: 0,
            handoffs: 0,
            refused: 0,
            wait_ns: 0,
            wait_max: 0,
            hold_ns: 0,
            hold_max: 0,
            waits: vec![0; BUCKETS],
            holds: vec![0; BUCKETS],
            hottest: Leading::default(),
            most_locks: 0,
        }
    }
}

impl Counts {
    /// The single words of a tally, in the order of [`Counts::fields`].
    pub(crate) fn words(tally: &Tally) -> impl Iterator<Item = &AtomicU64> {
        let Tally { contended, gave_up, refused, parks, handoffs, wait_ns, wait_max, .. } = tally;
        let Tally { hold_ns, hold_max, .. } = tally;
        [contended, gave_up, refused, parks, handoffs, wait_ns, wait_max, hold_ns, hold_max].into_iter()
    }

    fn fields(&mut self) -> [&mut u64; 9] {
        let Self { contended, gave_up, refused, parks, handoffs, wait_ns, wait_max, .. } = self;
        let (hold_ns, hold_max) = (&mut self.hold_ns, &mut self.hold_max);
        [contended, gave_up, refused, parks, handoffs, wait_ns, wait_max, hold_ns, hold_max]
    }

    pub(crate) fn read(tally: &Tally, acquired: u64) -> Self {
        let mut counts = Self { locks: tally.locks.load(Relaxed), acquired, ..Self::default() };
        for (field, word) in counts.fields().into_iter().zip(Self::words(tally)) {
            *field = word.load(Relaxed);
        }
        let read = |words: &[AtomicU64; BUCKETS]| words.iter().map(|word| word.load(Relaxed)).collect();
        counts.waits = read(&tally.waits);
        counts.holds = read(&tally.holds);
        counts.hottest = tally.hottest.read();
        counts.most_locks = counts.locks;
        counts
    }

    /// What was counted between `earlier` and these. The longest times are upper bounds: those of
    /// the longest classes that were hit.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        let mut before = earlier.clone();
        later.acquired = later.acquired.saturating_sub(before.acquired);
        for (now, then) in later.fields().into_iter().zip(before.fields()) {
            *now = now.saturating_sub(*then);
        }
        for (now, then) in [(&mut later.waits, &before.waits), (&mut later.holds, &before.holds)] {
            now.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(*then));
        }
        later.hottest = hottest::since(&self.hottest, &earlier.hottest);
        later.wait_max = longest(&later.waits, self.wait_max);
        later.hold_max = longest(&later.holds, self.hold_max);
        later
    }

    fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        let (wait_max, hold_max) = (self.wait_max.max(other.wait_max), self.hold_max.max(other.hold_max));
        self.locks = self.locks.wrapping_add(other.locks);
        self.most_locks = self.most_locks.max(other.most_locks);
        self.acquired = self.acquired.wrapping_add(other.acquired);
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum = sum.wrapping_add(*more);
        }
        for (sum, more) in [(&mut self.waits, &other.waits), (&mut self.holds, &other.holds)] {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        }
        (self.wait_max, self.hold_max) = (wait_max, hold_max);
        self.hottest = hottest::both(&self.hottest, &other.hottest);
    }

    /// The share of acquisitions that waited.
    pub fn contended_share(&self) -> f64 {
        self.contended as f64 / self.acquired.saturating_add(self.gave_up).max(1) as f64
    }

    /// The few locks of many that have most of the waiting time, and their share of it at least:
    /// the one waited for longest first.
    pub fn hot(&self) -> Option<(&[(u64, u64)], f64)> {
        let share = |count: usize| {
            let ns: u64 = self.hottest[..count].iter().map(|(_, ns)| *ns).sum();
            (ns as f64 / self.wait_ns.max(1) as f64).min(1.0)
        };
        // As many as would have half of it, if all were alike, are none that are hotter.
        let enough = |count: usize| 0.5 + 0.5 * count as f64 / self.most_locks.max(1) as f64;
        let known = |count: &usize| self.hottest[count - 1].1 > 0 && 2 * *count as u64 <= self.most_locks;
        let few = (1..hottest::LEAD).take_while(known).find(|count| share(*count) >= enough(*count))?;
        (self.most_locks > 1).then(|| (&self.hottest[..few], share(few)))
    }

    /// The wait that `share` of the waits do not exceed.
    pub fn wait(&self, share: f64) -> u64 {
        histogram::quantile(&self.waits, share, self.wait_max)
    }

    /// The hold time that `share` of the hold times taken do not exceed.
    pub fn hold(&self, share: f64) -> u64 {
        histogram::quantile(&self.holds, share, self.hold_max)
    }
}

/// The upper end of the last class that was hit, but at most `ever`.
fn longest(counts: &[u64], ever: u64) -> u64 {
    match counts.iter().rposition(|count| *count != 0) {
        Some(last) if last + 1 < BUCKETS => histogram::lower(last + 1).min(ever),
        Some(_) => ever,
        None => 0,
    }
}

impl Sample {
    /// The count of the event called `name`.
    pub fn event(&self, name: &str) -> u64 {
        self.events.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
    }

    /// All acquisitions that were told, of all classes.
    pub fn acquired(&self) -> u64 {
        self.classes.iter().fold(0, |sum, class| sum.wrapping_add(class.counts.acquired))
    }

    /// What was counted between `earlier` and this sample of the same process. Nothing where it
    /// counted backwards: the process has become another program, or a count was corrected.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        later.seconds -= earlier.seconds;
        // Which of them still run is not known.
        later.started = 0;
        for (now, then) in [(&mut later.events, &earlier.events), (&mut later.fallbacks, &earlier.fallbacks)] {
            for ((_, count), (_, before)) in now.iter_mut().zip(then) {
                *count = count.saturating_sub(*before);
            }
        }
        for class in &mut later.classes {
            if let Some(before) = earlier.classes.iter().find(|before| before.is_same(class)) {
                class.counts = class.counts.since(&before.counts);
                within::since(&mut class.within, &before.within);
                // What was waited then is not waited again: of a wait that goes on it is left out,
                // and of one that has ended since.
                let (now, then) = (class.waiting.sum_ns, before.waiting.sum_ns);
                class.waiting.sum_ns = now.saturating_sub(then);
                class.counts.wait_ns = class.counts.wait_ns.saturating_sub(then.saturating_sub(now));
                for caller in &mut class.callers {
                    if let Some(before) = before.callers.iter().find(|before| before.is_same(caller)) {
                        *caller = caller.since(before);
                    }
                }
                // The longest hold of all may be one without a place in the distribution.
                let known = class.callers.iter().map(|caller| caller.hold_max).max().unwrap_or(0);
                class.counts.hold_max = class.counts.hold_max.max(known);
            }
        }
        later
    }

    /// Adds what another process of the same program counted.
    pub fn add(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        // Where it is not known who began, those that are there did.
        let begun = |sample: &Self| sample.started.max(sample.threads);
        self.started = begun(self).wrapping_add(begun(other));
        self.threads += other.threads;
        self.private = self.private.wrapping_add(other.private);
        self.beyond = self.beyond.wrapping_add(other.beyond);
        for (sums, more) in [(&mut self.events, &other.events), (&mut self.fallbacks, &other.fallbacks)] {
            for (name, count) in more {
                match sums.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum = sum.wrapping_add(*count),
                    None => sums.push((name.clone(), *count)),
                }
            }
        }
        for class in &other.classes {
            match self.classes.iter_mut().find(|known| known.is_same(class)) {
                Some(known) => known.add(class),
                None => self.classes.push(class.clone()),
            }
        }
        for waiter in &other.waiters {
            let mut waiter = waiter.clone();
            if let Some(wait) = &mut waiter.waits {
                let of = other.classes.get(wait.class);
                let here = self.classes.iter().position(|class| of.is_some_and(|of| of.is_same(class)));
                wait.class = here.unwrap_or(usize::MAX);
            }
            self.waiters.push(waiter);
        }
    }

    /// What threads have lost waiting, those that wait at this moment included, in nanoseconds.
    pub fn lost_ns(&self) -> u64 {
        self.classes.iter().fold(0, |sum, class| sum.saturating_add(class.lost_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a reset the threads of a process vanished among those of others.
    #[test]
    fn threads_of_a_process_that_was_reset_are_among_those_of_all() {
        let of = |threads, started| Sample { threads, started, ..Sample::default() };
        let sum = |samples: [Sample; 3]| {
            let mut sum = Sample::default();
            samples.iter().for_each(|sample| sum.add(sample));
            (sum.threads, sum.started)
        };
        assert_eq!(sum([of(2, 100), of(40, 0), of(3, 5)]), (45, 145));
        assert_eq!(sum([of(40, 0), of(2, 100), of(0, 0)]), (42, 140));
    }

    /// A thread waits for 7 s. Looks after 2, 5 and 10 s add up to that.
    #[test]
    fn a_wait_is_lost_once_however_often_it_is_looked_at() {
        let at = |waiting_ns, wait_ns| {
            let waiting = Waiting { threads: 1, longest_ns: waiting_ns, sum_ns: waiting_ns, holder: 0 };
            let counts = Counts { wait_ns, ..Counts::default() };
            Sample { classes: vec![ClassSample { waiting, counts, ..ClassSample::default() }], ..Sample::default() }
        };
        let looks = [at(0, 0), at(2, 0), at(5, 0), at(0, 7), at(0, 7)];
        let lost: Vec<u64> = looks.windows(2).map(|two| two[1].since(&two[0]).lost_ns()).collect();
        assert_eq!(lost, [2, 3, 2, 0]);
    }
}
