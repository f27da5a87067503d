//! What all queued spinlocks share: the lock word, stealing, waiting in turns, the head that alone watches the word.
//!
//! Waiters queue; the first of them, the *head*, alone watches the lock word. Nobody burns CPU without bound: heads and queued waiters
//! spin while that is useful, then sleep. How waiters queue, and whom a head promotes when it has the lock, is a matter of the [`Kind`]:
//!
//! | kind | queue | successor |
//! |---|---|---|
//! | [`Plain`](super::qspinlock::Plain), [`Marked`](super::qspinlock::Marked) | one, its tail in the word | the next waiter |
//! | [`Cna`](super::cna::Cna) | one, its tail in the word, and those who were moved aside | the next waiter of the same NUMA node |
//! | [`Hq`](super::hq::Hq) | the same as plain; under contention one per NUMA node, outside the word | the next waiter of the same node, up to a quota |
//!
//! # The word
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–7 | locked | 0 free, 1 held | taker: 0 → 1 by a compare-exchange that includes pending, whatever the tail; owner: 1 → 0 by a byte store |
//! | 8 | pending | the head is next, and mostly awake: stealing forbidden | the head only |
//! | 9 | type | 1 in a lock that may queue by node ([`Hq`](super::hq::Hq)), 0 in others; never taken back | the first to take the lock |
//! | 10 | asleep | exact machines only: the head sleeps, or has been woken and has not run yet | the head; before it is head, whoever makes it so |
//! | 11, 13–15 | – | zero | nobody |
//! | 12 | mark | 1 in a lock that may lie among words of another lock ([`Marked`](super::qspinlock::Marked)), 0 in others; never taken back | the first to take the lock |
//! | 16–31 | tail | last waiter: thread id (14 bits), nesting level (2 bits); 0 = nobody queued; thread id 0: a mark of the kind | a new waiter puts itself in; the head clears it if it is last |
//!
//! | state (tail, pending, locked) | event | next |
//! |---|---|---|
//! | 0,0,0 | `try_lock` | 0,0,1 |
//! | \*,0,0 | `lock` | \*,0,1 |
//! | p,x,y | a waiter queues | n,x,y |
//! | n,x,0 | the head n takes it, last in the queue | 0,0,1 |
//! | m,x,0 | the head takes it, others behind | m,0,1, and the next becomes head |
//! | \*,\*,1 | `unlock` | \*,\*,0 |
//!
//! The low half-word of a free lock is a constant of the kind, [`Kind::REST`], and the fast path looks at nothing else: what a kind
//! does with its queues costs an uncontended lock nothing.
//!
//! # Waiting
//!
//! As the sleeping locks do ([`wait::turn`](crate::wait::turn)): each waiter has a turn, which begins when the turn of the one before it ends.
//! *Newcomer*: while somebody is queued but the head is not pending, tries to steal for [`STEAL_NS`]; then queues.
//! *Queued*: spins [`QUEUED_NS`] on its own node, then sleeps until it is made head, or until its turn ends; from then on it looks ever less often, once in [`TURNS_NS`] at least.
//! *Head*: competes for [`COMPETE_NS`] without pending. Then it *listens*: registers in the table of [sleeping heads](crate::wait::heads) and sleeps until an unlock
//! wakes it, or its turn ends. If the lock has been taken again when it runs, running threads are passing it around faster than a sleeper wakes up: it *dozes*
//! for the rest of its turn, asking nobody to wake it. When its turn is over it sets pending and spins for the next unlock; if none comes it sleeps, passed for
//! the last time, and from then on sleeps with pending set.
//! An *exact* machine says when a CPU is needed ([`Platform::spin_budget`] without limit: a simulated kernel). There sleeping early buys nothing: a queued waiter
//! spins until its CPU is needed, also behind one that sleeps (or one sleeper would send all behind it to sleep), a head for [`EXACT_COMPETE_NS`].
//! Nor does passing a head that is awake: newcomers queue, as in the kernel, unless the word says that the head sleeps.
//!
//! **Bound on bypass.** Newcomers pass the queue only until the head's turn ends: [`TURN_NS`] and two wake-ups per waiter ahead; on an exact machine only while
//! the head sleeps. Inside the queue the order is first come, first served.
//!
//! # Memory ordering
//!
//! * `word`: every taker's compare-exchange is Acquire and pairs with the owner's Release store. The tail swap is AcqRel: Release publishes the node to
//!   the successor, Acquire makes the predecessor's node readable.
//! * `node.next`: Release store by the successor, Acquire load by the predecessor (no address dependency is relied on). `node.wait`: Release swap by the
//!   granter, Acquire by the waiter.
//! * Sleeping head against unlock: {register; heavy fence; read word} against {store 0; light fence; read table}; see `heads`.
//!
//! **Destruction.** `unlock` does not touch the lock after its store: another thread may take, release and free it at once. What it looks at then is
//! the table, by address. A waiter is a user: it must be gone before the lock is. **fork.** A lock held or queued on by other threads stays so in the child.
//!
//! Sources: paravirtual qspinlock (Linux 4.2 and later: `locking/pvqspinlock`, hybrid queued/unfair mode 11752adb); Mellor-Crummey and
//! Scott 1991; asymmetric fences after folly and P1202; culling after Dice, "Malthusian Locks" (2017).

