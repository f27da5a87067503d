//! What would help where a class of locks costs time.
//!
//! | what is seen, the first that fits | what is said |
//! |---|---|
//! | a thread still holds it, and most of the loss are waits for that one | look at what it does |
//! | the same, and no thread is seen that holds it | that, and that its holder may have ended |
//! | a [storm] of tries in vain | wait in place of trying |
//! | many waits end at a deadline | how many; the order of locks, if holders wait for one |
//! | others wait for holders that [wait for another lock](elsewhere) most of the time | that lock |
//! | holds that others waited for last [`SLOW`] on average, not the usual ones | the work outside |
//! | most was waited behind a [few long holds](long_hold) | look at what that thread did there |
//! | most of the waiting is that of readers | write less often, or publish a copy |
//! | a [few of its locks](uneven) have most of the waiting | spread what they protect |
//! | [one section, or those of all its locks, limits the program](limit) | split what it protects |
//! | a [`SHORT`] section, and busy threads are more than twice the CPUs | fewer threads |
//! | anything else | take it less often, do less inside, or split what it protects |

use lockyard_segment::MANY_LOCKS as MANY;
use lockyard_segment::Sample;
use lockyard_segment::histogram;
use lockyard_segment::layout::OUTER;
use lockyard_segment::sample::{CallerSample, ClassSample, Counts};

use super::facts::{Facts, LONG, blamed, called, holders, is_of_readers, percent, standing};
use super::numbers;

/// A hold that is not a short section, in nanoseconds.
const SLOW: u64 = 1_000_000;
/// A section that a thread rarely loses its CPU in, if it does not wait for anything in it.
const SHORT: f64 = 50_000.0;
/// Holds of a distribution whose mean says little.
const FEW: u64 = 16;
/// A lock that is held for this share of the time is what the program waits for.
const BUSY: f64 = 0.5;
/// So is a lock for which threads wait this share of their time, however seldom they run. Of one
/// that is held for much of the time, so much of one thread's time is enough.
const QUEUED: f64 = 0.25;
/// All holds for which others waited last no longer than so many of the longest, where a few long
/// ones are meant. Holders that lose their CPU now and then are many, and alike.
const RARE: f64 = 8.0;
/// A hold for which others waited is long, on average, if it lasts so many times the usual one.
const LONGER: f64 = 4.0;
/// Fewer tries in vain are no storm, in all and in a second: a try takes 10 µs where its thread
/// yields before the next one, so a thousand in a second take a hundredth of a thread's time, which
/// is what [`SMALL`](super::facts::SMALL) is of waits.
const MANY_TRIES: f64 = 1_000.0;
/// Nor are fewer tries for each acquisition. A thread that goes on to something else when a try is
/// in vain, or waits then, does not come again at once, and most of its tries succeed.
const TRIES_FOR_EACH: f64 = 0.5;
/// Nor fewer for each wait: where as many threads wait, waits tell what the lock costs.
const TRIES_FOR_EACH_WAIT: f64 = 10.0;

/// Half of the waits of calls that only try last no longer, in nanoseconds.
const AT_ONCE: u64 = 10_000;
/// One wait in so many that ends without the lock is no exception.
const LATE: f64 = 4.0;

/// Whether tries in vain are what a lock costs.
pub(crate) fn is_storm(refused: u64, acquired: u64, contended: u64, seconds: f64) -> bool {
    let refused = refused as f64;
    refused >= MANY_TRIES * seconds.max(1.0)
        && refused >= TRIES_FOR_EACH * acquired as f64
        && refused >= TRIES_FOR_EACH_WAIT * contended as f64
}

fn is_stormy(sample: &Sample, counts: &Counts) -> bool {
    is_storm(tries(counts), counts.acquired, counts.contended.saturating_sub(counts.gave_up), sample.seconds)
}

/// Tries in vain, and waits whose time was up at once.
pub(super) fn tries(counts: &Counts) -> u64 {
    counts.refused + if counts.wait(0.5) < AT_ONCE { counts.gave_up } else { 0 }
}

/// The class with most tries in vain, if they are what it costs.
pub(super) fn storm(sample: &Sample) -> Option<&ClassSample> {
    let stormy = sample.classes.iter().filter(|class| is_stormy(sample, &class.counts));
    stormy.max_by_key(|class| tries(&class.counts))
}

/// What is known of the holds of a class.
struct Holds<'a> {
    /// The code to [name](blamed) for whose holds others waited, that for which they waited most
    /// first.
    callers: Vec<&'a CallerSample>,
    /// Whether the distribution has too few to tell a mean, so that it is of those for which others
    /// waited.
    few: bool,
    /// How many the mean is of.
    count: u64,
    /// The mean, in nanoseconds.
    average: f64,
    /// The share of the time that they are together: above 1 where the class has several locks.
    /// `None`: holds of readers are among them, side by side.
    busy: Option<f64>,
}

