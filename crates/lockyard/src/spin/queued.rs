//! What all queued spinlocks share: the lock word, stealing, waiting, sleeping.
//!
//! A *newcomer* has not queued. A *queued waiter* looks at its own node. The *head*, the first of
//! the queue, looks at the lock word. How waiters queue, and which one becomes head next, is a
//! matter of the [`Kind`]:
//!
//! | kind | queue | next head |
//! |---|---|---|
//! | [`Plain`](super::qspinlock::Plain), [`Marked`](super::qspinlock::Marked) | one, its tail in the word | the next waiter |
//! | [`Cna`](super::cna::Cna) | one, its tail in the word, and the waiters that were moved aside | the next waiter of the same NUMA node |
//! | [`Hq`](super::hq::Hq) | the same as plain; under contention one per NUMA node, outside the word | the next waiter of the same node, up to a quota |
//!
//! An *exact* machine ([`Platform::spin_budget`] without limit: a simulated kernel) says when a CPU
//! is needed. It stops no thread, and has no ranks here.
//!
//! # The word
//!
//! | bits | name | meaning | set by | cleared by | legal not to |
//! |---|---|---|---|---|---|
//! | 0–7 | locked | 0 free, 1 held | the taker, by a compare-exchange of at least this byte | the owner, by a byte store with Release | – |
//! | 8 | pending | no thread but the head, an [urgent waiter](super::urgent) or a [late taker](super::lapse) takes the lock | the head whose turn is over | the taker, in the step that takes; the head, before a first sleep, or before a sleep for which it is not registered | set it: threads pass the head longer |
//! | 9 | type | the lock may queue by node ([`Hq`](super::hq::Hq)) | the constructor; in all-zero memory the first taker | nobody | set it before the first taker |
//! | 10 | mark | the word is not another lock's ([`Marked`](super::qspinlock::Marked); not on exact machines) | likewise | nobody | likewise |
//! | 10 | asleep | exact machines: the head sleeps, or was woken and has not run | the head; the thread that makes a sleeping waiter head | the head | – |
//! | 11 | urgent | no thread but an entitled urgent waiter or a late taker takes the lock | an urgent waiter; one that has taken the lock, for the next | the taker, in the step that takes | – |
//! | 12–15 | since | a coarse time at which the lock was found free and refused; 0: none | the refused thread, by a compare-exchange of the word | the next taker | set it: the next refused thread does |
//! | 16–31 | tail | last waiter: thread id (14 bits), nesting level (2 bits); 0: nobody queued; thread id 0: a mark of the kind | the waiter that queues | the last head, when it has the lock; in the child of a fork the thread that buries [ghosts](super::lapse) | – |
//!
//! An *early* newcomer looked before pending or urgent was set. It takes the lock nevertheless, and
//! leaves both as they are.
//!
//! The low half of a lock that is free and refused to nobody is [`Kind::REST`], a constant of the
//! kind. A thread that buries ghosts clears all but the locked byte and those bits. All-zero memory
//! is a free lock, but a try takes a `Marked` one for waited for until its first taker has come.
//!
//! # States
//!
//! | tail, pending, locked | event | next |
//! |---|---|---|
//! | \*,0,0, not urgent | a newcomer or the head takes it (exact: a newcomer only if nobody is queued, or the head sleeps) | \*,0,1 |
//! | 0,0,0 | a try takes it | 0,0,1 |
//! | \*,x,0 | an early newcomer takes it | \*,x,1; urgent stays as it is |
//! | p,x,y | n queues behind p | n,x,y |
//! | n,1,0, not urgent | the head takes it | n,0,1 |
//! | \*,x,0 | an urgent waiter takes it | \*,0,1 |
//! | n,x,0 for [long](super::lapse::LAPSE_NS) | a refused thread finds the old *since*, and takes it | n,0,1 |
//! | n,x,1 | the head n has taken it, and nobody is behind | 0,0,1 |
//! | m,x,1 | the head has taken it, another waiter is behind | m,x,1; that waiter is head |
//! | \*,x,1 | the owner releases | \*,x,0; it wakes the registered heads |
//!
//! | waiter | event | next |
//! |---|---|---|
//! | newcomer | a waiter is queued, the head is not pending | tries for [`STEAL_NS`] (exact: only while the head sleeps), then queues |
//! | | nobody is queued, or pending or urgent is set | tries once, then queues |
//! | | it has a rank ([`Platform::rank`]: a fixed priority) | waits [beside the queue](super::urgent) |
//! | | it has no free node | tries, with naps that grow |
//! | queued | is made head | head |
//! | | [`QUEUED_NS`] are over; exact: its CPU is needed | asleep until it is head, or until its turn ends |
//! | asleep | its turn ends | asleep again, for half the time since it first slept: from a turn to [`TURNS_NS`](crate::wait::turn::TURNS_NS) |
//! | | its look finds the lock free | it looks every [`LAPSE_NS`](super::lapse::LAPSE_NS), and may take it past the head |
//! | head | turn not over | tries for [`COMPETE_NS`], registers in [`heads`](crate::wait::heads), sleeps to a release or to the end of its turn |
//! | | woken, turn not over | tries for [`COMPETE_NS`]; then sleeps to the end of its turn, not registered: running threads are faster than its wake-up |
//! | | turn over | sets pending, tries for [`COMPETE_NS`]; clears pending, registers, sleeps to a release |
//! | | woken after that | sets pending, tries for [`COMPETE_NS`]; sleeps to a release, pending set |
//! | head, exact | | tries for [`EXACT_COMPETE_NS`] or until its CPU is needed, sleeps to a release; then as with its turn over, pending clear in each sleep |
//!
//! Turns are those of [`wait::turn`](crate::wait::turn): a waiter's turn ends a turn after that of
//! the waiter before it. A head has at most one turn from the time at which it became head. The
//! thread that makes a sleeping waiter head wakes it at its own release, by an entry in the table.
//! If it was passed itself, and the waiter's timer ends within two turns, it does not.
//!
//! **Bound on bypass.** Inside a queue of kind plain the order is that of arrival. Newcomers pass
//! each head until its turn ends, and during one sleep after that: for at most
//! [`TURN_NS`](crate::wait::turn::TURN_NS), two wake-ups and a hold; each early newcomer once after
//! that. On an exact machine they pass a head only while it sleeps. Three cases have another bound:
//! a head or waiter that does not come to a free lock in [`LAPSE_NS`](super::lapse::LAPSE_NS) is
//! passed until it comes; a head that finds no free entry in the table sleeps in naps of 1 ms, and
//! is passed in each; threads of fixed priority pass the whole queue.
//!
//! # Ordering
//!
//! * `word`, locked: each taker's compare-exchange is Acquire, and pairs with the owner's store.
//! * `word`, tail: the swap is AcqRel. Release publishes the waiter's node to the next waiter,
//!   Acquire makes the node before it readable.
//! * `node.next`: the waiter behind links itself with Release (an exchange; exact: a store), the
//!   leaving head loads with Acquire.
//! * `node.wait`: the leaving head makes it head with AcqRel, the waiter loads with Acquire. The
//!   waiter's change to asleep is Relaxed: its token orders. Nodes left behind: see
//!   [`lapse`](super::lapse).
//! * A sleeping head {registers; heavy fence; reads `word`}, an owner {stores 0; light fence; reads
//!   the table}: where [`Platform::fence_heavy`] returns `true` one of them sees the other; else
//!   see [`heads`](crate::wait::heads).
//!
//! **Destruction.** A release does not touch the lock after its store: another thread may take,
//! release and free it at once. It reads the table, by the lock's address. A waiter is a user: it
//! must be gone before the lock is.
//!
//! **fork.** A lock that another thread holds stays held in the child. The parent's waiters are
//! [ghosts](super::lapse) there, and nobody waits for them.
//!
//! Sources: paravirtual qspinlock (Linux 4.2 and later: `locking/pvqspinlock`, hybrid queued/unfair
//! mode 11752adb); Mellor-Crummey and Scott 1991; asymmetric fences after folly and P1202; Dice,
//! "Malthusian Locks" (2017).

