//! Lock classes: which locks belong together in the statistics.
//!
//! Classes have numbers for the life of the process, whatever becomes of segments: a static table
//! has their names, which [`open`](crate::open) copies.
//!
//! | `Identity::state` | the class | stored by |
//! |---|---|---|
//! | `BLANK` | has no names yet | |
//! | `NAMED` | a segment that opens copies its names | the maker |
//! | `KNOWN` | is found; every open segment has its names | the maker |
//!
//! The maker stores `NAMED`, then looks for a segment; an opener stores the segment, then looks for
//! `NAMED`. A fence between each two: one of them sees the other, and copies. A reader therefore
//! finds the names of every class that a lock has, unless the segment has no memory for them.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*, fence};

use crate::layout::{CLASSES, ClassRecord, PATH, Text};
use crate::site::Site;
use crate::{frames, site};

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
        const { assert!(CLASSES == 1 << u8::BITS) };
        self.0 as usize
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

const BLANK: u32 = 0;
const NAMED: u32 = 1;
const KNOWN: u32 = 2;

struct Identity {
    state: AtomicU32,
    /// Locks that have got it.
    locks: AtomicU64,
    site: AtomicU64,
    /// The address that [`class_at`](crate::class_at) was asked for, or 0.
    address: AtomicU64,
    /// Of which file the code there was; 0: not known.
    stamp: AtomicU64,
    kind: Text<16>,
    name: Text<PATH>,
}

static IDENTITIES: [Identity; CLASSES] = [const {
    let (site, address, stamp) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    Identity {
        state: AtomicU32::new(BLANK),
        locks: AtomicU64::new(0),
        site,
        address,
        stamp,
        kind: Text::new(),
        name: Text::new(),
    }
}; CLASSES];

/// Classes that are left to names, however many places there are. (Threads that come at once may
/// take some.)
const NAMES: usize = 32;
/// Classes that are left to places of locks for which a thread has waited, likewise.
const AWAITED: usize = 64;

/// Class numbers given out, number 0 included.
static GIVEN: AtomicU32 = AtomicU32::new(1);

/// [`class`](crate::class); `publish` gets a class that is new.
pub(crate) fn named(kind: &[u8], name: &[u8], site: usize, publish: fn(Class)) -> Class {
    let same = |identity: &Identity| identity.site.load(Relaxed) == site as u64 && identity.name.is(name);
    known(kind, same).unwrap_or_else(|| made(kind, name, site, (0, 0), publish))
}

/// Of each address, the number of the class that was found there last; 0: none.
static FOUND: [AtomicU8; 1 << 10] = [const { AtomicU8::new(0) }; 1 << 10];

/// [`class_at`](crate::class_at), or [`class_awaited`](crate::class_awaited); `publish` gets a new
/// class.
pub(crate) fn at(kind: &[u8], address: usize, is_awaited: bool, publish: fn(Class)) -> Class {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let last = &FOUND[((address as u64).wrapping_mul(GOLDEN) >> (u64::BITS - FOUND.len().ilog2())) as usize];
    // The code that was there when the class was made may have been unloaded.
    let stamp = site::stamp(address);
    let same = |identity: &Identity| {
        let known = [&identity.address, &identity.stamp].map(|word| word.load(Relaxed));
        known[0] == address as u64 && (known[1] == stamp || known[1] == 0 || stamp == 0)
    };
    let guess = Class(last.load(Relaxed));
    if guess != Class::NONE && is_known(&IDENTITIES[guess.index()], kind, same) {
        return guess;
    }
    let class = known(kind, same).unwrap_or_else(|| {
        let site = site::locate(address);
        if let Some(class) = site.as_ref().and_then(|site| moved(kind, (address, stamp), site)) {
            return class;
        }
        if count() >= CLASSES - NAMES - if is_awaited { 0 } else { AWAITED } {
            return Class::NONE;
        }
        match site {
            Some(site) => made(kind, site.path(), site.place, (address, stamp), publish),
            None => made(kind, b"", address, (address, stamp), publish),
        }
    });
    last.store(class.0, Relaxed);
    class
}

/// The class of the code at `site`, which was at another address when it was asked for, and is at
/// `address` now: a library that was loaded again.
fn moved(kind: &[u8], (address, stamp): (usize, u64), site: &Site) -> Option<Class> {
    let same = |identity: &Identity| {
        let is_there = identity.site.load(Relaxed) == site.place as u64 && identity.name.is(site.path());
        is_there && identity.address.load(Relaxed) != 0
    };
    let class = known(kind, same)?;
    let identity = &IDENTITIES[class.index()];
    identity.stamp.store(stamp, Relaxed);
    identity.address.store(address as u64, Relaxed);
    Some(class)
}

fn known(kind: &[u8], same: impl Fn(&Identity) -> bool) -> Option<Class> {
    let is = |identity: &Identity| is_known(identity, kind, &same);
    IDENTITIES[..count()].iter().position(is).map(|index| Class(index as u8))
}

