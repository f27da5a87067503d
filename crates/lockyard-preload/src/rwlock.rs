//! `pthread_rwlock_*`: the object, recursion of readers, and which lock is under it.
//!
//! # The object (56 bytes, all-zero is an unlocked rwlock of the default kind)
//!
//! | bytes | glibc | here |
//! |---|---|---|
//! | 0–27 | state | the rwsem (the qrwlock: 0–7) |
//! | 28–31 | `__shared` | the same |
//! | 32–35 | | who holds it for writing: `Block::identity`, or 0 |
//! | 36–39 | | generation: see `fork` |
//! | 40–43 | | class, for statistics |
//! | 48–51 | `__flags`: the kind | the same |
//!
//! Kinds 0 (default) and 1 admit a thread that reads already, whatever waits: see `holds`. Kind 2 (writers preferred, not recursive) is the plain lock.
//! Process-shared ones are glibc's.
//!
//! **Destruction** as for mutexes: detached releases.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{
    EAGAIN, EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT, clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec,
};
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;
use lockyard::rwsem::policy;
use lockyard_segment as segment;

use crate::config::{self, RwlockKind};
use crate::counters::{self, Fallback};
use crate::deadline::{self, Deadline};
use crate::fork;
use crate::real::real;
use crate::thread;
use crate::watch::{self, Told};

/// Writers preferred, and readers must not recur.
const NONRECURSIVE: u32 = 2;

/// A `pthread_rwlock_t` of ours.
#[repr(C, align(8))]
struct RwlockObject {
    lock: [AtomicU32; 7],
    shared: AtomicU32,
    writer: AtomicU32,
    generation: AtomicU32,
    class: AtomicU32,
    unused: AtomicU32,
    kind: AtomicU32,
    rest: AtomicU32,
}

const _: () = {
    assert!(size_of::<RwlockObject>() == size_of::<pthread_rwlock_t>());
    assert!(align_of::<RwlockObject>() <= align_of::<pthread_rwlock_t>());
    assert!(core::mem::offset_of!(RwlockObject, shared) == 28 && core::mem::offset_of!(RwlockObject, kind) == 48);
    // The rwsem's last word belongs to its embedder.
    assert!(size_of::<RawRwSem<Linux, policy::Today>>() == 32);
};

/// The lock under the object, as the wrapper sees it.
trait Lock {
    /// `false`: there are as many readers as can be counted.
    fn read(&self) -> bool;
    fn try_read(&self) -> bool;
    /// For a thread that reads already.
    fn read_again(&self) -> bool;
    fn is_full(&self) -> bool;
    fn read_until(&self, deadline: &Deadline) -> bool;
    fn write(&self);
    fn try_write(&self) -> bool;
    fn write_until(&self, deadline: &Deadline) -> bool;
    fn is_locked(&self) -> bool;
    fn is_write_locked(&self) -> bool;
    unsafe fn read_release(&self);
    unsafe fn write_release(&self);
    unsafe fn forget_waiters(&self);
}

impl<Y: policy::Policy> Lock for RawRwSem<Linux, Y> {
    #[inline]
    fn read(&self) -> bool {
        self.read_acquire_unless_full()
    }
    fn try_read(&self) -> bool {
        self.try_read_acquire()
    }
    fn read_again(&self) -> bool {
        self.try_read_again()
    }
    fn is_full(&self) -> bool {
        RawRwSem::is_full(self)
    }
    fn read_until(&self, deadline: &Deadline) -> bool {
        self.read_acquire_until(deadline.until()).is_ok()
    }
    #[inline]
    fn write(&self) {
        self.write_acquire();
    }
    fn try_write(&self) -> bool {
        self.try_write_acquire()
    }
    fn write_until(&self, deadline: &Deadline) -> bool {
        self.write_acquire_until(deadline.until()).is_ok()
    }
    fn is_locked(&self) -> bool {
        RawRwSem::is_locked(self)
    }
    #[inline]
    fn is_write_locked(&self) -> bool {
        RawRwSem::is_write_locked(self)
    }
    #[inline]
    unsafe fn read_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.read_release_detached() };
    }
    #[inline]
    unsafe fn write_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.write_release_detached() };
    }
    unsafe fn forget_waiters(&self) {
        // SAFETY: the caller's promise.
        unsafe { RawRwSem::forget_waiters(self) };
    }
}

