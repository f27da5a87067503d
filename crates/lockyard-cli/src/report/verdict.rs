//! What locks cost a program, in a sentence: how much, which lock, the lines that ask for it, the
//! thread and the line that hold it, and what would help.
//!
//! | what is seen | what is said |
//! |---|---|
//! | a process that goes on after the program, or could not tell | that, before what follows |
//! | threads that wait in a circle | the deadlock, and nothing else |
//! | no acquisition | that, what is not timed, and the waits elsewhere |
//! | little lost, [many tries in vain](advice::storm) | the tries, their lock, a [`LONG`] wait |
//! | little lost, and a lock that [limits](advice::limits) others than idle threads | as below |
//! | little lost, no storm, no wait of [`LONG`] | what [`clear`] says |
//! | anything else | the class that cost most, its callers, the [advice]; a storm elsewhere |
//!
//! Little is less than [`SMALL`] of the threads' time. Of a program that has locks of its own, or
//! waits elsewhere, only the locks that were seen are not the problem. Callers are ordered by what
//! they waited, and by what they made others wait.

use lockyard_segment::layout::THREADS;
use lockyard_segment::sample::{ClassSample, Wait};
use lockyard_segment::{CHOSEN, Sample};

use super::facts::{Facts, LONG, SMALL, askers, called, holders, percent, standing};
use super::{advice, clear, numbers};
use crate::chosen;
use crate::deadlock::{self, Link};
use crate::session;
use crate::unseen;
use crate::untimed::semaphore_waits;

/// The sentence. Before it: which processes go on, of which it tells only what was so far, and why
/// others told nothing.
pub(crate) fn verdict(facts: &Facts<'_>) -> String {
    let not_all = session::told(&facts.known.left).into_iter().chain(facts.known.untold.clone());
    not_all.map(|why| format!("Not all: {why}. ")).collect::<String>() + &sentence(facts) + hidden(facts)
}

