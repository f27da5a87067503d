//! Lockyard's own locks under test, on any machine: the raw locks, without guards in between.

use lockyard::mutex::RawMutex;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::semaphore::{self, RawSemaphore};
use lockyard::spin::cna::Cna;
use lockyard::spin::hq::Hq;
use lockyard::spin::qspinlock::Plain;
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};

use crate::catalog::Candidate;
use crate::machine::Machine;
use crate::subject::{Exclusive, Family, Label, Shared, Subject};

/// How many there are.
pub(crate) const COUNT: usize = 26;

/// All of them, default policies first.
pub(crate) const fn candidates<M: Machine>() -> [Candidate; COUNT] {
    const HANGS: &str = "known to hang, as it did in the kernel";
    const LITERAL: &str = "literal form of a known bug, a target for fault injection";
    const LOSES_WAKE_UPS: &str = "loses wake-ups when used for counting, as it did in the kernel";
    [
        Candidate::exclusive::<M, Mutex<M>>(),
        Candidate::exclusive::<M, SpinLock<M, Plain>>(),
        Candidate::exclusive::<M, SpinLock<M, Hq>>(),
        Candidate::exclusive::<M, SpinLock<M, Cna>>(),
        rwsem::<M, policy::Today>(),
        rwsem::<M, policy::TodayKernel>(),
        rwsem::<M, policy::V5_16>().caution(HANGS),
        rwsem::<M, policy::NoRspin>(),
        rwsem::<M, policy::LimitRspin>(),
        rwsem::<M, policy::ReaderStealV2>(),
        rwsem::<M, policy::ReaderSteal>(),
        rwsem::<M, policy::StarvationGuard>(),
        rwsem::<M, policy::V5_10>(),
        rwsem::<M, policy::AdaptiveRspin>(),
        rwsem::<M, policy::TimedWriterSpin>(),
        rwsem::<M, policy::TimedWriterSpinLiteral>().caution(LITERAL),
        rwsem::<M, policy::ReaderSpinOnWriter>(),
        rwsem::<M, policy::WakeAllReaders>(),
        rwsem::<M, policy::HandoffImmediate>(),
        rwsem::<M, policy::Handoff4ms>(),
        rwsem::<M, policy::HandoffNone>(),
        rwsem::<M, policy::XaddBaseline>(),
        rwsem::<M, policy::XaddBaselineLiteral>().caution(LITERAL),
        semaphore::<M, semaphore::OpportunisticSafe>(),
        semaphore::<M, semaphore::DirectHandoff>(),
        semaphore::<M, semaphore::Opportunistic2008>().caution(LOSES_WAKE_UPS),
    ]
}

const fn rwsem<M: Machine, Y: policy::Policy>() -> Candidate {
    Candidate::shared::<M, RwSem<M, Y>>()
}

const fn semaphore<M: Machine, Y: semaphore::Policy>() -> Candidate {
    Candidate::exclusive::<M, Semaphore<M, Y>>()
}

/// `mutex`.
#[derive(Debug)]
struct Mutex<M: Machine>(RawMutex<M>);

impl<M: Machine> Exclusive for Mutex<M> {
    fn new() -> Self {
        Self(RawMutex::default())
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.acquire();
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.0.release() };
        result
    }
}

impl<M: Machine> Subject for Mutex<M> {
    const LABEL: Label = Label::lockyard("mutex", None, Family::Mutex);
}

/// A spinlock that queues its waiters the way of kind `K`.
#[derive(Debug)]
struct SpinLock<M: Machine, K: Kind<M>>(RawQueuedSpinLock<M, K>);

impl<M: Machine, K: Kind<M>> Exclusive for SpinLock<M, K> {
    fn new() -> Self {
        Self(RawQueuedSpinLock::default())
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.acquire();
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.0.release() };
        result
    }
}

impl<M: Machine> Subject for SpinLock<M, Plain> {
    const LABEL: Label = Label::lockyard("qspinlock", None, Family::Spin);
}

impl<M: Machine> Subject for SpinLock<M, Hq> {
    const LABEL: Label = Label::lockyard("hq-spinlock", None, Family::Spin);
}

impl<M: Machine> Subject for SpinLock<M, Cna> {
    const LABEL: Label = Label::lockyard("cna", None, Family::Spin);
}

/// `rwsem` with policy `Y`.
#[derive(Debug)]
struct RwSem<M: Machine, Y: policy::Policy>(RawRwSem<M, Y>);

impl<M: Machine, Y: policy::Policy> Exclusive for RwSem<M, Y> {
    fn new() -> Self {
        Self(RawRwSem::default())
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.write_acquire();
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.0.write_release() };
        result
    }
}

impl<M: Machine, Y: policy::Policy> Shared for RwSem<M, Y> {
    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.read_acquire();
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.0.read_release() };
        result
    }
}

impl<M: Machine, Y: policy::Policy> Subject for RwSem<M, Y> {
    const LABEL: Label = Label::lockyard("rwsem", Some(Y::NAME), Family::Rw);
}

/// `semaphore` with policy `Y`, and one unit: down is lock, up is unlock.
#[derive(Debug)]
struct Semaphore<M: Machine, Y: semaphore::Policy>(RawSemaphore<M, Y>);

impl<M: Machine, Y: semaphore::Policy> Exclusive for Semaphore<M, Y> {
    fn new() -> Self {
        Self(RawSemaphore::with_units(1))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.down();
        let result = section();
        self.0.up();
        result
    }
}

impl<M: Machine, Y: semaphore::Policy> Subject for Semaphore<M, Y> {
    const LABEL: Label = Label::lockyard("semaphore", Some(Y::NAME), Family::Semaphore);
}

#[cfg(test)]
mod tests {
    use lockyard::platform::linux::Linux;

    use super::*;

    #[test]
    fn every_policy_is_listed_and_the_default_comes_first() {
        let listed = |name| {
            let of_lock = candidates::<Linux>().into_iter().filter(move |candidate| candidate.name == name);
            of_lock.filter_map(|candidate| candidate.policy).collect::<Vec<_>>()
        };
        let sorted = |names: &[&'static str]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        assert_eq!(listed("rwsem")[0], "today");
        assert_eq!(sorted(&listed("rwsem")), sorted(policy::NAMES));
        assert_eq!(listed("semaphore"), semaphore::POLICIES);
    }
}
