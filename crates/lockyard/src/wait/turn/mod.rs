//! Turns: how a thread waits for a sleeping lock.
//!
//! A hand-over to a sleeper leaves the lock idle for a context switch. So threads that run may take
//! the lock before threads that sleep, for a bounded time: the *turn* of each waiter.
//!
//! # Words
//!
//! `LISTENING` and `HANDOFF`, the *requests*, are bits of the lock. The others are in the record of
//! the waiting thread, which is never freed. The wait lock orders all changes of the queue.
//!
//! | word | meaning | if it is not set |
//! |---|---|---|
//! | `LISTENING` | the next release wakes the first waiter | that one sleeps to its timer |
//! | `HANDOFF` | the lock admits nobody but the first waiter | it is passed for longer |
//! | `due` | when the waiter's turn is over | – |
//! | `reserved` | since when the lock is free for the waiter; `LAPSED`: it did not come | set later |
//! | `note` | `FOUGHT_OVER`: the waiter before was passed. `GUARD`: signalled, others queued | – |
//! | `place` | ticket, one more than that of the waiter before; does not fall along the queue | – |
//!
//! | word | set or stored by |
//! |---|---|
//! | `LISTENING` | the first waiter, in the step in which its last try fails |
//! | | an owner that leaves the queue, for the new first; a fair release |
//! | | a signaller, for a first waiter that it put there. (Free: it wakes that one) |
//! | `HANDOFF` | the first waiter, in the step in which a try fails after its turn |
//! | | under the wait lock: a thread that finds the first waiter late, and then wakes it |
//! | | an owner that leaves, or a signaller, if the new first has a rank; a fair release |
//! | `due` | the waiter: when it joins, looks as first, or sleeps after its turn |
//! | | a signaller: far in the future, until the waiter runs |
//! | `reserved` | a release with `HANDOFF`, or a refused thread, if it is 0 |
//! | | `LAPSED`: the thread that ends the reservation |
//! | `note` | one value. `FOUGHT_OVER`: a leaving owner that was passed. `GUARD`: the signaller |
//! | `place` | the thread that puts the waiter there, under the wait lock. (In front of others, |
//! | | by rank: that of the next) |
//!
//! | word | cleared by |
//! |---|---|
//! | `LISTENING` | the release that wakes |
//! | `HANDOFF` | the thread that ends a reservation. Not a release |
//! | both | the waiter that empties the queue; a first waiter that leaves with the lock |
//! | `reserved` | the waiter that joins, and at each look; the signaller; a leaver that was moved |
//! | `note` | a leaving owner that was not passed; the waiter that joins; |
//! | | the thread that moves it; a signaller, in an empty queue |
//!
//! **Terms.** *First*: at the head of the queue. *Rank*: a fixed priority ([`Platform::rank`]).
//! *Refused*: not first, and the lock is free for the first waiter, with `HANDOFF`. *Late*, of a
//! first waiter: a [`GRACE_NS`] after its `due`; without a timer, and woken, so long after a turn
//! that began when it was put there. To a thread that joins: if it has `FOUGHT_OVER`,
//! and either that time is over or a wake-up of it is kept. *Passed*, of a waiter: a look of it
//! competed in vain in step 4, and this wait had set `LISTENING` before; or a look came to step 4
//! or 7, and `due` was over (with a rank this does not count). *Sleeps long*: `due` is more than
//! two [`TURN_NS`] ahead. A *wait* lasts from joining to leaving. A *wake-up* of a thread that runs
//! is kept: its next sleep ends at once.
//!
//! # States of a waiter
//!
//! | state | event | next state |
//! |---|---|---|
//! | spinning: not queued | a try succeeds | owner |
//! | | its time is over, the owner is off its CPU, or `HANDOFF` is set | joining |
//! | joining: takes the wait lock | a try succeeds | owner |
//! | | it fails: joins the queue | looking |
//! | looking: clears `reserved` | as below | looking, asleep, leaving or owner |
//! | asleep | its timer, a wake-up, cancellation | looking |
//! | asleep without a timer | a wake-up: sets `due` as if it joined | looking |
//! | leaving: takes the wait lock, leaves the queue | – | owner, or gave up |
//!
//! **Spinning.** Not with one CPU. One spinner at a time tries, and sees `HANDOFF`; the others wait
//! for its place in a queue of their own. The time is [`BLIND_NS`] if no owner is known, else the
//! machine's budget, before that at most [`PRESS_NS`]; half as long again for a new owner.
//!
//! **Joining.** Behind all of its rank or higher. The waiter sets `place` and `due`, clears `note`
//! and `reserved`. If the first waiter is late and not `LAPSED`, it sets `HANDOFF` and wakes that
//! one.
//!
//! **Looking.** The first that applies. "`due` is over" says the clock as it was read in step 1 and
//! after step 3:
//!
//! 1. The lock looks open: the waiter tries for the wait lock for [`COMPETE_NS`] (once, if it is
//!    first, and `due` is over or the lock is kept for it), tries the lock, and leaves the queue in
//!    that section: owner. In vain: it clears `reserved`, and goes on as first if it is that now.
//!    Unless it had that time and not the wait lock, it tries the lock (a reader may get in
//!    beside others). It has the lock: leaving.
//! 2. Its deadline is over, or it is cancelled: leaving. First, and it did not get the wait lock in
//!    that time: it lowers `due` to a [`TURN_NS`] ahead, counts as one that has not set
//!    `LISTENING`, and is asleep until `due`, for a [`GRACE_NS`] at most.
//! 3. The owner is off its CPU: it yields, once in a wait. Looking.
//! 4. First: if `due` is over, it tries and sets `HANDOFF` in that step. It lowers `due` to a
//!    [`TURN_NS`] ahead. It competes for [`COMPETE_NS`], or until the owner is off its CPU. If
//!    `due` was over, or `HANDOFF` is set, or the lock looked open in step 1, or this wait has not
//!    set `LISTENING` yet, it tries and sets `LISTENING` in that step. If `due` was over it sets a
//!    new one. Asleep; leaving if a try succeeded.
//! 5. Refused, and the reservation is a [`RESERVED_NS`] old, or void: it tries once for the wait
//!    lock. If it has ended the reservation: looking. (It may get the lock before the waiter that
//!    it wakes.) If not, step 7.
//! 6. Refused: if `reserved` of the first waiter is 0, it stores the time there and wakes that one.
//!    Step 7.
//! 7. `due` is over: it moves first waiters that are `LAPSED`. If the first waiter is another than
//!    before, or late, it wakes that one; if late, it sets `HANDOFF`. It sets a new `due`. Asleep.
//! 8. Asleep.
//!
//! **Asleep.** The timer is the first of `due`, the deadline, a [`RESERVED_NS`] if the waiter was
//! refused, and a [`TURN_NS`] if it did not get the wait lock in step 1. Without a timer: a
//! signaller put it there; for the lock it has neither deadline nor cancellation.
//!
//! **`due`.** A joining waiter's is a [`TURN_NS`] from now and one more for each waiter before it
//! (the difference of `place`), at most [`TURNS_NS`]; with a rank, now. A waiter that sleeps after
//! its turn sets it anew: now and a [`TURN_NS`] for each waiter before it, at least one. From the
//! tenth time on ([`PATIENT_AFTER`]) that is twice as far each time, at most
//! 2^[`PATIENT_SHIFT`] times as far, and at most [`TURNS_NS`]. A waiter that is not first
//! stores such a `due` of more than two turns ahead under the wait lock: the owner that leaves
//! before it finds the new time, or has made it first, and it looks. The first waiter has set both
//! requests, stores it plainly, and sets `LISTENING` again. (If a waiter before it, of higher rank
//! or moved, leaves with the lock at that moment, it sleeps to its timer.)
//!
//! **Leaving.** The waiter that is first, or has the lock, moves `LAPSED` first waiters after it
//! has left. An owner that was first clears both requests; then, in the same exchange, they are set
//! as follows, if somebody is queued. *With the lock, passed*, first or not: it marks the first
//! waiter `FOUGHT_OVER`; it wakes one of those behind that one that have no timer; it does not wake
//! the first, which has its turn. *With the lock, not passed*: it sets `LISTENING`, clears the
//! first waiter's `note`; it wakes one of those behind that one that have no timer, or, at a lock
//! that several threads may have, up to [`OPENED`] that sleep long. In both cases only the eight
//! behind the first are looked at, and none whose wake-up is kept; and if the first waiter sleeps
//! long or has a rank, the owner sets `LISTENING`; if it has a rank and is not `LAPSED`, `HANDOFF`
//! too. *Without the lock*: requests stay; a waiter that was first wakes the new first, and one of
//! those behind that one that have no timer. *In each case, not first*: it wakes the waiter right
//! behind itself, if that one has no timer. If its last look was one as first, it was moved during
//! that look, and has asked for another: it clears the first waiter's `reserved`, and with the lock
//! sets `LISTENING`. *First, without the lock*: the requests stay, for the next; a lock that counts
//! them ([`mutex`](crate::mutex)) counts one more.
//!
//! **Release.** Frees the lock. After that, with `HANDOFF` and if the lock is still free, it stores
//! the time in `reserved` of the first waiter if that is 0; with `LISTENING` it clears that and
//! wakes the first waiter. (A release after which another thread may free the lock's memory stores
//! the time first; then one exchange frees the lock and clears `LISTENING`.) A fair release moves
//! `LAPSED` first waiters, sets both requests under the wait lock (neither, if the first is still
//! `LAPSED`), and then releases. While `HANDOFF` is set the first waiter is awake, or `LISTENING`
//! is set, or a thread is about to wake it: the one that set `HANDOFF`, unless that one was moved
//! and is about to leave with the lock, a release that has cleared `LISTENING`, or the first waiter
//! that gave up. (A release that leaves other owners, or too few
//! units for the first waiter, does nothing of this: see the lock's page.)
//!
//! # Reservations end
//!
//! A free lock is *reserved* while `HANDOFF` refuses it to others. A [`RESERVED_NS`] after the time
//! in `reserved` the next refused thread (a waiter, a try, a poll) tries once for the wait lock; if
//! it gets it, and the same waiter is first and has not looked since (`reserved` is as it was), it
//! clears `HANDOFF`, marks that waiter `LAPSED`, moves it behind all others, whatever its rank
//! (`due` stays), wakes the new first, and tries again. A reservation for a waiter that is still
//! `LAPSED`, or for waiters of the parent of a fork, is void: the next refused thread ends it
//! without the time. A waiter that is `LAPSED` gets no `HANDOFF`, but from one
//! that is stopped in the step before. See `reservation`.
//!
//! # Bound on bypass
//!
//! A waiter that gets a CPU within [`RESERVED_NS`] of each wake-up is passed only until its turn is
//! over: behind n others that do as well it has the lock after at most
//! (n + 1) × ([`TURN_NS`] + a hold + a wake-up). A waiter before it that does not come is passed at
//! one of its looks after its turn: that costs a [`RESERVED_NS`], and the time until that look (see
//! *`due`*). Waiters of higher rank that come later are served before it. A waiter that does not
//! get a CPU has no bound.
//!
//! # Invariants
//!
//! 1. `waiter.busy` is set while the thread is in the queue or about to leave it.
//! 2. A queued waiter is awake or has a timer, except those that a signaller put there asleep. Of
//!    these the first in the queue has `LISTENING` set for it, or is woken when it becomes first.
//!    One that is put behind others is woken, and so has a timer (a *guard*), unless the last in
//!    the queue is a `GUARD` that is not `LAPSED`, was put there, or had its `due`, not longer than
//!    a [`GRACE_NS`] ago, and once it has run has no wake-up kept. Waiters put there asleep never
//!    give up. (If a guard, or the waiter that it wakes when it leaves, is stopped before it has
//!    run, those behind it sleep until it runs, or until a thread that joins the queue and leaves
//!    it finds them among the eight behind the first.)
//! 3. The leaving waiter, if it was first and does not have the lock, wakes the new first waiter.
//! 4. A waiter tries before it looks at its deadline, and once more, under the wait lock, before it
//!    gives up.
//! 5. Requests outlive no queue: they are set while somebody is queued, and the waiter that empties
//!    the queue clears them under the wait lock.
//! 6. `is_first` without the wait lock is a hint: a first waiter may have been moved. A try as
//!    first by one that is not passes the first waiter once, and asks for that one.
//!
//! # Signal handlers
//!
//! A thread in a queue has no second place (invariant 1): a handler that interrupts it and waits
//! for a lock polls, and takes one that is free or whose reservation ends. In a section under the
//! wait lock (joining, taking an open lock, leaving: dozens of instructions) a handler must not
//! wait for the lock of that section: the poll succeeds where the lock is open, but can end no
//! reservation, and an owner that leaves the queue needs the section. (POSIX lets no handler lock.)
//!
//! A thread that is stopped in such a section keeps the wait lock: until it goes on, a free lock is
//! taken by fast paths, tries and spinners, until the first waiter takes it at the end of its turn;
//! no thread joins or leaves the queue, and that waiter keeps the lock.
//!
//! # Ordering
//!
//! `LISTENING` is set with AcqRel, also where the bit was set already, and a release clears it with
//! an AcqRel read-modify-write: it sees the queue as the requester did, so that the first waiter it
//! reads, without the wait lock, is the requester's or a later one. That waiter may have left by
//! then: (3), or its own leaving, has taken care of the next, at the latest its timer. `HANDOFF` is
//! a hint to a release, which stores a time for it; it keeps others out by the lock's own word.
//! *`due`*, *`place`*, *`note`*: ordered by the wait lock, or a hint. *`reserved`*: a hint; a wrong
//! one ends a reservation early.
//!
//! Sources: mutex and rwsem handoff (Linux 2016, 2019); woken first waiter spins (Linux 2016);
//! Dice, "Malthusian Locks" (EuroSys 2017).

