//! What locks tell of themselves: their class, acquisitions, waits, releases.
//!
//! A thread notes them in its own page; the shared counters of a class and of a
//! [caller](crate::callers) are written after the release.
//!
//! # Hold times
//!
//! A thread notes each lock that it holds ([`Held`]), as a rule without the time: a clock for every
//! acquisition would cost more than the acquisition. The time is noted
//!
//! * of about one acquisition in 64, for the distribution;
//! * of one that ends a wait, whose end is known anyway, and of one that finds others queued;
//! * by the first thread that has to wait for it: the waiter writes it into the holder's note.
//!
//! So a hold for which others wait is timed, from its begin or from the moment at which the first
//! of them came. It is not if the waiter comes before the note or beside its move, if the thread
//! holds more than eight locks, or if two threads share a place among the pages. Readers of one
//! lock are looked for among `LOOK` threads.
//!
//! | bits of [`Held::since`] | what |
//! |---|---|
//! | 0–60 | nanoseconds; under 63, how many acquisitions the thread has made |
//! | 61 | others wait |
//! | 62 | for the distribution |
//! | 63 | no time is known |
//!
//! **Ordering.** The waiter loads the word, then reads the clock, then exchanges. A word without a
//! time is another one at each acquisition, so the exchange succeeds only while the hold lasts that
//! the waiter saw, and the clock was read inside it. The holder may use the note for another lock
//! meanwhile: then it is that lock's hold which has the time, and it had begun by then.

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::event::Event;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads;

use crate::callers::{self, Caller};
use crate::classes::{self, Class};
use crate::histogram::bucket;
use crate::layout::{HELD, Held, ThreadPage, WITH_DEADLINE};
use crate::tape;
use crate::writer::{self, mine, tally};

/// The class of locks of `kind` (at most 16 bytes) called `name` (at most 168), made by the code at
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

/// No time is known.
const UNTIMED: u64 = 1 << 63;
/// For the distribution.
const SAMPLED: u64 = 1 << 62;
/// Others wait.
const AWAITED: u64 = 1 << 61;
/// The nanoseconds.
const TIME: u64 = AWAITED - 1;
/// Threads among which the readers of a lock are looked for.
const LOOK: usize = 64;
/// A holder this long is noted by name.
const LONG: u64 = 1_000_000;

#[inline]
fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// The calling thread has taken the lock at `lock` without waiting.
#[inline]
pub fn acquired(caller: impl Into<Caller>, lock: usize) {
    if let Some(page) = mine() {
        acquired_on(page, caller.into(), lock);
    }
}

/// The same for a thread whose [`page`] is known.
#[inline]
pub fn acquired_on(page: &ThreadPage, caller: Caller, lock: usize) {
    tape::asked(page, caller, lock);
    note(page, caller, lock, UNTIMED);
}

/// The calling thread has taken the lock at `lock`, and notes no hold: another may release it.
#[inline]
pub fn acquired_unheld(caller: impl Into<Caller>, lock: usize) {
    if let Some(page) = mine() {
        let caller = caller.into();
        tape::asked(page, caller, lock);
        add(&page.acquired[caller.class().index()], 1);
    }
}

/// Where the calling thread counts, if it does: until it ends, or the child of a fork calls
/// [`after_fork_in_child`](crate::after_fork_in_child).
#[inline]
pub fn page() -> Option<&'static ThreadPage> {
    mine()
}

/// The same, while others wait for it: its hold time is taken.
#[cold]
pub fn acquired_past_others(caller: impl Into<Caller>, lock: usize) {
    if let Some(page) = mine() {
        let caller = caller.into();
        tape::asked(page, caller, lock);
        note(page, caller, lock, Linux::now() & TIME | AWAITED);
    }
}

/// Notes an acquisition; `since`: its time, or [`UNTIMED`].
#[inline]
fn note(page: &ThreadPage, caller: Caller, lock: usize, since: u64) {
    add(&page.acquired[caller.class().index()], 1);
    let ticks = page.ticks.load(Relaxed) + 1;
    page.ticks.store(ticks, Relaxed);
    let mut since = if since == UNTIMED { UNTIMED | ticks } else { since };
    if ticks >= page.sample_at.load(Relaxed) {
        since = sample(page, ticks, since);
    }
    // A thread with more has left some for others to release: its notes begin anew.
    let depth = page.depth.load(Relaxed) as usize % HELD;
    let held = &page.held[depth];
    held.caller.store(caller.raw(), Relaxed);
    held.since.store(since, Relaxed);
    held.lock.store(lock as u64, Release);
    page.depth.store(depth as u64 + 1, Relaxed);
}

/// Takes a hold time, and chooses when to take the next: after 33 to 96 acquisitions, 64 on
/// average. Not after the same number each time: a thread that takes its locks in turns would be
/// seen with one of them only.
#[cold]
fn sample(page: &ThreadPage, ticks: u64, since: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    page.sample_at.store(ticks + 33 + (ticks.wrapping_mul(GOLDEN) >> 58), Relaxed);
    if since & UNTIMED == 0 { since | SAMPLED } else { Linux::now() & TIME | SAMPLED }
}