use core::fmt::Debug;
use core::marker::PhantomData;

use crate::event::Event;
use crate::platform::thread::{NESTING, NodeName, with_nodes};
use crate::platform::{ConstPlatform, Lanes, Ordering::*, Patience, Platform, Word, lanes};

use super::node::{Ahead, Onward, Place, TAIL_SHIFT};

pub(super) const LOCKED: u32 = 1;
pub(super) const PENDING_LANE: u32 = 1;
const LOCKED_LANE: u32 = 0;
pub(super) const TAIL_LANE: u32 = 1;
pub(super) const LOCKED_MASK: u32 = 0xff;
pub(super) const PENDING_MASK: u32 = 0x100;
pub(super) const ASLEEP_MASK: u32 = 0x400;
pub(super) const URGENT_MASK: u32 = 0x800;

/// How long a newcomer tries to steal before it queues.
pub const STEAL_NS: u32 = 1_000;
/// How long a queued waiter spins on its node before it sleeps. About one context switch.
pub const QUEUED_NS: u32 = 5_000;
/// How long a head competes before it sleeps, and how long a pending head spins.
pub const COMPETE_NS: u32 = 5_000;
/// How long a head competes on a machine that tells exactly when a CPU is needed: the limit of the
/// kernel's paravirtual waiters.
pub const EXACT_COMPETE_NS: u32 = 200_000;
mod sealed {
    pub trait Sealed {}
    impl Sealed for super::super::qspinlock::Plain {}
    impl Sealed for super::super::qspinlock::Marked {}
    impl Sealed for super::super::cna::Cna {}
    impl Sealed for super::super::hq::Hq {}
}

