//! What each thread notes of itself for the detector of deadlocks, and where the detector finds it.
//!
//! | what | changed by | under |
//! |---|---|---|
//! | `Noted` of a thread | the thread; the thread that drops a guard of it | its mutex |
//! | `THREADS` | a thread at its first lock, and at its exit | its mutex, taken before any other |
//!
//! The checker takes all of them, `THREADS` first: what it reads was true at one instant.

// This is where the seam ends: what threads note is kept by std's means.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::backtrace::Backtrace;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread_local;
use std::time::Duration;

pub(crate) use std::thread::{Thread, ThreadId};

use super::mode::Mode;

/// A lock that a thread holds or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockUse {
    pub(crate) address: usize,
    pub(crate) kind: &'static str,
    pub(crate) mode: Mode,
}

impl LockUse {
    fn of<L>(lock: &L, kind: &'static str, mode: Mode) -> Self {
        Self { address: core::ptr::from_ref(lock).addr(), kind, mode }
    }

    /// Where the lock is: the address of its raw lock, as `raw()` gives it.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The name of the lock's type.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// How it is held or wanted.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

impl core::fmt::Display for LockUse {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} at {:#x} ({})", self.kind, self.address, self.mode)
    }
}

/// A wait that only the lock ends.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub(crate) lock: LockUse,
    /// Which of the thread's waits.
    pub(crate) number: u64,
    pub(crate) backtrace: Arc<Backtrace>,
}

/// What a thread says of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noted {
    pub(crate) holds: Vec<LockUse>,
    pub(crate) wait: Option<Wait>,
    waits: u64,
}

impl Noted {
    /// The thread has the lock. The hold that it upgraded is noted already.
    fn hold(&mut self, lock: LockUse) {
        if lock.mode != Mode::Upgrading {
            self.holds.push(lock);
        }
    }

    /// Where the last hold of the lock at `address` as `mode` is noted.
    fn place(&self, address: usize, mode: Mode) -> Option<usize> {
        self.holds.iter().rposition(|held| held.address == address && held.mode == mode)
    }
}

/// A thread and its notes.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) thread: Thread,
    noted: Mutex<Noted>,
}

static THREADS: Mutex<Vec<Arc<Record>>> = Mutex::new(Vec::new());

/// Takes `mutex`; a panic under it has left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In `THREADS` while the thread lives.
struct Listed(Arc<Record>);

impl Drop for Listed {
    fn drop(&mut self) {
        locked(&THREADS).retain(|record| !Arc::ptr_eq(record, &self.0));
    }
}

thread_local! {
    static MINE: Listed = {
        let record = Arc::new(Record { thread: std::thread::current(), noted: Mutex::default() });
        locked(&THREADS).push(record.clone());
        Listed(record)
    };
}

/// Changes the notes of the calling thread. `None`: it exits, and notes no more.
fn mine<R>(change: impl FnOnce(&mut Noted) -> R) -> Option<R> {
    MINE.try_with(|mine| change(&mut locked(&mine.0.noted))).ok()
}

/// The records and notes of all threads, as they are at one instant.
pub(crate) fn all() -> Vec<(Arc<Record>, Noted)> {
    let threads = locked(&THREADS);
    let noted: Vec<_> = threads.iter().map(|record| locked(&record.noted)).collect();
    threads.iter().zip(&noted).map(|(record, noted)| (record.clone(), Noted::clone(noted))).collect()
}

/// Lets `time` pass.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

pub(crate) fn acquired<L>(lock: &L, kind: &'static str, mode: Mode) {
    mine(|noted| noted.hold(LockUse::of(lock, kind, mode)));
}

/// Of several holds of `lock` as `mode` the last.
pub(crate) fn released<L>(lock: &L, mode: Mode) {
    let address = core::ptr::from_ref(lock).addr();
    let forget = |noted: &mut Noted| match noted.place(address, mode) {
        Some(held) => {
            noted.holds.remove(held);
            true
        }
        None => false,
    };
    if mine(forget) == Some(false) {
        // The raw lock was released by another thread, in the name of the one that took it.
        locked(&THREADS).iter().any(|record| forget(&mut locked(&record.noted)));
    }
}

/// The calling thread holds `lock` as `to`, not as `from`, from now on.
pub(crate) fn changed<L>(lock: &L, from: Mode, to: Mode) {
    let address = core::ptr::from_ref(lock).addr();
    mine(|noted| {
        if let Some(held) = noted.place(address, from).and_then(|held| noted.holds.get_mut(held)) {
            held.mode = to;
        }
    });
}

/// The calling thread is about to wait for `lock`.
pub(crate) fn waits<L>(lock: &L, kind: &'static str, mode: Mode) -> Waiting {
    let lock = LockUse::of(lock, kind, mode);
    let backtrace = Arc::new(Backtrace::force_capture());
    mine(|noted| {
        noted.waits += 1;
        noted.wait = Some(Wait { lock, number: noted.waits, backtrace });
    });
    Waiting(lock)
}

/// The calling thread waits, until this is dropped.
pub(crate) struct Waiting(LockUse);

impl Waiting {
    /// The wait has ended with the lock.
    pub(crate) fn acquired(self) {
        let lock = self.0;
        mine(|noted| {
            noted.wait = None;
            noted.hold(lock);
        });
        core::mem::forget(self);
    }
}

/// A lock call that panics has ended its wait.
impl Drop for Waiting {
    fn drop(&mut self) {
        mine(|noted| noted.wait = None);
    }
}