/// The calling thread has released the lock at `lock`, which may be gone by now: only the address
/// is used.
#[inline]
pub fn released(lock: usize) {
    if let Some(page) = mine() {
        released_on(page, lock);
    }
}

/// The same for a thread whose [`page`] is known.
#[inline]
pub fn released_on(page: &ThreadPage, lock: usize) {
    tape::given_back(page, lock);
    let depth = (page.depth.load(Relaxed) as usize).min(HELD);
    let held = &page.held[..depth];
    if let Some(at) = held.iter().rposition(|held| held.lock.load(Relaxed) == lock as u64) {
        forget(page, at, depth - 1);
    }
    if page.waited.load(Relaxed) != 0 {
        settle(page);
    }
}

/// Takes note number `at` out; `last` is the last one.
#[inline]
fn forget(page: &ThreadPage, at: usize, last: usize) {
    let held = &page.held[at % HELD];
    let (since, caller) = (held.since.load(Relaxed), held.caller.load(Relaxed));
    if at != last {
        let moved = &page.held[last % HELD];
        held.caller.store(moved.caller.load(Relaxed), Relaxed);
        held.since.store(moved.since.load(Relaxed), Relaxed);
        held.lock.store(moved.lock.load(Relaxed), Release);
    }
    page.depth.store(last as u64, Relaxed);
    if since & UNTIMED == 0 {
        end_of_hold(page, Caller::from_raw(caller), since);
    }
}

#[cold]
fn end_of_hold(page: &ThreadPage, caller: Option<Caller>, since: u64) {
    let Some(caller) = caller else { return };
    let ns = Linux::now().saturating_sub(since & TIME);
    if let Some(tally) = tally(caller.class()) {
        greatest(&tally.hold_max, ns);
        if since & SAMPLED != 0 {
            tally.hold_ns.fetch_add(ns, Relaxed);
            tally.holds[bucket(ns)].fetch_add(1, Relaxed);
        }
    }
    if since & AWAITED != 0
        && let Some(record) = callers::record(caller)
    {
        record.tally.holds.fetch_add(1, Relaxed);
        record.tally.hold_ns.fetch_add(ns, Relaxed);
        if greatest(&record.tally.hold_max, ns) && ns >= LONG {
            record.holder.store(page.thread.load(Relaxed), Relaxed);
            writer::name_of_caller(&record.name);
        }
    }
}

/// Whether `ns` is greater than any before.
fn greatest(word: &AtomicU64, ns: u64) -> bool {
    word.load(Relaxed) < ns && word.fetch_max(ns, Relaxed) < ns
}

/// Puts the thread's last wait into its class's tally, and its caller's.
#[cold]
fn settle(page: &ThreadPage) {
    let Some(caller) = Caller::from_raw(page.waited.swap(0, Relaxed)) else { return };
    let ns = page.waited_ns.load(Relaxed);
    if let Some(record) = callers::record(caller) {
        record.tally.waits.fetch_add(1, Relaxed);
        record.tally.wait_ns.fetch_add(ns, Relaxed);
        greatest(&record.tally.wait_max, ns);
    }
    let Some(tally) = tally(caller.class()) else { return };
    tally.contended.fetch_add(1, Relaxed);
    tally.wait_ns.fetch_add(ns, Relaxed);
    greatest(&tally.wait_max, ns);
    tally.waits[bucket(ns)].fetch_add(1, Relaxed);
    for (counter, word) in [(&tally.parks, &page.waited_parks), (&tally.handoffs, &page.waited_handoffs)] {
        let amount = word.load(Relaxed);
        if amount != 0 {
            counter.fetch_add(amount, Relaxed);
        }
    }
}

/// The calling thread has found the lock at `lock` taken, and does without.
#[cold]
pub fn refused(caller: impl Into<Caller>, lock: usize) {
    let caller = caller.into();
    if let Some(page) = mine() {
        tape::failed(page, caller, lock);
    }
    if let Some(tally) = tally(caller.class()) {
        tally.refused.fetch_add(1, Relaxed);
    }
}

/// The thread that holds a lock, as far as the lock knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// It does not.
    Unknown,
    /// The thread that the kernel calls so.
    Thread(u32),
    /// The thread with this record.
    Record(u32),
    /// Threads that share it.
    Readers,
}

/// A wait for a lock under way: ends with [`Waiting::got`], [`Waiting::got_last`],
/// [`Waiting::got_unheld`] or [`Waiting::gave_up`]. Without a segment it does nothing.
#[derive(Debug)]
#[must_use = "it counts when it ends"]
pub struct Waiting {
    page: Option<&'static ThreadPage>,
    caller: Caller,
    lock: usize,
    since: u64,
    parks: u64,
    handoffs: u64,
}

/// The calling thread begins to wait for the lock at `lock`.
#[cold]
pub fn contended(caller: impl Into<Caller>, lock: usize) -> Waiting {
    contended_by(caller, lock, Holder::Unknown)
}

