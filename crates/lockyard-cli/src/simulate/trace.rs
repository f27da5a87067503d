//! `lockyard trace`: a simulated window as a Chrome trace, which Perfetto
//! (<https://ui.perfetto.dev>) and `chrome://tracing` show.
//!
//! Three groups of tracks: what each CPU ran, what each thread did (running, spinning, ready,
//! sleeping), and which thread was in a section. Arrows lead from the end of a section to the
//! beginning of the next one of the same lock in another thread.

use std::collections::BTreeMap;
use std::fmt::Write;

use lockyard_sim::Config;
use lockyard_sim::trace::{Activity, Trace};

use super::{Outcome, Run, SimOptions};
use crate::cli::TraceArgs;
use crate::failure::Failure;
use crate::output::Target;
use crate::report::chrome::Tracks;
use crate::values;

/// The most state changes that a trace holds.
const MOST_CHANGES: usize = 4 << 20;

const CPUS: u32 = 1;
const THREADS: u32 = 2;
const SECTIONS: u32 = 3;

/// Options of `lockyard trace`.
#[derive(Debug)]
pub(crate) struct TraceOptions {
    /// What is simulated.
    pub(crate) run: Run,
    /// The last so many picoseconds of it are kept.
    pub(crate) window: u64,
    /// Where the trace goes.
    pub(crate) out: Target,
}

impl TraceOptions {
    /// Checks the arguments of `lockyard trace`.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &TraceArgs) -> Result<Self, Failure> {
        let window = values::duration("--window", &args.window, 1_000, 1_000_000_000)?;
        let options = SimOptions::check(&args.sim)?;
        let [run] = <[Run; 1]>::try_from(options.runs).map_err(|runs| {
            Failure::usage(format!("a trace is of one lock in one cell on one machine; {} were chosen", runs.len()))
        })?;
        let run = Run { config: Config { trace: Some(MOST_CHANGES), ..run.config }, ..run };
        let path = args
            .sim
            .output
            .out
            .as_deref()
            .ok_or_else(|| Failure::usage("--out: say where the trace goes, such as trace.json"))?;
        let out = Target::check("--out", path)?;
        Ok(Self { run, window: window.as_nanos() as u64 * 1000, out })
    }
}

/// The trace of a run, and how many things it shows.
///
/// # Errors
/// The simulation failed.
pub(crate) fn document(outcome: &Outcome, window: u64) -> Result<(String, usize), Failure> {
    let (record, report) = outcome.result.as_ref().map_err(|why| Failure::run(why.clone()))?;
    let trace = report.trace.as_ref().ok_or_else(|| Failure::run("the simulation kept no trace"))?;
    let end = trace.changes.last().map_or(0, |change| change.ps);
    let mut page = Page { from: end.saturating_sub(window), end, tracks: Tracks::default() };
    page.names(trace);
    page.activities(trace);
    page.sections(trace);
    let title = format!("{} on {}", record.label(), outcome.run.machine());
    Ok((page.tracks.document(&title), page.tracks.len()))
}

/// A window of the trace as it is drawn.
struct Page {
    from: u64,
    end: u64,
    tracks: Tracks,
}

/// Readers count in nanoseconds: times are cut to those before anything is subtracted, or
/// neighbours would overlap by one.
fn ns(ps: u64) -> u64 {
    ps / 1000
}

fn called(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "running",
        Activity::Spinning => "spinning",
        Activity::Runnable => "ready",
        Activity::Sleeping => "sleeping",
    }
}

impl Page {
    /// A slice of a track, as far as it lies in the window.
    fn slice(&mut self, group: u32, track: u32, name: &str, begin: u64, end: u64) {
        let (begin, end) = (ns(begin.max(self.from) - self.from), ns(end.saturating_sub(self.from)));
        self.tracks.slice(group, track, name, begin, end);
    }

    fn names(&mut self, trace: &Trace) {
        for (group, name) in [(CPUS, "CPUs"), (THREADS, "threads"), (SECTIONS, "in the section")] {
            self.tracks.group(group, name);
        }
        let mut tracks = BTreeMap::new();
        for change in &trace.changes {
            tracks.insert((CPUS, change.cpu), format!("CPU {}", change.cpu));
            tracks.insert((THREADS, change.thread), format!("thread {}", change.thread));
        }
        for passage in &trace.passages {
            tracks.insert((SECTIONS, passage.thread), format!("thread {}", passage.thread));
        }
        for ((group, track), name) in tracks {
            self.tracks.track(group, track, &name);
        }
    }

