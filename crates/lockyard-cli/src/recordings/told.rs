//! What a recording says: a sentence, what each class cost, at how many threads it saturates.

use std::fmt::Write;

use lockyard_recording::Recording;
use lockyard_recording::critical::CriticalPath;
use lockyard_recording::summary::{ClassCost, Summary};

use super::standstill;
use crate::report::advice;
use crate::report::numbers;

/// So many classes are shown.
pub(super) const MOST: usize = 12;
/// Waiting that takes less of the time is no problem.
pub(super) const NOTICEABLE: f64 = 0.02;

/// What a recording says.
pub(super) struct Told<'a> {
    pub(super) recording: &'a Recording,
    pub(super) summary: Summary,
    pub(super) path: CriticalPath,
    pub(super) sentence: String,
    pub(super) estimates: Vec<Estimates>,
}

/// The classes that saturate with the fewest threads, with these.
#[derive(Debug, PartialEq, serde::Serialize)]
pub(super) struct Estimates {
    pub(super) machine: String,
    pub(super) classes: Vec<(String, f64)>,
}

impl<'a> Told<'a> {
    pub(super) fn new(recording: &'a Recording, estimates: Vec<Estimates>) -> Self {
        let summary = recording.summary();
        let first = estimates.iter().find_map(|one| {
            let (class, threads) = one.classes.first()?;
            Some((class.clone(), *threads, one.machine.clone()))
        });
        let sentence = verdict(recording, &summary, first.as_ref());
        Self { recording, summary, path: recording.critical_path(), sentence, estimates }
    }

    /// A line for each machine.
    pub(super) fn estimates(&self) -> Vec<String> {
        let line = |one: &Estimates| {
            let said = one.classes.iter();
            let said = said.map(|(class, threads)| format!("{class} at {}", numbers::grouped(threads.round() as u64)));
            format!("{}: {}", one.machine, said.collect::<Vec<_>>().join(", "))
        };
        self.estimates.iter().map(line).collect()
    }
}

/// The sentence. `first` is the class that saturates with the fewest threads, with their number and
/// the machine.
fn verdict(recording: &Recording, summary: &Summary, first: Option<&(String, f64, String)>) -> String {
    if let Some(deadlock) = standstill::deadlock(recording, &summary.at_end) {
        return deadlock;
    }
    if summary.classes.is_empty() {
        return without_locks(summary);
    }
    let time = summary.recorded_ns.max(1) as f64;
    let waited = summary.classes.iter().map(|class| class.waited_ns as f64).sum::<f64>() / time;
    let held = summary.classes.iter().map(|class| class.held_ns as f64).sum::<f64>() / time;
    let stop = standstill::most(recording, summary)
        .unwrap_or_else(|| first.map_or_else(String::new, |first| stop(summary, first)));
    let shares = format!(
        "{:.1} % of the threads' time is spent waiting for locks, {:.1} % in their sections",
        waited * 100.0,
        held * 100.0
    );
    // A lock that this many threads keep busy may have been busy.
    let many = first.is_some_and(|(_, threads, _)| threads.round() <= summary.at_once as f64);
    match storm(summary) {
        Some(cost) => format!(
            "Locks cost you tries: {} found {} taken and came again, beside {}; {shares}{stop}.",
            numbers::grouped(cost.failed),
            recording.classes[cost.class].name,
            numbers::count(cost.acquisitions as usize, "section"),
        ),
        None if waited >= NOTICEABLE || standstill::is_one(&summary.at_end) => {
            format!("Locks cost you: {shares}{stop}.")
        }
        None if many => format!("Locks cost you little so far: {shares}{stop}."),
        None => format!("Locks are not your problem: {shares}{stop}."),
    }
}

/// The sentence where no lock was taken: threads may wait for each other all the same.
fn without_locks(summary: &Summary) -> String {
    let waited: f64 = summary.awaited.iter().map(|one| one.waited_ns as f64).sum();
    if summary.awaited.is_empty() {
        return "Nothing can be said: no lock was taken while it was recorded.".to_owned();
    }
    format!(
        "No lock was taken; {:.1} % of the threads' time is spent waiting for what other threads signal.",
        waited * 100.0 / summary.recorded_ns.max(1) as f64
    )
}

/// The class with most tries in vain, if they are what it costs.
fn storm(summary: &Summary) -> Option<&ClassCost> {
    let seconds = summary.recorded_ns as f64 / 1e9 / summary.threads.max(1) as f64;
    let is_it = |cost: &&ClassCost| advice::is_storm(cost.failed, cost.acquisitions, cost.contended, seconds);
    summary.classes.iter().filter(is_it).max_by_key(|cost| cost.failed)
}

