//! Semaphores whose units the threads that took them give back: connections, buffers, places to
//! work in. Such a semaphore is a lock that several threads have at once: what a thread does, and
//! how long it sleeps, between its wait and its post is a section.
//!
//! Units that one thread puts in and another gets out are no sections: see [`crate::model::Queue`].

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Kind;
use crate::recording::{Class, Event, Mode, Recording, Sort, What};

/// Fewer units taken do not tell.
const FEW: usize = 3;
/// Of the units taken so many are given back by the threads that took them, at least.
const SURE: f64 = 0.9;
/// The share of them at each end in which others may add units: when it begins, and to end it.
const END: f64 = 0.05;
/// So few of the waits may have been told late.
const LATE: f64 = 0.01;

/// What threads did with a semaphore.
#[derive(Default)]
struct Use {
    /// When units were taken.
    taken: Vec<u64>,
    /// How many of them were given back by the threads that took them.
    returned: usize,
    /// How many were held where what is known ends.
    open: usize,
    /// When threads added units that they had not taken.
    added: Vec<u64>,
}

impl Use {
    fn is_pool(&mut self) -> bool {
        self.taken.sort_unstable();
        let count = self.taken.len();
        let cut = (END * count as f64) as usize;
        let middle = &self.taken[cut..count - cut];
        let (Some(first), Some(last)) = (middle.first(), middle.last()) else { return false };
        let added = self.added.iter().filter(|at| (first..=last).contains(at)).count();
        let closed = count - self.open;
        closed >= FEW && self.returned as f64 >= SURE * closed as f64 && added as f64 <= (1.0 - SURE) * closed as f64
    }
}

impl Recording {
    /// Makes rwlocks of what is read, whatever else it is said to be: locks whose class is not
    /// known are of any kind.
    pub fn tell_readers(&mut self) {
        for event in self.windows.iter().flat_map(|window| &window.events) {
            if let What::Request(Mode::Read) | What::Failed(Mode::Read) = event.what {
                let sort = &mut self.classes[self.locks[event.lock as usize] as usize].sort;
                if matches!(sort, Sort::Lock(Kind::Mutex | Kind::Spin)) {
                    *sort = Sort::Lock(Kind::RwLock);
                }
            }
        }
    }

    /// Makes locks of the semaphores whose units are given back by the threads that took them.
    pub fn tell_pools(&mut self) {
        let pools = self.pools();
        if pools.is_empty() {
            return;
        }
        let mut classes: BTreeMap<u32, u32> = BTreeMap::new();
        for &object in &pools {
            let class = self.locks[object as usize];
            let all = || (0..self.locks.len() as u32).filter(|other| self.locks[*other as usize] == class);
            let next = self.classes.len() as u32;
            let to = *classes
                .entry(class)
                .or_insert_with(|| if all().all(|other| pools.contains(&other)) { class } else { next });
            let sort = Sort::Lock(Kind::Semaphore);
            if to == next {
                let name = self.classes[class as usize].name.clone();
                self.classes.push(Class { name, sort });
            }
            self.classes[to as usize].sort = sort;
            // The class of a later pool is still looked up by the old number.
            self.locks[object as usize] = to;
        }
        for window in &mut self.windows {
            let takes: BTreeSet<u32> =
                window.events.iter().filter(|event| event.what == What::Wait).map(|event| event.lock).collect();
            // What a thread adds that takes none ends no section of its own.
            let strange = |event: &Event| event.what == What::Signal && !takes.contains(&event.lock);
            window.events.retain(|event| !pools.contains(&event.lock) || !strange(event));
            for event in window.events.iter_mut().filter(|event| pools.contains(&event.lock)) {
                event.what = match event.what {
                    What::Wait => What::Request(Mode::Write),
                    What::Woken => What::Grant,
                    What::Signal => What::Release,
                    what => what,
                };
            }
        }
    }

