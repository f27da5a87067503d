//! What locks cost a program, in a sentence: how much, which lock, the lines that ask for it, the
//! thread and the line that hold it, and what would help.
//!
//! | what is seen | what is said |
//! |---|---|
//! | a process that goes on after the program | that, before what follows |
//! | threads that wait in a circle | the deadlock, and nothing else |
//! | no acquisition | that, what is not timed, and the waits elsewhere |
//! | less than [`SMALL`] of the threads' time, and no wait of [`LONG`] | locks are not the problem, with the figures; if the program has locks of its own, or waits elsewhere, only those that were seen are not |
//! | anything else | the class that cost most; its callers by what they waited and made others wait |
//!
//! The advice follows from the holds for which others waited: long ones want the slow work outside,
//! short ones of a lock that is always held want less inside or more locks, and where threads are
//! more than CPUs, fewer threads.

use std::time::Duration;

use lockyard_segment::Sample;
use lockyard_segment::sample::{CallerSample, ClassSample, ThreadSample};

use super::numbers;
use crate::deadlock::{self, Link};
use crate::follow::Known;
use crate::session;
use crate::symbols::Symbols;
use crate::unseen;

/// A share of the threads' time that is not worth a change.
const SMALL: f64 = 0.01;
/// A wait that somebody notices, in nanoseconds.
const LONG: u64 = 10_000_000;
/// A hold that is not a short section, in nanoseconds.
const SLOW: u64 = 1_000_000;
/// Holds of a distribution whose mean says little.
const FEW: u64 = 16;
/// A lock that is held for this share of the time is what the program waits for.
const BUSY: f64 = 0.5;
/// So is a lock for which threads wait this share of their time, however seldom they run.
const QUEUED: f64 = 0.25;

/// What a report is made of.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// What was counted.
    pub(crate) sample: &'a Sample,
    /// The time of all threads together.
    pub(crate) thread_time: Duration,
    /// CPUs that the program may use.
    pub(crate) cpus: usize,
    /// Whether it has ended.
    pub(crate) ended: bool,
    /// What places are called.
    pub(crate) symbols: &'a Symbols,
    /// What is known of the process beside its locks.
    pub(crate) known: &'a Known,
}

impl Facts<'_> {
    /// The share of the threads' time that `ns` is.
    pub(crate) fn share(&self, ns: u64) -> f64 {
        let whole = self.thread_time.as_nanos().max(u128::from(self.sample.lost_ns())).max(1);
        ns as f64 / whole as f64
    }

    /// The class as people know it.
    pub(crate) fn label(&self, class: &ClassSample) -> String {
        let kind = if class.kind.is_empty() { "other locks" } else { &class.kind };
        match (class.site, class.name.as_str()) {
            (0, "") => kind.to_owned(),
            (0, name) => format!("{kind} {name}"),
            (place, file) if file.starts_with('/') || file.is_empty() => {
                let place = lockyard_segment::sample::Place { file: file.to_owned(), place };
                format!("{kind} of {}", self.symbols.line(&place))
            }
            (place, name) => {
                let at = lockyard_segment::sample::Place { file: name.to_owned(), place };
                match self.symbols.call(&at) {
                    Some(spot) => format!("{kind} of {}", spot.line()),
                    None => format!("{kind} {name} of {place:#x}"),
                }
            }
        }
    }
}

/// The sentence. Before it: which processes go on, of which it tells only what was so far.
pub(crate) fn verdict(facts: &Facts<'_>) -> String {
    let left = session::told(&facts.known.left).map(|left| format!("Not all: {left}. ")).unwrap_or_default();
    left + &sentence(facts)
}

