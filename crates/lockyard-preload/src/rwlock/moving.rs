//! `LOCKYARD_RWLOCK=read-mostly`: an object in which readers meet moves to a larger lock, whose
//! readers share nothing while writers are rare. `LOCKYARD_RWLOCK=percpu-rwsem`: each object does,
//! with its first read.
//!
//! That lock has 128 bytes, the object 56. So it is one of a table, and the object says which, in
//! `moved`; 0: none. A thread that holds the rwsem of the object for writing sets it, while nobody
//! else holds. From then on all threads use the lock of the table, and one that takes the rwsem
//! finds that out, releases it, and goes on there.
//!
//! * `moved`: a reader that has the rwsem to write sets it; `pthread_rwlock_destroy` clears it.
//!   Legal not to: set it: the object stays a rwsem. Clear it: the place in the table is lost.
//! * `taken`: a bit for each place. That reader sets it before, and clears it if it fails; the same
//!   call clears it after.
//!
//! Of 16 readers that find others inside, one tries that: it keeps others out for 20 µs at most,
//! until those inside have left, or gives up.
//!
//! **Ordering.** `moved` is Relaxed: a thread reads it when it holds the rwsem, or holds the lock,
//! or looks for it. In the first two cases it sees the last value. In the third it may read 0, and
//! looks again when it holds the rwsem.
//!
//! **Bound.** Where [`PLACES`] locks have moved, no other does. Memory: 128 bytes each. A place is
//! lost, in this process and its children, if its object is never destroyed; if it is destroyed
//! while a thread holds it, or while a writer is stopped for 10 ms in its release; or if a fork
//! comes between two steps of the reader that takes it.
//!
//! **Tries.** `tryrdlock` may fail, with no writer there, while a reader moves the object or
//! changes where readers are counted.
//!
//! **Full.** Of 2³⁰ reads at a time no writer enters any more, where glibc refuses 2²⁸ (`EAGAIN`).
//!
//! **fork.** In the child, a thread that is the first to touch the object takes back what a thread
//! of the parent held of it between two steps: the object says whether a thread holds it to write.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering::*};

use libc::pthread_rwlock_t;
use lockyard::cancel::Until;
use lockyard::platform::linux::Linux;
use lockyard::rwsem::RawRwSem;
use lockyard::rwsem::apart::{Always, Embedded, Learned, Policy, RawApartRwSem};

use super::lock::Lock;
use super::{KIND, RwlockObject};
use crate::config;
use crate::deadline::Deadline;
use crate::policies::RwlockKind;
use crate::{fork, thread};

type Far<Y> = RawApartRwSem<Linux, Y>;

/// How many locks move.
pub(super) const PLACES: usize = 256;

/// The locks to which objects move.
pub(super) struct Table<Y: Policy> {
    locks: [Far<Y>; PLACES],
    taken: [AtomicU64; PLACES / 64],
}

impl<Y: Policy> Table<Y> {
    const fn new() -> Self {
        Self { locks: [const { Far::new() }; PLACES], taken: [const { AtomicU64::new(0) }; PLACES / 64] }
    }

    /// Takes a place.
    fn take(&self) -> Option<usize> {
        (0..PLACES).find(|place| {
            let (word, bit) = (&self.taken[place / 64], 1 << (place % 64));
            // Acquire: the lock as it was given back.
            word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Acquire) & bit == 0
        })
    }

    fn give_back(&self, place: usize) {
        self.taken[place / 64].fetch_and(!(1 << (place % 64)), Release);
    }
}

/// A form of the locks to which objects move.
pub(super) trait Form: Policy {
    /// Of so many readers that find others inside, one would have the object moved.
    const ONE_IN: u32;
    fn table() -> &'static Table<Self>;
}

impl Form for Embedded<Learned> {
    const ONE_IN: u32 = 16;
    fn table() -> &'static Table<Self> {
        static TABLE: Table<Embedded<Learned>> = Table::new();
        &TABLE
    }
}

impl Form for Embedded<Always> {
    const ONE_IN: u32 = 1;
    fn table() -> &'static Table<Self> {
        static TABLE: Table<Embedded<Always>> = Table::new();
        &TABLE
    }
}

impl RwlockObject {
    #[inline(always)]
    pub(super) fn moved(&self) -> u32 {
        self.kind.load(Relaxed) >> KIND.count_ones()
    }

    /// For the thread that holds the rwsem to write, or destroys the object: the kind does not
    /// change.
    fn move_to(&self, moved: u32) {
        self.kind.store(self.kind.load(Relaxed) & KIND | moved << KIND.count_ones(), Relaxed);
    }
}

