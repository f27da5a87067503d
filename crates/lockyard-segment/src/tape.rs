//! What a thread does with its locks, event by event, for a recorder in another process.
//!
//! | [`ThreadPage::tape`] | meaning | stored by |
//! |---|---|---|
//! | [`OFF`] | the thread is not recorded | the recorder; a new thread |
//! | | the window ended because the ring was full | the thread, instead of `ON` |
//! | [`NONE`] | there is no tape for the thread, or no memory | the thread, instead of `BEGIN` |
//! | [`BEGIN`] | a window begins with the thread's next event | the recorder, instead of `OFF` |
//! | | | a new thread, instead of `OFF`; a thread in a handler, instead of `ON` |
//! | [`ON`] | the thread writes events | the thread, instead of `BEGIN` |
//!
//! The thread changes the word by compare-exchange, so that no store of the recorder's is lost. The
//! thread never waits: the recorder stores `BEGIN` again once it has read a full ring.
//!
//! A recorder that was killed takes nothing back: its threads are recorded until their rings are
//! full. Whether later ones are: `expected`.
//!
//! | event | its word's upper 48 bits | bits 8–15 |
//! |---|---|---|
//! | a window begins | the kernel's name of the thread | |
//! | asleep; without a CPU | nanoseconds of the time since the event before | |
//! | others | the address of the lock, condition variable or semaphore | number of its class |
//!
//! A thread writes its wait at a condition variable at the call, before the release of the mutex,
//! and the end of that wait as soon as it runs again, before it asks for the mutex. Of a semaphore
//! it writes the end only if it had to wait, and a try in vain as one of a lock. A signal is
//! written before the thread that waits can run. These events count nothing ([`tell`]).
//!
//! **Time off the CPU** is what passed less what the thread's CPU clock says. To read that clock is
//! a system call, so it is read where the thread has slept for a lock or ends, and where more than
//! [`GAP_NS`] have passed since the event before. What a wait for a lock or a signal took is no
//! such time. A thread that has not gone to sleep meanwhile, as the kernel counts, had no CPU. Nor
//! has it while it reads that clock: what the look took is written as such time.
//!
//! **Ordering.** The thread stores an event, then `written` with Release; the recorder loads
//! `written` with Acquire. The recorder loads events, then stores `read` with Release; the thread
//! loads `read` with Acquire before it overwrites.
//!
//! **Cost.** Not recorded: a load and a branch at each call that is told. Recorded: a look at the
//! clock, and 16 bytes.

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads;

use crate::callers::Caller;
use crate::classes::Class;
use crate::layout::state::{BEGIN, NONE, OFF, ON};
use crate::layout::{Busy, PAGE, Shared, TAPE, TAPES, TAPES_OFFSET, THREADS_OFFSET, Tape, ThreadPage};
use crate::process::quietly;
use crate::writer;

/// After so long without an event the thread's CPU clock is read.
pub const GAP_NS: u64 = 20_000;
/// After so long behind a try in vain, already: a thread that tries again yields its CPU in
/// between.
const TRY_NS: u64 = 1_000;
/// After so long without a look it is read as well: sleeps in shorter gaps are not told, and are
/// not to be taken for a part of a later one.
const LOOK_NS: u64 = 100_000;

/// So many calls in a signal handler are taken to be within the event that the handler interrupted.
/// After them, the handler has left that event by a jump: another window begins. Where that is
/// wrong, the event ends that window when it is written, and may take the place of one of it.
const HANDLER: u64 = 1_000;

/// What an event is: the lowest byte of its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A window begins.
    Window,
    /// Of the time since the event before, the thread slept for so long.
    Off,
    /// Of the time since the event before, the thread was ready, and had no CPU, for so long.
    Preempted,
    /// The thread asks for a lock, to share it.
    AskRead,
    /// The thread asks for a lock, for itself alone.
    AskWrite,
    /// It has the lock that it asked for, and has waited for.
    Grant,
    /// It gives a lock back.
    Release,
    /// It did not get a lock that it would have shared.
    FailRead,
    /// It did not get a lock for itself alone, or a unit of a semaphore.
    FailWrite,
    /// It does without the lock that it asked for, or the signal, and has waited for it.
    GaveUp,
    /// It waits at a condition variable from here on, or has a unit of a semaphore unless it is
    /// woken next, or gives up.
    Wait,
    /// It has what it waited for.
    Woken,
    /// It wakes one that waits at a condition variable, or adds a unit to a semaphore.
    Signal,
    /// It wakes all that wait at a condition variable.
    Broadcast,
}

