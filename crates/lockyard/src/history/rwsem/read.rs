//! The reader's slow path: stealing, spinning, queueing, being granted.
//!
//! A reader arrives here with its bias already in the count: it has announced itself, which keeps
//! writers out, and found something in the way. By policy, in this order:
//!
//! ```text
//! full ─── takes the bias back; polls until a reader has left, which nobody tells ──────▶ has it
//!   ▼
//! guard ── other readers hold the lock and somebody waits ─────────────────────────────▶ queue
//!   ▼
//! steal ── no writer, no handoff: stay; the first reader in also lets in those queued ──▶ has it
//!   ▼
//! spin ─── takes the bias back first; after success lets in those queued ───────────────▶ has it
//!   ▼
//! queue ── alone and no writer by now: stay ────────────────────────────────────────────▶ has it
//!   ▼
//! sleep until granted, or until the wait is over
//! ```
//!
//! | policies | guard | steal | spin |
//! |---|---|---|---|
//! | to `wake-all-readers` | – | – | – |
//! | `reader-spin-on-writer` to `v5.10` | – | – | yes |
//! | `starvation-guard` | yes | – | yes |
//! | `reader-steal`, `limit-rspin` | yes | if nobody spins | yes (one at a time) |
//! | `no-rspin` to `today-kernel` | yes | yes | – |
//!
//! # Invariants
//!
//! * A thread that takes a bias back afterwards holds the lock, tries again, or looks at the count
//!   under the wait lock and wakes (invariant 11): the last holder may have taken that bias for a
//!   holder, and woken nobody.
//! * A granted reader has the lock, even if its deadline has passed: it looks at `granted` before
//!   it looks at the time, and once more under the wait lock before it leaves.
//! * `busy` is set from before a thread is in any list until after it has left all: a signal
//!   handler that comes in between does not queue.
//!
//! # Memory ordering
//!
//! A reader that stays needs Acquire on the value that let it stay: the fast path's addition when
//! it steals, the deciding load when it finds the queue empty (historical bug B3), its own addition
//! when it spins. A granted reader has it from `granted` (B4).
//!
//! **Bound on bypass.** Without handoff, none. With it: writers pass a first reader until it has
//! waited its time and a grant pass has failed to serve it. Nobody has a timer for that: the
//! deadline is looked at when a release finds waiters, and a release always does.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};

