//! What a recorder is told of condition variables and semaphores: see [`lockyard_segment::tape`].
//!
//! Most of their bytes are the C library's, so what is known of them is kept apart: a table by
//! their addresses, with the place of the code that initialised an object, or else of the code that
//! was first recorded to use it, and the class of that place once an event has asked for it.
//!
//! | who | does what |
//! |---|---|
//! | `pthread_cond_init`, `sem_init` | [`made`], while a segment is open |
//! | `…_destroy` | [`gone`], likewise |
//! | the other calls | [`tell`] |
//!
//! Objects that find no place in the table share one class. All of it may run in a signal handler:
//! nothing allocates, waits, or changes errno.
//!
//! **Cost.** Without a segment a load and a branch at each call. With one, while the thread is not
//! recorded, a call and two loads more.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use lockyard_segment::layout::ThreadPage;
use lockyard_segment::tape::{self, Kind};
use lockyard_segment::{self as segment, Class};

use crate::watch;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Condition,
    Semaphore,
}

impl Sort {
    fn kind(self) -> &'static [u8] {
        match self {
            Self::Condition => tape::CONDITION,
            Self::Semaphore => tape::SEMAPHORE,
        }
    }

    /// The class of objects whose place is not known.
    fn others(self) -> Class {
        static CONDITIONS: AtomicU32 = AtomicU32::new(0);
        static SEMAPHORES: AtomicU32 = AtomicU32::new(0);
        let (known, name) = match self {
            Self::Condition => (&CONDITIONS, b"other condition variables".as_slice()),
            Self::Semaphore => (&SEMAPHORES, b"other semaphores".as_slice()),
        };
        match known.load(Relaxed) {
            0 => {
                let class = segment::class(self.kind(), name, 0);
                known.store(class.kept(), Relaxed);
                class
            }
            kept => Class::from_raw(kept),
        }
    }
}

/// A condition variable or semaphore in a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signalled {
    pub(crate) sort: Sort,
    /// Its address.
    pub(crate) at: usize,
    /// The address after the call; 0: unknown.
    pub(crate) caller: usize,
}

/// What is known of an object.
struct Entry {
    /// Its address; 0: the entry is free.
    object: AtomicUsize,
    /// Bits 16–63: the address of the code that is its place, 0: unknown. Below: what it keeps of
    /// its class, 0: nobody has asked.
    place: AtomicU64,
}

const ROOM: usize = 1 << 12;
/// Entries that an object may have.
const PROBES: usize = 16;
const ADDRESS: u32 = 16;
const CLASS: u64 = (1 << ADDRESS) - 1;

static TABLE: [Entry; ROOM] = [const { Entry { object: AtomicUsize::new(0), place: AtomicU64::new(0) } }; ROOM];

fn probes(object: usize) -> impl Iterator<Item = &'static Entry> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = ((object as u64).wrapping_mul(GOLDEN) >> (u64::BITS - ROOM.ilog2())) as usize;
    (0..PROBES).map(move |probe| &TABLE[(first + probe) % ROOM])
}

fn known(object: usize) -> Option<&'static Entry> {
    probes(object).find(|entry| entry.object.load(SeqCst) == object)
}

/// The object's entry, made if need be. `None`: there is no room for it.
fn entry(object: usize) -> Option<&'static Entry> {
    known(object).or_else(|| {
        let free = |entry: &&Entry| entry.object.compare_exchange(0, object, SeqCst, Relaxed).is_ok();
        let mine = probes(object).find(free)?;
        // Two threads that come at once may have taken two: the first in order counts.
        let first = known(object)?;
        if !core::ptr::eq(first, mine) {
            mine.object.store(0, SeqCst);
        }
        Some(first)
    })
}

impl Signalled {
    pub(crate) fn condition<T>(object: *const T, caller: usize) -> Self {
        Self { sort: Sort::Condition, at: object.addr(), caller }
    }