fn sentence(facts: &Facts<'_>) -> String {
    if let Some(links) = deadlock::circle(facts.sample) {
        return deadlock(facts, &links);
    }
    let lost = facts.sample.lost_ns();
    let longest = facts.sample.classes.iter().map(longest_wait).max().unwrap_or(0);
    let worst = facts.sample.classes.iter().max_by_key(|class| class.lost_ns()).filter(|class| class.lost_ns() > 0);
    let (time, share) = (numbers::time(lost as f64), percent(facts.share(lost)));
    let not_seen = not_seen(facts.sample);
    let seen = facts.known.seen.unwrap_or_else(|| facts.share(lost));
    let beside = || unseen::beside(facts.known, seen).map_or_else(String::new, |text| format!(" Beside them: {text}."));
    // Where locks cost something, what costs no more than they do is no answer.
    let is_more = facts.known.futex_share().is_none_or(|share| share > 2.0 * seen);
    let Some(worst) = worst.filter(|_| facts.share(lost) >= SMALL || longest >= LONG) else {
        let acquired = facts.sample.acquired();
        let contended: u64 = facts.sample.classes.iter().map(|class| class.counts.contended).sum();
        if acquired == 0 {
            let beside = beside();
            return format!(
                "No mutex or rwlock was taken in this time; {} are not timed.{not_seen}{beside}",
                unseen::NOT_TIMED
            );
        }
        let (whole, beside) = (numbers::time(facts.thread_time.as_nanos() as f64), beside());
        let first = if not_seen.is_empty() && beside.is_empty() && facts.known.left.is_empty() {
            "Locks are not this program's problem"
        } else {
            "The locks that were seen are not this program's problem"
        };
        return format!(
            "{first}: its threads waited {time} of {whole} ({share}), at most {} at a time, in {} of {} acquisitions.{not_seen}{beside}",
            numbers::time(longest as f64),
            numbers::grouped(contended),
            numbers::grouped(acquired),
        );
    };
    let first = if facts.share(lost) >= SMALL {
        format!("Locks cost this program {time}, {share} of its threads' time")
    } else {
        format!(
            "Locks cost this program little ({time}, {share} of its threads' time), but one wait lasted {}",
            numbers::time(longest as f64)
        )
    };
    // Where little is lost, the class with the longest wait is the one that is meant.
    let worst = if facts.share(lost) >= SMALL {
        worst
    } else {
        facts.sample.classes.iter().max_by_key(|class| longest_wait(class)).unwrap_or(worst)
    };
    let of_it = percent(worst.lost_ns() as f64 / lost.max(1) as f64);
    format!(
        "{first}: {of_it} of that for {}{}{}. {}{not_seen}{}",
        facts.label(worst),
        asked(facts, worst),
        held(facts, worst),
        advice(facts, worst),
        if is_more { beside() } else { String::new() },
    )
}

/// What is left out of the sentence because nobody counts it.
fn not_seen(sample: &Sample) -> String {
    let left: u64 = sample.fallbacks.iter().map(|(_, count)| count).sum();
    match (left, sample.private) {
        // Semaphores count events, and no times.
        (0, 0) => match sample.event("sem_slowpath") {
            0 => String::new(),
            waits => format!(" Not seen: the time of {} for semaphores.", numbers::count(waits as usize, "wait")),
        },
        (0, threads) => {
            format!(" Not seen: {}, for which /dev/shm had no room.", numbers::count(threads as usize, "thread"))
        }
        (left, _) => format!(" Not seen: {} left to the C library.", numbers::count(left as usize, "object")),
    }
}

fn longest_wait(class: &ClassSample) -> u64 {
    class.counts.wait_max.max(class.waiting.longest_ns)
}

pub(crate) fn percent(share: f64) -> String {
    format!("{} %", numbers::three(share * 100.0))
}

/// The callers that waited most, first.
pub(super) fn askers(class: &ClassSample) -> Vec<&CallerSample> {
    let mut askers: Vec<_> = class.callers.iter().filter(|caller| caller.wait_ns > 0).collect();
    askers.sort_by_key(|caller| std::cmp::Reverse(caller.wait_ns));
    askers
}

/// The callers for which others waited most, first.
pub(super) fn holders(class: &ClassSample) -> Vec<&CallerSample> {
    let mut holders: Vec<_> = class.callers.iter().filter(|caller| caller.hold_ns > 0).collect();
    holders.sort_by_key(|caller| std::cmp::Reverse(caller.hold_ns));
    holders
}