impl Kind {
    /// The kind with this number.
    pub fn of(number: u8) -> Option<Self> {
        use Kind::{AskRead, AskWrite, FailRead, FailWrite, GaveUp, Grant, Off, Preempted, Release, Window};
        use Kind::{Broadcast, Signal, Wait, Woken};
        let locks = [Window, Off, Preempted, AskRead, AskWrite, Grant, Release, FailRead, FailWrite, GaveUp];
        let signals = [Wait, Woken, Signal, Broadcast];
        locks.iter().chain(&signals).nth(usize::from(number)).copied()
    }
}

/// An event as a recorder reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, nanoseconds of the monotonic clock.
    pub at: u64,
    /// What.
    pub kind: Kind,
    /// A lock's address, or that of a condition variable or semaphore; the thread; nanoseconds.
    pub value: u64,
    /// The number of that object's class.
    pub class: usize,
}

impl Event {
    fn word(kind: Kind, value: u64, class: usize) -> u64 {
        value << 16 | (class as u64 & 0xff) << 8 | kind as u64
    }

    fn read(at: u64, word: u64) -> Option<Self> {
        let kind = Kind::of(word as u8)?;
        Some(Self { at, kind, value: word >> 16, class: (word >> 8 & 0xff) as usize })
    }
}

/// The thread of `page` has asked for the lock at `lock`.
#[inline]
pub(crate) fn asked(page: &ThreadPage, caller: Caller, lock: usize) {
    if is_on(page) {
        let kind = if caller.is_shared() { Kind::AskRead } else { Kind::AskWrite };
        write(page, kind, lock, caller.class(), false);
    }
}

/// It has the lock, after a wait in which it slept or not.
#[inline]
pub(crate) fn granted(page: &ThreadPage, caller: Caller, lock: usize, slept: bool) {
    if is_on(page) {
        write(page, Kind::Grant, lock, caller.class(), slept);
    }
}

/// It did not get the lock, and has not waited.
#[inline]
pub(crate) fn failed(page: &ThreadPage, caller: Caller, lock: usize) {
    if is_on(page) {
        let kind = if caller.is_shared() { Kind::FailRead } else { Kind::FailWrite };
        write(page, kind, lock, caller.class(), false);
    }
}

/// It does without the lock, after a wait in which it slept or not.
#[inline]
pub(crate) fn gave_up(page: &ThreadPage, caller: Caller, lock: usize, slept: bool) {
    if is_on(page) {
        write(page, Kind::GaveUp, lock, caller.class(), slept);
    }
}

/// It has given the lock back.
#[inline]
pub(crate) fn given_back(page: &ThreadPage, lock: usize) {
    if is_on(page) {
        write(page, Kind::Release, lock, Class::NONE, false);
    }
}

/// The thread of `page` ends: what it has done since its last event is told.
pub(crate) fn ends(page: &ThreadPage) {
    if page.tape.load(Relaxed) == ON {
        write(page, Kind::Off, 0, Class::NONE, true);
    }
}

/// The kind of class that condition variables have.
pub const CONDITION: &[u8] = b"condition";
/// The kind of class that semaphores have whose units are no holds: `semaphore` is a lock's.
pub const SEMAPHORE: &[u8] = b"sem_t";

/// Whether what the thread of `page` does is to be told. One load.
#[inline(always)]
pub fn is_on(page: &ThreadPage) -> bool {
    page.tape.load(Relaxed) >= BEGIN
}

/// The calling thread, whose page is `page`, does `what` with the condition variable or semaphore
/// at `object`: [`Kind::Wait`], [`Kind::Woken`], [`Kind::GaveUp`], [`Kind::FailWrite`],
/// [`Kind::Signal`] or [`Kind::Broadcast`]. Nothing is counted. For signal handlers too.
#[inline]
pub fn tell(page: &ThreadPage, what: Kind, class: Class, object: usize) {
    if is_on(page) {
        write(page, what, object, class, matches!(what, Kind::Woken | Kind::GaveUp));
    }
}

