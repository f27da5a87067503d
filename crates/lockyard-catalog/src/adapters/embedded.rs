//! What embedders of the locks use, as locks: releases that do not touch the lock afterwards, and
//! condition variables.

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::condvar::{Companion, RawCondvar};
use lockyard::history::{self, KernelRwSem};
use lockyard::mutex::RawMutex;
use lockyard::platform::{Ordering::Relaxed, Platform, Word};
use lockyard::rwsem::RawRwSem;
use lockyard::spin::qspinlock::RawQSpinLock;

use crate::lock::{Lock, Timed, Way};

/// A lock that is released in the detached form; readers of the default ones are counted only when
/// they hold it.
#[derive(Debug, Default)]
pub struct Detached<L>(L);

impl<P: Platform> Lock for Detached<RawMutex<P>> {
    type P = P;

    fn lock(&self, way: Way) {
        self.0.lock(way);
    }

    fn try_lock(&self, way: Way) -> bool {
        self.0.try_lock(way)
    }

    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.0.release_detached() };
    }

    fn is_open(&self, way: Way) -> bool {
        self.0.is_open(way)
    }
}

/// A lock whose fast paths are the embedder's own calls.
#[derive(Debug, Default)]
pub struct Inlined<L>(L);

impl<P: Platform> Lock for Inlined<RawMutex<P>> {
    type P = P;

    fn lock(&self, way: Way) {
        if !P::id().is_some_and(|me| self.0.try_acquire_as(me)) {
            self.0.lock(way);
        }
    }

    fn try_lock(&self, way: Way) -> bool {
        P::id().is_some_and(|me| self.0.try_acquire_as(me)) || self.0.try_lock(way)
    }

    unsafe fn unlock(&self, _way: Way) {
        if !P::id().is_some_and(|me| self.0.try_release_as(me)) {
            // SAFETY: the caller's promise.
            unsafe { self.0.release_detached() };
        }
    }
}

macro_rules! detached {
    ($lock:ident $(<$policy:ident: $bound:path>)?, $read:ident) => {
impl<P: Platform $(, $policy: $bound)?> Lock for Detached<$lock<P $(, $policy)?>> {
    type P = P;
    const WAYS: &'static [Way] = &[Way::Write, Way::Read];

    fn lock(&self, way: Way) {
        let taken = self.lock_until(way, Until::FOREVER);
        assert_eq!(taken, Ok(()), "a wait without end has ended");
    }

    fn try_lock(&self, way: Way) -> bool {
        self.0.try_lock(way)
    }

    unsafe fn unlock(&self, way: Way) {
        // SAFETY: the caller's promise.
        unsafe {
            match way {
                Way::Write => self.0.write_release_detached(),
                // As the preload library does.
                Way::Read => {
                    if !self.0.try_read_release_unasked() {
                        self.0.read_release_detached();
                    }
                }
            }
        }
    }

    fn is_open(&self, way: Way) -> bool {
        self.0.is_open(way)
    }

    fn state(&self) -> String {
        self.0.state()
    }
}

impl<P: Platform $(, $policy: $bound)?> Timed for Detached<$lock<P $(, $policy)?>> {
    fn lock_until(&self, way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        match way {
            Way::Write => self.0.write_acquire_until(until),
            Way::Read => self.0.$read(until),
        }
    }
}
    };
}

detached!(RawRwSem, read_acquire_queued);
detached!(KernelRwSem<Y: history::rwsem::policy::Policy>, read_acquire_until);

impl<P: Platform> Timed for Detached<RawMutex<P>> {
    fn lock_until(&self, way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.0.lock_until(way, until)
    }
}

/// A spinlock, as what a thread gives up while it waits: it has no queue for strangers, so its
/// waiters are woken and take it themselves.
#[derive(Debug)]
pub struct Spinning<P: Platform>(RawQSpinLock<P>);

impl<P: Platform> Default for Spinning<P> {
    fn default() -> Self {
        Self(RawQSpinLock::default())
    }
}

impl<P: Platform> Companion<P> for Spinning<P> {
    fn acquire(&self) {
        self.0.acquire();
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.release() };
    }
}

/// A lock made of a flag, guarded by a lock, and a condition variable: a thread that finds the flag
/// set waits until it is signalled.
///
/// Every wait is a wait on the condition variable, so whatever tests a lock tests that.
#[derive(Debug)]
pub struct Monitor<P: Platform, C> {
    guard: C,
    condvar: RawCondvar<P>,
    held: P::U32,
}

impl<P: Platform, C: Default> Default for Monitor<P, C> {
    fn default() -> Self {
        Self { guard: C::default(), condvar: RawCondvar::default(), held: P::U32::default() }
    }
}

impl<P: Platform, C: Companion<P>> Monitor<P, C> {
    fn guarded<R>(&self, act: impl FnOnce() -> R) -> R {
        self.guard.acquire();
        let result = act();
        // SAFETY: acquired above.
        unsafe { self.guard.release() };
        result
    }

    fn take(&self) -> bool {
        let free = self.held.load(Relaxed) == 0;
        if free {
            self.held.store(1, Relaxed);
        }
        free
    }
}

impl<P: Platform, C: Companion<P> + Default + core::fmt::Debug + Send + Sync> Lock for Monitor<P, C> {
    type P = P;

    fn lock(&self, way: Way) {
        let taken = self.lock_until(way, Until::FOREVER);
        assert_eq!(taken, Ok(()), "a wait without end has ended");
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.guarded(|| self.take())
    }

    unsafe fn unlock(&self, _way: Way) {
        self.guarded(|| {
            self.held.store(0, Relaxed);
            self.condvar.signal();
        });
    }
}

impl<P: Platform, C: Companion<P> + Default + core::fmt::Debug + Send + Sync> Timed for Monitor<P, C> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.guarded(|| {
            loop {
                if self.take() {
                    return Ok(());
                }
                // SAFETY: `guarded` holds it.
                if let Err(end) = unsafe { self.condvar.wait(&self.guard, until) } {
                    return if self.take() { Ok(()) } else { Err(end) };
                }
            }
        })
    }
}
