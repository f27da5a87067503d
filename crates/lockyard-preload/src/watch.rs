//! What `lockyard stat` is told of locks, one by one, when a segment is open: see
//! [`lockyard_segment`].
//!
//! Locks of a program that was never recompiled have no names, so their class is the place of the
//! code that initialised them, or, of those which no call initialises, that of the code which took
//! them first. A mutex or rwlock keeps its class in a word that the lock leaves free. A spinlock
//! has none: each call looks it up in [`places`](lockyard_segment::places).
//!
//! **Cost.** Without a segment: nothing on the fast paths, which ask nobody whether one is open:
//! while one is, they do not apply ([`Block::fast`](crate::thread::Block::fast) and
//! [`config::rwlock_is_default`](crate::config::rwlock_is_default) say so). One load on the slow
//! ones.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::layout::ThreadPage;
use lockyard_segment::{self as segment, Caller, Class, Holder};

use crate::thread;

/// How long a call is prepared to wait.
#[derive(Clone, Copy)]
pub(crate) enum Patience<D> {
    None,
    /// Until the deadline, as the call has it.
    Until(D),
    Forever,
}

/// A lock, as the statistics know it.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a> {
    /// Its class word.
    pub(crate) class: &'a AtomicU32,
    /// "mutex", "rwlock".
    pub(crate) kind: &'static [u8],
    /// Its address.
    pub(crate) lock: usize,
    /// Whether it is taken together with others.
    pub(crate) shared: bool,
}

impl Told<'_> {
    /// Gives the lock, which is being initialised, the class of the code at `caller`.
    #[cold]
    pub(crate) fn name(self, caller: usize) {
        self.class.store(0, Relaxed);
        self.taken_first(caller);
    }

    fn class(self, caller: usize) -> Class {
        match self.class.load(Relaxed) {
            0 => self.taken_first(caller),
            class => Class::from_raw(class),
        }
    }

    /// The class of a lock that had none: that of the code at `caller` (0: unknown), unless another
    /// thread has given it one meanwhile. A lock whose class changed would be recorded as two.
    #[cold]
    fn taken_first(self, caller: usize) -> Class {
        if caller == 0 {
            return Class::NONE;
        }
        let class = segment::class_at(self.kind, caller);
        match self.class.compare_exchange(0, class.kept(), Relaxed, Relaxed) {
            Ok(_) => {
                segment::joined(class);
                class
            }
            Err(given) => Class::from_raw(given),
        }
    }

    /// Takes the lock for `caller`: `attempt`, and if that fails and the caller has `patience`,
    /// `wait`. While it waits, `holder()` is said to hold it. `queued()`: whether others wait,
    /// where that is known.
    pub(crate) fn take<D>(
        self,
        caller: usize,
        patience: Patience<D>,
        attempt: impl FnOnce() -> bool,
        queued: impl Fn() -> Option<bool>,
        holder: impl Fn() -> Holder,
        wait: impl FnOnce() -> c_int,
    ) -> c_int {
        let caller = Caller::new(self.class(caller), caller);
        let caller = if self.shared { caller.shared() } else { caller };
        take_as((caller, self.lock), patience, attempt, queued, holder, wait)
    }

    /// The code at `caller` gives the lock up, and sleeps until others put it into its queue, or
    /// wake it.
    pub(crate) fn idle(self, caller: usize) {
        if segment::watched() {
            segment::releasing(self.lock);
            segment::released(self.lock);
            segment::idle(Caller::new(self.class(caller), caller), self.lock);
        }
    }

    /// The lock is that code's again, in whose queue it was from `since` on, asleep. `queued()`:
    /// whether others wait.
    pub(crate) fn moved(self, caller: usize, since: u64, queued: impl Fn() -> Option<bool>) {
        if segment::watched() {
            let caller = Caller::new(self.class(0), caller);
            segment::acquired_after(caller, self.lock, since, queued() == Some(true));
        }
    }
}

