//! Lock classes: which locks belong together in the statistics.
//!
//! Classes have numbers for the life of the process, whatever becomes of segments: a static table
//! has their names, which [`open`](crate::open) copies.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use crate::layout::{CLASSES, ClassRecord, PATH, Text};
use crate::site;

/// Which locks belong together in the statistics: a small number, 0 for "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Class(u8);

impl Class {
    /// Locks without a class.
    pub const NONE: Self = Self(0);

    /// The class whose number, as [`Class::raw`] and [`Class::kept`] gave it, is the low byte of
    /// `raw`.
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw as u8)
    }

    /// Its place in arrays.
    #[inline]
    pub(crate) const fn index(self) -> usize {
        if (self.0 as usize) < CLASSES { self.0 as usize } else { 0 }
    }

    /// What a lock that has it keeps: never 0.
    #[inline]
    pub const fn kept(self) -> u32 {
        if self.0 == 0 { 1 << u8::BITS } else { self.raw() }
    }

    /// Its number, to keep in a lock: under 256.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0 as u32
    }
}

struct Identity {
    ready: AtomicU32,
    /// Locks that have got it.
    locks: AtomicU64,
    site: AtomicU64,
    /// The address that [`class_at`](crate::class_at) was asked for, or 0.
    address: AtomicU64,
    kind: Text<16>,
    name: Text<PATH>,
}

static IDENTITIES: [Identity; CLASSES] = [const {
    let (site, address) = (AtomicU64::new(0), AtomicU64::new(0));
    Identity { ready: AtomicU32::new(0), locks: AtomicU64::new(0), site, address, kind: Text::new(), name: Text::new() }
}; CLASSES];

/// Classes that are left to names, however many places there are. (Threads that come at once may
/// take some.)
const NAMES: usize = 32;

/// Class numbers given out, number 0 included.
static NAMED: AtomicU32 = AtomicU32::new(1);

/// [`class`](crate::class); `publish` gets a class that is new.
pub(crate) fn named(kind: &[u8], name: &[u8], site: usize, publish: fn(Class)) -> Class {
    let same = |identity: &Identity| identity.site.load(Relaxed) == site as u64 && identity.name.is(name);
    known(kind, same).unwrap_or_else(|| made(kind, name, site, 0, publish))
}

/// [`class_at`](crate::class_at); `publish` gets a class that is new.
pub(crate) fn at(kind: &[u8], address: usize, publish: fn(Class)) -> Class {
    let same = |identity: &Identity| identity.address.load(Relaxed) == address as u64;
    known(kind, same).unwrap_or_else(|| {
        if count() >= CLASSES - NAMES {
            return Class::NONE;
        }
        match site::locate(address) {
            Some(site) => made(kind, site.path(), site.place, address, publish),
            None => made(kind, b"", address, address, publish),
        }
    })
}

fn known(kind: &[u8], same: impl Fn(&Identity) -> bool) -> Option<Class> {
    let is = |identity: &Identity| identity.ready.load(Acquire) == 1 && same(identity) && identity.kind.is(kind);
    IDENTITIES[..count()].iter().position(is).map(|index| Class(index as u8))
}

fn made(kind: &[u8], name: &[u8], site: usize, address: usize, publish: fn(Class)) -> Class {
    let index = NAMED.fetch_update(AcqRel, Relaxed, |next| (next < CLASSES as u32).then_some(next + 1));
    let Ok(index) = index else { return Class::NONE };
    let identity = &IDENTITIES[index as usize];
    identity.site.store(site as u64, Relaxed);
    identity.address.store(address as u64, Relaxed);
    identity.kind.set(kind);
    identity.name.set(name);
    identity.ready.store(1, Release);
    publish(Class(index as u8));
    Class(index as u8)
}

/// A lock has got `class`. How many have by now.
pub(crate) fn joined(class: Class) -> u64 {
    IDENTITIES[class.index()].locks.fetch_add(1, Relaxed) + 1
}

/// Classes that have a number.
pub(crate) fn count() -> usize {
    NAMED.load(Acquire).min(CLASSES as u32) as usize
}

/// Copies the names of class `index` to `record`.
pub(crate) fn describe(index: usize, record: &ClassRecord) {
    let identity = &IDENTITIES[index];
    record.site.store(identity.site.load(Relaxed), Relaxed);
    record.tally.locks.fetch_max(identity.locks.load(Relaxed), Relaxed);
    record.kind.copy_from(&identity.kind);
    record.name.copy_from(&identity.name);
}