/// The lines that ask: as many as make up most of the waiting.
fn asked(facts: &Facts<'_>, class: &ClassSample) -> String {
    let askers: Vec<_> = askers(class).into_iter().filter(|caller| caller.place.place != 0).collect();
    let all: u64 = askers.iter().map(|caller| caller.wait_ns).sum();
    let mut shown: Vec<String> = Vec::new();
    let mut sum = 0;
    for caller in askers.iter().take(2) {
        if sum as f64 >= 0.8 * all as f64 {
            break;
        }
        sum += caller.wait_ns;
        let line = facts.symbols.line(&caller.place);
        if !shown.contains(&line) {
            shown.push(line);
        }
    }
    match shown.is_empty() {
        // Waiting threads have waited from the begin to this moment.
        true => waiting_places(facts, class),
        false => format!(", asked for in {}", shown.join(" and ")),
    }
}

fn waiting_places(facts: &Facts<'_>, class: &ClassSample) -> String {
    let place = facts
        .sample
        .waiters
        .iter()
        .filter_map(|thread| thread.waits.as_ref())
        .find(|wait| facts.sample.classes.get(wait.class).is_some_and(|of| std::ptr::eq(of, class)));
    place.map_or_else(String::new, |wait| format!(", asked for in {}", facts.symbols.line(&wait.place)))
}

/// The thread that still holds what threads have waited for longest, and where it took it.
fn standing<'a>(facts: &'a Facts<'_>, class: &ClassSample) -> Option<(&'a ThreadSample, String)> {
    let of_class = |thread: &&ThreadSample| {
        let wait = thread.waits.as_ref();
        let of = wait.and_then(|wait| facts.sample.classes.get(wait.class));
        of.is_some_and(|of| std::ptr::eq(of, class))
    };
    let waiters = facts.sample.waiters.iter().filter(of_class);
    let (waiter, wait) =
        waiters.filter_map(|thread| Some((thread, thread.waits.as_ref()?))).max_by_key(|(_, wait)| wait.ns)?;
    // The same address is another lock in another process.
    facts.sample.waiters.iter().filter(|thread| thread.process == waiter.process).find_map(|thread| {
        let hold = thread.holds.iter().find(|hold| hold.lock == wait.lock)?;
        Some((thread, facts.symbols.line(&hold.place)))
    })
}

/// The thread that holds it, and where.
fn held(facts: &Facts<'_>, class: &ClassSample) -> String {
    if class.waiting.longest_ns >= LONG && class.waiting.sum_ns > class.counts.wait_ns {
        let verb = if facts.ended { "waited to the end" } else { "wait now" };
        let holder = standing(facts, class);
        let who = holder.as_ref().map_or_else(String::new, |(thread, place)| {
            format!(
                " {} {} it since {place}",
                called(thread.thread, &thread.name),
                if facts.ended { "held" } else { "holds" }
            )
        });
        let threads = numbers::count(class.waiting.threads as usize, "thread");
        return format!(
            ";{who}{} {threads} {verb}, the first for {}",
            if holder.is_some() { ", and" } else { "" },
            numbers::time(class.waiting.longest_ns as f64)
        );
    }
    let Some(top) = holders(class).first().copied() else { return String::new() };
    let place = match top.place.place {
        0 => String::new(),
        _ => format!(" from {}", facts.symbols.line(&top.place)),
    };
    let who = if top.holder == 0 { String::new() } else { format!(" by {}", called(top.holder, &top.name)) };
    let share = top.hold_ns as f64 / holders(class).iter().map(|caller| caller.hold_ns).sum::<u64>().max(1) as f64;
    format!(
        "; held{place} for {} of the time that others waited, up to {}{who}",
        percent(share),
        numbers::time(top.hold_max as f64)
    )
}