    fn pools(&self) -> BTreeSet<u32> {
        let mut uses: BTreeMap<u32, Use> = BTreeMap::new();
        for window in &self.windows {
            let mut held: BTreeMap<u32, usize> = BTreeMap::new();
            for event in window.events.iter().filter(|event| event.what.time().is_none()) {
                if self.classes[self.locks[event.lock as usize] as usize].sort != Sort::Semaphore {
                    continue;
                }
                let (one, held) = (uses.entry(event.lock).or_default(), held.entry(event.lock).or_default());
                match event.what {
                    What::Wait => {
                        one.taken.push(event.at);
                        *held += 1;
                    }
                    What::GaveUp | What::Pending { .. } => {
                        one.taken.pop();
                        *held = held.saturating_sub(1);
                    }
                    What::Signal if *held > 0 => {
                        one.returned += 1;
                        *held -= 1;
                    }
                    What::Signal => one.added.push(event.at),
                    _ => {}
                }
            }
            for (object, held) in held {
                uses.entry(object).or_default().open += held.min(1);
            }
        }
        uses.into_iter().filter_map(|(object, mut one)| one.is_pool().then_some(object)).collect()
    }

    /// How many units each lock had that is a semaphore, at least: what threads held where one had
    /// to wait, else the most that they held at once.
    pub(crate) fn units(&self) -> BTreeMap<u32, u32> {
        let mut steps: BTreeMap<u32, Vec<(u64, Step)>> = BTreeMap::new();
        let is_pool = |lock: u32| self.classes[self.locks[lock as usize] as usize].sort == Sort::Lock(Kind::Semaphore);
        for window in &self.windows {
            let mut held: BTreeMap<u32, u32> = BTreeMap::new();
            let of_lock = window.events.iter().filter(|event| event.what.time().is_none());
            let events: Vec<&Event> = of_lock.collect();
            for (place, event) in events.iter().enumerate().filter(|(_, event)| is_pool(event.lock)) {
                let (steps, held) = (steps.entry(event.lock).or_default(), held.entry(event.lock).or_default());
                match event.what {
                    What::Request(_) if waits(&events, place) => steps.push((event.at, Step::Waits)),
                    What::Request(_) | What::Grant => {
                        steps.push((event.at, Step::Takes));
                        *held += 1;
                    }
                    What::Release => {
                        // It may have been taken before the window.
                        if *held == 0 {
                            steps.push((window.begin, Step::Takes));
                        }
                        *held = held.saturating_sub(1);
                        steps.push((event.at, Step::Returns));
                    }
                    _ => {}
                }
            }
            for (lock, held) in held {
                let returns = (window.until(), Step::Returns);
                steps.entry(lock).or_default().extend((0..held).map(|_| returns));
            }
        }
        steps.into_iter().map(|(lock, steps)| (lock, most(steps).max(1))).collect()
    }
}

/// Of what becomes of a semaphore's units; at one moment they come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Returns,
    Takes,
    /// A thread finds none.
    Waits,
}

/// Whether the request there has to wait.
fn waits(events: &[&Event], place: usize) -> bool {
    let next = events.get(place + 1).filter(|next| next.lock == events[place].lock);
    next.is_some_and(|next| matches!(next.what, What::Grant | What::GaveUp | What::Pending { .. }))
}

