//! The mutex: spins while the owner runs, sleeps otherwise, bounded unfairness.
//!
//! # The word
//!
//! | bits | name | meaning | changed by |
//! |---|---|---|---|
//! | 0–14 | owner | thread id, 0 = free | taker, releaser |
//! | 16 | `HANDOFF` | the first waiter's turn is over: nobody else may take it | the first waiter, in a failed try on a held mutex, or another under the wait lock; cleared when the first takes it |
//! | 17 | `LISTENING` | the first waiter sleeps and asks to be woken by the next release | the first waiter, in a failed try, or the owner for it; cleared by the release that obeys |
//!
//! | word | state | who may take it |
//! |---|---|---|
//! | 0 | free; queued threads sleep by their own timers | anyone, one compare-exchange |
//! | t | held, likewise | |
//! | t + L | held; the release wakes the first waiter | |
//! | t + H (+ L) | held, asked for | |
//! | H (+ L) | free, kept for the first waiter | the first waiter |
//!
//! That threads are queued does not show in the word: those who sleep do not slow down those who run.
//!
//! # Waiting
//!
//! As [`wait::turn`](crate::wait::turn) says: spin while the owner runs, queue, listen, doze, ask for handoff.
//!
//! **Bound on bypass.** One turn ([`TURN_NS`](crate::wait::turn::TURN_NS)), a hold and a wake-up per waiter ahead, and one for itself, for those who
//! queue; a spinner queues when its budget is spent, and on a machine without budgets (one that tells exactly when a CPU is needed) only when it is asked to yield. The
//! kernel's mutex asks for handoff after the first failed wake-up; a turn bounds the cost of context switches instead. The kernel's release then names the
//! first waiter as owner, to be picked up; here the free mutex is kept for it, which says the same with one flag fewer, lets a release be one
//! unconditional instruction, and cannot mistake a thread's own ownership for a gift (the kernel's 2017 bug).
//!
//! # Invariants
//!
//! 1. A flag is set only while somebody is queued: who empties the queue clears them, under the wait lock.
//! 2. The first waiter sets flags on a held mutex only, in one step with finding it held: no release can slip in between (the kernel's 2021 bug).
//!    Another sets `HANDOFF` for it only when it has been woken, or is being woken: it will look.
//! 3. A cancelled first waiter may leave its request behind: it then serves the new first waiter, which has been woken.
//!
//! # Memory ordering
//!
//! `word`: taking is Acquire, releasing is Release. Every change is a read-modify-write, which keeps release sequences alive. Asking and obeying
//! are AcqRel: a releaser that sees a request also sees the queue as the requester did, and reads its first waiter without the wait lock. If that
//! name is stale, its bearer has left the queue and woken the next.
//!
//! **Destruction.** A release touches the mutex after another thread may own it, if there are requests: the memory must stay until every
//! `unlock` has returned. [`RawMutex::release_detached`] does not, for embedders whose users may free a mutex as soon as they own it. **fork**: a mutex
//! held by another thread stays held in the child; [`RawMutex::forget_waiters`] is for embedders whose children go on with what the forking thread held.
//!
//! Sources: Documentation/locking/mutex-design (Linux); "locking/mutex: Add lock handoff to avoid starvation" (2016), "Fix mutex handoff" (2017),
//! "Introduce __mutex_trylock_or_handoff()" (2021).

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::thread::{Thread, ThreadId};
use crate::wait::turn::{self, Contended, Events, Look, Request};

const OWNER: u32 = 0xffff;
/// Everything but the owner. Not all the upper bits: on x86-64 this mask is what makes a release one `lock and` whose flags tell the
/// result; with `!OWNER` the compiler sees a comparison instead of a mask and falls back to a compare-exchange loop.
const FLAGS: u32 = 0xff_0000;
const HANDOFF: u32 = 1 << 16;
const LISTENING: u32 = 1 << 17;