/// Where more threads stop to help. The estimate is of threads that do nothing but run: of threads
/// that sleep between their sections there may be more before a lock is busy.
fn stop(summary: &Summary, (class, threads, machine): &(String, f64, String)) -> String {
    let machine = if machine == "this" { "this machine" } else { machine };
    let (threads, seen) = (threads.round(), summary.at_once as f64);
    let about = format!("{class}, at about {} on {machine}", numbers::count(threads as usize, "thread"));
    let awaited = summary.awaited.iter().map(|one| one.waited_ns as f64).sum::<f64>();
    let asleep = (summary.away_ns as f64 + awaited) / summary.recorded_ns.max(1) as f64;
    if threads > seen {
        format!("; the first that will stop you is {about}")
    } else if threads > seen * (1.0 - asleep) {
        format!(
            "; the first that will stop you is {about} if they never sleep \
             (the {seen} that ran slept {:.0} % of the time)",
            asleep * 100.0
        )
    } else {
        format!("; the first that stops you is {about}, where {seen} ran")
    }
}

/// The columns of the table of classes. Where there is no room, those with the highest numbers are
/// left out.
pub(super) const HEAD: [(&str, u8); 13] = [
    ("", 0),
    ("kind", 4),
    ("locks", 5),
    ("sections", 3),
    ("reads", 6),
    ("waited", 2),
    ("of the time", 0),
    ("hold p50", 8),
    ("hold p99", 7),
    ("longest hold", 3),
    ("wait p50", 8),
    ("wait p99", 7),
    ("longest wait", 1),
];

/// The classes with waits that ended without the lock.
pub(super) fn timed_out(recording: &Recording, summary: &Summary) -> Vec<String> {
    let some = summary.classes.iter().take(MOST).filter(|cost| cost.gave_up > 0);
    let line = |cost: &ClassCost| {
        let waits = numbers::count(cost.gave_up as usize, "wait");
        format!("{}: {waits} ended without it, since the time was up", recording.classes[cost.class].name)
    };
    some.map(line).collect()
}

/// What threads waited for that others signalled.
pub(super) fn awaited(recording: &Recording, summary: &Summary) -> String {
    let mut out = String::new();
    for (number, one) in summary.awaited.iter().take(MOST).enumerate() {
        let head = if number == 0 { "\nWaits for what other threads signal:\n" } else { "" };
        let class = &recording.classes[one.class];
        let _ = writeln!(
            out,
            "{head}  {} {}: {:.1} % of the threads' time in {}, half of them up to {}, the longest {}",
            class.sort.name(),
            class.name,
            one.waited_ns as f64 * 100.0 / summary.recorded_ns.max(1) as f64,
            numbers::count(one.waits as usize, "wait"),
            numbers::time(one.lengths[0] as f64),
            numbers::time(one.lengths[2] as f64),
        );
    }
    out
}