/// The fast paths, of processes in which nobody wants to be told.
impl RwlockObject {
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    unsafe fn moving<'a>(rwlock: *mut pthread_rwlock_t) -> Option<(&'a Self, RwlockKind)> {
        let kind = config::rwlock_moves()?;
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        let object = unsafe { &*rwlock.cast::<Self>() };
        (object.shared.load(Relaxed) == 0).then_some((object, kind))
    }

    /// Takes a lock for reading that readers hold which are apart, or nobody. It may wait for
    /// 20 µs, if it is `patient`.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    pub(super) unsafe fn read_moving(rwlock: *mut pthread_rwlock_t, patient: bool) -> bool {
        // SAFETY: the caller's promise.
        let Some((object, kind)) = (unsafe { Self::moving(rwlock) }) else { return false };
        let holds = &thread::block().holds;
        // In a child of fork, one that waits settles before.
        let is_settled = object.generation.load(Acquire) == fork::generation();
        let may = patient && is_settled && !holds.contains(rwlock.addr());
        let taken = match kind {
            RwlockKind::PerCpu => object.under::<PerCpu>().read_fast(may),
            _ => object.under::<ReadMostly>().read_fast(may),
        };
        if taken {
            holds.add(rwlock.addr());
        }
        taken
    }

    /// Releases such a lock, if the calling thread reads it.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    pub(super) unsafe fn unlock_moving(rwlock: *mut pthread_rwlock_t) -> bool {
        // SAFETY: the caller's promise.
        let Some((object, kind)) = (unsafe { Self::moving(rwlock) }) else { return false };
        let holds = &thread::block().holds;
        if object.writer.load(Relaxed) != 0 || !holds.contains(rwlock.addr()) {
            return false;
        }
        // SAFETY: as in C: held by the caller, or by whom it acts for; and no thread writes.
        let released = unsafe {
            match kind {
                RwlockKind::PerCpu => object.under::<PerCpu>().unlock_fast(),
                _ => object.under::<ReadMostly>().unlock_fast(),
            }
        };
        if released {
            // The object may be gone: its address is used.
            holds.remove(rwlock.addr());
        }
        released
    }
}

/// The object, whose lock may have moved.
#[repr(transparent)]
pub(super) struct Moving<Y>(RwlockObject, PhantomData<Y>);

pub(super) type ReadMostly = Moving<Embedded<Learned>>;
pub(super) type PerCpu = Moving<Embedded<Always>>;

impl<Y: Form> Moving<Y> {
    fn near(&self) -> &RawRwSem<Linux> {
        self.0.under()
    }

    #[inline(always)]
    fn far(&self) -> Option<&'static Far<Y>> {
        Y::table().locks.get((self.0.moved() as usize).wrapping_sub(1))
    }

    /// A thread need not settle for that, unless it `may` wait.
    #[inline(always)]
    fn read_fast(&self, may: bool) -> bool {
        match self.far() {
            Some(lock) => lock.try_read_apart(may),
            None => {
                let near = !Y::AT_ONCE && !self.near().is_locked();
                near && self.take_to_read(RawRwSem::try_read_at_once, |far| far.try_read_apart(false))
            }
        }
    }

    /// # Safety
    /// It is held for reading, by the caller or by whom it acts for.
    #[inline(always)]
    unsafe fn unlock_fast(&self) -> bool {
        // SAFETY: the caller's promise. Where the lock is does not change while it is held.
        unsafe {
            match self.far() {
                Some(lock) => lock.try_read_release_apart(),
                None => self.near().try_read_release_unasked(),
            }
        }
    }

    /// Takes the lock, where it is: `near` takes the rwsem, and `release` gives it up.
    fn take(
        &self,
        near: impl Fn(&RawRwSem<Linux>) -> bool,
        release: unsafe fn(&RawRwSem<Linux>),
        far: impl Fn(&Far<Y>) -> bool,
    ) -> bool {
        if self.far().is_none() {
            if !near(self.near()) {
                return false;
            }
            if self.far().is_some() {
                // SAFETY: taken above.
                unsafe { release(self.near()) };
            }
        }
        match self.far() {
            Some(lock) => far(lock),
            None => true,
        }
    }

    fn take_to_read(&self, near: impl Fn(&RawRwSem<Linux>) -> bool, far: impl Fn(&Far<Y>) -> bool) -> bool {
        self.take(near, RawRwSem::read_release_detached, far)
    }

    fn take_to_write(&self, near: impl Fn(&RawRwSem<Linux>) -> bool, far: impl Fn(&Far<Y>) -> bool) -> bool {
        self.take(near, RawRwSem::write_release_detached, far)
    }

    /// A reader that holds nothing of the object moves it, if nobody holds it for long.
    #[cold]
    fn go_far(&self) {
        let Some(place) = Y::table().take() else { return };
        if self.near().write_pressing() {
            if self.far().is_none() {
                self.0.move_to(place as u32 + 1);
            } else {
                Y::table().give_back(place);
            }
            // SAFETY: taken above.
            unsafe { self.near().write_release_detached() };
        } else {
            Y::table().give_back(place);
        }
    }
}

