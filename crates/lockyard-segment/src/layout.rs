//! What is where in the segment, version 13.
//!
//! | part | offset | bytes | written by |
//! |---|---|---|---|
//! | [`Header`] | 0 | 4,096 | the process |
//! | names of events | 4,096 | 4,096 | the process, once |
//! | [`Baseline`] | 8,192 | 4,096 | the process that resets: the resetter; children of forks |
//! | classes, [`CLASSES`] of [`ClassRecord`] | 12,288 | 524,288 | the process |
//! | the same at the last reset, [`CLASSES`] of [`Tally`] | 536,576 | 524,288 | the resetter |
//! | callers, [`CALLERS`] of [`CallerRecord`] | 1,060,864 | 131,072 | the process |
//! | those at the last reset, [`CALLERS`] of [`CallerTally`] | 1,191,936 | 24,576 | the resetter |
//! | thread pages, [`THREADS`] of [`ThreadPage`] | 1,216,512 | 4,096 each | the thread |
//! | tapes of the first threads, [`TAPES`] of [`Tape`] | 68,325,376 | 528,384 each | see [`tape`] |
//!
//! The first 48 bytes of the header are the same in every version with that [`MAGIC`]. Everything
//! else may change with [`VERSION`]; events are found by their names, so that a reader and a
//! process of different sets of events understand each other.
//!
//! A reset writes no counter: it notes what they are, and readers subtract.
//!
//! [`tape`]: crate::tape

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use lockyard::event;
use lockyard::platform::ThreadId;

use crate::histogram::BUCKETS;
pub use crate::text::Text;

/// What a segment begins with: another one where its first 48 bytes change, which all read.
pub const MAGIC: u64 = u64::from_le_bytes(*b"lockyar2");
/// The version of this layout.
pub const VERSION: u32 = 16;
/// Room for events.
pub const EVENTS: usize = 128;
/// Lock classes; number 0 is for locks without a class, and for classes beyond the last.
pub const CLASSES: usize = 256;
/// Pieces of code that take locks of a class: more are not told apart.
pub const CALLERS: usize = 512;
/// Records of callers in a page.
pub const CALLERS_OF_A_PAGE: usize = PAGE / size_of::<CallerRecord>();
/// Locks that a thread notes as held.
pub const HELD: usize = 34;
/// Of these, those noted of a wait because others wait for them.
pub const OUTER: usize = 4;
/// Places at which the holders of a class of locks wait for others that are counted apart.
pub const INNER: usize = 4;
/// The longest name of a class, and path of a file; of a longer path, its last part stays.
pub const PATH: usize = 168;
/// Reasons to leave a lock to the C library.
pub const FALLBACKS: usize = 16;
/// Thread pages: number 0 for threads without a record; records with longer names have none.
pub const THREADS: usize = ThreadId::MAX_QUEUED as usize + 1;
/// Threads that can be recorded: those with the pages up to this number.
pub const TAPES: usize = 256;
/// Events on a tape.
pub const TAPE: usize = 1 << 15;
/// The unit in which memory is made real.
pub const PAGE: usize = 4096;

const _: () = {
    assert!(event::COUNT + 2 <= EVENTS && CLASSES <= 256);
    assert!(size_of::<Header>() == PAGE && size_of::<Baseline>() == PAGE && size_of::<ThreadPage>() == PAGE);
    assert!(core::mem::offset_of!(ThreadPage, notes).is_multiple_of(64));
    assert!(size_of::<ClassRecord>() == 2048 && size_of::<Padded>() == 2048);
    assert!(size_of::<CallerRecord>() == 256 && size_of::<CallerTally>() == 48);
    assert!(CALLERS / CALLERS_OF_A_PAGE <= 64 && core::mem::offset_of!(Shared, callers).is_multiple_of(PAGE));
    assert!(THREADS_OFFSET == 1_216_512);
    assert!(TAPES_OFFSET == 68_325_376 && size_of::<Tape>() == 528_384);
};

/// Where thread pages begin.
pub const THREADS_OFFSET: usize = size_of::<Shared>();
/// Where tapes begin.
pub const TAPES_OFFSET: usize = THREADS_OFFSET + THREADS * PAGE;
/// The file's length; most of it is never made real.
pub const LENGTH: usize = TAPES_OFFSET + TAPES * size_of::<Tape>();

/// States of [`ThreadPage::tape`]: see [`tape`](crate::tape).
pub mod state {
    /// The thread is not recorded.
    pub const OFF: u64 = 0;
    /// There is no tape for it.
    pub const NONE: u64 = 1;
    /// A window begins with its next event. From here on: it is recorded.
    pub const BEGIN: u64 = 2;
    /// It writes events.
    pub const ON: u64 = 3;
}