/// The mutex: 32 bytes, three words of which belong to the embedder. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawMutex<P: Platform> {
    word: P::U32,
    /// Free for an embedder (where glibc keeps a recursion count and an owner); all zero otherwise.
    embedder: [P::U32; 2],
    wait_lock: RawQSpinLock<P>,
    /// Free for an embedder (where glibc keeps the kind).
    embedder_kind: P::U32,
    osq: Osq<P>,
    queue: WaitQueue<P>,
    spare: P::U32,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = {
    type M = RawMutex<crate::platform::linux::Linux>;
    assert!(size_of::<M>() == 32 && core::mem::offset_of!(M, embedder_kind) == 16);
    assert!(core::mem::offset_of!(M, embedder) == 4);
};

impl<P: Platform> Default for RawMutex<P> {
    fn default() -> Self {
        Self {
            word: P::U32::default(),
            embedder: Default::default(),
            wait_lock: RawQSpinLock::default(),
            embedder_kind: P::U32::default(),
            osq: Osq::default(),
            queue: WaitQueue::default(),
            spare: P::U32::default(),
        }
    }
}

impl<P: Platform> RawMutex<P> {
    /// An unlocked mutex, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self {
            word: P::U32::ZERO,
            embedder: [P::U32::ZERO, P::U32::ZERO],
            wait_lock: RawQSpinLock::new(),
            embedder_kind: P::U32::ZERO,
            osq: Osq::new(),
            queue: WaitQueue::new(),
            spare: P::U32::ZERO,
        }
    }

    /// Takes the mutex.
    #[inline]
    pub fn acquire(&self) {
        if !self.acquire_fast() {
            self.acquire_forever();
        }
    }

    /// Takes the mutex unless `until` comes first. An acquisition that need not wait succeeds whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.acquire_fast() { Ok(()) } else { self.acquire_slow(until) }
    }

    /// Takes the mutex if it is free and not kept for a waiter whose turn is over. May pass waiters.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.acquire_fast() || self.take(false, 0)
    }

    #[inline(always)]
    fn acquire_fast(&self) -> bool {
        P::id().is_some_and(|me| self.word.compare_exchange(0, me.raw(), Acquire, Relaxed).is_ok())
    }

    /// Releases the mutex.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release(&self) {
        if self.word.fetch_and(FLAGS, Release) & FLAGS != 0 {
            self.released();
        }
    }

    /// Takes the mutex in the name of the caller, who knows it, if it is free and nobody asks for it: the fast path alone.
    #[inline(always)]
    pub fn try_acquire_as(&self, me: ThreadId) -> bool {
        self.word.compare_exchange(0, me.raw(), Acquire, Relaxed).is_ok()
    }

    /// As [`RawMutex::try_acquire_as`], for the only thread of a process: without an atomic instruction.
    ///
    /// # Safety
    /// No other thread exists.
    #[inline(always)]
    pub unsafe fn try_acquire_alone(&self, me: ThreadId) -> bool {
        let free = self.word.load(Relaxed) == 0;
        if free {
            self.word.store(me.raw(), Relaxed);
        }
        free
    }

    /// Releases the mutex if `me`, the caller, holds it and nobody asks for it: the fast path of [`RawMutex::release_detached`] alone.
    #[inline(always)]
    pub fn try_release_as(&self, me: ThreadId) -> bool {
        self.word.compare_exchange(me.raw(), 0, Release, Relaxed).is_ok()
    }

    /// As [`RawMutex::try_release_as`], for the only thread of a process: without an atomic instruction.
    ///
    /// # Safety
    /// No other thread exists.
    #[inline(always)]
    pub unsafe fn try_release_alone(&self, me: ThreadId) -> bool {
        let mine = self.word.load(Relaxed) == me.raw();
        if mine {
            self.word.store(0, Relaxed);
        }
        mine
    }

    /// Releases the mutex and does not touch it after another thread may own it: the next owner may free its memory.
    ///
    /// A compare-exchange where [`RawMutex::release`] is unconditional. The first waiter's name is read before the mutex is free. If that waiter gives
    /// up in between, the next one, which found its request on the mutex already, is not woken by this release: it is late, by a turn at most.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release_detached(&self) {
        let mut word = self.word.load(Relaxed);
        while word & FLAGS == 0 {
            match self.word.compare_exchange(word, 0, Release, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
        self.release_detached_slow();
    }

    #[cold]
    fn release_detached_slow(&self) {
        // Acquire: who sees a request also sees the queue as the requester did.
        let mut word = self.word.load(Acquire);
        loop {
            let first = if word & LISTENING != 0 { self.queue.first() } else { None };
            match self.word.compare_exchange_weak(word, word & FLAGS & !LISTENING, AcqRel, Acquire) {
                Ok(_) => {
                    if let Some(first) = first {
                        P::count(Event::MutexWake, 1);
                        first.unpark();
                    }
                    return;
                }
                Err(found) => word = found,
            }
        }
    }

    /// In a child process: forgets those who waited in the parent. Who holds the mutex still does.
    ///
    /// # Safety
    /// No thread of this process waits for the mutex, or does anything with it but take it and release it without waiting, until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.queue.forget();
        self.osq.forget();
        // SAFETY: nobody in this process holds the wait lock: its holder, if any, was another thread of the parent.
        unsafe { self.wait_lock.forget() };
        self.word.fetch_and(OWNER, AcqRel);
    }

    /// Puts `thread`, which sleeps, into the queue, as if it had come here and slept; `queued` is run when it is there. It will be woken.
    ///
    /// Whoever is before it finds that its timer is far away, and listens on its behalf.
    pub(crate) fn adopt(&self, thread: &Thread<P>, queued: impl FnOnce()) {
        self.wait_lock.acquire();
        let first = turn::push_asleep(&self.queue, thread);
        queued();
        let asked = !first || self.ask_holder();
        // SAFETY: acquired above. The last touch: the adopted thread cannot leave the queue, hence the mutex cannot go away, before.
        unsafe { self.wait_lock.release() };
        if !asked {
            thread.unpark();
        }
    }

    /// Asks whoever holds the mutex to wake the first waiter. `false`: nobody holds it.
    fn ask_holder(&self) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & OWNER != 0 {
            match self.word.compare_exchange_weak(word, word | LISTENING, AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Takes the mutex for `me`, the calling thread, which was adopted.
    pub(crate) fn acquire_adopted(&self, me: &'static Thread<P>) {
        P::count(Event::MutexSlowpath, 1);
        turn::resume(&Want(self), me);
    }

    /// Whether somebody holds the mutex.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) & OWNER != 0
    }

    /// Whether somebody waits in the queue.
    #[inline]
    pub fn is_contended(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the mutex, as `word` says, is there for the taking.
    #[inline(always)]
    fn open(word: u32, first: bool) -> bool {
        word & OWNER == 0 && (first || word & HANDOFF == 0)
    }

    /// Takes the mutex if it is open to the caller; otherwise leaves `request` on it while it is held.
    fn take(&self, first: bool, request: u32) -> bool {
        let me = P::id().unwrap_or(ThreadId::ANONYMOUS).raw();
        let mut word = self.word.load(Relaxed);
        loop {
            let open = Self::open(word, first);
            let next = match (open, first) {
                (true, true) => me,
                (true, false) => word | me,
                (false, _) if word & OWNER != 0 && word & request != request => word | request,
                (false, _) => return false,
            };
            match self.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => return open,
                Err(found) => word = found,
            }
        }
    }

    #[cold]
    fn acquire_forever(&self) {
        // The result cannot be an error.
        let _ = self.acquire_slow(Until::FOREVER);
    }

    #[cold]
    fn acquire_slow(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        // Free with waiters, or this thread's first lock: one more try before anything dearer.
        if P::id().is_none() {
            P::current();
        }
        if self.take(false, 0) {
            return Ok(());
        }
        P::count(Event::MutexSlowpath, 1);
        turn::acquire(&Want(self), until)
    }

    /// After a release with waiters: wakes the first, if it listens.
    #[cold]
    fn released(&self) {
        if self.word.load(Relaxed) & LISTENING != 0
            && self.word.fetch_and(!LISTENING, AcqRel) & LISTENING != 0
            && let Some(first) = self.queue.first()
        {
            P::count(Event::MutexWake, 1);
            first.unpark();
        }
    }
}

