//! The condition variable: its waiters are moved, asleep, into the queue of their mutex.
//!
//! A thread that is signalled needs the mutex, which its signaller usually holds. Waking it there
//! and then would only make it wait again, and a broadcast would wake a herd. So a signal *moves*
//! the waiter: out of this queue, into the mutex's, where the release of the mutex finds it ("wait
//! morphing"). One wake-up per waiter, when the mutex is free.
//!
//! # The waiter's state (`granted` of its record)
//!
//! | state | meaning | set by |
//! |---|---|---|
//! | `WAITING` | in this queue | the waiter, before it queues |
//! | `CLAIMED` | taken out by a signaller, which has not said yet what is to come | a signaller, from `WAITING`, under `lock` |
//! | `MOVED` | in the queue of its mutex | the signaller, under the mutex's wait lock |
//! | `WOKEN` | nowhere: the lock has no queue for strangers; take it | the signaller |
//! | `LEAVING` | gave up: takes itself out | the waiter, from `WAITING` |
//!
//! The two compare-exchanges from `WAITING` decide whether a waiter was signalled or gave up: never
//! both, so no signal is lost with a waiter that times out.
//!
//! # Invariants
//!
//! 1. `queue` changes under `lock`. A waiter in it is `WAITING`, or `LEAVING` and about to take
//!    `lock`.
//! 2. A `CLAIMED` waiter does not return: the signaller may use its record, and the mutex it waits
//!    with. It ends within a few instructions of the signaller.
//! 3. A signaller does not touch the condition variable after it has dropped `lock`.
//! 4. A waiter queues before it releases its mutex: a thread that takes the mutex after it sees it
//!    in the queue.
//!
//! # Memory ordering
//!
//! `granted`: claiming is AcqRel, `MOVED` and `WOKEN` are Release, the waiter reads with Acquire.
//! That the queue looks empty to a signaller (Relaxed) although somebody waits is possible only if
//! the two did not meet in the mutex: then the signal may count as earlier.
//!
//! **Spurious returns** happen. Inside a wait of a signal handler a wait is a nap. Of the threads
//! without a record (registry exhausted) one queues with a borrowed one; the others sleep beside it
//! and return when it does ([`Platform::stand_in`]), as does each of them every five seconds.
//! **Destruction.** A condition variable may be destroyed as soon as all its waiters have been
//! signalled ([`RawCondvar::drain`] waits for those that give up), by (3). **fork.** A child finds
//! `lock` free (its sections are windows) and the parent's waiters gone from the queue: see
//! [`wait::queue`](crate::wait::queue).
//!
//! Sources: POSIX.1-2017, `pthread_cond_*`; wait morphing: Lee and Birrell as told in Mike Burrows'
//! nsync (2016), which moves waiters likewise.

use crate::cancel::{GaveUp, Until};
use crate::event::Event;
use crate::mutex::RawMutex;
use crate::platform::thread::Thread;
pub use crate::platform::watch::Moved;
use crate::platform::{ConstPlatform, Ordering::*, Platform, StandIn, Word};
use crate::spin::qspinlock::RawQSpinLock;
use crate::wait::queue::WaitQueue;
use crate::wait::{section, turn};

const WAITING: u32 = 0;
const CLAIMED: u32 = 1;
const MOVED: u32 = 2;
const WOKEN: u32 = 3;
const LEAVING: u32 = 4;

/// The lock that a waiter releases to wait, and takes again before it returns.
pub trait Companion<P: Platform> {
    /// Takes the lock.
    fn acquire(&self);

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds it.
    unsafe fn release(&self);

    /// The mutex into whose queue waiters may be moved. It is then *this* mutex that they hold
    /// afterwards: [`Companion::acquire`] is not called for them.
    fn mutex(&self) -> Option<&RawMutex<P>> {
        None
    }

    /// The waiter runs again, and is about to take the lock: it was signalled, or has given up.
    fn awake(&self, _signalled: bool) {}

    /// The waiter has that mutex, into whose queue it was moved at `moment` ([`Platform::now`]).
    fn adopted(&self, _moment: u64) {}
}

impl<P: Platform> Companion<P> for RawMutex<P> {
    fn acquire(&self) {
        RawMutex::acquire(self);
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.release_detached() };
    }

    fn mutex(&self) -> Option<&RawMutex<P>> {
        Some(self)
    }
}

/// The condition variable: 8 bytes, all-zero is without waiters. See the [module text](self).
#[derive(Debug)]
#[repr(C)]
pub struct RawCondvar<P: Platform> {
    lock: RawQSpinLock<P>,
    queue: WaitQueue<P>,
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<RawCondvar<crate::platform::linux::Linux>>() == 8);

