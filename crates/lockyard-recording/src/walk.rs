//! A recording read as what threads did: sections, and the time between them.
//!
//! A section begins when its lock is had and ends when it is given back; its own time is what
//! passes while no other lock is taken in it. What was taken before a window is left out, and so is
//! time without a CPU: that is the machine's. The time of a wait is no other time: of one for a
//! lock, whether it ends with the lock or without, or for a signal. A wait for a signal that ends
//! without one is time off the CPU. A thread that tries again and again waits.
//!
//! What is not over when a window ends is told as its [`Rest`] where that end is known, else left
//! out: it is no section from its beginning to its end, as models have them.

use std::ops::AddAssign;

use crate::recording::{Event, Mode, Recording, What, Window};
pub(crate) use again::Again;

mod again;

/// A section from its beginning to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) lock: u32,
    pub(crate) mode: Mode,
    /// The lock in whose section this one began.
    pub(crate) outer: Option<u32>,
    /// How long its thread waited for it; `None`: not at all.
    pub(crate) waited: Option<u64>,
    /// CPU time in it, without what is nested in it.
    pub(crate) own: u64,
    /// Time off the CPU in it, likewise.
    pub(crate) slept: u64,
    /// For how long others could not have the lock: with what is nested in it, and waits.
    pub(crate) whole: u64,
}

/// A lock that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The lock.
    pub(crate) lock: u32,
    /// How it asks.
    pub(crate) mode: Mode,
    /// Since when.
    pub(crate) since: u64,
    /// Whether only its holder can end that.
    pub(crate) firm: bool,
}

/// What is not over at the end of a window, if that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rest<'a> {
    /// The thread.
    pub(crate) thread: u32,
    /// The end.
    pub(crate) until: u64,
    /// The lock for which it waits.
    pub(crate) asked: Option<Asked>,
    /// The condition variable or semaphore that it waits for, since when.
    pub(crate) idle: Option<(u32, u64)>,
    /// What it holds.
    pub(crate) held: &'a [Section],
    /// Time on the CPU and off it, outside of all sections.
    pub(crate) gap: (u64, u64),
}

/// How a lock was not had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It was tried, and the thread goes on without.
    Tried,
    /// It was tried, and is tried again at once: by the same call of the program.
    Again,
    /// It was tried, and is asked for at once: the same, and the last.
    Waited,
    /// It was waited for so long, until the time was up.
    GaveUp(u64),
}

/// What is told of a window.
pub(crate) trait Told {
    /// A section has ended.
    fn section(&mut self, section: &Section);
    /// A stretch outside of all sections has ended: time on the CPU, time off it.
    fn gap(&mut self, cpu: u64, off: u64);
    /// A lock, asked for in the section of `outer`, was not had.
    fn failed(&mut self, lock: u32, outer: Option<u32>, how: Failed);
    /// A wait at a condition variable or for a semaphore has ended with a signal.
    fn woken(&mut self, object: u32, waited: u64) {
        let _ = (object, waited);
    }
    /// The window has ended.
    fn rest(&mut self, rest: Rest<'_>) {
        let _ = rest;
    }
}

