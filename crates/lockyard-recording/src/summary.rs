//! What each class of locks cost the program that was recorded.

use std::collections::BTreeMap;

use crate::recording::{Mode, Recording, Sort};
use crate::standstill::{AtEnd, Standstill};
use crate::walk::{self, Asked, Failed, Rest, Section, Told};

/// A class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassCost {
    /// The number of the class in [`Recording::classes`].
    pub class: usize,
    /// Locks of it that were taken.
    pub objects: usize,
    /// Sections, those under way at the end included.
    pub acquisitions: u64,
    /// Of which only read.
    pub reads: u64,
    /// Of which had to wait.
    pub contended: u64,
    /// Calls that did not get the lock and did not wait.
    pub failed: u64,
    /// Waits that ended without the lock: their time was up.
    pub gave_up: u64,
    /// Time waited, ns, all threads together, whatever the waits came to.
    pub waited_ns: u64,
    /// Time held, ns, all threads together, without what was nested.
    pub held_ns: u64,
    /// Half of the holds, 99 % of them, and all of them were no longer, ns: with what was nested in
    /// them, and waits for that.
    pub holds: [u64; 3],
    /// The same of the waits that there were.
    pub waits: [u64; 3],
}

/// A class of condition variables or semaphores for which threads waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The number of the class in [`Recording::classes`].
    pub class: usize,
    /// Waits that ended with a signal, or lasted to the end.
    pub waits: u64,
    /// Their time, ns, all threads together.
    pub waited_ns: u64,
    /// Half of them, 99 % of them, and all of them were no longer, ns.
    pub lengths: [u64; 3],
}

/// The whole program.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Threads with a window.
    pub threads: usize,
    /// The most of them that there were at once.
    pub at_once: usize,
    /// The time of all windows together, ns.
    pub recorded_ns: u64,
    /// Time on the CPU outside of all sections, ns.
    pub outside_ns: u64,
    /// Time off the CPU outside of all sections, ns.
    pub away_ns: u64,
    /// The classes that were taken, the one with the longest waits first.
    pub classes: Vec<ClassCost>,
    /// What threads waited for that others signalled, the longest waits first.
    pub awaited: Vec<Awaited>,
    /// What went on when it ended.
    pub at_end: Standstill,
}

#[derive(Debug, Clone, Default)]
struct Sums {
    objects: std::collections::BTreeSet<u32>,
    reads: u64,
    contended: u64,
    failed: u64,
    gave_up: u64,
    held_ns: u64,
    holds: Vec<u64>,
    waits: Vec<u64>,
    /// Waits for a signal.
    signalled: Vec<u64>,
}

struct Teller<'a> {
    recording: &'a Recording,
    classes: Vec<Sums>,
    outside_ns: u64,
    away_ns: u64,
    /// What the threads were at, by their last windows.
    at_end: BTreeMap<u32, AtEnd>,
}

impl Told for Teller<'_> {
    fn section(&mut self, section: &Section) {
        let sums = &mut self.classes[walk::class_of(self.recording, section.lock)];
        sums.objects.insert(section.lock);
        sums.reads += u64::from(section.mode == Mode::Read);
        sums.held_ns = sum([sums.held_ns, section.own, section.slept]);
        sums.holds.push(section.whole);
        sums.contended += u64::from(section.waited.is_some());
        sums.waits.extend(section.waited);
    }

    fn gap(&mut self, cpu: u64, off: u64) {
        self.outside_ns = self.outside_ns.saturating_add(cpu);
        self.away_ns = self.away_ns.saturating_add(off);
    }

    fn woken(&mut self, object: u32, waited: u64) {
        self.classes[walk::class_of(self.recording, object)].signalled.push(waited);
    }

    fn failed(&mut self, lock: u32, _outer: Option<u32>, how: Failed) {
        let class = walk::class_of(self.recording, lock);
        let sums = &mut self.classes[class];
        match how {
            Failed::GaveUp(waited) => {
                sums.gave_up += 1;
                sums.waits.push(waited);
            }
            // A semaphore is no lock, whatever is tried there.
            _ if !matches!(self.recording.classes[class].sort, Sort::Lock(_)) => {}
            _ => sums.failed += 1,
        }
    }

    fn rest(&mut self, rest: Rest<'_>) {
        rest.held.iter().for_each(|section| self.section(section));
        self.gap(rest.gap.0, rest.gap.1);
        if let Some(Asked { lock, since, .. }) = rest.asked {
            self.classes[walk::class_of(self.recording, lock)].waits.push(rest.until.saturating_sub(since));
        }
        if let Some((object, since)) = rest.idle {
            self.woken(object, rest.until.saturating_sub(since));
        }
        let holds = rest.held.iter().map(|section| (section.lock, section.mode, section.whole)).collect();
        self.at_end.insert(rest.thread, AtEnd { until: rest.until, asked: rest.asked, holds });
    }
}