/// What the segment is, and whose.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`], written last (Release).
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// The process.
    pub process: AtomicU32,
    /// When the segment was made, in the kernel's ticks since boot, as field 22 of a process's
    /// `stat`: a process that began later has no more of it than the id.
    pub made: AtomicU64,
    /// The namespace of the process id: its inode.
    pub namespace: AtomicU64,
    /// The `lockyard stat` that reads the last numbers and removes the name, or 0.
    pub session: AtomicU32,
    /// 1 once the process has ended.
    pub ended: AtomicU32,
    /// When it ended, nanoseconds of the monotonic clock.
    pub ended_ns: AtomicU64,
    /// When the segment was opened, likewise.
    pub opened_ns: AtomicU64,
    /// Where the stack and the code of the program begin: see `program`; or 0.
    pub stack: AtomicU64,
    /// Events that have names.
    pub events: AtomicU32,
    /// Reasons to fall back that have names.
    pub reasons: AtomicU32,
    /// Threads without a page: they count in private memory.
    pub private: AtomicU32,
    /// ... of which had a record beyond the last page.
    pub beyond: AtomicU32,
    /// Until when new threads are recorded, nanoseconds of the monotonic clock; 0: they are not.
    /// Written by the recorder, and where the process begins recorded by the process.
    pub recorded_until: AtomicU64,
    /// Threads that could not be recorded: there was no tape for them.
    pub unrecorded: AtomicU32,
    /// Threads that have got a page, one after the other.
    pub started: AtomicU32,
    /// Which locks were chosen, for people.
    pub locks: Text<128>,
    /// How often which reason made the C library serve.
    pub fallbacks: [AtomicU64; FALLBACKS],
    /// Names of the reasons.
    pub reason_names: [Text<32>; FALLBACKS],
    /// A bit per class whose record is real, and its names whole (Release).
    pub classes: [AtomicU64; CLASSES / 64],
    /// A bit per thread page that is real (Release).
    pub pages: [AtomicU64; THREADS / 64],
    /// A bit per page of callers that is real (Release).
    pub callers: AtomicU64,
    /// A bit per tape that is real (Release).
    pub tapes: [AtomicU64; TAPES / 64],
}

/// What the counters were when somebody reset them, and which children could not tell.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Baseline {
    /// When, nanoseconds of the monotonic clock; 0: never.
    pub reset_ns: AtomicU64,
    /// The sums of events.
    pub events: [AtomicU64; EVENTS],
    /// Fallbacks.
    pub fallbacks: [AtomicU64; FALLBACKS],
    /// Children of forks, and theirs, that could make no segment (Release). They write it: this
    /// page is what they keep of the process's.
    pub untold: AtomicU64,
    /// Why the last of them could not: the [word](crate::Refused) of it.
    pub untold_why: AtomicU64,
}

/// What a class has counted.
#[derive(Debug)]
#[repr(C)]
pub struct Tally {
    /// Locks that have got the class, in the life of the process; 0: not known.
    pub locks: AtomicU64,
    /// Acquisitions; in a [`Baseline`] only, else they are in the thread pages.
    pub acquired: AtomicU64,
    /// Acquisitions that did not succeed at once.
    pub contended: AtomicU64,
    /// ... of which ended without the lock.
    pub gave_up: AtomicU64,
    /// Tries that found the lock taken, and did not wait.
    pub refused: AtomicU64,
    /// How often their threads slept.
    pub parks: AtomicU64,
    /// How often they asked for the lock to be kept for them.
    pub handoffs: AtomicU64,
    /// Waiting time.
    pub wait_ns: AtomicU64,
    /// The longest wait.
    pub wait_max: AtomicU64,
    /// Hold time of the acquisitions whose hold time was taken: one in 64 to 256.
    pub hold_ns: AtomicU64,
    /// The longest hold time known: of those, and of all that had others wait.
    pub hold_max: AtomicU64,
    /// How long threads that held one, while others waited for it, waited for other locks: by the
    /// code that waited, as far as there is room. See `within`.
    pub within: [CallerTime; INNER],
    /// Waits by [class of time](crate::histogram).
    pub waits: [AtomicU64; BUCKETS],
    /// Hold times, likewise.
    pub holds: [AtomicU64; BUCKETS],
    /// The locks for which most was waited.
    pub hottest: crate::hottest::Hottest,
}