use core::fmt::Debug;
use core::marker::PhantomData;

use crate::event::Event;
use crate::platform::{ConstPlatform, Lanes, Ordering::*, Patience, Platform, Word, lanes};
use crate::wait::heads;
use crate::wait::thread::{NESTING, NodeName, Thread};
use crate::wait::turn::{TURN_NS, TURNS_NS};

use super::node::{ASLEEP, Ahead, HEAD, Place, STATE, TOLD_SHIFT, WAITING};

pub(super) const LOCKED: u32 = 1;
const PENDING_LANE: u32 = 1;
const LOCKED_LANE: u32 = 0;
pub(super) const TAIL_LANE: u32 = 1;
pub(super) const LOCKED_MASK: u32 = 0xff;
pub(super) const PENDING_MASK: u32 = 0x100;
const PENDING: u16 = 0x100;
const ASLEEP_MASK: u32 = 0x400;
pub(super) const TAIL_SHIFT: u32 = 16;

/// How long a newcomer tries to steal before it queues.
pub const STEAL_NS: u32 = 1_000;
/// How long a queued waiter spins on its node before it sleeps. About one context switch.
pub const QUEUED_NS: u32 = 5_000;
/// How long a head competes before it sleeps, and how long a pending head spins.
pub const COMPETE_NS: u32 = 5_000;
/// How long a head competes on a machine that tells exactly when a CPU is needed: the limit of the kernel's paravirtual waiters.
pub const EXACT_COMPETE_NS: u32 = 200_000;
/// How long a head sleeps that is not in the table.
const BLIND_NS: u64 = 1_000_000;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::super::qspinlock::Plain {}
    impl Sealed for super::super::qspinlock::Marked {}
    impl Sealed for super::super::cna::Cna {}
    impl Sealed for super::super::hq::Hq {}
}