impl Recording {
    /// What its locks cost the program.
    pub fn summary(&self) -> Summary {
        let classes = vec![Sums::default(); self.classes.len()];
        let mut teller = Teller { recording: self, classes, outside_ns: 0, away_ns: 0, at_end: BTreeMap::new() };
        let mut recorded_ns = 0;
        let again = walk::Again::of(self);
        for window in &self.windows {
            recorded_ns = sum([recorded_ns, window.until().saturating_sub(window.begin)]);
            teller.at_end.remove(&window.thread);
            walk::window(window, &again, &mut teller);
        }
        let mut threads: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for window in &self.windows {
            let span = threads.entry(window.thread).or_insert((u64::MAX, 0));
            *span = (span.0.min(window.begin), span.1.max(window.until()));
        }
        let at_once = most_at_once(threads.values().copied());
        let Teller { classes, outside_ns, away_ns, at_end, .. } = teller;
        let at_end = Standstill::of(self, &at_end);
        let signalled = classes.iter().enumerate().filter(|(_, sums)| !sums.signalled.is_empty());
        let mut awaited: Vec<Awaited> = signalled.map(|(class, sums)| sums.awaited(class)).collect();
        awaited.sort_by_key(|one| (u64::MAX - one.waited_ns, one.class));
        let taken = |sums: &Sums| sums.failed > 0 || !sums.holds.is_empty() || !sums.waits.is_empty();
        let taken = classes.into_iter().enumerate().filter(|(_, sums)| taken(sums));
        let mut classes: Vec<ClassCost> = taken.map(|(class, sums)| sums.cost(class)).collect();
        classes.sort_by_key(|cost| (u64::MAX - cost.waited_ns, u64::MAX - cost.acquisitions));
        Summary { threads: threads.len(), at_once, recorded_ns, outside_ns, away_ns, classes, awaited, at_end }
    }
}

impl Sums {
    fn awaited(&self, class: usize) -> Awaited {
        let mut waits = self.signalled.clone();
        waits.sort_unstable();
        Awaited { class, waits: waits.len() as u64, waited_ns: sum(waits.iter().copied()), lengths: quantiles(&waits) }
    }

    fn cost(mut self, class: usize) -> ClassCost {
        self.holds.sort_unstable();
        self.waits.sort_unstable();
        ClassCost {
            class,
            objects: self.objects.len(),
            acquisitions: self.holds.len() as u64,
            reads: self.reads,
            contended: self.contended,
            failed: self.failed,
            gave_up: self.gave_up,
            waited_ns: sum(self.waits.iter().copied()),
            held_ns: self.held_ns,
            holds: quantiles(&self.holds),
            waits: quantiles(&self.waits),
        }
    }
}

/// How many of these spans there are at the moment that is in most of them.
fn most_at_once(spans: impl Iterator<Item = (u64, u64)>) -> usize {
    // Beginnings before ends, where both are at one moment.
    let mut turns: Vec<(u64, bool)> = spans.flat_map(|(begin, end)| [(begin, false), (end, true)]).collect();
    turns.sort_unstable();
    let counts = turns.iter().scan(0_usize, |count, (_, ends)| {
        *count = if *ends { *count - 1 } else { *count + 1 };
        Some(*count)
    });
    counts.max().unwrap_or(0)
}

/// The sum of times; the largest number if there is none so large: a file may say anything.
fn sum(times: impl IntoIterator<Item = u64>) -> u64 {
    times.into_iter().fold(0, u64::saturating_add)
}

