//! What all simulations of a prediction come to.

use std::collections::BTreeMap;

use lockyard_recording::saturation::saturation;
use lockyard_sim::machine::model::Model as Machine;
use serde::Serialize;

use super::law::Law;
use super::limits::{self, Loss};
use super::transfers::transfer_ns;
use super::{Alternative, MOST_ESTIMATES, PredictOptions, settle};
use crate::failure::Failure;
use crate::report::numbers;
use crate::simulate::Outcome;

/// A prediction.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Prediction {
    /// What the rest comes to.
    pub(crate) sentence: String,
    pub(crate) program: String,
    pub(crate) machine: String,
    pub(crate) machine_fingerprint: String,
    /// Numbers of the machine that were changed.
    pub(crate) set: BTreeMap<String, f64>,
    /// The machine's CPUs.
    pub(crate) cpus: usize,
    /// The class that alternatives are about.
    pub(crate) class: Option<String>,
    pub(crate) alternatives: Vec<Curve>,
    /// From averages alone, the first to saturate first.
    pub(crate) estimates: Vec<Estimate>,
    /// Fitted to the program as it is.
    pub(crate) scalability_law: Option<Law>,
    /// How far the machine's numbers can be trusted.
    pub(crate) trust: String,
    /// Whether a signal ended it before all was simulated.
    pub(crate) interrupted: bool,
}

/// An alternative at all numbers of threads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
    /// Whether all numbers of threads are there: no signal cut it off.
    #[serde(skip)]
    pub(crate) whole: bool,
}

/// An alternative at one number of threads. Rates are medians, `low` and `high` the band.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub(crate) threads: usize,
    /// CPUs that do what the program is for, by what its operations take as it is.
    pub(crate) progress: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ops_per_s: f64,
    /// Whether all its runs were long enough to tell a rate.
    pub(crate) settled: bool,
    /// Where the other time went, the largest first.
    pub(crate) losses: Vec<Loss>,
}

/// The threads at which a class saturates, by the formula.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Estimate {
    pub(crate) class: String,
    pub(crate) threads: f64,
}

/// What `outcomes` say; those of a point that a signal cut off are left out.
///
/// # Errors
/// A simulation that failed.
pub(crate) fn collect(
    options: &PredictOptions,
    outcomes: &[Outcome],
    interrupted: bool,
) -> Result<Prediction, Failure> {
    let mut alternatives = Vec::new();
    for alternative in &options.alternatives {
        let mut points = Vec::new();
        for &threads in &options.threads {
            points.extend(point(options, alternative, threads, outcomes)?);
        }
        let whole = points.len() == options.threads.len();
        alternatives.push(Curve { name: alternative.name.clone(), points, whole });
    }
    let machine = &options.machine;
    let found = saturation(&options.program, &|threads| transfer_ns(machine, threads), options.waits);
    let estimates = found.into_iter().filter_map(|one| {
        Some(Estimate { class: options.program.locks[one.lock].name.clone(), threads: one.threads? })
    });
    let as_it_is: Vec<(f64, f64)> =
        alternatives[0].points.iter().map(|point| (point.threads as f64, point.progress)).collect();
    let mut prediction = Prediction {
        sentence: String::new(),
        program: options.name.clone(),
        machine: machine.label(),
        machine_fingerprint: format!("{:016x}", machine.fingerprint()),
        set: machine.changes().clone(),
        cpus: machine.topology().cpus(),
        class: options.class.clone(),
        alternatives,
        estimates: estimates.take(MOST_ESTIMATES).collect(),
        scalability_law: Law::fit(&as_it_is),
        trust: trust(machine),
        interrupted,
    };
    prediction.sentence = prediction.said();
    Ok(prediction)
}

