//! Lock events: what the slow paths decided, counted by name.
//!
//! Names are the Linux kernel's where the kernel has the event (`lock_event_counts` in its debug
//! file system), so that numbers can be laid beside published ones; the rest are Lockyard's own.
//! Fast-path acquisitions are never counted.
//!
//! Counting is per thread, without a shared cache line: on Linux each thread's record carries its
//! own array, which stays when the thread exits and is summed on demand. Reading is
//! [`Snapshot::now`]; "reset" is subtraction ([`Snapshot::since`]), so that several readers do not
//! disturb each other.
//! With the feature `events` off every call vanishes and the arrays take no memory.
//!
//! An increment is a plain read and write of the thread's own word: a signal handler that counts in
//! between may lose one. Sums are exact for threads that have been joined, and lag a little for
//! running ones.

macro_rules! events {
    ($($(#[$group:meta])* $name:ident = $text:literal: $what:literal,)*) => {
        /// A lock event. The name that users see is [`Event::name`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Event {
            $(#[doc = $what] $name,)*
        }

        impl Event {
            /// Every event, in the order of their numbers.
            pub const ALL: &'static [Event] = &[$(Event::$name),*];

            /// The name under which the event is published.
            pub const fn name(self) -> &'static str {
                match self { $(Event::$name => $text),* }
            }

            /// When it is counted, in one line.
            pub const fn what(self) -> &'static str {
                match self { $(Event::$name => $what),* }
            }
        }
    };
}