/// The median, the 99th percentile and the last of what is sorted; zeros of nothing.
fn quantiles(sorted: &[u64]) -> [u64; 3] {
    let at = |share: f64| sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)));
    [0.5, 0.99, 1.0].map(|share| at(share).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_and_holds_are_summed_by_class() {
        let text = "lockyard recording 1\nclass mutex A\nclass rwlock B\nlock 0\nlock 1\nlock 1\nwindow 1 0\n\
            100 1 request 0 write\n150 1 grant 0\n170 1 release 0\n200 1 request 1 read\n230 1 release 1\n\
            231 1 failed 2 write\n";
        let summary = Recording::from_text("a", text).unwrap().summary();
        let [a, b] = summary.classes.as_slice() else { panic!("{summary:?}") };
        assert_eq!((a.class, a.waited_ns, a.held_ns, a.contended, a.waits), (0, 50, 20, 1, [50, 50, 50]));
        assert_eq!((b.reads, b.failed, b.objects, b.holds, b.contended), (1, 1, 1, [30, 30, 30], 0));
        assert_eq!((summary.recorded_ns, summary.outside_ns, summary.threads), (231, 130, 1));
    }

    /// They had no time, and were taken for threads without a CPU.
    #[test]
    fn waits_that_end_without_the_lock_cost_as_others_do() {
        let text = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n\
            10 1 request 0 write\n510 1 gave-up 0\n600 1 request 0 write\n700 1 grant 0\n750 1 release 0\n";
        let summary = Recording::from_text("a", text).unwrap().summary();
        let a = &summary.classes[0];
        assert_eq!((a.waited_ns, a.gave_up, a.failed, a.contended, a.acquisitions), (600, 1, 0, 1, 1));
        assert_eq!(a.waits[2], 500);
    }

    /// The longest hold of the outer lock was 104 µs where it had kept others out for 24 ms.
    #[test]
    fn a_hold_is_as_long_as_others_are_kept_out_and_no_time_counts_twice() {
        let text = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 1 0\n\
            10 1 request 0 write\n20 1 request 1 write\n920 1 grant 1\n950 1 release 1\n960 1 release 0\n";
        let summary = Recording::from_text("a", text).unwrap().summary();
        let of = |class: usize| summary.classes.iter().find(|cost| cost.class == class).unwrap();
        assert_eq!((of(0).holds[2], of(0).held_ns, of(1).holds[2], of(1).held_ns), (950, 20, 30, 30));
    }

    /// Of threads that wait for ever it was said that locks are not their problem.
    #[test]
    fn what_lasts_to_the_end_counts() {
        let text = "lockyard recording 1\nclass mutex A\nclass mutex B\nclass condition C\nlock 0\nlock 1\nlock 2\n\
            window 1 0 1000\n10 1 request 0 write\n50 1 request 1 write\n1000 1 pending-firm 1\n\
            window 2 0 1000\n10 2 request 1 write\n60 2 request 0 write\n1000 2 pending-firm 0\n\
            window 3 0 1000\n100 3 wait 2\n1000 3 pending 2\n"
            .replace("1000", "1000000000");
        let text = text.as_str();
        let summary = Recording::from_text("a", text).unwrap().summary();
        let of = |class: usize| summary.classes.iter().find(|cost| cost.class == class).unwrap();
        assert_eq!((of(0).waited_ns, of(1).waited_ns, summary.recorded_ns), (999_999_940, 999_999_950, 3_000_000_000));
        assert_eq!((of(0).acquisitions, of(0).contended, of(0).holds[2]), (1, 0, 999_999_990));
        assert_eq!((summary.awaited[0].waits, summary.awaited[0].waited_ns), (1, 999_999_900));
        assert_eq!((summary.at_end.waits.len(), summary.at_end.circle.len()), (2, 2));
        let model = Recording::from_text("a", text).unwrap().model(None);
        assert!(model.is_err(), "no section ended");
    }

    #[test]
    fn waits_for_a_signal_are_no_costs_of_locks() {
        let text = "lockyard recording 1\nclass mutex A\nclass condition C\nlock 0\nlock 1\nwindow 1 0\n\
            10 1 request 0 write\n15 1 wait 1\n16 1 release 0\n90 1 woken 1\n91 1 request 0 write\n99 1 release 0\n";
        let summary = Recording::from_text("a", text).unwrap().summary();
        assert_eq!(summary.awaited, [Awaited { class: 1, waits: 1, waited_ns: 75, lengths: [75; 3] }]);
        assert_eq!((summary.classes.len(), summary.classes[0].waited_ns, summary.away_ns), (1, 0, 0));
    }

    #[test]
    fn times_without_measure_are_summed_up_to_the_largest_number() {
        let most = u64::MAX;
        let section = format!("0 1 request 0 write\n{most} 1 off {most}\n{most} 1 release 0\n");
        let waited = format!("0 1 request 0 write\n{most} 1 grant 0\n{most} 1 release 0\n");
        let away = format!("{most} 1 off {most}\n{most} 1 request 0 write\n{most} 1 release 0\n");
        let windows: String = [&section, &waited, &away].map(|one| format!("window 1 0\n{one}").repeat(3)).concat();
        let text = format!("lockyard recording 1\nclass mutex A\nlock 0\n{windows}");
        let recording = Recording::from_text("a", &text).unwrap();
        let summary = recording.summary();
        assert_eq!((summary.recorded_ns, summary.away_ns, summary.classes[0].waited_ns), (most, most, most));
        assert!(recording.model(None).is_ok());
    }
}