/// Tells what happened in `window`, of the recording that `again` is of.
pub(crate) fn window(window: &Window, again: &Again, told: &mut impl Told) {
    let mut held: Vec<Section> = Vec::new();
    let (mut cpu, mut off, mut before) = (0, 0, window.begin);
    // A window that begins with an event has no stretch before its first section.
    let mut cut = window.events.first().is_some_and(|event| event.at == window.begin);
    // The lock that is tried again and again, and since when.
    let mut tries: Option<(u32, u64)> = None;
    // The request whose grant is still to come.
    let mut asked: Option<(u32, Mode, u64)> = None;
    // The condition variable or semaphore that the thread waits for, and since when.
    let mut idle: Option<(u32, u64)> = None;
    let mut firm = false;
    for (index, event) in window.events.iter().enumerate() {
        let passed = event.at.saturating_sub(before);
        before = event.at;
        let away = event.what.time().unwrap_or(0).min(passed);
        let slept = if let What::Off(_) = event.what { away } else { 0 };
        let ran = (passed - away).saturating_sub(again.event_ns);
        held.iter_mut().for_each(|section| section.whole += ran + slept);
        if asked.is_none() && idle.is_none() && tries.is_none() {
            match held.last_mut() {
                Some(section) => (section.own, section.slept) = (section.own + ran, section.slept + slept),
                None => (cpu, off) = (cpu + ran, off + slept),
            }
        }
        match event.what {
            What::Off(_) | What::Preempted(_) => {}
            What::Failed(_) => {
                let outer = held.last().map(|section| section.lock);
                let how = again.tried(window.thread, event, &window.events[index + 1..]);
                tries = if how == Failed::Tried { None } else { tries.or(Some((event.lock, event.at))) };
                told.failed(event.lock, outer, how);
            }
            What::Signal | What::Broadcast => {}
            What::Wait => {
                idle = idle.or(sleeps(&window.events[index + 1..], event.lock).then_some((event.lock, event.at)));
            }
            What::Woken => {
                if let Some((object, since)) = idle.take() {
                    told.woken(object, event.at.saturating_sub(since));
                }
            }
            What::GaveUp if idle.is_some_and(|(object, _)| object == event.lock) => {
                let took = idle.take().map_or(0, |(_, since)| event.at.saturating_sub(since));
                match held.last_mut() {
                    Some(section) => section.slept += took,
                    None => off += took,
                }
            }
            What::GaveUp => {
                if let Some((lock, _, since)) = asked.take() {
                    let how = Failed::GaveUp(event.at.saturating_sub(since));
                    told.failed(lock, held.last().map(|section| section.lock), how);
                }
            }
            What::Pending { firm: is_firm } => firm = is_firm,
            What::Request(mode) if waits(&window.events[index + 1..], event.lock) => {
                asked = Some((event.lock, mode, tries.take().map_or(event.at, |(_, since)| since)));
            }
            What::Request(mode) => {
                let waited = tries.take().map(|(_, since)| event.at.saturating_sub(since));
                enter(&mut held, (&mut cpu, &mut off, &mut cut), event.lock, mode, waited, told);
            }
            What::Grant => {
                if let Some((lock, mode, since)) = asked.take() {
                    let waited = Some(event.at.saturating_sub(since));
                    enter(&mut held, (&mut cpu, &mut off, &mut cut), lock, mode, waited, told);
                }
            }
            What::Release => {
                match held.iter().rposition(|section| section.lock == event.lock) {
                    Some(place) => told.section(&held.remove(place)),
                    // What has passed was in a section that began before the window.
                    None if held.is_empty() => (cpu, off) = (0, 0),
                    None => {}
                }
            }
        }
    }
    if let Some(until) = window.end {
        let passed = until.saturating_sub(before);
        held.iter_mut().for_each(|section| section.whole += passed);
        if asked.is_none() && idle.is_none() && tries.is_none() {
            held.last_mut().map_or(&mut cpu, |section| &mut section.own).add_assign(passed);
        }
        let asked = asked.map(|(lock, mode, since)| Asked { lock, mode, since, firm });
        told.rest(Rest { thread: window.thread, until, asked, idle, held: &held, gap: (cpu, off) });
    }
}

/// Whether the next event of a lock is the grant of `lock`, its refusal, or that it is awaited yet.
pub(crate) fn waits(later: &[Event], lock: u32) -> bool {
    let next = later.iter().find(|event| event.what.time().is_none());
    next.is_some_and(|event| {
        matches!(event.what, What::Grant | What::GaveUp | What::Pending { .. }) && event.lock == lock
    })
}

/// Whether the wait for `object` that has just begun lasts: its end is told before another begins.
fn sleeps(later: &[Event], object: u32) -> bool {
    let ends = |event: &&Event| matches!(event.what, What::Wait | What::Woken | What::GaveUp | What::Pending { .. });
    let next = later.iter().filter(ends).find(|event| event.lock == object);
    next.is_some_and(|event| event.what != What::Wait)
}

