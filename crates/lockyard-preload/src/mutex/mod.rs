//! `pthread_mutex_*`: the object, and the four kinds on top of a lock.
//!
//! # The object (40 bytes, all-zero is an unlocked mutex of the normal kind)
//!
//! | bytes | glibc | here |
//! |---|---|---|
//! | 0–3 | `__lock` | the lock word |
//! | 4–7 | `__count` | depth of a recursive mutex |
//! | 8–11 | `__owner` | the kernel's name of the owner, for debuggers; nothing is decided by it |
//! | 12–15 | `__nusers` | wait lock |
//! | 16–19 | `__kind` | the kind, glibc's; static initialisers write only this |
//! | 20–27 | | spin queue, waiters |
//! | 28–31 | | class, for statistics |
//! | 32–35 | `__list` | who holds a recursive or error-checking mutex: `Block::identity`, which survives fork |
//! | 36–39 | `__list` | generation: see `fork` |
//!
//! With `LOCKYARD_MUTEX=spin` or `hq` only the first word is used for locking.
//!
//! A kind with any bit beyond the four private ones (robust, priority inheritance or protection,
//! process-shared, and -1 after `destroy`) is glibc's object, untouched.
//!
//! # With priority inheritance (`LOCKYARD_MUTEX=rt`, and the mutex has `PTHREAD_PRIO_INHERIT`)
//!
//! | bytes | here |
//! |---|---|
//! | 0–15, 20–23 | [`RawRtMutex`]: the kernel's word, with the owner's kernel name as in glibc; flags, wait lock, spin queue, waiters |
//! | 16–19 | the kind, with glibc's bit for inheritance |
//! | 24–27 | class, for statistics |
//! | 28–31 | depth of a recursive mutex |
//! | 32–35 | who holds a recursive or error-checking mutex |
//!
//! As in glibc, a call that can only hang, on one's own mutex or that of a thread that has ended,
//! hangs until its deadline, unless the mutex is recursive or checks errors: then it returns
//! `EDEADLK` or `ENOTRECOVERABLE`. Unlocking another thread's returns `EPERM`, whatever the kind.
//! Signalled waiters of a condition variable are woken, and wait for it by their priorities. In a
//! child process the forking thread unlocks what it held; as in glibc, one that another thread held
//! stays locked. It must not be freed before every `unlock` has returned.
//!
//! `calls` has the functions that C calls, `fast` what they try first.
//!
//! **Destruction.** POSIX lets the next owner free a mutex while the thread that released it is
//! still in the call. Hence [`release_detached`](RawMutex::release_detached); the spinlocks are so
//! by nature.

mod calls;
mod fast;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{EAGAIN, EBUSY, EDEADLK, EINVAL, ENOTRECOVERABLE, EPERM, ETIMEDOUT, clockid_t, pthread_mutex_t, timespec};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex::{PiError, RawRtMutex};
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_segment::{self as segment, Call, Holder};

use crate::config::{self, MutexKind};
use crate::deadline::Deadline;
use crate::fork;
use crate::thread::{self, Block};
use crate::watch::{self, Patience, Told};

pub use calls::*;

/// The default kind; static initialisers of zeroes.
pub(crate) const NORMAL: u32 = 0;
/// May be taken again by its owner.
pub(crate) const RECURSIVE: u32 = 1;
/// Refuses what the others leave undefined.
pub(crate) const ERRORCHECK: u32 = 2;
/// As normal: here every mutex spins.
pub(crate) const ADAPTIVE: u32 = 3;
const DESTROYED: u32 = u32::MAX;
/// The types, one of the four above.
const TYPE: u32 = 3;
/// glibc's bit of a kind with priority inheritance.
const INHERIT: u32 = 0x20;

const COUNT: usize = 4;
const OWNER: usize = 8;
const KIND: usize = 16;
/// Where a mutex has its class.
const CLASS: usize = 28;
/// Where a mutex with priority inheritance has its depth.
const INHERITING_COUNT: usize = 28;
/// Where it has its class.
const INHERITING_CLASS: usize = 24;

/// A `pthread_mutex_t` of ours: its first 40 bytes. (On AArch64 it has 48.)
#[repr(C)]
pub(crate) struct MutexObject {
    raw: RawMutex<Linux>,
    holder: AtomicU32,
    generation: AtomicU32,
}

