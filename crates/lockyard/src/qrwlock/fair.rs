//! Releases that hand over: the lock is reserved for the first waiter before it is free.
//!
//! They touch the lock before their one step on the word, as plain ones do not after it.

use super::turns::Want;
use super::{READER, RawQRwLock, WRITERS};
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::turn;

impl<P: Platform> RawQRwLock<P> {
    /// Releases a read lock; if no other reader is inside when this is called, the first waiter is
    /// the next to take the lock.
    ///
    /// # Safety
    /// As [`RawQRwLock::read_release`].
    pub unsafe fn read_release_fair(&self) {
        if self.word.load(Relaxed) & !WRITERS == READER {
            // A reader registers nobody: its release may not be the one that follows.
            self.ask_to_hand_over::<false>();
        }
        // SAFETY: the caller's promise.
        unsafe { self.read_release() };
    }

    /// Releases the write lock; the first waiter is the next to take it.
    ///
    /// # Safety
    /// As [`RawQRwLock::write_release`].
    pub unsafe fn write_release_fair(&self) {
        self.ask_to_hand_over::<true>();
        // SAFETY: the caller's promise.
        unsafe { self.write_release() };
    }

    fn ask_to_hand_over<const WRITE: bool>(&self) {
        if self.is_contended() {
            turn::ask_to_hand_over(&Want::<_, WRITE>(self));
        }
    }
}
