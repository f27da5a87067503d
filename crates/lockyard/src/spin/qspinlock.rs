//! The queued spinlock, with paravirtual waiting: a thread is a virtual CPU.
//!
//! Waiters queue; the first of them, the *head*, alone watches the lock word. Nobody burns CPU without bound: heads and queued waiters
//! spin while that is useful, then sleep.
//!
//! # The word
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–7 | locked | 0 free, 1 held | taker: 0 → 1 by a compare-exchange that includes pending, whatever the tail; owner: 1 → 0 by a byte store |
//! | 8 | pending | the head is awake and next: stealing forbidden | the head only |
//! | 9–15 | – | zero in this lock (other kinds of spinlock mark themselves here) | nobody |
//! | 16–31 | tail | last waiter: nesting level (2 bits), thread id (14 bits); 0 = nobody queued | a new waiter swaps itself in; the head clears it if it is last |
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
//! # Waiting
//!
//! As the sleeping locks do ([`wait::turn`](crate::wait::turn)): each waiter has a turn, which begins when the turn of the one before it ends.
//!
//! *Newcomer*: while somebody is queued but the head is not pending, tries to steal for [`STEAL_NS`]; then queues.
//! *Queued*: spins [`QUEUED_NS`] on its own node, then sleeps until it is made head, or until its turn ends.
//! *Head*: competes for [`COMPETE_NS`] without pending. Then it *listens*: registers in the table of [sleeping heads](crate::wait::heads) and
//! sleeps until an unlock wakes it, or its turn ends. If the lock has been taken again when it runs, running threads are passing it around
//! faster than a sleeper wakes up: it *dozes* for the rest of its turn, asking nobody to wake it. When its turn is over it sets pending and is
//! served by the next unlock.
//!
//! Where the machine says exactly when a CPU is needed ([`Platform::spin_budget`] without limit: a simulated kernel), sleeping early buys nothing: a
//! queued waiter spins as long as the one before it runs, a head for [`EXACT_COMPETE_NS`].
//!
//! **Bound on bypass.** Newcomers pass the queue only until the head's turn ends: [`TURN_NS`] and a wake-up per waiter ahead. Inside
//! the queue the order is first come, first served.
//!
//! # Memory ordering
//!
//! * `word`: every taker's compare-exchange is Acquire and pairs with the owner's Release store. The tail swap is AcqRel:
//!   Release publishes the node to the successor, Acquire makes the predecessor's node readable.
//! * `node.next`: Release store by the successor, Acquire load by the predecessor (no address dependency is relied on).
//! * `node.wait`: Release swap by the granter, Acquire by the waiter.
//! * Sleeping head against unlock: {register; heavy fence; read word} against {store 0; light fence; read table}; see `heads`.
//!
//! **Destruction.** `unlock` does not touch the lock after its store: another thread may take, release and free it at
//! once. What it looks at then is the table, by address. A waiter is a user: it must be gone before the lock is.
//!
//! **fork.** A lock held or queued on by other threads at `fork` stays so in the child, as with any lock.
//!
//! Sources: paravirtual qspinlock (Linux 4.2 and later: `locking/pvqspinlock`, hybrid queued/unfair mode 11752adb); Mellor-Crummey and
//! Scott 1991; asymmetric fences after folly and P1202; culling after Dice, "Malthusian Locks" (2017).

use crate::event::Event;
use crate::platform::{ConstPlatform, ConstZero, Lanes, Ordering::*, Patience, Platform, Word};
use crate::wait::thread::{NESTING, Thread, ThreadId};
use crate::wait::turn::{TURN_NS, TURNS_NS};

const LOCKED: u32 = 1;
const PENDING_LANE: u32 = 1;
const LOCKED_LANE: u32 = 0;
const TAIL_LANE: u32 = 1;
const LOCKED_PENDING: u16 = 0x101;
const LOCKED_MASK: u32 = 0xff;
const PENDING_MASK: u32 = 0x100;
const TAIL_SHIFT: u32 = 16;
const NODE_BITS: u32 = 2;

/// How long a newcomer tries to steal before it queues.
pub const STEAL_NS: u32 = 1_000;
/// How long a queued waiter spins on its node before it sleeps. About one context switch.
pub const QUEUED_NS: u32 = 5_000;
/// How long a head competes before it sleeps, and how long a pending head spins.
pub const COMPETE_NS: u32 = 5_000;
/// How long a head competes on a machine that tells exactly when a CPU is needed: the limit of the kernel's paravirtual waiters.
pub const EXACT_COMPETE_NS: u32 = 200_000;
/// How long a head sleeps where it cannot rely on being woken.
const BLIND_NS: u64 = 1_000_000;

// node.wait
const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const HEAD: u32 = 2;