    /// A semaphore is initialised by a call, as a rule: the others' callers are not looked for.
    pub(crate) fn semaphore<T>(object: *const T, caller: usize) -> Self {
        Self { sort: Sort::Semaphore, at: object.addr(), caller }
    }

    fn class(self) -> Class {
        let Some(entry) = entry(self.at) else { return self.sort.others() };
        let place = entry.place.load(Relaxed);
        if place & CLASS != 0 {
            return Class::from_raw(place as u32);
        }
        let address = if place == 0 { self.caller } else { (place >> ADDRESS) as usize };
        let found = if address == 0 { Class::NONE } else { segment::class_at(self.sort.kind(), address) };
        let class = if found == Class::NONE { self.sort.others() } else { found };
        let kept = (address as u64) << ADDRESS | u64::from(class.kept());
        match entry.place.compare_exchange(place, kept, Relaxed, Relaxed) {
            Err(given) if given & CLASS != 0 => Class::from_raw(given as u32),
            _ => class,
        }
    }

    /// The code at its caller initialises it.
    #[inline(always)]
    pub(crate) fn made(self) {
        #[cold]
        #[inline(never)]
        fn note(object: Signalled) {
            if let Some(entry) = entry(object.at) {
                entry.place.store((object.caller as u64) << ADDRESS, Relaxed);
            }
        }
        if segment::watched() {
            note(self);
        }
    }

    /// It is not used any more.
    #[inline(always)]
    pub(crate) fn gone(self) {
        #[cold]
        #[inline(never)]
        fn forget(object: usize) {
            if let Some(entry) = known(object) {
                entry.place.store(0, Relaxed);
                entry.object.store(0, SeqCst);
            }
        }
        if segment::watched() {
            forget(self.at);
        }
    }

    /// The calling thread does `what` with it.
    #[inline(always)]
    pub(crate) fn tell(self, what: Kind) {
        #[cold]
        #[inline(never)]
        fn tell(object: Signalled, what: Kind) {
            if let Some(page) = recorded() {
                tape::tell(page, what, object.class(), object.at);
            }
        }
        if segment::watched() {
            tell(self, what);
        }
    }

    /// Its wait is over: the thread has what it waited for, or does without.
    #[inline(always)]
    pub(crate) fn tell_end(self, is_signalled: bool) {
        self.tell(if is_signalled { Kind::Woken } else { Kind::GaveUp });
    }

    /// A call of the C library that waits for it, and says 0 if it was signalled.
    #[inline(always)]
    pub(crate) fn tell_around(self, wait: impl FnOnce() -> c_int) -> c_int {
        self.tell(Kind::Wait);
        let result = wait();
        self.tell_end(result == 0);
        result
    }
}

/// Where the calling thread counts, if it is recorded.
#[inline]
pub(crate) fn recorded() -> Option<&'static ThreadPage> {
    let page = if segment::watched() { watch::page() } else { None };
    page.filter(|page| tape::is_on(page))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one test: the table is the process's.
    #[test]
    fn an_object_has_one_entry_until_it_is_gone_and_the_table_may_be_full() {
        let objects: Vec<usize> = (0..2 * ROOM).map(|number| 0x7f00_0000_0000 + 48 * number).collect();
        let placed: Vec<_> = objects.iter().map(|&object| entry(object)).collect();
        let found = placed.iter().flatten().count();
        assert!((ROOM / 2..=ROOM).contains(&found), "{found}");
        for (object, placed) in objects.iter().zip(&placed) {
            let again = known(*object);
            assert_eq!(again.map(core::ptr::from_ref), placed.map(core::ptr::from_ref));
        }
        placed.iter().flatten().for_each(|entry| entry.object.store(0, SeqCst));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| objects[..64].iter().for_each(|&object| assert!(entry(object).is_some())));
            }
        });
        for object in &objects[..64] {
            assert_eq!(probes(*object).filter(|entry| entry.object.load(SeqCst) == *object).count(), 1);
        }
    }
}
