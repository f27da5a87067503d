//! What is known of objects that have no byte to keep it in: condition variables, semaphores and
//! spinlocks. A table by their addresses, with the place of the code that initialised an object, or
//! else of the code that was first told to use it, and the class of that place once an event has
//! asked for it.
//!
//! | a call that | does what |
//! |---|---|
//! | initialises it | [`Object::made`], while a segment is open |
//! | destroys it | [`Object::gone`], likewise |
//! | is told of, but for the end of a wait | [`Object::class`] |
//!
//! Objects that find no place in the table share one class of their sort: as may all after the
//! first 65,536, where none is destroyed. All of it may run in a signal handler: nothing
//! allocates, waits, or changes errno.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use crate::classes::Class;
use crate::layout::ThreadPage;
use crate::tape::{self, Kind};
use crate::told;
use crate::writer::watched;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A condition variable.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A spinlock.
    Spinlock,
}

impl Sort {
    const fn kind(self) -> &'static [u8] {
        match self {
            Self::Condition => tape::CONDITION,
            Self::Semaphore => tape::SEMAPHORE,
            Self::Spinlock => b"spinlock",
        }
    }

    /// In an entry: not 0.
    const fn bits(self) -> u64 {
        (self as u64 + 1) << SORT
    }

    /// The class of objects whose place is not known.
    fn others(self) -> Class {
        static CONDITIONS: AtomicU32 = AtomicU32::new(0);
        static SEMAPHORES: AtomicU32 = AtomicU32::new(0);
        static SPINLOCKS: AtomicU32 = AtomicU32::new(0);
        let (known, name) = match self {
            Self::Condition => (&CONDITIONS, b"other condition variables".as_slice()),
            Self::Semaphore => (&SEMAPHORES, b"other semaphores".as_slice()),
            Self::Spinlock => (&SPINLOCKS, b"other spinlocks".as_slice()),
        };
        match known.load(Relaxed) {
            0 => {
                let class = told::class(self.kind(), name, 0);
                known.store(class.kept(), Relaxed);
                class
            }
            kept => Class::from_raw(kept),
        }
    }
}

/// An object in a call.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// What it is.
    pub sort: Sort,
    /// Its address.
    pub at: usize,
    /// The address after the call; 0: unknown.
    pub caller: usize,
}

/// What is known of an object.
struct Entry {
    /// Its address; 0: the entry is free.
    object: AtomicUsize,
    /// Bits 16–63: the address of the code that is its place, 0: unknown. 12–13: its sort; another
    /// one: the object that lay there is gone, and nobody has said so. 0–8: what it keeps of its
    /// class, 0: nobody has asked.
    place: AtomicU64,
}

const ROOM: usize = 1 << 16;
/// Entries that an object may have.
const PROBES: usize = 16;
const ADDRESS: u32 = 16;
const SORT: u32 = 12;
const SORTS: u64 = 3 << SORT;
const CLASS: u64 = (1 << 9) - 1;

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
        // A look first: an exchange in vain takes the line from all others.
        let free = |entry: &&Entry| {
            entry.object.load(Relaxed) == 0 && entry.object.compare_exchange(0, object, SeqCst, Relaxed).is_ok()
        };
        let mine = probes(object).find(free)?;
        // Two threads that come at once may have taken two: the first in order counts.
        let first = known(object)?;
        if !core::ptr::eq(first, mine) {
            mine.place.store(0, Relaxed);
            mine.object.store(0, SeqCst);
        }
        Some(first)
    })
}

impl Object {
    /// The condition variable at `object`, in a call from `caller`.
    pub fn condition<T>(object: *const T, caller: usize) -> Self {
        Self { sort: Sort::Condition, at: object.addr(), caller }
    }

    /// The semaphore at `object`. It is initialised by a call, as a rule: the others' callers need
    /// not be known.
    pub fn semaphore<T>(object: *const T, caller: usize) -> Self {
        Self { sort: Sort::Semaphore, at: object.addr(), caller }
    }

    /// The spinlock at `object`, in a call from `caller`.
    pub fn spinlock<T>(object: *const T, caller: usize) -> Self {
        Self { sort: Sort::Spinlock, at: object.addr(), caller }
    }

