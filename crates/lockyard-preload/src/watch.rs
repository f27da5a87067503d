//! What `lockyard stat` is told of locks, one by one, when a segment is open: see
//! [`lockyard_segment`].
//!
//! Locks of a program that was never recompiled have no names, so their class is the place of the
//! code that initialised them, or, of those which no call initialises, that of the code which took
//! them first. A mutex or rwlock keeps its class in a word that the lock leaves free. A spinlock
//! has none: each call looks it up in [`places`](lockyard_segment::places).
//!
//! Code that only passes locks on to its callers ([`frames`]) is no place to be told of. The first
//! hold that its thread itself ends teaches which code that is. The class word:
//!
//! | bit | set by | when | then |
//! |---|---|---|---|
//! | 0–8 | the call that initialises, or else takes first | a segment is open | [`Class::kept`] |
//! | `SETTLED` | a thread that takes it or gives it back | the place holds locks | fast paths |
//! | `WRAPPED` | the same, with `SETTLED` | others pass it on there | calls look at frames above |
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
use lockyard_segment::{self as segment, Call, Caller, Class, Holder, origins};

use crate::thread;

/// The bits of a lock that the code at `place` holds by a call that returns to `at`.
fn settled(at: usize, place: usize) -> u32 {
    SETTLED | if at == place { 0 } else { WRAPPED }
}

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
    /// Whether it is given up and taken again by waits at a condition variable: by other code, as a
    /// rule, than its lock calls.
    pub(crate) waits: bool,
}

const SETTLED: u32 = 1 << 16;
const WRAPPED: u32 = 1 << 17;

/// How a fast path asks what a class word and a call say: [`plain`], [`wrapped_at`], or
/// [`wrapped`].
pub(crate) trait Ask: FnOnce(u32, Call) -> Option<(Class, usize)> {}

impl<F: FnOnce(u32, Call) -> Option<(Class, usize)>> Ask for F {}

/// The class in the word and the place of the call, if calls of the lock are by the code that holds
/// it.
#[inline(always)]
pub(crate) fn plain(word: u32, call: Call) -> Option<(Class, usize)> {
    (word & (SETTLED | WRAPPED) == SETTLED).then(|| (Class::from_raw(word), call.at()))
}

/// The same, if calls are by code that passes the lock on, to that which is at `place`.
#[inline(always)]
pub(crate) fn wrapped_at(word: u32, place: usize) -> Option<(Class, usize)> {
    (word & WRAPPED != 0).then(|| (Class::from_raw(word), place))
}

/// The same, if nothing is to be learnt of the call. Apart, since this needs a stack.
#[inline]
pub(crate) fn wrapped(word: u32, call: Call) -> Option<(Class, usize)> {
    if word & WRAPPED == 0 { None } else { wrapped_at(word, call.settled_place()?) }
}

