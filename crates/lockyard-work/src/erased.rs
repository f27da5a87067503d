//! A lock behind a pointer: where the locks of one run are of several types.
//!
//! A recorded program has mutexes beside reader-writer locks, and one class of them may be replaced
//! by the lock under test. Its sections are long enough for two calls through a pointer; the other
//! workloads keep their locks monomorphised.

use std::marker::PhantomData;

use crate::machine::Machine;
use crate::padded::Padded;
use crate::subject::{Exclusive, Shared};

/// A lock of any type.
pub(crate) trait Erased: Send + Sync {
    /// Runs `section` with the lock held exclusively.
    fn exclusive(&self, section: &mut dyn FnMut());

    /// Runs `section` with the lock held for reading; exclusively, if it has no read side.
    fn shared(&self, section: &mut dyn FnMut());

    /// As [`Erased::exclusive`], if that needs no wait. `false`: it was not run.
    fn try_exclusive(&self, section: &mut dyn FnMut()) -> bool;

    /// As [`Erased::shared`], likewise.
    fn try_shared(&self, section: &mut dyn FnMut()) -> bool;
}

/// Makes a lock that reports call by this name.
pub(crate) type Make = fn(&str) -> Box<dyn Erased>;

struct WriteOnly<M, L>(Padded<L>, PhantomData<fn() -> M>);

struct Both<M, L>(Padded<L>, PhantomData<fn() -> M>);

/// A new lock `L`, used without its read side if it has one.
pub(crate) fn exclusive<M: Machine, L: Exclusive + 'static>(name: &str) -> Box<dyn Erased> {
    let lock = Box::new(WriteOnly::<M, L>(Padded(L::new()), PhantomData));
    M::name(name, &lock.0.0);
    lock
}

/// A new lock `L`.
pub(crate) fn shared<M: Machine, L: Shared + 'static>(name: &str) -> Box<dyn Erased> {
    let lock = Box::new(Both::<M, L>(Padded(L::new()), PhantomData));
    M::name(name, &lock.0.0);
    lock
}

impl<M: Machine, L: Exclusive> Erased for WriteOnly<M, L> {
    fn exclusive(&self, section: &mut dyn FnMut()) {
        self.0.with(|| within::<M, L>(&self.0, section));
    }

    fn shared(&self, section: &mut dyn FnMut()) {
        self.exclusive(section);
    }

    fn try_exclusive(&self, section: &mut dyn FnMut()) -> bool {
        self.0.try_with(|| within::<M, L>(&self.0, section)).is_some()
    }

    fn try_shared(&self, section: &mut dyn FnMut()) -> bool {
        self.try_exclusive(section)
    }
}

impl<M: Machine, L: Shared> Erased for Both<M, L> {
    fn exclusive(&self, section: &mut dyn FnMut()) {
        self.0.with(|| within::<M, L>(&self.0, section));
    }

    fn shared(&self, section: &mut dyn FnMut()) {
        self.0.with_shared(|| within::<M, L>(&self.0, section));
    }

    fn try_exclusive(&self, section: &mut dyn FnMut()) -> bool {
        self.0.try_with(|| within::<M, L>(&self.0, section)).is_some()
    }

    fn try_shared(&self, section: &mut dyn FnMut()) -> bool {
        self.0.try_with_shared(|| within::<M, L>(&self.0, section)).is_some()
    }
}

fn within<M: Machine, L>(lock: &L, section: &mut dyn FnMut()) {
    M::passes(lock, true);
    section();
    M::passes(lock, false);
}