    /// Its class.
    pub fn class(self) -> Class {
        let Some(entry) = entry(self.at) else { return self.sort.others() };
        let found = entry.place.load(Relaxed);
        let is_own = |place: u64| place & SORTS == self.sort.bits();
        let place = if is_own(found) { found } else { 0 };
        if place & CLASS != 0 {
            return Class::from_raw((place & CLASS) as u32);
        }
        let address = if place >> ADDRESS == 0 { self.caller } else { (place >> ADDRESS) as usize };
        if address == 0 {
            // A later call may know its own.
            return self.sort.others();
        }
        let at = told::class_at(self.sort.kind(), address);
        let class = if at == Class::NONE { self.sort.others() } else { at };
        let kept = (address as u64) << ADDRESS | self.sort.bits() | u64::from(class.kept());
        match entry.place.compare_exchange(found, kept, Relaxed, Relaxed) {
            Err(given) if is_own(given) && given & CLASS != 0 => Class::from_raw((given & CLASS) as u32),
            Err(_) => class,
            Ok(_) => {
                if self.sort == Sort::Spinlock {
                    told::joined(class);
                }
                class
            }
        }
    }

    /// Its class, at the end of a wait: it may be gone by then, and no entry is made.
    fn class_left(self) -> Class {
        let place = known(self.at).map_or(0, |entry| entry.place.load(Relaxed));
        let is_own = place & SORTS == self.sort.bits() && place & CLASS != 0;
        if is_own { Class::from_raw((place & CLASS) as u32) } else { self.sort.others() }
    }

    /// The code at its caller initialises it.
    #[inline(always)]
    pub fn made(self) {
        #[cold]
        #[inline(never)]
        fn note(object: Object) {
            match entry(object.at) {
                Some(entry) => {
                    entry.place.store((object.caller as u64) << ADDRESS | object.sort.bits(), Relaxed);
                }
                None if object.sort == Sort::Spinlock => told::joined(object.sort.others()),
                None => {}
            }
        }
        if watched() {
            note(self);
        }
    }

    /// It is not used any more.
    #[inline(always)]
    pub fn gone(self) {
        #[cold]
        #[inline(never)]
        fn forget(object: usize) {
            // Two threads that came at once may have left two.
            for entry in probes(object).filter(|entry| entry.object.load(SeqCst) == object) {
                entry.place.store(0, Relaxed);
                entry.object.store(0, SeqCst);
            }
        }
        if watched() {
            forget(self.at);
        }
    }

    /// The thread of `page`, if it is recorded, does `what` with it.
    #[inline]
    pub fn tell_on(self, page: &ThreadPage, what: Kind) {
        if tape::is_on(page) {
            let is_end = matches!(what, Kind::Woken | Kind::GaveUp);
            tape::tell(page, what, if is_end { self.class_left() } else { self.class() }, self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is the process's: one test at a time, or another one fills it.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Freed, and not destroyed, it was what lay there before. Spinlocks of one class were one
    /// lock.
    #[test]
    fn what_lay_there_before_is_not_believed_and_spinlocks_are_counted() {
        let _alone = ALONE.lock();
        let (spin, condition) =
            (Object::spinlock(0x10 as *const u8, 0x1000), Object::condition(0x10 as *const u8, 0x1000));
        let [first, second] = [spin.class(), condition.class()];
        assert!(first != second && second == Object::condition(0x10 as *const u8, 0x2000).class());
        let unknown = Object::condition(0x20 as *const u8, 0);
        assert_eq!(unknown.class(), Sort::Condition.others());
        assert_eq!(Object::condition(0x20 as *const u8, 0x1000).class(), second);
        let locks = crate::classes::joined(first).unwrap();
        Object::spinlock(0x30 as *const u8, 0x1000).class();
        assert_eq!(crate::classes::joined(first), Some(locks + 2));
    }

    /// POSIX lets a condition variable be destroyed while those that were signalled wait for the
    /// mutex. Their end of the wait made its entry anew, for whatever lay there next.
    #[test]
    fn the_end_of_a_wait_makes_no_entry() {
        let _alone = ALONE.lock();
        let old = Object::condition(0x40 as *const u8, 0x1000);
        assert_eq!(old.class_left(), Sort::Condition.others());
        let class = old.class();
        assert_eq!(old.class_left(), class);
        let entry = known(0x40).unwrap();
        entry.place.store(0, Relaxed);
        entry.object.store(0, SeqCst);
        assert_eq!(old.class_left(), Sort::Condition.others());
        assert!(known(0x40).is_none() && Object::condition(0x40 as *const u8, 0x2000).class() != class);
    }

    #[test]
    fn an_object_has_one_entry_until_it_is_gone_and_the_table_may_be_full() {
        let _alone = ALONE.lock();
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
