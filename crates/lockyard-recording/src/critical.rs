//! The critical path: what had to be done sooner for the program to be done sooner.
//!
//! The path is followed backwards in time, from the last release or signal on: along what its
//! thread did, and from the end of a wait on along what the thread did that ended the wait. (After
//! *Critical Lock Analysis*, Chen and Stenström, SC 2012.)
//!
//! | at the end of a wait | the path goes on | what lies between |
//! |---|---|---|
//! | for a lock, or a pool's unit | at the last release of it by another thread | handed over |
//! | for a signal | at the last signal of it by another thread | handed over |
//! | where no recorded thread did that in time | where the wait began | unexplained |
//!
//! A thread that tries again and again waits, from its first try in vain on.
//!
//! Where a window begins, the path goes on in the window before it of the same thread, if that ends
//! there; else it is cut, and begins anew with the last of these before that moment. Time without a
//! CPU counts where the thread was then: in a section, or asleep outside of all.

use std::collections::BTreeMap;

use crate::recording::{Event, Recording, What, Window};
use crate::walk::{self, Again, Failed};

/// The path, or several where it is cut. Its times add up to [`CriticalPath::length_ns`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriticalPath {
    /// How long it is, ns.
    pub length_ns: u64,
    /// Of that outside of all sections, ns, and not asleep.
    pub outside_ns: u64,
    /// Asleep outside of all sections, ns: barriers and joins too.
    pub asleep_ns: u64,
    /// By class, the one with the longest times first.
    pub classes: Vec<OnPath>,
    /// In waits that no recorded thread has ended, ns.
    pub unexplained_ns: u64,
    /// How often it goes from one thread to another.
    pub changes: u64,
    /// Threads, and how long it is along what they did, ns, that with the longest time first.
    pub threads: Vec<(u32, u64)>,
}

/// What a class has of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnPath {
    /// The number of the class in [`Recording::classes`].
    pub class: usize,
    /// Time in its sections, ns, without what is nested in them.
    pub held_ns: u64,
    /// Time from where one thread gave something back, or signalled, to where the next one had it.
    pub handed_ns: u64,
}

impl OnPath {
    /// Both.
    pub fn ns(self) -> u64 {
        self.held_ns.saturating_add(self.handed_ns)
    }
}

impl Recording {
    /// The path on which the recorded time was spent. It costs memory for each release of what was
    /// waited for.
    pub fn critical_path(&self) -> CriticalPath {
        Follower::new(self).follow()
    }
}

/// What ends the waits of others: a release or a signal.
#[derive(Debug, Clone, Copy)]
struct Given {
    at: u64,
    window: usize,
    event: usize,
}

/// Where the path is: at a moment before event number `event` of a window, and after the one
/// before.
#[derive(Debug, Clone, Copy)]
struct Place {
    window: usize,
    event: usize,
    at: u64,
}

struct Follower<'a> {
    recording: &'a Recording,
    /// In the order of their times, of each object for which there was a wait.
    given: BTreeMap<u32, Vec<Given>>,
    /// All of them, in that order, without those behind where the path was cut.
    ends: Vec<Given>,
    again: Again,
    /// The window before, of the same thread, that ends where this one begins.
    before: Vec<Option<usize>>,
    /// Of each window, before each event and at its end: the lock that was taken last of those
    /// held.
    inner: Vec<Vec<u32>>,
    path: CriticalPath,
    /// Of each class the time in sections, and that between two threads.
    classes: BTreeMap<usize, [u64; 2]>,
    /// The time of each thread.
    threads: BTreeMap<u32, u64>,
}

/// A wait begins so many events before its end at most: what handlers do in between.
const NEAR: usize = 256;
const HELD: usize = 0;
const HANDED: usize = 1;
/// No lock is held.
const NONE: u32 = u32::MAX;

