//! The side that records: reads the [tapes](crate::tape) of another process.

use core::sync::atomic::Ordering::*;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::file::File;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::callers::Caller;
use crate::expected;
use crate::layout::{TAPES, ThreadPage, WITH_DEADLINE, state};
use crate::process::{self, Image};
use crate::reader::Reader;
use crate::refusal::Refusal;
use crate::tape::{self, Event};
use crate::told;

/// A process that is recorded. One recorder at a time: two would share the events, so the second is
/// refused.
///
/// When this is dropped the process is not recorded any more.
#[derive(Debug)]
pub struct Recorder {
    reader: Reader,
    on: bool,
    /// Since when.
    since: u64,
    /// Threads without a tape that the process had counted before.
    before: u32,
    /// Windows that ended because a ring was full, and what the tapes have counted of them so far.
    cut: u64,
    full: [u64; TAPES],
    /// The segment's file, locked: the system unlocks it when the recorder ends, however it does.
    _claim: Option<File>,
}

/// A class of locks, as the process has told it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedClass {
    /// Which lock: "mutex", "rwlock".
    pub kind: String,
    /// Its name, or the file of the code that makes its locks.
    pub name: String,
    /// That code's place there; 0: the name is one for people.
    pub site: u64,
    /// Whether locks that have it get another one with their first hold.
    pub passes: bool,
}

/// A lock, as the note of a thread that waits for it or holds it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Its address.
    pub lock: u64,
    /// The number of its class.
    pub class: usize,
    /// It is, or was to be, shared.
    pub is_shared: bool,
}

/// What a tape has of its thread's last window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// All.
    Whole,
    /// Nothing: the thread has told nothing since the window was to begin.
    Nothing,
    /// Not all: the ring was full.
    Cut,
}

/// What a thread was at when it was recorded no more.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The number of its tape.
    pub tape: usize,
    /// The kernel's name of the thread. It may have ended.
    pub thread: u32,
    /// What its tape has of its last window.
    pub told: Told,
    /// The lock that it waited for, since when, and whether that ends at a deadline.
    pub waits: Option<(Noted, u64, bool)>,
    /// The locks that it held, as far as noted.
    pub holds: Vec<Noted>,
    /// When its CPU time was read, and what it was; zeroes: never.
    pub cpu: (u64, u64),
}

/// The segment's file of `process`, locked. `None`: another recorder has it.
fn claim(image: Image) -> Option<File> {
    let (file, _) = process::open_for_reader(image, OFlags::RDONLY).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}

impl Recorder {
    /// For `process`, which is running, and has a segment.
    ///
    /// # Errors
    /// Why it cannot be recorded.
    pub fn open(process: u32) -> Result<Self, Refusal> {
        let reader = Reader::map(Image::of(process), true, true)?;
        let claim = Some(claim(Image::of(process)).ok_or(Refusal::Recorded(process))?);
        let mut recorder = Self::new(reader, claim, true);
        // What an earlier recorder has left: one that was killed has let windows go on.
        recorder.pause();
        recorder.cut = 0;
        recorder.before = recorder.unrecorded();
        tape::all(recorder.reader.shared()).for_each(|(_, tape)| tape.skip());
        Ok(recorder)
    }

    fn new(reader: Reader, claim: Option<File>, on: bool) -> Self {
        Self { reader, on, since: 0, before: 0, cut: 0, full: [0; TAPES], _claim: claim }
    }

    /// For each segment of session `session` whose [key](Self::key) is not among `known`.
    pub fn of_session(session: u32, known: &[u64]) -> Vec<Self> {
        let members = Reader::members(session).into_iter();
        let readers = members.filter_map(|image| Reader::map(image, true, false).ok());
        let new = readers.filter(|reader| !known.contains(&reader.key()));
        let open = |reader: Reader| {
            let (claim, on) = (claim(reader.image()), reader.is_recorded());
            Self::new(reader, claim, on)
        };
        new.map(open).collect()
    }

    /// What tells its segment from others: a program that execs another has a new one.
    pub fn key(&self) -> u64 {
        self.reader.key()
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.reader.process()
    }

    /// Its segment.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The process is recorded from here on: every thread that it has, and will have; whether it
    /// was not before. Called again it begins new windows where a ring was full; to be called
    /// several times a second, or else new threads take the recorder to be gone.
    pub fn record(&mut self) -> bool {
        let begins = !std::mem::replace(&mut self.on, true);
        if begins {
            self.since = Linux::now();
        }
        expected::begin(&self.reader.shared().header);
        self.threads().for_each(|page| tape::begin(&page.tape));
        self.count_cuts();
        begins
    }

