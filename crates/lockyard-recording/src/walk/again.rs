//! Which tries of a lock belong to one call of the program, that waits by trying.

use std::collections::BTreeMap;

use super::Failed;
use crate::recording::{Event, Recording, What};

/// A lock that is asked for again so soon, ns, is asked for by the same call; so is one that is
/// asked for in a quarter of the time that its thread does without it as a rule. What an event
/// costs comes on top.
///
/// A thread comes back to a lock in a loop, whatever it does between two tries, if that takes half
/// of its time without the lock at most, or if it is without a CPU for longer than that takes as a
/// rule: `sched_yield`. A thread that does without the lock does what it does else.
const AGAIN_NS: u64 = 300;
/// Fewer tries in vain do not tell that.
const FEW: usize = 4;
/// What takes so many times as long as it does as a rule is none the less no part of the loop.
const ELSE: u64 = 100;

/// What a recording's events cost, and how soon its threads come back within one call.
pub(crate) struct Again {
    pub(super) event_ns: u64,
    /// By thread and lock, of all windows: see [`AGAIN_NS`].
    soon: BTreeMap<(u32, u32), u64>,
}

impl Again {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut without: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
        let mut tries: BTreeMap<(u32, u32), Tries> = BTreeMap::new();
        for window in &recording.windows {
            for (index, event) in window.events.iter().enumerate() {
                if !matches!(event.what, What::Release | What::Failed(_)) {
                    continue;
                }
                let Some((next, after, away)) = next(event, &window.events[index + 1..]) else { continue };
                let key = (window.thread, event.lock);
                match event.what {
                    _ if !matches!(next.what, What::Request(_) | What::Failed(_)) => {}
                    What::Release => without.entry(key).or_default().push(after),
                    _ => tries.entry(key).or_default().note(after, away),
                }
            }
        }
        let mut soon: BTreeMap<(u32, u32), u64> =
            without.into_iter().map(|(key, times)| (key, (median(times) / 4).max(AGAIN_NS))).collect();
        for (key, tries) in tries {
            let quarter = soon.entry(key).or_insert(AGAIN_NS);
            let (enough, yields, between) = (tries.after.len() >= FEW, tries.yields(), median(tries.after));
            if enough && (yields || between <= quarter.saturating_mul(2)) {
                *quarter = (*quarter).max(between.saturating_mul(ELSE));
            }
        }
        Self { event_ns: recording.event_ns, soon }
    }

    /// How `thread` goes on after `event`, a try in vain.
    pub(crate) fn tried(&self, thread: u32, event: &Event, later: &[Event]) -> Failed {
        let Some((next, after, _)) = next(event, later) else { return Failed::Tried };
        let soon = self.soon.get(&(thread, event.lock)).copied().unwrap_or(AGAIN_NS);
        let soon = after <= soon.saturating_add(self.event_ns);
        match next.what {
            What::Failed(_) if soon => Failed::Again,
            What::Request(_) if soon => Failed::Waited,
            _ => Failed::Tried,
        }
    }
}

/// What lies between tries in vain and the next calls.
#[derive(Default)]
struct Tries {
    after: Vec<u64>,
    /// How often the thread was without a CPU for longer.
    yielded: usize,
}

impl Tries {
    fn note(&mut self, after: u64, away: u64) {
        self.after.push(after);
        self.yielded += usize::from(away > after);
    }

    fn yields(&self) -> bool {
        2 * self.yielded > self.after.len()
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// The event after `event`, if it is of the same lock, the time to it on the CPU, and that without
/// one.
fn next<'a>(event: &Event, later: &'a [Event]) -> Option<(&'a Event, u64, u64)> {
    let at = later.iter().position(|next| next.what.time().is_none())?;
    // What the recorder's looks at the CPU clock take is told as such time.
    let away = later[..at].iter().filter_map(|between| between.what.time()).fold(0, u64::saturating_add);
    let after = later[at].at.saturating_sub(event.at).saturating_sub(away);
    let preempted = |between: &Event| if let What::Preempted(ns) = between.what { ns } else { 0 };
    let without = later[..at].iter().map(preempted).fold(0, u64::saturating_add);
    (later[at].lock == event.lock).then_some((&later[at], after, without))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::{self, Section, Told};

    #[derive(Default)]
    struct Tell {
        gaps: Vec<(u64, u64)>,
        failed: Vec<Failed>,
    }

    impl Told for Tell {
        fn section(&mut self, _section: &Section) {}

        fn gap(&mut self, cpu: u64, off: u64) {
            self.gaps.push((cpu, off));
        }

        fn failed(&mut self, _lock: u32, _outer: Option<u32>, how: Failed) {
            self.failed.push(how);
        }
    }

    /// Of two threads that came back to the lock after `sched_yield`, each call was one that did
    /// without it: with more threads they were to do hundreds of times more than one lock allows.
    #[test]
    fn a_loop_with_a_call_between_its_tries_is_a_wait() {
        // 5 µs without the lock; 2 µs between tries, or 9 µs and the time that others had the CPU.
        for (between, away) in [(2_000, 0), (9_000, 800_000)] {
            let (mut text, mut at) = ("lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n".to_owned(), 0);
            for _ in 0..8 {
                at += 5_000;
                for _ in 0..3 {
                    text += &format!("{at} 1 failed 0 write\n");
                    at += between + away;
                    if away > 0 {
                        text += &format!("{at} 1 preempted {away}\n");
                    }
                }
                text += &format!("{at} 1 request 0 write\n{} 1 release 0\n", at + 10_000);
                at += 10_000;
            }
            let recording = Recording::from_text("a", &text).unwrap();
            let mut all = Tell::default();
            walk::window(&recording.windows[0], &Again::of(&recording), &mut all);
            assert_eq!(all.failed, [Failed::Again, Failed::Again, Failed::Waited].repeat(8));
            assert_eq!(all.gaps, [(5_000, 0); 8]);
            let take = &recording.model(None).unwrap().roles[0].takes[0];
            assert_eq!((take.count, take.tries), (1.0, 0.0));
        }
    }
}
