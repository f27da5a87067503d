//! What torture needs of a machine beyond what locks and the conformance suite ask.

use lockyard::platform::linux::Linux;
use lockyard_check::stage::Stage;
use lockyard_sim::Sim;
use lockyard_work::Machine;

use crate::{child, handler};

/// A machine to torture on.
pub trait Ground: Stage + Machine {
    /// Whether the machine's own handler of forks tells ticket locks of ghosts.
    const CALLS_BACK: bool = false;

    /// Computes for about `ns`.
    fn compute(ns: u64);

    /// `object` is freed: nobody may touch it from now on. Where nobody can tell, nothing happens.
    fn freed<T: ?Sized>(object: &T) {
        let _ = object;
    }

    /// Whether the calling thread holds nothing from here on, so that a signal handler may stop it.
    fn may_stop(may: bool);

    /// Until when, by [`Machine::stamp`], a handler has kept the run's thread `thread`, 0 if none
    /// has; `None` while one does.
    fn stopped_until(thread: usize) -> Option<u64>;

    /// An opportunity to fork. `true`: the caller goes on in the child. Where a child is a process
    /// of its own, it does what `child` says and ends, and this is `false`.
    fn fork(child: &mut dyn FnMut()) -> bool;

    /// The CPU time that the run's thread `thread` has used, ns, if that can be told.
    fn cpu_ns(thread: usize) -> Option<u64> {
        let _ = thread;
        None
    }
}

impl Ground for Linux {
    const CALLS_BACK: bool = true;

    fn compute(ns: u64) {
        Self::pause(Self::pauses(ns));
    }

    fn may_stop(may: bool) {
        handler::may_stop(may);
    }

    fn stopped_until(thread: usize) -> Option<u64> {
        (!handler::is_stopped(thread)).then_some(0)
    }

    fn fork(child: &mut dyn FnMut()) -> bool {
        child::fork(child);
        false
    }
}

impl Ground for Sim {
    fn compute(ns: u64) {
        lockyard_sim::compute(ns);
    }

    fn freed<T: ?Sized>(object: &T) {
        lockyard_sim::freed(object);
    }

    fn may_stop(may: bool) {
        lockyard_sim::may_stop(may);
    }

    fn stopped_until(thread: usize) -> Option<u64> {
        lockyard_sim::stopped_until(thread)
    }

    fn fork(_child: &mut dyn FnMut()) -> bool {
        lockyard_sim::fork()
    }

    fn cpu_ns(thread: usize) -> Option<u64> {
        Some(lockyard_sim::cpu_ns(thread))
    }
}