mod beside;
mod leaving;
mod queued;
mod reservation;
mod spin;

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::osq::Osq;
use crate::wait::queue::WaitQueue;
use crate::wait::section;

pub(crate) use beside::{Beside, Shares};
pub(crate) use queued::{Pushed, push_asleep, pushed_at, resume};
pub(crate) use reservation::{LAPSED, released_reserved, try_take};

/// How long running threads may pass a waiter when everybody before it has been served.
pub const TURN_NS: u64 = 400_000;
/// Upper bound on how far ahead a turn may end: waiters beyond it all get this bound.
pub const TURNS_NS: u64 = 1_000_000_000;
/// How long a free lock is reserved for a first waiter that has been woken.
pub const RESERVED_NS: u64 = 1_000_000;
/// A first waiter that has not run so long after its turn ended is late.
pub const GRACE_NS: u64 = 100_000;
/// A waiter doubles the distance between its looks after so many in vain, [`PATIENT_SHIFT`] times.
pub const PATIENT_AFTER: u32 = 8;
/// See [`PATIENT_AFTER`]: a first waiter then looks about every 0.1 s.
pub const PATIENT_SHIFT: u32 = 8;
/// How long the first waiter spins before it sleeps: about one context switch.
pub const COMPETE_NS: u32 = 5_000;
/// How long a spinner goes on that has no owner to watch.
pub const BLIND_NS: u32 = 20_000;
/// How long a writer spins on a lock that readers hold before it asks them for a gap.
pub const PRESS_NS: u32 = 2_000;
/// The distance between its looks from then on.
pub const PRESSED_STRIDE_NS: (u32, u32) = (50, 200);
/// How many long sleepers a waiter that was not passed wakes when it leaves a lock for several.
pub const OPENED: usize = 2;
/// The distance between two looks of a spinner, at first and in the end: fewer looks disturb the
/// owner less.
pub const STRIDE_NS: (u32, u32) = (100, 4_000);
/// The same for a spinner that can tell whether the hold that it saw goes on: it looks often while
/// nobody writes the word, and less often where another hold has begun before it could take it.
pub const PACED_STRIDE_NS: (u32, u32) = (160, 4_000);
/// The same for a reader: it keeps no other reader out when it gets in.
pub const READER_STRIDE_NS: (u32, u32) = (100, 600);