fn enter(
    held: &mut Vec<Section>,
    (cpu, off, cut): (&mut u64, &mut u64, &mut bool),
    lock: u32,
    mode: Mode,
    waited: Option<u64>,
    told: &mut impl Told,
) {
    if held.is_empty() && !std::mem::take(cut) {
        told.gap(std::mem::take(cpu), std::mem::take(off));
    }
    let outer = held.last().map(|section| section.lock);
    held.push(Section { lock, mode, outer, waited, own: 0, slept: 0, whole: 0 });
}

/// The class of `lock`.
pub(crate) fn class_of(recording: &Recording, lock: u32) -> usize {
    recording.locks[lock as usize] as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct All {
        sections: Vec<Section>,
        gaps: Vec<(u64, u64)>,
        failed: Vec<Failed>,
        waits: Vec<(u32, u64, bool)>,
        holds: Vec<Section>,
    }

    impl Told for All {
        fn section(&mut self, section: &Section) {
            self.sections.push(*section);
        }

        fn gap(&mut self, cpu: u64, off: u64) {
            self.gaps.push((cpu, off));
        }

        fn failed(&mut self, _lock: u32, _outer: Option<u32>, how: Failed) {
            self.failed.push(how);
        }

        fn rest(&mut self, rest: Rest<'_>) {
            self.waits.extend(rest.asked.map(|asked| (asked.lock, asked.since, asked.firm)));
            self.waits.extend(rest.idle.map(|(object, since)| (object, since, false)));
            self.holds.extend(rest.held);
            self.gaps.push(rest.gap);
        }
    }

    /// A deadlock looked like threads that had nothing to do.
    #[test]
    fn what_a_window_with_an_end_ends_in_is_told_as_its_rest() {
        let text = "lockyard recording 1\nclass mutex A\nclass condition C\nlock 0\nlock 0\nlock 1\n\
            window 1 0 1000\n10 1 request 0 write\n100 1 request 1 write\n1000 1 pending-firm 1\n\
            window 2 0 1000\n10 2 request 0 write\n600 2 off 500\n\
            window 3 0 1000\n10 3 wait 2\n1000 3 pending 2\n\
            window 4 0\n10 4 request 0 write\n100 4 request 1 write\n";
        let recording = Recording::from_text("a", text).unwrap();
        let all: Vec<All> = recording
            .windows
            .iter()
            .map(|one| {
                let mut all = All::default();
                window(one, &Again::of(&recording), &mut all);
                all
            })
            .collect();
        assert_eq!(all[0].waits, [(1, 100, true)]);
        let holds: Vec<_> =
            all[..2].iter().map(|all| (all.holds[0].own, all.holds[0].slept, all.holds[0].whole)).collect();
        assert_eq!(holds, [(90, 0, 990), (490, 500, 990)]);
        assert_eq!((all[2].waits.as_slice(), all[2].holds.len()), ([(2, 10, false)].as_slice(), 0));
        assert!(all[3].waits.is_empty() && all[3].holds.is_empty());
        assert!(all.iter().all(|all| all.sections.is_empty()), "they are no whole sections");
    }

    #[test]
    fn time_without_a_cpu_is_neither_work_nor_sleep() {
        let text = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n1000 1 preempted 900\n\
            1000 1 request 0 write\n9050 1 preempted 9000\n9060 1 release 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        assert_eq!((all.gaps.as_slice(), all.sections[0].own, all.sections[0].slept), ([(100, 0)].as_slice(), 10, 0));
    }

    #[test]
    fn what_events_cost_is_not_the_programs() {
        let text = "lockyard recording 1\ncost 40\nclass mutex A\nlock 0\nwindow 1 0\n1000 1 off 500\n\
            1000 1 request 0 write\n1050 1 release 0\n1060 1 request 0 write\n1300 1 release 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        let own: Vec<u64> = all.sections.iter().map(|section| section.own).collect();
        assert_eq!((all.gaps.as_slice(), own.as_slice()), ([(460, 500), (0, 0)].as_slice(), [10, 200].as_slice()));
    }

    #[test]
    fn a_try_that_goes_on_is_told_from_one_that_does_without() {
        let text = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n100 1 failed 0 write\n\
            200 1 failed 0 write\n700 1 preempted 450\n750 1 request 0 write\n760 1 release 0\n\
            2000 1 failed 0 write\n9000 1 request 0 write\n9010 1 release 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        assert_eq!(all.failed, [Failed::Again, Failed::Waited, Failed::Tried]);
    }

    /// What a loop does between its tries was work, and each try a call that did without.
    #[test]
    fn tries_that_come_sooner_than_the_thread_comes_back_are_a_wait() {
        let round = |begin: u64| {
            format!(
                "{} 1 failed 0 write\n{} 1 failed 0 write\n{} 1 request 0 write\n{} 1 release 0\n",
                begin,
                begin + 600,
                begin + 1_200,
                begin + 4_000
            )
        };
        let text = format!(
            "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n{}{}{}",
            round(3_000),
            round(10_000),
            round(17_000)
        );
        let recording = Recording::from_text("a", &text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        assert_eq!(all.failed, [Failed::Again, Failed::Waited].repeat(3));
        assert_eq!(all.gaps, [(3_000, 0); 3]);
        assert!(all.sections.iter().all(|one| (one.waited, one.own) == (Some(1_200), 2_800)), "{:?}", all.sections);
    }

    #[test]
    fn a_wait_that_ends_without_its_lock_is_no_section_and_no_gap() {
        let text = "lockyard recording 1\nclass mutex A\nlock 0\nlock 0\nwindow 1 0\n\
            10 1 request 0 write\n500 1 gave-up 0\n520 1 request 1 write\n530 1 release 1\n";
        let recording = Recording::from_text("a", text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        assert_eq!((all.gaps.as_slice(), all.sections.len()), ([(30, 0)].as_slice(), 1));
        assert_eq!(all.failed, [Failed::GaveUp(490)]);
    }

    #[test]
    fn a_wait_for_a_signal_is_neither_work_nor_sleep_unless_it_is_in_vain() {
        let text = "lockyard recording 1\nclass mutex A\nclass condition C\nclass semaphore S\n\
            lock 0\nlock 1\nlock 2\nwindow 1 0\n\
            10 1 request 0 write\n30 1 wait 1\n31 1 release 0\n900 1 off 800\n900 1 woken 1\n\
            905 1 request 0 write\n910 1 release 0\n920 1 signal 1\n950 1 wait 2\n960 1 wait 2\n1960 1 woken 2\n\
            1970 1 request 0 write\n1975 1 wait 1\n1975 1 release 0\n4975 1 gave-up 1\n4980 1 request 0 write\n";
        let recording = Recording::from_text("a", text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        let own: Vec<u64> = all.sections.iter().map(|section| section.own).collect();
        assert_eq!(own, [20, 5, 5]);
        assert_eq!(all.gaps, [(10, 0), (5, 0), (60, 0), (5, 3000)]);
    }

    #[test]
    fn nested_and_awaited_sections_are_told_apart() {
        let text = "lockyard recording 1\nclass mutex A\nlock 0\nlock 0\nwindow 1 0\n\
            10 1 release 0\n110 1 off 60\n110 1 request 0 write\n150 1 request 1 read\n190 1 off 30\n200 1 grant 1\n\
            205 1 release 1\n215 1 release 0\n300 1 request 0 write\n";
        let recording = Recording::from_text("a", text).unwrap();
        let mut all = All::default();
        window(&recording.windows[0], &Again::of(&recording), &mut all);
        // The release of what was taken before the window says nothing; nor does the last request.
        assert_eq!(all.gaps, [(40, 60), (85, 0)]);
        let [inner, outer] = all.sections.as_slice() else { panic!("{:?}", all.sections) };
        assert_eq!((inner.outer, inner.waited, inner.own, inner.mode), (Some(0), Some(50), 5, Mode::Read));
        assert_eq!((outer.outer, outer.waited, outer.own), (None, None, 50));
        assert_eq!((inner.whole, outer.whole), (5, 105));
    }
}
