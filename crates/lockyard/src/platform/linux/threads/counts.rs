//! What threads have counted of each lock event.
//!
//! A thread counts in words of its own slot, or in words that somebody has [lent](lend) for that
//! slot, where another process can read them. Each slot knows which: counting asks nobody else.
//! What was counted moves along when words are lent, so that sums go on.

use core::sync::atomic::{AtomicPtr, Ordering::*};

use super::{SELF, Slot, TABLE, at, slots};
use crate::event::{COUNT, Event, Snapshot};
use crate::platform::Platform;
use crate::platform::atomics::AtomicU64;
use crate::platform::linux::Linux;
use crate::platform::thread::Thread;

pub(super) const EVENTS: usize = if cfg!(feature = "events") { COUNT } else { 0 };

/// A word per event, by event number: what one thread has counted. Behind them [`WOKEN`] and
/// [`WAKING`].
pub type EventWords = [AtomicU64; COUNT + 2];

/// When the thread was woken ([`Platform::now`]) that has not run since, or 0. A thread that does
/// not sleep may be woken as well.
pub const WOKEN: usize = COUNT;
/// How long the thread has been on its way to a CPU, woken, so far: nanoseconds.
pub const WAKING: usize = COUNT + 1;

/// Lends words for a slot (0 to `ThreadId::MAX_INDEX`), or has none to lend for it.
pub type Lender = fn(slot: u32) -> Option<&'static EventWords>;

/// A [`Lender`], or null.
static LENDER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

impl Slot {
    /// Where the slot's thread counts.
    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: null, or from a reference that a lender gave for as long as the slot names it.
        match unsafe { self.counts.load(Acquire).as_ref() } {
            Some(lent) => lent,
            None => &self.events,
        }
    }

    /// Makes the thread count in `to` from now on, what it has counted included. Sums never dip:
    /// a thread that adds up sees the one or the other.
    fn lend(&self, to: &'static EventWords) {
        for (own, lent) in self.events.iter().zip(to) {
            lent.store(own.load(Relaxed), Relaxed);
        }
        self.counts.store(core::ptr::from_ref(to).cast_mut(), Release);
        self.events.iter().for_each(|own| own.store(0, Relaxed));
    }

    /// Makes the thread count in its own words again, from zero. The lender's keep what they have.
    fn begin_anew(&self) {
        self.counts.store(core::ptr::null_mut(), Release);
        self.events.iter().for_each(|own| own.store(0, Relaxed));
    }
}

/// The slot in which the calling thread counts.
#[inline]
fn own() -> &'static Slot {
    at(SELF.get())
}

/// Counts an event for the calling thread.
#[inline]
pub(in super::super) fn count(event: Event, amount: i64) {
    let slot = own();
    if let Some(word) = slot.words().get(event as usize) {
        if core::ptr::eq(slot, TABLE.first()) {
            word.fetch_add(amount as u64, Relaxed);
        } else {
            word.store(word.load(Relaxed).wrapping_add(amount as u64), Relaxed);
        }
    }
}

/// Notes in lent words that `thread` is woken. Stored before its token: it finds it when it runs.
#[inline]
pub(in super::super) fn note_wake(thread: &Thread<Linux>) {
    if LENDER.load(Relaxed).is_null() {
        return;
    }
    if let Some(word) = super::slot(thread.id()).words().get(WOKEN) {
        word.store(Linux::now(), Relaxed);
    }
}

/// Runs `sleep`, in which the calling thread may sleep until it is woken: how long it is on its way
/// to a CPU then goes into lent words.
#[inline(always)]
pub(in super::super) fn note_sleep(sleep: impl FnOnce()) {
    if LENDER.load(Relaxed).is_null() {
        return sleep();
    }
    if let Some(woken) = own().words().get(WOKEN) {
        woken.store(0, Relaxed);
    }
    sleep();
    // Asked for again: a signal handler may have forked, and the words are the parent's.
    let words = own().words();
    if let (Some(woken), Some(waking)) = (words.get(WOKEN), words.get(WAKING)) {
        let since = woken.swap(0, Relaxed);
        if since != 0 {
            waking.fetch_add(Linux::now().saturating_sub(since), Relaxed);
        }
    }
}

/// What the calling thread has counted of `event` so far; for a thread without a record, what all
/// such have.
#[inline]
pub fn counted(event: Event) -> u64 {
    own().words().get(event as usize).map_or(0, |word| word.load(Relaxed))
}