    /// What each thread did, and so each CPU.
    fn activities(&mut self, trace: &Trace) {
        let mut now = BTreeMap::new();
        for change in &trace.changes {
            if let Some((since, cpu, activity)) = now.insert(change.thread, (change.ps, change.cpu, change.activity)) {
                self.activity(change.thread, cpu, activity, since, change.ps);
            }
        }
        for (thread, (since, cpu, activity)) in now {
            self.activity(thread, cpu, activity, since, self.end);
        }
    }

    fn activity(&mut self, thread: u32, cpu: u32, activity: Activity, begin: u64, end: u64) {
        let what = called(activity);
        self.slice(THREADS, thread, what, begin, end);
        if matches!(activity, Activity::Running | Activity::Spinning) {
            self.slice(CPUS, cpu, &format!("thread {thread} {what}"), begin, end);
        }
    }

    /// Sections, and arrows from one to the next of the same lock.
    fn sections(&mut self, trace: &Trace) {
        let mut inside = BTreeMap::new();
        let mut left = BTreeMap::new();
        let mut arrows = 0;
        for passage in &trace.passages {
            let key = (passage.thread, passage.lock);
            if passage.enters {
                inside.insert(key, passage.ps);
                let from =
                    left.remove(&passage.lock).filter(|&(thread, ps)| thread != passage.thread && ps >= self.from);
                if let Some((thread, ps)) = from {
                    arrows += 1;
                    let at = |ps: u64| ns(ps - self.from);
                    let (from, to) = ((thread, at(ps)), (passage.thread, at(passage.ps)));
                    self.tracks.arrow(arrows, SECTIONS, "handover", from, to);
                }
            } else if let Some(since) = inside.remove(&key) {
                self.slice(SECTIONS, passage.thread, "holding", since, passage.ps);
                left.insert(passage.lock, (passage.thread, passage.ps));
            }
        }
        for ((thread, _), since) in inside {
            self.slice(SECTIONS, thread, "holding", since, self.end);
        }
    }
}

/// What was written, in a line for people.
pub(crate) fn said(outcome: &Outcome, window: u64, count: usize) -> String {
    let mut line = String::new();
    let dropped =
        outcome.result.as_ref().ok().and_then(|(_, report)| Some(report.trace.as_ref()?.dropped)).unwrap_or(0);
    let _ = write!(line, "the last {} us: {count} events", window / 1_000_000);
    if dropped > 0 {
        let _ = write!(line, "; {dropped} earlier ones were not kept");
    }
    line
}

#[cfg(test)]
mod tests {
    use lockyard_sim::machine::catalog;
    use lockyard_work::simulated::LOCKS;
    use lockyard_work::{Spec, Workload};
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_trace_has_nested_slices_and_paired_arrows() {
        let config = Config { trace: Some(MOST_CHANGES), ..Config::new(catalog::machine("skx_1s").unwrap()) };
        let spec = Spec {
            threads: 4,
            cs: 1,
            duration: std::time::Duration::from_micros(200),
            warmup: std::time::Duration::from_micros(50),
            ..Spec::new(Workload::Contend)
        };
        let run = Run { config, lock: &LOCKS[0], spec };
        let result = run.simulate();
        let outcome = Outcome { run, result };
        let (text, count) = document(&outcome, 100_000_000).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), count);
        let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).count();
        assert!(of("s") > 10 && of("s") == of("f"), "{} {}", of("s"), of("f"));
        // Slices of a track do not overlap, in a reader's whole nanoseconds: Perfetto drops those
        // that do.
        let mut tracks = BTreeMap::<(u64, u64), Vec<(u64, u64)>>::new();
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let number = |field: &str| event[field].as_u64().unwrap();
            let ns = |field: &str| (event[field].as_f64().unwrap() * 1e3).round() as u64;
            tracks.entry((number("pid"), number("tid"))).or_default().push((ns("ts"), ns("ts") + ns("dur")));
        }
        for slices in tracks.values_mut() {
            slices.sort_unstable();
            assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
        // Sections exclude each other.
        let mut held: Vec<(f64, f64)> = events
            .iter()
            .filter(|event| event["name"] == "holding")
            .map(|event| (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap()))
            .collect();
        held.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(held.len() > 10 && held.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0 + 1e-6));
    }
}