fn most(mut steps: Vec<(u64, Step)>) -> u32 {
    steps.sort_unstable();
    let (mut held, mut most, mut awaited) = (0_u32, 0, Vec::new());
    for (_, step) in steps {
        match step {
            Step::Returns => held = held.saturating_sub(1),
            Step::Takes => held += 1,
            Step::Waits => awaited.push(held),
        }
        most = most.max(held);
    }
    // Others may have added units, when it ended, that are held by more threads than before.
    awaited.sort_unstable();
    let late = (LATE * awaited.len() as f64) as usize;
    awaited.len().checked_sub(1 + late).map_or(most, |place| awaited[place])
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::model::Model;

    /// Three threads, and a semaphore of two units. A thread finds none by turns. At the end
    /// another thread adds some, and takes a mutex once.
    fn text(inside: impl Fn(u64, u32) -> String) -> String {
        let mut windows = [String::new(), String::new(), String::new()];
        // A turn is 100 ns: two threads have a unit each, the third waits for the first of them.
        for turn in 0..50_u64 {
            let begin = turn * 100;
            let waits = (turn % 3) as usize;
            for (number, out) in windows.iter_mut().enumerate() {
                let thread = number as u32 + 1;
                let (from, to) = if number == waits { (begin + 60, begin + 70) } else { (begin + 10, begin + 50) };
                let woken = if number == waits { format!("{from} {thread} woken 0\n") } else { String::new() };
                let asked = if number == waits { begin + 20 } else { from };
                let _ = write!(out, "{asked} {thread} wait 0\n{woken}{}{to} {thread} signal 0\n", inside(from, thread));
            }
        }
        let head = "lockyard recording 1\nclass semaphore S\nclass mutex M\nlock 0\nlock 1\n";
        let [a, b, c] = windows;
        format!(
            "{head}window 1 0\n{a}window 2 0\n{b}window 3 0\n{c}window 9 5000\n5100 9 request 1 write\n\
             5200 9 release 1\n{}",
            "5300 9 signal 0\n".repeat(20)
        )
    }

    fn model(text: &str) -> Model {
        let model = Recording::from_text("a", text).unwrap().model(None).unwrap();
        assert_eq!(Model::read("b", &model.to_string()).unwrap(), model, "{model}");
        model
    }

    /// The mutex that one thread took once was all that the model had.
    #[test]
    fn a_semaphore_whose_units_come_back_is_a_lock_with_sections() {
        let model = model(&text(|_, _| String::new()));
        let [lock] = model.locks.as_slice() else { panic!("{model}") };
        assert_eq!((lock.name.as_str(), lock.kind, lock.units), ("S", Kind::Semaphore, 2), "{model}");
        let [role] = model.roles.as_slice() else { panic!("{model}") };
        assert_eq!((role.threads, role.takes.len(), role.gets.len(), role.puts.len()), (3.0, 1, 0, 0), "{model}");
        assert!((30.0..=40.0).contains(&role.takes[0].hold.mean()), "{model}");
    }

    /// It was played after the unit had been given back; and the units were one too few.
    #[test]
    fn what_is_done_with_a_unit_is_within_its_section() {
        let inside = |from: u64, thread: u32| {
            format!(
                "{} {thread} request 1 write\n{} {thread} release 1\n{} {thread} off 5\n",
                from + 1,
                from + 2,
                from + 8
            )
        };
        let model = model(&text(inside));
        let names: Vec<(&str, u32)> = model.locks.iter().map(|lock| (lock.name.as_str(), lock.units)).collect();
        assert_eq!(names, [("M", 1), ("S", 2)], "{model}");
        let role = &model.roles[0];
        let [outer, inner] = role.takes.as_slice() else { panic!("{model}") };
        assert_eq!((outer.lock, outer.sleep.mean(), inner.lock, inner.within), (1, 5.0, 0, Some(0)), "{model}");
        assert!(role.wait.is_zero() && model.queues.is_empty(), "{model}");
    }

    /// A model of "other locks" was refused where it was read.
    #[test]
    fn what_is_read_is_no_mutex() {
        let text = "lockyard recording 1\nclass mutex other locks\nlock 0\nwindow 1 0\n10 1 request 0 write\n\
            20 1 release 0\n30 1 request 0 read\n50 1 release 0\n60 1 request 0 read\n70 1 release 0\n";
        let model = Recording::from_text("a", text).unwrap().model(None).unwrap();
        assert_eq!(model.locks[0].kind, Kind::RwLock);
        assert!(Model::read("a", &model.to_string()).is_ok(), "{model}");
    }

    #[test]
    fn units_that_others_get_are_no_sections() {
        let mut text = "lockyard recording 1\nclass semaphore S\nlock 0\n".to_owned();
        for (thread, what) in [(1, "signal"), (2, "wait")] {
            let _ = writeln!(text, "window {thread} 0");
            (1..20).for_each(|at| {
                let _ = writeln!(text, "{} {thread} {what} 0", 100 * at);
            });
        }
        let mut recording = Recording::from_text("a", &text).unwrap();
        let before = recording.clone();
        recording.tell_pools();
        assert_eq!(recording, before);
    }

    #[test]
    fn of_one_class_some_may_be_locks() {
        let mut text = "lockyard recording 1\nclass semaphore S\nlock 0\nlock 0\nlock 0\nwindow 1 0\n".to_owned();
        for at in 0..9 {
            let _ = write!(text, "{0} 1 wait 1\n{0} 1 signal 0\n{1} 1 signal 1\n", 10 * at, 10 * at + 5);
        }
        let mut recording = Recording::from_text("a", &text).unwrap();
        recording.tell_pools();
        let sorts: Vec<Sort> = recording.classes.iter().map(|class| class.sort).collect();
        assert_eq!(sorts, [Sort::Semaphore, Sort::Lock(Kind::Semaphore)]);
        assert_eq!((recording.locks.as_slice(), recording.units()[&1]), ([0, 1, 0].as_slice(), 1));
    }
}