/// A way of queueing: what tells one queued spinlock from another. Costs nothing at run time but what it does.
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

    /// Puts `place` into a queue. From here on others may link themselves behind it. The lock's word was `seen` a moment ago.
    #[doc(hidden)]
    #[inline(always)]
    fn enqueue(lock: &RawQueuedSpinLock<P, Self>, place: &mut Place<P>, _seen: u32) -> Ahead {
        lock.swap_tail(place)
    }

    /// How long a waiter does what it does in the plain kind, before it [settles](Self::settle); at most [`QUEUED_NS`].
    #[doc(hidden)]
    #[inline(always)]
    fn settles_after() -> u32 {
        0
    }

    /// `place` has linked itself behind somebody, or waits for its queue's turn: what it wants to know of itself as head, while there is time.
    #[doc(hidden)]
    #[inline(always)]
    fn settle(_place: &mut Place<P>) {}

    /// `place` is the head now and will compete for the lock.
    #[doc(hidden)]
    #[inline(always)]
    fn arrange(_lock: &RawQueuedSpinLock<P, Self>, _place: &mut Place<P>) {}

    /// `place`, the head, has got the lock, and was `passed` by others or not: it leaves the queue and promotes whoever is next.
    #[doc(hidden)]
    fn leave(lock: &RawQueuedSpinLock<P, Self>, place: &Place<P>, ahead: Ahead, passed: bool);
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
    /// An unlocked lock, in constants: what a release leaves, so that the first to take it finds what the fast path looks for.
    pub const fn new() -> Self {
        Self { word: lanes::<P>(K::REST as u32), kind: PhantomData }
    }
}

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// An unlocked lock in memory that nobody has initialised. Where [`Kind::REST`] is not zero the first to take it goes through the slow path, and so do those
    /// who come at that moment.
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
            // Locked and pending, whatever the tail: who runs may pass a queue whose head is not pending.
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
        let idle = word & LOCKED_MASK == 0 && !K::has_waiters(self, word);
        let taken = word | u32::from(K::REST) | LOCKED;
        idle && self.word.compare_exchange(word, taken, Acquire, Relaxed).is_ok()
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
        if P::heads().any(key) {
            P::heads().kick(key);
        }
    }

    /// Whether somebody holds the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        let word = self.word.load(Relaxed);
        word & LOCKED_MASK != 0 || K::has_waiters(self, word)
    }

    /// The lock word. For those who keep a lock in memory of their own layout: the type bit tells the kinds apart.
    #[inline]
    pub fn raw(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// Whether somebody waits for the lock.
    #[inline]
    pub fn is_contended(&self) -> bool {
        K::has_waiters(self, self.word.load(Relaxed))
    }

    #[cold]
    fn acquire_slow(&self) {
        let Err(seen) = self.steal() else { return };
        if let Some(me) = P::current() {
            let level = me.depth.load(Relaxed);
            if (level as usize) < NESTING {
                // Stored before the node is touched: a signal handler from here on uses the next one.
                let parks = me.parks();
                me.depth.store(level + 1, Relaxed);
                self.acquire_queued(me, level, seen);
                me.depth.store(level, Relaxed);
                if level > 0 || me.waiter.busy.load(Relaxed) != 0 {
                    me.give_back(parks);
                }
                return;
            }
        }
        P::count(Event::LockNoNode, 1);
        let mut round = 0;
        while !self.try_steal() {
            P::nap(round);
            round = round.saturating_add(1);
        }
        if round > 0 {
            P::after_naps();
        }
    }

    /// One attempt past the queue, unless its head is pending.
    #[inline]
    fn try_steal(&self) -> bool {
        let word = self.word.load(Relaxed);
        if word & (LOCKED_MASK | PENDING_MASK) != 0 {
            return false;
        }
        if word as u16 & K::REST != K::REST {
            // All-zero memory: from now on its kind can be told. A held lock has been through here, or was never without its bits.
            return self.word.compare_exchange_half(0, word as u16, K::REST | LOCKED as u16, Acquire, Relaxed).is_ok();
        }
        self.word.compare_exchange_byte(LOCKED_LANE, 0, 1, Acquire, Relaxed).is_ok()
    }

    /// One attempt without a look at the word, past a queue whose head neither sleeps nor is pending. In a
    /// word of another lock, whose low half is not [`Kind::REST`], it changes nothing.
    #[inline(always)]
    pub fn try_unseen(&self) -> bool {
        self.word.compare_exchange_half(0, K::REST, K::REST | LOCKED as u16, Acquire, Relaxed).is_ok()
    }

    /// The newcomer's attempt: for a while if there is a queue that sleeps, once otherwise. In vain: the word as it was last seen.
    fn steal(&self) -> Result<(), u32> {
        let mut seen = 0;
        let stolen = P::spin(Patience::ns(STEAL_NS), || {
            if Self::is_exact() {
                seen = self.word.load(Relaxed);
                // Nobody may be passed who is queued, but behind a head that sleeps.
                if seen & ASLEEP_MASK == 0 && NodeName::of_tail(seen).is_some() {
                    return Some(false);
                }
            }
            if self.try_steal() {
                return Some(true);
            }
            seen = self.word.load(Relaxed);
            (seen & PENDING_MASK != 0 || NodeName::of_tail(seen).is_none()).then_some(false)
        });
        if stolen != Some(true) {
            return Err(seen);
        }
        P::count(Event::PvLockStealing, 1);
        Ok(())
    }

    /// For newcomers on an exact machine: whether the head sleeps.
    #[inline(always)]
    fn mark_asleep(&self, asleep: bool) {
        if Self::is_exact() {
            let mark = if asleep { (ASLEEP_MASK >> 8) as u8 } else { 0 };
            self.word.store_byte(PENDING_LANE, Self::PENDING_BYTE | mark, Relaxed);
        }
    }

    /// Not inlined: what kinds do with their queues must not be felt where a newcomer gets the lock without one.
    #[inline(never)]
    fn acquire_queued(&self, me: &'static Thread<P>, level: u32, seen: u32) {
        if let 1..=3 = level {
            P::count([Event::LockUseNode2, Event::LockUseNode3, Event::LockUseNode4][level as usize - 1], 1);
        }
        let name = NodeName::new(me.id(), level as usize);
        let node = &me.nodes[name.level()];
        let now = P::now();
        node.next.store(0, Relaxed);
        node.wait.store(WAITING, Relaxed);
        node.due.store(now + TURN_NS, Relaxed);

        let mut place = Place { me, node, name, gave_way: false, past: 0, lane: 0, tries_first: false };
        let ahead = K::enqueue(self, &mut place, seen);
        let previous = match ahead {
            Ahead::Nobody | Ahead::Others => None,
            Ahead::Waiter(previous) => previous.node::<P>(),
        };
        if let Some(previous) = previous {
            previous.next.store(u32::from(name.raw()), Release);
            let before = previous.due.load(Relaxed).clamp(now, now + TURNS_NS);
            node.due.store(before + TURN_NS, Relaxed);
        }
        if ahead != Ahead::Nobody {
            let (slept, told) = Self::wait_for_headship(&mut place);
            (place.gave_way, place.past) = (slept && Self::is_exact(), told);
        }
        K::arrange(self, &mut place);
        let passed = self.take_as_head(&place);
        P::count(Event::LockSlowpath, 1);
        K::leave(self, &place, ahead, passed);
    }

    /// Makes `place` the tail of the word's queue.
    #[inline(always)]
    pub(super) fn swap_tail(&self, place: &Place<P>) -> Ahead {
        Ahead::of(self.word.swap_half(TAIL_LANE, place.name.raw(), AcqRel))
    }

    /// The lock is held by `last`, the head: if nobody is behind it in the word's queue, `tail` becomes the tail, 0 for an empty queue. `false`: somebody is.
    #[inline(always)]
    pub(super) fn replace_last(&self, last: NodeName, tail: u16) -> bool {
        let alone = u32::from(last.raw()) << TAIL_SHIFT | u32::from(K::REST);
        let left = u32::from(tail) << TAIL_SHIFT | u32::from(K::REST) | LOCKED;
        // A tail that is left behind must be found with the links that were made for it.
        let order = if tail == 0 { Relaxed } else { Release };
        let mut word = self.word.load(Relaxed);
        while word & !(LOCKED_MASK | PENDING_MASK) == alone {
            match self.word.compare_exchange_weak(word, left, order, Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    /// The pending byte of a lock whose head is not pending: what it shares with the kind's bits.
    const PENDING_BYTE: u8 = (K::REST >> 8) as u8;

    /// Whether the machine tells when a CPU is needed: spinning may go on until then, and queueing in order beats sleeping.
    #[inline(always)]
    fn is_exact() -> bool {
        P::spin_budget() == u32::MAX
    }

    /// Queued: waits to become head. Whether it slept, and what it was told.
    fn wait_for_headship(place: &mut Place<P>) -> (bool, u64) {
        let (me, node) = (place.me, place.node);
        let told = |wait: u64| (wait & STATE == HEAD).then_some(wait >> TOLD_SHIFT);
        let granted = || told(node.wait.load(Acquire));
        let courteous = |patience: Patience| if Self::is_exact() { patience.courteous() } else { patience };
        let early = K::settles_after();
        if early > 0
            && let Some(told) = P::spin(courteous(Patience::ns(early)), granted)
        {
            return (false, told);
        }
        K::settle(place);
        let patience =
            courteous(Patience::ns(if Self::is_exact() { u32::MAX } else { QUEUED_NS.saturating_sub(early) }));
        if let Some(told) = P::spin(patience, granted) {
            return (false, told);
        }
        // Relaxed: `ASLEEP` says that the token must be used, and the token orders; what a head is told is read by `granted`.
        if node.wait.compare_exchange(WAITING, ASLEEP, Relaxed, Relaxed).is_err()
            && let Some(told) = granted()
        {
            return (false, told);
        }
        P::count(Event::PvWaitNode, 1);
        let queued = P::now();
        let mut turn_end = node.due.load(Relaxed);
        loop {
            me.park(Some(turn_end));
            if let Some(told) = granted() {
                return (true, told);
            }
            P::count(Event::PvSpuriousWakeup, 1);
            let now = P::now();
            if now >= turn_end {
                // The queue is late. Looking again every turn, hundreds would leave no time for anybody else: look less the later it is.
                turn_end = now + ((now - queued) / 2).clamp(TURN_NS, TURNS_NS);
                node.due.store(turn_end, Relaxed);
                // Who made us head before that may count on the earlier end.
                if let Some(told) = granted() {
                    return (true, told);
                }
            }
        }
    }

    /// Makes `next` head and tells it `told`, of [`TOLD`] bits. If it sleeps and we were not passed ourselves, or if its turn is to last long, our own unlock will wake it, outside
    /// the critical section; else its turn's end will.
    pub(super) fn promote(&self, next: NodeName, told: u64, passed: bool) {
        let (Some(node), Some(thread)) = (next.node::<P>(), next.thread::<P>()) else { return };
        let head = HEAD | told << TOLD_SHIFT;
        if Self::is_exact() {
            // Marked before it can run and take the mark away; and its line is asked for once only.
            if node.wait.compare_exchange(WAITING, head, AcqRel, Acquire).is_ok() {
                return;
            }
            self.mark_asleep(true);
        }
        // After that it may be gone; then what is done for it was needless.
        let sleeps = node.wait.swap(head, AcqRel) == ASLEEP;
        let dozes = || passed && !Self::is_exact() && node.due.load(Relaxed) <= P::now() + 2 * TURN_NS;
        if sleeps && !dozes() && !P::heads().insert(P::key(self), thread.id()) {
            thread.unpark();
        }
    }

    /// First in the queue: returns with the lock held and pending clear; whether others have passed us meanwhile.
    fn take_as_head(&self, place: &Place<P>) -> bool {
        if place.tries_first && self.try_unseen() {
            return false;
        }
        // The queue may have been quicker than expected, or our look at it late.
        let (me, turn_end) = (place.me, place.due().min(P::now() + TURN_NS));
        let patience =
            if Self::is_exact() { Patience::ns(EXACT_COMPETE_NS).courteous() } else { Patience::ns(COMPETE_NS) };
        let compete = || P::spin(patience, || self.try_steal().then_some(())).is_some();
        if Self::is_exact() {
            // Nobody passes us while we are awake.
            if self.word.load(Relaxed) & ASLEEP_MASK != 0 {
                self.mark_asleep(false);
            }
            if compete() || self.sleep_as_head(me, None, false) {
                return false;
            }
        } else if P::now() < turn_end {
            if compete() || self.sleep_as_head(me, Some(turn_end), false) || compete() {
                return false;
            }
            if P::now() < turn_end {
                P::count(Event::PvWaitHead, 1);
                me.park(Some(turn_end));
            }
        }
        let mut again = false;
        loop {
            self.word.store_byte(PENDING_LANE, Self::PENDING_BYTE | 1, Relaxed);
            if P::spin(patience, || self.take_pending().then_some(())).is_some() {
                return true;
            }
            // Passed for one more sleep. Then by nobody: or a holder that is away whenever we are awake, on our CPU perhaps, would do so for ever.
            let shut = again && !Self::is_exact();
            self.word.store_byte(PENDING_LANE, Self::PENDING_BYTE | u8::from(shut), Relaxed);
            P::count(Event::PvWaitAgain, i64::from(again));
            if self.sleep_as_head(me, None, shut) {
                return true;
            }
            again = true;
        }
    }

    /// The pending head's attempt. Both lanes at once: a stealer may have passed its check of pending just before we set it.
    fn take_pending(&self) -> bool {
        let (free, taken) = (K::REST | PENDING, K::REST | LOCKED as u16);
        self.word.load(Relaxed) & LOCKED_MASK == 0
            && self.word.compare_exchange_half(0, free, taken, Acquire, Relaxed).is_ok()
    }

    /// Sleeps until an unlock, or `end`. `true`: took the lock instead. `shut`: pending is set and stays so, if an unlock will wake us.
    #[cold]
    fn sleep_as_head(&self, me: &Thread<P>, end: Option<u64>, shut: bool) -> bool {
        let key = P::key(self);
        self.mark_asleep(true);
        let registered = P::heads().insert(key, me.id());
        let fenced = P::fence_heavy();
        let attempt = || if shut { self.take_pending() } else { self.try_steal() };
        let mut taken = attempt();
        if !taken {
            if shut && !registered {
                self.word.store_byte(PENDING_LANE, Self::PENDING_BYTE, Relaxed);
            }
            P::count(Event::PvWaitHead, 1);
            if registered {
                taken = heads::sleep(me, end, fenced, attempt);
            } else {
                me.park(Some(end.unwrap_or(u64::MAX).min(P::now() + BLIND_NS)));
            }
        }
        if registered {
            P::heads().remove(key, me.id());
        }
        self.mark_asleep(false);
        taken
    }
}