impl<'a> Follower<'a> {
    fn new(recording: &'a Recording) -> Self {
        let windows = &recording.windows;
        let mut given: BTreeMap<u32, Vec<Given>> = BTreeMap::new();
        let ends_wait = |event: &&Event| matches!(event.what, What::Grant | What::Woken | What::Failed(_));
        for event in windows.iter().flat_map(|window| &window.events).filter(ends_wait) {
            given.entry(event.lock).or_default();
        }
        let mut all = Vec::new();
        for (number, window) in windows.iter().enumerate() {
            for (at, event) in window.events.iter().enumerate().filter(|(_, event)| gives(event)) {
                let one = Given { at: event.at, window: number, event: at };
                all.push(one);
                given.entry(event.lock).and_modify(|given| given.push(one));
            }
        }
        given.values_mut().for_each(|given| given.sort_by_key(|one| one.at));
        all.sort_by_key(|one| (one.at, one.window));
        let ends: BTreeMap<(u32, u64), usize> =
            windows.iter().enumerate().map(|(number, window)| ((window.thread, window.until()), number)).collect();
        let before = |(number, window): (usize, &Window)| {
            ends.get(&(window.thread, window.begin)).copied().filter(|before| *before < number)
        };
        let before = windows.iter().enumerate().map(before).collect();
        let inner = windows.iter().map(inner).collect();
        let (path, classes, threads) = (CriticalPath::default(), BTreeMap::new(), BTreeMap::new());
        let again = Again::of(recording);
        Self { recording, given, ends: all, again, before, inner, path, classes, threads }
    }

    fn follow(mut self) -> CriticalPath {
        let mut cut = None;
        while let Some(end) = self.ends.pop() {
            if cut.is_none_or(|cut| end.at < cut) {
                cut = Some(self.stretch(Place { window: end.window, event: end.event + 1, at: end.at }));
            }
        }
        let on_path = |(class, [held_ns, handed_ns]): (usize, [u64; 2])| OnPath { class, held_ns, handed_ns };
        self.path.classes = self.classes.into_iter().map(on_path).collect();
        self.path.classes.sort_by_key(|one| (u64::MAX - one.ns(), one.class));
        self.path.threads = self.threads.into_iter().collect();
        self.path.threads.sort_by_key(|(thread, ns)| (u64::MAX - ns, *thread));
        self.path
    }

    /// Follows the path from `place` to where it is cut: that moment.
    fn stretch(&mut self, mut place: Place) -> u64 {
        loop {
            let window = &self.recording.windows[place.window];
            let Some(last) = place.event.checked_sub(1) else {
                self.pass(&mut place, window.begin);
                let Some(before) = self.before[place.window] else { return place.at };
                place = Place { window: before, event: self.recording.windows[before].events.len(), ..place };
                continue;
            };
            let event = window.events[last];
            self.pass(&mut place, event.at);
            place.event = last;
            match event.what {
                What::Grant | What::Woken | What::GaveUp => {
                    let known = place.event.saturating_sub(NEAR);
                    let begins =
                        |one: &Event| one.lock == event.lock && matches!(one.what, What::Request(_) | What::Wait);
                    if let Some(asked) = window.events[known..place.event].iter().rposition(begins) {
                        let asked = known + asked;
                        place = self.waited(place, event, self.tries(window, asked).unwrap_or(asked));
                    }
                }
                What::Request(_) => {
                    if let Some(first) = self.tries(window, last) {
                        place = self.waited(place, event, first);
                    }
                }
                _ => {}
            }
        }
    }

    /// The first of the tries in vain that belong to the request with this number.
    fn tries(&self, window: &Window, request: usize) -> Option<usize> {
        let lock = window.events[request].lock;
        let (mut at, mut first) = (request, None);
        while let Some(before) = window.events[..at].iter().rposition(|event| event.what.time().is_none()) {
            let (event, later) = (&window.events[before], &window.events[before + 1..]);
            let is_one = matches!(event.what, What::Failed(_)) && event.lock == lock;
            if !is_one || self.again.tried(window.thread, event, later) == Failed::Tried {
                break;
            }
            (at, first) = (before, Some(before));
        }
        first
    }

    /// Where the path goes on from `event`, with which a wait ends that began with event `asked`.
    fn waited(&mut self, place: Place, event: Event, asked: usize) -> Place {
        let window = &self.recording.windows[place.window];
        let began = window.events[asked].at;
        let given = self.given.get(&event.lock).filter(|_| event.what != What::GaveUp).map_or(&[][..], Vec::as_slice);
        let past = given.partition_point(|one| one.at < place.at);
        let mut in_time = given[..past].iter().rev().take_while(|one| one.at >= began);
        match in_time.find(|one| self.recording.windows[one.window].thread != window.thread) {
            Some(&Given { at, window, event: number }) => {
                self.of_class(event.lock, HANDED, place.at - at);
                self.path.changes += 1;
                Place { window, event: number + 1, at }
            }
            None => {
                let waited = place.at.saturating_sub(began);
                add(&mut self.path.unexplained_ns, waited);
                add(&mut self.path.length_ns, waited);
                Place { event: asked, at: place.at - waited, ..place }
            }
        }
    }