/// What is said where the lines are those of lock calls that are functions of their own.
fn hidden(facts: &Facts<'_>) -> &'static str {
    let callers = facts.sample.classes.iter().flat_map(|class| class.callers.iter().map(|caller| &caller.place));
    let waits = facts.sample.waiters.iter().filter_map(|thread| Some(&thread.waits.as_ref()?.place));
    if callers.chain(waits).any(|place| facts.symbols.call(place).is_some_and(|spot| spot.at.is_lock_call())) {
        " Some lines are those of the lock call itself: built with optimisation \
         (opt-level 1, 2, 3 or s, not z), the program tells its own."
    } else {
        ""
    }
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
    let beside_of =
        |seen: f64| unseen::beside(facts.known, seen).map_or_else(String::new, |text| format!(" Beside them: {text}."));
    let beside = || beside_of(seen);
    // Where locks cost something, waits that cost no more than they do are no answer.
    let is_more = facts.known.futex_share().is_none_or(|share| share > 2.0 * seen);
    let storm = advice::storm(facts.sample);
    if let Some(class) = storm.filter(|_| facts.share(lost) < SMALL) {
        let wait = match longest {
            LONG.. => format!(" One wait lasted {}.", numbers::time(longest as f64)),
            _ => String::new(),
        };
        return format!(
            "Locks cost this program tries: {} {}, beside {}. Wait for it in place of trying; \
             the time that tries take is not counted.{wait}{not_seen}{}",
            numbers::grouped(advice::tries(&class.counts)),
            in_vain(facts, class),
            numbers::count(class.counts.acquired as usize, "acquisition"),
            beside()
        );
    }
    // Idle threads have time as well: what limits the others may be little of all that time.
    let limiting = facts.sample.classes.iter().filter(|class| advice::limits(facts, class));
    let limiting = limiting.max_by_key(|class| class.lost_ns()).filter(|_| facts.share(lost) < SMALL);
    let Some(worst) = limiting.or(worst.filter(|_| facts.share(lost) >= SMALL || longest >= LONG)) else {
        return clear::nothing_lost(facts, (lost, longest), &not_seen, &beside());
    };
    let first = if facts.share(lost) >= SMALL || limiting.is_some() {
        format!("Locks cost this program {time}, {share} of its threads' time")
    } else {
        format!(
            "Locks cost this program little ({time}, {share} of its threads' time), but one wait lasted {}",
            numbers::time(longest as f64)
        )
    };
    // Where little is lost, the class with the longest wait is the one that is meant.
    let worst = if facts.share(lost) >= SMALL || limiting.is_some() {
        worst
    } else {
        facts.sample.classes.iter().max_by_key(|class| longest_wait(class)).unwrap_or(worst)
    };
    let of_it = percent(worst.lost_ns() as f64 / lost.max(1) as f64);
    // At the worst class the advice tells of it.
    let elsewhere = storm.filter(|class| !std::ptr::eq(*class, worst)).map_or_else(String::new, |class| {
        let (tries, found) = (numbers::grouped(advice::tries(&class.counts)), in_vain(facts, class));
        format!(" Besides, {tries} tries {found}: wait for it in place of trying.")
    });
    format!(
        "{first}: {of_it} of that for {}{}{}. {}{elsewhere}{not_seen}{}",
        facts.label(worst),
        asked(facts, worst),
        held(facts, worst),
        advice::advice(facts, worst),
        beside_of(if is_more { seen } else { f64::INFINITY }),
    )
}

/// What became of tries in vain for locks of a class.
fn in_vain(facts: &Facts<'_>, class: &ClassSample) -> String {
    format!("found {} taken and came again", facts.label(class))
}

/// What is left out of the sentence because nobody counts it.
fn not_seen(sample: &Sample) -> String {
    let chosen = chosen::by_sample(sample).map_or_else(String::new, |left| format!(" Not seen: {left}."));
    let objects = sample.fallbacks.iter().filter(|(reason, _)| !reason.starts_with(CHOSEN));
    let left: u64 = objects.map(|(_, count)| count).sum();
    let rest = match (left, uncounted(sample)) {
        // Semaphores count events, and no times.
        (0, None) => {
            semaphore_waits(sample).map_or_else(String::new, |waits| format!(" Not seen: the time of {waits}."))
        }
        (0, Some(threads)) => format!(" Not seen: {threads}."),
        (left, _) => format!(" Not seen: {} left to the C library.", numbers::count(left as usize, "object")),
    };
    chosen + &rest
}

/// The threads whose counts are nowhere, and why.
pub(crate) fn uncounted(sample: &Sample) -> Option<String> {
    let beyond = sample.beyond.min(sample.private);
    let reasons = [
        (beyond, format!("for which the {} pages of statistics did not suffice", numbers::grouped(THREADS as u64))),
        (sample.private - beyond, "for which /dev/shm had no room".to_owned()),
    ];
    let some = reasons.iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> =
        some.map(|(count, why)| format!("{}, {why}", numbers::count(*count as usize, "thread"))).collect();
    (!some.is_empty()).then(|| some.join(", and "))
}

fn longest_wait(class: &ClassSample) -> u64 {
    class.counts.wait_max.max(class.waiting.longest_ns)
}

/// The lines that ask: as many as make up most of the waiting, that of threads that wait now
/// included.
fn asked(facts: &Facts<'_>, class: &ClassSample) -> String {
    let classes = &facts.sample.classes;
    let is_this = |wait: &&Wait| classes.get(wait.class).is_some_and(|of| std::ptr::eq(of, class));
    let now = facts.sample.waiters.iter().filter_map(|thread| thread.waits.as_ref());
    let now = now.filter(is_this).map(|wait| (&wait.place, wait.ns));
    let mut lines: Vec<(String, u64)> = Vec::new();
    let ended = askers(class).into_iter().map(|caller| (&caller.place, caller.wait_ns));
    for (place, ns) in ended.chain(now).filter(|(place, _)| place.place != 0) {
        let line = facts.symbols.line(place);
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, sum)) => *sum += ns,
            None => lines.push((line, ns)),
        }
    }
    lines.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let first = lines.first().map_or(0, |(_, ns)| *ns);
    let all: u64 = lines.iter().map(|(_, ns)| ns).sum();
    lines.truncate(if first as f64 >= 0.8 * all as f64 { 1 } else { 2 });
    let lines: Vec<String> = lines.into_iter().map(|(line, _)| line).collect();
    if lines.is_empty() { String::new() } else { format!(", asked for in {}", lines.join(" and ")) }
}