/// A lock class.
#[derive(Debug)]
#[repr(C, align(2048))]
pub struct ClassRecord {
    /// The code that makes these locks, or takes them first: its place in the file that `name` is,
    /// or its address if `name` is no path. 0: unknown.
    pub site: AtomicU64,
    /// Which lock: "mutex", "rwsem".
    pub kind: Text<16>,
    /// What it is for.
    pub name: Text<PATH>,
    /// 1 once a lock has left it: its code only passes locks on.
    pub passes: AtomicU64,
    /// What it has counted.
    pub tally: Tally,
}

/// A [`Tally`] in as much room as a class has.
#[derive(Debug)]
#[repr(C, align(2048))]
pub struct Padded(pub Tally);

/// In [`ThreadPage::waiting_for`]: the wait ends in time without the lock.
pub const WITH_DEADLINE: u64 = 1 << 32;
/// The thread was put into the lock's queue, asleep, and has not run since.
pub const ASLEEP: u64 = 1 << 33;
/// The thread that held the lock then was not seen, among too many.
pub const UNSEEN: u64 = 1 << 34;

/// What one thread has counted. Written by that thread alone, except number 0.
///
/// The order of the fields: what an acquisition and its release use is in one cache line, if the
/// thread holds one other lock at most, apart from the count of the class.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct ThreadPage {
    /// Lock events, by number; behind them the words of
    /// [`EventWords`](lockyard::platform::linux::threads::EventWords) that are none.
    pub events: [AtomicU64; EVENTS],
    /// Acquisitions, by class: one for each value of the byte in which a class's number is kept.
    pub acquired: [AtomicU64; 256],
    /// In bits 0 to 7 how many notes of `held` are in use, above these how many were made, by all
    /// threads that had the page.
    pub notes: AtomicU64,
    /// Whether the thread writes its tape: see [`tape`](crate::tape).
    pub tape: AtomicU64,
    /// The locks that the thread holds, in no order.
    pub held: [Held; HELD],
    /// A wait that is not in its class's tally yet: its [caller](crate::Caller), or 0.
    pub waited: AtomicU64,
    /// How long the wait was that is not in its class's tally yet.
    pub waited_ns: AtomicU64,
    /// How often the thread slept in it.
    pub waited_parks: AtomicU64,
    /// How often it asked for the lock to be kept for it.
    pub waited_handoffs: AtomicU64,
    /// The locks that the thread held meanwhile while others waited for them, and how long these
    /// waited so: as many as there are, then 0.
    pub waited_within: [CallerTime; OUTER],
    /// The [caller](crate::Caller) of the wait under way, or 0.
    pub waiting: AtomicU64,
    /// Since when, nanoseconds of the monotonic clock. 0: not yet, the thread sleeps at a condition
    /// variable; the thread stores its moment that puts it into the queue of the mutex. Otherwise
    /// written before `waiting`.
    pub waiting_since: AtomicU64,
    /// The kernel's name of the thread that held the lock when the wait began, or 0; and
    /// [`WITH_DEADLINE`], [`ASLEEP`], [`UNSEEN`].
    pub waiting_for: AtomicU64,
    /// The lock's address.
    pub waiting_lock: AtomicU64,
    /// How long the thread had been on its way to a CPU before the wait that it begins asleep.
    pub waking: AtomicU64,
    /// How long the lock had been held, while others waited, when that wait began.
    pub held_before: AtomicU64,
    /// The address of a lock of this thread whose hold had a time when the first of others came,
    /// the last such one. A waiter writes it.
    pub late_lock: AtomicU64,
    /// When it came, likewise.
    pub late_since: AtomicU64,
    /// When the hold ends that the thread is about to end, a time as above, or 0.
    pub ending: AtomicU64,
    /// The kernel's name of the thread.
    pub thread: AtomicU64,
    /// Its name, as it was at its first wait.
    pub name: Text<16>,
}

/// Of [`ThreadPage::notes`]: notes in use, and one note more made.
pub(crate) const DEPTH: u64 = 0xff;
pub(crate) const MADE: u64 = 1 << DEPTH.count_ones();
/// ... and that a thread which had the page ended with a lock: what has the record's name for its
/// holder may be held by nobody.
const LEFT: u64 = 1 << 62;

impl ThreadPage {
    /// How many notes are in use.
    pub(crate) fn depth(&self) -> usize {
        ((self.notes.load(Acquire) & DEPTH) as usize).min(HELD)
    }

    /// Whether a thread that had the page ended with a lock.
    pub(crate) fn has_left_locks(&self) -> bool {
        self.notes.load(Relaxed) & LEFT != 0
    }

    /// Whether a thread has counted here. In the child of a fork those of its parent's threads have
    /// pages, too.
    pub(crate) fn is_used(&self) -> bool {
        self.thread.load(Relaxed) != 0 || self.events.iter().any(|count| count.load(Relaxed) != 0)
    }

