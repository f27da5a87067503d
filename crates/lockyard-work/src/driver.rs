//! Runs a workload's threads and the controller that opens and closes the measured window.
//!
//! ```text
//! threads   |--- warm-up ---|------ window ------|- leave
//! phase      WARMUP          MEASURE              CLOSED        written by the controller alone
//! ```
//!
//! The controller is a thread of its own that sleeps and never locks. Each locking thread keeps its
//! counters to itself ([`Worker`]) and hands them in when it leaves. Nobody waits for a starved
//! thread to be served inside the window: after it has closed the others leave, the thread gets its
//! lock, and accounts for a wait that was open when the window closed.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::error::Error;
use crate::invariant::Object;
use crate::machine::{Machine, Usage};
use crate::padded::Padded;
use crate::quota::Quota;
use crate::record::LockStatistics;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::worker::{Tally, Worker};

/// The controller's priority in workloads with fixed priorities: above everybody.
const PRESIDES_AT: u32 = 4;

/// What a locking thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads and writes as it comes.
    Both,
    /// Reads for life.
    Reader,
    /// Writes for life.
    Writer,
}

/// Where the run is. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Phase {
    Warmup = 0,
    Measure = 1,
    Closed = 2,
}

/// What the controller tells the threads.
#[derive(Debug)]
pub(crate) struct Control {
    phase: AtomicU32,
    opened_at: AtomicU64,
    closed_at: AtomicU64,
}

impl Control {
    pub(crate) fn new() -> Self {
        Self { phase: AtomicU32::new(Phase::Warmup as u32), opened_at: AtomicU64::new(0), closed_at: AtomicU64::new(0) }
    }

    /// Acquire: who sees the window opened, or CLOSED, also sees when.
    #[inline(always)]
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Warmup,
            1 => Phase::Measure,
            _ => Phase::Closed,
        }
    }

    /// The stamp at which the window opened. Meaningful once it has.
    pub(crate) fn opened_at(&self) -> u64 {
        self.opened_at.load(Ordering::Relaxed)
    }

    /// The stamp at which the window closed. Meaningful once it has.
    pub(crate) fn closed_at(&self) -> u64 {
        self.closed_at.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self, now: u64) {
        self.opened_at.store(now, Ordering::Relaxed);
        self.phase.store(Phase::Measure as u32, Ordering::Release);
    }

    pub(crate) fn close(&self, now: u64) {
        self.closed_at.store(now, Ordering::Relaxed);
        self.phase.store(Phase::Closed as u32, Ordering::Release);
    }
}

/// What a run yields, before it is made a record.
#[derive(Debug)]
pub(crate) struct Run {
    /// Length of the window as it was.
    pub(crate) window_ns: u64,
    /// One per thread.
    pub(crate) tallies: Vec<Tally>,
    /// Lock events in the window.
    pub(crate) events: BTreeMap<String, u64>,
    /// What locks counted of themselves when the window closed.
    pub(crate) locks: Vec<LockStatistics>,
    /// Resources used in the window.
    pub(crate) usage: Usage,
    /// What this workload alone can say.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Measured cost of one operation, where the window's length does not tell.
    pub(crate) ns_per_op: Option<f64>,
}

impl Run {
    /// Turns of all threads.
    pub(crate) fn turns(&self) -> u64 {
        self.tallies.iter().map(Tally::turns).sum()
    }

    /// Adds what only this workload can say.
    pub(crate) fn say(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
    }
}

/// What the controller saw.
struct Window {
    ns: u64,
    events: BTreeMap<String, u64>,
    locks: Vec<LockStatistics>,
    usage: Usage,
}

