//! A recording as slices: for which lock or signal each thread waited when, and which lock it held.
//!
//! One group of tracks for waits, one for holds. A thread has a track for each lock that it holds
//! at once: holds need not end in the order of their beginning. What was taken before a window is
//! left out. What is held or awaited at its end lasts up to that where it is known, else it is left
//! out too.

use std::collections::{BTreeMap, BTreeSet};

use lockyard_recording::Recording;
use lockyard_recording::recording::{Mode, What, Window};

use crate::report::chrome::Tracks;

const WAITS: u32 = 1;
const HOLDS: u32 = 2;
/// Locks that a thread holds at once and that are shown.
const MOST_HELD: usize = 16;

/// A wait or hold under way.
#[derive(Debug, Clone, Copy)]
struct Open {
    lock: u32,
    mode: Mode,
    since: u64,
}

/// The locks that a thread holds, each in the first free place.
#[derive(Debug, Default)]
struct Held([Option<Open>; MOST_HELD]);

impl Held {
    fn take(&mut self, open: Open) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(open);
        }
    }

    /// The hold of `lock` that began last in place, and where it was.
    fn release(&mut self, lock: u32) -> Option<(usize, Open)> {
        let place = self.0.iter().rposition(|open| open.is_some_and(|open| open.lock == lock))?;
        Some((place, self.0[place].take()?))
    }
}

/// What a thread does for a while with what a class is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) thread: u32,
    /// The number of the class in [`Recording::classes`].
    pub(crate) class: usize,
    /// The lock is, or was to be, shared.
    pub(crate) is_read: bool,
    /// Waits for it, or holds it with so many more that it took before.
    pub(crate) holds: Option<usize>,
    /// From when to when: times of the recording.
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// All slices that have a length, window by window, each in the order in which they end.
pub(crate) fn slices(recording: &Recording) -> Vec<Slice> {
    let mut walk = Walk::default();
    recording.windows.iter().for_each(|window| walk.window(recording, window));
    walk.slices
}

/// The document.
pub(crate) fn document(recording: &Recording) -> String {
    let start = recording.windows.iter().map(|window| window.begin).min().unwrap_or(0);
    let at = |ns: u64| ns.saturating_sub(start);
    let mut tracks = Tracks::default();
    tracks.group(WAITS, "waits");
    tracks.group(HOLDS, "holds");
    // The number of each thread's track, and which have a name in which group.
    let (mut numbers, mut named) = (BTreeMap::new(), BTreeSet::new());
    for slice in slices(recording) {
        let (group, place) = slice.holds.map_or((WAITS, 0), |place| (HOLDS, place));
        let next = numbers.len() as u32 + 1;
        let track = *numbers.entry((slice.thread, place)).or_insert(next);
        if named.insert((group, track)) {
            let beside = if place > 0 { format!(", with {place} more held") } else { String::new() };
            tracks.track(group, track, &format!("{}{beside}", recording.called(slice.thread)));
        }
        let read = if slice.is_read { " (read)" } else { "" };
        let name = format!("{}{read}", recording.classes[slice.class].name);
        tracks.slice(group, track, &name, at(slice.begin), at(slice.end));
    }
    tracks.document(&recording.program)
}

#[derive(Default)]
struct Walk {
    slices: Vec<Slice>,
    /// When the last window of a thread ended, and what it was about then.
    before: BTreeMap<u32, (u64, Held, Option<Open>)>,
}

impl Walk {
    fn window(&mut self, recording: &Recording, window: &Window) {
        let class = |lock: u32| {
            recording
                .locks
                .get(lock as usize)
                .map(|class| *class as usize)
                .filter(|class| *class < recording.classes.len())
        };
        let end = window.until();
        // `asked`: the last request. A wait if it is granted or given up next, else a hold.
        let follows = self.before.remove(&window.thread).filter(|(end, ..)| *end == window.begin);
        let (_, mut held, mut asked) = follows.unwrap_or_default();
        // The last condition variable or semaphore that it asked for.
        let mut idle: Option<Open> = None;
        for event in window.events.iter().filter(|event| event.what.time().is_none()) {
            if let What::Woken | What::GaveUp | What::Pending { .. } = event.what
                && let Some(open) = idle.take_if(|open| open.lock == event.lock)
            {
                self.slice((window.thread, None), open, (class(open.lock), event.at));
                continue;
            }
            let before = asked.take();
            if let What::Grant | What::GaveUp | What::Pending { .. } = event.what {
                let Some(open) = before.filter(|open| open.lock == event.lock) else { continue };
                self.slice((window.thread, None), open, (class(open.lock), event.at));
                if event.what == What::Grant {
                    held.take(Open { since: event.at, ..open });
                }
                continue;
            }
            before.into_iter().for_each(|open| held.take(open));
            match event.what {
                What::Request(mode) => asked = Some(Open { lock: event.lock, mode, since: event.at }),
                What::Wait => idle = Some(Open { lock: event.lock, mode: Mode::Write, since: event.at }),
                What::Release => {
                    if let Some((place, open)) = held.release(event.lock) {
                        self.slice((window.thread, Some(place)), open, (class(open.lock), event.at));
                    }
                }
                _ => {}
            }
        }
        if window.end.is_some() {
            asked.take().into_iter().for_each(|open| held.take(open));
            for (place, open) in held.0.iter_mut().enumerate() {
                if let Some(open) = open.take() {
                    self.slice((window.thread, Some(place)), open, (class(open.lock), end));
                }
            }
        }
        self.before.insert(window.thread, (end, held, asked));
    }