events! {
    LockPending = "lock_pending": "spinlock taken by its one active waiter without queueing",
    LockSlowpath = "lock_slowpath": "spinlock acquisition that queued, counted when it reached the head",
    LockUseNode2 = "lock_use_node2": "spinlock queued with the thread's second node (nested, signal handler)",
    LockUseNode3 = "lock_use_node3": "spinlock queued with the thread's third node",
    LockUseNode4 = "lock_use_node4": "spinlock queued with the thread's fourth node",
    LockNoNode = "lock_no_node": "spinlock waiter without a queue node: too deep, or thread registry exhausted",
    PvHashHops = "pv_hash_hops": "slots probed to register a sleeping spinlock head",
    PvKickUnlock = "pv_kick_unlock": "spinlock unlock that woke the sleeping head",
    PvLapsed = "pv_lapsed": "free spinlock taken past a waiter for which it had been kept, and which did not come",
    PvLeftBehind = "pv_left_behind": "spinlock taken past a head that did not come by a queued waiter, whose node stayed in the queue",
    PvLockStealing = "pv_lock_stealing": "spinlock taken past the queue while its head was not spinning",
    PvSpuriousWakeup = "pv_spurious_wakeup": "queued spinlock waiter woke without having become head",
    PvUrgent = "pv_urgent": "spinlock taken by a thread of fixed priority that waited beside the queue",
    PvWaitAgain = "pv_wait_again": "spinlock head slept again in the same acquisition",
    PvWaitEarly = "pv_wait_early": "queued spinlock waiter slept early: its predecessor was asleep",
    PvWaitHead = "pv_wait_head": "spinlock head slept",
    PvWaitNode = "pv_wait_node": "queued spinlock waiter slept",

    CnaAside = "cna_aside": "CNA head moved a waiter of another NUMA node aside",
    CnaFlush = "cna_flush": "CNA waiters that had been aside for long went to the front of the queue",
    CnaSplice = "cna_splice": "CNA waiters that had been aside became the queue: nobody else was left",

    CondSleep = "cond_sleep": "condition variable waiter slept",
    CondRequeue = "cond_requeue": "signalled condition variable waiter put, asleep, into its mutex's queue",
    CondWake = "cond_wake": "signalled condition variable waiter woken to take its lock itself: the lock has no queue of its own",
    CondTimeout = "cond_timeout": "condition variable waiter gave up: deadline or cancellation",

    HqEnter = "hq_enter": "contended hq-spinlock began to queue its waiters by NUMA node",
    HqLeave = "hq_leave": "hq-spinlock without waiters became plain again",
    HqConflict = "hq_conflict": "contended hq-spinlock stayed plain: the pool had no free record for it",
    HqLocalHandoff = "hq_local_handoff": "hq-spinlock head promoted a waiter of its own lane",
    HqRemoteHandoff = "hq_remote_handoff": "hq-spinlock head promoted a waiter of another lane",
    HqForcedHandoff = "hq_forced_handoff": "those of them for which the head's lane still had waiters: its quota was spent",
    HqRollback = "hq_rollback": "hq-spinlock head found nobody, but could not become plain: a waiter was on its way",
    HqMarkTaken = "hq_mark_taken": "hq-spinlock waiter took the mark of the lanes for a waiter's name, and put it back",
    QrwReadSlowpath = "qrw_read_slowpath": "qrwlock read acquisition that found a writer inside or the lock kept for a waiter",
    QrwWriteSlowpath = "qrw_write_slowpath": "qrwlock write acquisition that found the lock taken",
    QrwWaitingFail = "qrw_waiting_fail": "attempt of the first waiting qrwlock writer to set the waiting mark that failed",
    QrwWlockFail = "qrw_wlock_fail": "attempt of the first waiting qrwlock writer to take the lock that failed",
    QrwSleep = "qrw_sleep": "queued qrwlock waiter returned from sleep (kernel's policies: the first waiter slept)",
    QrwOptLock = "qrw_opt_lock": "qrwlock taken while spinning, without queueing",
    QrwOptFail = "qrw_opt_fail": "qrwlock spin that ended, or was refused, without the lock",
    QrwLock = "qrw_lock": "qrwlock taken after queueing",
    QrwFail = "qrw_fail": "queued qrwlock waiter gave up (timeout or cancel)",
    QrwHandoff = "qrw_handoff": "qrwlock was kept for its first waiter, whose turn was over",

    LockrefLocked = "lockref_locked": "lockref operation that took the lock, or failed, because somebody held it or waited for it",
    LockrefRetry = "lockref_retry": "lockref exchange that failed: the count had changed or the lock was taken",
    LockrefLimit = "lockref_limit": "lockref operation that took the lock, or failed, after its last try without it",

    RwsemSleepReader = "rwsem_sleep_reader": "queued rwsem reader returned from sleep",
    RwsemSleepWriter = "rwsem_sleep_writer": "queued rwsem writer returned from sleep",
    RwsemWakeReader = "rwsem_wake_reader": "rwsem grant pass that released at least one reader",
    RwsemWakeWriter = "rwsem_wake_writer": "first queued rwsem writer was woken",
    RwsemApart = "rwsem_apart": "rwsem readers went apart: each is counted near its CPU",
    RwsemApartShut = "rwsem_apart_shut": "rwsem writer closed the gate of readers that are apart",
    RwsemTogether = "rwsem_together": "rwsem readers came together: writers were not rare",
    RwsemOptLock = "rwsem_opt_lock": "rwsem write lock taken while spinning (rwsem_opt_wlock up to v5.10)",
    RwsemOptRlock = "rwsem_opt_rlock": "rwsem read lock taken while spinning",
    RwsemOptRlock2 = "rwsem_opt_rlock2": "rwsem read lock taken by the one try after a failed spin",
    RwsemOptFail = "rwsem_opt_fail": "rwsem spin that ended, or was refused, without the lock",
    RwsemOptNospin = "rwsem_opt_nospin": "rwsem writer spent its spin budget on a reader-held lock",
    RwsemOptNorspin = "rwsem_opt_norspin": "rwsem reader spinning was switched off by the adaptive rule",
    RwsemRlock = "rwsem_rlock": "rwsem read lock taken after queueing",
    RwsemRlockFast = "rwsem_rlock_fast": "slow-path rwsem reader let in at once: no queue, no writer",
    RwsemRlockSteal = "rwsem_rlock_steal": "slow-path rwsem reader went in past waiting threads",
    RwsemRlockFail = "rwsem_rlock_fail": "queued rwsem reader gave up (timeout or cancel)",
    RwsemRlockHandoff = "rwsem_rlock_handoff": "rwsem handoff requested for a waiting reader",
    RwsemRtrylock = "rwsem_rtrylock": "rwsem read trylock that succeeded (xadd-baseline only)",
    RwsemWlock = "rwsem_wlock": "rwsem write lock taken after queueing",
    RwsemWlockFail = "rwsem_wlock_fail": "queued rwsem writer gave up (timeout or cancel)",
    RwsemWlockHandoff = "rwsem_wlock_handoff": "rwsem handoff requested by a waiting writer",
    RwsemWtrylock = "rwsem_wtrylock": "rwsem write trylock that succeeded (xadd-baseline only)",

    MutexSlowpath = "mutex_slowpath": "mutex acquisition that did not succeed at once",
    MutexOptLock = "mutex_opt_lock": "mutex taken while spinning, without queueing",
    MutexOptFail = "mutex_opt_fail": "mutex spin that ended, or was refused, without the lock",
    MutexLock = "mutex_lock": "mutex taken after queueing",
    MutexFail = "mutex_fail": "queued mutex waiter gave up (timeout or cancel)",
    MutexSleep = "mutex_sleep": "queued mutex waiter returned from sleep",
    MutexWake = "mutex_wake": "mutex unlock that woke the first waiter",
    MutexHandoff = "mutex_handoff": "first mutex waiter's turn was over: it asked to be let in before everybody else",

    PiMutexSlowpath = "pi_mutex_slowpath": "PI mutex acquisition that did not succeed at once",
    PiMutexSpin = "pi_mutex_spin": "PI mutex taken by its top waiter while it was spinning",
    PiMutexSpinFail = "pi_mutex_spin_fail": "PI mutex spin of a top waiter that ended, or was refused, without the lock",
    PiMutexBlock = "pi_mutex_block": "PI mutex acquisition that went to wait in the kernel",
    PiMutexUnlock = "pi_mutex_unlock": "PI mutex release through the kernel",
    PiMutexDeadlock = "pi_mutex_deadlock": "PI mutex acquisition refused: it would have closed a cycle",
    PiMutexOptLock = "pi_mutex_opt_lock": "PI mutex taken among equals while spinning, without queueing",
    PiMutexOptFail = "pi_mutex_opt_fail": "PI mutex spin among equals that ended, or was refused, without the lock",
    PiMutexLock = "pi_mutex_lock": "PI mutex taken after queueing among equals",
    PiMutexFail = "pi_mutex_fail": "queued PI mutex waiter gave up (timeout or cancel)",
    PiMutexSleep = "pi_mutex_sleep": "queued PI mutex waiter returned from sleep",
    PiMutexWake = "pi_mutex_wake": "PI mutex unlock that woke the first waiter among equals",
    PiMutexHandoff = "pi_mutex_handoff": "first PI mutex waiter's turn among equals was over: it went to wait in the kernel",
    PiCondvarWait = "pi_condvar_wait": "wait on a PI condition variable",
    PiCondvarMoved = "pi_condvar_moved": "those of them that ended with the mutex, handed over by the kernel",

    SemSlowpath = "sem_slowpath": "semaphore down that found no unit",
    SemOptDown = "sem_opt_down": "semaphore unit taken while spinning, without queueing",
    SemOptFail = "sem_opt_fail": "semaphore spin that ended without a unit",
    SemDown = "sem_down": "semaphore unit taken after queueing",
    SemFail = "sem_fail": "queued semaphore waiter gave up (timeout or cancel)",
    SemSleep = "sem_sleep": "queued semaphore waiter returned from sleep",
    SemWake = "sem_wake": "semaphore up that woke the first waiter",
    SemHandoff = "sem_handoff": "semaphore unit given to, or kept for, the first waiter",

    RtmutexSlowlock = "rtmutex_slowlock": "rt-mutex acquisition that did not succeed at once",
    RtmutexSlowBlock = "rtmutex_slow_block": "rt-mutex acquisition that queued",
    RtmutexSlowAcq1 = "rtmutex_slow_acq1": "rt-mutex taken under the wait lock without queueing",
    RtmutexSlowAcq3 = "rtmutex_slow_acq3": "rt-mutex taken after queueing",
    RtmutexSlowSleep = "rtmutex_slow_sleep": "queued rt-mutex waiter returned from sleep",
    RtmutexSlowunlock = "rtmutex_slowunlock": "rt-mutex release that did not succeed at once",
    RtmutexSlowWake = "rtmutex_slow_wake": "rt-mutex release that woke the first waiter",
    RtmutexDeadlock = "rtmutex_deadlock": "rt-mutex acquisition refused: it would have waited for itself",
    RtmutexSpin = "rtmutex_spin": "first rt-mutex waiter began to spin while the owner runs",
    RtmutexSpinOwner = "rtmutex_spin_owner": "such a spin that ended because the owner had released: it paid",
    RtmutexSpinOffCpu = "rtmutex_spin_off_cpu": "such a spin that ended, or did not begin, because the owner was not running",
    RtmutexSpinDisplaced = "rtmutex_spin_displaced": "such a spin that ended because somebody more urgent was first",
    RtmutexSpinStop = "rtmutex_spin_stop": "such a spin that ended for want of time: budget, deadline, CPU needed",
    RtmutexSteal = "rtmutex_steal": "free rt-mutex taken past a first waiter of lower priority",
    RtmutexStealLateral = "rtmutex_steal_lateral": "free rt-mutex taken past a first waiter, both time-sharing",
    RtmutexBoost = "rtmutex_boost": "thread was lent a priority, or a higher one",
    RtmutexDeboost = "rtmutex_deboost": "thread gave a lent priority back, or part of it",
    RtmutexBoostFail = "rtmutex_boost_fail": "the machine refused to change a thread's priority",
    RtmutexWalk = "rtmutex_walk": "step of a walk along a priority chain",
    RtmutexWalkRetry = "rtmutex_walk_retry": "step of such a walk that began again: the wait lock was taken",

    WaitLapsed = "wait_lapsed": "a lock was reserved for a waiter that did not come: the reservation ended",
    OsqWait = "osq_wait": "spinner queued behind another spinner of the same lock",
    OsqCancel = "osq_cancel": "spinner left the spin queue without reaching its head",
    FutexSleep = "futex_sleep": "thread queued in a futex hash to sleep on a word",
    FutexWake = "futex_wake": "threads woken through a futex hash",
    ParkSleep = "park_sleep": "thread went to sleep in the kernel",
    ParkWake = "park_wake": "thread woke another through the kernel",
}