fn is_known(identity: &Identity, kind: &[u8], same: impl Fn(&Identity) -> bool) -> bool {
    identity.state.load(Acquire) == KNOWN && same(identity) && identity.kind.is(kind)
}

fn made(kind: &[u8], name: &[u8], site: usize, (address, stamp): (usize, u64), publish: fn(Class)) -> Class {
    let index = GIVEN.fetch_update(AcqRel, Relaxed, |next| (next < CLASSES as u32).then_some(next + 1));
    let Ok(index) = index else { return Class::NONE };
    let identity = &IDENTITIES[index as usize];
    identity.site.store(site as u64, Relaxed);
    identity.address.store(address as u64, Relaxed);
    identity.stamp.store(stamp, Relaxed);
    identity.kind.set(kind);
    identity.name.set(name);
    identity.state.store(NAMED, Release);
    // Before the look for a segment: see above.
    fence(SeqCst);
    publish(Class(index as u8));
    identity.state.store(KNOWN, Release);
    Class(index as u8)
}

/// Of a class with so many locks, more are not counted: threads that make them all the time would
/// wait for each other's counts.
pub const MANY: u64 = 1 << 16;

/// A lock has got `class`. How many have by now; `None`: that is not counted any more.
pub(crate) fn joined(class: Class) -> Option<u64> {
    let locks = &IDENTITIES[class.index()].locks;
    (locks.load(Relaxed) < MANY).then(|| locks.fetch_add(1, SeqCst) + 1)
}

/// A lock that had `class` has another one.
pub(crate) fn left(class: Class) {
    let locks = &IDENTITIES[class.index()].locks;
    let _ = locks.fetch_update(SeqCst, SeqCst, |locks| locks.checked_sub(1));
}

/// Tells readers how many locks have `class`, after each change.
pub(crate) fn tell_locks(class: Class, told: &AtomicU64) {
    tell_latest(&IDENTITIES[class.index()].locks, told);
}

/// Stores in `told` what `word` is: of threads that come at once after they have changed it, the
/// last store is that of the last change.
fn tell_latest(word: &AtomicU64, told: &AtomicU64) {
    loop {
        let known = word.load(SeqCst);
        told.store(known, SeqCst);
        if word.load(SeqCst) == known {
            return;
        }
    }
}

/// The code that initialises locks of `class` only passes them on, if several functions call it:
/// their locks are taken through such code.
pub(crate) fn passes_if_called_from_several(class: Class) {
    let address = IDENTITIES[class.index()].address.load(Relaxed) as usize;
    if frames::is_called_from_several(address) {
        frames::pass(address);
    }
}

/// The class of a lock that has `class`, and that the code at `place` holds: that of `place`, if
/// code has given it its class that only passes locks on.
#[cold]
pub(crate) fn held(kind: &[u8], class: Class, place: usize, publish: fn(Class)) -> Class {
    let address = IDENTITIES[class.index()].address.load(Relaxed) as usize;
    if class == Class::NONE || address == place || !frames::passes(address) {
        return class;
    }
    match at(kind, place, false, publish) {
        Class::NONE => class,
        other => other,
    }
}

/// Classes that have a number.
pub(crate) fn count() -> usize {
    GIVEN.load(Acquire).min(CLASSES as u32) as usize
}

/// The classes whose names are to be in a segment that has just been stored, 0 among them.
pub(crate) fn with_names() -> impl Iterator<Item = usize> {
    // After the store of the segment: see above.
    fence(SeqCst);
    (0..count()).filter(|&index| index == 0 || IDENTITIES[index].state.load(Acquire) != BLANK)
}

/// Copies the names of class `index` to `record`.
pub(crate) fn describe(index: usize, record: &ClassRecord) {
    let identity = &IDENTITIES[index];
    record.site.store(identity.site.load(Relaxed), Relaxed);
    record.kind.copy_from(&identity.kind);
    record.name.copy_from(&identity.name);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorder once read an event of a class that no segment had the names of yet, and took an
    /// rwlock for a mutex.
    #[test]
    fn a_class_is_not_found_before_its_names_are_published() {
        fn publish(class: Class) {
            assert!(with_names().any(|index| index == class.index()), "an opener would not see it");
            let found = known(b"rwlock", |identity| identity.name.is(b"published"));
            assert_eq!(found, None);
        }
        let class = named(b"rwlock", b"published", 0, publish);
        assert_ne!(class, Class::NONE);
        assert_eq!(named(b"rwlock", b"published", 0, |_| panic!("it is known")), class);
    }

    /// A number that was stored late stayed: of a class with one lock less.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_last_number_of_locks_is_told_last() {
        static WORD: AtomicU64 = AtomicU64::new(0);
        static TOLD: AtomicU64 = AtomicU64::new(0);
        let change = || {
            WORD.fetch_add(1, SeqCst);
            tell_latest(&WORD, &TOLD);
        };
        let mut when = 0;
        while when < crate::interrupted::interrupted(when, change, change) {
            assert_eq!(TOLD.load(SeqCst), WORD.load(SeqCst), "another change after instruction {when}");
            when += 1;
        }
        assert!(when > 10);
    }
}
