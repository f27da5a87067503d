//! What locks tell of themselves: their class, acquisitions, waits, releases.
//!
//! A thread notes them in its own page; the shared counters of a class are written after the
//! release.

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::event::Event;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads;

use crate::classes::{self, Class};
use crate::histogram::bucket;
use crate::layout::ThreadPage;
use crate::writer::{self, mine, tally};

/// The class of locks of `kind` (at most 16 bytes) called `name` (at most 64), made by the code at
/// `site` (0: unknown). The same for the same arguments; two threads that ask at once may get two,
/// which readers add up. [`Class::NONE`] when there is no room for more.
///
/// Costs a look at all classes: keep the answer.
pub fn class(kind: &[u8], name: &[u8], site: usize) -> Class {
    classes::named(kind, name, site, writer::publish_class)
}

/// The class of locks of `kind` that the code at `address` makes, or takes first. Its name is the
/// file of that code, and readers are told the place in it; code without a file is called by its
/// address.
///
/// Costs a look at all classes, and the first time a look at the process's mappings (some ten
/// microseconds): keep the answer.
#[cold]
pub fn class_at(kind: &[u8], address: usize) -> Class {
    classes::at(kind, address, writer::publish_class)
}

/// A hold time that is still being taken when so many others should have been is given up: somebody
/// else may have released the lock.
const LOST: u64 = 1024;

#[inline]
fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// The calling thread has taken the lock at `lock` without waiting.
#[inline]
pub fn acquired(class: Class, lock: usize) {
    let Some(page) = mine() else { return };
    add(&page.acquired[class.index()], 1);
    let ticks = page.ticks.load(Relaxed) + 1;
    page.ticks.store(ticks, Relaxed);
    if ticks >= page.sample_at.load(Relaxed) {
        sample(page, class, lock, ticks);
    }
}

/// Begins to take a hold time, and chooses when to take the next: after 33 to 96 acquisitions, 64
/// on average. Not after the same number each time: a thread that takes its locks in turns would be
/// seen with one of them only.
#[cold]
fn sample(page: &ThreadPage, class: Class, lock: usize, ticks: u64) {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    page.sample_at.store(ticks + 33 + (ticks.wrapping_mul(GOLDEN) >> 58), Relaxed);
    let skipped = page.skipped.load(Relaxed) + 1;
    if page.held.load(Relaxed) != 0 && skipped < LOST {
        page.skipped.store(skipped, Relaxed);
        return;
    }
    page.skipped.store(0, Relaxed);
    page.held_class.store(class.raw().into(), Relaxed);
    page.held_since.store(Linux::now(), Relaxed);
    page.held.store(lock as u64, Relaxed);
}

/// The calling thread has released the lock at `lock`, which may be gone by now: only the address
/// is used.
#[inline]
pub fn released(lock: usize) {
    let Some(page) = mine() else { return };
    if page.held.load(Relaxed) == lock as u64 && lock != 0 {
        end_of_hold(page);
    }
    if page.waited.load(Relaxed) != 0 {
        settle(page);
    }
}

#[cold]
fn end_of_hold(page: &ThreadPage) {
    let ns = Linux::now().saturating_sub(page.held_since.load(Relaxed));
    page.held.store(0, Relaxed);
    if let Some(tally) = tally(page.held_class.load(Relaxed)) {
        tally.hold_ns.fetch_add(ns, Relaxed);
        tally.hold_max.fetch_max(ns, Relaxed);
        tally.holds[bucket(ns)].fetch_add(1, Relaxed);
    }
}

/// Puts the thread's last wait into its class's tally.
#[cold]
fn settle(page: &ThreadPage) {
    let class = page.waited.swap(0, Relaxed).wrapping_sub(1);
    let Some(tally) = tally(class) else { return };
    let ns = page.waited_ns.load(Relaxed);
    tally.contended.fetch_add(1, Relaxed);
    tally.wait_ns.fetch_add(ns, Relaxed);
    if tally.wait_max.load(Relaxed) < ns {
        tally.wait_max.fetch_max(ns, Relaxed);
    }
    tally.waits[bucket(ns)].fetch_add(1, Relaxed);
    for (counter, word) in [(&tally.parks, &page.waited_parks), (&tally.handoffs, &page.waited_handoffs)] {
        let amount = word.load(Relaxed);
        if amount != 0 {
            counter.fetch_add(amount, Relaxed);
        }
    }
}

/// A wait for a lock under way: ends with [`Waiting::got`] or [`Waiting::gave_up`]. Without a
/// segment it does nothing.
#[derive(Debug)]
#[must_use = "it counts when it ends"]
pub struct Waiting {
    page: Option<&'static ThreadPage>,
    class: Class,
    lock: usize,
    since: u64,
    parks: u64,
    handoffs: u64,
}

/// The calling thread begins to wait for the lock at `lock`.
#[cold]
pub fn contended(class: Class, lock: usize) -> Waiting {
    writer::open_in_child();
    let page = mine();
    if let Some(page) = page.filter(|page| page.waited.load(Relaxed) != 0) {
        settle(page);
    }
    let since = Linux::now();
    if let Some(page) = page {
        page.waiting_since.store(since, Relaxed);
        page.waiting_for.store(0, Relaxed);
        page.waiting.store(u64::from(class.raw()) + 1, Release);
    }
    Waiting { page, class, lock, since, parks: parks(), handoffs: handoffs() }
}

fn parks() -> u64 {
    threads::counted(Event::ParkSleep)
}

fn handoffs() -> u64 {
    let asked = [Event::MutexHandoff, Event::RwsemRlockHandoff, Event::RwsemWlockHandoff, Event::SemHandoff];
    asked.into_iter().map(threads::counted).fold(0, u64::wrapping_add)
}

impl Waiting {
    /// Whom the wait is for: the thread that the kernel calls `holder`, or 0.
    pub fn held_by(self, holder: u32) -> Self {
        if let Some(page) = self.page {
            page.waiting_for.store(holder.into(), Relaxed);
        }
        self
    }

    /// Notes the wait in the thread's page, for [`settle`].
    #[inline]
    fn ended(&self, page: &ThreadPage) {
        page.waiting.store(0, Relaxed);
        page.waited_ns.store(Linux::now().saturating_sub(self.since), Relaxed);
        page.waited_parks.store(parks().wrapping_sub(self.parks), Relaxed);
        page.waited_handoffs.store(handoffs().wrapping_sub(self.handoffs), Relaxed);
        page.waited.store(u64::from(self.class.raw()) + 1, Relaxed);
    }

    /// The thread has the lock.
    #[cold]
    pub fn got(self) {
        let Some(page) = self.page else { return };
        self.ended(page);
        acquired(self.class, self.lock);
    }

    /// The thread does without: its time was up.
    #[cold]
    pub fn gave_up(self) {
        let Some(page) = self.page else { return };
        self.ended(page);
        settle(page);
        if let Some(tally) = tally(self.class.raw().into()) {
            tally.gave_up.fetch_add(1, Relaxed);
        }
    }
}