impl<'a> Holds<'a> {
    fn of(facts: &Facts<'_>, class: &'a ClassSample) -> Self {
        let (counts, callers) = (&class.counts, blamed(facts, class));
        // The distribution is of few. Those that others waited for are all there, and are
        // longer than most.
        let sampled = counts.holds.iter().sum::<u64>();
        let awaited = holders(class).iter().fold((0, 0), |sum, one| (sum.0 + one.holds, sum.1 + one.hold_ns));
        let few = sampled < FEW;
        // The others are like the usual one: a long one among those that were timed is not one of
        // many.
        let others = if few { 0 } else { counts.acquired.saturating_sub(awaited.0) };
        let held = counts.hold(0.5) as f64 * others as f64 + awaited.1 as f64;
        let (count, average) = match few {
            true => (awaited.0, awaited.1 as f64 / awaited.0.max(1) as f64),
            false => (sampled, held / counts.acquired.max(1) as f64),
        };
        let side_by_side = class.callers.iter().any(|caller| caller.shared && caller.holds > 0);
        let busy = (!side_by_side).then_some(held / (facts.sample.seconds * 1e9).max(1.0));
        Self { callers, few, count, average, busy }
    }
}

/// What would help.
pub(super) fn advice(facts: &Facts<'_>, class: &ClassSample) -> String {
    let counts = &class.counts;
    let holds = Holds::of(facts, class);
    if class.waiting.sum_ns > counts.wait_ns && class.waiting.longest_ns >= LONG {
        return match class.waiting.holder {
            // What the first to wait was told: the lock may have had no owner just then.
            0 if standing(facts, class).is_none() => "No thread is seen to hold it: \
                its holder may have ended without a release, is not counted so far, \
                or is not noted, as with spinlocks and QRwLock in Rust."
                .to_owned(),
            _ => "Look at what that thread does, and why it does not release the lock.".to_owned(),
        };
    }
    if is_stormy(facts.sample, counts) {
        return format!(
            "{} tries found it taken and came again: wait for it in place of trying.",
            numbers::grouped(tries(counts)),
        );
    }
    let late = late(class);
    if let Some(late) = late.as_ref().filter(|_| nested(class)) {
        return format!(
            "{late}, and threads that hold it wait for another lock meanwhile: \
             take these in the same order everywhere, or release the first one before."
        );
    }
    late.map_or_else(String::new, |late| format!("{late}. ")) + &of_holds(facts, class, &holds)
}

/// What would help where threads wait until they have the lock, as a rule.
fn of_holds(facts: &Facts<'_>, class: &ClassSample, holds: &Holds<'_>) -> String {
    let counts = &class.counts;
    if let Some(said) = elsewhere(facts, class) {
        return said;
    }
    if let Some(said) = slow(holds, class) {
        return said;
    }
    if let Some(said) = rare(facts, class, holds) {
        return said;
    }
    if is_of_readers(class) && holds.callers.first().is_none_or(|top| !top.shared) {
        return "Readers wait for writers: write less often, \
                or publish a copy in place of writing under the lock."
            .to_owned();
    }
    if let Some(said) = uneven(counts) {
        return said;
    }
    if let Some(said) = limit(holds, facts.share(class.lost_ns()), counts.locks) {
        return said;
    }
    let (is_known, is_short) = (holds.count > 0, holds.average < SHORT);
    // Where CPUs idle, no thread waits for one.
    let busy = facts.busy_seconds().is_none_or(|busy| 2.0 * busy >= facts.cpus as f64 * facts.sample.seconds);
    if facts.sample.threads as usize > 2 * facts.cpus && is_known && is_short && busy {
        return format!(
            "Its section is short ({}), and {}: fewer threads would lose less.",
            numbers::time(holds.average),
            crowd(facts),
        );
    }
    let tries = match facts.sample.locks.as_str() {
        // `compare` changes pthread's locks.
        "lockyard" | "liblockyard" => "",
        _ => "; `lockyard compare -- PROGRAM` tries other locks",
    };
    let inside = match is_known && !is_short {
        true => format!(", do less inside ({} on average)", numbers::time(holds.average)),
        false => String::new(),
    };
    format!("Take it less often{inside}, or split what it protects{tries}.")
}

/// Whether the only lock of `class` limits the threads that use it: it is held most of the time,
/// and some of them wait.
pub(super) fn limits(facts: &Facts<'_>, class: &ClassSample) -> bool {
    let holds = Holds::of(facts, class);
    let waits = class.lost_ns() as f64 / (facts.sample.seconds * 1e9).max(1.0);
    holds.count > 0 && class.counts.locks <= 1 && holds.busy.is_some_and(|busy| busy >= BUSY) && waits >= QUEUED
}

