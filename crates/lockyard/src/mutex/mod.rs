//! The mutex: spins while the owner runs, sleeps otherwise, bounded unfairness.
//!
//! # The word
//!
//! | bits | name | meaning | set by | cleared by |
//! |---|---|---|---|---|
//! | 0–15 | owner | thread id, 0 = free | the taker | the owner's release |
//! | 16 | `HANDOFF` | only the first waiter may take it | see [`wait::turn`](crate::wait::turn) | likewise |
//! | 17 | `LISTENING` | the next release wakes the first waiter | likewise | the release that wakes; likewise |
//! | 18–22 | asks | for how many first waiters `LISTENING` was set during this hold, mod 32 | with `LISTENING`; the first waiter, if it leaves without the mutex and leaves `LISTENING` to the next; the signaller that sets `ADOPTED` | with `LISTENING` |
//! | 23 | `ADOPTED` | `LISTENING` was set for a first waiter without a timer | the signaller that put it there | with `LISTENING` |
//! | 24 | `SEEN` | a spinner has looked at this hold | the spinner | the owner's release |
//!
//! | word | state | who may take it |
//! |---|---|---|
//! | 0 | free; queued threads sleep by their own timers | anyone, one compare-exchange |
//! | t | held, likewise | |
//! | t + L | held; the release wakes the first waiter | |
//! | t + H (+ L) | held, asked for | |
//! | H (+ L) | free, reserved for the first waiter while that one can be expected to come | the first waiter |
//!
//! `SEEN` may be set in each state with an owner. Only the spinner heeds it: if the bit is gone,
//! another hold has begun, and the spinner looks less often
//! ([`PACED_STRIDE_NS`](turn::PACED_STRIDE_NS)). A machine that does not pace spins never sets it.
//!
//! There is no bit for waiters on purpose: unlock looks at the queue only if it is asked to.
//!
//! # Waiting
//!
//! As [`wait::turn`](crate::wait::turn) says, which also gives the bound on bypass. A spinner
//! queues when its budget is spent; on a machine without budgets (one that tells exactly when a CPU
//! is needed) when it is asked to yield. The kernel's mutex sets handoff after the first failed
//! wake-up, and its release names the first waiter as owner. Here a turn bounds the cost of context
//! switches, and the free mutex is reserved for the first waiter: one flag fewer, a release that is
//! one unconditional instruction, and no gift that a thread could take for its own ownership (the
//! kernel's 2017 bug).
//!
//! # Invariants
//!
//! 1. A flag is set only while somebody is queued: the waiter that empties the queue clears them,
//!    under the wait lock.
//! 2. The first waiter sets flags on a held mutex only, in one step with finding it held: no
//!    release can slip in between (the kernel's 2021 bug).
//! 3. A cancelled first waiter may leave its request behind: it then serves the new first waiter,
//!    which has been woken.
//! 4. A detached release obeys the request that it read the first waiter's name for, and no later
//!    one: a later one has changed `asks`. Exceptions, all between two instructions of the owner:
//!    32 waiters give up; the queue becomes empty, which clears `asks`; a stopped first waiter is
//!    moved, or one of higher rank comes before the first. Then the first waiter has a timer.
//!    A waiter without a timer never gives up: a request for it has `ADOPTED`, and is mistaken for
//!    no earlier one of a waiter with a timer.
//!
//! # Memory ordering
//!
//! `word`: taking is Acquire, releasing is Release. Every change is a read-modify-write, which
//! keeps release sequences alive. Asking and obeying are AcqRel: see
//! [`wait::turn`](crate::wait::turn). `SEEN` is Relaxed: it orders nothing.
//!
//! **Destruction.** A release touches the mutex after another thread may own it, if there are
//! requests: the memory must stay until every `unlock` has returned. [`RawMutex::release_detached`]
//! does not: see `embed`. **fork.** A mutex held by another thread stays held in the child. The
//! forking thread goes on with what it holds; the parent's waiters are not in the child's queue
//! ([`wait::queue`](crate::wait::queue)).
//!
//! Sources: Documentation/locking/mutex-design (Linux); "locking/mutex: Add lock handoff to avoid
//! starvation" (2016), "Fix mutex handoff" (2017), "Introduce __mutex_trylock_or_handoff()" (2021).