/// A thread as people know it.
pub(crate) fn called(thread: u32, name: &str) -> String {
    if name.is_empty() { format!("thread {thread}") } else { format!("thread {thread} \"{name}\"") }
}

/// What would help.
fn advice(facts: &Facts<'_>, class: &ClassSample) -> String {
    let counts = &class.counts;
    let holders = holders(class);
    let top = holders.first();
    // A section that everybody has, and that is short as a rule, is not slow because some threads
    // lost their CPU in it.
    let all: u64 = holders.iter().map(|caller| caller.holds).sum();
    let usual = top.is_some_and(|top| 10 * top.holds >= 9 * all) && (1..SLOW).contains(&counts.hold(0.5));
    let slow = !usual && top.is_some_and(|top| top.hold_ns / top.holds.max(1) >= SLOW);
    let readers_wait = class.callers.iter().filter(|caller| caller.shared).map(|caller| caller.wait_ns).sum::<u64>();
    // The distribution is of one in 64. Those that others waited for are all there, and are longer
    // than most.
    let sampled = (counts.holds.iter().sum::<u64>(), counts.hold_ns);
    let awaited = holders.iter().fold((0, 0), |sum, caller| (sum.0 + caller.holds, sum.1 + caller.hold_ns));
    let few = sampled.0 < FEW;
    let (holds, ns) = if few { awaited } else { sampled };
    // The others are like the usual one: a long one among those that were timed is not one of many.
    let others = if few { 0 } else { counts.acquired.saturating_sub(awaited.0) };
    let held = counts.hold(0.5) as f64 * others as f64 + awaited.1 as f64;
    let busy = held / (facts.sample.seconds * 1e9).max(1.0);
    let average = if few { ns as f64 / holds.max(1) as f64 } else { held / counts.acquired.max(1) as f64 };
    let section = numbers::time(average);
    if class.waiting.sum_ns > counts.wait_ns && class.waiting.longest_ns >= LONG {
        return "Look at what that thread does, and why it does not release the lock.".to_owned();
    }
    if slow {
        let what = "Do the slow work there outside of the lock";
        return match top {
            Some(top) if !top.shared && 2 * readers_wait > counts.wait_ns => {
                format!("Readers starve behind that writer. {what}, or publish a copy in place of writing under it.")
            }
            Some(top) if top.shared => format!("Writers wait until such readers have gone. {what}."),
            _ => format!("{what}: copy what it needs, and release first."),
        };
    }
    if counts.refused > 10 * counts.contended.max(1) && counts.refused > counts.acquired / 10 {
        return format!(
            "{} tries found it taken and came again: wait for it in place of trying.",
            numbers::grouped(counts.refused)
        );
    }
    if 2 * readers_wait > counts.wait_ns {
        return "Readers wait for writers: write less often, or publish a copy in place of writing under the lock."
            .to_owned();
    }
    if holds > 0 && (busy >= BUSY || facts.share(class.lost_ns()) >= QUEUED) {
        return format!(
            "It is held {} of the time, {section} {}, and threads queue for it: the program goes no faster than that section. Split what it protects, or do less inside.",
            percent(busy.min(1.0)),
            if few { "where others wait" } else { "on average" },
        );
    }
    if facts.sample.threads as usize > 2 * facts.cpus && holds > 0 {
        return format!(
            "Its section is short ({section}), and {} share {}: fewer threads would lose less.",
            numbers::count(facts.sample.threads as usize, "thread"),
            numbers::count(facts.cpus, "CPU"),
        );
    }
    let tries = match facts.sample.locks.as_str() {
        // `compare` changes pthread's locks.
        "lockyard" | "liblockyard" => "",
        _ => "; `lockyard compare -- PROGRAM` tries other locks",
    };
    format!("Take it less often, or split what it protects{tries}.")
}