/// What the first waiter asks of a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// Wake the first waiter at the next release.
    Listen,
    /// Admit nobody but the first waiter.
    Handoff,
}

/// How a lock looks to a thread that wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Open,
    Closed,
    /// Closed to all but the first waiter, which perhaps waits for this CPU.
    Kept,
}

/// How a waiter has left the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    /// It was first, and has the lock: what was asked for it is done.
    pub(crate) served: bool,
    /// It was first, and has nothing: the next has what was asked for it.
    pub(crate) gave_up: bool,
    /// It was the last.
    pub(crate) empty: bool,
    /// It has the lock, and its release is to wake the next waiter.
    pub(crate) listen: bool,
    /// Its release is to admit the next waiter only.
    pub(crate) handoff: bool,
}

impl Left {
    /// `word` with the requests that are asked for from now on, and no others. `obeyed`: what a
    /// release takes back that wakes; `listening` adds that request, or makes it another than
    /// before: also where the first waiter leaves it to the next, whose name a detached release
    /// may not have read.
    pub(crate) fn requests(self, word: u64, obeyed: u64, listening: impl Fn(u64) -> u64, handoff: u64) -> u64 {
        if self.empty {
            return word & !(obeyed | handoff);
        }
        let kept = if self.served { word & !(obeyed | handoff) } else { word };
        let inherited = self.gave_up && kept & obeyed != 0;
        let asked = if self.listen || inherited { listening(kept) } else { kept };
        if self.handoff { asked | handoff } else { asked }
    }
}