/// How long a hold of `class` lasts on average, ns, as far as that is known.
pub(super) fn average_hold(facts: &Facts<'_>, class: &ClassSample) -> Option<f64> {
    let holds = Holds::of(facts, class);
    (!holds.few && holds.average > 0.0).then_some(holds.average)
}

fn crowd(facts: &Facts<'_>) -> String {
    let threads = numbers::count(facts.sample.threads as usize, "thread");
    format!("{threads} share {}", numbers::count(facts.cpus, "CPU"))
}

/// That many waits ended without the lock, if they did.
fn late(class: &ClassSample) -> Option<String> {
    let (late, all) = (class.counts.gave_up, class.counts.contended);
    let is_much = late > 0 && LATE * late as f64 >= all as f64 && class.counts.wait(0.5) >= AT_ONCE;
    is_much.then(|| {
        let (late, all) = (numbers::grouped(late), numbers::count(all as usize, "wait"));
        format!("{late} of {all} ended at a deadline, without the lock")
    })
}

/// Whether its holders wait for a lock most of the time for which others wait for them: for another
/// one of its class perhaps.
fn nested(class: &ClassSample) -> bool {
    2 * waits_within(class) >= awaited(class).max(1)
}

fn awaited(class: &ClassSample) -> u64 {
    holders(class).iter().map(|caller| caller.hold_ns).sum()
}

fn waits_within(class: &ClassSample) -> u64 {
    class.within.iter().map(|within| within.ns).sum()
}

/// Where holders wait for another lock while others wait for them: what helps there helps here.
fn elsewhere(facts: &Facts<'_>, class: &ClassSample) -> Option<String> {
    if !nested(class) {
        return None;
    }
    let waits = |inner: &ClassSample| class.within.iter().filter(|within| within.is_for(inner)).collect::<Vec<_>>();
    let time = |inner: &ClassSample| waits(inner).iter().map(|within| within.ns).sum::<u64>();
    // For one that is not seen to cost what they waited there is nothing to look at. A wait counts
    // for each lock that its thread held, up to so many, and at a wait of its own once.
    let most = |inner: &ClassSample| inner.lost_ns().saturating_mul(OUTER as u64);
    let is_seen = |inner: &&ClassSample| 2 * most(inner) >= time(inner) && !std::ptr::eq(*inner, class);
    let inner = facts.sample.classes.iter().max_by_key(|inner| time(inner)).filter(is_seen)?;
    let within = waits(inner).into_iter().max_by_key(|within| within.ns)?;
    let from = holders(inner)
        .first()
        .map_or_else(String::new, |top| format!(", which is held from {}", facts.symbols.line(&top.place)));
    Some(format!(
        "Its holders wait meanwhile for {} in {}{from}: look at that lock first.",
        facts.label(inner),
        facts.symbols.line(&within.place),
    ))
}

/// Whether the distribution of holds is that of another kind than those of `top`: a writer's are
/// among those of readers, of which there are not few.
fn is_mixed(class: &ClassSample, top: &CallerSample) -> bool {
    let seen = |shared: fn(&CallerSample) -> bool| -> u64 {
        class.callers.iter().filter(|caller| shared(caller)).map(|caller| caller.waits + caller.holds).sum()
    };
    !top.shared && 10 * seen(|caller| caller.shared) >= seen(|_| true).max(1)
}

/// Where the holds for which others wait are slow.
fn slow(holds: &Holds<'_>, class: &ClassSample) -> Option<String> {
    let (counts, of_readers) = (&class.counts, is_of_readers(class));
    let top = holds.callers.first()?;
    // A section that everybody has, and that is short as a rule, is not slow because some threads
    // lost their CPU in it.
    let all: u64 = holds.callers.iter().map(|caller| caller.holds).sum();
    // Which of few holds were timed is chance.
    let usual =
        !holds.few && !is_mixed(class, top) && 10 * top.holds >= 9 * all && (1..SLOW).contains(&counts.hold(0.5));
    if usual || top.hold_ns / top.holds.max(1) < SLOW {
        return None;
    }
    let what = "Do the slow work there outside of the lock";
    Some(match top {
        top if !top.shared && of_readers => {
            let copy = "publish a copy in place of writing under it";
            format!("Readers starve behind that writer. {what}, or {copy}.")
        }
        top if top.shared && of_readers => {
            format!("Writers wait until such readers have gone, and other readers behind them. {what}.")
        }
        top if top.shared => format!("Writers wait until such readers have gone. {what}."),
        _ => format!("{what}: copy what it needs, and release first."),
    })
}

