//! What locks tell of themselves: their class, acquisitions, waits, releases.
//!
//! A thread notes them in its own page; the shared counters of a class and of a
//! [caller](crate::callers) are written after the release.
//!
//! Which locks a thread holds, and for how long, is noted by `holds`.

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::event::Event;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::{self, WOKEN};

use crate::callers::{self, Caller};
use crate::classes::{self, Class};
use crate::fallbacks::{self, Fallback};
use crate::histogram::bucket;
use crate::holds::{AWAITED, acquired_plainly, ends, forget, greatest, is_plain};
use crate::holds::{mark, note, released_plainly, rename, timed};
use crate::layout::{ASLEEP, ThreadPage, WITH_DEADLINE};
use crate::origins;
use crate::process;
use crate::search;
use crate::tape;
use crate::within;
use crate::writer::{self, mine, mine_so_far, tally};

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
/// address. [`Class::NONE`] when there is no room for more than names.
///
/// Costs a look at all classes, and the first time a look at the process's mappings (some ten
/// microseconds): keep the answer.
#[cold]
pub fn class_at(kind: &[u8], address: usize) -> Class {
    classes::at(kind, address, false, writer::publish_class)
}

/// The same for a lock without a class for which a thread begins to wait: some room is kept for
/// these.
#[cold]
pub fn class_awaited(kind: &[u8], address: usize) -> Class {
    classes::at(kind, address, true, writer::publish_class)
}

/// The class of the lock of `kind` at `lock`, which has `class`, and which the calling thread holds
/// for the code at `place`, by a call that returns to `at`. Another one if code has given it its
/// class that only passes locks on: that of `place`, or of the code that asked for its
/// initialisation. Where the lock gets it, [`moves`] is to be called.
#[cold]
pub fn class_held(kind: &[u8], class: Class, lock: usize, (at, place): (usize, usize)) -> Class {
    let origin = origins::caller(lock);
    if origin.is_some() && at != place {
        classes::passes_if_called_from_several(class);
    }
    classes::held(kind, class, origin.unwrap_or(place), writer::publish_class)
}

/// The calling thread has given the lock at `lock`, which it holds, its class for good, in place of
/// `noted`. Its hold is that of `is`.
#[cold]
pub fn moves(lock: usize, noted: Class, is: Caller) {
    origins::forget(lock);
    if let Some(page) = mine_so_far() {
        let holds = rename(page, lock, (noted, is));
        let before = &page.acquired[Caller::from(noted).counter()];
        before.store(before.load(Relaxed).saturating_sub(holds), Relaxed);
        add(&page.acquired[is.counter()], holds);
    }
    if noted != is.class() {
        classes::left(noted);
        writer::tell_locks(noted);
        if let Some(record) = writer::class_record(noted) {
            // Before the thread tells of the lock again.
            record.passes.store(1, Release);
        }
        joined(is.class());
    }
}

/// A lock has got `class`, and keeps it.
#[cold]
pub fn joined(class: Class) {
    if classes::joined(class).is_some() {
        writer::tell_locks(class);
    }
}

/// The calling thread's record is about to be another's: what it does from here on counts nowhere.
pub fn left() {
    if let Some(page) = writer::leave() {
        tape::ends(page);
    }
}

/// An object was left to the C library, for `reason`.
pub fn fell_back(reason: Fallback) {
    fallbacks::remember(reason);
    if let Some(shared) = writer::shared() {
        shared.header.fallbacks[reason as usize].fetch_add(1, Relaxed);
    }
}

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
    if !acquired_plainly(page, caller, lock) {
        tape::asked(page, caller, lock);
        note(page, caller, lock, None);
    }
}

/// The calling thread has taken the lock at `lock`, and notes no hold: another may release it.
#[inline]
pub fn acquired_unheld(caller: impl Into<Caller>, lock: usize) {
    if let Some(page) = mine() {
        let caller = caller.into();
        tape::asked(page, caller, lock);
        add(&page.acquired[caller.counter()], 1);
    }
}

/// Where the calling thread counts, if it does: until it ends, or the child of a fork calls
/// [`after_fork_in_child`](crate::after_fork_in_child).
#[inline]
pub fn page() -> Option<&'static ThreadPage> {
    mine()
}

/// The same, for what is no acquisition: the child of a fork that has taken no lock counts nowhere.
#[inline]
pub fn page_so_far() -> Option<&'static ThreadPage> {
    mine_so_far()
}

/// [`acquired`], while others wait for the lock: its hold time is taken.
#[cold]
pub fn acquired_past_others(caller: impl Into<Caller>, lock: usize) {
    if let Some(page) = mine() {
        let caller = caller.into();
        tape::asked(page, caller, lock);
        note(page, caller, lock, Some(timed(Linux::now()) | AWAITED));
    }
}

/// The calling thread is about to release the lock at `lock`. Without that a hold lasts until the
/// thread runs again after the release.
#[inline]
pub fn releasing(lock: usize) {
    if let Some(page) = mine_so_far() {
        releasing_on(page, lock);
    }
}

/// The same for a thread whose [`page`] is known.
#[inline]
pub fn releasing_on(page: &ThreadPage, lock: usize) {
    if !is_plain(page, lock) {
        ends(page, lock);
    }
}

/// The calling thread has released the lock at `lock`, which may be gone by now: only the address
/// is used.
#[inline]
pub fn released(lock: usize) {
    if let Some(page) = mine_so_far() {
        released_on(page, lock);
    }
}