    /// One of each tape at most: the counters are another process's, and may say anything.
    fn count_cuts(&mut self) {
        for (number, tape) in tape::all(self.reader.shared()) {
            let full = tape.full.load(Relaxed);
            self.cut += u64::from(std::mem::replace(&mut self.full[number], full) != full);
        }
    }

    /// The kernel's names of its threads. Some may have ended.
    pub fn names(&self) -> impl Iterator<Item = u32> {
        self.threads().map(|page| page.thread.load(Relaxed) as u32)
    }

    /// Nothing is recorded from here on: what the threads were at. None, if nothing was.
    pub fn pause(&mut self) -> Vec<Standing> {
        if !std::mem::take(&mut self.on) {
            return Vec::new();
        }
        expected::end(&self.reader.shared().header);
        let off = |page: &ThreadPage| self.standing(page, page.tape.swap(state::OFF, Relaxed));
        let standing = self.threads().filter_map(off).collect();
        self.count_cuts();
        standing
    }

    /// Since when it is recorded, nanoseconds of the monotonic clock; 0: since it began.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// When the process ended, if it had time to say so.
    pub fn ended_at(&self) -> Option<u64> {
        Some(self.reader.shared().header.ended_ns.load(Relaxed)).filter(|at| *at != 0)
    }

    fn standing(&self, page: &ThreadPage, tape: u64) -> Option<Standing> {
        let shared = self.reader.shared();
        let slot = tape::slot_of(shared, page).filter(|slot| *slot < TAPES && tape != state::NONE)?;
        let noted =
            |caller: Caller, lock: u64| Noted { lock, class: caller.class().index(), is_shared: caller.is_shared() };
        let waits = told::under_way(page, 0).filter(|wait| !wait.is_asleep);
        let held = page.held[..page.depth()].iter();
        let held =
            held.filter_map(|held| Some(noted(Caller::from_raw(held.caller.load(Relaxed))?, held.lock.load(Relaxed))));
        Some(Standing {
            tape: slot,
            thread: page.thread.load(Relaxed) as u32,
            told: match tape {
                state::ON => Told::Whole,
                state::BEGIN => Told::Nothing,
                _ => Told::Cut,
            },
            waits: waits.map(|wait| (noted(wait.caller, wait.lock), wait.since, wait.held_by & WITH_DEADLINE != 0)),
            holds: held.collect(),
            cpu: tape::all(shared).find(|(known, _)| *known == slot).map_or((0, 0), |(_, tape)| tape.cpu()),
        })
    }

    /// All pages but that of threads without a record.
    fn threads(&self) -> impl Iterator<Item = &ThreadPage> {
        self.reader.pages().filter(|page| page.thread.load(Relaxed) != 0)
    }

    /// Takes what was recorded since the last call; the first argument is the number of the tape.
    /// `None`: events of it were lost.
    pub fn drain(&self, mut take: impl FnMut(usize, Option<Event>)) {
        for (number, tape) in tape::all(self.reader.shared()) {
            tape.drain(|event| take(number, event));
        }
    }

    /// Windows that ended because nobody read the ring in time, as of the last [`record`] or
    /// [`pause`].
    ///
    /// [`record`]: Self::record
    /// [`pause`]: Self::pause
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Threads for which there was no tape.
    pub fn unrecorded(&self) -> u32 {
        self.reader.shared().header.unrecorded.load(Relaxed).saturating_sub(self.before)
    }

    /// The class with number `number`, if the process has told it.
    pub fn class(&self, number: usize) -> Option<RecordedClass> {
        let shared = self.reader.shared();
        let bits = shared.header.classes.get(number / 64)?.load(Acquire);
        let record = shared.classes.get(number).filter(|_| bits & 1 << (number % 64) != 0)?;
        Some(RecordedClass {
            kind: record.kind.get(),
            name: record.name.get(),
            site: record.site.load(Relaxed),
            passes: record.passes.load(Acquire) != 0,
        })
    }
}

impl Reader {
    /// Whether new threads of the process are to be recorded.
    pub fn is_recorded(&self) -> bool {
        self.shared().header.recorded_until.load(Relaxed) != 0
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.pause();
    }
}