/// Runs `work` on each of the cell's threads, for warm-up and window, and checks `objects`
/// afterwards.
///
/// `work` loops while [`Worker::on`]. It is compiled for its lock; all that surrounds it is
/// compiled once per machine.
pub(crate) fn drive<M: Machine, L: Exclusive>(
    spec: &Spec,
    objects: &[Object<L>],
    work: impl Fn(&mut Worker<'_, M>) + Sync,
) -> Result<Run, Error> {
    for object in objects {
        M::name("lock", &object.lock.0);
    }
    let kept = || objects.iter().map(|object| object.data.writes()).sum();
    let counted = || {
        let own = objects.iter().enumerate().map(|(lock, object)| (lock, object.lock.0.statistics()));
        let counting = own.filter(|(_, numbers)| !numbers.is_empty());
        counting.map(|(lock, numbers)| LockStatistics { lock, numbers: numbers.into_iter().collect() }).collect()
    };
    run::<M>(spec, &work, &kept, &counted)
}

/// `kept` is the number of writes that the protected data remembers, `counted` what locks count of
/// themselves.
#[inline(never)]
fn run<M: Machine>(
    spec: &Spec,
    work: &(dyn Fn(&mut Worker<'_, M>) + Sync),
    kept: &dyn Fn() -> i64,
    counted: &(dyn Fn() -> Vec<LockStatistics> + Sync),
) -> Result<Run, Error> {
    let roles = crew(spec);
    M::pause_ns(); // calibrates now, not in the window
    let control = Padded(Control::new());
    let window = OnceLock::new();
    let quota = (spec.jobs > 0).then(|| Padded(Quota::<M>::new(roles.len())));
    let quota = quota.as_ref().map(|quota| &quota.0);
    let handed_in: Vec<OnceLock<Tally>> = roles.iter().map(|_| OnceLock::new()).collect();
    M::run(roles.len() + 1, &|thread| match thread.checked_sub(1) {
        None => {
            if let Some(me) = M::current().filter(|_| spec.workload.needs_priorities()) {
                // Or nobody would open the window where those below never leave the CPU. Refused
                // where they are: they say so.
                M::set_priority(me.id(), PRESIDES_AT, PRESIDES_AT);
            }
            let _ = window.set(preside::<M>(spec, &control, quota, counted));
        }
        Some(index) => {
            let mut worker = Worker::new(&control, index, roles[index], spec.seed);
            if let Some(quota) = quota {
                quota.arrive();
            }
            work(&mut worker);
            let _ = handed_in[index].set(worker.finish());
            if let Some(quota) = quota {
                quota.leave();
            }
        }
    })?;
    let window: Window = window.into_inner().expect("the controller ran");
    let tallies: Vec<Tally> = handed_in.into_iter().filter_map(OnceLock::into_inner).collect();
    verify(&tallies, kept())?;
    Ok(Run {
        window_ns: window.ns,
        tallies,
        events: window.events,
        locks: window.locks,
        usage: window.usage,
        metrics: BTreeMap::new(),
        ns_per_op: None,
    })
}

/// The threads of a cell, readers first.
fn crew(spec: &Spec) -> Vec<Role> {
    if !spec.has_roles() {
        return vec![Role::Both; spec.threads];
    }
    let mut roles = vec![Role::Reader; spec.readers];
    roles.resize(spec.readers + spec.writers, Role::Writer);
    roles
}

/// The controller's life.
fn preside<M: Machine>(
    spec: &Spec,
    control: &Control,
    quota: Option<&Quota<M>>,
    counted: &dyn Fn() -> Vec<LockStatistics>,
) -> Window {
    let open = || {
        let before = (M::events(), M::usage());
        let opened_at = M::stamp();
        control.open(opened_at);
        (before, opened_at)
    };
    let ((events, usage), opened_at) = match quota {
        Some(quota) => quota.preside(open),
        None => {
            M::sleep(spec.warmup.as_nanos() as u64);
            let opened = open();
            M::sleep(spec.duration.as_nanos() as u64);
            opened
        }
    };
    let closed_at = M::stamp();
    control.close(closed_at);
    let events = M::events().since(&events);
    // After the window, so that looking disturbs nothing in it; before the queues that stand then
    // have gone.
    let locks = counted();
    Window {
        ns: closed_at.saturating_sub(opened_at).max(1),
        events: events.iter().filter(|(_, count)| *count != 0).map(|(name, count)| (name.to_owned(), count)).collect(),
        locks,
        usage: M::usage().since(&usage),
    }
}

/// Whether the lock excluded: nobody met anybody, and every write made is among those that the data
/// `kept`.
fn verify(tallies: &[Tally], kept: i64) -> Result<(), Error> {
    let torn: u64 = tallies.iter().map(|tally| tally.torn).sum();
    let made: i64 = tallies.iter().map(|tally| tally.writes_made).sum();
    if torn != 0 || made != kept { Err(Error::Exclusion { torn, lost: made - kept }) } else { Ok(()) }
}
