//! An rwsem of any form on any machine, as one type: so that each test is compiled once.

use core::sync::atomic::Ordering::SeqCst;
use std::boxed::Box;
use std::vec::Vec;

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::{Platform, Word};
use crate::rwsem::turns::Want;
use crate::rwsem::{ASKS, BIAS, HANDOFF, LISTENING, RawRwSem, WRITER};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::queue::WaitQueue;
use crate::wait::section;
use crate::wait::turn::Contended;

/// How many wait in `queue`, which `wait_lock` guards.
pub(crate) fn waiting<P: Platform>(wait_lock: &RawQSpinLock<P>, queue: &WaitQueue<P>) -> usize {
    section::locked(wait_lock, || core::iter::successors(queue.first(), |thread| queue.after(thread)).count())
}

/// When a wait ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// After so many nanoseconds.
    After(u64),
    /// When the subject's token of this number is cancelled.
    Token(usize),
}

/// The lock under test. Its words can be read and set; whoever does that knows what it means.
pub(crate) trait Subject: Sync {
    fn name(&self) -> &'static str;
    /// What one reader adds to the count.
    fn unit(&self) -> u64;
    /// What a writer adds.
    fn writer(&self) -> u64;
    /// What a queue that is not empty adds.
    fn waiters(&self) -> u64;
    /// The bits that may be set beside while somebody waits.
    fn requests(&self) -> u64;
    /// Whether a waiter may have the lock kept for it, by the bit `HANDOFF`.
    fn hands_off(&self) -> bool;
    /// Whether a waiter may have it kept for a newcomer's sake, too.
    fn turns(&self) -> bool;

    fn read(&self);
    fn write(&self);
    fn try_read(&self) -> bool;
    fn try_write(&self) -> bool;
    fn read_until(&self, end: End) -> Result<(), GaveUp>;
    fn write_until(&self, end: End) -> Result<(), GaveUp>;
    /// Tests release what they have acquired.
    fn read_release(&self);
    fn write_release(&self);
    fn downgrade(&self);
    fn is_locked(&self) -> bool;
    fn is_write_locked(&self) -> bool;
    fn is_contended(&self) -> bool;

    fn cancel(&self, token: usize);
    /// Whether the calling thread is to look as if it were already in a queue.
    fn set_busy(&self, busy: bool);

    fn count(&self) -> u64;
    fn set_count(&self, count: u64);
    fn waiting(&self) -> usize;
    fn unpark_first(&self);
    fn spinner_write(&self) -> bool;
    fn spinner_read(&self) -> bool;
    fn assert_at_rest(&self);
}

struct Lock<P: Platform> {
    lock: RawRwSem<P>,
    tokens: Vec<CancelToken<P>>,
}

/// An unlocked lock with so many tokens.
pub(crate) fn subject<P: Platform>(tokens: usize) -> Box<dyn Subject> {
    Box::new(Lock::<P> { lock: RawRwSem::default(), tokens: (0..tokens).map(|_| CancelToken::default()).collect() })
}

impl<P: Platform> Lock<P> {
    fn until(&self, end: End) -> Until<'_, P> {
        match end {
            End::After(ns) => Until::after(ns),
            End::Token(number) => Until::cancelled(&self.tokens[number]),
        }
    }
}

impl<P: Platform> Subject for Lock<P> {
    fn name(&self) -> &'static str {
        "today"
    }
    fn unit(&self) -> u64 {
        BIAS
    }
    fn writer(&self) -> u64 {
        WRITER
    }
    fn waiters(&self) -> u64 {
        0
    }
    fn requests(&self) -> u64 {
        HANDOFF | LISTENING | ASKS
    }
    fn hands_off(&self) -> bool {
        true
    }
    fn turns(&self) -> bool {
        true
    }
    fn read(&self) {
        self.lock.read_acquire();
    }
    fn write(&self) {
        self.lock.write_acquire();
    }
    fn try_read(&self) -> bool {
        self.lock.try_read_acquire()
    }
    fn try_write(&self) -> bool {
        self.lock.try_write_acquire()
    }
    fn read_until(&self, end: End) -> Result<(), GaveUp> {
        self.lock.read_acquire_until(self.until(end))
    }
    fn write_until(&self, end: End) -> Result<(), GaveUp> {
        self.lock.write_acquire_until(self.until(end))
    }
    fn read_release(&self) {
        // SAFETY: tests release what they have acquired.
        unsafe { self.lock.read_release() };
    }
    fn write_release(&self) {
        // SAFETY: tests release what they have acquired.
        unsafe { self.lock.write_release() };
    }
    fn downgrade(&self) {
        // SAFETY: tests downgrade what they have acquired.
        unsafe { self.lock.downgrade() };
    }
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
    fn is_write_locked(&self) -> bool {
        self.lock.is_write_locked()
    }
    fn is_contended(&self) -> bool {
        self.lock.is_contended()
    }
    fn cancel(&self, token: usize) {
        self.tokens[token].cancel();
    }
    fn set_busy(&self, busy: bool) {
        P::current().unwrap().waiter.busy.store(u32::from(busy), SeqCst);
    }
    fn count(&self) -> u64 {
        self.lock.count.load(SeqCst)
    }
    fn set_count(&self, count: u64) {
        self.lock.count.store(count, SeqCst);
    }
    fn waiting(&self) -> usize {
        waiting(&self.lock.wait_lock, &self.lock.queue)
    }
    fn unpark_first(&self) {
        if let Some(first) = self.lock.queue.first() {
            first.unpark();
        }
    }
    fn spinner_write(&self) -> bool {
        Want::<P, true>(&self.lock).try_take(false)
    }
    fn spinner_read(&self) -> bool {
        Want::<P, false>(&self.lock).try_take(false)
    }
    fn assert_at_rest(&self) {
        let lock = &self.lock;
        assert_eq!(lock.count.load(SeqCst), 0, "count at rest");
        assert!(lock.queue.is_empty() && !lock.osq.is_locked() && !lock.wait_lock.is_locked());
        assert_eq!((lock.unused.load(SeqCst), lock.embedder.load(SeqCst)), (0, 0));
    }
}
