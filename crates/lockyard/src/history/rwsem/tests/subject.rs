//! A lock of any policy on any machine, as one type: so that each test is compiled once.

use core::sync::atomic::Ordering::SeqCst;
use std::boxed::Box;
use std::vec::Vec;

use crate::cancel::{CancelToken, GaveUp, Until};
use crate::history::rwsem::grant::Mode;
use crate::history::rwsem::owner::me;
use crate::history::rwsem::policy::{CountScheme, Knobs, Policy};
use crate::history::rwsem::{HANDOFF, KernelRwSem, WRITER, biased};
use crate::platform::{Platform, Word};
use crate::rwsem::tests::subject::{End, Subject, waiting};

/// What only the kernel's forms have.
pub(super) trait KernelSubject: Subject {
    fn knobs(&self) -> Knobs;
    fn owner(&self) -> u32;
    fn me(&self) -> u32;
    fn grant_pass(&self);
    fn set_nonspinnable(&self);
    fn own_as_reader(&self);
    fn own_as_writer(&self);

    fn is_bits(&self) -> bool {
        self.knobs().count == CountScheme::Bits
    }
}

pub(super) fn assert_at_rest<P: Platform, Y: Policy>(lock: &KernelRwSem<P, Y>) {
    assert_eq!(lock.count.load(SeqCst), 0, "{}: count at rest", Y::NAME);
    assert!(lock.queue.is_empty() && !lock.osq.is_locked() && !lock.wait_lock.is_locked(), "{}", Y::NAME);
    assert_eq!(lock.reader_spinners.load(SeqCst), 0, "{}", Y::NAME);
    assert_eq!(lock.embedder.load(SeqCst), 0, "{}", Y::NAME);
}

struct Lock<P: Platform, Y: Policy> {
    lock: KernelRwSem<P, Y>,
    tokens: Vec<CancelToken<P>>,
}

/// An unlocked lock with so many tokens.
pub(super) fn subject<P: Platform, Y: Policy>(tokens: usize) -> Box<dyn KernelSubject> {
    Box::new(Lock::<P, Y> {
        lock: KernelRwSem::default(),
        tokens: (0..tokens).map(|_| CancelToken::default()).collect(),
    })
}

/// The same, for the tests that every form passes.
pub(super) fn kernel<P: Platform, Y: Policy>(tokens: usize) -> Box<dyn Subject> {
    subject::<P, Y>(tokens)
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
    fn unit(&self) -> u64 {
        Y::COUNT.unit()
    }
    fn writer(&self) -> u64 {
        if self.is_bits() { WRITER } else { biased::W }
    }
    fn waiters(&self) -> u64 {
        Y::COUNT.waiters()
    }
    fn requests(&self) -> u64 {
        if self.is_bits() { HANDOFF } else { 0 }
    }
    fn hands_off(&self) -> bool {
        Y::HANDOFF.exists()
    }
    fn turns(&self) -> bool {
        false
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
        self.lock.write_past_waiters(me::<P>())
    }
    fn spinner_read(&self) -> bool {
        self.lock.spinner_read_try(me::<P>())
    }
    fn assert_at_rest(&self) {
        assert_at_rest(&self.lock);
    }
}

impl<P: Platform, Y: Policy> KernelSubject for Lock<P, Y> {
    fn knobs(&self) -> Knobs {
        Y::KNOBS
    }
    fn owner(&self) -> u32 {
        self.lock.owner.load(SeqCst)
    }
    fn me(&self) -> u32 {
        me::<P>().raw()
    }
    fn grant_pass(&self) {
        self.lock.wake(Mode::Any);
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
}