fn deadlock(facts: &Facts<'_>, links: &[Link<'_>]) -> String {
    let one = |link: &Link<'_>| {
        let class = facts.sample.classes.get(link.wait.class);
        let label = class.map_or_else(|| "a lock".to_owned(), |class| facts.label(class));
        let who = called(link.waiter.thread, &link.waiter.name);
        let at = facts.symbols.line(&link.wait.place);
        let since = link.hold.map_or_else(String::new, |hold| format!(" since {}", facts.symbols.line(&hold.place)));
        if std::ptr::eq(link.waiter, link.holder) {
            format!("{who} waits in {at} for {label}, which it holds itself{since}")
        } else {
            format!(
                "{who} waits in {at} for {label}, which {} holds{since}",
                called(link.holder.thread, &link.holder.name)
            )
        }
    };
    let all: Vec<String> = links.iter().map(one).collect();
    let help = if links.len() == 1 {
        "Release it first, or make it a recursive one."
    } else {
        "Take these locks in the same order everywhere."
    };
    format!("Deadlock: {}. {help}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use lockyard_segment::histogram::bucket;
    use lockyard_segment::sample::Counts;

    use super::*;

    /// The verdict on a lock that cost `lost` of the threads' time, where they were in futex calls
    /// for nine tenths of it.
    fn of(lost: f64, known: Option<&Known>) -> String {
        let ns = (lost * 1e9) as u64;
        let counts =
            Counts { acquired: 1_000_000, contended: 1_000, wait_ns: ns, wait_max: 1_000, ..Counts::default() };
        let class = ClassSample { kind: "mutex".to_owned(), name: "a".to_owned(), counts, ..ClassSample::default() };
        let sample = Sample { classes: vec![class], seconds: 1.0, threads: 1, ..Sample::default() };
        let mut waits = Known::default();
        waits.saw(90, 100);
        let (symbols, known) = (Symbols::default(), known.unwrap_or(&waits));
        let thread_time = Duration::from_secs(1);
        verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known })
    }

    #[test]
    fn waits_elsewhere_are_told_where_locks_cost_less() {
        let little = of(0.005, None);
        assert!(little.starts_with("The locks that were seen are not this program's problem"), "{little}");
        assert!(little.contains("Beside them: 89.5 % of its threads' time in other futex calls"), "{little}");
        assert!(of(0.2, None).contains("Beside them: 70.0 %"));
        let much = of(0.6, None);
        assert!(much.starts_with("Locks cost this program 600 ms") && !much.contains("Beside"), "{much}");
    }

    #[test]
    fn locks_of_its_own_are_told_of_where_nothing_is_known_of_waits() {
        let (nothing, mut known) = (Known::default(), Known::default());
        assert!(of(0.005, Some(&nothing)).starts_with("Locks are not this program's problem"));
        assert!(!of(0.2, Some(&nothing)).contains("Beside"));
        known.programs.push(std::env::current_exe().unwrap());
        let own = of(0.2, Some(&known));
        assert!(own.contains("Beside them: ") && own.contains("is a Rust program"), "{own}");
    }

    /// One long hold among those that were timed is not one of many.
    #[test]
    fn a_lock_is_not_said_to_be_held_for_longer_than_it_is() {
        let mut counts = Counts { acquired: 23_000, contended: 30, wait_ns: 300_000_000, ..Counts::default() };
        (counts.holds[bucket(1_000)], counts.holds[bucket(30_000_000)]) = (360, 1);
        (counts.hold_ns, counts.hold_max) = (360 * 1_000 + 30_000_000, 30_000_000);
        let caller = CallerSample {
            waits: 30,
            wait_ns: 300_000_000,
            holds: 36,
            hold_ns: 270_000_000,
            ..CallerSample::default()
        };
        let class = ClassSample { kind: "mutex".to_owned(), counts, callers: vec![caller], ..ClassSample::default() };
        let sample = Sample { classes: vec![class], seconds: 1.0, threads: 1, ..Sample::default() };
        let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(1));
        let facts = Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known };
        let text = verdict(&facts);
        let held = text.split("It is held ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        assert!(held.is_some_and(|held| (27.0..35.0).contains(&held)), "{text}");
        assert!(text.contains("12.") || text.contains("13."), "microseconds on average: {text}");
    }
}