/// Writes an event, if the thread is recorded. `slept`: for the lock or the signal, just before.
#[inline(never)]
fn write(page: &ThreadPage, kind: Kind, lock: usize, class: Class, slept: bool) {
    let state = page.tape.load(Relaxed);
    // A thread that has given its record back, or a child that nobody told of its fork, still knows
    // the page.
    if state != ON && state != BEGIN || page.thread.load(Relaxed) != u64::from(threads::kernel_id_of_caller()) {
        return;
    }
    let Some(tape) = mine(page) else {
        page.change(BEGIN, NONE);
        return;
    };
    // A signal handler, in the middle of an event: the window ends with that one.
    match tape.busy.enter() {
        0 => {}
        HANDLER => {
            tape.busy.leave();
            page.change(ON, BEGIN);
            return;
        }
        _ => return,
    }
    if state == ON || page.change(BEGIN, ON) {
        let begins = state == BEGIN;
        if !tape.event(page, kind, Event::word(kind, lock as u64, class.index()), slept, begins) {
            page.change(ON, OFF);
        }
    }
    if tape.busy.leave() {
        page.change(ON, BEGIN);
    }
}

/// CPU time of the calling thread. 0 where the system does not say.
fn cpu_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for an answer.
    quietly(|| unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) });
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// How often the calling thread has gone to sleep. 0 where the system does not say.
fn sleeps() -> u64 {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: room for an answer; zeroes are one.
    quietly(|| unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) });
    // SAFETY: as above.
    unsafe { usage.assume_init() }.ru_nvcsw as u64
}

impl Busy {
    /// How many calls have come since an event began that is not written yet; 0: there is none, and
    /// one begins. Only for the tape's own thread.
    fn enter(&self) -> u64 {
        let before = self.0.load(Relaxed);
        self.0.store(before.saturating_add(1), Relaxed);
        before
    }

    /// The event is written. Whether others came in between: after [`HANDLER`] of them it is no
    /// longer noted that there is one.
    fn leave(&self) -> bool {
        let nested = self.0.load(Relaxed) != 1;
        self.0.store(0, Relaxed);
        nested
    }
}

impl Tape {
    /// Writes the event with this word, behind what is to be said before it. `false`: the ring is
    /// full.
    fn event(&self, page: &ThreadPage, kind: Kind, word: u64, slept: bool, begins: bool) -> bool {
        let mut now = Linux::now();
        if begins {
            if !self.push(now, Event::word(Kind::Window, page.thread.load(Relaxed), 0)) {
                return false;
            }
            self.last.store(now, Relaxed);
            self.off(now);
        }
        let gap = now.saturating_sub(self.last.load(Relaxed));
        let long = if self.tried.load(Relaxed) != 0 { TRY_NS } else { GAP_NS };
        use Kind::{AskRead, AskWrite, Broadcast, FailRead, FailWrite, GaveUp, Grant, Signal, Wait, Woken};
        let waited = matches!(kind, Grant | GaveUp | Woken);
        let enters = matches!(kind, AskRead | AskWrite | Grant | Wait | Woken | Signal | Broadcast);
        // Of its own accord it looks where no section is made longer.
        let is_due = !enters && now.saturating_sub(self.looked.load(Relaxed)) > LOOK_NS;
        let mut looked = None;
        if slept || gap > long || is_due {
            let (off, what) = self.off(now);
            looked = Some(Linux::now());
            // 48 bits: three days.
            let off = off.min(gap).min((1 << 48) - 1);
            if !waited && gap > long && off > 0 && !self.push(now, Event::word(what, off, 0)) {
                return false;
            }
        }
        // What the look took is no time of the program: before its section, or behind it.
        let cost = looked.map(|then| (then, Event::word(Kind::Preempted, then.saturating_sub(now), 0)));
        let written = match cost {
            Some((then, cost)) if enters => {
                now = then;
                self.push(then, cost) && self.push(then, word)
            }
            Some((then, cost)) => {
                let written = self.push(now, word) && self.push(then, cost);
                now = then;
                written
            }
            None => {
                now = if begins && enters { Linux::now() } else { now };
                self.push(now, word)
            }
        };
        self.last.store(now, Relaxed);
        self.tried.store(u64::from(matches!(kind, FailRead | FailWrite)), Relaxed);
        written
    }