/// Under which names a lock counts how its waits ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) spun: Event,
    pub(crate) spin_failed: Event,
    pub(crate) queued: Event,
    pub(crate) gave_up: Event,
    pub(crate) slept: Event,
}

/// A lock, and one way of wanting it, as turns see them.
pub(crate) trait Contended<P: Platform> {
    /// Names to count under.
    const EVENTS: Events;
    /// Several threads may have the lock at a time.
    const SHARED: bool = false;
    /// What the waiter's record says that it wants, if that is the same for all.
    const KIND: u32 = 0;

    /// What the waiter's record says that it wants.
    fn wants(&self) -> u32 {
        Self::KIND
    }

    fn wait_lock(&self) -> &RawQSpinLock<P>;
    fn waiters(&self) -> &WaitQueue<P>;
    fn osq(&self) -> &Osq<P>;

    /// The thread that must run for the lock to become free, if one is known.
    fn owner(&self) -> Option<ThreadId>;

    /// The distance between a spinner's looks, at first and in the end. See
    /// [`Patience::stride`](crate::platform::Patience::stride).
    const STRIDE_NS: (u32, u32) = STRIDE_NS;

    /// The one spinner has spun for [`PRESS_NS`] in vain: it may ask those who share the lock for a
    /// gap. `true`: it did.
    fn press(&self, me: &Thread<P>) -> bool {
        let _ = me;
        false
    }

