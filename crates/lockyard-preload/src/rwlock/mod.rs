//! `pthread_rwlock_*`: the object, recursion of readers, and which lock is under it.
//!
//! # The object (56 bytes, all-zero is an unlocked rwlock of the default kind)
//!
//! | bytes | glibc | here |
//! |---|---|---|
//! | 0–27 | state | the rwsem (the qrwlock: 0–15) |
//! | 28–31 | `__shared` | the same |
//! | 32–35 | | who holds it for writing: `Block::identity`, or 0 |
//! | 36–39 | | generation: see `fork` |
//! | 40–43 | | class, for statistics |
//! | 44–47 | | when readers were last let past waiting writers: see `reservation` |
//! | 48–51 | `__flags`: the kind | bits 0–15: the same; above: `moved`, see `moving` |
//! | 52–55 | padding, which an initialiser may leave as it is | unused |
//!
//! # Kinds
//!
//! | kind | glibc | here |
//! |---|---|---|
//! | 0 (default), 1 (which prefers readers in spite of its name) | readers go in while readers hold it, whatever waits | a thread that reads already goes in at once: see `holds`. Another reader is kept out for a waiting writer, but for a time only: see `reservation` |
//! | 2 (writers preferred, not recursive) | a waiting writer keeps readers out | the plain lock, which does so as well |
//!
//! So a program in which one reader waits for another goes on, and writers are not starved. A lock
//! of kind 0 or 1 that readers hold can be had by `tryrdlock`, as on glibc (but see `moving`). With
//! the default lock and with `LOCKYARD_RWLOCK=qrw` a running reader may also pass a waiting writer
//! of kind 2 for a turn, 0.4 ms.
//!
//! Process-shared ones are glibc's. `lock` has the locks that may be under the object, `calls` the
//! functions that C calls.
//!
//! **Destruction** as for mutexes: detached releases.

mod lock;
mod moving;
mod reservation;

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{EAGAIN, EBUSY, EDEADLK, EPERM, ETIMEDOUT, pthread_rwlock_t};
use lockyard::platform::linux::Linux;
use lockyard::rwsem::RawRwSem;
use lockyard_segment::{self as segment, Call, Holder};

use crate::config;
use crate::deadline::Deadline;
use crate::fork;
use crate::policies::RwlockKind;
use crate::thread;
use crate::watch::{Patience, Told};
use lock::Lock;
use reservation::{Came, Reservation};

/// Writers preferred, and readers must not recur.
const NONRECURSIVE: u32 = 2;
/// The bits of the kind.
const KIND: u32 = 0xffff;

/// A `pthread_rwlock_t` of ours.
#[repr(C, align(8))]
struct RwlockObject {
    lock: [AtomicU32; 7],
    shared: AtomicU32,
    writer: AtomicU32,
    generation: AtomicU32,
    class: AtomicU32,
    reservation: Reservation,
    kind: AtomicU32,
    padding: AtomicU32,
}

const _: () = {
    assert!(size_of::<RwlockObject>() == size_of::<pthread_rwlock_t>());
    assert!(align_of::<RwlockObject>() <= align_of::<pthread_rwlock_t>());
    assert!(core::mem::offset_of!(RwlockObject, shared) == 28 && core::mem::offset_of!(RwlockObject, kind) == 48);
    // The rwsem's last word belongs to its embedder.
    assert!(size_of::<RawRwSem<Linux>>() == 32);
};

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

/// The default lock.
type Default = RawRwSem<Linux>;

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
        const { assert!(size_of::<L>() <= size_of::<Self>() && align_of::<L>() <= 8) };
        // SAFETY: the first words of the object, or all of it ([`moving::Moving`]), used by this
        // kind of lock alone, which is one for the whole process; atomics, of which any bytes are
        // valid.
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
        let taken = lock.try_read_at_once();
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
        let taken = lock.write_fast();
        if taken {
            object.writer.store(thread::block().identity(), Relaxed);
        }
        taken
    }

    #[inline(always)]
    fn settle<L: Lock>(&self, lock: &L) {
        fork::settle(&self.generation, || {
            // SAFETY: a thread settles before it waits, and before it does anything with a qrwlock.
            unsafe { lock.forget_waiters() };
        });
    }

    /// The lock, as the statistics know it.
    fn told(&self, shared: bool) -> Told<'_> {
        Told { class: &self.class, kind: b"rwlock", lock: self.address(), shared, waits: false }
    }

    /// The thread that holds it or keeps others out.
    fn holder(&self) -> Holder {
        match self.writer.load(Relaxed) {
            0 => Holder::Readers,
            writer => thread::record_of(writer).map_or(Holder::Unknown, Holder::Record),
        }
    }

    /// Runs `wait`, and tells of it; `attempt` is what it tries first.
    #[inline]
    fn tell<L: Lock>(
        &self,
        lock: &L,
        shared: bool,
        patience: Patience<Deadline>,
        caller: Call,
        attempt: impl FnOnce() -> bool,
        wait: impl FnOnce() -> c_int,
    ) -> c_int {
        if segment::watched() {
            let queued = || Some(lock.may_be_contended());
            self.told(shared).take(caller, patience, attempt, queued, || self.holder(), wait)
        } else {
            wait()
        }
    }

    #[inline]
    fn read<L: Lock>(&self, lock: &L, patience: Patience<Deadline>, caller: Call) -> c_int {
        let me = thread::block();
        let identity = me.identity();
        let address = self.address();
        if self.writer.load(Relaxed) == identity {
            return if matches!(patience, Patience::None) { EBUSY } else { EDEADLK };
        }
        self.settle(lock);
        let strict = self.kind.load(Relaxed) & KIND == NONRECURSIVE;
        let patient = !matches!(patience, Patience::None);
        let recurs = me.holds.contains(address);
        if patient && !recurs {
            lock.meet();
        }
        let attempt =
            || !strict && recurs && lock.read_again() || lock.try_read() || !strict && !patient && lock.read_again();
        let wait = || {
            if attempt() {
                return 0;
            }
            if lock.is_full() {
                // No wait ends that for certain. (As glibc, for every call.)
                return EAGAIN;
            }
            let came = Came::now();
            let may = || self.reservation.is_over(came);
            let read = |deadline: Option<&Deadline>| match strict {
                true => lock.read(deadline),
                false => lock.read_beside(deadline, may) || lock.read_again(),
            };
            match patience {
                Patience::None => EBUSY,
                Patience::Forever => {
                    let held = read(None);
                    debug_assert!(held, "a wait without end has ended");
                    0
                }
                Patience::Until(deadline) => until(&deadline, || read(Some(&deadline))),
            }
        };
        let result = self.tell(lock, true, patience, caller, attempt, wait);
        if result == 0 {
            me.holds.add(address);
        }
        result
    }

    #[inline]
    fn write<L: Lock>(&self, lock: &L, patience: Patience<Deadline>, caller: Call) -> c_int {
        let identity = thread::block().identity();
        if self.writer.load(Relaxed) == identity {
            return if matches!(patience, Patience::None) { EBUSY } else { EDEADLK };
        }
        self.settle(lock);
        let wait = || {
            if lock.try_write() {
                return 0;
            }
            let result = match patience {
                Patience::None => return EBUSY,
                Patience::Forever => {
                    lock.write();
                    0
                }
                Patience::Until(deadline) => until(&deadline, || lock.write_until(&deadline)),
            };
            self.reservation.end();
            result
        };
        let result = self.tell(lock, false, patience, caller, || lock.try_write(), wait);
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

mod calls;
mod told;

pub use calls::*;

#[cfg(test)]
mod tests;
