//! Which code has called a lock function, and which code has called that: the frames of the
//! thread's stack above a call.
//!
//! Programs take locks through functions that do nothing else: `my_lock`, a guard's constructor,
//! `std::mutex::lock` where nothing is inlined, a library's `mutex_enter`. Such a function *passes
//! on*: the lock is held when it returns. To be told of its callers helps, and of itself it does
//! not. Which functions pass on is seen from where locks are given back: see [`Lessons`].
//!
//! | bit of a place (an address to which calls return) | set by | when |
//! |---|---|---|
//! | `KNOWN` | the first that asks | the tables were read, once in the life of the process |
//! | `WALKS` | the same | they say how to come to the caller's frame |
//! | `PASSES` | a lesson | the function had returned when its lock was given back, or only waits |
//! | `ENDS` | a lesson | the function, whose lock it was, had not |
//! | `SEVERAL` | initialisations | the function was called by two functions |
//!
//! `PASSES` and `ENDS` stay: the first of both that is seen counts. Words are on their own and all
//! stores Relaxed: a place that is not known yet counts as one that ends. Code that is unloaded
//! leaves its places: other code there is mistaken for it.
//!
//! [`Lessons`]: crate::Lessons

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use rustix::mm::{Advice, madvise};

use crate::layout::PAGE;
use crate::stack;
use crate::unwind::{self, Step};

/// A call of a function of ours: what its first instruction finds, before anything is stored on the
/// stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Call {
    /// On x86-64 the stack pointer, which points to the address to which the call returns;
    /// elsewhere that address. 0: unknown.
    top: usize,
    /// The frame pointer, which may be any value.
    frame: usize,
}

impl Call {
    /// By code that is not known.
    pub const UNKNOWN: Self = Self { top: 0, frame: 0 };

    /// To where it returns; 0: unknown.
    #[inline(always)]
    pub fn at(self) -> usize {
        if cfg!(target_arch = "x86_64") && self.top != 0 {
            // SAFETY: the call is under way, and its return address in its place.
            unsafe { core::ptr::with_exposed_provenance::<usize>(self.top).read() }
        } else {
            self.top
        }
    }

    /// The code that has called the functions through which the lock is taken: to where the first
    /// call returns whose function does not pass on, as far as that is known. 0: unknown.
    pub fn place(self) -> usize {
        self.look().0
    }

    /// The same; `None` if more is to be learnt of that place.
    #[inline]
    pub fn settled_place(self) -> Option<usize> {
        let (at, entry) = self.look();
        entry.is_none_or(Entry::is_settled).then_some(at)
    }

    /// The same, found without a call, and so without a stack: `None` also where more than one
    /// function passes on, its frame reaches into the next page, or the table has one of the places
    /// behind others'.
    #[inline(always)]
    pub fn settled_place_nearby(self) -> Option<usize> {
        let first = self.first();
        let word = first_word(first.at)?;
        if word & ENDS != 0 {
            return Some(first.at);
        }
        let end = first.end_by(step_of(word)?).filter(|end| word & PASSES != 0 && *end <= self.page_end())?;
        // SAFETY: the stack of the calling thread reaches to the end of its page.
        let above = unsafe { core::ptr::with_exposed_provenance::<usize>(end - size_of::<usize>()).read() };
        (first_word(above)? & ENDS != 0).then_some(above)
    }

    /// The place, and what is known of it: one look at the table for each frame.
    #[inline]
    fn look(self) -> (usize, Option<&'static Entry>) {
        let mut frame = self.first();
        for _ in 1..LEVELS {
            let found = entry(frame.at);
            let Some(above) = found.filter(|entry| entry.passes()).and_then(|entry| frame.above_by(entry, self)) else {
                return (frame.at, found);
            };
            frame = above;
        }
        (frame.at, None)
    }

    /// The frames above, from that of the code that has called.
    pub(crate) fn frames(self) -> impl Iterator<Item = Frame> {
        let first = Some(self.first()).filter(|first| first.at != 0);
        core::iter::successors(first, move |frame| frame.above_by(entry(frame.at)?, self)).take(LEVELS)
    }

    /// Whether the stack on which it was made reaches up to `end`, as far as is asked. Tables may
    /// be wrong, or say nothing of a change of the stack: beyond its end there may be no memory.
    #[inline]
    fn reaches(self, end: usize) -> bool {
        let next = self.page_end();
        end <= next || end <= stack::end_above(self.top) || end <= next + PAGE && is_memory(next)
    }