/// Takes the lock at `lock` for `caller`: `attempt`, and if that fails and the caller has
/// `patience`, `wait`. `queued`, `holder`: as in [`Told::take`].
pub(crate) fn take_as<D>(
    (caller, lock): (Caller, usize),
    patience: Patience<D>,
    attempt: impl FnOnce() -> bool,
    queued: impl Fn() -> Option<bool>,
    holder: impl Fn() -> Holder,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    // Before the lock is taken: from then on others look for what the thread notes.
    let page = page();
    if attempt() {
        match page {
            _ if queued() == Some(true) => segment::acquired_past_others(caller, lock),
            Some(page) => segment::acquired_on(page, caller, lock),
            None => {}
        }
        return 0;
    }
    if let Patience::None = patience {
        segment::refused(caller, lock);
        return libc::EBUSY;
    }
    let mut waiting = segment::contended_by(caller, lock, known(holder));
    if let Patience::Until(_) = patience {
        waiting = waiting.with_deadline();
    }
    let result = wait();
    match result {
        0 if queued() == Some(false) => waiting.got_last(),
        0 => waiting.got(),
        _ => waiting.gave_up(),
    }
    result
}

/// The calling thread, which was [idle](Told::idle), runs again.
pub(crate) fn awake() {
    if segment::watched() {
        segment::awake();
    }
}

/// What `holder` says, which has the lock and is perhaps about to write its name.
fn known(holder: impl Fn() -> Holder) -> Holder {
    const LOOKS: u32 = 4;
    let look = |look| {
        if look > 0 {
            Linux::relax();
        }
        holder()
    };
    let is_known = |holder: &Holder| !matches!(holder, Holder::Unknown | Holder::Thread(0));
    (0..LOOKS).map(look).find(is_known).unwrap_or(Holder::Unknown)
}

/// The lock at `lock` is about to be released.
#[inline]
pub(crate) fn releasing(lock: usize) {
    if segment::watched()
        && let Some(page) = page_so_far()
    {
        segment::releasing_on(page, lock);
    }
}

/// The lock at `lock`, which may be gone by now, was released.
#[inline]
pub(crate) fn released(lock: usize) {
    if segment::watched()
        && let Some(page) = page_so_far()
    {
        segment::released_on(page, lock);
    }
}

/// A lock that is noted on the calling thread's page: of a fast path that has taken it.
pub(crate) type Noted = (&'static ThreadPage, Caller);

/// Notes that the lock at `lock` was taken without a wait. 0: the end of a call. What is rare is
/// apart, so that the call needs no stack.
#[inline(always)]
pub(crate) fn note((page, caller): Noted, lock: usize) -> c_int {
    if segment::acquired_plainly(page, caller, lock) { 0 } else { note_rarely(page, caller, lock) }
}

#[cold]
#[inline(never)]
extern "C" fn note_rarely(page: &'static ThreadPage, caller: Caller, lock: usize) -> c_int {
    segment::acquired_on(page, caller, lock);
    0
}

/// Notes on `page` that the lock at `lock`, which may be gone by now, was released. 0: as [`note`].
#[inline(always)]
pub(crate) fn forget(page: &'static ThreadPage, lock: usize) -> c_int {
    if segment::released_plainly(page, lock) { 0 } else { forget_rarely(page, lock) }
}

#[cold]
#[inline(never)]
extern "C" fn forget_rarely(page: &'static ThreadPage, lock: usize) -> c_int {
    segment::released_on(page, lock);
    0
}

/// Where the calling thread counts, if it has counted before: locks were told of then, as a rule
/// they still are.
#[inline(always)]
pub(crate) fn known_page() -> Option<&'static ThreadPage> {
    // SAFETY: null, or a page of the mapping, which stays; the child of a fork clears it.
    unsafe { thread::block().page.get().as_ref() }
}

/// Where the calling thread counts: its block knows it, since a thread-local of the statistics
/// costs a call.
#[inline]
pub(crate) fn page() -> Option<&'static ThreadPage> {
    known_page().or_else(|| segment::page().inspect(|page| thread::block().page.set(*page)))
}

/// The same, for what is no acquisition: the child of a fork that has taken no lock counts nowhere.
#[inline]
pub(crate) fn page_so_far() -> Option<&'static ThreadPage> {
    known_page().or_else(segment::page_so_far)
}