/// A place in a spinlock's queue; a field of the thread record, in use only while waiting.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QueueNode<P: Platform> {
    next: P::U32,
    wait: P::U32,
    /// When the waiter's turn ends. A hint to the next waiter, which may read an earlier use's.
    due: P::U64,
}

impl<P: Platform> Default for QueueNode<P> {
    fn default() -> Self {
        Self { next: P::U32::default(), wait: P::U32::default(), due: P::U64::default() }
    }
}

impl<P: Platform> QueueNode<P> {
    pub(crate) const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { next: P::U32::ZERO, wait: P::U32::ZERO, due: P::U64::ZERO }
    }
}

/// The name of a node in 16 bits: thread id and nesting level.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeName(u16);

impl NodeName {
    fn new(thread: ThreadId, level: u32) -> Self {
        Self((thread.raw() << NODE_BITS | level) as u16)
    }

    fn of_tail(word: u32) -> Option<Self> {
        Self::from_raw(word >> TAIL_SHIFT)
    }

    fn from_raw(raw: u32) -> Option<Self> {
        (raw != 0).then_some(Self(raw as u16))
    }

    fn thread<P: Platform>(self) -> Option<&'static Thread<P>> {
        ThreadId::from_raw(u32::from(self.0) >> NODE_BITS).map(P::thread)
    }

    fn node<P: Platform>(self) -> Option<&'static QueueNode<P>> {
        self.thread().map(|thread: &Thread<P>| &thread.nodes[usize::from(self.0) % NESTING])
    }
}

/// The queued spinlock: 4 bytes. See the [module text](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct RawQSpinLock<P: Platform> {
    word: P::Lanes,
}

impl<P: Platform> Default for RawQSpinLock<P> {
    fn default() -> Self {
        Self { word: P::Lanes::default() }
    }
}

impl<P: ConstPlatform> RawQSpinLock<P> {
    /// An unlocked lock, in constants.
    pub const fn new() -> Self {
        Self { word: P::Lanes::ZERO }
    }
}

impl<P: Platform> RawQSpinLock<P> {
    /// Takes the lock.
    #[inline]
    pub fn acquire(&self) {
        // Locked and pending, whatever the tail: who runs may pass a queue whose head is not pending.
        if self.word.compare_exchange_half(0, 0, LOCKED as u16, Acquire, Relaxed).is_err() {
            self.acquire_slow();
        }
    }