impl<P: Platform> Default for RawCondvar<P> {
    fn default() -> Self {
        Self { lock: RawQSpinLock::default(), queue: WaitQueue::default() }
    }
}

/// How long a thread without a record waits at most before it returns, as if without a reason.
const STRANGER_NS: u64 = 5_000_000_000;

impl<P: Platform> RawCondvar<P> {
    /// Without waiters, in constants.
    pub const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { lock: RawQSpinLock::new(), queue: WaitQueue::new() }
    }

    /// Releases `lock` and sleeps until signalled, in one step as far as later owners of `lock` can
    /// tell; then takes `lock` again, in every case. May return without a signal.
    ///
    /// # Errors
    /// `until` came first. `lock` is held nevertheless.
    ///
    /// # Safety
    /// The caller holds `lock`. All threads that wait at the same time use the same lock.
    pub unsafe fn wait<C: Companion<P>>(&self, lock: &C, until: Until<'_, P>) -> Result<(), GaveUp> {
        let Some(me) = P::current().filter(|me| me.waiter.busy.load(Relaxed) == 0) else {
            // It returns now and then: nobody can reach it to tell it that it was cancelled.
            let soon = until.or_after(STRANGER_NS);
            let stand_in = P::stand_in(core::ptr::from_ref(self).addr() as u64);
            if let StandIn::Record(me) = stand_in {
                // SAFETY: the caller's promise.
                let result = unsafe { self.wait_with(me, lock, soon) };
                P::stood_in(me);
                return result.or_else(|_| until.over().map_or(Ok(()), Err));
            }
            // SAFETY: the caller holds it.
            unsafe { lock.release() };
            match stand_in {
                StandIn::Joined(place, ended) if !until.is_cancellable() => {
                    P::sleep_beside(place, ended, soon.wake_time());
                }
                _ => P::nap(8),
            }
            lock.acquire();
            return until.over().map_or(Ok(()), Err);
        };
        // SAFETY: the caller's promise.
        unsafe { self.wait_with(me, lock, until) }
    }

    /// Waits with the record `me`, which is the calling thread's, or lent to it.
    ///
    /// # Safety
    /// As [`RawCondvar::wait`].
    unsafe fn wait_with<C: Companion<P>>(
        &self,
        me: &'static Thread<P>,
        lock: &C,
        until: Until<'_, P>,
    ) -> Result<(), GaveUp> {
        let mutex = lock.mutex();
        me.waiter.enter();
        me.waiter.granted.store(WAITING, Relaxed);
        // For invariant 2: the signaller finds the mutex by this.
        me.waiter.key.store(mutex.map_or(0, |mutex| core::ptr::from_ref(mutex).expose_provenance() as u64), Relaxed);
        section::enter(&self.lock);
        self.queue.push(me);
        // SAFETY: acquired above.
        unsafe { section::exit(&self.lock) };
        // SAFETY: the caller holds it.
        unsafe { lock.release() };

        let slept = until.watching(me, || self.sleep(me, until));
        lock.awake(slept.is_ok());
        match (slept, mutex) {
            (Ok(MOVED), Some(mutex)) => {
                let moment = turn::pushed_at(me);
                mutex.acquire_adopted(me);
                lock.adopted(moment);
            }
            _ => {
                me.waiter.leave();
                lock.acquire();
            }
        }
        slept.map(|_| ())
    }

    /// Sleeps until claimed, and until the claimer has said what is to come: that state.
    fn sleep(&self, me: &Thread<P>, until: Until<'_, P>) -> Result<u32, GaveUp> {
        loop {
            match me.waiter.granted.load(Acquire) {
                WAITING => {}
                _ => {
                    return Ok(P::wait_window(|| {
                        let state = me.waiter.granted.load(Acquire);
                        (state != CLAIMED).then_some(state)
                    }));
                }
            }
            if let Some(end) = until.over() {
                if me.waiter.granted.compare_exchange(WAITING, LEAVING, AcqRel, Relaxed).is_err() {
                    continue;
                }
                section::enter(&self.lock);
                self.queue.remove(me);
                // SAFETY: acquired above.
                unsafe { section::exit(&self.lock) };
                P::count(Event::CondTimeout, 1);
                return Err(end);
            }
            until.park(me);
            P::count(Event::CondSleep, 1);
        }
    }

    /// Wakes one waiter, the one that came first, if there is one: whether there was.
    #[inline]
    pub fn signal(&self) -> bool {
        self.signal_told(|_| ())
    }

    /// The same. `tell` is told of the waiter before it is moved, in a window.
    #[inline]
    pub fn signal_told(&self, tell: impl FnMut(Moved)) -> bool {
        !self.queue.is_empty() && self.signal_slow(tell)
    }

    #[cold]
    #[inline(never)]
    fn signal_slow(&self, tell: impl FnMut(Moved)) -> bool {
        // Until the waiter knows: a child must not find it claimed for ever.
        P::begin_window();
        section::enter(&self.lock);
        let mut next = self.queue.first();
        while let Some(waiter) = next
            && !Self::claim(waiter)
        {
            next = self.queue.after(waiter);
        }
        if let Some(waiter) = next {
            self.queue.remove(waiter);
        }
        // SAFETY: acquired above. The last touch. (Invariant 3)
        unsafe { section::exit(&self.lock) };
        if let Some(waiter) = next {
            Self::deliver(waiter, tell);
        }
        P::end_window();
        next.is_some()
    }

    /// Wakes all that wait now: how many.
    #[inline]
    pub fn broadcast(&self) -> usize {
        self.broadcast_told(|_| ())
    }

    /// The same; `tell` as of [`RawCondvar::signal_told`].
    #[inline]
    pub fn broadcast_told(&self, tell: impl FnMut(Moved)) -> usize {
        if self.queue.is_empty() { 0 } else { self.broadcast_slow(tell) }
    }

    #[cold]
    #[inline(never)]
    fn broadcast_slow(&self, mut tell: impl FnMut(Moved)) -> usize {
        // A claimed waiter can be linked nowhere else meanwhile.
        let claimed = WaitQueue::<P>::default();
        P::begin_window();
        section::enter(&self.lock);
        let mut next = self.queue.first();
        while let Some(waiter) = next {
            next = self.queue.after(waiter);
            if Self::claim(waiter) {
                self.queue.remove(waiter);
                claimed.push(waiter);
            }
        }
        // SAFETY: acquired above. The last touch. (Invariant 3)
        unsafe { section::exit(&self.lock) };
        let mut woken = 0;
        while let Some(waiter) = claimed.first() {
            claimed.remove(waiter);
            Self::deliver(waiter, &mut tell);
            woken += 1;
        }
        P::end_window();
        woken
    }

    fn claim(waiter: &Thread<P>) -> bool {
        waiter.waiter.granted.compare_exchange(WAITING, CLAIMED, AcqRel, Relaxed).is_ok()
    }

    /// Moves a claimed waiter into the queue of its mutex, whose address is its key, or wakes it.
    fn deliver(waiter: &Thread<P>, mut tell: impl FnMut(Moved)) {
        let key = waiter.waiter.key.load(Relaxed) as usize;
        let mutex = core::ptr::with_exposed_provenance::<RawMutex<P>>(key);
        // SAFETY: null, or the mutex with which the waiter waits, and which cannot go away before
        // that one holds it. (Invariant 2)
        match unsafe { mutex.as_ref() } {
            Some(mutex) => {
                P::count(Event::CondRequeue, 1);
                tell(Moved { mutex: key, waiter: waiter.id().raw() });
                mutex.adopt(waiter, || waiter.waiter.granted.store(MOVED, Release));
            }
            None => {
                P::count(Event::CondWake, 1);
                waiter.waiter.granted.store(WOKEN, Release);
                waiter.unpark();
            }
        }
    }

    /// Whether a thread waits that has not been signalled.
    pub fn has_waiters(&self) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        section::enter(&self.lock);
        let mut next = self.queue.first();
        while let Some(waiter) = next
            && waiter.waiter.granted.load(Relaxed) == LEAVING
        {
            next = self.queue.after(waiter);
        }
        // SAFETY: acquired above.
        unsafe { section::exit(&self.lock) };
        next.is_some()
    }

    /// Before the memory goes away, when each waiter was signalled or gives up: waits until none is
    /// in the queue.
    pub fn drain(&self) {
        P::wait_window(|| self.queue.is_empty().then_some(()));
        // The last to leave, or a signaller, may not have dropped the lock yet.
        section::enter(&self.lock);
        // SAFETY: acquired above.
        unsafe { section::exit(&self.lock) };
    }

    /// In a child process: forgets the parent's waiters.
    ///
    /// # Safety
    /// No thread of this process uses the condition variable until this returns.
    pub unsafe fn forget_waiters(&self) {
        self.queue.forget();
        // SAFETY: nobody in this process holds it: its holder, if any, was another thread of the
        // parent.
        unsafe { self.lock.forget() };
    }
}