/// The code with the longest hold, if holds like that one are what most waits were for: those for
/// which others waited are few, or last many times the usual one. And what such holds are.
fn long_hold<'a>(class: &ClassSample, holds: &Holds<'a>) -> Option<(&'a CallerSample, String)> {
    let longest = *holds.callers.iter().max_by_key(|caller| caller.hold_max)?;
    let (count, all) = holds
        .callers
        .iter()
        .fold((0.0, 0.0), |(count, time), caller| (count + caller.holds as f64, time + caller.hold_ns as f64));
    let most = longest.hold_max as f64;
    // Threads come at any time in a hold: those that come in its last quarter wait for a sixteenth
    // of what all of them wait. Shorter waits were behind other holds.
    let counts = &class.counts;
    let short = counts.waits.iter().enumerate().map(|(bucket, count)| (histogram::lower(bucket + 1), *count));
    let short = short.filter(|(end, _)| *end <= longest.hold_max / 4).map(|(end, count)| end as f64 * count as f64);
    let is_few = all <= RARE * most;
    let is_usual = holds.few || is_mixed(class, longest) || all < LONGER * count * counts.hold(0.5) as f64;
    let is_long = is_few || !is_usual;
    let is_it = longest.hold_max >= SLOW && is_long && 2.0 * short.sum::<f64>() < counts.wait_ns as f64;
    let time = numbers::time(most);
    is_it.then(|| match is_few {
        _ if all <= 2.0 * most => (longest, format!("one hold of at least {time}")),
        true => (longest, format!("a few holds (the longest: at least {time})")),
        false => (longest, format!("long holds (the longest: at least {time})")),
    })
}

/// Where most was waited behind long holds.
fn rare(facts: &Facts<'_>, class: &ClassSample, holds: &Holds<'_>) -> Option<String> {
    let (longest, what) = long_hold(class, holds)?;
    let is_top = holds.callers.first().is_some_and(|top| std::ptr::eq(*top, longest));
    let place = if is_top { "there".to_owned() } else { format!("in {}", facts.symbols.line(&longest.place)) };
    let usual = match holds.few || is_mixed(class, longest) {
        true => String::new(),
        false => format!(", of a section that lasts {} as a rule", numbers::time(class.counts.hold(0.5) as f64)),
    };
    let thread = match longest.holder {
        0 => "its thread".to_owned(),
        holder => called(holder, &longest.name),
    };
    // Whether the thread ran is not counted.
    let cpu = match facts.sample.threads as usize > facts.cpus {
        true => format!("; if nothing there is slow, it had lost its CPU ({})", crowd(facts)),
        false => String::new(),
    };
    Some(format!("Most of that was waited behind {what}{usual}: look at what {thread} did {place} for so long{cpu}."))
}

/// Where threads wait for a few locks of many.
fn uneven(counts: &Counts) -> Option<String> {
    let (hot, share) = counts.hot()?;
    let (locks, share) = (many(counts.most_locks), percent(share));
    let lock = hot[0].0;
    Some(match hot.len() {
        1 => format!(
            "Of its {locks}, the one at 0x{lock:x} has at least {share} of the waiting: \
             spread what they protect more evenly, or split what that one does.",
        ),
        few => format!(
            "Of its {locks}, {few} have at least {share} of the waiting, most of it the one at 0x{lock:x}: \
             spread what they protect more evenly, or split what those do.",
        ),
    })
}

/// So many locks: of very many, not all were counted.
fn many(locks: u64) -> String {
    let beyond = if locks >= MANY { " or more" } else { "" };
    format!("{}{beyond}", numbers::count(locks as usize, "lock"))
}

/// Where one section limits the program: that of the only lock of a class, or those of all of its
/// `locks` together.
fn limit(holds: &Holds<'_>, lost: f64, locks: u64) -> Option<String> {
    let busy = holds.busy? / locks.max(1) as f64;
    let share = percent(busy.min(1.0));
    let section = numbers::time(holds.average);
    let mean = if holds.few { "where others wait" } else { "on average" };
    match locks {
        _ if holds.count == 0 => None,
        // That threads wait does not say for how many of them.
        2.. => (busy >= BUSY).then(|| {
            format!(
                "Its {} are held {share} of the time on average, each time {section} {mean}, \
                 and threads queue for them. Split further what they protect, or do less inside.",
                many(locks),
            )
        }),
        _ => (busy >= BUSY || lost >= QUEUED).then(|| {
            format!(
                "It is held {share} of the time, {section} {mean}, and threads queue for it: \
                 the program goes no faster than that section. Split what it protects, or do less inside.",
            )
        }),
    }
}

#[cfg(test)]
mod tests;
