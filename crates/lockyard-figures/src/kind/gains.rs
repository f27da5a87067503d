//! Tables of gains: throughput with the hierarchical spinlock by throughput with the plain one;
//! rows are numbers of threads.
//!
//! Nothing else was published, so a cell is a ratio, and the ratio is what is scored. What stands
//! for the benchmarks:
//!
//! * locktorture: `torture-spin` (`spec/workloads.md` 3): no shuffling; all begin at one instant,
//!   as they do in the original whenever its stutter has stopped them, every few ticks. The series
//!   does not say which setting it used. The default one holds the lock for 100 ms now and then,
//!   which in a window of milliseconds would be all or nothing: it is added to both rates as what
//!   it takes on average (`spec/simulation.md` 7).
//! * memcached: `kv-model` (`spec/workloads.md` 7), **a stand-in**: there the spinlocks in question
//!   sit in the futex hash buckets under memcached's mutexes, here they are the locks themselves. A
//!   closed loop of w workers has the mean latency w / throughput (Little's law), so the latency
//!   column is the throughput's ratio turned round: shown, not scored a second time.
//!
//! A window is milliseconds long where theirs was a minute: queues of spinners settle in
//! microseconds. **Where there are as many threads as CPUs** the thread that opens the window takes
//! the CPU of a waiter for a moment. In the published kernels a waiter cannot be preempted; here
//! those behind it go to sleep, and a queue of sleepers is another lock. Such rows say little.

use std::time::Duration;

use lockyard_work::{Spec, Workload};

use crate::error::Error;
use crate::plan::{Cell, Job, Plan, Source, Take};
use crate::table::Table;

/// A table of gains.
#[derive(Debug)]
pub(crate) struct Gains {
    workload: Workload,
    columns: &'static [Column],
}

#[derive(Debug)]
struct Column {
    /// What the column is called; `None` where nothing was published.
    published: Option<&'static str>,
    machine: &'static str,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Throughput,
    Latency,
}

const fn throughput(published: Option<&'static str>, machine: &'static str) -> Column {
    Column { published, machine, what: What::Throughput }
}

/// One lock on EPYC, in the two modes that were published and the two that were not.
pub(crate) const TORTURE_EPYC: Gains = Gains {
    workload: Workload::TortureSpin,
    columns: &[
        throughput(Some("nps1_gain_pct"), "epyc9654_2s:nps1"),
        throughput(None, "epyc9654_2s:nps2"),
        throughput(Some("nps4_gain_pct"), "epyc9654_2s:nps4"),
        throughput(None, "epyc9654_2s:nps12"),
    ],
};

/// One lock on Kunpeng.
pub(crate) const TORTURE_KUNPENG: Gains =
    Gains { workload: Workload::TortureSpin, columns: &[throughput(Some("gain_pct"), "kunpeng920_2s_96c")] };

/// Memcached on EPYC.
pub(crate) const MEMCACHED: Gains = Gains {
    workload: Workload::KvModel,
    columns: &[
        throughput(Some("throughput_gain_pct"), "epyc9654_2s:nps4"),
        Column { published: Some("latency_change_pct"), machine: "epyc9654_2s:nps4", what: What::Latency },
    ],
};

/// The published lock and what it is compared with.
pub(super) const WITH: &str = "hq-spinlock";
const WITHOUT: &str = "qspinlock";

const WARMUP: Duration = Duration::from_micros(500);
const WINDOW: Duration = Duration::from_millis(2);

/// The run of `lock` with `threads` threads, for `window`.
pub(super) fn job(machine: &'static str, lock: &str, workload: Workload, threads: usize, window: Duration) -> Job {
    let spec = Spec { threads, warmup: WARMUP, duration: window, ..Spec::new(workload) };
    Job::workload(machine, lock.to_owned(), spec)
}

/// What was chosen, for the reader.
pub(super) fn chosen(workload: Workload, window: Duration) -> String {
    format!(
        "chosen: {workload}, a window of {} ms after {} ms of warm-up, locks inside the kernel",
        window.as_secs_f64() * 1e3,
        WARMUP.as_secs_f64() * 1e3
    )
}