use super::grant::Mode;
use super::owner::{Kind, READER_OWNED, me};
use super::policy::{CountScheme, Policy, Steal, Track};
use super::{BIAS, HANDOFF, KernelRwSem, WAITERS, WRITER, queueable};

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// A reader whose bias is in `count`, and which must not simply proceed.
    #[cold]
    pub(super) fn read_slow(&self, count: u64, until: Until<'_, P>) -> Result<(), GaveUp> {
        if Y::OVERFLOW_GUARD && (count as i64) < 0 {
            self.set_nonspinnable();
        }
        // Only the last reader of a full lock would wake a queued thread, and forgotten guards
        // never leave.
        let Some(thread) = queueable::<P>().filter(|_| !Self::was_full(count)) else {
            self.release_bias();
            return until.poll(|| self.read_past_waiters(me::<P>()));
        };
        let note = self.owner_note();
        let mut counted = true;
        if !self.guarded(count) {
            if self.steal(count) {
                return Ok(());
            }
            if Y::READER_SPIN.exists() && self.can_spin(Kind::Read) && self.spin_slot() {
                self.take_bias_back();
                counted = false;
                if self.read_spin(thread, note, until) {
                    return Ok(());
                }
            }
        }
        thread.waiter.enter();
        self.prepare(thread, 0, note);
        let result = until.watching(thread, || self.read_queued(thread, counted, until));
        thread.waiter.leave();
        result
    }

    /// Whether the lock was full before our bias made it `count`.
    fn was_full(count: u64) -> bool {
        Y::COUNT.full(count.wrapping_sub(Y::COUNT.unit()))
    }

    /// Whether others read already, and we would only keep waiters from getting their turn
    /// (historical bug B8).
    fn guarded(&self, count: u64) -> bool {
        Y::READER_GUARD
            && count >> BIAS.trailing_zeros() > 1
            && count & WRITER == 0
            && self.owner.load(Relaxed) & READER_OWNED != 0
    }

    /// Keeps the bias past waiting threads, if the policy lets it.
    fn steal(&self, count: u64) -> bool {
        let may = match Y::STEAL {
            Steal::Off => false,
            Steal::IfOsqEmpty => !self.osq.is_locked(),
            Steal::On => true,
        };
        if !may || count & (WRITER | HANDOFF) != 0 {
            return false;
        }
        self.own_as_reader();
        P::count(Event::RwsemRlockSteal, 1);
        if count >> BIAS.trailing_zeros() == 1 {
            let now = if Y::STEAL == Steal::On { count } else { self.count.load(Relaxed) };
            self.let_others_in(now);
        }
        true
    }

    /// The caller reads, past waiters: queued readers may as well.
    fn let_others_in(&self, count: u64) {
        if count & WAITERS != 0 {
            self.wake(Mode::ReadOwned);
        }
    }

    fn read_spin(&self, thread: &Thread<P>, note: u32, until: Until<'_, P>) -> bool {
        let taken = self.spin(thread, Kind::Read, until);
        self.leave_spin_slot();
        if taken {
            self.let_others_in(self.count.load(Relaxed));
        }
        taken || Y::ADAPTIVE_RSPIN && self.phase_try(thread.id(), note)
    }

    /// Queues, unless that turns out to be needless; `counted`: our bias is in the count.
    fn read_queued(&self, thread: &'static Thread<P>, counted: bool, until: Until<'_, P>) -> Result<(), GaveUp> {
        let queued = self.locked_waking(|wakes| {
            let first = self.queue.is_empty();
            if first && counted && Self::open_to_reader(self.count.load(Acquire)) {
                return false;
            }
            self.queue.push(thread);
            let mut add = 0u64;
            if counted {
                add = add.wrapping_sub(Y::COUNT.unit());
            }
            if first {
                add = add.wrapping_add(Y::COUNT.waiters());
            }
            let count = match add {
                0 => self.count.load(Relaxed),
                _ => self.count.fetch_add(add, Relaxed).wrapping_add(add),
            };
            self.grant_after_reader(count, first, wakes);
            true
        });
        if !queued {
            self.own_as_reader();
            P::count(Event::RwsemRlockFast, 1);
            return Ok(());
        }
        let result = self.await_grant(thread, until);
        P::count(if result.is_ok() { Event::RwsemRlock } else { Event::RwsemRlockFail }, 1);
        result
    }

    /// With an empty queue: whether a reader whose bias is in `count` may stay.
    fn open_to_reader(count: u64) -> bool {
        match Y::COUNT {
            CountScheme::Biased => count as i64 >= 0,
            // An empty queue implies no handoff (invariant 3); the earlier kernels asked
            // nevertheless.
            CountScheme::Bits if Y::TRACK == Track::State || Y::STRICT_HANDOFF => count & (WRITER | HANDOFF) == 0,
            CountScheme::Bits => count & WRITER == 0,
        }
    }

    /// Queued: sleeps until the lock is ours or the wait is over.
    fn await_grant(&self, thread: &Thread<P>, until: Until<'_, P>) -> Result<(), GaveUp> {
        let granted = || thread.waiter.granted.load(Acquire) != 0;
        loop {
            if granted() {
                return Ok(());
            }
            if let Some(end) = until.over() {
                let left = self.locked_waking(|wakes| {
                    let leave = !granted();
                    if leave {
                        self.abort(thread, false, wakes);
                    }
                    leave
                });
                return if left { Err(end) } else { Ok(()) };
            }
            until.park(thread);
            P::count(Event::RwsemSleepReader, 1);
        }
    }
}
