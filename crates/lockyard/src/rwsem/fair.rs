//! Releases that hand over: nobody passes the first waiter.

use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::turn;

use super::turns::Want;
use super::{BIAS, READERS, RawRwSem};

impl<P: Platform> RawRwSem<P> {
    /// Releases a read lock; if no other reader is inside when this is called, the first waiter is
    /// the next to take the lock.
    ///
    /// # Safety
    /// As [`RawRwSem::read_release`].
    pub unsafe fn read_release_fair(&self) {
        if self.count.load(Relaxed) & READERS == BIAS {
            self.ask_to_hand_over();
        }
        // SAFETY: the caller's promise.
        unsafe { self.read_release() };
    }

    /// Releases the write lock; the first waiter is the next to take it.
    ///
    /// # Safety
    /// As [`RawRwSem::write_release`].
    pub unsafe fn write_release_fair(&self) {
        self.ask_to_hand_over();
        // SAFETY: the caller's promise.
        unsafe { self.write_release() };
    }

    fn ask_to_hand_over(&self) {
        if self.is_contended() {
            turn::ask_to_hand_over(&Want::<_, true>(self));
        }
    }
}
