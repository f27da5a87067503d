//! Lockyard's own locks under test, on any machine: the raw locks, without guards in between.

use lockyard::history::rwsem::policy;
use lockyard::history::{self, KernelQRwLock, KernelRwSem, KernelSemaphore, qrwlock::policy as qrw};
use lockyard::lockref;
use lockyard::mutex::RawMutex;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex_tree::{self, RawTreeRtMutex};
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::WordLock;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::{self, RawHqSpinLock};
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;

use crate::candidate::Candidate;
use crate::machine::Machine;
use crate::subject::{Counted, Exclusive, Family, Label, Shared, Subject};

pub(crate) mod native;

/// How many there are.
pub(crate) const COUNT: usize = 44;

/// All of them, default policies first.
pub(crate) const fn candidates<M: Machine>() -> [Candidate; COUNT] {
    const HANGS: &str = "known to hang, as it did in the kernel";
    const LITERAL: &str = "literal form of a known bug, a target for fault injection";
    const LOSES_WAKE_UPS: &str = "loses wake-ups when used for counting, as it did in the kernel";
    [
        Candidate::exclusive::<M, Mutex<M>>(),
        tree_rt_mutex::<M, rtmutex_tree::policy::Today>(),
        tree_rt_mutex::<M, rtmutex_tree::policy::Published2016>(),
        tree_rt_mutex::<M, rtmutex_tree::policy::NoSpin>(),
        tree_rt_mutex::<M, rtmutex_tree::policy::Strict>(),
        Candidate::exclusive::<M, SpinLock<M>>(),
        Candidate::exclusive::<M, HqSpinLock<M>>(),
        Candidate::exclusive::<M, CnaSpinLock<M>>(),
        Candidate::exclusive::<M, Mcs<M>>().by_name(),
        Candidate::exclusive::<M, Ticket<M>>().by_name(),
        Candidate::exclusive::<M, Ttas<M>>().by_name(),
        lockref::<M, RawQSpinLock<M>>(),
        lockref::<M, RawHqSpinLock<M>>(),
        lockref::<M, RawCnaSpinLock<M>>(),
        lockref::<M, RawMcsLock<M>>(),
        lockref::<M, RawTicketLock<M>>(),
        lockref::<M, RawTtasLock<M>>(),
        Candidate::shared::<M, RwSem<M>>(),
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
        Candidate::shared::<M, QRwLock<M>>(),
        qrwlock::<M, qrw::TodayKernel>(),
        qrwlock::<M, qrw::FetchAdd>(),
        qrwlock::<M, qrw::ByteCas>(),
        qrwlock::<M, qrw::WordCas>(),
        Candidate::exclusive::<M, Semaphore<M>>(),
        semaphore::<M, history::semaphore::DirectHandoff>(),
        semaphore::<M, history::semaphore::Opportunistic2008>().caution(LOSES_WAKE_UPS),
    ]
}

const fn tree_rt_mutex<M: Machine, Y: rtmutex_tree::policy::Policy>() -> Candidate {
    Candidate::exclusive::<M, TreeRtMutex<M, Y>>().by_name()
}

const fn lockref<M: Machine, K: WordLock<M>>() -> Candidate {
    Candidate::counted::<M, LockRef<M, K>>().by_name()
}

const fn rwsem<M: Machine, Y: policy::Policy>() -> Candidate {
    Candidate::shared::<M, OldRwSem<M, Y>>()
}

const fn qrwlock<M: Machine, Y: qrw::Policy>() -> Candidate {
    Candidate::shared::<M, OldQRwLock<M, Y>>()
}

const fn semaphore<M: Machine, Y: history::semaphore::Policy>() -> Candidate {
    Candidate::exclusive::<M, OldSemaphore<M, Y>>()
}

macro_rules! exclusive {
    ($($name:ident = $text:literal, $raw:ident, $family:ident $(, $statistics:ident)?;)*) => {$(
        #[doc = concat!("`", $text, "`.")]
        #[derive(Debug)]
        pub(crate) struct $name<M: Machine>($raw<M>);

        impl<M: Machine> Exclusive for $name<M> {
            fn new() -> Self {
                Self($raw::default())
            }

            #[inline(always)]
            fn with<R>(&self, section: impl FnOnce() -> R) -> R {
                self.0.acquire();
                let result = section();
                // SAFETY: acquired above by this thread.
                unsafe { self.0.release() };
                result
            }

            $(fn statistics(&self) -> Vec<(&'static str, u64)> {
                $statistics(&self.0)
            })?
        }

        impl<M: Machine> Subject for $name<M> {
            const LABEL: Label = Label::lockyard($text, None, Family::$family);
        }
    )*};
}

exclusive! {
    Mutex = "mutex", RawMutex, Mutex;
    SpinLock = "qspinlock", RawQSpinLock, Spin;
    HqSpinLock = "hq-spinlock", RawHqSpinLock, Spin, hand_overs;
    CnaSpinLock = "cna", RawCnaSpinLock, Spin;
    Mcs = "mcs", RawMcsLock, Spin;
    Ticket = "ticket", RawTicketLock, Spin;
    Ttas = "ttas", RawTtasLock, Spin;
}