impl Lock for RawQRwLock<Linux> {
    fn read(&self) -> bool {
        self.read_acquire_unless_full()
    }
    fn try_read(&self) -> bool {
        self.try_read_acquire()
    }
    fn read_again(&self) -> bool {
        self.read_acquire_urgent_unless_full()
    }
    fn is_full(&self) -> bool {
        RawQRwLock::is_full(self)
    }
    fn read_until(&self, deadline: &Deadline) -> bool {
        poll(deadline, || self.try_read_acquire())
    }
    fn write(&self) {
        self.write_acquire();
    }
    fn try_write(&self) -> bool {
        self.try_write_acquire()
    }
    fn write_until(&self, deadline: &Deadline) -> bool {
        poll(deadline, || self.try_write_acquire())
    }
    fn is_locked(&self) -> bool {
        RawQRwLock::is_locked(self)
    }
    fn is_write_locked(&self) -> bool {
        RawQRwLock::is_write_locked(self)
    }
    unsafe fn read_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { RawQRwLock::read_release(self) };
    }
    unsafe fn write_release(&self) {
        // SAFETY: the caller's promise.
        unsafe { RawQRwLock::write_release(self) };
    }
    unsafe fn forget_waiters(&self) {
        // SAFETY: the caller's promise.
        unsafe { RawQRwLock::forget_waiters(self) };
    }
}

/// How long a caller is prepared to wait.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Deadline),
    Forever,
}

fn until(deadline: &Deadline, wait: impl Fn() -> bool) -> c_int {
    loop {
        if wait() {
            return 0;
        }
        // The real-time clock may have been set back meanwhile.
        if deadline.over() {
            return ETIMEDOUT;
        }
    }
}

/// The spinlocks know no deadlines: waiting with one does not queue.
fn poll(deadline: &Deadline, mut attempt: impl FnMut() -> bool) -> bool {
    let mut round = 0;
    while !attempt() {
        if deadline.over() {
            return false;
        }
        Linux::nap(round);
        round = (round + 1).min(8);
    }
    true
}

/// The policies that may be under a pthread object, by the number that [`config`] stores.
macro_rules! policies {
    ($($number:literal $name:literal $policy:ident,)*) => {
        /// What `LOCKYARD_RWLOCK` may be.
        pub(crate) const CHOICES: &str = concat!("rwsem, qrw, glibc", $(", rwsem:", $name),*);

        /// The number of the policy called `name`.
        pub(crate) fn policy_named(name: &[u8]) -> Option<u8> {
            $(if name == $name.as_bytes() { return Some($number); })*
            None
        }

        /// Runs `$body` with `$lock` as the lock under `$object`.
        macro_rules! with_lock {
            ($object:expr, $lock:ident => $body:expr) => {
                match config::rwlock() {
                    RwlockKind::Glibc => None,
                    RwlockKind::Qrw => {
                        let $lock = $object.under::<RawQRwLock<Linux>>();
                        Some($body)
                    }
                    $(RwlockKind::Rwsem($number) => {
                        let $lock = $object.under::<RawRwSem<Linux, policy::$policy>>();
                        Some($body)
                    })*
                    RwlockKind::Rwsem(_) => None,
                }
            };
        }
    };
}

/// The number of the default policy, `today`.
pub(crate) const DEFAULT: u8 = 0;
/// The default lock.
type Default = RawRwSem<Linux, policy::Today>;

