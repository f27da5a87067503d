//! What is watched while a run is made hard: freed memory, frames that have returned, the last seam
//! calls of each thread.
//!
//! A thread that is suspended has its stack's end at a known address; what is below has returned. A
//! word there that another thread touches was a waiter's record, a token or a node whose owner has
//! gone on. The test costs nothing when nothing is watched: it hides behind the question whether a
//! seam call is a place for faults.

use std::collections::VecDeque;
use std::panic::Location;

use super::Engine;
use super::heap::Ps;
use super::task::State;
use crate::error::Error;
use crate::faults::Fault;

/// A seam call, with the address of its word if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Load(usize),
    Store(usize),
    Update(usize),
    Park(usize),
    Unpark(usize),
    Relax,
    Fence,
    IsRunning,
    SetPriority,
    Compute,
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Load(_) => "load",
            Self::Store(_) => "store",
            Self::Update(_) => "update",
            Self::Park(_) => "park",
            Self::Unpark(_) => "unpark",
            Self::Relax => "relax",
            Self::Fence => "fence",
            Self::IsRunning => "is running?",
            Self::SetPriority => "set priority",
            Self::Compute => "compute",
        }
    }

    pub(crate) fn address(self) -> Option<usize> {
        match self {
            Self::Load(address)
            | Self::Store(address)
            | Self::Update(address)
            | Self::Park(address)
            | Self::Unpark(address) => Some(address),
            Self::Relax | Self::Fence | Self::IsRunning | Self::SetPriority | Self::Compute => None,
        }
    }
}

/// A seam call that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note {
    pub(crate) ps: Ps,
    pub(crate) call: Call,
    /// What was in memory before it.
    pub(crate) before: u32,
    pub(crate) place: &'static Location<'static>,
}

/// What is watched.
#[derive(Debug)]
pub(crate) struct Guard {
    memory: bool,
    journal: usize,
    /// Freed objects: address and size.
    freed: Vec<(usize, usize)>,
    /// The last seam calls of each task.
    pub(crate) notes: Vec<VecDeque<Note>>,
}

impl Guard {
    pub(crate) fn new(memory: bool, journal: usize) -> Self {
        Self { memory, journal, freed: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.memory || self.journal > 0
    }

    /// From now on nobody may touch what is there.
    pub(crate) fn free(&mut self, address: usize, size: usize) {
        if self.memory {
            self.freed.push((address, size));
        }
    }

    fn is_free(&self, address: usize) -> bool {
        self.freed.iter().any(|&(start, size)| (start..start + size).contains(&address))
    }
}

impl Engine {
    /// The running task makes a seam call.
    pub(crate) fn watch_call(&mut self, call: Call, place: &'static Location<'static>) {
        let task = self.current;
        if self.guard.journal > 0 {
            self.note(call, place);
        }
        let Some(address) = call.address().filter(|_| self.guard.memory && self.failure.is_none()) else { return };
        let what = if self.guard.is_free(address) {
            "freed memory".to_owned()
        } else if let Some(owner) = self.has_returned(address) {
            format!("a frame of thread {owner}'s stack that has returned")
        } else {
            return;
        };
        self.failure =
            Some(Error::Gone(format!("thread {task} at {}:{} used {what}", short(place.file()), place.line())));
    }

    /// The task other than the running one in whose stack, but in no live frame of it, `address`
    /// is.
    fn has_returned(&self, address: usize) -> Option<usize> {
        let (first, last) = (self.tasks.first()?.stack.start, self.tasks.last()?.stack.end);
        if !(first..last).contains(&address) {
            return None;
        }
        let owner = self.tasks.iter().position(|task| task.stack.contains(&address))?;
        let task = &self.tasks[owner];
        (owner != self.current as usize && (task.state == State::Done || address < task.stack_top)).then_some(owner)
    }

    fn note(&mut self, call: Call, place: &'static Location<'static>) {
        let (task, most) = (self.current as usize, self.guard.journal);
        // SAFETY: the address of a word that the caller borrows; its first four bytes are part of
        // it, and the host thread alone runs.
        let before = call.address().map_or(0, |address| unsafe { (address as *const u32).read_volatile() });
        let notes = &mut self.guard.notes;
        if notes.len() <= task {
            notes.resize_with(task + 1, VecDeque::new);
        }
        if notes[task].len() == most {
            notes[task].pop_front();
        }
        notes[task].push_back(Note { ps: self.now, call, before, place });
    }

    /// Whether the running task has no record.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.tasks.get(self.current as usize).is_some_and(|task| task.anonymous)
    }

    /// A wrong answer to the question for the running task's node, if one is due.
    pub(crate) fn wrong_node(&mut self) -> Option<u32> {
        let node = self.faults.wrong_node(self.model.topology().nodes as u32)?;
        self.faults.note(self.now, self.current, Fault::WrongNode);
        Some(node)
    }
}

/// The end of a source file's path, from the crate's folder on.
pub(crate) fn short(path: &str) -> &str {
    path.rfind("/src/").map_or(path, |at| &path[at + 1..])
}
