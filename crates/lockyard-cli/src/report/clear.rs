//! What is said of a program to which the locks that were seen cost nothing.
//!
//! | what is seen | what is said |
//! |---|---|
//! | no acquisition | that, what is not timed, and the waits elsewhere |
//! | acquisitions, all of its processes, and no sign of other locks | locks are not the problem |
//! | a sign of other locks | the locks that were seen are not, and the sign |
//! | a signal that ended it | that: it may have done little until then |
//!
//! Signs are: waits elsewhere, objects that are not counted, CPU time beside few acquisitions (it
//! may spin at locks of its own), and threads in calls with which such locks wait.

use super::facts::{Facts, percent};
use super::numbers;
use crate::untimed::NOT_TIMED;

/// The sentence, for waits of `lost` ns together, the longest of them `longest` ns.
pub(super) fn nothing_lost(facts: &Facts<'_>, (lost, longest): (u64, u64), not_seen: &str, beside: &str) -> String {
    let sample = facts.sample;
    let acquired = sample.acquired();
    let killed = facts.known.killed.as_ref().map_or_else(String::new, |signal| format!(" {signal} ended it."));
    if acquired == 0 {
        return format!(
            "No lock that is counted was taken in this time; {NOT_TIMED} are not timed.{not_seen}{killed}{beside}"
        );
    }
    let got = |counts: &lockyard_segment::sample::Counts| counts.contended.saturating_sub(counts.gave_up);
    let contended: u64 = sample.classes.iter().map(|class| got(&class.counts)).sum();
    let signs = [killed, not_seen.to_owned(), beside.to_owned(), spinning(facts), sleeping(facts)].concat();
    let first = if signs.is_empty() && facts.known.has_all() {
        "Locks are not this program's problem"
    } else {
        "The locks that were seen are not this program's problem"
    };
    format!(
        "{first}: its threads waited {} of {} ({}), at most {} at a time, in {} of {} acquisitions.{signs}",
        numbers::time(lost as f64),
        numbers::time(facts.thread_time.as_nanos() as f64),
        percent(facts.share(lost)),
        numbers::time(longest as f64),
        numbers::grouped(contended),
        numbers::grouped(acquired),
    )
}

/// What is said where threads used their CPUs, and took few locks in that time.
fn spinning(facts: &Facts<'_>) -> String {
    let Some(busy) = facts.busy_seconds() else { return String::new() };
    let acquired = facts.sample.acquired();
    // One thread at a time spins at nothing.
    let several = facts.thread_time.as_secs_f64() >= 1.5 * facts.sample.seconds;
    if !several || busy < RARELY * facts.thread_time.as_secs_f64() || acquired as f64 >= FEW_A_SECOND * busy {
        return String::new();
    }
    format!(
        " Beside {} it used {} of CPU time: spinning at locks of its own is not seen.",
        numbers::count(acquired as usize, "acquisition"),
        numbers::time(busy * 1e9)
    )
}

/// The same where threads were in calls with which locks of their own may wait.
fn sleeping(facts: &Facts<'_>) -> String {
    match facts.known.sleep_share() {
        Some(share) if share >= MUCH => format!(
            " Its threads spent {} of their time in sleeps and file locks: locks of its own may wait so.",
            percent(share)
        ),
        _ => String::new(),
    }
}

/// Threads with less than this share of their time on a CPU spin at nothing.
const RARELY: f64 = 0.02;
/// Acquisitions for each second of CPU time, fewer of which leave room for much else.
const FEW_A_SECOND: f64 = 100_000.0;
/// A share of the threads' time in sleeps and file locks that is a sign.
const MUCH: f64 = 0.05;
