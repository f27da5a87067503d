//! A lock under test: what a workload does to it, and what it is called.
//!
//! The interface is a closure, not a pair of calls, so that each lock is used as its own users use
//! it: std's with the guard on the stack, pthread's as two C calls, a raw lock as two method calls.
//! Nothing is added to any of them.

use lockyard_catalog::lock::{self, Last, References, Way};
use serde::{Serialize, Serializer};

pub use lockyard_catalog::Family;

/// A lock that one thread at a time may hold.
pub trait Exclusive: Send + Sync + Sized {
    /// An unlocked lock.
    fn new() -> Self;

    /// Runs `section` with the lock held exclusively.
    fn with<R>(&self, section: impl FnOnce() -> R) -> R;

    /// The same if the lock is free; else `None`, at once. A lock that cannot be tried waits.
    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        Some(self.with(section))
    }

    /// What the lock counts of itself, by name, if it counts at the moment. Most never do.
    fn statistics(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A lock that many readers may hold together.
pub trait Shared: Exclusive {
    /// Runs `section` with the lock held for reading.
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R;

    /// The same if no writer has it or keeps it; else `None`, at once. As [`Exclusive::try_with`].
    fn try_with_shared<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        Some(self.with_shared(section))
    }
}

/// A lock with a reference count that stands still while the lock is held.
pub trait Counted: Exclusive {
    /// Takes a reference; the object has one.
    fn get(&self);

    /// Gives one up, which is not the object's own.
    fn put(&self);

    /// The references taken and not given up.
    fn references(&self) -> i64;
}

/// Lockyard's locks, as they are listed.
impl<L: lock::Lock> Exclusive for L {
    fn new() -> Self {
        Self::default()
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock(Way::Write);
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.unlock(Way::Write) };
        result
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.try_lock(Way::Write).then(|| {
            let result = section();
            // SAFETY: acquired above by this thread.
            unsafe { self.unlock(Way::Write) };
            result
        })
    }

    fn statistics(&self) -> Vec<(&'static str, u64)> {
        lock::Lock::statistics(self)
    }
}

impl<L: lock::Shared> Shared for L {
    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock(Way::Read);
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.unlock(Way::Read) };
        result
    }

    fn try_with_shared<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.try_lock(Way::Read).then(|| {
            let result = section();
            // SAFETY: acquired above by this thread.
            unsafe { self.unlock(Way::Read) };
            result
        })
    }
}

/// An object with a reference of its own.
#[derive(Debug)]
pub struct Owned<L>(L);

impl<L: References> Exclusive for Owned<L> {
    fn new() -> Self {
        Self(L::with_count(1))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.with(section)
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.0.try_with(section)
    }
}

impl<L: References> Counted for Owned<L> {
    #[inline]
    fn get(&self) {
        self.0.get_not_dead();
    }

    #[inline]
    fn put(&self) {
        self.0.put_or(|_| Last::Keep);
    }

    fn references(&self) -> i64 {
        i64::from(self.0.count()) - 1
    }
}

/// The name and the place of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The lock's name, such as `rwsem` or `std-mutex`.
    pub name: &'static str,
    /// The policy's name, for locks that come in several.
    pub policy: Option<&'static str>,
    /// Which locks it is compared with.
    pub family: Family,
    /// Who made it.
    pub origin: Origin,
}

impl Label {
    /// A peer of `family`.
    pub const fn peer(name: &'static str, family: Family) -> Self {
        Self { name, policy: None, family, origin: Origin::Peer }
    }

    /// The name, with the policy behind a colon if there is one: `rwsem:today`.
    pub fn full(&self) -> String {
        match self.policy {
            Some(policy) => format!("{}:{policy}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// A family in a record.
pub(crate) fn by_name<S: Serializer>(family: &Family, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(family.name())
}

/// Who made a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// This project.
    Lockyard,
    /// Somebody else: what we measure ourselves against.
    Peer,
}

impl Origin {
    /// The name, as in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lockyard => "lockyard",
            Self::Peer => "peer",
        }
    }
}