/// What the long holds of locktorture's default setting add to each acquisition of a single writer:
/// 100 ms in one of 200,000. With more writers each of them is that much rarer.
pub(super) const LONG_HOLDS_NS: f64 = 500.0;

impl Gains {
    /// What long holds add to an acquisition, whoever makes it, on average.
    fn long_holds_ns(&self, threads: usize) -> f64 {
        if self.workload == Workload::TortureSpin { LONG_HOLDS_NS / threads as f64 } else { 0.0 }
    }

    pub(crate) fn machines(&self) -> Vec<&'static str> {
        let mut machines: Vec<&'static str> = self.columns.iter().map(|column| column.machine).collect();
        machines.dedup();
        machines
    }

    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let key = table.columns[0];
        let unit = "ratio of throughputs, hq-spinlock / qspinlock";
        let mut plan = Plan { keys: vec!["threads".to_owned()], unit, ..Plan::default() };
        for row in 0..table.rows.len() {
            let threads = table.number(row, key)? as usize;
            for column in self.columns {
                let with = plan.job(job(column.machine, WITH, self.workload, threads, WINDOW));
                let without = plan.job(job(column.machine, WITHOUT, self.workload, threads, WINDOW));
                let rate = Take { beside_ns: self.long_holds_ns(threads), ..Take::plain("kops_per_s") };
                let cell = plan.cell(Cell {
                    row: threads.to_string(),
                    column: column.title(),
                    threads: Some(threads as u32),
                    panel: String::new(),
                    published: column.published.map(|name| table.ratio(row, name)).transpose()?,
                    source: Ok(match column.what {
                        What::Throughput => Source::Ratio(with, without, rate),
                        What::Latency => Source::Ratio(without, with, rate),
                    }),
                });
                if column.what == What::Throughput {
                    plan.ratio(format!("{threads}, {}: {WITHOUT} → {WITH}", column.title()), cell);
                }
            }
        }
        plan.notes.push(chosen(self.workload, WINDOW));
        plan.notes.push(match self.workload {
            Workload::KvModel => {
                "a stand-in: the locks are memcached's own, not those of the futex buckets under them; latency is workers / \
                 throughput, as in any closed loop, and not scored"
            }
            _ => {
                "threads pinned; holds of 100 ms count as what they take on average; all begin at once, as after each of the original's pauses; the \
                 series does not say which setting it used"
            }
        }
        .to_owned());
        plan.notes.push(
            "with as many threads as CPUs somebody is preempted, which a kernel's spinlocks rule out and the model does not: little to be \
             learnt from such rows"
                .to_owned(),
        );
        if self.columns.iter().any(|column| column.published.is_none()) {
            plan.notes.push("columns without published numbers are predictions".to_owned());
        }
        Ok(plan)
    }
}

impl Column {
    /// The mode where columns are modes, else what is compared.
    fn title(&self) -> String {
        match (self.machine.split_once(':'), self.what) {
            (_, What::Latency) => "latency".to_owned(),
            (Some((_, mode)), _) if self.published.is_none_or(|name| name.starts_with(mode)) => mode.to_owned(),
            _ => "throughput".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Outcome;

    #[test]
    fn long_holds_dilute_what_a_lock_gains() {
        let rate = |gains: &Gains, kops: f64| {
            let take = Take { beside_ns: gains.long_holds_ns(8), ..Take::plain("kops_per_s") };
            take.from(&Outcome { numbers: [("kops_per_s".to_owned(), kops)].into(), shape: None }).unwrap()
        };
        // 100 and 200 ns an acquisition, and 62.5 more.
        assert!((rate(&TORTURE_EPYC, 10_000.0) - 1e6 / 162.5).abs() < 1e-6);
        let gain = rate(&TORTURE_EPYC, 10_000.0) / rate(&TORTURE_EPYC, 5_000.0);
        assert!((gain - 262.5 / 162.5).abs() < 1e-9, "{gain}");
        // Nobody holds memcached's locks for long.
        assert_eq!(rate(&MEMCACHED, 10_000.0), 10_000.0);
    }
}
