//! The count word as it was until 2019: a signed sum instead of bits. Only the policies
//! `xadd-baseline` use it.
//!
//! # The word
//!
//! The low half counts active lockers, those that hold or try (`A` = 1 each). `WAIT` = −2³² is
//! present while the queue is not empty, and once more for every active writer: a writer adds `W` =
//! `WAIT` + `A`.
//!
//! | value | queue empty | queue not empty |
//! |---|---|---|
//! | 0 | free | – |
//! | > 0 | readers | – |
//! | `WAIT` | – | nobody active |
//! | > `WAIT`, < 0 | `W`: one writer | readers |
//! | < `WAIT` | writers trying | a writer holds or tries |
//!
//! The active have room for 2³². No reader enters once there are 2³¹: the sum would carry into the
//! other half, and a lock with readers look free. Those that try beyond are no more than there are
//! threads.
//!
//! One value can mean two things (`W` is one writer without waiters, and one reader with waiters);
//! a thread that needs to know looks at the queue, under the wait lock.
//!
//! | operation | change | then |
//! |---|---|---|
//! | read | + `A`, Acquire | slow if the value is ≤ 0, or was 2³¹ at least |
//! | write | + `W`, Acquire | slow unless the value is `W` |
//! | read release | − `A` | wake if the value is < −1 and nobody is active |
//! | write release | − `W` | wake if the value is < 0 |
//! | downgrade | − `WAIT` | wake readers if the value is < 0 |
//! | queued writer | `WAIT` → `W`, + `WAIT` if others wait | |
//! | spinner | 0 or `WAIT`, + `W` | |
//!
//! There is no handoff, and so no bound on bypass.
//!
//! # The release that leaves the waking to a spinner
//!
//! If somebody spins, a release that should wake only *tries* the wait lock, and leaves if it is
//! taken: the spinner gets the lock, whose release wakes; or queues, and looks after the others.
//! The kernel orders this with fences. Here: releases are AcqRel; a thread that has queued after
//! spinning looks at the count by a read-modify-write (Release), even if it does not change it. Of
//! the two, one comes second in the count's order. If it is the spinner's, it sees the free lock.
//! If it is the release's, it sees that the spinner has left the OSQ, and does not trust in that
//! one.
//!
//! Source: rwsem of Linux 5.1 ("rwsem-xadd"); Documentation/locking.

use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::section;

use super::KernelRwSem;
use super::grant::{Mode, Wakes};
use super::owner::me;
use super::policy::Policy;

/// One active locker.
pub(super) const A: u64 = 1;
/// The queue is not empty, or a writer is active.
pub(super) const WAIT: u64 = (-1i64 << 32) as u64;
/// One active writer.
pub(super) const W: u64 = WAIT.wrapping_add(A);

/// So many active that no reader may come.
pub(super) const FULL: u64 = 1 << 31;

/// Somebody holds or tries.
const ACTIVE: u64 = 0xffff_ffff;

/// Whether somebody holds or tries.
pub(super) const fn held(count: u64) -> bool {
    count & ACTIVE != 0
}

/// Whether no more readers may come.
pub(super) const fn full(count: u64) -> bool {
    count & FULL != 0
}

/// With a queue that is not empty: whether a writer holds or tries.
pub(super) const fn written(count: u64) -> bool {
    (count as i64) < WAIT as i64
}

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    pub(super) fn biased_try_read(&self) -> bool {
        let mut count = self.count.load(Relaxed);
        // Unsigned: what is below zero is above the end as well.
        while count < FULL {
            match self.count.compare_exchange_weak(count, count + A, Acquire, Relaxed) {
                Ok(_) => {
                    self.own_as_reader();
                    P::count(Event::RwsemRtrylock, 1);
                    return true;
                }
                Err(found) => count = found,
            }
        }
        false
    }

    pub(super) fn biased_try_write(&self) -> bool {
        let taken = self.count.compare_exchange(0, W, Acquire, Relaxed).is_ok();
        if taken {
            self.own_as_writer();
            P::count(Event::RwsemWtrylock, 1);
        }
        taken
    }

    /// Takes the lock for reading past waiters, for a thread that must not queue. The wait lock
    /// keeps the queue as it is meanwhile, which tells what the value means.
    pub(super) fn biased_read_past_waiters(&self) -> bool {
        self.locked(|| {
            let readers_from = if self.queue.is_empty() { 0 } else { WAIT as i64 };
            let mut count = self.count.load(Relaxed);
            while count as i64 >= readers_from && !full(count) {
                match self.count.compare_exchange_weak(count, count.wrapping_add(A), Acquire, Relaxed) {
                    Ok(_) => return true,
                    Err(found) => count = found,
                }
            }
            false
        })
    }

    #[inline]
    pub(super) fn biased_read_fast(&self) -> Result<(), u64> {
        let me = me::<P>();
        let before = self.count.fetch_add(A, Acquire);
        // Unsigned: what is below zero is above the end as well.
        if before >= FULL {
            return Err(before.wrapping_add(A));
        }
        self.owned_by_reader(me, 0);
        Ok(())
    }

    #[inline]
    pub(super) fn biased_write_fast(&self) -> bool {
        let me = me::<P>();
        let free = self.count.fetch_add(W, Acquire) == 0;
        if free {
            self.owned_by_writer(me);
        }
        free
    }

    #[inline]
    pub(super) fn biased_read_release(&self) {
        let count = self.count.fetch_sub(A, AcqRel).wrapping_sub(A);
        if (count as i64) < -1 && !held(count) {
            self.biased_wake();
        }
    }

    /// Also takes back what a writer has only tried.
    #[inline]
    pub(super) fn biased_write_release(&self) {
        let count = self.count.fetch_sub(W, AcqRel).wrapping_sub(W);
        if (count as i64) < 0 {
            self.biased_wake();
        }
    }

    #[inline]
    pub(super) fn biased_downgrade(&self) {
        let count = self.count.fetch_sub(WAIT, Release).wrapping_sub(WAIT);
        self.own_as_reader();
        if (count as i64) < 0 {
            self.wake(Mode::ReadOwned);
        }
    }

    /// A release with waiters. A spinner is trusted to do the waking if the wait lock is taken.
    #[cold]
    fn biased_wake(&self) {
        if !self.osq.is_locked() {
            return self.wake(Mode::Any);
        }
        let mut wakes = Wakes::new();
        section::try_locked(&self.wait_lock, || self.grant(Mode::Any, &mut wakes));
        wakes.wake::<P>();
    }

    /// Keeps writers out for the first reader. `false`: a writer is in.
    pub(super) fn biased_probe(&self) -> bool {
        loop {
            if !written(self.count.fetch_add(A, Acquire)) {
                return true;
            }
            if written(self.count.fetch_sub(A, Relaxed).wrapping_sub(A)) {
                return false;
            }
            // The writer has left again, or only tried. It may have left the waking to us.
            P::relax();
        }
    }

    /// A queued writer tries, under the wait lock.
    pub(super) fn biased_queued_try(&self, thread: &Thread<P>) -> bool {
        if self.count.load(Relaxed) != WAIT {
            return false;
        }
        let next = if self.queue.is_only(thread) { W } else { W.wrapping_add(WAIT) };
        self.count.compare_exchange(WAIT, next, Acquire, Relaxed).is_ok()
    }
}