    /// Where the page of the stack ends in which it was made.
    #[inline(always)]
    fn page_end(self) -> usize {
        (self.top | (PAGE - 1)).wrapping_add(1)
    }

    #[inline(always)]
    fn first(self) -> Frame {
        Frame { at: self.at(), stack: self.top.wrapping_add(size_of::<usize>()), frame: self.frame }
    }
}

/// Frames that are looked at: a guard's constructor, `unique_lock::lock`, `mutex::lock` and
/// `__gthread_mutex_lock` are below that of the code that wants the lock.
pub(crate) const LEVELS: usize = 7;

/// A function's frame, at a call in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// To where the call returns.
    pub(crate) at: usize,
    /// The stack pointer then.
    stack: usize,
    /// The frame pointer then.
    frame: usize,
}

impl Frame {
    /// Where it ends: its function's return address is below. What tells it from all others that
    /// are there at the time, with its function.
    pub(crate) fn end(self) -> Option<usize> {
        self.end_by(entry(self.at)?.step()?)
    }

    #[inline(always)]
    fn end_by(self, step: Step) -> Option<usize> {
        let from = if step.by_frame_pointer { self.frame } else { self.stack };
        let end = from.wrapping_add(step.size);
        (end > self.stack && end.is_multiple_of(size_of::<usize>())).then_some(end)
    }

    /// That of its function's caller; `entry` is that of its place, and `call` is under way.
    #[inline]
    fn above_by(self, entry: &Entry, call: Call) -> Option<Self> {
        let step = entry.step()?;
        let is_there = |end: &usize| call.reaches(*end) && end - step.saved >= self.stack;
        let end = self.end_by(step).filter(is_there)?;
        // SAFETY: the stack of the calling thread reaches that far.
        let word = |down: usize| unsafe { core::ptr::with_exposed_provenance::<usize>(end - down).read() };
        let at = word(size_of::<usize>());
        let frame = if step.saved == 0 { self.frame } else { word(step.saved) };
        (at != 0).then_some(Self { at, stack: end, frame })
    }
}

/// Whether there is memory at `page`, which follows one of a stack: asked once, for a system call.
#[cold]
fn is_memory(page: usize) -> bool {
    const YES: usize = 1;
    const ROOM: usize = 256;
    static ASKED: [AtomicUsize; ROOM] = [const { AtomicUsize::new(0) }; ROOM];
    let asked = &ASKED[page / PAGE % ROOM];
    let mut known = asked.load(Relaxed);
    if known & !YES != page {
        let place = core::ptr::with_exposed_provenance_mut(page);
        // SAFETY: asks for no more than a read would do; where there is no memory it is refused.
        let answer = unsafe { madvise(place, PAGE, Advice::LinuxPopulateRead) };
        known = page | if answer.is_ok() { YES } else { 0 };
        asked.store(known, Relaxed);
    }
    known & YES != 0
}

/// What is known of a place.
struct Entry {
    /// The address; 0: the entry is free.
    at: AtomicUsize,
    /// The bits of the page's table; behind them the [`Step`], its lengths in words; above these a
    /// few bits of the first caller's address.
    word: AtomicU64,
}

const KNOWN: u64 = 1;
const WALKS: u64 = 1 << 1;
const PASSES: u64 = 1 << 2;
const ENDS: u64 = 1 << 3;
const SEVERAL: u64 = 1 << 4;
const BY_FRAME_POINTER: u64 = 1 << 5;
/// Lessons that saw neither.
const TRIES: u32 = 8;
const TRIED: u64 = 1 << TRIES;
const ENOUGH: u64 = 7;
const SIZE: u32 = 12;
const SAVED: u32 = 26;
const LENGTH: u64 = (1 << 14) - 1;
const CALLER: u32 = 40;

const ROOM: usize = 1 << 14;
/// Entries that a place may have.
const PROBES: usize = 8;

static PLACES: [Entry; ROOM] = [const { Entry { at: AtomicUsize::new(0), word: AtomicU64::new(0) } }; ROOM];

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of the first entry that `at` may have.
#[inline(always)]
fn number(at: usize) -> usize {
    ((at as u64).wrapping_mul(GOLDEN) >> (u64::BITS - ROOM.ilog2())) as usize
}

/// The word of that entry, if it is of `at`.
#[inline(always)]
fn first_word(at: usize) -> Option<u64> {
    let entry = &PLACES[number(at)];
    (entry.at.load(Relaxed) == at).then(|| entry.word.load(Relaxed))
}

