//! One trait for each thing that a lock can do, and a guard.
//!
//! A lock implements [`Lock`], and whichever of [`Timed`], [`Shared`], [`References`] and
//! [`Hashed`] it can; a semaphore implements [`Count`].

use core::fmt::Debug;

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::futex_hash::Waited;
use lockyard::platform::Platform;

/// A way of holding a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Alone.
    Write,
    /// With other readers.
    Read,
}

impl Way {
    /// Whether holders of both ways may hold the lock together.
    pub fn shares(self, other: Self) -> bool {
        self == Way::Read && other == Way::Read
    }
}

/// A lock.
pub trait Lock: Default + Debug + Send + Sync {
    /// Where it runs.
    type P: Platform;

    /// The ways in which it can be held: `[Write]`, or `[Write, Read]`.
    const WAYS: &'static [Way] = &[Way::Write];

    /// Whether another thread may release it for its holder. Locks that inherit priorities know
    /// their owners, and refuse.
    const RELEASED_BY_OTHERS: bool = true;

    /// Takes the lock.
    fn lock(&self, way: Way);

    /// Takes the lock if that is possible now.
    fn try_lock(&self, way: Way) -> bool;

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it that way, or acts for the holder.
    unsafe fn unlock(&self, way: Way);

    /// Whether nobody holds the lock in a way that excludes `way`, whoever waits. `false` where the
    /// lock does not tell.
    fn is_open(&self, way: Way) -> bool {
        let _ = way;
        false
    }

    /// The lock's state as text: what a failed attempt must not change. Leaves out what are only
    /// hints.
    fn state(&self) -> String {
        format!("{self:?}")
    }

    /// What the lock counts of itself, by name, if it counts at the moment. Most never do.
    fn statistics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Whether nobody holds the lock, nobody waits, and nothing is left of those who did.
    fn at_rest(&self) -> bool {
        self.state() == Self::default().state()
    }
}

/// A lock whose waits can end early.
pub trait Timed: Lock {
    /// Takes the lock unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    fn lock_until(&self, way: Way, until: Until<'_, Self::P>) -> Result<(), GaveUp>;
}

/// A reader-writer lock.
pub trait Shared: Lock {
    /// Turns the write lock into a read lock.
    ///
    /// # Safety
    /// The caller holds the write lock.
    unsafe fn downgrade(&self);
}

/// A counting semaphore.
pub trait Count: Debug + Send + Sync + Sized {
    /// Where it runs.
    type P: Platform;

    /// A semaphore with `units`.
    fn with_units(units: u32) -> Self;
    /// Takes a unit; waits for one.
    fn down(&self);
    /// Takes a unit if there is one.
    fn try_down(&self) -> bool;
    /// Takes a unit unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    fn down_until(&self, until: Until<'_, Self::P>) -> Result<(), GaveUp>;
    /// Returns a unit. `false`: there are too many.
    fn up(&self) -> bool;
    /// Units available.
    fn units(&self) -> u32;
    /// The most units it holds.
    const MOST: u32;

    /// The state as text.
    fn state(&self) -> String {
        format!("{self:?}")
    }
}

/// A semaphore that gives many units in one step.
pub trait Weigh: Count {
    /// Takes `units`; waits for them.
    fn down_many(&self, units: u32);
    /// Takes `units` if there are so many.
    fn try_down_many(&self, units: u32) -> bool;
    /// Takes `units` unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    fn down_many_until(&self, units: u32, until: Until<'_, Self::P>) -> Result<(), GaveUp>;
    /// Returns `units`. `false`: there would be too many, and none was returned.
    fn up_many(&self, units: u32) -> bool;
}

/// What becomes of the last reference, decided under the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// It stays.
    Keep,
    /// It is given up.
    Put,
}

/// A lock with a reference count.
pub trait References: Lock {
    /// An object with `count` references.
    fn with_count(count: u16) -> Self;
    /// The count as it is.
    fn count(&self) -> i32;
    /// One more: the caller has one.
    fn get(&self);
    /// One more if there is one.
    fn get_not_zero(&self) -> bool;
    /// One more unless the object is dead.
    fn get_not_dead(&self) -> bool;
    /// One less, without the lock.
    fn put_return(&self) -> Option<u32>;
    /// One less, unless it is the last: then `last` says under the lock what becomes of it. Whether
    /// it was.
    fn put_or(&self, last: impl FnOnce(i32) -> Last) -> bool;
    /// Marks the object dead, under the lock.
    fn kill(&self);
}

/// A lock on a futex hash that can grow.
pub trait Hashed: Lock {
    /// Grows the hash to so many buckets.
    fn grow(&self, buckets: usize) -> bool;
    /// Sleeps on `word` while it is zero.
    fn wait(&self, word: &<Self::P as Platform>::U32, deadline: Option<u64>) -> Waited;
    /// Wakes sleepers.
    fn wake(&self, word: &<Self::P as Platform>::U32, most: usize) -> usize;
}

/// A held lock: released when dropped, also by a failed check, so that other threads of a case can
/// go on and fail as well.
#[derive(Debug)]
pub struct Held<'a, L: Lock> {
    lock: &'a L,
    way: Way,
}

impl<'a, L: Lock> Held<'a, L> {
    /// Takes `lock`.
    pub fn new(lock: &'a L, way: Way) -> Self {
        lock.lock(way);
        Self { lock, way }
    }

    /// Takes `lock` if that is possible now.
    pub fn try_new(lock: &'a L, way: Way) -> Option<Self> {
        lock.try_lock(way).then(|| Self { lock, way })
    }

    /// Takes `lock` unless `until` comes first.
    ///
    /// # Errors
    /// Why the wait ended.
    pub fn until(lock: &'a L, way: Way, until: Until<'_, L::P>) -> Result<Self, GaveUp>
    where
        L: Timed,
    {
        lock.lock_until(way, until).map(|()| Self { lock, way })
    }

    /// From writing to reading.
    pub fn downgrade(mut self) -> Self
    where
        L: Shared,
    {
        assert_eq!(self.way, Way::Write);
        // SAFETY: this guard stands for the write lock.
        unsafe { self.lock.downgrade() };
        self.way = Way::Read;
        self
    }
}

impl<L: Lock> Drop for Held<'_, L> {
    fn drop(&mut self) {
        // SAFETY: this guard stands for an acquisition that way.
        unsafe { self.lock.unlock(self.way) };
    }
}