/// From now on threads count in words of `lender`: those that have a record at once, others when
/// they get one. Meant for the start of a program: what a running thread counts in the moment of
/// its move may be lost.
///
/// # Safety
/// The words stay until [`take_back`] has returned, and belong to their slot alone.
pub unsafe fn lend(lender: Lender) {
    if EVENTS == 0 {
        return;
    }
    LENDER.store(lender as *mut (), Release);
    slots().for_each(|(index, slot)| lend_to(index, slot));
}

/// Threads count in words of their own again, from zero, and no reference to the lender's is left:
/// they may be another process's, and are not written. For a process with one thread: a child after
/// `fork`. (What its parent had counted is the parent's: a snapshot from before is nothing to
/// subtract.)
pub fn take_back() {
    LENDER.store(core::ptr::null_mut(), Release);
    slots().for_each(|(_, slot)| slot.begin_anew());
}

pub(super) fn lend_to(index: u32, slot: &Slot) {
    let lender = LENDER.load(Acquire);
    if lender.is_null() || !slot.counts.load(Relaxed).is_null() {
        return;
    }
    // SAFETY: not null: `lend` stored a `Lender`.
    let lender = unsafe { core::mem::transmute::<*mut (), Lender>(lender) };
    if let Some(words) = lender(index) {
        slot.lend(words);
    }
}

/// The sums over all threads of this process, living and gone: a walk over the records ever used.
pub fn snapshot() -> Snapshot {
    let mut counts = [0u64; COUNT];
    for (_, slot) in slots() {
        for (sum, word) in counts.iter_mut().zip(slot.words()) {
            *sum = sum.wrapping_add(word.load(Relaxed));
        }
    }
    Snapshot::from_counts(counts)
}

#[cfg(test)]
mod tests {
    use super::super::current;
    use super::*;

    /// One test at a time that adds up or begins anew: a record may go from one test's thread to
    /// another's.
    static SUMS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn counts_move_to_lent_words_and_begin_anew_when_they_are_taken_back() {
        const SLOTS: usize = 4096;
        const fn none() -> EventWords {
            [const { AtomicU64::new(0) }; COUNT + 2]
        }
        static WORDS: [EventWords; SLOTS] = [const { none() }; SLOTS];
        if !cfg!(feature = "events") {
            return;
        }
        let _alone = SUMS.lock();
        let slot = current().unwrap().id().raw() as usize;
        let before = counted(Event::PvWaitAgain);
        count(Event::PvWaitAgain, 3);
        // As `lend`, but other tests' threads that run already are left where they are.
        let lender: Lender = |slot| WORDS.get(slot as usize);
        LENDER.store(lender as *mut (), Relaxed);
        lend_to(slot as u32, at(slot as u32));
        count(Event::PvWaitAgain, 4);
        assert_eq!(counted(Event::PvWaitAgain), before + 7);
        assert_eq!(WORDS[slot][Event::PvWaitAgain as usize].load(Relaxed), before + 7);
        // Asleep for no wake-up, then woken, and a while without a CPU.
        note_sleep(|| ());
        assert_eq!(WORDS[slot][WAKING].load(Relaxed), 0);
        let mut way = 0;
        note_sleep(|| {
            note_wake(current().unwrap());
            let woken = Linux::now();
            while way < 100_000 {
                way = Linux::now() - woken;
            }
        });
        assert!(WORDS[slot][WAKING].load(Relaxed) >= way && WORDS[slot][WOKEN].load(Relaxed) == 0);
        let other = std::thread::spawn(|| {
            count(Event::PvWaitAgain, 0);
            current().unwrap().id().raw() as usize
        });
        let other = other.join().unwrap();
        assert_eq!(at(other as u32).counts.load(Relaxed).cast_const(), &raw const WORDS[other]);
        // Other tests of this process run: only the calling thread's and the dead one's slots may
        // move here.
        LENDER.store(core::ptr::null_mut(), Relaxed);
        at(slot as u32).begin_anew();
        assert_eq!(counted(Event::PvWaitAgain), 0);
        assert_eq!(WORDS[slot][Event::PvWaitAgain as usize].load(Relaxed), before + 7, "the lender's are left alone");
    }

    #[test]
    fn events_of_exited_threads_are_kept() {
        if !cfg!(feature = "events") {
            return;
        }
        let _alone = SUMS.lock();
        let before = snapshot();
        std::thread::spawn(|| {
            current();
            count(Event::PvWaitAgain, 7);
        })
        .join()
        .unwrap();
        assert!(snapshot().since(&before).get(Event::PvWaitAgain) >= 7);
    }
}