/// The entry of `at`, made if need be. `None`: there is no room for it, or it is 0.
fn entry(at: usize) -> Option<&'static Entry> {
    if at == 0 {
        return None;
    }
    let first = number(at);
    (0..PROBES).map(|probe| &PLACES[(first + probe) % ROOM]).find(|entry| match entry.at.load(Relaxed) {
        0 => match entry.at.compare_exchange(0, at, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(other) => other == at,
        },
        other => other == at,
    })
}

impl Entry {
    /// The entry's word, once its tables were read.
    #[cold]
    fn read(&self) -> u64 {
        let found = unwind::step(self.at.load(Relaxed)).map_or(0, |step| {
            let length = |bytes: usize, shift| (bytes as u64 / 8) << shift;
            let by = if step.by_frame_pointer { BY_FRAME_POINTER } else { 0 };
            WALKS | by | length(step.size, SIZE) | length(step.saved, SAVED)
        });
        self.word.fetch_or(KNOWN | found, Relaxed) | KNOWN | found
    }

    #[inline]
    fn passes(&self) -> bool {
        self.word.load(Relaxed) & PASSES != 0
    }

    #[inline]
    fn is_settled(&self) -> bool {
        let word = self.word.load(Relaxed);
        word & (PASSES | ENDS) != 0 || word & (KNOWN | WALKS) == KNOWN || (word / TRIED) & ENOUGH == ENOUGH
    }

    #[inline]
    fn step(&self) -> Option<Step> {
        let mut word = self.word.load(Relaxed);
        if word & KNOWN == 0 {
            word = self.read();
        }
        step_of(word)
    }
}

/// What an entry's word says of the step to the caller's frame.
#[inline(always)]
fn step_of(word: u64) -> Option<Step> {
    let length = |shift| (((word >> shift) & LENGTH) * 8) as usize;
    (word & WALKS != 0).then(|| Step {
        by_frame_pointer: word & BY_FRAME_POINTER != 0,
        size: length(SIZE),
        saved: length(SAVED),
    })
}

/// Whether a lock was seen to end in the function of the code at `at`.
pub(crate) fn ends(at: usize) -> bool {
    entry(at).is_some_and(|entry| entry.word.load(Relaxed) & ENDS != 0)
}

/// Whether the function of the code at `at` passes on.
pub(crate) fn passes(at: usize) -> bool {
    entry(at).is_some_and(Entry::passes)
}

/// Whether nothing more is to be learnt of the place `at`.
pub(crate) fn is_settled(at: usize) -> bool {
    entry(at).is_none_or(Entry::is_settled)
}

/// The function of the code at `at` passes on, unless a lock was seen to end in it.
pub(crate) fn pass(at: usize) {
    mark(at, PASSES);
}

/// A lock ends in the function of the code at `at`, unless it was seen to pass on.
pub(crate) fn end(at: usize) {
    mark(at, ENDS);
}

fn mark(at: usize, bit: u64) {
    if let Some(entry) = entry(at) {
        let first = |word: u64| (word & (PASSES | ENDS) == 0).then_some(word | bit);
        let _ = entry.word.fetch_update(Relaxed, Relaxed, first);
    }
}

/// A lesson has seen neither of the place `at`.
pub(crate) fn tried(at: usize) {
    if let Some(entry) = entry(at) {
        let more = |word: u64| ((word / TRIED) & ENOUGH < ENOUGH).then_some(word + TRIED);
        let _ = entry.word.fetch_update(Relaxed, Relaxed, more);
    }
}

/// The function of the code at `at` was called from `caller`, in a call that is under way.
pub(crate) fn called(at: usize, caller: usize) {
    /// Of the bits for the first caller, those for its function.
    const FUNCTION: u32 = CALLER + 12;
    let Some(entry) = entry(at) else { return };
    let word = entry.word.load(Relaxed);
    let bits = |value: usize, shift: u32| ((value as u64).wrapping_mul(GOLDEN) >> 52 | 1) << shift;
    let place = |word: u64| word & (0xfff << CALLER);
    if word & SEVERAL != 0 || place(word) == bits(caller, CALLER) {
        return;
    }
    let function = bits(unwind::function(caller).unwrap_or(caller), FUNCTION);
    let _ = entry.word.fetch_update(Relaxed, Relaxed, |word| match word & (0xfff << FUNCTION) {
        0 => Some(word | function | bits(caller, CALLER)),
        known if known == function => None,
        _ => Some(word | SEVERAL),
    });
}

/// Whether the function of the code at `at` was called by several functions.
pub(crate) fn is_called_from_several(at: usize) -> bool {
    entry(at).is_some_and(|entry| entry.word.load(Relaxed) & SEVERAL != 0)
}
