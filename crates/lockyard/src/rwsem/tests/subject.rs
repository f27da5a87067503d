//! A lock of any policy on any machine, as one type: so that each test is compiled once.

use core::sync::atomic::Ordering::SeqCst;
use std::boxed::Box;
use std::vec::Vec;

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::platform::{Platform, Word};
use crate::rwsem::RawRwSem;
use crate::rwsem::grant::Mode;
use crate::rwsem::owner::me;
use crate::rwsem::policy::{CountScheme, Knobs, Policy};

/// When a wait ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    /// After so many nanoseconds.
    After(u64),
    /// When the subject's token of this number is cancelled.
    Token(usize),
}

/// The lock under test. Its words can be read and set; whoever does that knows what it means.
pub(super) trait Subject: Sync {
    fn name(&self) -> &'static str;
    fn knobs(&self) -> Knobs;

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
    fn owner(&self) -> u32;
    fn me(&self) -> u32;
    fn waiting(&self) -> usize;
    fn unpark_first(&self);
    fn grant_pass(&self);
    fn spinner_write(&self) -> bool;
    fn spinner_read(&self) -> bool;
    fn set_nonspinnable(&self);
    fn own_as_reader(&self);
    fn own_as_writer(&self);
    fn assert_at_rest(&self);

    fn is_bits(&self) -> bool {
        self.knobs().count == CountScheme::Bits
    }
}

struct Lock<P: Platform, Y: Policy> {
    lock: RawRwSem<P, Y>,
    tokens: Vec<CancelToken<P>>,
}

/// An unlocked lock with so many tokens.
pub(super) fn subject<P: Platform, Y: Policy>(tokens: usize) -> Box<dyn Subject> {
    Box::new(Lock::<P, Y> { lock: RawRwSem::default(), tokens: (0..tokens).map(|_| CancelToken::default()).collect() })
}

impl<P: Platform, Y: Policy> Lock<P, Y> {
    fn until(&self, end: End) -> Until<'_, P> {
        match end {
            End::After(ns) => Until::after(ns),
            End::Token(number) => Until::cancelled(&self.tokens[number]),
        }
    }
}

impl<P: Platform, Y: Policy> Subject for Lock<P, Y> {
    fn name(&self) -> &'static str {
        Y::NAME
    }
    fn knobs(&self) -> Knobs {
        Y::KNOBS
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
    fn owner(&self) -> u32 {
        self.lock.owner.load(SeqCst)
    }
    fn me(&self) -> u32 {
        me::<P>().raw()
    }
    fn waiting(&self) -> usize {
        super::waiting(&self.lock)
    }
    fn unpark_first(&self) {
        if let Some(first) = self.lock.queue.first() {
            first.unpark();
        }
    }
    fn grant_pass(&self) {
        self.lock.wake(Mode::Any);
    }
    fn spinner_write(&self) -> bool {
        self.lock.write_past_waiters(me::<P>())
    }
    fn spinner_read(&self) -> bool {
        self.lock.spinner_read_try(me::<P>())
    }
    fn set_nonspinnable(&self) {
        self.lock.set_nonspinnable();
    }
    fn own_as_reader(&self) {
        self.lock.own_as_reader();
    }
    fn own_as_writer(&self) {
        self.lock.own_as_writer();
    }
    fn assert_at_rest(&self) {
        super::assert_at_rest(&self.lock);
    }
}