pub(super) fn row(recording: &Recording, summary: &Summary, cost: &ClassCost) -> Vec<String> {
    let share = |part: u64, of: u64| format!("{:.1} %", part as f64 * 100.0 / of.max(1) as f64);
    let class = &recording.classes[cost.class];
    let mut row = vec![
        class.name.clone(),
        class.sort.name().to_owned(),
        numbers::grouped(cost.objects as u64),
        numbers::grouped(cost.acquisitions),
        share(cost.reads, cost.acquisitions),
        share(cost.contended, cost.acquisitions),
        share(cost.waited_ns, summary.recorded_ns),
    ];
    row.extend(cost.holds.iter().chain(&cost.waits).map(|&ns| numbers::time(ns as f64)));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `threads` threads with a window of a second each, of which they are off the CPU for
    /// `asleep`; each took the lock twice, and `tries` were in vain.
    fn recording(threads: u64, asleep: f64, tries: u64) -> Recording {
        let mut text = "lockyard recording 1\nclass mutex CACHE\nlock 0\n".to_owned();
        for thread in 1..=threads {
            let _ = write!(text, "window {thread} 0\n100 {thread} request 0 write\n200 {thread} release 0\n");
            for at in 0..tries / threads {
                let _ = writeln!(text, "{} {thread} failed 0 write", 10_000 + at * 1_000);
            }
            let off = (asleep * 1e9) as u64;
            let _ = writeln!(text, "999999700 {thread} off {off}");
            let _ = write!(text, "999999800 {thread} request 0 write\n1000000000 {thread} release 0\n");
        }
        Recording::from_text("a", &text).unwrap()
    }

    /// There was said to be nothing, above what there was.
    #[test]
    fn a_program_with_semaphores_alone_is_told_what_it_waits_for() {
        let text = "lockyard recording 1\nclass semaphore S\nlock 0\nwindow 1 0\n0 1 wait 0\n400 1 woken 0\n\
            1000 1 signal 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        let said = verdict(&recording, &recording.summary(), None);
        assert_eq!(
            said,
            "No lock was taken; 40.0 % of the threads' time is spent waiting for what other threads signal."
        );
        assert!(recording.model(None).unwrap_err().to_string().contains("no lock"));
    }

    /// 600 threads, of which 200 ran at once.
    #[test]
    fn threads_one_after_the_other_are_not_said_to_have_run_at_once() {
        let mut text = "lockyard recording 1\nclass mutex CACHE\nlock 0\n".to_owned();
        for thread in 0..6 {
            let begin = thread / 2 * 1_000;
            let _ = write!(text, "window {thread} {begin}\n{} {thread} request 0 write\n", begin + 1);
            let _ = writeln!(text, "{} {thread} release 0", begin + 900);
        }
        let recording = Recording::from_text("a", &text).unwrap();
        let first = ("CACHE".to_owned(), 1.0, "this".to_owned());
        let said = verdict(&recording, &recording.summary(), Some(&first));
        assert!(said.contains("where 2 ran"), "{said}");
    }

    fn said(threads: u64, asleep: f64, tries: u64, saturates: f64) -> String {
        let recording = recording(threads, asleep, tries);
        let first = ("CACHE".to_owned(), saturates, "this".to_owned());
        verdict(&recording, &recording.summary(), Some(&first))
    }

    #[test]
    fn a_lock_that_stops_the_threads_that_ran_is_no_lock_without_problem() {
        let more = said(8, 0.0, 0, 9.0);
        assert!(more.starts_with("Locks are not your problem: 0.0 % "), "{more}");
        assert!(
            more.ends_with("; the first that will stop you is CACHE, at about 9 threads on this machine."),
            "{more}"
        );
        for threads in [8.0, 1.0] {
            let little = said(8, 0.0, 0, threads);
            assert!(little.starts_with("Locks cost you little so far: 0.0 % "), "{little}");
            assert!(little.ends_with(" on this machine, where 8 ran."), "{little}");
        }
    }

    /// The estimate is of threads that run all the time.
    #[test]
    fn threads_that_slept_are_told_from_those_that_saturate_a_lock() {
        let text = said(16, 0.97, 0, 6.0);
        let end = "at about 6 threads on this machine if they never sleep \
                   (the 16 that ran slept 97 % of the time).";
        assert!(text.starts_with("Locks cost you little so far: ") && text.ends_with(end), "{text}");
    }

    /// One thread has a lock to the end, and others wait for it to the end: no section of it ends,
    /// so that no estimate knows it.
    #[test]
    fn a_lock_that_is_held_to_the_end_is_named_before_one_that_saturates() {
        let mut text = "lockyard recording 1\nclass mutex BIG\nlock 0\nclass mutex CACHE\nlock 1\n".to_owned();
        text += "window 0 0 900000000\n1 0 request 0 write\n10 0 request 1 write\n20 0 release 1\n";
        for thread in 1..3 {
            let _ = write!(text, "window {thread} 0 900000000\n1 {thread} request 1 write\n20 {thread} release 1\n");
            let _ = write!(text, "1000 {thread} request 0 write\n900000000 {thread} pending-firm 0\n");
        }
        let recording = Recording::from_text("a", &text).unwrap();
        let first = ("CACHE".to_owned(), 37.0, "this".to_owned());
        let said = verdict(&recording, &recording.summary(), Some(&first));
        assert!(
            said.ends_with(
                "; most of the waiting is for BIG, for which 2 threads still waited when the recording ended."
            ),
            "{said}"
        );
    }

    #[test]
    fn tries_in_vain_are_told_where_nothing_waits() {
        let text = said(8, 0.0, 40_000, 1.0);
        let begin = "Locks cost you tries: 40,000 found CACHE taken and came again, \
                     beside 16 sections; 0.0 % ";
        assert!(text.starts_with(begin) && text.ends_with("at about 1 thread on this machine, where 8 ran."), "{text}");
        assert!(said(8, 0.0, 800, 9.0).starts_with("Locks are not your problem: "));
    }
}
