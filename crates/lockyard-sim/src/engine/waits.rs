//! What each thread does when a run ends before its time, in words.
//!
//! A thread that waits says for what: all lines that its spin looks at, the word that it sleeps on,
//! the lock of the simulated kernel that it queues for and who holds that. The last line that was
//! watched says nothing about a thread that no longer watches.

use super::Engine;
use super::task::{Doing, State};
use crate::machine::line::NOBODY;

/// Something to be named in a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    Key(u64),
    Line(u32),
}

/// How the names of things are found.
pub(crate) type Name<'a> = &'a dyn Fn(&Engine, Wanted) -> String;

impl Engine {
    /// What the threads that are not done do.
    pub(super) fn waiting(&self, names: Name<'_>) -> String {
        const SHOWN: usize = 12;
        let live = (0..self.tasks.len()).filter(|&task| self.tasks[task].state != State::Done);
        let all: Vec<String> = live.map(|task| format!("thread {task} {}", self.does(task as u32, names))).collect();
        let more = if all.len() > SHOWN { format!(", and {} more", all.len() - SHOWN) } else { String::new() };
        format!("{}{more}", all[..all.len().min(SHOWN)].join(", "))
    }

    fn does(&self, task: u32, names: Name<'_>) -> String {
        let state = &self.tasks[task as usize];
        let cpu = state.cpu;
        if let Some((line, holder)) = self.queues_for(task) {
            let holder = if holder == NOBODY { "nobody".to_owned() } else { format!("thread {holder}") };
            return format!("queues for the lock of {}, which {holder} holds", names(self, Wanted::Line(line)));
        }
        match (state.state, state.doing, self.sleeps_on(task)) {
            (State::Sleeping, _, Some(key)) => format!("sleeps on {}", names(self, Wanted::Key(key))),
            (_, _, Some(key)) => format!("is about to sleep on {}", names(self, Wanted::Key(key))),
            (State::New, ..) => "has not begun".to_owned(),
            (State::Done, ..) => "is done".to_owned(),
            (State::Sleeping, ..) => "sleeps".to_owned(),
            (State::Runnable, ..) => format!("waits for CPU {cpu}"),
            (State::Running, Doing::Switching, _) => format!("is being switched to on CPU {cpu}"),
            (State::Running, Doing::Memory, _) => format!("waits for memory on CPU {cpu}"),
            (State::Running, Doing::Watching, _) => {
                let lines: Vec<String> = state.watch.lines().map(|(line, _)| names(self, Wanted::Line(line))).collect();
                format!("spins on {}", lines.join(" and "))
            }
            (State::Running, Doing::Computing { .. }, _) if state.spinning => format!("polls on CPU {cpu}"),
            (State::Running, Doing::Computing { .. }, _) => format!("computes on CPU {cpu}"),
        }
    }

    /// The line of the kernel's lock that `task` queues for, and who holds it.
    fn queues_for(&self, task: u32) -> Option<(u32, u32)> {
        self.futexes.queue_with(task).or_else(|| self.shared.queue_with(task))
    }
}