const _: () = {
    assert!(size_of::<MutexObject>() == 40 && 40 <= size_of::<pthread_mutex_t>());
    assert!(align_of::<MutexObject>() <= align_of::<pthread_mutex_t>());
    assert!(core::mem::offset_of!(MutexObject, holder) == 32);
};

impl MutexObject {
    /// # Safety
    /// `mutex` points to a mutex that lasts as long as the result is used.
    #[inline(always)]
    pub(crate) unsafe fn at<'a>(mutex: *mut pthread_mutex_t) -> &'a Self {
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        unsafe { &*mutex.cast() }
    }

    #[inline(always)]
    fn field(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: inside the object, aligned, and in a word that the lock leaves to its embedder,
        // which is atomic, too.
        unsafe { &*core::ptr::from_ref(self).cast::<u8>().add(offset).cast::<AtomicU32>() }
    }

    #[inline(always)]
    fn kind(&self) -> u32 {
        self.field(KIND).load(Relaxed)
    }

    fn spin(&self) -> &RawQSpinLock<Linux> {
        // SAFETY: the first word of the object, which is used by this lock alone: one choice for
        // the whole process.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    fn hq(&self) -> &RawHqSpinLock<Linux> {
        // SAFETY: as in `spin`.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    fn rt(&self) -> &RawRtMutex<Linux> {
        const _: () = assert!(size_of::<RawRtMutex<Linux>>() <= INHERITING_CLASS);
        // SAFETY: the first bytes of the object, aligned as it is; this lock leaves the kind to its
        // embedder, and no other uses them in an object of that kind.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    /// The type of mutex and the lock under it, or `None`: the object is glibc's.
    pub(crate) fn ours(&self) -> Option<(u32, MutexKind)> {
        let kind = self.kind();
        match kind & !TYPE {
            0 => match config::mutex() {
                MutexKind::Glibc => None,
                lock => Some((kind, lock)),
            },
            INHERIT if config::inheriting() => Some((kind & TYPE, MutexKind::Rt)),
            _ => None,
        }
    }

    /// The lock into whose queue a condition variable may put waiters.
    pub(crate) fn raw(&self, lock: MutexKind) -> Option<&RawMutex<Linux>> {
        (lock == MutexKind::Mutex).then_some(&self.raw)
    }

    /// Notes the new owner.
    #[inline]
    pub(crate) fn owned(&self, kind: u32, lock: MutexKind, me: &Block) {
        let identity = if Self::knows_holder(kind) { me.identity() } else { 0 };
        self.owned_by(identity, kind, lock, me);
    }

    /// As [`Self::owned`]; `identity` is that of `me`, the new owner, where the kind keeps it.
    #[inline(always)]
    pub(crate) fn owned_by(&self, identity: u32, kind: u32, lock: MutexKind, me: &Block) {
        if Self::knows_holder(kind) {
            self.holder.store(identity, Relaxed);
            if kind == RECURSIVE {
                self.count(lock == MutexKind::Rt).store(1, Relaxed);
            }
        }
        if lock != MutexKind::Rt {
            self.field(OWNER).store(me.tid(), Relaxed);
        }
    }

    /// Whether mutexes of this kind know their holder.
    #[inline(always)]
    fn knows_holder(kind: u32) -> bool {
        kind == RECURSIVE || kind == ERRORCHECK
    }

    /// Where a recursive mutex has its depth.
    #[inline(always)]
    fn count(&self, inheriting: bool) -> &AtomicU32 {
        self.field(if inheriting { INHERITING_COUNT } else { COUNT })
    }

    /// Before a holder gives the mutex up: it is nobody's.
    pub(crate) fn disown(&self, kind: u32) {
        self.holder.store(0, Relaxed);
        if kind == RECURSIVE {
            self.set_depth(0);
        }
    }

    /// Whether the caller holds this recursive or error-checking mutex.
    pub(crate) fn held_by(&self, me: &Block) -> bool {
        self.holder.load(Relaxed) == me.identity()
    }

    /// The depth of a recursive mutex.
    pub(crate) fn depth(&self) -> u32 {
        self.count(self.kind() & INHERIT != 0).load(Relaxed)
    }

    /// Changes the depth of a recursive mutex, which the caller holds.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.count(self.kind() & INHERIT != 0).store(depth, Relaxed);
    }