/// The number of events.
pub const COUNT: usize = Event::ALL.len();

/// The sums of all events at one moment: on the real machine of [`Snapshot::now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    counts: [u64; COUNT],
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { counts: [0; COUNT] }
    }
}

impl Snapshot {
    /// The sums in `counts`, indexed by event number. For platforms that keep their own tables.
    pub const fn from_counts(counts: [u64; COUNT]) -> Self {
        Self { counts }
    }

    /// The count of `event`.
    pub fn get(&self, event: Event) -> u64 {
        self.counts[event as usize]
    }

    /// What was counted between `earlier` and this snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut counts = self.counts;
        for (now, before) in counts.iter_mut().zip(earlier.counts) {
            *now = now.wrapping_sub(before);
        }
        Self { counts }
    }

    /// Names and counts, in the order of [`Event::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Event::ALL.iter().map(|&event| (event.name(), self.get(event)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_numbers_dense() {
        for (number, &event) in Event::ALL.iter().enumerate() {
            assert_eq!(event as usize, number);
            assert!(!event.what().is_empty());
            assert_eq!(Event::ALL.iter().filter(|other| other.name() == event.name()).count(), 1);
        }
    }

    #[test]
    fn since_subtracts_even_across_a_negative_count() {
        let mut before = [0; COUNT];
        before[0] = 5;
        let mut after = before;
        after[0] = 3;
        let delta = Snapshot::from_counts(after).since(&Snapshot::from_counts(before));
        assert_eq!(delta.get(Event::ALL[0]) as i64, -2);
    }
}