// Not the biased ones: a release of theirs touches the lock when the next owner may have freed it.
policies! {
    0 "today" Today,
    1 "today-kernel" TodayKernel,
    2 "v5.16" V5_16,
    3 "no-rspin" NoRspin,
    4 "reader-steal" ReaderSteal,
    5 "v5.10" V5_10,
    6 "adaptive-rspin" AdaptiveRspin,
    7 "timed-writer-spin" TimedWriterSpin,
    8 "handoff-4ms" Handoff4ms,
}

impl RwlockObject {
    /// The object, if it is ours.
    ///
    /// # Safety
    /// `rwlock` points to a rwlock that lasts as long as the result is used.
    #[inline(always)]
    unsafe fn ours<'a>(rwlock: *mut pthread_rwlock_t) -> Option<&'a Self> {
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        let object = unsafe { &*rwlock.cast::<Self>() };
        (object.shared.load(Relaxed) == 0 && config::rwlock() != RwlockKind::Glibc).then_some(object)
    }

    /// The lock under the object.
    #[inline(always)]
    fn under<L: Lock>(&self) -> &L {
        const { assert!(size_of::<L>() <= 32 && align_of::<L>() <= 8) };
        // SAFETY: the first words of the object, used by this kind of lock alone, which is one for the whole process; atomics, of which any bytes are valid.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    /// The lock under a private object, if the process uses the default one.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    unsafe fn default<'a>(rwlock: *mut pthread_rwlock_t) -> Option<(&'a Self, &'a Default)> {
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        let object = unsafe { &*rwlock.cast::<Self>() };
        (config::rwlock_is_default() && object.shared.load(Relaxed) == 0).then(|| (object, object.under::<Default>()))
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// The fast path of reading: nobody is in the way, so nothing has to be asked.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    unsafe fn read_fast(rwlock: *mut pthread_rwlock_t) -> bool {
        // SAFETY: the caller's promise.
        let Some((object, lock)) = (unsafe { Self::default(rwlock) }) else { return false };
        let taken = lock.try_read_acquire();
        if taken {
            thread::block().holds.add(object.address());
        }
        taken
    }

    /// The fast path of writing: nobody holds it or asks for it.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    unsafe fn write_fast(rwlock: *mut pthread_rwlock_t) -> bool {
        // SAFETY: the caller's promise.
        let Some((object, lock)) = (unsafe { Self::default(rwlock) }) else { return false };
        let taken = lock.try_write_acquire();
        if taken {
            object.writer.store(thread::block().identity(), Relaxed);
        }
        taken
    }

    #[inline(always)]
    fn settle<L: Lock>(&self, lock: &L) {
        fork::settle(&self.generation, || {
            // SAFETY: whoever waits settles first, so nobody of this process waits.
            unsafe { lock.forget_waiters() };
        });
    }

    /// The lock, as the statistics know it.
    fn told(&self) -> Told<'_> {
        Told { class: &self.class, kind: b"rwlock", lock: self.address() }
    }

    /// Runs `wait`, and tells of it; `attempt` is what it tries first.
    #[inline]
    fn tell(
        &self,
        patience: Patience,
        caller: usize,
        attempt: impl FnOnce() -> bool,
        wait: impl FnOnce() -> c_int,
    ) -> c_int {
        if segment::watched() {
            self.told().take(caller, !matches!(patience, Patience::None), attempt, || 0, wait)
        } else {
            wait()
        }
    }

    #[inline]
    fn read<L: Lock>(&self, lock: &L, patience: Patience, caller: usize) -> c_int {
        let me = thread::block();
        let identity = me.identity();
        let address = self.address();
        if self.writer.load(Relaxed) == identity {
            return if matches!(patience, Patience::None) { EBUSY } else { EDEADLK };
        }
        self.settle(lock);
        let recurs = me.holds.contains(address) && self.kind.load(Relaxed) != NONRECURSIVE;
        let wait = || match patience {
            _ if recurs && lock.read_again() => 0,
            Patience::Forever if lock.read() => 0,
            Patience::None | Patience::Until(_) if lock.try_read() => 0,
            // There are too many readers, and no wait ends that for certain. (As glibc, for every call.)
            Patience::Forever => EAGAIN,
            _ if lock.is_full() => EAGAIN,
            Patience::None => EBUSY,
            Patience::Until(deadline) => until(&deadline, || lock.read_until(&deadline)),
        };
        let result = self.tell(patience, caller, || recurs && lock.read_again() || lock.try_read(), wait);
        if result == 0 {
            me.holds.add(address);
        }
        result
    }

    #[inline]
    fn write<L: Lock>(&self, lock: &L, patience: Patience, caller: usize) -> c_int {
        let identity = thread::block().identity();
        if self.writer.load(Relaxed) == identity {
            return if matches!(patience, Patience::None) { EBUSY } else { EDEADLK };
        }
        self.settle(lock);
        let wait = || match patience {
            Patience::Forever => {
                lock.write();
                0
            }
            _ if lock.try_write() => 0,
            Patience::None => EBUSY,
            Patience::Until(deadline) => until(&deadline, || lock.write_until(&deadline)),
        };
        let result = self.tell(patience, caller, || lock.try_write(), wait);
        if result == 0 {
            self.writer.store(identity, Relaxed);
        }
        result
    }

    #[inline]
    fn unlock<L: Lock>(&self, lock: &L) -> c_int {
        if lock.is_write_locked() {
            self.writer.store(0, Relaxed);
            // SAFETY: held for writing, by the caller or by whom it acts for.
            unsafe { lock.write_release() };
        } else if lock.is_locked() {
            thread::block().holds.remove(self.address());
            // SAFETY: held for reading, by the caller or by whom it acts for.
            unsafe { lock.read_release() };
        } else {
            return EPERM;
        }
        0
    }
}

