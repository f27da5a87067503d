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

use crate::control::Control;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::{Machine, Usage};
use crate::padded::Padded;
use crate::quota::Quota;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::tally::{LockStatistics, Role, Run, Tally};
use crate::worker::Worker;

/// The controller's priority in workloads with fixed priorities: above everybody.
const PRESIDES_AT: u32 = 4;

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
pub(crate) fn run<M: Machine>(
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