mod embed;

use core::fmt;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{ConstPlatform, ConstZero, Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::section::locked;
use crate::wait::turn::{self, Contended, Events, Left, Look, Pushed, Request};

const OWNER: u32 = 0xffff;
/// Everything but the owner. Not all the upper bits: on x86-64 this mask is what makes a release
/// one `lock and` whose flags tell the result; with `!OWNER` the compiler sees a comparison instead
/// of a mask and falls back to a compare-exchange loop.
const FLAGS: u32 = 0xff_0000;
const HANDOFF: u32 = 1 << 16;
const LISTENING: u32 = 1 << 17;
const ASK: u32 = 1 << 18;
const ASKS: u32 = 31 * ASK;
const ADOPTED: u32 = 1 << 23;
const SEEN: u32 = 1 << 24;
/// What a release takes back that wakes the first waiter.
const OBEYED: u32 = LISTENING | ASKS | ADOPTED;

/// The mutex: 32 bytes, three words of which belong to the embedder. See the [module text](self).
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

/// Without `SEEN`: a wait that ended leaves it to the hold, which takes it along.
impl<P: Platform> fmt::Debug for RawMutex<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, embedder, wait_lock, embedder_kind, osq, queue, spare } = self;
        let mut shown = f.debug_struct("RawMutex");
        match P::PACES {
            true => shown.field("word", &(word.load(Relaxed) & !SEEN)),
            false => shown.field("word", word),
        };
        shown.field("embedder", embedder).field("wait_lock", wait_lock).field("embedder_kind", embedder_kind);
        shown.field("osq", osq).field("queue", queue).field("spare", spare).finish()
    }
}

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

    /// Takes the mutex unless `until` comes first. An acquisition that need not wait succeeds
    /// whatever `until` says.
    ///
    /// # Errors
    /// Why the wait ended.
    #[inline]
    pub fn acquire_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
        if self.acquire_fast() { Ok(()) } else { self.acquire_slow(until) }
    }

    /// Takes the mutex if it is free and not kept for a waiter whose turn is over. May pass
    /// waiters.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.acquire_fast() || self.take(false, None) || self.try_reserved()
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

    /// Releases the mutex to the first waiter, if there is one: no other thread comes in between.
    /// (Unless that waiter does not come: see [`wait::turn`](crate::wait::turn).)
    ///
    /// # Safety
    /// As [`RawMutex::release`].
    pub unsafe fn release_fair(&self) {
        if self.is_contended() {
            turn::ask_to_hand_over(&Want(self));
        }
        // SAFETY: the caller's promise.
        unsafe { self.release() };
    }

    /// Puts `thread`, which sleeps, into the queue, as if it had come here and slept; `queued` is
    /// run when it is there. It will be woken.
    pub(crate) fn adopt(&self, thread: &Thread<P>, queued: impl FnOnce()) {
        let wake = locked(&self.wait_lock, || {
            let pushed = turn::push_asleep(&self.queue, thread);
            queued();
            // The adopted thread cannot leave the queue, hence the mutex cannot go away, before the
            // wait lock is dropped.
            match pushed {
                Pushed::First => !self.ask_owner(if P::rank(thread.id()) != 0 { HANDOFF } else { 0 }),
                Pushed::Guard => true,
                Pushed::Asleep => false,
            }
        });
        if wake {
            thread.unpark();
        }
    }

    /// Asks the owner to wake the first waiter, which has no timer, and to admit nobody else
    /// (`handoff`). `false`: nobody owns the mutex.
    fn ask_owner(&self, handoff: u32) -> bool {
        let mut word = self.word.load(Relaxed);
        while word & OWNER != 0 {
            match self.word.compare_exchange_weak(word, Self::listening(word) | ADOPTED | handoff, AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// `word`, with the request to wake the first waiter: another than `word` has.
    #[inline]
    fn listening(word: u32) -> u32 {
        word & !ASKS | (word + ASK) & ASKS | LISTENING
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

    /// How the mutex, as `word` says, looks.
    #[inline(always)]
    fn look(word: u32, first: bool) -> Look {
        match Self::open(word, first) {
            true => Look::Open,
            false if word & HANDOFF != 0 && !first => Look::Kept,
            false => Look::Closed,
        }
    }

    /// Takes the mutex if it is open to the caller; otherwise leaves `request` on it while it is
    /// held.
    ///
    /// A request is left by a read-modify-write also where it is there already: the release that
    /// obeys it is to see the queue as the caller does.
    fn take(&self, first: bool, request: Option<Request>) -> bool {
        let me = P::id().unwrap_or(ThreadId::ANONYMOUS).raw();
        let mut word = self.word.load(Relaxed);
        loop {
            let open = Self::open(word, first);
            let next = match request {
                _ if open => word | me,
                Some(_) if word & OWNER == 0 => return false,
                Some(Request::Listen) if word & LISTENING == 0 => Self::listening(word),
                Some(Request::Listen) => word,
                Some(Request::Handoff) => word | HANDOFF,
                None => return false,
            };
            match self.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => return open,
                Err(found) => word = found,
            }
        }
    }

    /// A try that found the mutex free and reserved, or held.
    #[cold]
    fn try_reserved(&self) -> bool {
        self.word.load(Relaxed) & OWNER == 0 && turn::try_take(&Want(self))
    }

    /// Apart, so that the fast path makes no room for an [`Until`].
    #[cold]
    #[inline(never)]
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
        if self.take(false, None) {
            return Ok(());
        }
        P::count(Event::MutexSlowpath, 1);
        turn::acquire(&Want(self), until)
    }

    /// After a release with requests.
    #[cold]
    fn released(&self) {
        let word = self.word.load(Relaxed);
        if word & (OWNER | HANDOFF) == HANDOFF
            && let Some(first) = self.queue.first()
        {
            turn::released_reserved(first);
        }
        if word & LISTENING != 0
            && self.word.fetch_and(!OBEYED, AcqRel) & LISTENING != 0
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

    const STRIDE_NS: (u32, u32) = if P::PACES { turn::PACED_STRIDE_NS } else { turn::STRIDE_NS };

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
        RawMutex::<P>::look(self.0.word.load(Relaxed), first)
    }

    fn look_again(&self) -> (Look, bool) {
        let word = self.0.word.load(Relaxed);
        let look = RawMutex::<P>::look(word, false);
        let same = word & SEEN != 0;
        if P::PACES && look == Look::Closed && !same {
            // If it fails the hold has ended.
            let _ = self.0.word.compare_exchange(word, word | SEEN, Relaxed, Relaxed);
        }
        (look, same)
    }

    fn try_take(&self, first: bool) -> bool {
        self.0.take(first, None)
    }

    fn try_or_ask(&self, request: Request) -> bool {
        if request == Request::Handoff {
            P::count(Event::MutexHandoff, 1);
        }
        self.0.take(true, Some(request))
    }

    fn ask_for_first(&self) {
        if self.0.word.fetch_or(HANDOFF, Relaxed) & HANDOFF == 0 {
            P::count(Event::MutexHandoff, 1);
        }
    }

    fn unreserve(&self) {
        self.0.word.fetch_and(!HANDOFF, Relaxed);
    }

    fn left(&self, left: Left) {
        let mut word = self.0.word.load(Relaxed);
        loop {
            let listening = |word| u64::from(RawMutex::<P>::listening(word as u32));
            let next = left.requests(word.into(), OBEYED.into(), listening, HANDOFF.into()) as u32;
            if next == word && !left.listen {
                return;
            }
            match self.0.word.compare_exchange_weak(word, next, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }
}

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
