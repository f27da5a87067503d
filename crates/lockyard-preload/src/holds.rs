//! Which reader-writer locks a thread holds for reading.
//!
//! glibc's default rwlock admits a thread that reads already, whatever waits; programs rely on it, and a fair lock would deadlock them. So each
//! thread notes what it reads. The notes are hints: they decide who may pass waiting writers, not who may enter
//! (see [`RawRwSem::try_read_again`](lockyard::rwsem::RawRwSem::try_read_again)). A stale one, of a lock that another thread unlocked or that was freed,
//! costs fairness. Beyond [`PLACES`] locks at a time the thread counts as a reader of every lock.

use core::cell::Cell;

/// How many locks a thread can hold for reading before they are only counted.
const PLACES: usize = 16;

/// A thread's notes. All-zero: none.
#[repr(C)]
pub(crate) struct Holds {
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
        self.unplaced.get() != 0 || self.used.get() != 0 && self.find(lock).is_some()
    }

    fn find(&self, lock: usize) -> Option<&Hold> {
        self.places.iter().take(self.used.get() as usize).find(|hold| hold.lock.get() == lock)
    }

    /// One more hold of `lock`.
    #[inline]
    pub(crate) fn add(&self, lock: usize) {
        let used = self.used.get();
        if used == 0 {
            let [first, ..] = &self.places;
            first.lock.set(lock);
            first.count.set(1);
            self.used.set(1);
            return;
        }
        self.add_slow(lock, used);
    }

    fn add_slow(&self, lock: usize, used: u32) {
        if let Some(hold) = self.find(lock) {
            hold.count.set(hold.count.get() + 1);
        } else if let Some(hold) = self.places.get(used as usize) {
            hold.lock.set(lock);
            hold.count.set(1);
            self.used.set(used + 1);
        } else {
            self.unplaced.set(self.unplaced.get() + 1);
        }
    }

    /// One hold less.
    #[inline]
    pub(crate) fn remove(&self, lock: usize) {
        let [only, ..] = &self.places;
        if self.used.get() == 1 && only.lock.get() == lock && only.count.get() == 1 {
            self.used.set(0);
            return;
        }
        self.remove_slow(lock);
    }

    fn remove_slow(&self, lock: usize) {
        let Some(hold) = self.find(lock) else {
            self.unplaced.set(self.unplaced.get().saturating_sub(1));
            return;
        };
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
}