/// The calling thread begins to wait for the lock at `lock`, which `holder` holds.
#[cold]
pub fn contended_by(caller: impl Into<Caller>, lock: usize, holder: Holder) -> Waiting {
    let caller = caller.into();
    writer::open_in_child();
    let page = mine();
    if let Some(page) = page.filter(|page| page.waited.load(Relaxed) != 0) {
        settle(page);
    }
    // So that its place is known while it waits.
    callers::record(caller);
    let holder = match holder {
        Holder::Unknown => 0,
        Holder::Thread(thread) => {
            writer::page_of_thread(thread).map(|page| mark(page, lock));
            thread
        }
        Holder::Record(slot) => writer::known_page(slot).map_or(0, |page| {
            mark(page, lock);
            page.thread.load(Relaxed) as u32
        }),
        Holder::Readers => {
            let holders = writer::known_pages().take(LOOK).filter(|page| mark(page, lock));
            holders.fold(0, |first, page| if first == 0 { page.thread.load(Relaxed) as u32 } else { first })
        }
    };
    let since = Linux::now();
    if let Some(page) = page {
        tape::asked(page, caller, lock);
        if page.name.is(b"") {
            writer::name_of_caller(&page.name);
        }
        page.waiting_since.store(since, Relaxed);
        page.waiting_for.store(holder.into(), Relaxed);
        page.waiting_lock.store(lock as u64, Relaxed);
        page.waiting.store(caller.raw(), Release);
    }
    Waiting { page, caller, lock, since, parks: parks(), handoffs: handoffs() }
}

/// Writes into the note of the thread with `page` that others wait for `lock`, and since when if no
/// time is known. Whether there is such a note.
fn mark(page: &ThreadPage, lock: usize) -> bool {
    let depth = (page.depth.load(Relaxed) as usize).min(HELD);
    let Some(held) = page.held[..depth].iter().find(|held| held.lock.load(Acquire) == lock as u64) else {
        return false;
    };
    begin(held);
    // Its place is known from now on, should it never release the lock.
    Caller::from_raw(held.caller.load(Relaxed)).map(callers::record);
    true
}

fn begin(held: &Held) {
    let since = held.since.load(Relaxed);
    let timed = if since & UNTIMED == 0 { since | AWAITED } else { Linux::now() & TIME | AWAITED };
    if timed != since {
        // Another waiter was first, or the hold is over.
        let _ = held.since.compare_exchange(since, timed, Relaxed, Relaxed);
    }
}

/// What a note with `since` says at the moment `now`; 0: no time is known.
pub(crate) fn held_for(since: u64, now: u64) -> u64 {
    if since & UNTIMED == 0 { now.saturating_sub(since & TIME) } else { 0 }
}

fn parks() -> u64 {
    threads::counted(Event::ParkSleep)
}

fn handoffs() -> u64 {
    let asked = [Event::MutexHandoff, Event::RwsemRlockHandoff, Event::RwsemWlockHandoff, Event::SemHandoff];
    asked.into_iter().map(threads::counted).fold(0, u64::wrapping_add)
}

impl Waiting {
    /// The wait has a deadline: it will not last for ever, whatever the holder does.
    pub fn with_deadline(self) -> Self {
        if let Some(page) = self.page {
            page.waiting_for.store(page.waiting_for.load(Relaxed) | WITH_DEADLINE, Relaxed);
        }
        self
    }

    /// Notes the wait in the thread's page, for [`settle`]. The moment.
    #[inline]
    fn ended(&self, page: &ThreadPage) -> u64 {
        let now = Linux::now();
        page.waiting.store(0, Relaxed);
        page.waited_ns.store(now.saturating_sub(self.since), Relaxed);
        page.waited_parks.store(parks().wrapping_sub(self.parks), Relaxed);
        page.waited_handoffs.store(handoffs().wrapping_sub(self.handoffs), Relaxed);
        page.waited.store(self.caller.raw(), Relaxed);
        now
    }

    /// The thread has the lock, and others may wait for it.
    #[cold]
    pub fn got(self) {
        self.end(AWAITED);
    }

    /// The thread has the lock, and nobody waits for it.
    #[cold]
    pub fn got_last(self) {
        self.end(0);
    }

    /// The thread has the lock, and notes no hold: another may release it.
    #[cold]
    pub fn got_unheld(self) {
        let Some(page) = self.page else { return };
        self.ended(page);
        tape::granted(page, self.caller, self.lock, page.waited_parks.load(Relaxed) != 0);
        add(&page.acquired[self.caller.class().index()], 1);
        // The release may be another thread's.
        settle(page);
    }

    fn end(self, awaited: u64) {
        let Some(page) = self.page else { return };
        let now = self.ended(page);
        tape::granted(page, self.caller, self.lock, page.waited_parks.load(Relaxed) != 0);
        note(page, self.caller, self.lock, now & TIME | awaited);
    }

    /// The thread does without: its time was up.
    #[cold]
    pub fn gave_up(self) {
        let Some(page) = self.page else { return };
        self.ended(page);
        tape::gave_up(page, self.caller, self.lock, page.waited_parks.load(Relaxed) != 0);
        settle(page);
        if let Some(tally) = tally(self.caller.class()) {
            tally.gave_up.fetch_add(1, Relaxed);
        }
    }
}
