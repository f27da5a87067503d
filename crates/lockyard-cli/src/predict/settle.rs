//! Whether runs are long enough for what is read from them, and longer ones where they are not.
//!
//! What a run of few operations shows is how it began: with hundreds of threads at one lock that
//! may be the opposite of what goes on. A run has *settled* if enough operations ended in it, and
//! enough sections of the classes that take time, and if about as many ended in each half of it.
//! Points of which a run has not are simulated again for longer, as far as the budget goes, which
//! is one of simulated CPU time: it is the same on every computer, and sleep costs nothing.

use lockyard_recording::Model as Program;
use lockyard_work::Record;

use super::PredictOptions;
use crate::simulate::{self, Outcome};

/// So many operations, and sections, at least.
const FEW: f64 = 30.0;
/// And of each thread, in the mean: the first of each begin at one moment.
const EACH: f64 = 3.0;
/// The share of the operations that may end in the second half.
const HALF: std::ops::RangeInclusive<f64> = 0.3..=0.7;
/// A class with a smaller share of an operation's time is not looked at.
const NOTICEABLE: f64 = 0.02;
/// How much longer a run is each time, and how often.
const LONGER: u32 = 4;
const ROUNDS: usize = 4;
/// All longer runs together have so many times the CPU time of all first ones.
const BUDGET: f64 = 8.0;

/// Whether `outcome` says something about a rate. One that failed is not run again.
pub(super) fn settled(outcome: &Outcome) -> bool {
    let (Ok((record, _)), Some(replay)) = (&outcome.result, &outcome.run.spec.replay) else { return true };
    let metric = |name: &str| record.metrics.get(name).copied().unwrap_or(0.0);
    let operations = metric("ops_per_s") * record.duration_ns as f64 / 1e9;
    operations >= FEW.max(EACH * record.threads as f64)
        && HALF.contains(&metric("second_half"))
        && has_sections(&replay.model, record)
}

/// Whether each class that takes time in an operation was taken often enough.
fn has_sections(program: &Program, record: &Record) -> bool {
    let crew = program.crew(record.threads);
    let roles = || program.roles.iter().zip(&crew);
    let all: f64 = roles().map(|(role, members)| *members as f64 * role.lasts_ns()).sum();
    (0..program.locks.len()).all(|lock| {
        let of = |(role, members): (&lockyard_recording::model::Role, &usize)| -> f64 {
            let mine = role.takes.iter().enumerate().filter(|(_, take)| take.lock == lock);
            *members as f64 * mine.map(|(number, take)| role.times(number) * take.section_ns()).sum::<f64>()
        };
        let counted = record.locks.iter().find(|class| class.lock == lock);
        let number = |name: &str| counted.and_then(|class| class.numbers.get(name)).copied().unwrap_or(0);
        let calls = number("acquisitions") + number("refused");
        roles().map(of).sum::<f64>() < NOTICEABLE * all || calls as f64 >= FEW
    })
}

/// Simulated CPU time, ns.
fn ran(outcome: &Outcome) -> f64 {
    let times = outcome.result.as_ref().map(|(_, report)| report.whole.times);
    times.map_or(0.0, |times| (times.running_ns + times.spinning_ns) as f64)
}

/// Simulates what has not settled again, for longer. Whether a signal ended that.
pub(super) fn lengthen(options: &PredictOptions, outcomes: &mut Vec<Outcome>) -> bool {
    let mut left = BUDGET * outcomes.iter().map(ran).sum::<f64>();
    for _ in 0..ROUNDS {
        let (mut runs, before) = (Vec::new(), left);
        for alternative in &options.alternatives {
            for &threads in &options.threads {
                let mine: Vec<&Outcome> = outcomes.iter().filter(|one| alternative.is_of(one, threads)).collect();
                if mine.iter().all(|one| settled(one)) {
                    continue;
                }
                let cost = f64::from(LONGER) * mine.iter().map(|one| ran(one)).sum::<f64>();
                if cost <= left {
                    left -= cost;
                    runs.extend(options.point(alternative, threads, mine[0].run.spec.duration * LONGER));
                }
            }
        }
        if runs.is_empty() {
            return false;
        }
        let (mut done, stopped) = simulate::run(runs);
        // Threads that slept all along at first may run now.
        left = left.min(before - done.iter().map(ran).sum::<f64>());
        for alternative in &options.alternatives {
            for &threads in &options.threads {
                let is_mine = |one: &Outcome| alternative.is_of(one, threads);
                // Of a point that a signal cut off the shorter runs stand.
                if done.iter().filter(|one| is_mine(one)).count() == options.each() {
                    outcomes.retain(|one| !is_mine(one));
                    outcomes.extend(done.extract_if(.., |one| is_mine(one)));
                }
            }
        }
        if stopped {
            return true;
        }
    }
    false
}