macro_rules! calls {
    ($($doc:literal $name:ident, $slow:ident, $for:ident, $fast:ident, $method:ident, $patience:ident;)*) => {$(
        #[doc = $doc]
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(rwlock: *mut pthread_rwlock_t) -> c_int {
            // SAFETY: a rwlock, as in C.
            if unsafe { RwlockObject::$fast(rwlock) } {
                return 0;
            }
            // SAFETY: as above.
            unsafe { $slow(rwlock) }
        }

        watch::with_caller!(fn $slow("rsi", rwlock: *mut pthread_rwlock_t) => $for);

        unsafe extern "C" fn $for(rwlock: *mut pthread_rwlock_t, caller: usize) -> c_int {
            // SAFETY: a rwlock, as in C.
            let result = unsafe { RwlockObject::ours(rwlock) }
                .and_then(|object| with_lock!(object, lock => object.$method(lock, Patience::$patience, caller)));
            match result {
                Some(result) => result,
                None => real!($name(rwlock: *mut pthread_rwlock_t) -> c_int),
            }
        }
    )*};
}

calls! {
    "See `pthread_rwlock_rdlock(3p)`." pthread_rwlock_rdlock, rdlock_slow, rdlock_for, read_fast, read, Forever;
    "See `pthread_rwlock_tryrdlock(3p)`." pthread_rwlock_tryrdlock, tryrdlock_slow, tryrdlock_for, read_fast, read, None;
    "See `pthread_rwlock_wrlock(3p)`." pthread_rwlock_wrlock, wrlock_slow, wrlock_for, write_fast, write, Forever;
    "See `pthread_rwlock_trywrlock(3p)`." pthread_rwlock_trywrlock, trywrlock_slow, trywrlock_for, write_fast, write, None;
}

