//! The table of sleeping spinlock heads: how an unlock finds whom to wake, without room for it in
//! the lock word and without touching the lock after releasing it.
//!
//! A spinlock has four bytes: its word names the last waiter, not the first. A queue head that goes
//! to sleep registers (lock key, thread) here; an unlock looks at one counter of the lock's line,
//! and only if it is not zero searches the line's entries.
//!
//! ```text
//! line = [ count | entry | entry | … 7 ]        64 lines of 64 bytes, chosen by the lock's address
//! entry = lock key (48 bits, the lowest two of which are 0) << 16 | urgent (bit 17) | thread id (16 bits),  0 = free
//! ```
//!
//! | word | written by |
//! |---|---|
//! | `entry` | 0 or a ghost's → value: the head, by compare-exchange. value → 0: the unlocker or the head itself, by compare-exchange |
//! | `count` | +1 by a head before it claims an entry; −1 by the thread that took an entry out, and by the head that found none free or took a ghost's |
//!
//! **Whom an unlock wakes.** All heads of its key. Where [urgent waiters](crate::spin::urgent) are
//! among them: one of those, of the highest rank, of equals the one that came first. The others
//! stay: the woken one will unlock, too.
//!
//! **Ordering.** The pair that must not fail is {head: count += 1, entry; heavy fence; read lock
//! word} against {unlock: lock word := 0; light fence; read count}. The fences are the seam's
//! asymmetric pair: the unlock's side is free on Linux. An entry is claimed with Release and taken
//! with Acquire. Where there is no heavy fence the head reads the lock word once more after
//! `SETTLE_NS`: a store waits for its line, not for longer, so a release that could not see the
//! head can be seen by it then (temporally bounded TSO: Morrison and Afek, ASPLOS 2015). No manual
//! says so, hence a timer: a wake-up that is missed nevertheless is late by `UNSURE_NS`, not lost.
//!
//! **False matches** (two locks with one key, an address reused after free) wake a head that
//! re-checks, registers again and sleeps again: cost, not harm. **A full line** makes the head
//! sleep in short naps instead.
//!
//! **fork.** Entries of the parent's heads are *ghosts* in the child: an unlock that looks through
//! the line takes them out, and a head that finds none free takes the place of one. The count and
//! the entry change inside a window ([`Platform::begin_window`]), so that a child has them both or
//! neither.

use core::cmp::Reverse;

use crate::event::Event;
use crate::platform::record::{LINES, Line, SLOTS};
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};

pub use crate::platform::record::ParkedHeads;

/// How long a store may take to be seen, by far.
pub(crate) const SETTLE_NS: u64 = 50_000;
/// How long a head sleeps that is sure of its wake-up by that alone.
const UNSURE_NS: u64 = 50_000_000;

/// A head that is in the table under `key`, and has found its lock not `ready` after a heavy fence,
/// or what there is of one (`fenced`), sleeps until it is woken, or until `end`. `true`: the lock
/// was ready when it was asked once more.
///
/// A release that wakes the head takes its entry out. The head asks for the entry, and not for the
/// time, whether it was woken: a head that was, and got its CPU late, would else sleep on without
/// an entry, with nobody to wake it.
pub(crate) fn sleep<P: Platform>(
    me: &Thread<P>,
    key: u64,
    end: Option<u64>,
    fenced: bool,
    ready: impl Fn() -> bool,
) -> bool {
    if fenced {
        me.park(end);
        return false;
    }
    let until = |ns: u64| Some(end.unwrap_or(u64::MAX).min(P::now() + ns));
    let settled = until(SETTLE_NS);
    me.park(settled);
    if settled == end || !P::commons().heads.contains(key, me.id()) || settled.is_some_and(|settled| P::now() < settled)
    {
        return false;
    }
    let ready = ready();
    if !ready {
        // A release that takes the entry out from here on leaves its wake-up in the token.
        me.park(until(UNSURE_NS));
    }
    ready
}

/// In an entry: its thread waits beside the queue.
const URGENT: u64 = 1 << 17;
/// In an entry: where the key begins. Locks are aligned to four bytes.
const KEY_SHIFT: u32 = 18;

impl<P: Platform> ParkedHeads<P> {
    #[inline(always)]
    fn line(&self, key: u64) -> &Line<P> {
        // Locks are 4 bytes; neighbours in an array share lines of the table in runs of four, which
        // spreads well enough and costs one shift.
        &self.lines[(key >> 4) as usize % LINES]
    }