    /// Appends an event. `false`: the ring is full.
    fn push(&self, at: u64, word: u64) -> bool {
        let written = self.written.load(Relaxed);
        if written.wrapping_sub(self.read.0.load(Acquire)) >= TAPE as u64 {
            self.full.store(self.full.load(Relaxed).wrapping_add(1), Relaxed);
            return false;
        }
        let [time, what] = &self.events.0[written as usize % TAPE];
        time.store(at, Relaxed);
        what.store(word, Relaxed);
        self.written.store(written.wrapping_add(1), Release);
        true
    }

    /// How long the thread was off its CPU since the last look, which this is, and what it did.
    fn off(&self, now: u64) -> (u64, Kind) {
        let (cpu, sleeps) = (cpu_time(), sleeps());
        let kind = if self.sleeps.load(Relaxed) == sleeps { Kind::Preempted } else { Kind::Off };
        let passed = now.saturating_sub(self.looked.load(Relaxed));
        let ran = cpu.saturating_sub(self.cpu.load(Relaxed));
        self.looked.store(now, Relaxed);
        self.cpu.store(cpu, Relaxed);
        self.sleeps.store(sleeps, Relaxed);
        (passed.saturating_sub(ran), kind)
    }

    /// Takes what was written since the last call, in order; `None`: events were lost. For the
    /// recorder: one at a time.
    pub fn drain(&self, mut take: impl FnMut(Option<Event>)) {
        let written = self.written.load(Acquire);
        let mut read = self.read.0.load(Relaxed);
        // The thread's words are another process's, or two threads have written them.
        if written.wrapping_sub(read) > TAPE as u64 {
            read = written;
            take(None);
        }
        while read != written {
            let [time, what] = &self.events.0[read as usize % TAPE];
            if let Some(event) = Event::read(time.load(Relaxed), what.load(Relaxed)) {
                take(Some(event));
            }
            read = read.wrapping_add(1);
        }
        self.read.0.store(read, Release);
    }

    /// When the thread's CPU time was last read, and what it was.
    pub(crate) fn cpu(&self) -> (u64, u64) {
        (self.looked.load(Relaxed), self.cpu.load(Relaxed))
    }

    /// Leaves out what was written so far.
    pub(crate) fn skip(&self) {
        self.read.0.store(self.written.load(Acquire), Release);
    }
}

/// The tape of the calling thread, whose page is `page`: made real if need be. `None`: there is
/// none, and that is counted.
fn mine(page: &ThreadPage) -> Option<&'static Tape> {
    let shared = writer::shared()?;
    let slot = slot_of(shared, page)?;
    let Some(known) = shared.header.tapes.get(slot / 64) else {
        shared.header.unrecorded.fetch_add(1, Relaxed);
        return None;
    };
    let bit = 1 << (slot % 64);
    if known.load(Acquire) & bit == 0 {
        if writer::real_pages(place(shared, slot).cast_mut().cast(), size_of::<Tape>() / PAGE).is_err() {
            shared.header.unrecorded.fetch_add(1, Relaxed);
            return None;
        }
        known.fetch_or(bit, Release);
    }
    // SAFETY: inside the mapping, aligned, nothing but atomics, and real.
    Some(unsafe { &*place(shared, slot) })
}

/// The number of `page` among those of `shared`, and of its tape.
pub(crate) fn slot_of(shared: &Shared, page: &ThreadPage) -> Option<usize> {
    Some((core::ptr::from_ref(page).addr().checked_sub(core::ptr::from_ref(shared).addr())? - THREADS_OFFSET) / PAGE)
}

fn place(shared: &Shared, slot: usize) -> *const Tape {
    core::ptr::from_ref(shared).cast::<u8>().wrapping_add(TAPES_OFFSET + slot * size_of::<Tape>()).cast()
}

/// The tapes that are real. For the recorder.
pub(crate) fn all(shared: &Shared) -> impl Iterator<Item = (usize, &Tape)> {
    let real = |slot: &usize| shared.header.tapes[slot / 64].load(Acquire) & 1 << (slot % 64) != 0;
    // SAFETY: inside the mapping, which is as long as `shared`, aligned, nothing but atomics; the
    // process has made it real.
    (0..TAPES).filter(real).map(|slot| (slot, unsafe { &*place(shared, slot) }))
}

/// The recorder wants what the thread with this word does, from its next event on.
pub(crate) fn begin(word: &AtomicU64) {
    if word.load(Relaxed) == OFF {
        let _ = word.compare_exchange(OFF, BEGIN, Relaxed, Relaxed);
    }
}

#[cfg(test)]
mod tests;
