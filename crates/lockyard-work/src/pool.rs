//! A program's semaphore as a lock that several threads have at once.
//!
//! As the C library's: a word with the units that are free, and one with the threads that may
//! sleep for one.
//!
//! A thread that finds no unit adds itself to `waiting`, looks at `units` again, and sleeps. A
//! thread that gives one back adds it to `units`, then looks at `waiting`. In one order of these
//! four steps (SeqCst) one of the two sees the other. The futex closes what lies between the last
//! look and the sleep.

use std::marker::PhantomData;

use lockyard::platform::{Ordering, Word};

use crate::erased::Erased;
use crate::machine::Machine;
use crate::padded::Padded;

struct Pool<M: Machine> {
    units: M::U32,
    waiting: M::U32,
}

struct Padding<M: Machine>(Padded<Pool<M>>, PhantomData<fn() -> M>);

/// A new semaphore with so many units.
pub(crate) fn pool<M: Machine>(units: u32, name: &str) -> Box<dyn Erased> {
    let pool = Pool::<M> { units: M::U32::default(), waiting: M::U32::default() };
    pool.units.store(units, Ordering::Relaxed);
    let pool = Box::new(Padding(Padded(pool), PhantomData));
    M::name(name, &pool.0.0);
    pool
}

impl<M: Machine> Pool<M> {
    fn take(&self) -> bool {
        let mut units = self.units.load(Ordering::SeqCst);
        while units > 0 {
            match self.units.compare_exchange(units, units - 1, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => units = found,
            }
        }
        false
    }

    fn wait(&self) {
        if self.take() {
            return;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.take() {
            M::park(&self.units, 0, None);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn within(&self, section: &mut dyn FnMut()) {
        M::passes(self, true);
        section();
        M::passes(self, false);
        self.units.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            M::unpark(&self.units);
        }
    }
}

impl<M: Machine> Erased for Padding<M> {
    fn exclusive(&self, section: &mut dyn FnMut()) {
        self.0.wait();
        self.0.within(section);
    }

    fn shared(&self, section: &mut dyn FnMut()) {
        self.exclusive(section);
    }

    fn try_exclusive(&self, section: &mut dyn FnMut()) -> bool {
        let had = self.0.take();
        if had {
            self.0.within(section);
        }
        had
    }

    fn try_shared(&self, section: &mut dyn FnMut()) -> bool {
        self.try_exclusive(section)
    }
}
