//! `lockref-model`: a web server's workers, all of which serve one file. (`spec/workloads.md`
//! section 8)
//!
//! Opening a path takes a reference to its directory entry, a second one while the path is walked.
//! A request: get; 1.5 µs; get; put; 6 µs; put; 20 µs. Each get and each put is one operation, and
//! its wait is all the time it took. The object is of the lock's own kind if that counts references
//! (`lockref`); otherwise the count is beside the lock and each operation is one section. Metric:
//! `requests_per_s`.

use lockyard::platform::{Ordering::Relaxed, Word};

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::padded::Padded;
use crate::spec::Spec;
use crate::subject::{Counted, Exclusive};
use crate::tally::Run;

const WALK_NS: u64 = 1_500;
const SERVE_NS: u64 = 6_000;
const REST_NS: u64 = 20_000;

pub(crate) fn run<M: Machine, C: Counted>(spec: &Spec) -> Result<Run, Error> {
    let object = Padded(C::new());
    M::name("object", &object.0);
    let [walk, serve, rest] = [WALK_NS, SERVE_NS, REST_NS].map(M::pauses);
    let no_others: &[Object<C>] = &[];
    let mut run = drive::<M, C>(spec, no_others, |worker| {
        while worker.on() {
            worker.operate(|| object.get());
            M::pause(walk);
            worker.operate(|| object.get());
            worker.operate(|| object.put());
            M::pause(serve + spec.cs);
            worker.operate(|| object.put());
            worker.job();
            M::pause(rest + spec.think);
        }
    })?;
    let left = object.references();
    if left != 0 {
        return Err(Error::Exclusion { torn: 0, lost: left });
    }
    sum_up(&mut run);
    Ok(run)
}

#[inline(never)]
fn sum_up(run: &mut Run) {
    let requests: u64 = run.tallies.iter().map(|tally| tally.jobs).sum();
    run.say("requests_per_s", requests as f64 * 1e9 / run.window_ns as f64);
}

/// A lock with a count beside it, on the same line: the way without a lockref.
pub(crate) struct Beside<M: Machine, L> {
    lock: L,
    count: M::U32,
}

impl<M: Machine, L: Exclusive> Beside<M, L> {
    fn add(&self, change: u32) {
        self.lock.with(|| self.count.store(self.count.load(Relaxed).wrapping_add(change), Relaxed));
    }
}

impl<M: Machine, L: Exclusive> Exclusive for Beside<M, L> {
    fn new() -> Self {
        Self { lock: L::new(), count: M::U32::default() }
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock.with(section)
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        self.lock.try_with(section)
    }
}

impl<M: Machine, L: Exclusive> Counted for Beside<M, L> {
    fn get(&self) {
        self.add(1);
    }

    fn put(&self) {
        self.add(u32::MAX);
    }

    fn references(&self) -> i64 {
        i64::from(self.count.load(Relaxed) as i32)
    }
}
