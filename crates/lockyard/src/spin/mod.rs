//! Spinlocks: four bytes, one algorithm per file.
//!
//! | lock | what it is for |
//! |---|---|
//! | [`qspinlock`] | the one to use: queued, and it sleeps rather than burn |
//! | [`hq`] | the same, queued by NUMA node while it is contended |
//! | [`cna`] | its comparator: one queue, sorted by NUMA node |
//! | [`mcs`], [`ticket`], [`ttas`] | what they are measured against: the queue lock of the books, and the two that collapse |
//!
//! What the first three share is in [`queued`], [`waiting`], [`lapse`] and [`urgent`], and a place
//! in their queues in [`node`]. They serve threads of fixed priority by it; the others serve in the
//! order of arrival, or in none.

pub mod cna;
pub mod hq;
pub mod lapse;
pub mod mcs;
pub mod node;
pub mod qspinlock;
pub mod queued;
pub mod ticket;
pub mod ttas;
pub mod urgent;
pub mod waiting;

use core::fmt::Debug;

use crate::platform::{Patience, Platform};
use mcs::RawMcsLock;
use queued::{EXACT_COMPETE_NS, Kind, RawQueuedSpinLock};
use ticket::RawTicketLock;
use ttas::RawTtasLock;

/// A kind of spinlock whose whole state is one word: what locks that hold one inside can be built
/// on.
///
/// # Safety
///
/// * [`Word`](WordLock::Word) is `repr(transparent)` over [`Platform::Lanes`], and any value that
///   the lock has left in it may be moved into another such word.
/// * One thread at a time is between [`acquire`](WordLock::acquire) (or a successful try) and
///   [`release`](WordLock::release), and sees what the one before it did.
/// * [`is_unlocked`](WordLock::is_unlocked) is false for every value that the word has while
///   somebody holds the lock.
pub unsafe trait WordLock<P: Platform>: Debug + Default + Send + Sync + 'static {
    /// The name under which it is listed.
    const NAME: &'static str;

    /// The word of a lock that nobody has used.
    const UNLOCKED: u32 = 0;

    /// The lock without what may be beside its word.
    type Word: WordLock<P>;

    /// Whether a lock with this word is held by nobody and waited for by nobody.
    fn is_unlocked(word: u32) -> bool;

    /// Takes the lock.
    fn acquire(&self);

    /// Takes the lock if that is possible now.
    fn try_acquire(&self) -> bool;

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    unsafe fn release(&self);

    /// The lock that is this word.
    #[inline(always)]
    fn of_word(word: &P::Lanes) -> &Self::Word {
        // SAFETY: transparent over it, as implementers of this trait promise.
        unsafe { &*core::ptr::from_ref(word).cast::<Self::Word>() }
    }
}

macro_rules! word_lock {
    ($lock:ident $(<$kind:ident: $bound:ident>)?, $name:expr, $is_unlocked:expr) => {
        // SAFETY: transparent over its word; exclusion is the lock's own promise; the word of a
        // held lock is not what the closure accepts.
        unsafe impl<P: Platform $(, $kind: $bound<P>)?> WordLock<P> for $lock<P $(, $kind)?> {
            const NAME: &'static str = $name;
            type Word = Self;

            #[inline(always)]
            fn is_unlocked(word: u32) -> bool {
                $is_unlocked(word)
            }

            #[inline]
            fn acquire(&self) {
                self.acquire();
            }

            #[inline]
            fn try_acquire(&self) -> bool {
                self.try_acquire()
            }

            #[inline]
            unsafe fn release(&self) {
                // SAFETY: the caller's promise.
                unsafe { self.release() };
            }
        }
    };
}

word_lock!(RawQueuedSpinLock<K: Kind>, K::NAME, |word| word & !u32::from(K::REST) == 0);
word_lock!(RawMcsLock, "mcs", |word| word == 0);
word_lock!(RawTicketLock, "ticket", RawTicketLock::<P>::is_free);
word_lock!(RawTtasLock, "ttas", |word| word == 0);

/// How long a waiter that does not know whom it waits for spins before it gives its CPU away.
///
/// Where the machine tells exactly when a CPU is needed (a simulated kernel) that is long, and ends
/// when it is needed.
pub(crate) fn bout<P: Platform>() -> Patience {
    Patience::ns(P::spin_budget().min(EXACT_COMPETE_NS)).courteous()
}
