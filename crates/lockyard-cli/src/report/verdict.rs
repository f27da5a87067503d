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

use super::facts::{Facts, LONG, SMALL, askers, blamed, called, is_of_readers, percent, standing};
use super::{advice, clear, numbers};
use crate::chosen;
use crate::deadlock::{self, Link};
use crate::session;
use crate::terminal::visible;
use crate::unseen;
use crate::untimed::semaphore_waits;

/// The sentence. Before it: which processes go on, of which it tells only what was so far, and why
/// others told nothing.
pub(crate) fn verdict(facts: &Facts<'_>) -> String {
    let not_all = session::told(&facts.known.left).into_iter().chain(facts.known.untold.clone());
    let said = not_all.map(|why| format!("Not all: {why}. ")).collect::<String>() + &sentence(facts) + hidden(facts);
    // Paths of programs are in it.
    visible(&said).into_owned()
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
        (left, _) => {
            let help = chosen::inheriting(sample).map_or_else(String::new, |help| format!("; {help}"));
            format!(" Not seen: {} left to the C library{help}.", numbers::count(left as usize, "object"))
        }
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
    let holders = blamed(facts, class);
    let Some(top) = holders.first().copied() else { return String::new() };
    let place = match top.place.place {
        0 => String::new(),
        _ => format!(" from {}", facts.symbols.line(&top.place)),
    };
    let who = if top.holder == 0 { String::new() } else { format!(" by {}", called(top.holder, &top.name)) };
    let share = top.hold_ns as f64 / holders.iter().map(|caller| caller.hold_ns).sum::<u64>().max(1) as f64;
    // Readers that hold it meanwhile have no share.
    let time = match !top.shared && is_of_readers(class) {
        true => "writers had it and others waited",
        false => "others waited",
    };
    let longest = match top.hold_max {
        0 => String::new(),
        ns => format!(", up to {}{who}", numbers::time(ns as f64)),
    };
    format!("; held{place} for {} of the time that {time}{longest}", percent(share))
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
mod tests;