    fn slice(&mut self, (thread, holds): (u32, Option<usize>), open: Open, (class, end): (Option<usize>, u64)) {
        if let Some(class) = class.filter(|_| end > open.since) {
            self.slices.push(Slice { thread, class, is_read: open.mode == Mode::Read, holds, begin: open.since, end });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Of each slice: group, track, name, begin and length in microseconds.
    fn slices(text: &str) -> Vec<(u64, u64, String, f64, f64)> {
        let page = document(&Recording::from_text("a", text).unwrap());
        let page: Value = serde_json::from_str(&page).unwrap();
        let events = page["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        let number = |event: &Value, field: &str| event[field].as_f64().unwrap();
        events
            .map(|event| {
                let name = event["name"].as_str().unwrap().to_owned();
                let [pid, tid] = ["pid", "tid"].map(|field| event[field].as_u64().unwrap());
                (pid, tid, name, number(event, "ts"), number(event, "dur"))
            })
            .collect()
    }

    #[test]
    fn waits_and_holds_are_slices_and_locks_held_at_once_have_tracks_of_their_own() {
        let text = "lockyard recording 1\nclass mutex A \"b\"\nclass rwlock B\nlock 0\nlock 1\nwindow 2 1000\n\
            1100 2 request 0 write\n1200 2 request 1 read\n1300 2 off 50\n1500 2 grant 1\n1600 2 release 0\n\
            1900 2 release 1\n2000 2 release 0\n2100 2 request 0 write\n2300 2 gave-up 0\n2400 2 request 0 write\n";
        let a = "A \"b\"".to_owned();
        let b = "B (read)".to_owned();
        assert_eq!(
            slices(text),
            [(1, 1, b.clone(), 0.2, 0.3), (2, 1, a.clone(), 0.1, 0.5), (2, 2, b, 0.5, 0.4), (1, 1, a, 1.1, 0.2)]
        );
        assert!(slices("lockyard recording 1\n").is_empty());
    }

    #[test]
    fn a_wait_for_a_signal_is_a_slice_unless_it_takes_no_time() {
        let text = "lockyard recording 1\nclass mutex A\nclass condition C\nclass semaphore S\n\
            lock 0\nlock 1\nlock 2\nwindow 2 1000\n\
            1100 2 request 0 write\n1200 2 wait 1\n1300 2 release 0\n1900 2 woken 1\n2000 2 wait 2\n\
            2100 2 wait 2\n2400 2 gave-up 2\n2500 2 signal 1\n";
        let slices = slices(text);
        let slices: Vec<_> = slices.iter().map(|(group, _, name, at, long)| (*group, &**name, *at, *long)).collect();
        assert_eq!(slices, [(HOLDS.into(), "A", 0.1, 0.2), (WAITS.into(), "C", 0.2, 0.7), (1, "S", 1.1, 0.3)]);
    }

    #[test]
    fn what_a_window_with_an_end_ends_in_lasts_up_to_it() {
        let text = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 7 1000 3000\n\
            1100 7 request 0 write\n1500 7 request 1 write\n3000 7 pending 1\n";
        assert_eq!(slices(text), [(1, 1, "B".to_owned(), 0.5, 1.5), (2, 1, "A".to_owned(), 0.1, 1.9)]);
    }

    #[test]
    fn a_window_goes_on_where_the_last_one_of_its_thread_ended() {
        let text = |begin: u32| {
            format!(
                "lockyard recording 1\nclass mutex A\nlock 0\nwindow 7 1000\n1100 7 request 0 write\n\
                 window 7 {begin}\n1500 7 grant 0\n1600 7 release 0\n"
            )
        };
        let a = || "A".to_owned();
        assert_eq!(slices(&text(1100)), [(1, 1, a(), 0.1, 0.4), (2, 1, a(), 0.5, 0.1)]);
        assert!(slices(&text(1200)).is_empty());
    }
}