/// What a hierarchical lock counts while it is in hierarchical mode.
fn hand_overs<M: Machine>(lock: &RawHqSpinLock<M>) -> Vec<(&'static str, u64)> {
    let counted = |found: hq::Statistics| vec![("local", found.local.into()), ("remote", found.remote.into())];
    lock.statistics().map(counted).unwrap_or_default()
}

macro_rules! shared {
    ($($name:ident $(<$y:ident: $policy:path>)? = $text:literal, $named:expr, $raw:ident;)*) => {$(
        #[doc = concat!("`", $text, "`.")]
        #[derive(Debug)]
        struct $name<M: Machine $(, $y: $policy)?>($raw<M $(, $y)?>);

        impl<M: Machine $(, $y: $policy)?> Exclusive for $name<M $(, $y)?> {
            fn new() -> Self {
                Self($raw::default())
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

        impl<M: Machine $(, $y: $policy)?> Shared for $name<M $(, $y)?> {
            #[inline(always)]
            fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
                self.0.read_acquire();
                let result = section();
                // SAFETY: acquired above by this thread.
                unsafe { self.0.read_release() };
                result
            }
        }

        impl<M: Machine $(, $y: $policy)?> Subject for $name<M $(, $y)?> {
            const LABEL: Label = Label::lockyard($text, Some($named), Family::Rw);
        }
    )*};
}

shared! {
    RwSem = "rwsem", "today", RawRwSem;
    OldRwSem<Y: policy::Policy> = "rwsem", Y::NAME, KernelRwSem;
    QRwLock = "qrwlock", "today", RawQRwLock;
    OldQRwLock<Y: qrw::Policy> = "qrwlock", Y::NAME, KernelQRwLock;
}

/// `rtmutex-tree` with policy `Y`.
#[derive(Debug)]
struct TreeRtMutex<M: Machine, Y: rtmutex_tree::policy::Policy>(RawTreeRtMutex<M, Y>);

impl<M: Machine, Y: rtmutex_tree::policy::Policy> Exclusive for TreeRtMutex<M, Y> {
    fn new() -> Self {
        Self(RawTreeRtMutex::default())
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // No workload closes a cycle of locks; the checked data would notice.
        let _ = self.0.acquire();
        let result = section();
        // SAFETY: acquired above by this thread.
        let _ = unsafe { self.0.release() };
        result
    }
}

impl<M: Machine, Y: rtmutex_tree::policy::Policy> Subject for TreeRtMutex<M, Y> {
    const LABEL: Label = Label::lockyard("rtmutex-tree", Some(Y::NAME), Family::Mutex);
}

/// `lockref` with a spinlock of kind `K`: that is its policy. As a lock it is that spinlock.
#[derive(Debug)]
struct LockRef<M: Machine, K: WordLock<M>>(lockref::LockRef<M, K>);

impl<M: Machine, K: WordLock<M>> Exclusive for LockRef<M, K> {
    fn new() -> Self {
        Self(lockref::LockRef::with_count(1))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        section()
    }
}

impl<M: Machine, K: WordLock<M>> Counted for LockRef<M, K> {
    #[inline]
    fn get(&self) {
        self.0.get_not_dead();
    }

    #[inline]
    fn put(&self) {
        drop(self.0.put_or_lock());
    }

    fn references(&self) -> i64 {
        i64::from(self.0.count()) - 1
    }
}

impl<M: Machine, K: WordLock<M>> Subject for LockRef<M, K> {
    const LABEL: Label = Label::lockyard("lockref", Some(K::NAME), Family::Spin);
}

macro_rules! semaphores {
    ($($name:ident $(<$y:ident: $policy:path>)? = $named:expr, $raw:ident;)*) => {$(
        /// `semaphore` with one unit: down is lock, up is unlock.
        #[derive(Debug)]
        struct $name<M: Machine $(, $y: $policy)?>($raw<M $(, $y)?>);

        impl<M: Machine $(, $y: $policy)?> Exclusive for $name<M $(, $y)?> {
            fn new() -> Self {
                Self($raw::with_units(1))
            }

            #[inline(always)]
            fn with<R>(&self, section: impl FnOnce() -> R) -> R {
                self.0.down();
                let result = section();
                self.0.up();
                result
            }
        }

        impl<M: Machine $(, $y: $policy)?> Subject for $name<M $(, $y)?> {
            const LABEL: Label = Label::lockyard("semaphore", Some($named), Family::Semaphore);
        }
    )*};
}

semaphores! {
    Semaphore = "opportunistic-safe", RawSemaphore;
    OldSemaphore<Y: history::semaphore::Policy> = Y::NAME, KernelSemaphore;
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
        assert_eq!(sorted(&listed("rwsem")[1..]), sorted(policy::NAMES));
        assert_eq!(listed("rtmutex-tree"), rtmutex_tree::policy::NAMES);
        assert_eq!(listed("qrwlock"), [&["today"], qrw::NAMES].concat());
        assert_eq!(listed("semaphore"), [&["opportunistic-safe"], history::semaphore::NAMES].concat());
    }
}
