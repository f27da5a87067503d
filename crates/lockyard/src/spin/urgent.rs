//! Threads of fixed priority at a [queued spinlock](super::queued): they wait beside its queue, and
//! go first.
//!
//! A thread with a [rank](Platform::rank), of `SCHED_FIFO` or `SCHED_RR`, is an *urgent waiter*. It
//! has no node. It spins for [`COMPETE_NS`]: on the owner's CPU it would keep the owner from
//! running. Then it registers as urgent in the table of [sleeping heads](crate::wait::heads), sets
//! *urgent* in the word, and sleeps. (An exact machine, a simulated kernel, has no ranks here.)
//!
//! | a thread | finds | does |
//! |---|---|---|
//! | an urgent waiter | the lock free, *urgent* clear | takes it, past queued and pending waiters |
//! | an urgent waiter that is *entitled* | the lock free | takes it |
//! | any other | the lock free, *urgent* set | is refused, as by a [pending head](super::lapse) |
//! | the owner, at its unlock | urgent waiters asleep | takes the entry of the next one out, and wakes that one |
//! | an urgent waiter that has taken the lock | others registered | sets *urgent*, which its attempt has cleared |
//!
//! A waiter is entitled once it has set *urgent* where that was clear, or an unlock has chosen it.
//!
//! # Nobody sleeps beside a free lock
//!
//! 1. A thread that takes the lock unlocks it, and an unlock wakes a registered thread.
//! 2. A chosen waiter is entitled: when it runs, the lock is its own, or held by a thread that will
//!    unlock.
//! 3. Heads, which an unlock leaves asleep when it chooses an urgent waiter, are woken by the last
//!    urgent waiter's unlock.
//! 4. An urgent waiter that does not come leaves the lock free and *urgent* set. A thread that is
//!    refused takes the lock [`LAPSE_NS`] after the first refusal, and clears *urgent*. Sleepers
//!    look by themselves: where the wake-up may be missed as often as [there](crate::wait::heads),
//!    else every [`TURNS_NS`], or a head at the end of its turn. (With a heavy fence a head whose
//!    turn is over has no timer: it sleeps until another thread comes.)
//! 5. *urgent* set in the parent of a fork refuses nothing in the child, where no such waiter is
//!    registered. Nor, in a child, does *urgent* set there after an unlock has chosen the last one
//!    registered: until that one runs, others pass.
//!
//! **Order.** An unlock serves the highest rank among those that are registered, of equals the
//! first that came. Awake waiters are not asked for their ranks: a waiter that looks at a free lock
//! by its timer, or comes when *urgent* is clear, may have it before one that was woken.
//!
//! **Bound on bypass.** A registered waiter is passed by threads of no rank only before it has set
//! *urgent*, by those that looked before that, each once, and by those that take the lock when it
//! did not come in [`LAPSE_NS`]; by urgent waiters only in that order. With a full line of the
//! table it cannot register: then it looks every `BLIND_NS`, entitled, and has no bound.
//!
//! **Memory ordering.** *urgent* is set with Release after the entry was made, and cleared by a
//! taker's Acquire: a taker that has cleared it finds the entry, and sets it again. One that is set
//! later stays. Sleep against unlock: see `heads`.

use crate::event::Event;
use crate::platform::thread::{Thread, one_level_deeper};
use crate::platform::{Lanes, Ordering::*, Patience, Platform, Word};
use crate::wait::heads;
use crate::wait::turn::TURNS_NS;

use super::lapse::LAPSE_NS;
use super::queued::{COMPETE_NS, Kind, LOCKED, LOCKED_MASK, RawQueuedSpinLock, URGENT_MASK};
use super::waiting::BLIND_NS;

impl<P: Platform, K: Kind<P>> RawQueuedSpinLock<P, K> {
    /// For a thread of fixed priority: takes the lock. `false`: it has not, and is inside too many
    /// other waits to wait here.
    #[cold]
    #[inline(never)]
    pub(super) fn acquire_urgent(&self, me: &'static Thread<P>) -> bool {
        one_level_deeper(Some(me), |place| place.map(|(me, _)| self.wait_urgently(me)).is_some())
    }

    fn wait_urgently(&self, me: &Thread<P>) {
        let key = P::key(self);
        if P::spin(Patience::ns(COMPETE_NS), || self.take_urgently(false).then_some(())).is_none() {
            me.becomes_urgent();
            let mut entitled = false;
            while !self.sleep_urgently(me, key, &mut entitled) {}
        }
        P::count(Event::PvUrgent, 1);
        if P::commons().heads.any_urgent(key) {
            self.word.fetch_or(URGENT_MASK, Relaxed);
        }
    }

    /// Sleeps until an unlock, or for a while. Whether it has taken the lock.
    fn sleep_urgently(&self, me: &Thread<P>, key: u64, entitled: &mut bool) -> bool {
        let registered = P::commons().heads.insert_urgent(key, me.id());
        *entitled |= !registered || self.word.fetch_or(URGENT_MASK, Release) & URGENT_MASK == 0;
        let fenced = P::fence_heavy();
        let attempt = || self.take_urgently(*entitled);
        let mut taken = attempt() || self.pass_waiters();
        if !taken {
            let kept = if self.is_kept_for_urgent() { LAPSE_NS } else { TURNS_NS };
            if registered {
                taken = heads::sleep(me, key, Some(P::now() + kept), fenced, attempt);
            } else {
                me.park(Some(P::now() + BLIND_NS));
            }
        }
        *entitled |= registered && !P::commons().heads.remove(key, me.id());
        taken || self.take_urgently(*entitled)
    }

    /// An urgent waiter's attempt.
    fn take_urgently(&self, entitled: bool) -> bool {
        let shut = LOCKED_MASK | if entitled { 0 } else { URGENT_MASK };
        let mut half = self.word.load(Relaxed) as u16;
        while u32::from(half) & shut == 0 {
            match self.word.compare_exchange_half(0, half, K::REST | LOCKED as u16, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(found) => half = found,
            }
            P::relax();
        }
        false
    }

    /// Whether the lock is free, and refused to all that are not entitled.
    pub(super) fn is_kept_for_urgent(&self) -> bool {
        self.word.load(Relaxed) & (LOCKED_MASK | URGENT_MASK) == URGENT_MASK
    }

    /// Whether *urgent*, if it is set in `word`, was set by a thread that only the parent of a fork
    /// has.
    pub(super) fn is_urgent_for_ghosts(&self, word: u32) -> bool {
        word & URGENT_MASK != 0 && P::epoch() > 1 && !P::commons().heads.any_urgent(P::key(self))
    }
}