/// The same for a thread whose [`page`] is known.
#[inline]
pub fn released_on(page: &ThreadPage, lock: usize) {
    if !released_plainly(page, lock) {
        release(page, lock);
    }
}

#[cold]
fn release(page: &ThreadPage, lock: usize) {
    tape::given_back(page, lock);
    let depth = page.depth();
    let held = &page.held[..depth];
    if let Some(at) = held.iter().rposition(|held| held.lock.load(Relaxed) == lock as u64) {
        forget(page, at, depth - 1);
    }
    if page.waited.load(Relaxed) != 0 {
        settle(page);
    }
}

/// Notes in the thread's page, for [`settle`], a wait of so many nanoseconds until `now`.
pub(crate) fn pends(page: &ThreadPage, caller: Caller, (ns, now): (u64, u64), (parks, handoffs): (u64, u64)) {
    page.waited_ns.store(ns, Relaxed);
    page.waited_parks.store(parks, Relaxed);
    page.waited_handoffs.store(handoffs, Relaxed);
    within::note(page, ns, now);
    page.waited.store(caller.raw(), Relaxed);
}

/// Puts the thread's last wait into its class's tally, and its caller's.
#[cold]
pub(crate) fn settle(page: &ThreadPage) {
    let Some(caller) = Caller::from_raw(page.waited.swap(0, Relaxed)) else { return };
    let ns = page.waited_ns.load(Relaxed);
    if let Some(record) = callers::record(caller) {
        record.tally.waits.fetch_add(1, Relaxed);
        record.tally.wait_ns.fetch_add(ns, Relaxed);
        greatest(&record.tally.wait_max, ns);
    }
    within::settle(page, caller);
    let Some(tally) = tally(caller.class()) else { return };
    tally.contended.fetch_add(1, Relaxed);
    tally.wait_ns.fetch_add(ns, Relaxed);
    greatest(&tally.wait_max, ns);
    tally.waits[bucket(ns)].fetch_add(1, Relaxed);
    tally.hottest.count(page.waiting_lock.load(Relaxed), ns);
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

/// The calling thread waits for `lock`, since when, and for which thread.
pub(crate) fn begins(page: &ThreadPage, caller: Caller, lock: usize, (since, holder): (u64, u64)) {
    if page.name.is(b"") {
        process::name_of_caller(&page.name);
    }
    page.waiting_since.store(since, Relaxed);
    page.waiting_for.store(holder, Relaxed);
    page.waiting_lock.store(lock as u64, Relaxed);
    page.waiting.store(caller.raw(), Release);
}

/// A wait that goes on, as a reader finds it.
pub(crate) struct UnderWay {
    pub(crate) caller: Caller,
    pub(crate) lock: u64,
    pub(crate) since: u64,
    /// The moment, or when the thread was woken that has not run since: it waits for a CPU.
    pub(crate) until: u64,
    /// [`ThreadPage::waiting_for`].
    pub(crate) held_by: u64,
    /// It waits for the lock if somebody holds it; else for the thread before it in the queue,
    /// which waits for a CPU.
    pub(crate) is_asleep: bool,
}

/// What the thread with `page` waits for at the moment `now`.
pub(crate) fn under_way(page: &ThreadPage, now: u64) -> Option<UnderWay> {
    let caller = Caller::from_raw(page.waiting.load(Acquire))?;
    // 0: it sleeps at a condition variable.
    let since = Some(page.waiting_since.load(Acquire)).filter(|since| *since != 0)?;
    let (held_by, lock) = (page.waiting_for.load(Relaxed), page.waiting_lock.load(Relaxed));
    let (is_asleep, woken) = (held_by & ASLEEP != 0, page.events[WOKEN].load(Relaxed));
    let until = if is_asleep && woken >= since { woken } else { now };
    Some(UnderWay { caller, lock, since, until, held_by, is_asleep })
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
            search::of_thread(thread).map(|page| mark(page, lock));
            thread
        }
        // The record of a thread that has ended without a release may be another's by now, or the
        // caller's, and has no note of the lock; nor has one that holds many, or since a fork.
        Holder::Record(slot) => writer::known_page(slot)
            .filter(|holder| {
                let is_own = page.is_some_and(|page| core::ptr::eq(page, *holder));
                mark(holder, lock) || !is_own && !holder.has_left_locks()
            })
            .map_or(0, |holder| holder.thread.load(Relaxed) as u32),
        Holder::Readers => search::readers(lock),
    };
    let since = Linux::now();
    if let Some(page) = page {
        tape::asked(page, caller, lock);
        begins(page, caller, lock, (since, holder.into()));
    }
    Waiting { page, caller, lock, since, parks: parks(), handoffs: handoffs() }
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

    /// The code that waited is `caller`: more is known of it than when it began.
    pub fn by(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// Notes the wait in the thread's page, for [`settle`]. The moment.
    #[inline]
    fn ended(&self, page: &ThreadPage) -> u64 {
        let now = Linux::now();
        page.waiting.store(0, Relaxed);
        let (parks, handoffs) = (parks().wrapping_sub(self.parks), handoffs().wrapping_sub(self.handoffs));
        pends(page, self.caller, (now.saturating_sub(self.since), now), (parks, handoffs));
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
        add(&page.acquired[self.caller.counter()], 1);
        // The release may be another thread's.
        settle(page);
    }

    fn end(self, awaited: u64) {
        let Some(page) = self.page else { return };
        let now = self.ended(page);
        tape::granted(page, self.caller, self.lock, page.waited_parks.load(Relaxed) != 0);
        note(page, self.caller, self.lock, Some(timed(now) | awaited));
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
