//! What the locks of a process did, as JSON.

use lockyard_segment::sample::{CallerSample, ClassSample, Counts, Place};
use serde::Serialize;

use super::facts::Facts;
use super::observed::ranked;
use super::verdict;
use crate::symbols::Symbols;

/// A sample as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    what: String,
    /// Whether it is of one interval, not of all that was counted.
    interval: bool,
    verdict: String,
    lost_seconds: f64,
    lost_share: f64,
    thread_seconds: f64,
    process: u32,
    seconds: f64,
    threads: u32,
    threads_not_counted: u32,
    locks: String,
    events: Vec<EventLine>,
    classes: Vec<ClassLine>,
    fallbacks: Vec<FallbackLine>,
}

#[derive(Debug, Serialize)]
struct EventLine {
    name: String,
    count: u64,
    per_second: f64,
    per_acquisition: Option<f64>,
}

#[derive(Debug, Serialize)]
struct FallbackLine {
    reason: String,
    count: u64,
}

#[derive(Debug, Serialize)]
struct ClassLine {
    kind: String,
    name: String,
    site: u64,
    label: String,
    lost_ns: u64,
    acquired: u64,
    contended: u64,
    contended_share: f64,
    gave_up: u64,
    parks: u64,
    handoffs: u64,
    waiting_now: u32,
    waiting_longest_ns: u64,
    waiting_for_thread: u32,
    /// Those with most of the waiting, where the class has several.
    hottest: Vec<HotLock>,
    failed_tries: u64,
    wait_ns: Times,
    hold_ns: Times,
    callers: Vec<CallerLine>,
}

#[derive(Debug, Serialize)]
struct HotLock {
    address: u64,
    /// At least.
    wait_ns: u64,
}

fn hot_lock(&(address, wait_ns): &(u64, u64)) -> HotLock {
    HotLock { address, wait_ns }
}

#[derive(Debug, Serialize)]
struct CallerLine {
    /// The file and the place in it, after the call.
    file: String,
    place: u64,
    function: String,
    inlined_into: Vec<String>,
    source: String,
    line: u32,
    shared: bool,
    waits: u64,
    wait_ns: u64,
    /// 0: not known, nor that of holds.
    wait_max_ns: u64,
    holds_awaited: u64,
    hold_ns: u64,
    hold_max_ns: u64,
    holder: u32,
    holder_name: String,
}

#[derive(Debug, Serialize)]
struct Times {
    count: u64,
    sum: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

/// What JSON has: every event, every class. `interval`: of an interval.
pub(crate) fn document(what: &str, interval: bool, facts: &Facts<'_>) -> Document {
    let sample = facts.sample;
    let acquired = sample.acquired();
    let event = |(name, count): &(String, u64)| EventLine {
        name: name.clone(),
        count: *count,
        per_second: if sample.seconds > 0.0 { *count as f64 / sample.seconds } else { 0.0 },
        per_acquisition: (acquired > 0).then(|| *count as f64 / acquired as f64),
    };
    let fallback = |(reason, count): &(String, u64)| FallbackLine { reason: reason.clone(), count: *count };
    Document {
        what: what.to_owned(),
        interval,
        verdict: verdict::verdict(facts),
        lost_seconds: sample.lost_ns() as f64 / 1e9,
        lost_share: facts.share(sample.lost_ns()),
        thread_seconds: facts.thread_time.as_secs_f64(),
        process: sample.process,
        seconds: sample.seconds,
        threads: sample.threads.max(sample.started),
        threads_not_counted: sample.private,
        locks: sample.locks.clone(),
        events: sample.events.iter().map(event).collect(),
        classes: ranked(facts).into_iter().map(|class| class_line(facts, class)).collect(),
        fallbacks: sample.fallbacks.iter().map(fallback).collect(),
    }
}

fn class_line(facts: &Facts<'_>, class: &ClassSample) -> ClassLine {
    let counts = &class.counts;
    let times = |all: &[u64], sum: u64, max: u64, quantile: &dyn Fn(&Counts, f64) -> u64| Times {
        count: all.iter().sum(),
        sum,
        p50: quantile(counts, 0.5),
        p99: quantile(counts, 0.99),
        max,
    };
    ClassLine {
        kind: class.kind.clone(),
        name: class.name.clone(),
        site: class.site,
        label: facts.label(class),
        lost_ns: class.lost_ns(),
        acquired: counts.acquired,
        contended: counts.contended,
        contended_share: counts.contended_share(),
        gave_up: counts.gave_up,
        parks: counts.parks,
        handoffs: counts.handoffs,
        failed_tries: counts.refused,
        waiting_now: class.waiting.threads,
        waiting_longest_ns: class.waiting.longest_ns,
        waiting_for_thread: class.waiting.holder,
        hottest: counts.hottest.iter().filter(|(_, ns)| counts.most_locks > 1 && *ns > 0).map(hot_lock).collect(),
        wait_ns: times(&counts.waits, counts.wait_ns, counts.wait_max, &Counts::wait),
        hold_ns: times(&counts.holds, counts.hold_ns, counts.hold_max, &Counts::hold),
        callers: class.callers.iter().map(|caller| caller_line(facts.symbols, caller)).collect(),
    }
}

fn caller_line(symbols: &Symbols, caller: &CallerSample) -> CallerLine {
    let spot = symbols.call(&caller.place).unwrap_or_default();
    let Place { file, place } = caller.place.clone();
    CallerLine {
        file,
        place,
        function: spot.at.function,
        inlined_into: spot.inlined_into.into_iter().map(|outer| outer.function).collect(),
        source: spot.at.file,
        line: spot.at.line,
        shared: caller.shared,
        waits: caller.waits,
        wait_ns: caller.wait_ns,
        wait_max_ns: caller.wait_max,
        holds_awaited: caller.holds,
        hold_ns: caller.hold_ns,
        hold_max_ns: caller.hold_max,
        holder: caller.holder,
        holder_name: caller.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::observed::tests::{sample, with};

    #[test]
    fn programs_see_everything() {
        let document = with(&sample(), |facts| serde_json::to_value(document("x", true, facts)).unwrap());
        assert_eq!(document["interval"], true, "the last line, of everything, looked the same");
        assert_eq!(document["events"][0]["per_second"], 5.0);
        assert_eq!(document["events"][1]["count"], 0);
        assert_eq!(document["classes"][0]["contended_share"], 0.01);
        assert_eq!(document["classes"][0]["wait_ns"]["count"], 10);
        assert_eq!(document["classes"][0]["waiting_for_thread"], 4711);
        assert_eq!(document["classes"][0]["lost_ns"], 4_050_000);
        assert_eq!(document["fallbacks"][0]["reason"], "robust");
    }
}
