//! What a kernel does around a hold: preemption or interrupts off before the lock is waited for,
//! and on again behind its release.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use lock_api::{GuardNoSend, RawMutex, RawRwLock};

/// What is done around each hold of an [`Around`] lock.
///
/// What `enter` finds and changes, as whether interrupts were on, it returns; `leave` gets it back.
/// Holds nest, and may end in another order than they began in: a state that is put back too early
/// has to be counted by the CPU instead.
pub trait Hold {
    /// What is put back.
    type State;
    /// Before the lock is waited for, or tried.
    fn enter() -> Self::State;
    /// After its release, or after an attempt that failed or panicked.
    fn leave(state: Self::State);
}

/// The lock `L`, held with what `H` does around.
///
/// It guarantees what `L` guarantees. Between [`Hold::enter`] and [`Hold::leave`] are the wait and
/// the hold: with interrupts off, no handler of this CPU can wait for a lock that its CPU holds. An
/// attempt that fails leaves at once. Guards stay with their thread. Cost: the two calls.
///
/// ```
/// use lockyard::lock_api::Mutex;
/// use lockyard::platform::Native;
/// use lockyard::raw::{Around, Hold, RawQSpinLock};
///
/// struct NoInterrupts;
///
/// impl Hold for NoInterrupts {
///     type State = bool;
///     fn enter() -> bool {
///         /* turn them off; whether they were on: */ true
///     }
///     fn leave(were_on: bool) {
///         if were_on { /* turn them on */ }
///     }
/// }
///
/// type IrqMutex<T> = Mutex<Around<RawQSpinLock<Native>, NoInterrupts>, T>;
///
/// static READY: IrqMutex<Vec<u32>> = IrqMutex::new(Vec::new());
/// READY.lock().push(1);
/// assert_eq!(*READY.lock(), [1]);
/// ```
pub struct Around<L, H> {
    lock: L,
    hold: PhantomData<fn() -> H>,
}

impl<L: fmt::Debug, H> fmt::Debug for Around<L, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

/// What a hold has: the lock's own, what is put back, and that it stays with its thread.
type Inside<G, H> = (G, <H as Hold>::State, GuardNoSend);

/// Leaves when it is dropped, by a panic of the lock's too.
struct Entered<H: Hold>(ManuallyDrop<H::State>);

impl<H: Hold> Entered<H> {
    #[inline]
    fn new(state: H::State) -> Self {
        Self(ManuallyDrop::new(state))
    }

    /// The lock is had: the hold has the state.
    #[inline]
    fn with<G>(self, guard: G) -> Inside<G, H> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, and nobody else sees it.
        (guard, unsafe { ManuallyDrop::take(&mut this.0) }, GuardNoSend::new())
    }
}

impl<H: Hold> Drop for Entered<H> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is its end, and `with` has not taken it.
        H::leave(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

#[inline]
fn inside<G, H: Hold>(lock: impl FnOnce() -> G) -> Inside<G, H> {
    let entered = Entered::<H>::new(H::enter());
    let guard = lock();
    entered.with(guard)
}

#[inline]
fn attempted<G, H: Hold>(attempt: impl FnOnce() -> Option<G>) -> Option<Inside<G, H>> {
    let entered = Entered::<H>::new(H::enter());
    let guard = attempt()?;
    Some(entered.with(guard))
}

// SAFETY: the lock's own exclusion.
unsafe impl<L: RawMutex, H: Hold> RawMutex for Around<L, H> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self { lock: L::INIT, hold: PhantomData };

    type Guard = Inside<L::Guard, H>;

    #[inline]
    fn lock(&self) -> Self::Guard {
        inside::<_, H>(|| self.lock.lock())
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard> {
        attempted::<_, H>(|| self.lock.try_lock())
    }

    #[inline]
    unsafe fn unlock(&self, (guard, state, _): Self::Guard) {
        let _entered = Entered::<H>::new(state);
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock(guard) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }
}

// SAFETY: the lock's own exclusion.
unsafe impl<L: RawRwLock, H: Hold> RawRwLock for Around<L, H> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way of naming a constructor
    const INIT: Self = Self { lock: L::INIT, hold: PhantomData };

    type SharedGuard = Inside<L::SharedGuard, H>;
    type ExclusiveGuard = Inside<L::ExclusiveGuard, H>;

    #[inline]
    fn lock_shared(&self) -> Self::SharedGuard {
        inside::<_, H>(|| self.lock.lock_shared())
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<Self::SharedGuard> {
        attempted::<_, H>(|| self.lock.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self, (guard, state, _): Self::SharedGuard) {
        let _entered = Entered::<H>::new(state);
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock_shared(guard) };
    }

    #[inline]
    fn lock_exclusive(&self) -> Self::ExclusiveGuard {
        inside::<_, H>(|| self.lock.lock_exclusive())
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<Self::ExclusiveGuard> {
        attempted::<_, H>(|| self.lock.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, (guard, state, _): Self::ExclusiveGuard) {
        let _entered = Entered::<H>::new(state);
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock_exclusive(guard) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.lock.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.lock.is_locked_exclusive()
    }
}