    /// The path goes back to the moment `to`, beyond no event.
    fn pass(&mut self, place: &mut Place, to: u64) {
        let ns = place.at.saturating_sub(to);
        place.at -= ns;
        let window = &self.recording.windows[place.window];
        add(self.threads.entry(window.thread).or_default(), ns);
        match self.inner[place.window][place.event] {
            NONE => {
                let asleep = match window.events.get(place.event).map(|next| next.what) {
                    Some(What::Off(off)) => off.min(ns),
                    _ => 0,
                };
                add(&mut self.path.asleep_ns, asleep);
                add(&mut self.path.outside_ns, ns - asleep);
                add(&mut self.path.length_ns, ns);
            }
            lock => self.of_class(lock, HELD, ns),
        }
    }

    fn of_class(&mut self, lock: u32, what: usize, ns: u64) {
        add(&mut self.classes.entry(walk::class_of(self.recording, lock)).or_default()[what], ns);
        add(&mut self.path.length_ns, ns);
    }
}

/// Times of a file may have any length.
fn add(sum: &mut u64, ns: u64) {
    *sum = sum.saturating_add(ns);
}

fn gives(event: &Event) -> bool {
    matches!(event.what, What::Release | What::Signal | What::Broadcast)
}

/// The lock that was taken last of those held, before each event and at the end of `window`.
fn inner(window: &Window) -> Vec<u32> {
    let mut held: Vec<u32> = Vec::new();
    let mut inner = Vec::with_capacity(window.events.len() + 1);
    for (number, event) in window.events.iter().enumerate() {
        inner.push(held.last().copied().unwrap_or(NONE));
        match event.what {
            What::Request(_) if walk::waits(&window.events[number + 1..], event.lock) => {}
            What::Request(_) | What::Grant => held.push(event.lock),
            What::Release => {
                if let Some(number) = held.iter().rposition(|lock| *lock == event.lock) {
                    held.remove(number);
                }
            }
            _ => {}
        }
    }
    inner.push(held.last().copied().unwrap_or(NONE));
    inner
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "lockyard recording 1\nclass mutex A\nclass mutex B\nclass condition C\nlock 0\nlock 1\nlock 2\n";

    fn path(text: &str) -> CriticalPath {
        Recording::from_text("a", &format!("{HEAD}{text}")).unwrap().critical_path()
    }

    fn class(path: &CriticalPath, class: usize) -> (u64, u64) {
        let of = path.classes.iter().find(|one| one.class == class);
        of.map_or((0, 0), |one| (one.held_ns, one.handed_ns))
    }

    #[test]
    fn it_goes_from_a_wait_to_the_thread_that_gave_back() {
        let path = path(
            "window 1 0\n100 1 request 0 write\n400 1 release 0\n\
             window 2 0\n150 2 request 0 write\n410 2 grant 0\n710 2 release 0\n750 2 request 1 write\n760 2 release 1\n",
        );
        // 0–100 outside, 100–400 A, 400–410 handed, 410–710 A, 710–750 outside, 750–760 B.
        assert_eq!((path.length_ns, path.outside_ns, path.changes, path.unexplained_ns), (760, 140, 1, 0));
        assert_eq!((class(&path, 0), class(&path, 1)), ((600, 10), (10, 0)));
        assert_eq!(path.threads, [(1, 400), (2, 350)]);
    }

    #[test]
    fn time_counts_for_the_lock_that_was_taken_last() {
        let path = path("window 1 0\n10 1 request 0 write\n20 1 request 1 write\n70 1 release 1\n100 1 release 0\n");
        assert_eq!((path.length_ns, path.outside_ns), (100, 10));
        assert_eq!((class(&path, 0), class(&path, 1)), ((40, 0), (50, 0)));
    }

    #[test]
    fn it_goes_from_a_signal_to_the_thread_that_gave_it() {
        let path = path(
            "window 1 0\n10 1 request 0 write\n20 1 wait 2\n20 1 release 0\n900 1 off 800\n900 1 woken 2\n\
             905 1 request 0 write\n1000 1 release 0\n\
             window 2 0\n800 2 request 1 write\n850 2 signal 2\n860 2 release 1\n",
        );
        assert_eq!((path.length_ns, path.outside_ns, path.changes), (1_000, 805, 1));
        assert_eq!((class(&path, 0), class(&path, 1), class(&path, 2)), ((95, 0), (50, 0), (0, 50)));
    }

    #[test]
    fn a_wait_that_nobody_recorded_ended_is_said_to_be_unexplained() {
        let alone = path("window 1 0\n10 1 request 0 write\n510 1 grant 0\n600 1 release 0\n");
        assert_eq!((alone.length_ns, alone.outside_ns, alone.unexplained_ns, alone.changes), (600, 10, 500, 0));
        let timed = path("window 1 0\n10 1 request 0 write\n510 1 gave-up 0\n600 1 request 1 write\n601 1 release 1\n");
        assert_eq!((timed.outside_ns, timed.unexplained_ns), (100, 500));
    }

    #[test]
    fn windows_that_follow_each_other_are_one_and_others_are_cut() {
        let path = path(
            "window 1 0 50\n10 1 request 0 write\n20 1 release 0\n\
             window 1 100 200\n110 1 request 0 write\n150 1 release 0\n\
             window 1 200\n210 1 request 0 write\n260 1 release 0\n",
        );
        assert_eq!(path.length_ns, 160 + 20);
        assert_eq!(class(&path, 0).0, 50 + 40 + 10);
    }

    /// A thread that came late was all of the path.
    #[test]
    fn a_path_that_is_cut_goes_on_in_windows_that_end_later() {
        let path = path(
            "window 1 0\n100 1 request 0 write\n400 1 release 0\n2000 1 signal 2\n\
             window 2 900\n1900 2 off 600\n1950 2 request 1 write\n2100 2 release 1\n",
        );
        // From 2100 back to 900, where thread 2 began; then from the release at 400.
        assert_eq!((path.length_ns, path.asleep_ns, path.outside_ns), (1_200 + 400, 600, 450 + 100));
        assert_eq!((class(&path, 0), class(&path, 1), path.changes), ((300, 0), (150, 0), 0));
    }

    /// What lay between the tries was computing, and no thread was waited for.
    #[test]
    fn tries_again_and_again_are_a_wait() {
        let mut tries = "window 2 0\n".to_owned();
        for try_in_vain in 0..20 {
            tries += &format!("{} 2 failed 0 write\n", 200 + 100 * try_in_vain);
        }
        let path = path(&format!(
            "window 1 0\n100 1 request 0 write\n2150 1 release 0\n{tries}2200 2 request 0 write\n2300 2 release 0\n"
        ));
        assert_eq!((class(&path, 0), path.changes), ((100 + 2_050, 50), 1), "{path:?}");
        assert_eq!((path.length_ns, path.outside_ns), (2_300, 100));
    }

    /// Each cut looked at all windows, and each end of a wait at all events before it.
    #[test]
    fn many_cuts_and_waits_without_a_beginning_take_no_long_time() {
        let mut text = String::new();
        for thread in 0..20_000 {
            let at = thread * 100;
            text += &format!(
                "window {thread} {at}\n{} {thread} request 0 write\n{} {thread} release 0\n",
                at + 10,
                at + 20
            );
        }
        assert_eq!(path(&text).length_ns, 20_000 * 20);
        let grants: String = (0..100_000).map(|at| format!("{at} 1 grant 0\n")).collect();
        assert_eq!(path(&format!("window 1 0\n{grants}100001 1 release 0\n")).unexplained_ns, 0);
    }

    #[test]
    fn whatever_a_file_says_it_ends() {
        // Threads that give each other a lock at one moment, times that go back, times without end.
        let most = u64::MAX;
        let text = format!(
            "window 1 0\n10 1 request 0 write\n10 1 grant 0\n10 1 release 0\n10 1 request 0 write\n10 1 grant 0\n10 1 release 0\n\
             window 2 0\n10 2 request 0 write\n10 2 grant 0\n10 2 release 0\n{most} 2 request 0 write\n{most} 2 grant 0\n{most} 2 release 0\n"
        );
        assert_eq!(path(&text).length_ns, most);
    }
}