    /// Changes the state of the tape from `from` to `to`. `false`: the recorder has stored another.
    pub(crate) fn change(&self, from: u64, to: u64) -> bool {
        self.tape.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    /// The page is `thread`'s from now on. What the thread that had it before has left goes: it
    /// ended without a release. Its last wait stays, until it is counted.
    pub(crate) fn begin_anew(&self, thread: u32) {
        self.waiting.store(0, Relaxed);
        self.ending.store(0, Relaxed);
        self.name.set(b"");
        self.tape.store(state::OFF, Relaxed);
        self.thread.store(thread.into(), Relaxed);
        // They go on: what a late waiter saw is no word of this thread.
        let notes = self.notes.load(Relaxed);
        let left = if notes & DEPTH > 0 { LEFT } else { 0 };
        self.notes.store(notes & !(DEPTH | 1 << 63) | left, Relaxed);
    }
}

/// What a recorded thread did, event by event: a ring. Written by that thread, but for `read`.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Tape {
    /// Events written so far (Release).
    pub written: AtomicU64,
    /// Windows that ended because the ring was full.
    pub full: AtomicU64,
    /// When the last event was written, nanoseconds of the monotonic clock.
    pub last: AtomicU64,
    /// When the thread's CPU time was read, likewise.
    pub looked: AtomicU64,
    /// What it was.
    pub cpu: AtomicU64,
    /// How often the thread had gone to sleep by then.
    pub sleeps: AtomicU64,
    /// Whether the last event was a try in vain.
    pub tried: AtomicU64,
    /// Whether the thread is writing an event.
    pub busy: Busy,
    /// Events that the recorder has read so far (Release), apart from the thread's words.
    pub read: Line,
    /// Number n is at n modulo [`TAPE`]: its time, and what it is.
    pub events: Events,
}

/// 0: nothing is written; 1: an event is; more: and others were to be, in a signal handler.
#[derive(Debug)]
#[repr(transparent)]
pub struct Busy(pub AtomicU64);

/// A word on a line of its own.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Line(pub AtomicU64);

/// The events of a [`Tape`].
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Events(pub [[AtomicU64; 2]; TAPE]);

/// A piece of code and a time.
#[derive(Debug, Default)]
#[repr(C)]
pub struct CallerTime {
    /// The [caller](crate::Caller), or 0.
    pub caller: AtomicU64,
    /// Nanoseconds.
    pub ns: AtomicU64,
}

/// A lock that a thread holds. Written by that thread; others change `since`.
#[derive(Debug)]
#[repr(C)]
pub struct Held {
    /// The lock's address.
    pub lock: AtomicU64,
    /// The code that took it: its [caller](crate::Caller).
    pub caller: AtomicU64,
    /// Since when, nanoseconds of the monotonic clock, if that is known: see `holds`.
    pub since: AtomicU64,
}

/// What the callers of a kind of lock have waited, and made others wait.
#[derive(Debug)]
#[repr(C)]
pub struct CallerTally {
    /// Waits that began here.
    pub waits: AtomicU64,
    /// Their time.
    pub wait_ns: AtomicU64,
    /// The longest.
    pub wait_max: AtomicU64,
    /// Acquisitions here for whose release others waited.
    pub holds: AtomicU64,
    /// Their hold time, from the moment when the first of the others came.
    pub hold_ns: AtomicU64,
    /// The longest.
    pub hold_max: AtomicU64,
}

/// A piece of code that takes locks of a class.
#[derive(Debug)]
#[repr(C, align(256))]
pub struct CallerRecord {
    /// The [caller](crate::Caller); 0: nobody's.
    pub caller: AtomicU64,
    /// Its place in the file that `file` is, or its address if there is none. Written last.
    pub place: AtomicU64,
    /// The kernel's name of the thread that held longest, of those that held for a millisecond.
    pub holder: AtomicU64,
    /// That thread's name.
    pub name: Text<16>,
    /// The file.
    pub file: Text<PATH>,
    /// What it has counted.
    pub tally: CallerTally,
}

/// All but the thread pages.
#[derive(Debug)]
#[repr(C)]
pub struct Shared {
    /// What it is.
    pub header: Header,
    /// Names of the events, by number.
    pub names: [Text<32>; EVENTS],
    /// What was counted before the reset.
    pub baseline: Baseline,
    /// The classes.
    pub classes: [ClassRecord; CLASSES],
    /// What they had counted before the reset.
    pub class_baselines: [Padded; CLASSES],
    /// The callers.
    pub callers: [CallerRecord; CALLERS],
    /// What they had counted before the reset.
    pub caller_baselines: [CallerTally; CALLERS],
}
