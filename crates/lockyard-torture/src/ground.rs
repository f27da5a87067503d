//! What torture needs of a machine beyond what locks and the conformance suite ask.

use lockyard::platform::linux::Linux;
use lockyard_check::stage::Stage;
use lockyard_sim::Sim;
use lockyard_work::Machine;

use crate::catalog::{self, Entry};

/// A machine to torture on.
pub trait Ground: Stage + Machine {
    /// Every lock on this ground. Compiled here, once: whoever called the generic list would compile all locks again.
    fn locks() -> Vec<Entry<Self>>;

    /// Computes for about `ns`.
    fn compute(ns: u64);

    /// `object` is freed: nobody may touch it from now on. Where nobody can tell, nothing happens.
    fn freed<T: ?Sized>(object: &T) {
        let _ = object;
    }

    /// The CPU time that the run's thread `thread` has used, ns, if that can be told.
    fn cpu_ns(thread: usize) -> Option<u64> {
        let _ = thread;
        None
    }
}

impl Ground for Linux {
    fn locks() -> Vec<Entry<Self>> {
        let mut locks = catalog::entries();
        locks.extend(catalog::lending());
        locks
    }

    fn compute(ns: u64) {
        Self::pause(Self::pauses(ns));
    }
}

impl Ground for Sim {
    fn locks() -> Vec<Entry<Self>> {
        catalog::entries()
    }

    fn compute(ns: u64) {
        lockyard_sim::compute(ns);
    }

    fn freed<T: ?Sized>(object: &T) {
        lockyard_sim::freed(object);
    }

    fn cpu_ns(thread: usize) -> Option<u64> {
        Some(lockyard_sim::cpu_ns(thread))
    }
}