fn until<'a>(deadline: Option<&'a Deadline>) -> Until<'a, Linux> {
    deadline.map_or(Until::FOREVER, Deadline::until)
}

impl<Y: Form> Lock for Moving<Y> {
    fn is_full(&self) -> bool {
        self.far().map_or_else(|| self.near().is_full(), Far::<Y>::is_full)
    }

    fn meet(&self) {
        match self.far() {
            Some(lock) => lock.meet(),
            None => {
                let near = self.near();
                let meets = near.is_locked() && !near.is_write_locked();
                if Y::AT_ONCE || meets && thread::block().meets().is_multiple_of(Y::ONE_IN) {
                    self.go_far();
                }
            }
        }
    }

    fn try_read(&self) -> bool {
        self.take_to_read(RawRwSem::try_read_acquire, Far::<Y>::try_read_acquire)
    }

    fn read_again(&self) -> bool {
        self.take_to_read(RawRwSem::try_read_again, Far::<Y>::try_read_again)
    }

    fn read(&self, deadline: Option<&Deadline>) -> bool {
        self.take_to_read(
            |near| near.read_acquire_queued(until(deadline)).is_ok(),
            |far| far.read_acquire_queued(until(deadline)).is_ok(),
        )
    }

    fn read_beside(&self, deadline: Option<&Deadline>, may: impl Fn() -> bool) -> bool {
        self.take_to_read(
            |near| near.read_acquire_beside(until(deadline), &may).is_ok(),
            |far| far.read_acquire_beside(until(deadline), &may).is_ok(),
        )
    }

    fn write(&self) {
        self.write_until_time(Until::FOREVER);
    }

    fn try_write(&self) -> bool {
        self.take_to_write(RawRwSem::try_write_acquire, Far::<Y>::try_write_acquire)
    }

    fn write_until(&self, deadline: &Deadline) -> bool {
        self.write_until_time(deadline.until())
    }

    fn may_be_contended(&self) -> bool {
        self.near().may_be_contended() || self.far().is_some_and(Far::<Y>::may_be_contended)
    }

    fn is_locked(&self) -> bool {
        // The counters of other CPUs are asked last.
        thread::block().holds.contains(self.0.address())
            || self.far().map_or_else(|| self.near().is_locked(), Far::<Y>::is_locked)
    }

    /// Of the lock of the table it would also be said of a writer that waits for readers.
    fn is_write_locked(&self) -> bool {
        self.0.writer.load(Relaxed) != 0
    }

    unsafe fn read_release(&self) {
        // SAFETY: the caller's promise. Where the lock is does not change while it is held.
        unsafe {
            match self.far() {
                Some(lock) => lock.read_release_detached(),
                None => self.near().read_release_detached(),
            }
        }
    }

    unsafe fn write_release(&self) {
        // SAFETY: as above.
        unsafe {
            match self.far() {
                Some(lock) => lock.write_release_detached(),
                None => self.near().write_release_detached(),
            }
        }
    }

    unsafe fn forget_waiters(&self) {
        let written = self.is_write_locked();
        // SAFETY: the caller's promise. Each call of this kind of lock settles first, so a thread
        // that holds it to write is named in the object.
        unsafe {
            match self.far() {
                Some(lock) => {
                    self.near().forget_others(false);
                    lock.forget_others(written);
                }
                None => self.near().forget_others(written),
            }
        }
    }

    unsafe fn retire(&self) {
        self.0.settle(self);
        if self.is_write_locked() {
            return;
        }
        let Some(lock) = self.far() else { return };
        let place = self.0.moved() as usize - 1;
        // SAFETY: the caller's promise.
        if unsafe { lock.retire() } {
            self.0.move_to(0);
            Y::table().give_back(place);
        }
    }
}

impl<Y: Form> Moving<Y> {
    fn write_until_time(&self, until: Until<'_, Linux>) -> bool {
        self.take_to_write(|near| near.write_acquire_until(until).is_ok(), |far| far.write_acquire_until(until).is_ok())
    }
}