    /// Takes the lock if it is free and nobody waits: never overtakes.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) == 0 && self.word.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok()
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
        self.word.load(Relaxed) != 0
    }

    /// Whether somebody waits for the lock.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.word.load(Relaxed) & !LOCKED_MASK != 0
    }

    #[cold]
    fn acquire_slow(&self) {
        if self.steal() {
            return;
        }
        if let Some(me) = P::current() {
            let level = me.depth.load(Relaxed);
            if (level as usize) < NESTING {
                // Stored before the node is touched: a signal handler from here on uses the next one.
                let parks = me.parks();
                me.depth.store(level + 1, Relaxed);
                self.acquire_queued(me, level);
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
    }

    /// One attempt past the queue, unless its head is pending.
    #[inline]
    fn try_steal(&self) -> bool {
        self.word.load(Relaxed) & (LOCKED_MASK | PENDING_MASK) == 0
            && self.word.compare_exchange_byte(LOCKED_LANE, 0, 1, Acquire, Relaxed).is_ok()
    }

    /// The newcomer's attempt: for a while if there is a queue that sleeps, once otherwise.
    fn steal(&self) -> bool {
        let stolen = P::spin(Patience::ns(STEAL_NS), || {
            if self.try_steal() {
                return Some(true);
            }
            let word = self.word.load(Relaxed);
            (word & PENDING_MASK != 0 || NodeName::of_tail(word).is_none()).then_some(false)
        });
        let stolen = stolen == Some(true);
        if stolen {
            P::count(Event::PvLockStealing, 1);
        }
        stolen
    }

    fn acquire_queued(&self, me: &'static Thread<P>, level: u32) {
        if let 1..=3 = level {
            P::count([Event::LockUseNode2, Event::LockUseNode3, Event::LockUseNode4][level as usize - 1], 1);
        }
        let node = &me.nodes[level as usize % NESTING];
        let name = NodeName::new(me.id(), level);
        let now = P::now();
        node.next.store(0, Relaxed);
        node.wait.store(WAITING, Relaxed);
        node.due.store(now + TURN_NS, Relaxed);

        let previous = self.word.swap_half(TAIL_LANE, name.0, AcqRel);
        let previous = NodeName::from_raw(u32::from(previous));
        if let Some((thread, previous)) = previous.and_then(|name| Some((name.thread::<P>()?, name.node::<P>()?))) {
            previous.next.store(u32::from(name.0), Release);
            let before = previous.due.load(Relaxed).clamp(now, now + TURNS_NS);
            node.due.store(before + TURN_NS, Relaxed);
            Self::wait_for_headship(me, node, thread);
        }
        let passed = self.take_as_head(me, node.due.load(Relaxed));
        P::count(Event::LockSlowpath, 1);

        // The lock is ours. Leave the queue: either nobody is behind us, or the next becomes head.
        let last = u32::from(name.0) << TAIL_SHIFT;
        let mut word = self.word.load(Relaxed);
        while word & !(LOCKED_MASK | PENDING_MASK) == last {
            match self.word.compare_exchange_weak(word, LOCKED, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
        let next = P::wait_window(|| NodeName::from_raw(node.next.load(Acquire)));
        self.promote(next, passed);
    }

    /// Whether spinning may go on for as long as the CPU is not needed and the one waited for runs: then queueing in order beats sleeping.
    #[inline(always)]
    fn is_exact() -> bool {
        P::spin_budget() == u32::MAX
    }

    /// Queued behind `previous`: waits to become head.
    fn wait_for_headship(me: &Thread<P>, node: &QueueNode<P>, previous: &Thread<P>) {
        let granted = || (node.wait.load(Acquire) == HEAD).then_some(());
        let patience = if Self::is_exact() {
            Patience::ns(u32::MAX).courteous().while_running(previous.id())
        } else {
            Patience::ns(QUEUED_NS)
        };
        if P::spin(patience, granted).is_some() {
            return;
        }
        if node.wait.compare_exchange(WAITING, ASLEEP, AcqRel, Acquire).is_err() {
            return;
        }
        P::count(Event::PvWaitNode, 1);
        let queued = P::now();
        let mut turn_end = node.due.load(Relaxed);
        loop {
            me.park(Some(turn_end));
            if granted().is_some() {
                return;
            }
            P::count(Event::PvSpuriousWakeup, 1);
            let now = P::now();
            if now >= turn_end {
                // The queue is late. Looking again every turn, hundreds would leave no time for anybody else: look less the later it is.
                turn_end = now + TURN_NS.max((now - queued) / 2);
                node.due.store(turn_end, Relaxed);
            }
        }
    }

    /// Makes `next` head. If it sleeps and we were not passed ourselves, or if its turn is to last long, our own unlock will wake it, outside
    /// the critical section; else its turn's end will.
    fn promote(&self, next: NodeName, passed: bool) {
        let (Some(node), Some(thread)) = (next.node::<P>(), next.thread::<P>()) else { return };
        let doze = passed && node.due.load(Relaxed) <= P::now() + 2 * TURN_NS;
        if node.wait.swap(HEAD, AcqRel) == ASLEEP && !doze && !P::heads().insert(P::key(self), thread.id()) {
            thread.unpark();
        }
    }

    /// First in the queue: returns with the lock held and pending clear; whether others have passed us meanwhile.
    fn take_as_head(&self, me: &Thread<P>, turn_end: u64) -> bool {
        let patience =
            if Self::is_exact() { Patience::ns(EXACT_COMPETE_NS).courteous() } else { Patience::ns(COMPETE_NS) };
        let compete = || P::spin(patience, || self.try_steal().then_some(())).is_some();
        if P::now() < turn_end {
            if compete() || self.sleep_as_head(me, Some(turn_end)) || compete() {
                return false;
            }
            if P::now() < turn_end {
                P::count(Event::PvWaitHead, 1);
                me.park(Some(turn_end));
            }
        }
        let mut again = false;
        loop {
            self.word.store_byte(PENDING_LANE, 1, Relaxed);
            let taken = P::spin(patience, || {
                let free = self.word.load(Relaxed) & LOCKED_MASK == 0;
                // Both lanes at once: a stealer may have passed its check of pending just before we set it.
                (free
                    && self.word.compare_exchange_half(0, LOCKED_PENDING & !1, LOCKED as u16, Acquire, Relaxed).is_ok())
                .then_some(())
            });
            if taken.is_some() {
                return true;
            }
            self.word.store_byte(PENDING_LANE, 0, Relaxed);
            P::count(Event::PvWaitAgain, i64::from(again));
            if self.sleep_as_head(me, None) {
                return true;
            }
            again = true;
        }
    }

    /// Sleeps until an unlock, or `end`. `true`: took the lock instead.
    #[cold]
    fn sleep_as_head(&self, me: &Thread<P>, end: Option<u64>) -> bool {
        let key = P::key(self);
        let registered = P::heads().insert(key, me.id());
        let woken = P::fence_heavy() && registered;
        let taken = self.try_steal();
        if !taken {
            P::count(Event::PvWaitHead, 1);
            me.park(if woken { end } else { Some(end.unwrap_or(u64::MAX).min(P::now() + BLIND_NS)) });
        }
        if registered {
            P::heads().remove(key, me.id());
        }
        taken
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawQSpinLock<crate::platform::linux::Linux>>() == 4);