    fn entry(key: u64, head: ThreadId) -> u64 {
        key >> 2 << KEY_SHIFT | u64::from(head.raw())
    }

    /// Whether some head may be asleep on the lock with `key`. The unlock's only cost.
    #[inline(always)]
    pub(crate) fn any(&self, key: u64) -> bool {
        self.line(key).count.load(Relaxed) != 0
    }

    /// Whose entry it is.
    fn thread(found: u64) -> Option<ThreadId> {
        ThreadId::from_raw(u32::from(found as u16))
    }

    /// Whether the entry `found` is of a thread that only the parent of a fork has.
    fn is_ghost(found: u64) -> bool {
        Self::thread(found).is_some_and(|head| !P::is_here(head))
    }

    /// Whether the entry `found` is of this lock.
    fn is_of(found: u64, key: u64) -> bool {
        found != 0 && found >> KEY_SHIFT == key << 16 >> KEY_SHIFT
    }

    /// Registers `head` as asleep on `key`. `false` if the line is full.
    pub(crate) fn insert(&self, key: u64, head: ThreadId) -> bool {
        self.claim(key, Self::entry(key, head))
    }

    /// As [`Self::insert`], for a waiter beside the queue.
    pub(crate) fn insert_urgent(&self, key: u64, waiter: ThreadId) -> bool {
        self.claim(key, Self::entry(key, waiter) | URGENT)
    }

    fn claim(&self, key: u64, value: u64) -> bool {
        let line = self.line(key);
        P::begin_window();
        line.count.fetch_add(1, Relaxed);
        let place = line.entries.iter().position(|entry| {
            let found = entry.load(Relaxed);
            let free = found == 0 || Self::is_ghost(found);
            let claimed = free && entry.compare_exchange(found, value, Release, Relaxed).is_ok();
            if claimed && found != 0 {
                line.count.fetch_sub(1, Relaxed);
            }
            claimed
        });
        match place {
            Some(hops) => P::count(Event::PvHashHops, hops as i64 + 1),
            None => drop(line.count.fetch_sub(1, Relaxed)),
        }
        P::end_window();
        place.is_some()
    }

    /// Whether `head` is registered on `key`: no release has woken it since.
    pub(crate) fn contains(&self, key: u64, head: ThreadId) -> bool {
        self.line(key).entries.iter().any(|entry| entry.load(Relaxed) & !URGENT == Self::entry(key, head))
    }

    /// Takes `head` out. `false`: a release has, and has woken it or is about to.
    pub(crate) fn remove(&self, key: u64, head: ThreadId) -> bool {
        let mut any = false;
        for entry in &self.line(key).entries {
            let found = entry.load(Relaxed);
            any |= found & !URGENT == Self::entry(key, head) && self.take(key, entry, found);
        }
        any
    }

    /// Whether urgent waiters of this process are registered on `key`.
    pub(crate) fn any_urgent(&self, key: u64) -> bool {
        self.any(key) && Self::most_urgent(&self.look(key), key).is_some()
    }

    /// Takes out and wakes every head asleep on `key`; if urgent waiters are, one of these.
    #[cold]
    pub(crate) fn kick(&self, key: u64) {
        let seen = self.look(key);
        let next = Self::most_urgent(&seen, key);
        for (entry, found) in self.line(key).entries.iter().zip(seen) {
            let is_woken = match next {
                // One that is not there any more is awake.
                Some(next) => found == next,
                None => Self::is_of(found, key) || found != 0 && Self::is_ghost(found),
            };
            if is_woken
                && self.take(key, entry, found)
                && let Some(head) = Self::thread(found).filter(|&head| P::is_here(head))
            {
                P::count(Event::PvKickUnlock, 1);
                P::thread(head).unpark();
            }
        }
    }

    fn look(&self, key: u64) -> [u64; SLOTS] {
        self.line(key).entries.each_ref().map(|entry| entry.load(Relaxed))
    }

    /// The entry of the urgent waiter on `key` that is next.
    fn most_urgent(seen: &[u64; SLOTS], key: u64) -> Option<u64> {
        let urgent = |&found: &u64| found & URGENT != 0 && Self::is_of(found, key) && !Self::is_ghost(found);
        let order = |waiter| (P::rank(waiter), Reverse(P::thread(waiter).urgent_since()));
        seen.iter().copied().filter(urgent).max_by_key(|&found| Self::thread(found).map(order))
    }