/// The thread that holds it, and where.
fn held(facts: &Facts<'_>, class: &ClassSample) -> String {
    if class.waiting.longest_ns >= LONG && class.waiting.sum_ns > class.counts.wait_ns {
        let verb = match (facts.ended, class.waiting.threads) {
            (true, _) => "waited to the end",
            (false, 1) => "waits now",
            (false, _) => "wait now",
        };
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
    let longest = match top.hold_max {
        0 => String::new(),
        ns => format!(", up to {}{who}", numbers::time(ns as f64)),
    };
    format!("; held{place} for {} of the time that others waited{longest}", percent(share))
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
    let help = match links {
        // A thread that reads may read again, but no rwlock lets it write as well.
        [link] if !may_recur(facts.sample.classes.get(link.wait.class)) => {
            "Release it first, or do not ask for it again."
        }
        [_] => "Release it first, or make it a recursive one.",
        _ => "Take these locks in the same order everywhere.",
    };
    format!("Deadlock: {}. {help}", all.join("; "))
}

/// Whether there are locks of that kind that a thread may take again.
fn may_recur(class: Option<&ClassSample>) -> bool {
    class.is_some_and(|class| class.kind.to_lowercase().contains("mutex"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockyard_segment::histogram::bucket;
    use lockyard_segment::sample::{CallerSample, Counts, Hold, Place, ThreadSample, Wait};

    use super::*;
    use crate::known::Known;
    use crate::symbols::Symbols;

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

    /// It was named only where other waits cost more than the locks.
    #[test]
    fn a_program_that_was_not_seen_is_named_whatever_the_locks_cost() {
        let mut known = Known::default();
        known.saw(90, 100);
        known.loaded = session::Loaded::missed(std::path::Path::new("/no/such/program"));
        let much = of(0.6, Some(&known));
        assert!(much.starts_with("Locks cost this program 600 ms"), "{much}");
        assert!(much.contains("Beside them: the preload library was not in '/no/such/program'"), "{much}");
        assert!(!much.contains("other futex calls"), "{much}");
    }

    #[test]
    fn a_process_that_could_not_tell_is_named_first() {
        let mut known = Known::default();
        known.untold = Some("process 7 could not make its statistics: no".to_owned());
        let said = of(0.005, Some(&known));
        let begin = "Not all: process 7 could not make its statistics: no. The locks that were seen are not this ";
        assert!(said.starts_with(begin), "{said}");
    }

    /// It was always `/dev/shm`.
    #[test]
    fn threads_that_are_not_counted_are_told_with_the_true_reason() {
        let why = |private, beyond| uncounted(&Sample { private, beyond, ..Sample::default() }).unwrap_or_default();
        let (pages, room) =
            ("for which the 16,384 pages of statistics did not suffice", "for which /dev/shm had no room");
        assert_eq!(why(0, 0), "");
        assert_eq!((why(3, 3), why(3, 0)), (format!("3 threads, {pages}"), format!("3 threads, {room}")));
        assert_eq!(why(3, 2), format!("2 threads, {pages}, and 1 thread, {room}"));
    }

    /// The verdict on `classes` of a program of 16 threads on 2 CPUs, after two seconds.
    fn said(classes: Vec<ClassSample>) -> String {
        let sample = Sample { classes, seconds: 2.0, threads: 16, ..Sample::default() };
        let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(32));
        verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known })
    }

    fn tried(refused: u64, acquired: u64, contended: u64) -> ClassSample {
        let wait_ns = 10_000 * contended;
        let counts = Counts { refused, acquired, contended, wait_ns, wait_max: 10_000, ..Counts::default() };
        ClassSample { kind: "mutex".to_owned(), name: "a".to_owned(), counts, ..ClassSample::default() }
    }

    #[test]
    fn tries_in_vain_are_the_answer_where_nothing_waits() {
        let text = said(vec![tried(0, 1_000_000, 0), tried(117_225, 2_904, 0)]);
        let begin = "Locks cost this program tries: 117,225 found mutex a taken and came again, beside 2,904 \
                     acquisitions. Wait for it in place of trying; ";
        assert!(text.starts_with(begin) && !text.contains("not this program's problem"), "{text}");
        // Few of them, few of the tries, and few beside the waits.
        for calm in [tried(999, 10, 0), tried(10_000, 1_000_000, 0), tried(10_000, 10_000, 1_001)] {
            let text = said(vec![calm]);
            assert!(text.starts_with("Locks are not this program's problem"), "{text}");
        }
    }

    /// Calls with a deadline that is over are tries: there were more waits than acquisitions.
    #[test]
    fn waits_whose_time_is_up_at_once_are_tries() {
        let mut polled = tried(0, 500, 3_684);
        (polled.counts.gave_up, polled.counts.wait_ns) = (3_684, 3_684_000);
        polled.counts.waits[bucket(1_000)] = 3_684;
        let text = said(vec![polled.clone()]);
        assert!(text.starts_with("Locks cost this program tries: 3,684 found mutex a taken and came again"), "{text}");
        polled.counts.gave_up = 600;
        let text = said(vec![polled]);
        assert!(text.contains(" in 3,084 of 500 acquisitions"), "{text}");
        // They did wait.
        let mut timed = tried(0, 500, 3_684);
        (timed.counts.gave_up, timed.counts.wait_ns) = (3_684, 3_684_000_000);
        timed.counts.waits[bucket(1_000_000)] = 3_684;
        assert!(!said(vec![timed]).contains("found"));
    }

    /// The time of threads that idle hid that the others went no faster than the lock.
    #[test]
    fn a_lock_that_limits_a_few_threads_is_named_beside_idle_ones() {
        let mut busy = tried(0, 2_000, 1_900);
        (busy.counts.wait_ns, busy.counts.locks) = (1_800_000_000, 1);
        (busy.counts.holds[bucket(950_000)], busy.counts.hold_max) = (100, 1_000_000);
        let of = |threads: u64, class: &ClassSample| {
            let sample = Sample { classes: vec![class.clone()], seconds: 2.0, threads: 2, ..Sample::default() };
            let (symbols, known, thread_time) =
                (Symbols::default(), Known::default(), Duration::from_secs(2 * threads));
            verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known })
        };
        for threads in [4, 400] {
            let text = of(threads, &busy);
            assert!(text.starts_with("Locks cost this program 1.80 s") && text.contains("It is held "), "{text}");
        }
        // Held for long, and nobody waits for it.
        busy.counts.wait_ns = 100_000_000;
        assert!(of(400, &busy).starts_with("Locks are not this program's problem"));
    }

    #[test]
    fn tries_in_vain_are_told_beside_what_waits_cost() {
        let waited = tried(0, 1_000_000, 200_000);
        let text = said(vec![waited, tried(117_225, 2_904, 0)]);
        assert!(text.starts_with("Locks cost this program 2.00 s, "), "{text}");
        assert!(
            text.ends_with(
                " Besides, 117,225 tries found mutex a taken and came again: wait for it in place of trying."
            )
        );
        let both = said(vec![tried(5_000_000, 1_000_000, 200_000)]);
        assert!(
            both.ends_with("5,000,000 tries found it taken and came again: wait for it in place of trying."),
            "{both}"
        );
    }

    #[test]
    fn no_rwlock_is_advised_to_be_a_recursive_one() {
        let said = |kind: &str| {
            let class = ClassSample { kind: kind.to_owned(), ..ClassSample::default() };
            let (place, ns) = (Place::default(), u64::MAX);
            let wait = Wait { lock: 8, class: 0, place: place.clone(), since: 1, ns, holder: 0, has_deadline: false };
            let holds = vec![Hold { lock: 8, place, shared: false, ns: 0 }];
            let itself = ThreadSample { process: 1, thread: 2, name: String::new(), waits: Some(wait), holds };
            let sample = Sample { classes: vec![class], waiters: vec![itself], ..Sample::default() };
            let (symbols, known, thread_time) = (Symbols::default(), Known::default(), Duration::from_secs(1));
            verdict(&Facts { sample: &sample, thread_time, cpus: 2, ended: true, symbols: &symbols, known: &known })
        };
        assert!(said("mutex").ends_with("Release it first, or make it a recursive one."), "{}", said("mutex"));
        for kind in ["rwlock", "rwsem"] {
            let text = said(kind);
            assert!(text.starts_with("Deadlock: ") && text.ends_with("first, or do not ask for it again."), "{text}");
        }
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