/// A way of queueing: what tells one queued spinlock from another. Costs nothing at run time but
/// what it does.
///
/// Everything here runs in the slow path.
pub trait Kind<P: Platform>: Sized + Debug + Send + Sync + 'static + sealed::Sealed {
    /// The name under which the lock is listed.
    const NAME: &'static str;

    /// The low half-word of a free lock.
    const REST: u16 = 0;

    /// Whether somebody waits for a lock with this word. A hint.
    #[doc(hidden)]
    #[inline(always)]
    fn has_waiters(_lock: &RawQueuedSpinLock<P, Self>, word: u32) -> bool {
        word & !LOCKED_MASK != u32::from(Self::REST)
    }

    /// Puts `place` into a queue. From here on others may link themselves behind it. The lock's
    /// word was `seen` a moment ago.
    #[doc(hidden)]
    #[inline(always)]
    fn enqueue(lock: &RawQueuedSpinLock<P, Self>, place: &mut Place<P>, _seen: u32) -> Ahead {
        lock.swap_tail(place)
    }

    /// How long a waiter does what it does in the plain kind, before it [settles](Self::settle); at
    /// most [`QUEUED_NS`].
    #[doc(hidden)]
    #[inline(always)]
    fn settles_after() -> u32 {
        0
    }

    /// `place` has linked itself behind somebody, or waits for its queue's turn: what it wants to
    /// know of itself as head, while there is time.
    #[doc(hidden)]
    #[inline(always)]
    fn settle(_place: &mut Place<P>) {}

    /// `place` is the head now and will compete for the lock.
    #[doc(hidden)]
    #[inline(always)]
    fn arrange(_lock: &RawQueuedSpinLock<P, Self>, _place: &mut Place<P>) {}

    /// `place`, the head, has got the lock, and was `passed` by others or not: it leaves the queue
    /// and promotes the next.
    #[doc(hidden)]
    fn leave(lock: &RawQueuedSpinLock<P, Self>, place: &Place<P>, ahead: Ahead, passed: bool) -> Onward;

    /// Whether the waiters of a lock with this word are ghosts: of a process that this one was
    /// forked from.
    #[doc(hidden)]
    #[inline(always)]
    fn are_ghosts(_lock: &RawQueuedSpinLock<P, Self>, word: u32) -> bool {
        NodeName::of_tail(word).is_some_and(NodeName::is_ghost::<P>)
    }

    /// Ghosts have been taken out of the lock's word, which was `word`: gives back what else was
    /// theirs.
    #[doc(hidden)]
    fn bury(_lock: &RawQueuedSpinLock<P, Self>, word: u32) {
        NodeName::bury_last::<P>(word);
    }
}

