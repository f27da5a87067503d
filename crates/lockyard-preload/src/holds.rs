//! Which reader-writer locks a thread holds for reading.
//!
//! glibc's default rwlock admits a thread that reads already, whatever waits; programs rely on it,
//! and a fair lock would deadlock them. So each thread notes what it reads. The notes are hints:
//! they decide who may pass waiting writers, not who may enter (see
//! [`RawRwSem::try_read_again`](lockyard::rwsem::RawRwSem::try_read_again)). A stale one, of a lock
//! that another thread unlocked or that was freed, costs fairness. Beyond [`PLACES`] locks at a
//! time the thread counts as a reader of every lock.
//!
//! Nearly always a thread reads nothing, or one lock once. That is one word, [`Holds::only`], and
//! one comparison each way; any more goes to the table, until all is given back.

use core::cell::Cell;

/// How many locks a thread can hold for reading before they are only counted.
const PLACES: usize = 16;
/// In [`Holds::only`], in place of an address: see the table.
const TABLE: usize = usize::MAX;

/// A thread's notes. All-zero: none.
#[repr(C)]
pub(crate) struct Holds {
    /// The one lock that the thread holds, once; 0: it holds none; [`TABLE`].
    only: Cell<usize>,
    /// Places in use are below this.
    used: Cell<u32>,
    /// Holds without a place.
    unplaced: Cell<u32>,
    places: [Hold; PLACES],
}

#[repr(C)]
struct Hold {
    lock: Cell<usize>,
    count: Cell<u32>,
}

impl Holds {
    /// Whether the thread may hold `lock` for reading.
    #[inline(always)]
    pub(crate) fn contains(&self, lock: usize) -> bool {
        let only = self.only.get();
        only == lock || only == TABLE && (self.unplaced.get() != 0 || self.find(lock).is_some())
    }

    fn find(&self, lock: usize) -> Option<&Hold> {
        self.places.iter().take(self.used.get() as usize).find(|hold| hold.lock.get() == lock)
    }

    /// One more hold of `lock`.
    #[inline(always)]
    pub(crate) fn add(&self, lock: usize) {
        if self.only.get() == 0 {
            self.only.set(lock);
        } else {
            self.add_to_table(lock);
        }
    }

    #[inline(never)]
    extern "C" fn add_to_table(&self, lock: usize) {
        let only = self.only.replace(TABLE);
        if only != TABLE {
            self.place(only);
        }
        match self.find(lock) {
            Some(hold) => hold.count.set(hold.count.get().saturating_add(1)),
            None => self.place(lock),
        }
    }

    /// A place for a first hold of `lock`, if there is one.
    fn place(&self, lock: usize) {
        let used = self.used.get();
        match self.places.get(used as usize) {
            Some(hold) => {
                hold.lock.set(lock);
                hold.count.set(1);
                self.used.set(used + 1);
            }
            None => self.unplaced.set(self.unplaced.get().saturating_add(1)),
        }
    }

    /// One hold less.
    #[inline(always)]
    pub(crate) fn remove(&self, lock: usize) {
        if self.only.get() == lock {
            self.only.set(0);
        } else {
            self.remove_from_table(lock);
        }
    }

    #[inline(never)]
    extern "C" fn remove_from_table(&self, lock: usize) {
        if self.only.get() != TABLE {
            // Another thread's hold: it keeps its note.
            return;
        }
        match self.find(lock) {
            Some(hold) => {
                let count = hold.count.get().saturating_sub(1);
                hold.count.set(count);
                if count == 0 {
                    let last = self.used.get() - 1;
                    if let Some(moved) = self.places.get(last as usize) {
                        hold.lock.set(moved.lock.get());
                        hold.count.set(moved.count.get());
                    }
                    self.used.set(last);
                }
            }
            None => self.unplaced.set(self.unplaced.get().saturating_sub(1)),
        }
        if self.used.get() == 0 && self.unplaced.get() == 0 {
            self.only.set(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds() -> Holds {
        // SAFETY: all-zero is a valid value.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn one_lock_once_needs_no_table() {
        let holds = holds();
        assert!(!holds.contains(16));
        holds.add(16);
        assert!(holds.contains(16) && !holds.contains(32));
        holds.remove(16);
        assert!(!holds.contains(16));
        assert_eq!(holds.only.get(), 0);
    }

    #[test]
    fn holds_nest_in_any_order() {
        let holds = holds();
        for lock in [16, 32, 16, 48] {
            holds.add(lock);
        }
        for (lock, left) in [(16, true), (48, false), (16, false), (32, false)] {
            assert!(holds.contains(lock));
            holds.remove(lock);
            assert_eq!(holds.contains(lock), left, "{lock}");
        }
        assert_eq!((holds.only.get(), holds.used.get(), holds.unplaced.get()), (0, 0, 0));
    }

    #[test]
    fn too_many_count_as_any() {
        let holds = holds();
        let locks: Vec<usize> = (1..=PLACES + 2).map(|number| 16 * number).collect();
        locks.iter().for_each(|lock| holds.add(*lock));
        assert!(holds.contains(7777));
        locks.iter().for_each(|lock| holds.remove(*lock));
        assert!(!holds.contains(7777) && !holds.contains(16));
        assert_eq!(holds.only.get(), 0);
    }

    #[test]
    fn a_hold_that_another_thread_gives_back_takes_nothing_from_others() {
        let holds = holds();
        holds.remove(16);
        holds.add(32);
        holds.remove(16);
        assert!(holds.contains(32));
        holds.remove(32);
        assert_eq!(holds.only.get(), 0);
    }
}
