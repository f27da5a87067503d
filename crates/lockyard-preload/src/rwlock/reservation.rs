//! How long a waiting writer keeps readers out of a lock that is read: for the default kinds.
//!
//! A reader may wait for another one, of another thread: a waiting writer must not keep that one
//! out for ever. Readers that come one after the other must not keep a writer out either. So a
//! waiting writer has the lock *reserved*, and the reservation ends.
//!
//! | event | what follows |
//! |---|---|
//! | a reader has to wait | it is kept out for [`FIRST_NS`] |
//! | it has waited that long, and readers hold the lock | it opens: it goes in, and so may all readers that came before; a new reservation begins, twice as long, up to [`FIRST_NS`] << [`MOST`] |
//! | a reader comes later | it is kept out until the next opening |
//! | a writer that has waited gets the lock, or gives up | all is as at first |
//!
//! **Bounds.** A reader for which another one waits gets in when it has waited for the reservation,
//! 32 ms at most, and a look later. A writer is passed at an opening, once, by the readers that
//! have waited for it. It gets the lock before the next opening unless a reader holds it for longer
//! than it is reserved. Where all readers hold it for less than 2 ms, an opening can only serve a
//! reader that has waited for 2 ms behind other waiters. Against readers that overlap and hold the
//! lock for more than 32 ms each, a writer has no bound, as on glibc.
//!
//! Attempts that do not wait (`tryrdlock`), and readers whose time is up, go in beside readers at
//! once, as on glibc.
//!
//! **The word.** The time of the last opening in units of 65 µs, 29 bits, above the level; 0: none.
//! The time wraps in ten hours. All accesses are Relaxed: the word decides which reader may try,
//! not which enters. A stale value costs one reservation.

use core::sync::atomic::{AtomicU32, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

/// How long readers are kept out at first.
const FIRST_NS: u64 = 2_000_000;
/// How often that doubles.
const MOST: u32 = 4;

const UNIT_BITS: u32 = 16;
const LEVEL_BITS: u32 = 3;
const TIMES: u32 = u32::MAX >> LEVEL_BITS;

/// A lock's word.
#[repr(transparent)]
pub(super) struct Reservation(AtomicU32);

/// When a reader came, in the word's units.
#[derive(Clone, Copy)]
pub(super) struct Came(u32);

fn time(ns: u64) -> u32 {
    (ns >> UNIT_BITS) as u32 & TIMES
}

impl Came {
    pub(super) fn now() -> Self {
        Self(time(Linux::now()))
    }
}

impl Reservation {
    /// Whether a reader that came then, and still waits, may go in beside others.
    #[cold]
    pub(super) fn is_over(&self, came: Came) -> bool {
        self.is_over_at(came, time(Linux::now()))
    }

    fn is_over_at(&self, came: Came, now: u32) -> bool {
        let word = self.0.load(Relaxed);
        let opened = word >> LEVEL_BITS;
        let since = |then: u32| now.wrapping_sub(then) & TIMES;
        if word != 0 && since(opened) < since(came.0) {
            return true;
        }
        let level = word & ((1 << LEVEL_BITS) - 1);
        if since(came.0) < time(FIRST_NS << level) {
            return false;
        }
        // The level is not 0 any more, so an opening at time 0 can be told from none.
        let next = now << LEVEL_BITS | (level + 1).min(MOST);
        let _ = self.0.compare_exchange(word, next, Relaxed, Relaxed);
        true
    }

    /// A writer that has waited does not any more.
    pub(super) fn end(&self) {
        if self.0.load(Relaxed) != 0 {
            self.0.store(0, Relaxed);
        }
    }
}
