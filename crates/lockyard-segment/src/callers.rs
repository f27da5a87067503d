//! Which code waits for the locks of a class, and which code makes others wait.
//!
//! # The table
//!
//! Open addressing in the segment: a record belongs to one [`Caller`] from the exchange that puts
//! it there, for good. A reader that comes between that and the name of the file sees a record
//! without a place. Where all records that a caller may have are others', it is not told apart.
//!
//! | thread | does what |
//! |---|---|
//! | a thread that begins to wait | looks up itself, and the holder's acquisition |
//! | a thread whose wait has ended | adds it, once it has released the lock |
//! | a holder for whom others waited | adds its hold time, after the release |

use core::sync::atomic::Ordering::*;

use crate::classes::Class;
use crate::layout::{CALLERS, CALLERS_OF_A_PAGE, CallerRecord};
use crate::{site, writer};

/// The code that asks for locks of a class, in a mode.
///
/// | bits | what |
/// |---|---|
/// | 0–7 | the class's number |
/// | 8 | shared with others |
/// | 9 | set: 0 is no caller |
/// | 16–63 | the address after the call; 0: unknown |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Caller(u64);

const SHARED: u64 = 1 << 8;
const SOME: u64 = 1 << 9;
const ADDRESS: u32 = 16;

impl Caller {
    /// The code that returns to `address` (0: unknown) takes a lock of `class`, for itself alone.
    #[inline]
    pub const fn new(class: Class, address: usize) -> Self {
        Self((address as u64) << ADDRESS | class.raw() as u64 | SOME)
    }

    /// The same, together with others: a reader.
    #[inline]
    #[must_use]
    pub const fn shared(self) -> Self {
        Self(self.0 | SHARED)
    }

    #[inline]
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// `None`: 0, which is nobody.
    pub(crate) fn from_raw(raw: u64) -> Option<Self> {
        (raw != 0).then_some(Self(raw))
    }

    #[inline]
    pub(crate) const fn class(self) -> Class {
        Class::from_raw(self.0 as u32)
    }

    /// The number of its class's counter in a page.
    #[inline]
    pub(crate) const fn counter(self) -> usize {
        self.0 as u8 as usize
    }

    /// Whether it takes the lock together with others.
    pub(crate) const fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    pub(crate) const fn address(self) -> usize {
        (self.0 >> ADDRESS) as usize
    }
}

/// For locks whose callers are not known.
impl From<Class> for Caller {
    #[inline]
    fn from(class: Class) -> Self {
        Self::new(class, 0)
    }
}

/// How many records a caller may have.
const PROBES: usize = 32;

/// Where `caller`'s first record is.
pub(crate) fn first(caller: Caller) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    (caller.raw().wrapping_mul(GOLDEN) >> (u64::BITS - CALLERS.ilog2())) as usize
}

/// The records that `caller` may have, by number.
pub(crate) fn places(caller: Caller) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |probe| (first(caller) + probe) % CALLERS)
}

/// The record of `caller`, made if need be: the first time, that costs a look at the process's
/// mappings.
pub(crate) fn record(caller: Caller) -> Option<&'static CallerRecord> {
    let shared = writer::shared()?;
    for index in places(caller) {
        let record = &shared.callers[index];
        let bit = 1 << (index / CALLERS_OF_A_PAGE);
        if shared.header.callers.load(Acquire) & bit == 0 {
            writer::real(core::ptr::from_ref(record).cast_mut().cast()).ok()?;
            shared.header.callers.fetch_or(bit, Release);
        }
        match record.caller.load(Relaxed) {
            0 => match record.caller.compare_exchange(0, caller.raw(), Relaxed, Relaxed) {
                Ok(_) => {
                    describe(record, caller.address());
                    return Some(record);
                }
                Err(other) if other == caller.raw() => return Some(record),
                Err(_) => {}
            },
            other if other == caller.raw() => return Some(record),
            _ => {}
        }
    }
    None
}

#[cold]
fn describe(record: &CallerRecord, address: usize) {
    let place = match site::locate(address).filter(|_| address != 0) {
        Some(site) => {
            record.file.set(site.path());
            site.place
        }
        None => address,
    };
    record.place.store(place as u64, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_a_word() {
        let class = Class::from_raw(255);
        let caller = Caller::new(class, 0x7fff_ffff_ffff).shared();
        assert_eq!((caller.class(), caller.address(), caller.is_shared()), (class, 0x7fff_ffff_ffff, true));
        assert_eq!(Caller::from(Class::NONE).class(), Class::NONE);
        assert_ne!(Caller::from(Class::NONE).raw(), 0);
        assert!(places(caller).all(|index| index < CALLERS));
    }
}