impl Told<'_> {
    /// The same, in a wait at a condition variable.
    pub(crate) fn in_wait(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Gives the lock, which is being initialised, the class of the code at `caller`.
    #[cold]
    pub(crate) fn name(self, caller: Call) {
        self.class.store(0, Relaxed);
        self.taken_first(origins::note(self.lock, caller), 0);
    }

    /// Its class, and the place of the code that calls.
    fn asked(self, caller: Call) -> (Class, usize) {
        let word = self.class.load(Relaxed);
        if let Some(known) = plain(word, caller).filter(|_| !self.waits) {
            return known;
        }
        let place = caller.place();
        if word != 0 {
            return (Class::from_raw(word), place);
        }
        // No call has initialised it: that of which one is known lay there before.
        origins::forget(self.lock);
        let settled = match caller.settled_place() {
            None => 0,
            Some(_) if self.waits => 0,
            Some(place) => settled(caller.at(), place),
        };
        (self.taken_first(place, settled), place)
    }

    /// The lock is destroyed.
    pub(crate) fn gone(self) {
        if segment::watched() && !self.is_settled() {
            origins::forget(self.lock);
        }
    }

    /// The class of the lock, which has none, and for which the code at `place` begins to wait.
    #[cold]
    fn awaited(self, place: usize) -> Class {
        let class = segment::class_awaited(self.kind, place);
        let none = self.class.load(Relaxed);
        let new = none & !Class::NONE.kept() | class.kept();
        if class != Class::NONE && self.class.compare_exchange(none, new, Relaxed, Relaxed).is_ok() {
            segment::joined(class);
        }
        class
    }

    fn is_settled(self) -> bool {
        self.class.load(Relaxed) & SETTLED != 0
    }

    /// The calling thread has taken the lock by `caller`. The lock is settled, if the place of the
    /// call is known to hold locks. Else the thread notes the call, until it gives the lock back.
    fn learn(self, caller: Call) {
        match caller.settled_place() {
            // Lock calls need not look further because waits have to.
            Some(_) if self.waits => {}
            Some(place) => self.settle((caller.at(), place)),
            None => {
                let me = thread::block();
                me.lessons.begin(self.lock, caller, self.shared, self.waits);
                // No fast paths: the release is to be seen.
                me.page.set(core::ptr::null());
            }
        }
    }

    /// The thread holds the lock for the code at `place`, by a call that returns to `at`.
    fn settle(self, (at, place): (usize, usize)) {
        let word = self.class.load(Relaxed);
        let wrapped = settled(at, place) & WRAPPED;
        match word {
            // Taken by code that is not known.
            0 => {}
            word if word & SETTLED == 0 => self.settle_first(word, (at, place), wrapped),
            // Its class stays. Calls are by other code, too, than that which settled it.
            word if word & wrapped != wrapped => {
                self.class.fetch_or(wrapped, Relaxed);
            }
            _ => {}
        }
    }

    #[cold]
    fn settle_first(self, word: u32, (at, place): (usize, usize), wrapped: u32) {
        let class = Class::from_raw(word);
        let held = segment::class_held(self.kind, class, self.lock, (at, place));
        let new = held.kept() | SETTLED | wrapped;
        // Of two that settle it at a time one does.
        if self.class.compare_exchange(word, new, Relaxed, Relaxed).is_ok() {
            segment::moves(self.lock, class, Caller::new(held, place));
        }
    }

    /// The call `caller` is about to give the lock back.
    #[inline]
    pub(crate) fn releasing(self, caller: Call) {
        if segment::watched() {
            let lessons = &thread::block().lessons;
            if lessons.are_under_way()
                && let Some(places) = lessons.end(self.lock, caller, self.waits)
            {
                self.settle(places);
            }
            if let Some(page) = page_so_far() {
                segment::releasing_on(page, self.lock);
            }
        }
    }

    /// The class of a lock that had none: that of the code at `caller` (0: unknown), unless another
    /// thread has given it one meanwhile. `settled`: its bits, if nothing more is to be learnt. A
    /// lock whose class changes is recorded as two: that is over with the first hold that teaches
    /// something.
    #[cold]
    fn taken_first(self, caller: usize, settled: u32) -> Class {
        if caller == 0 {
            return Class::NONE;
        }
        let class = segment::class_at(self.kind, caller);
        match self.class.compare_exchange(0, class.kept() | settled, Relaxed, Relaxed) {
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
        call: Call,
        patience: Patience<D>,
        attempt: impl FnOnce() -> bool,
        queued: impl Fn() -> Option<bool>,
        holder: impl Fn() -> Holder,
        wait: impl FnOnce() -> c_int,
    ) -> c_int {
        let caller = |waits| {
            let (mut class, place) = self.asked(call);
            if waits && class == Class::NONE {
                class = self.awaited(place);
            }
            let caller = Caller::new(class, place);
            if self.shared { caller.shared() } else { caller }
        };
        let result = take_as((caller, self.lock), patience, attempt, queued, holder, wait);
        if result == 0 {
            self.learn(call);
        }
        result
    }

    /// The code at `caller` gives the lock up, and sleeps until others put it into its queue, or
    /// wake it.
    pub(crate) fn idle(self, caller: Call) {
        if segment::watched() {
            self.releasing(caller);
            segment::released(self.lock);
            let (class, place) = self.asked(caller);
            segment::idle(Caller::new(class, place), self.lock);
        }
    }

    /// The lock is that code's again, in whose queue it was from `since` on, asleep. `queued()`:
    /// whether others wait.
    pub(crate) fn moved(self, caller: Call, since: u64, queued: impl Fn() -> Option<bool>) {
        if segment::watched() {
            let told = Caller::new(Class::from_raw(self.class.load(Relaxed)), caller.place());
            segment::acquired_after(told, self.lock, since, queued() == Some(true));
            self.learn(caller);
        }
    }
}

/// Takes the lock at `lock` for `caller(waits)`: `attempt`, and if that fails and the caller has
/// `patience`, `wait`, after which more may be known of the caller. `queued`, `holder`: as in
/// [`Told::take`].
pub(crate) fn take_as<D>(
    (caller, lock): (impl Fn(bool) -> Caller, usize),
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
            _ if queued() == Some(true) => segment::acquired_past_others(caller(false), lock),
            Some(page) => segment::acquired_on(page, caller(false), lock),
            None => {}
        }
        return 0;
    }
    if let Patience::None = patience {
        segment::refused(caller(false), lock);
        return libc::EBUSY;
    }
    let mut waiting = segment::contended_by(caller(true), lock, known(holder));
    if let Patience::Until(_) = patience {
        waiting = waiting.with_deadline();
    }
    let result = wait();
    waiting = waiting.by(caller(false));
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
/// costs a call; but not while the thread learns from a hold.
#[inline]
pub(crate) fn page() -> Option<&'static ThreadPage> {
    known_page().or_else(|| {
        let me = thread::block();
        segment::page().inspect(|page| me.page.set(if me.lessons.are_under_way() { core::ptr::null() } else { *page }))
    })
}

/// The same, for what is no acquisition: the child of a fork that has taken no lock counts nowhere.
#[inline]
pub(crate) fn page_so_far() -> Option<&'static ThreadPage> {
    known_page().or_else(segment::page_so_far)
}