    /// The spinner that has pressed has stopped spinning.
    fn relent(&self) {}

    /// What a try would probably come to. One load: a line that is fought over does not stay for a
    /// second.
    fn look(&self, first: bool) -> Look;

    /// As `look(false)`, by the one spinner, and whether a spinner has seen this hold before. A
    /// lock that cannot tell says no.
    fn look_again(&self) -> (Look, bool) {
        (self.look(false), false)
    }

    /// Whether `first`, the first waiter, could have the lock now.
    fn is_open_to(&self, first: &Thread<P>) -> bool {
        let _ = first;
        self.look(true) == Look::Open
    }

    /// Takes the lock, and leaves requests as they are. `first`: `HANDOFF` does not forbid it.
    fn try_take(&self, first: bool) -> bool;

    /// As `try_take` for the first waiter; a failed try leaves `request` on the held lock, in the
    /// same atomic step.
    fn try_or_ask(&self, request: Request) -> bool;

    /// Under the wait lock, somebody being queued: sets `HANDOFF` for the first waiter.
    fn ask_for_first(&self);

    /// Under the wait lock: clears `HANDOFF`.
    fn unreserve(&self);

    /// Under the wait lock: a waiter has queued; `first`: the queue was empty.
    fn joined(&self, first: bool) {
        let _ = first;
    }

    /// Under the wait lock: a waiter has left the queue.
    fn left(&self, left: Left);
}

/// In a [`Contended`] that wants the lock of another one, `$want`, in another way: its parts.
macro_rules! parts_of {
    ($want:ident) => {
        fn wait_lock(&self) -> &$crate::spin::qspinlock::RawQSpinLock<P> {
            self.$want.wait_lock()
        }

        fn waiters(&self) -> &$crate::wait::queue::WaitQueue<P> {
            self.$want.waiters()
        }

        fn osq(&self) -> &$crate::wait::osq::Osq<P> {
            self.$want.osq()
        }

        fn owner(&self) -> Option<$crate::platform::thread::ThreadId> {
            self.$want.owner()
        }

        fn is_open_to(&self, first: &$crate::platform::thread::Thread<P>) -> bool {
            self.$want.is_open_to(first)
        }

        fn ask_for_first(&self) {
            self.$want.ask_for_first();
        }

        fn unreserve(&self) {
            self.$want.unreserve();
        }
    };
}

pub(crate) use parts_of;

/// The owner is about to release: the lock is then reserved for the first waiter, which is woken.
#[cold]
pub(crate) fn ask_to_hand_over<P: Platform, L: Contended<P>>(lock: &L) {
    section::locked(lock.wait_lock(), || {
        if leaving::first_that_comes(lock.waiters()).is_some_and(|first| !reservation::has_lapsed(first)) {
            lock.left(Left { served: false, gave_up: false, empty: false, listen: true, handoff: true });
        }
    });
}

/// Takes the lock unless `until` comes first.
pub(crate) fn acquire<P: Platform, L: Contended<P>>(lock: &L, until: Until<'_, P>) -> Result<(), GaveUp> {
    match P::current() {
        Some(me) if me.waiter.busy.load(Relaxed) == 0 => {
            if spin::spin(lock, me, until) {
                P::count(L::EVENTS.spun, 1);
                return Ok(());
            }
            P::count(L::EVENTS.spin_failed, 1);
            until.watching(me, || queued::queue(lock, me, until))
        }
        // No record to queue with, or already waiting (a signal handler): try, and give the CPU
        // away in between.
        _ => until.poll(|| try_take(lock)),
    }
}
