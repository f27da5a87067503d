//! What `report` says of threads that wait for locks where the recording ends: they may wait for
//! ever.

use std::collections::BTreeMap;
use std::fmt::Write;

use lockyard_recording::Recording;
use lockyard_recording::standstill::{Standstill, StillWaits};
use lockyard_recording::summary::Summary;

use crate::deadlock::SETTLED;
use crate::report::numbers;

/// So many classes are told.
const MOST: usize = 12;
/// Threads of a circle that are named.
const NAMED: usize = 4;

/// The sentence about threads that wait for each other, if some do.
pub(super) fn deadlock(recording: &Recording, at_end: &Standstill) -> Option<String> {
    let circle: Vec<&StillWaits> = at_end.circle.iter().map(|&place| &at_end.waits[place]).collect();
    let name = |wait: &StillWaits| recording.classes[wait.class].name.clone();
    let shortest = circle.iter().map(|wait| wait.ns).min()?;
    if let [only] = circle.as_slice() {
        let time = numbers::time(only.ns as f64);
        return Some(format!(
            "Deadlock: {} waits for {}, which it holds itself; it had waited {time} when the recording ended.",
            recording.called(only.thread),
            name(only)
        ));
    }
    let next = circle.iter().cycle().skip(1);
    let links = circle.iter().zip(next).take(NAMED);
    let links = links.map(|(wait, holder)| {
        let [waiter, holder] = [wait.thread, holder.thread].map(|thread| recording.called(thread));
        format!("{waiter} waits for {}, which {holder} holds", name(wait))
    });
    let mut links: Vec<String> = links.collect();
    if circle.len() > NAMED {
        links.push(format!("and so on, {} threads", circle.len()));
    }
    Some(format!(
        "Deadlock: {}; each had waited {} or more when the recording ended.",
        links.join("; "),
        numbers::time(shortest as f64)
    ))
}

/// Whether a thread has waited for so long that it may not go on.
pub(super) fn is_one(at_end: &Standstill) -> bool {
    at_end.waits.first().is_some_and(|longest| longest.ns >= SETTLED)
}

/// The class for which threads still wait, if these are most of the waiting: as the end of a
/// sentence about that.
pub(super) fn most(recording: &Recording, summary: &Summary) -> Option<String> {
    let mut still: BTreeMap<usize, (u64, usize)> = BTreeMap::new();
    for wait in summary.at_end.waits.iter().filter(|_| is_one(&summary.at_end)) {
        let (ns, threads) = still.entry(wait.class).or_default();
        (*ns, *threads) = (ns.saturating_add(wait.ns), *threads + 1);
    }
    let (class, (ns, threads)) = still.into_iter().max_by_key(|(_, (ns, _))| *ns)?;
    let all = summary.classes.iter().fold(0u64, |sum, class| sum.saturating_add(class.waited_ns));
    (ns > all / 2).then(|| {
        format!(
            "; most of the waiting is for {}, for which {} still waited when the recording ended",
            recording.classes[class].name,
            numbers::count(threads, "thread"),
        )
    })
}

/// The waits, lock class by lock class, if there is a long one.
pub(super) fn told(recording: &Recording, at_end: &Standstill) -> String {
    let mut out = String::new();
    if !is_one(at_end) {
        return out;
    }
    let mut classes: BTreeMap<usize, Vec<&StillWaits>> = BTreeMap::new();
    at_end.waits.iter().for_each(|wait| classes.entry(wait.class).or_default().push(wait));
    let mut classes: Vec<(usize, Vec<&StillWaits>)> = classes.into_iter().collect();
    classes.sort_by_key(|(class, waits)| (u64::MAX - waits[0].ns, *class));
    out.push_str("\nWaits for locks when the recording ended:\n");
    for (class, waits) in classes.iter().take(MOST) {
        let longest = waits[0];
        let holder = match longest.holders.as_slice() {
            [] => "no recorded thread holds it".to_owned(),
            [(thread, _)] if *thread == longest.thread => "the thread holds it itself".to_owned(),
            [(thread, ns)] => format!("{} has held it for {}", recording.called(*thread), numbers::time(*ns as f64)),
            several => format!("{} threads hold it", several.len()),
        };
        let _ = writeln!(
            out,
            "  {}: {}, the longest for {}; {holder}",
            recording.classes[*class].name,
            numbers::count(waits.len(), "thread"),
            numbers::time(longest.ns as f64),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_end(text: &str) -> (Recording, Standstill) {
        let head = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\n";
        let recording = Recording::from_text("a", &(head.to_owned() + text)).unwrap();
        let at_end = recording.summary().at_end;
        (recording, at_end)
    }

    #[test]
    fn threads_that_wait_for_each_other_are_named() {
        let second = 1_000_000_000;
        let thread = |thread, holds, waits| {
            format!(
                "window {thread} 0 {second}\n0 {thread} request {holds} write\n\
                 0 {thread} request {waits} write\n{second} {thread} pending-firm {waits}\n"
            )
        };
        let (recording, two) = at_end(&(thread(1, 0, 1) + &thread(2, 1, 0)));
        let said = deadlock(&recording, &two).unwrap();
        assert!(said.starts_with("Deadlock: thread ") && said.contains("thread 1 waits for B, which thread 2 holds"));
        assert!(
            said.contains("thread 2 waits for A, which thread 1 holds") && said.contains("waited 1.00 s"),
            "{said}"
        );
        let (recording, itself) = at_end(&thread(3, 0, 0));
        assert!(deadlock(&recording, &itself).unwrap().contains("waits for A, which it holds itself"));
        let (recording, chain) = at_end(&(thread(4, 0, 1) + "window 5 0 1000000000\n0 5 request 1 write\n"));
        assert_eq!(deadlock(&recording, &chain), None);
        let told = told(&recording, &chain);
        assert!(told.contains("B: 1 thread, the longest for 1.00 s; thread 5 has held it for 1.00 s"), "{told}");
    }

    #[test]
    fn waits_that_have_just_begun_are_no_news() {
        let (recording, short) = at_end("window 1 0 1000\n0 1 request 0 write\n1000 1 pending 0\n");
        assert!(!is_one(&short) && told(&recording, &short).is_empty());
    }
}