    /// See `fork`.
    pub(crate) fn settle(&self, lock: MutexKind) {
        fork::settle(&self.generation, || {
            // SAFETY: a waiter settles first, so nobody of this process waits.
            unsafe {
                match lock {
                    MutexKind::Mutex => self.raw.forget_waiters(),
                    MutexKind::Spin => self.spin().forget_waiters(),
                    MutexKind::Hq => self.hq().forget_waiters(),
                    MutexKind::Rt | MutexKind::Glibc => {}
                }
            }
        });
    }

    /// The mutex, as the statistics know it.
    pub(crate) fn told(&self, lock: MutexKind) -> Told<'_> {
        let (class, kind) = match lock {
            MutexKind::Rt => (INHERITING_CLASS, b"rtmutex".as_slice()),
            _ => (CLASS, b"mutex".as_slice()),
        };
        Told { class: self.field(class), kind, lock: core::ptr::from_ref(self).addr(), shared: false, waits: false }
    }

    /// The kernel's name of the owner; 0: unknown.
    fn owner(&self, lock: MutexKind) -> u32 {
        if lock == MutexKind::Rt { self.rt().owner() } else { self.field(OWNER).load(Relaxed) }
    }

    /// Whether threads wait for it; `None`: the lock does not tell.
    pub(crate) fn queued(&self, lock: MutexKind) -> Option<bool> {
        match lock {
            MutexKind::Mutex => Some(self.raw.may_be_contended()),
            MutexKind::Spin => Some(self.spin().is_contended()),
            MutexKind::Rt => Some(self.rt().is_contended()),
            MutexKind::Hq => Some(self.hq().is_contended()),
            MutexKind::Glibc => None,
        }
    }

    fn try_acquire(&self, lock: MutexKind) -> bool {
        match lock {
            MutexKind::Mutex => {
                let name = thread::block().name();
                name.is_some_and(|name| self.raw.try_acquire_as(name)) || self.raw.try_acquire()
            }
            MutexKind::Spin => self.spin().try_acquire(),
            MutexKind::Hq => self.hq().try_acquire(),
            MutexKind::Rt => self.rt().try_acquire(),
            MutexKind::Glibc => false,
        }
    }

    /// Takes the lock under the mutex. Only one with priority inheritance can refuse: an errno
    /// value.
    pub(crate) fn acquire(&self, lock: MutexKind) -> c_int {
        match lock {
            MutexKind::Mutex => self.raw.acquire(),
            MutexKind::Spin => self.spin().acquire(),
            MutexKind::Hq => self.hq().acquire(),
            MutexKind::Rt => return self.hang_unless_checked(code(self.rt().acquire()), None),
            MutexKind::Glibc => {}
        }
        0
    }

    fn acquire_until(&self, lock: MutexKind, deadline: &Deadline) -> c_int {
        let mut round = 0;
        loop {
            // The spinlocks know no deadlines: here, waiting with one does not queue.
            let taken = match lock {
                MutexKind::Mutex => self.raw.acquire_until(deadline.until()).is_ok(),
                MutexKind::Rt => match code(self.rt().acquire_until(deadline.until())) {
                    0 => true,
                    ETIMEDOUT => false,
                    error => return self.hang_unless_checked(error, Some(deadline)),
                },
                _ => self.try_acquire(lock),
            };
            if taken {
                return 0;
            }
            if deadline.over() {
                return ETIMEDOUT;
            }
            Linux::nap(round);
            round = (round + 1).min(8);
        }
    }

    /// What a call with priority inheritance comes to that has ended with `result`.
    fn hang_unless_checked(&self, result: c_int, deadline: Option<&Deadline>) -> c_int {
        let checked = matches!(self.kind() & TYPE, RECURSIVE | ERRORCHECK);
        if checked || !matches!(result, EDEADLK | ENOTRECOVERABLE) {
            return result;
        }
        while !deadline.is_some_and(Deadline::over) {
            Linux::nap(u32::MAX);
        }
        ETIMEDOUT
    }

    /// Releases the lock under the mutex. `EPERM`: it has priority inheritance, and the caller does
    /// not hold it.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub(crate) unsafe fn release(&self, lock: MutexKind) -> c_int {
        if lock == MutexKind::Rt {
            // SAFETY: as below.
            return code(unsafe { self.rt().release() });
        }
        self.field(OWNER).store(0, Relaxed);
        // SAFETY: the caller's promise.
        unsafe {
            match lock {
                MutexKind::Mutex => match thread::block().name() {
                    Some(name) if self.raw.try_release_as(name) => {}
                    _ => self.raw.release_detached(),
                },
                MutexKind::Spin => self.spin().release(),
                MutexKind::Hq => self.hq().release(),
                MutexKind::Rt | MutexKind::Glibc => {}
            }
        }
        0
    }

    /// The same, after a wait in which the mutex was given up, for the code at `caller`.
    pub(crate) fn acquire_again(&self, lock: MutexKind, caller: Call) -> c_int {
        self.take(self.told(lock).in_wait(), lock, caller, Patience::<()>::Forever, || self.acquire(lock))
    }

    /// Takes the lock under the mutex by `wait`, and tells of it.
    fn take<D, W>(&self, told: Told<'_>, lock: MutexKind, caller: Call, patience: Patience<D>, wait: W) -> c_int
    where
        W: FnOnce() -> c_int,
    {
        if !segment::watched() {
            return wait();
        }
        let (attempt, queued) = (|| self.try_acquire(lock), || self.queued(lock));
        let holder = || match (lock, self.raw.owner()) {
            (MutexKind::Mutex, Some(owner)) => Holder::Record(owner.raw()),
            (MutexKind::Mutex, None) => Holder::Unknown,
            _ => Holder::Thread(self.owner(lock)),
        };
        told.take(caller, patience, attempt, queued, holder, wait)
    }

    /// Everything but the fast path, for the code at `caller` (0: unknown). `None`: the object is
    /// glibc's.
    unsafe fn lock(&self, patience: Patience<(clockid_t, *const timespec)>, caller: Call) -> Option<c_int> {
        let (kind, lock) = self.ours()?;
        let me = thread::block();
        me.identity();
        if (kind == RECURSIVE || kind == ERRORCHECK) && self.held_by(me) {
            return Some(match (kind, patience) {
                (RECURSIVE, _) if self.depth() == u32::MAX => EAGAIN,
                (RECURSIVE, _) => {
                    self.set_depth(self.depth() + 1);
                    0
                }
                // As glibc: with priority inheritance a try checks too.
                (_, Patience::None) if self.kind() & INHERIT == 0 => EBUSY,
                _ => EDEADLK,
            });
        }
        self.settle(lock);
        let wait = || match patience {
            Patience::Forever => self.acquire(lock),
            _ if self.try_acquire(lock) => 0,
            Patience::None => EBUSY,
            Patience::Until((clock, at)) => {
                // SAFETY: the caller's promise.
                let deadline = unsafe { Deadline::of_mutex(clock, at, lock == MutexKind::Rt) };
                deadline.map_or_else(|error| error, |deadline| self.acquire_until(lock, &deadline))
            }
        };
        let result = self.take(self.told(lock), lock, caller, patience, wait);
        if result == 0 {
            self.owned(kind, lock, me);
        }
        Some(result)
    }

    /// Everything but the fast path, for the code at `caller`. `None`: the object is glibc's.
    fn unlock(&self, caller: Call) -> Option<c_int> {
        let (kind, lock) = self.ours()?;
        if kind == RECURSIVE || kind == ERRORCHECK {
            if !self.held_by(thread::block()) {
                return Some(EPERM);
            }
            if kind == RECURSIVE {
                let depth = self.depth() - 1;
                self.set_depth(depth);
                if depth > 0 {
                    return Some(0);
                }
            }
            self.holder.store(0, Relaxed);
        }
        let address = core::ptr::from_ref(self).addr();
        self.told(lock).releasing(caller);
        // SAFETY: the caller holds it, or it is of a kind whose release by anybody is accepted, as
        // in glibc.
        let result = unsafe { self.release(lock) };
        if result == 0 {
            watch::released(address);
        }
        Some(result)
    }
}

/// What a lock with priority inheritance says, as an errno value.
fn code(result: Result<(), PiError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(PiError::TimedOut | PiError::Cancelled) => ETIMEDOUT,
        Err(PiError::Deadlock) => EDEADLK,
        Err(PiError::OwnerDied) => ENOTRECOVERABLE,
        Err(PiError::NotOwner) => EPERM,
        Err(PiError::Corrupt) => EINVAL,
    }
}