macro_rules! timed_calls {
    ($($doc:literal $name:ident($($clock:ident: $type:ty)?), $default:expr, $method:ident;)*) => {$(
        #[doc = $doc]
        /// The time is looked at first, as in glibc.
        ///
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            rwlock: *mut pthread_rwlock_t, $($clock: $type,)? at: *const timespec
        ) -> c_int {
            // SAFETY: a rwlock, as in C.
            let Some(object) = (unsafe { RwlockObject::ours(rwlock) }) else {
                return real!($name(rwlock: *mut pthread_rwlock_t $(, $clock: $type)?, at: *const timespec) -> c_int);
            };
            let clock = $default;
            $(let clock = if clock == NAMED { $clock } else { clock };)?
            if !deadline::knows(clock) {
                return EINVAL;
            }
            // SAFETY: a time, as in C.
            match unsafe { Deadline::new(clock, at) } {
                Err(error) => error,
                Ok(deadline) => {
                    with_lock!(object, lock => object.$method(lock, Patience::Until(deadline), 0)).unwrap_or(EINVAL)
                }
            }
        }
    )*};
}

/// In place of a clock: the caller names one.
const NAMED: clockid_t = -1;

timed_calls! {
    "See `pthread_rwlock_timedrdlock(3p)`." pthread_rwlock_timedrdlock(), libc::CLOCK_REALTIME, read;
    "See `pthread_rwlock_timedwrlock(3p)`." pthread_rwlock_timedwrlock(), libc::CLOCK_REALTIME, write;
    "See `pthread_rwlock_clockrdlock(3)`." pthread_rwlock_clockrdlock(clock: clockid_t), NAMED, read;
    "See `pthread_rwlock_clockwrlock(3)`." pthread_rwlock_clockwrlock(clock: clockid_t), NAMED, write;
}

/// See `pthread_rwlock_unlock(3p)`. `EPERM` if nobody holds it.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: a rwlock, as in C.
    let Some((object, lock)) = (unsafe { RwlockObject::default(rwlock) }) else {
        // SAFETY: as above.
        return unsafe { unlock_slow(rwlock) };
    };
    // SAFETY: held for reading, by the caller or by whom it acts for; if nobody holds it nothing is done.
    if unsafe { lock.try_read_release_unasked() } {
        // The object may be gone: its address is used.
        thread::block().holds.remove(rwlock.addr());
        return 0;
    }
    object.unlock(lock)
}

#[inline(never)]
unsafe extern "C" fn unlock_slow(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: a rwlock, as in C.
    let result = unsafe { RwlockObject::ours(rwlock) }.and_then(|object| {
        with_lock!(object, lock => {
            // The kernel's policies let waiters in under the wait lock, which in a child may be a dead thread's.
            object.settle(lock);
            let result = object.unlock(lock);
            watch::released(rwlock.addr());
            result
        })
    });
    match result {
        Some(result) => result,
        None => real!(pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) -> c_int),
    }
}

unsafe extern "C" {
    fn pthread_rwlockattr_getpshared(attributes: *const pthread_rwlockattr_t, shared: *mut c_int) -> c_int;
}

/// See `pthread_rwlock_init(3p)`: glibc writes the kind and whether it is shared, and zeroes.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_init(
    rwlock: *mut pthread_rwlock_t,
    attributes: *const pthread_rwlockattr_t,
) -> c_int {
    let mut shared = 0;
    if !attributes.is_null() {
        // SAFETY: attributes, as in C, and a place for the value.
        unsafe { pthread_rwlockattr_getpshared(attributes, &mut shared) };
    }
    if shared != 0 {
        counters::count(Fallback::Shared);
    } else if config::rwlock() == RwlockKind::Glibc {
        counters::count(Fallback::Chosen);
    }
    real!(pthread_rwlock_init(rwlock: *mut pthread_rwlock_t, attributes: *const pthread_rwlockattr_t) -> c_int)
}

/// See `pthread_rwlock_destroy(3p)`. Always succeeds, as in glibc: nothing is held that would have to be given back.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: a rwlock, as in C.
    match unsafe { RwlockObject::ours(rwlock) } {
        Some(_) => 0,
        None => real!(pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) -> c_int),
    }
}

#[cfg(test)]
mod tests;
