//! Releases that hand over: nobody passes the first waiter.

use crate::platform::Platform;
use crate::wait::turn;

use super::RawRwSem;
use super::policy::Policy;
use super::turns::Want;

impl<P: Platform, Y: Policy> RawRwSem<P, Y> {
    /// Releases a read lock; the first waiter is the next to take the lock when it is free. (The
    /// kernel's policies: as [`RawRwSem::read_release`].)
    ///
    /// # Safety
    /// As [`RawRwSem::read_release`].
    pub unsafe fn read_release_fair(&self) {
        self.ask_to_hand_over();
        // SAFETY: the caller's promise.
        unsafe { self.read_release() };
    }

    /// Releases the write lock; the first waiter is the next to take it. (The kernel's policies: as
    /// [`RawRwSem::write_release`].)
    ///
    /// # Safety
    /// As [`RawRwSem::write_release`].
    pub unsafe fn write_release_fair(&self) {
        self.ask_to_hand_over();
        // SAFETY: the caller's promise.
        unsafe { self.write_release() };
    }

    fn ask_to_hand_over(&self) {
        if Y::TURNS && self.is_contended() {
            turn::ask_to_hand_over(&Want::<_, _, true>(self));
        }
    }
}