    /// Takes `entry` out, which was `found`. `false`: somebody else has.
    fn take(&self, key: u64, entry: &P::U64, found: u64) -> bool {
        P::begin_window();
        let won = entry.compare_exchange(found, 0, Acquire, Relaxed).is_ok();
        if won {
            self.line(key).count.fetch_sub(1, Relaxed);
        }
        P::end_window();
        won
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn a_line_has_seven_entries_for_all_locks_that_share_it() {
        let table = ParkedHeads::<Linux>::new();
        let me = Linux::current().unwrap().id();
        // In one line, as far apart as keys go; and in the next line.
        let keys = [0x10, 0x410, 0xffff_ffff_fc10, 0x1234_0000_0410_u64];
        let beside = 0x20;
        for key in keys.into_iter().chain(keys).take(7) {
            assert!(!table.any(beside) && table.insert(key, me));
        }
        assert!(!table.insert(keys[0], me) && table.any(keys[0]));
        assert!(table.insert(beside, me));
        // A thread that finds another lock's heads leaves them alone.
        table.kick(0x810);
        table.remove(0x810, me);
        table.remove(keys[3], ThreadId::from_raw(me.raw() ^ 1).unwrap_or(ThreadId::ANONYMOUS));
        table.kick(keys[0]);
        assert!(table.insert(0x810, me) && table.insert(0x810, me) && !table.insert(0x810, me));
        // One entry at a time, as registered.
        let taken = (0..7).filter(|_| table.remove(0x810, me)).count();
        assert_eq!(taken, 1, "all of a thread at once");
        assert!(table.insert(0x810, me) && table.insert(0x810, me) && !table.insert(0x810, me));
        for key in [0x810, keys[1], keys[2]] {
            assert!(table.any(key));
            table.kick(key);
        }
        assert!(table.any(keys[3]));
        table.remove(keys[3], me);
        assert!(!table.any(keys[0]) && table.any(beside));
        table.kick(beside);
        assert!(!table.any(beside));
        // They were woken: a wake-up is pending.
        assert!(Linux::thread(me).is_notified());
    }

    #[test]
    fn keys_have_48_bits() {
        let table = ParkedHeads::<Linux>::new();
        let me = Linux::current().unwrap().id();
        assert!(table.insert(0xabcd_0000_0000_0030, me));
        table.kick(0xabcd_0000_0000_0430);
        assert!(table.any(0x30));
        table.kick(0xabcd_0000_0000_0030);
        assert!(!table.any(0x30));
    }

    /// The release came between a head's look at the lock and its entry's being seen: nobody wakes
    /// it.
    #[test]
    fn a_head_without_a_heavy_fence_looks_once_more() {
        const KEY: u64 = 0x5150;
        let me = Linux::current().unwrap();
        let asked = core::cell::Cell::new(0);
        let ask = |answer: bool| {
            asked.set(asked.get() + 1);
            answer
        };
        let registered = Linux::commons().heads.insert(KEY, me.id());
        assert!(registered);
        me.forget_wake_up();
        assert!(sleep(me, KEY, None, false, || ask(true)) && asked.get() == 1);
        let woken_meanwhile = || {
            me.unpark();
            ask(false)
        };
        assert!(!sleep(me, KEY, None, false, woken_meanwhile) && asked.get() == 2);
        // Its end comes first, or it is woken.
        assert!(!sleep(me, KEY, Some(1), false, || ask(true)) && asked.get() == 2);
        me.unpark();
        assert!(!sleep(me, KEY, None, true, || ask(true)) && asked.get() == 2);
        Linux::commons().heads.remove(KEY, me.id());
    }

    /// The release has taken its entry out, and the lock is taken again by the time the head has a
    /// CPU: it goes back to compete, and does not sleep on unseen.
    #[test]
    fn a_head_that_is_woken_and_runs_late_does_not_sleep_on_without_an_entry() {
        use crate::wait::tests::clockwork::{Clockwork, advance, at_sleep, cues_left, record};
        const KEY: u64 = 0x5250;
        let me = record(1);
        me.forget_wake_up();
        assert!(Clockwork::commons().heads.insert(KEY, me.id()));
        at_sleep(|| {
            Clockwork::commons().heads.kick(KEY);
            advance(2 * SETTLE_NS);
        });
        let before = Clockwork::now();
        assert!(!sleep(me, KEY, None, false, || false));
        assert_eq!((cues_left(), Clockwork::commons().heads.any(KEY)), (0, false));
        assert!(Clockwork::now() < before + UNSURE_NS, "it slept on");
    }
}