/// A thread that wants the mutex.
struct Want<'a, P: Platform>(&'a RawMutex<P>);

impl<P: Platform> Contended<P> for Want<'_, P> {
    const EVENTS: Events = Events {
        spun: Event::MutexOptLock,
        spin_failed: Event::MutexOptFail,
        queued: Event::MutexLock,
        gave_up: Event::MutexFail,
        slept: Event::MutexSleep,
    };

    fn wait_lock(&self) -> &RawQSpinLock<P> {
        &self.0.wait_lock
    }

    fn waiters(&self) -> &WaitQueue<P> {
        &self.0.queue
    }

    fn osq(&self) -> &Osq<P> {
        &self.0.osq
    }

    fn owner(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.0.word.load(Relaxed) & OWNER)
    }

    fn look(&self, first: bool) -> Look {
        let word = self.0.word.load(Relaxed);
        match RawMutex::<P>::open(word, first) {
            true => Look::Open,
            false if word & HANDOFF != 0 && !first => Look::Kept,
            false => Look::Closed,
        }
    }

    fn try_take(&self, first: bool) -> bool {
        self.0.take(first, 0)
    }

    fn try_or_ask(&self, request: Request) -> bool {
        match request {
            Request::Listen => self.0.take(true, LISTENING),
            Request::Handoff => {
                P::count(Event::MutexHandoff, 1);
                self.0.take(true, HANDOFF)
            }
        }
    }

    fn ask_for_first(&self) {
        if self.0.word.fetch_or(HANDOFF, Relaxed) & HANDOFF == 0 {
            P::count(Event::MutexHandoff, 1);
        }
    }

    fn left(&self, empty: bool, listen: bool) {
        if empty {
            self.0.word.fetch_and(OWNER, Relaxed);
        } else if listen {
            self.0.word.fetch_or(LISTENING, AcqRel);
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::platform::linux::Linux;

    #[test]
    fn the_word_says_what_its_table_says() {
        let mutex = RawMutex::<Linux>::new();
        let want = Want(&mutex);
        let says = || mutex.word.load(Relaxed);
        // To a newcomer, and to the first waiter.
        let looks = || [false, true].map(|first| want.look(first));
        assert!(!mutex.ask_holder() && says() == 0, "nobody holds it");
        assert_eq!((looks(), want.owner()), ([Look::Open, Look::Open], None));
        mutex.acquire();
        let holder = Linux::id();
        let me = holder.expect("a lock gives its holder a name").raw();
        assert_eq!(says(), me);
        assert_eq!((looks(), want.owner()), ([Look::Closed, Look::Closed], holder));
        // Asking twice is asking once.
        for _ in 0..2 {
            assert!(mutex.ask_holder());
            assert_eq!(says(), me | 0x2_0000);
        }
        for _ in 0..2 {
            want.ask_for_first();
            assert_eq!(says(), me | 0x3_0000);
        }
        assert_eq!((looks(), want.owner()), ([Look::Kept, Look::Closed], holder));
        // SAFETY: acquired above.
        unsafe { mutex.release() };
        assert_eq!(says(), 0x1_0000, "the release obeys; the mutex is kept");
        assert!(!mutex.try_acquire() && !mutex.is_locked());
        assert_eq!((looks(), want.owner()), ([Look::Kept, Look::Open], None));
        assert!(mutex.take(true, 0));
        assert_eq!(says(), me);
        // SAFETY: taken above.
        unsafe { mutex.release() };
        assert_eq!(says(), 0);
    }
}
