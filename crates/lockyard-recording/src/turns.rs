//! Threads that take no lock, and wait for what others signal: stages of a pipeline, whose buffers
//! are semaphores. A model is of sections, so such a thread has one for each turn: of no length,
//! and of a lock of its own.
//!
//! A turn is a unit that the thread has got of the class of which it gets most; of a thread that
//! gets none, one that it adds of the class to which it adds most.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Kind;
use crate::recording::{Class, Event, Mode, Recording, Sort, What};
use crate::walk;

/// The class of these locks, which are private.
pub(crate) const NAME: &str = "turns without a lock";
/// Fewer turns may be a thread's start and end.
const FEW: usize = 3;

impl Recording {
    /// Gives each thread without a lock its turns.
    pub(crate) fn tell_turns(&mut self) {
        let is_lock = |event: &Event| matches!(self.classes[walk::class_of(self, event.lock)].sort, Sort::Lock(_));
        let takes = |event: &Event| matches!(event.what, What::Request(_) | What::Failed(_)) && is_lock(event);
        let with: BTreeSet<u32> =
            self.windows.iter().filter(|one| one.events.iter().any(takes)).map(|one| one.thread).collect();
        let mut counts: BTreeMap<u32, BTreeMap<(bool, usize), usize>> = BTreeMap::new();
        for window in self.windows.iter().filter(|one| !with.contains(&one.thread)) {
            let counts = counts.entry(window.thread).or_default();
            for (place, event) in window.events.iter().enumerate() {
                if let Some(gets) = turn(&window.events[place..]) {
                    *counts.entry((gets, walk::class_of(self, event.lock))).or_default() += 1;
                }
            }
        }
        let most = |(thread, counts): (u32, BTreeMap<(bool, usize), usize>)| {
            let gets = counts.keys().any(|(gets, _)| *gets);
            let mine = counts.into_iter().filter(|((is_get, _), count)| *is_get == gets && *count >= FEW);
            let (what, _) = mine.max_by_key(|((_, class), count)| (*count, usize::MAX - class))?;
            Some((thread, what))
        };
        let turns: BTreeMap<u32, (bool, usize)> = counts.into_iter().filter_map(most).collect();
        if turns.is_empty() {
            return;
        }
        let (class, first) = (self.classes.len() as u32, self.locks.len() as u32);
        let of: Vec<u32> = self.locks.clone();
        self.classes.push(Class { name: NAME.to_owned(), sort: Sort::Lock(Kind::Mutex) });
        self.locks.extend(turns.keys().map(|_| class));
        let locks: BTreeMap<u32, u32> = turns.keys().copied().zip(first..).collect();
        for window in &mut self.windows {
            let (Some(what), Some(&lock)) = (turns.get(&window.thread), locks.get(&window.thread)) else { continue };
            let events = std::mem::take(&mut window.events);
            for (place, event) in events.iter().enumerate() {
                window.events.push(*event);
                if turn(&events[place..]).is_some_and(|gets| (gets, of[event.lock as usize] as usize) == *what) {
                    let of_turn = |what| Event { at: event.at, what, lock };
                    window.events.extend([What::Request(Mode::Write), What::Release].map(of_turn));
                }
            }
        }
    }
}

/// Whether the first of `events` gets a unit, or adds one; `None`: neither.
fn turn(events: &[Event]) -> Option<bool> {
    match events[0].what {
        What::Woken => Some(true),
        // Which another event ends, if the thread has to wait.
        What::Wait => {
            let next = events[1..].iter().find(|event| event.what.time().is_none());
            let waits = |next: &Event| matches!(next.what, What::Woken | What::GaveUp | What::Pending { .. });
            (!next.is_some_and(|next| next.lock == events[0].lock && waits(next))).then_some(true)
        }
        What::Signal | What::Broadcast => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    /// A producer and a consumer, with a buffer of two: each turn takes them 100 and 300 ns.
    fn pipeline() -> String {
        let mut text = "lockyard recording 1\nclass semaphore ITEMS\nclass semaphore ROOM\nlock 0\nlock 1\n".to_owned();
        let (mut puts, mut gets) = ("window 1 0\n".to_owned(), "window 2 0\n".to_owned());
        for turn in 0..50_u64 {
            let at = 300 * turn;
            let woken = if turn < 2 { String::new() } else { format!("{} 1 woken 1\n", at + 10) };
            let begin = if turn < 2 { 100 * turn } else { at - 190 };
            let _ = write!(puts, "{begin} 1 wait 1\n{woken}{} 1 signal 0\n", at.max(begin) + 90);
            let _ = write!(gets, "{} 2 wait 0\n{} 2 signal 1\n", at + 100, at + 395);
        }
        text += &puts;
        text + &gets
    }

    /// It was refused: a model is of sections.
    #[test]
    fn a_pipeline_of_semaphores_has_a_model() {
        let recording = Recording::from_text("a", &pipeline()).unwrap();
        let model = recording.model(None).unwrap();
        assert_eq!((model.roles.len(), model.locks.len(), model.queues.len()), (2, 1, 2), "{model}");
        assert!(model.locks[0].private && model.locks[0].name == NAME, "{model}");
        for role in &model.roles {
            assert_eq!((role.gets.len(), role.puts.len(), role.gets[0].count, role.puts[0].count), (1, 1, 1.0, 1.0));
        }
        let cpu: Vec<f64> = model.roles.iter().map(|role| role.cpu.mean().round()).collect();
        assert!(cpu.iter().any(|cpu| (250.0..=310.0).contains(cpu)), "{cpu:?}");
        assert_eq!(crate::Model::read("a", &model.to_string()).unwrap(), model);
    }

    /// The turns of a thread were one lock of all threads, that saturated first.
    #[test]
    fn the_turns_of_one_thread_are_no_lock_of_others() {
        let text =
            pipeline().replacen("lock 1\n", "lock 1\nlock 2\n", 1).replacen("lock 0\n", "class mutex M\nlock 0\n", 1);
        let sections: String =
            (1..40).map(|at| format!("{0} 2 request 2 write\n{0} 2 release 2\n", 100_000 + at * 10)).collect();
        let recording = Recording::from_text("a", &format!("{text}window 2 90000\n{sections}")).unwrap();
        let model = recording.model(None).unwrap();
        assert!(model.locks.iter().all(|lock| lock.private == (lock.name == NAME)), "{model}");
    }

    #[test]
    fn threads_with_locks_have_no_turns() {
        let text = pipeline() + "window 1 90000\n90001 1 request 2 write\n90002 1 release 2\n";
        let text = text.replace("lock 0\n", "class mutex M\nlock 0\n").replacen("lock 1\n", "lock 1\nlock 2\n", 1);
        let mut recording = Recording::from_text("a", &text).unwrap();
        recording.tell_turns();
        let turns = |thread: u32| {
            let mine = recording.windows.iter().filter(move |window| window.thread == thread);
            mine.flat_map(|window| &window.events).filter(|event| event.what == What::Release && event.lock > 2).count()
        };
        assert_eq!((turns(1), turns(2)), (0, 50));
    }
}