/// A queued spinlock of kind `K`: 4 bytes, all-zero is unlocked. See the [module text](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct RawQueuedSpinLock<P: Platform, K> {
    pub(super) word: P::Lanes,
    kind: PhantomData<K>,
}

/// An unlocked lock, as [`new`](RawQueuedSpinLock::new) makes it.
impl<P: Platform, K: Kind<P>> Default for RawQueuedSpinLock<P, K> {
    fn default() -> Self {
        let lock = Self::zeroed();
        if K::REST != 0 {
            // Relaxed: nobody else knows it yet.
            lock.word.store(K::REST.into(), Relaxed);
        }
        lock
    }
}

impl<P: ConstPlatform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// An unlocked lock, in constants: what a release leaves, so that the first to take it finds
    /// what the fast path looks for.
    pub const fn new() -> Self {
        Self { word: lanes::<P>(K::REST as u32), kind: PhantomData }
    }
}

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// An unlocked lock in memory that nobody has initialised. Where [`Kind::REST`] is not zero the
    /// first to take it goes through the slow path, and so do threads that come at that moment.
    pub fn zeroed() -> Self {
        Self { word: P::Lanes::default(), kind: PhantomData }
    }

    /// Takes the lock.
    #[inline]
    pub fn acquire(&self) {
        let got = if Self::is_exact() {
            let (free, taken) = (K::REST, K::REST | LOCKED as u16);
            self.word.compare_exchange(free.into(), taken.into(), Acquire, Relaxed).is_ok()
        } else {
            // Whatever the tail: a running thread may pass a queue whose head is not pending.
            self.try_unseen()
        };
        if !got {
            self.acquire_slow();
        }
    }

    /// Takes the lock if it is free and nobody waits: never overtakes.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        let word = self.word.load(Relaxed);
        if word & LOCKED_MASK != 0 {
            return false;
        }
        if K::has_waiters(self, word) {
            return self.pass_waiters();
        }
        let taken = word | u32::from(K::REST) | LOCKED;
        self.word.compare_exchange(word, taken, Acquire, Relaxed).is_ok()
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it, or acts for the holder.
    #[inline]
    pub unsafe fn release(&self) {
        let key = P::key(self);
        self.word.store_byte(LOCKED_LANE, 0, Release);
        // From here on the lock may be gone: only its key is used.
        P::fence_light();
        if P::commons().heads.any(key) {
            P::commons().heads.kick(key);
        }
    }

    /// Whether somebody holds the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        let word = self.word.load(Relaxed);
        word & LOCKED_MASK != 0 || K::has_waiters(self, word)
    }

    /// The lock word. For embedders that keep a lock in memory of their own layout: the type bit
    /// tells the kinds apart.
    #[inline]
    pub fn raw(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// Whether somebody waits for the lock.
    #[inline]
    pub fn is_contended(&self) -> bool {
        K::has_waiters(self, self.word.load(Relaxed))
    }

    /// Takes the lock, after [an attempt](Self::try_unseen) in vain.
    #[cold]
    pub fn acquire_slow(&self) {
        let Err(seen) = self.steal() else { return };
        let queued = with_nodes::<P, _>(|me| {
            let Some(me) = me else { return false };
            if !Self::is_exact() && P::rank(me.id()) != 0 && self.acquire_urgent(me) {
                return true;
            }
            let seen = self.forget_ghosts(seen);
            let depth = me.depth.load(Relaxed);
            // Before the node is touched the depth is stored: a signal handler from there on uses
            // the next one.
            let parks = me.parks();
            let level = if Self::is_exact() {
                let level = depth as usize;
                (level < NESTING).then(|| {
                    me.depth.store(depth + 1, Relaxed);
                    level
                })
            } else {
                me.enter_level()
            };
            if let Some(level) = level {
                self.acquire_queued(me, level, seen);
                me.depth.store(depth, Relaxed);
                if depth > 0 || me.waiter.busy.load(Relaxed) != 0 {
                    me.give_back(parks);
                }
            }
            level.is_some()
        });
        if queued {
            return;
        }
        P::count(Event::LockNoNode, 1);
        let mut round = 0;
        while !(self.try_steal() || self.pass_waiters()) {
            P::nap(round);
            round = round.saturating_add(1);
        }
        if round > 0 {
            P::after_naps();
        }
    }

    /// One attempt past the queue, unless its head is pending or somebody is urgent.
    #[inline]
    pub(super) fn try_steal(&self) -> bool {
        let word = self.word.load(Relaxed);
        if word & (LOCKED_MASK | PENDING_MASK | URGENT_MASK) != 0 {
            return false;
        }
        if !Self::is_exact() || word as u16 & K::REST != K::REST {
            // All-zero memory: from now on its kind can be told. A held lock has been through here,
            // or was never without its bits. And a note of how long the lock lies free goes.
            return self.word.compare_exchange_half(0, word as u16, K::REST | LOCKED as u16, Acquire, Relaxed).is_ok();
        }
        self.word.compare_exchange_byte(LOCKED_LANE, 0, 1, Acquire, Relaxed).is_ok()
    }

    /// One attempt past a queue whose head neither sleeps nor is pending, or was neither a moment
    /// ago. In a word of another lock, whose byte 1 is never that of [`Kind::REST`], it
    /// changes nothing.
    #[inline(always)]
    pub fn try_unseen(&self) -> bool {
        let rest = (K::REST >> 8) as u8;
        match self.word.take_beside(rest) {
            None => false,
            Some(beside) => {
                if beside != rest {
                    self.forget_note();
                }
                true
            }
        }
    }

    /// The newcomer's attempt: for a while if there is a queue that sleeps, once otherwise. In
    /// vain: the word as it was last seen.
    fn steal(&self) -> Result<(), u32> {
        let mut seen = 0;
        let stolen = P::spin(Patience::ns(STEAL_NS), || {
            if Self::is_exact() {
                seen = self.word.load(Relaxed);
                // A queued waiter may be passed only behind a head that sleeps.
                if seen & ASLEEP_MASK == 0 && NodeName::of_tail(seen).is_some() {
                    return Some(false);
                }
            }
            if self.try_steal() {
                return Some(true);
            }
            seen = self.word.load(Relaxed);
            (seen & (PENDING_MASK | URGENT_MASK) != 0 || NodeName::of_tail(seen).is_none()).then_some(false)
        });
        if stolen == Some(true) {
            P::count(Event::PvLockStealing, 1);
            return Ok(());
        }
        // Free, and kept for the head or an urgent waiter: perhaps it does not come.
        if seen & LOCKED_MASK == 0 && seen & (PENDING_MASK | URGENT_MASK) != 0 && self.pass_waiters() {
            return Ok(());
        }
        Err(seen)
    }

    /// Makes `place` the tail of the word's queue.
    #[inline(always)]
    pub(super) fn swap_tail(&self, place: &Place<P>) -> Ahead {
        Ahead::of(self.word.swap_half(TAIL_LANE, place.name.raw(), AcqRel))
    }

    /// The lock is held by `last`, the head: if nobody is behind it in the word's queue, `tail`
    /// becomes the tail, 0 for an empty queue. `false`: somebody is.
    #[inline(always)]
    pub(super) fn replace_last(&self, last: NodeName, tail: u16) -> bool {
        let alone = u32::from(last.raw()) << TAIL_SHIFT | u32::from(K::REST);
        let left = u32::from(tail) << TAIL_SHIFT | u32::from(K::REST) | LOCKED;
        // A tail that is left behind must be found with the links that were made for it.
        let order = if tail == 0 { Relaxed } else { Release };
        let mut word = self.word.load(Relaxed);
        while word & !(LOCKED_MASK | PENDING_MASK | URGENT_MASK) == alone {
            match self.word.compare_exchange_weak(word, left | word & URGENT_MASK, order, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// Whether nobody is behind `last`, the head, in the word's queue. A hint.
    #[inline(always)]
    pub(super) fn is_last(&self, last: NodeName) -> bool {
        self.word.load(Relaxed) >> TAIL_SHIFT == u32::from(last.raw())
    }

    /// Whether the machine tells when a CPU is needed: spinning may go on until then, and queueing
    /// in order beats sleeping.
    #[inline(always)]
    pub(super) fn is_exact() -> bool {
        P::spin_budget() == u32::MAX
    }
}
