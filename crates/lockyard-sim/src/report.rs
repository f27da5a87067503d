//! What a run yields besides the program's own results.

use std::collections::BTreeMap;

use lockyard::event::Snapshot;
use serde::Serialize;

use crate::engine::Engine;
use crate::engine::tally::Mark;
use crate::machine::model::Distance;
use crate::names::Names;
use crate::trace::{Ring, Trace};

/// How a thread, or all of them, spent time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// Executing, ns.
    pub running_ns: u64,
    /// Spinning, ns.
    pub spinning_ns: u64,
    /// Ready, without a CPU, or being switched in, ns.
    pub runnable_ns: u64,
    /// Asleep, ns.
    pub sleeping_ns: u64,
}

impl Times {
    pub(crate) fn of(spent: &[u64; 4]) -> Self {
        let [running_ns, spinning_ns, runnable_ns, sleeping_ns] = spent.map(|ps| ps / 1000);
        Self { running_ns, spinning_ns, runnable_ns, sleeping_ns }
    }
}

/// A thread's share.
#[derive(Debug, Clone, Serialize)]
pub struct ThreadReport {
    /// Operations it counted ([`operation`](crate::operation)).
    pub operations: u64,
    /// How it spent its time.
    pub times: Times,
    /// Lines that came to it.
    pub transfers: u64,
    /// Times it gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times it was preempted.
    pub involuntary_switches: u64,
    /// Times it ran on another CPU than before.
    pub migrations: u64,
    /// The CPU it ran on last.
    pub cpu: u32,
}

/// A line that moved much.
#[derive(Debug, Clone, Serialize)]
pub struct HotLine {
    /// What is on it.
    pub name: String,
    /// How often it moved.
    pub transfers: u64,
}

/// Costs in a stretch of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stretch {
    /// Its length, ns.
    pub ns: u64,
    /// Memory operations.
    pub memory_operations: u64,
    /// Line transfers by distance class, those that occurred.
    pub transfers: BTreeMap<&'static str, u64>,
    /// All threads' time.
    pub times: Times,
}

impl Stretch {
    fn between(begin: &Mark, end: &Mark) -> Self {
        let spent: [u64; 4] = core::array::from_fn(|account| end.spent[account] - begin.spent[account]);
        let moved = Distance::ALL.iter().map(|&distance| {
            let index = distance as usize;
            (distance.name(), end.tally.transfers[index] - begin.tally.transfers[index])
        });
        Self {
            ns: (end.ps - begin.ps) / 1000,
            memory_operations: end.tally.operations - begin.tally.operations,
            transfers: moved.filter(|(_, count)| *count != 0).collect(),
            times: Times::of(&spent),
        }
    }
}

/// What a run yields.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The machine, with its mode.
    pub machine: String,
    /// The machine file's digest.
    pub machine_fingerprint: u64,
    /// The whole run.
    pub whole: Stretch,
    /// Between the last two looks at the program's usage: the measured window of a workload.
    pub window: Option<Stretch>,
    /// Per thread.
    pub threads: Vec<ThreadReport>,
    /// Lines that moved most.
    pub hottest: Vec<HotLine>,
    /// Lock events that occurred.
    pub events: BTreeMap<&'static str, u64>,
    /// Lines ever touched.
    pub lines: usize,
    /// Events of the engine, and coroutine switches: what the run cost the host.
    pub engine_events: u64,
    /// See `engine_events`.
    pub resumes: u64,
    /// State changes, if they were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// How many hot lines a report names.
const HOTTEST: usize = 12;

impl Report {
    pub(crate) fn of(engine: &mut Engine, names: &Names) -> Self {
        let end = engine.mark();
        let whole = Stretch::between(&Mark::default(), &end);
        let window = match engine.marks.as_slice() {
            [.., opened, closed] => Some(Stretch::between(opened, closed)),
            _ => None,
        };
        let mut numbers: Vec<(u64, u32)> =
            (0..).zip(engine.lines.iter()).map(|(n, line)| (line.transfers, n)).collect();
        numbers.sort_unstable_by_key(|&(transfers, number)| (u64::MAX - transfers, number));
        let hot = numbers.iter().take(HOTTEST).filter(|hot| hot.0 != 0);
        let hottest = hot.map(|&(transfers, line)| HotLine { name: names.line(engine, line), transfers }).collect();
        let events = Snapshot::from_counts(engine.counts);
        Self {
            machine: engine.model.label(),
            machine_fingerprint: engine.model.fingerprint(),
            whole,
            window,
            threads: engine.tasks.iter().map(ThreadReport::of).collect(),
            hottest,
            events: events.iter().filter(|(_, count)| *count != 0).collect(),
            lines: numbers.len(),
            engine_events: engine.heap.scheduled(),
            resumes: engine.tally.resumes,
            trace: engine.trace.take().map(Ring::into_trace),
        }
    }

    /// All operations.
    pub fn operations(&self) -> u64 {
        self.threads.iter().map(|thread| thread.operations).sum()
    }

    /// A digest of the results: two runs that agree in it agree in everything reported but the
    /// host's own costs.
    pub fn digest(&self) -> u64 {
        let mut text = format!("{:?}{:?}{:?}{:?}", self.machine, self.machine_fingerprint, self.whole, self.window);
        text.push_str(&format!("{:?}{:?}{:?}{}", self.threads, self.hottest, self.events, self.lines));
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}

impl ThreadReport {
    fn of(task: &crate::engine::task::Task) -> Self {
        Self {
            operations: task.operations,
            times: Times::of(&task.spent),
            transfers: task.transfers,
            voluntary_switches: task.voluntary,
            involuntary_switches: task.involuntary,
            migrations: task.migrations,
            cpu: task.cpu,
        }
    }
}
