//! A run that ends with the work instead of after a time: all threads begin at one signal, and the
//! last to be done closes the window.
//!
//! ```text
//! threads      arrive, sleep | jobs ......... done | jobs ... done |  jobs ............ done
//! controller   sleeps        ^ opens the window, wakes all          sleeps                   ^ closes the window
//!              the last to arrive wakes it                               the last to be done wakes it
//! ```
//!
//! Arrivals and ends are counted in ordinary memory, as all instrumentation is; only the
//! sleeping is the machine's. Release and acquire on the two counters and on the gates' words order
//! the opening of the window before each job, and each job before its close.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockyard::platform::Word;

use crate::gate::Gate;
use crate::machine::Machine;

/// The beginning and the end of a fixed amount of work.
#[derive(Debug)]
pub(crate) struct Quota<M: Machine> {
    threads: usize,
    arrived: AtomicUsize,
    done: AtomicUsize,
    /// Opened by the last who arrives.
    ready: Gate<M>,
    /// Not zero once the work has begun.
    begun: M::U32,
    /// Opened by the last who is done.
    ended: Gate<M>,
}

impl<M: Machine> Quota<M> {
    /// For `threads` threads and a controller.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            ready: Gate::default(),
            begun: M::U32::default(),
            ended: Gate::default(),
        }
    }

    /// A thread has come, and sleeps until the work begins.
    pub(crate) fn arrive(&self) {
        self.count(&self.arrived, &self.ready);
        while self.begun.load(Ordering::Acquire) == 0 {
            M::park(&self.begun, 0, None);
        }
    }

    /// A thread has done its work.
    pub(crate) fn leave(&self) {
        self.count(&self.done, &self.ended);
    }

    fn count(&self, so_far: &AtomicUsize, gate: &Gate<M>) {
        if so_far.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            gate.open();
        }
    }

    /// Of the controller: waits for all, lets them begin after `open`, and returns what that
    /// returned when all are done.
    pub(crate) fn preside<T>(&self, open: impl FnOnce() -> T) -> T {
        self.ready.pass();
        let opened = open();
        self.begun.store(1, Ordering::Release);
        M::unpark_all(&self.begun, self.threads as u32);
        self.ended.pass();
        opened
    }
}