fn point(
    options: &PredictOptions,
    alternative: &Alternative,
    threads: usize,
    outcomes: &[Outcome],
) -> Result<Option<Point>, Failure> {
    let (mut done, mut settled) = (Vec::new(), true);
    for outcome in outcomes.iter().filter(|outcome| alternative.is_of(outcome, threads)) {
        settled &= settle::settled(outcome);
        match &outcome.result {
            Ok((record, report)) => done.push((record, report)),
            Err(why) => return Err(Failure::run(format!("{}, {threads} threads: {why}", alternative.name))),
        }
    }
    // A band of the runs that there are would be none.
    if done.len() < options.each() {
        return Ok(None);
    }
    let progress = |record: &lockyard_work::Record| record.metrics.get("progress").copied().unwrap_or(0.0);
    done.sort_by(|a, b| progress(a.0).total_cmp(&progress(b.0)));
    let (Some(lowest), Some(highest)) = (done.first(), done.last()) else { return Ok(None) };
    let (record, report) = done[done.len() / 2];
    Ok(Some(Point {
        threads,
        progress: progress(record),
        low: progress(lowest.0),
        high: progress(highest.0),
        ops_per_s: record.metrics.get("ops_per_s").copied().unwrap_or(0.0),
        settled,
        losses: limits::of(&alternative.program, &options.machine, record, report),
    }))
}

/// How many of the machine's numbers were measured.
fn trust(machine: &Machine) -> String {
    let all = machine.quantities().len();
    let guessed = machine.quantities().values().filter(|quantity| quantity.letter == 'E').count();
    format!("predicted, not measured; {guessed} of the machine's {all} numbers are estimates")
}

impl Curve {
    /// The number of threads from which on a tenth more progress is not to be had.
    pub(crate) fn knee(&self) -> Option<&Point> {
        let best = self.best();
        self.points.iter().find(|point| point.progress >= 0.9 * best)
    }

    pub(crate) fn best(&self) -> f64 {
        self.highest().map_or(0.0, |point| point.progress)
    }

    /// The point with the most progress.
    pub(crate) fn highest(&self) -> Option<&Point> {
        self.points.iter().max_by(|a, b| a.progress.total_cmp(&b.progress))
    }

    /// Whether its best can be told.
    pub(crate) fn is_settled(&self) -> bool {
        self.points.iter().all(|point| point.settled)
    }

    /// How many times the best of `base` its best is, and the ends of its band; `None`: of one of
    /// the two numbers are missing.
    pub(crate) fn beside(&self, base: &Self) -> Option<(f64, f64, f64)> {
        let (most, highest) = (base.best(), self.highest()?);
        let found = (highest.progress / most, highest.low / most, highest.high / most);
        (most > 0.0 && base.whole && self.whole).then_some(found)
    }
}

impl Prediction {
    /// The answer in a sentence or two.
    fn said(&self) -> String {
        let Self { program, machine, .. } = self;
        let as_it_is = &self.alternatives[0];
        let (Some(knee), Some(last)) = (as_it_is.knee(), as_it_is.points.last()) else {
            return format!("{program}: nothing was simulated to its end");
        };
        if knee.progress <= 0.0 {
            return format!(
                "{program}: no operation ended in the simulated time on {machine}; give a longer --duration."
            );
        }
        // More than its threads could do: operations that were under way when it began ended.
        if !knee.settled && knee.progress > knee.threads as f64 {
            return format!(
                "{program}: too few operations ended in the simulated time on {machine} to tell a rate; \
                 give a longer --duration."
            );
        }
        let threads = numbers::count(knee.threads, "thread");
        let mut said = if knee.threads == last.threads {
            format!("{program}: scales to all {threads} asked for on {machine}")
        } else {
            format!("{program}: scales to about {threads} on {machine}")
        };
        said.push_str(&format!(" ({} CPUs' worth of progress)", numbers::three(knee.progress)));
        // What stops it shows where more threads do not help.
        if let Some(loss) = last.losses.first().filter(|loss| loss.share > 0.1) {
            let verb = if knee.threads == last.threads { "most time is lost by" } else { "then the limit is" };
            said.push_str(&format!("; {verb} {} ({:.0} %)", loss.what, loss.share * 100.0));
        }
        let others: Vec<String> = self.alternatives[1..].iter().filter_map(|other| compared(as_it_is, other)).collect();
        if !others.is_empty() {
            said.push_str(&format!("; at its best {}", others.join(", ")));
        }
        if !as_it_is.is_settled() {
            said.push_str("; not all numbers have settled");
        }
        said.push('.');
        said
    }
}

/// An alternative's best beside that of the program as it is, with its band.
fn compared(as_it_is: &Curve, other: &Curve) -> Option<String> {
    let (times, low, high) = other.beside(as_it_is)?;
    if !as_it_is.is_settled() || !other.is_settled() {
        return Some(format!("{} not settled", other.name));
    }
    let [times, low, high] = [times, low, high].map(numbers::three);
    Some(format!("{} × {times} ({low} – {high})", other.name))
}
