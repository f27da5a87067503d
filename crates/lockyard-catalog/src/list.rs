//! The list of locks.
//!
//! A line of [`rows!`](crate::rows): the lock's name in the sources; the trait of which it is;
//! its type on the platform `P`; what it promises beyond that; what runs it; its [`Entry`].
//!
//! | trait | of the line |
//! |---|---|
//! | `lock` | [`Lock`](crate::lock::Lock) |
//! | `timed` | [`Timed`](crate::lock::Timed) |
//! | `shared`, `shared_timed` | [`Shared`](crate::lock::Shared); with [`Timed`](crate::lock::Timed) |
//! | `references` | [`References`](crate::lock::References) |
//! | `hashed` | [`Hashed`](crate::lock::Hashed) |
//! | `count` | [`Count`](crate::lock::Count) |
//! | `weigh` | [`Weigh`](crate::lock::Weigh) |
//!
//! Promises are groups of the conformance suite: `fair` and `fair_shared` for a bound on bypass,
//! `churn` for a lock that is also tested with threads that live for one acquisition.
//!
//! | runner | what |
//! |---|---|
//! | `bench` | `lockyard list`, `bench`, `compare`, `simulate`, `reproduce` |
//! | `torture` | `lockyard torture` |
//! | `native`, `scripted`, `simulated` | the conformance suite on the real machine, on scripts, on simulated machines |
//! | `shuttle` | the same under random schedules: `cargo xtask models shuttle` |
//! | `everywhere` | all four of them |
//! | `seeds` | `cargo xtask explore seeds` |
//! | `swept` | preempted at every step of a script |
//! | `models`, `brief` | loom: all scenarios of its trait, or the least that has all kinds of waiters |
//! | `lending` | `bench`, `torture` and `native`, on platforms that lend priorities |
//!
//! The order is that of `lockyard list`; the first policy of a lock is its default.

use crate::entry::{Absent, Entry, Family, Waits};

const HANGS: &str = "known to hang, as it did in the kernel";
const LITERAL: &str = "literal form of a known bug, a target for fault injection";
const LOSES_WAKE_UPS: &str = "loses wake-ups when used for counting, as it did in the kernel";

const fn spinlock(name: &'static str, about: &'static str) -> Entry {
    Entry::new(name, Family::Spin, about).frees()
}

/// As a lock it is the spinlock in it: that is its policy.
const fn lockref(policy: &'static str, about: &'static str) -> Entry {
    Entry::new("lockref", Family::Spin, about).policy(policy).frees().by_name().waits(Waits::Spin)
}

const fn rtmutex(policy: &'static str, about: &'static str) -> Entry {
    Entry::new("rtmutex-tree", Family::Mutex, about).policy(policy).frees().by_name()
}

const fn pi_mutex(policy: &'static str, about: &'static str) -> Entry {
    Entry::new("pi-mutex", Family::Mutex, about).policy(policy).by_name()
}

/// A policy of the kernel's: the lock is handed to the first waiter, whether or not that one comes.
const fn rwsem(policy: &'static str, about: &'static str) -> Entry {
    Entry::new("rwsem", Family::Rw, about).policy(policy).absent(Absent::Kept)
}

/// A writer that waits for the readers inside has the lock, whether or not it comes. A reader that
/// looks at the gate in vain wakes no writer: its timer does.
const fn apart_rwsem(name: &'static str, about: &'static str) -> Entry {
    Entry::new(name, Family::Rw, about).absent(Absent::Kept).waits(Waits::Handoff)
}

/// As [`rwsem`].
const fn qrwlock(policy: &'static str, about: &'static str) -> Entry {
    Entry::new("qrwlock", Family::Rw, about).policy(policy).frees().absent(Absent::Kept).waits(Waits::SpinOrSleep)
}

const fn semaphore(policy: &'static str, about: &'static str) -> Entry {
    Entry::new("semaphore", Family::Semaphore, about).policy(policy)
}

/// What only tests know.
const fn form(name: &'static str) -> Entry {
    Entry::new(name, Family::Mutex, "a form that only tests know")
}

/// The list: `then!` is expanded with `arguments` and all lines.
#[doc(hidden)]
#[macro_export]
macro_rules! rows {
    ($then:ident $arguments:tt) => { $crate::$then! { $arguments
    mutex: timed RawMutex<P>, [churn fair], [bench torture everywhere swept models],
        Entry::new("mutex", Family::Mutex, "spins on a running holder, then queues; handoff to a waiter that waited too long")
            .waits(Waits::Turns);
    rtmutex_today: timed RawTreeRtMutex<P>, [churn fair], [bench torture everywhere swept models],
        rtmutex(rt::Today::NAME, "the first waiter spins while the owner runs; time-sharing threads may pass it 32 times");
    rtmutex_2016: timed RawTreeRtMutex<P, rt::Published2016>, [fair], [bench torture native simulated shuttle],
        rtmutex(rt::Published2016::NAME, "the first waiter spins, as first published; strict order");
    rtmutex_no_spin: timed RawTreeRtMutex<P, rt::NoSpin>, [fair], [bench torture native],
        rtmutex(rt::NoSpin::NAME, "the first waiter sleeps at once; strict order");
    rtmutex_strict: timed RawTreeRtMutex<P, rt::Strict>, [fair], [bench torture],
        rtmutex(rt::Strict::NAME, "the first waiter spins; strict order");
    qspinlock: lock RawQSpinLock<P>, [churn fair], [bench torture everywhere seeds swept models],
        spinlock("qspinlock", "queued spinlock of 4 bytes whose waiters sleep when spinning is useless")
            .waits(Waits::Queue);
    hq_spinlock: lock RawHqSpinLock<P>, [fair], [bench scripted simulated],
        spinlock("hq-spinlock", "queued spinlock of 4 bytes that queues by NUMA node while it is contended").by_lanes();
    // As it is set usually it is a qspinlock in most runs.
    hq_spinlock_eager: lock EagerHq<P>, [churn fair], [torture everywhere seeds models],
        spinlock("hq-spinlock", "set so that it queues by node at once").by_lanes().waits(Waits::QueueByNode);
    hq_spinlock_by_node: lock EagerHq<P, 0>, [fair], [seeds],
        spinlock("hq-spinlock", "the same on every machine").policy("by-node").by_lanes();
    cna: lock RawCnaSpinLock<P>, [churn fair], [bench torture everywhere seeds swept models],
        spinlock("cna", "queued spinlock that hands over within a NUMA node, by moving waiters of others aside")
            .waits(Waits::SpinByNode);
    mcs: lock RawMcsLock<P>, [churn fair], [bench torture everywhere seeds models],
        spinlock("mcs", "MCS queue lock of 4 bytes, a baseline: strict order, each waiter on its own line").by_name();
    // Only the platform's handler of forks can call the numbers of waiters in the parent back.
    ticket: lock RawTicketLock<P>, [churn fair], [bench torture everywhere seeds models],
        spinlock("ticket", "ticket spinlock of 4 bytes, a baseline: strict order, all waiters on one line")
            .by_name().absent(Absent::Told).waits(Waits::Spin);
    // Promises nothing: a waiter that naps while two others pass the lock around may nap for long.
    ttas: lock RawTtasLock<P>, [], [bench torture everywhere seeds models],
        spinlock("ttas", "test-and-test-and-set spinlock, a baseline: no order, all waiters on one line")
            .by_name().waits(Waits::Spin);
    lockref_qspinlock: references LockRef<P>, [churn fair], [bench torture everywhere seeds models],
        lockref("qspinlock", "with a queued spinlock");
    lockref_hq_spinlock: references LockRef<P, RawHqSpinLock<P>>, [fair], [bench torture seeds],
        lockref("hq-spinlock", "with a queued spinlock that queues by NUMA node").by_lanes();
    lockref_cna: references LockRef<P, RawCnaSpinLock<P>>, [fair], [bench torture],
        lockref("cna", "with a queued spinlock that hands over within a NUMA node");
    lockref_mcs: references LockRef<P, RawMcsLock<P>>, [fair], [bench torture native scripted simulated seeds],
        lockref("mcs", "with an MCS lock");
    lockref_ticket: references LockRef<P, RawTicketLock<P>>, [fair], [bench torture native scripted simulated seeds],
        lockref("ticket", "with a ticket lock").absent(Absent::Told);
    lockref_ttas: references LockRef<P, RawTtasLock<P>>, [], [bench torture native scripted simulated seeds],
        lockref("ttas", "with a test-and-test-and-set lock");
    rwsem_today: shared_timed RawRwSem<P>, [churn fair fair_shared], [bench torture everywhere swept models],
        rwsem("today", "the kernel's present fast paths with Lockyard's waiting: bounded turns for both sides")
            .absent(Absent::Counted).waits(Waits::Turns);
    read_mostly: shared_timed RawApartRwSem<P>, [churn fair fair_shared], [bench torture everywhere],
        apart_rwsem("read-mostly", "rwsem whose readers share nothing while writers are rare").by_name();
    percpu_rwsem: shared_timed RawApartRwSem<P, apart::Always>, [fair fair_shared],
        [bench torture everywhere],
        apart_rwsem("percpu-rwsem", "the same from the first read on, as the kernel's").by_name();
    read_mostly_restless: shared_timed RawApartRwSem<P, Restless>, [fair fair_shared],
        [torture everywhere models],
        apart_rwsem("read-mostly-restless", "a form that only tests know");
    rwsem_today_kernel: shared_timed KernelRwSem<P, rwsem::TodayKernel>, [], [bench torture simulated shuttle swept models],
        rwsem(rwsem::TodayKernel::NAME, "the kernel's present rwsem (v6.3 on)").waits(Waits::Handoff);
    rwsem_v5_16: shared_timed KernelRwSem<P, rwsem::V5_16>, [], [bench torture],
        rwsem(rwsem::V5_16::NAME, "the entitlement to handoff is kept per waiter").defect(HANGS);
    rwsem_no_rspin: shared_timed KernelRwSem<P, rwsem::NoRspin>, [], [bench torture brief],
        rwsem(rwsem::NoRspin::NAME, "v5.11: readers do not spin, they steal");
    rwsem_limit_rspin: shared_timed KernelRwSem<P, rwsem::LimitRspin>, [], [bench torture shuttle brief],
        rwsem(rwsem::LimitRspin::NAME, "only one reader spins; reconstructed from its description");
    rwsem_reader_steal_v2: shared_timed KernelRwSem<P, rwsem::ReaderStealV2>, [], [bench torture shuttle brief],
        rwsem(rwsem::ReaderStealV2::NAME, "as posted: also lets in the readers behind a first writer");
    rwsem_reader_steal: shared_timed KernelRwSem<P, rwsem::ReaderSteal>, [], [bench torture brief],
        rwsem(rwsem::ReaderSteal::NAME, "readers go in past waiters");
    rwsem_starvation_guard: shared_timed KernelRwSem<P, rwsem::StarvationGuard>, [], [bench torture brief],
        rwsem(rwsem::StarvationGuard::NAME, "no barging into a lock that readers hold");
    rwsem_v5_10: shared_timed KernelRwSem<P, rwsem::V5_10>, [], [bench torture simulated shuttle swept models],
        rwsem(rwsem::V5_10::NAME, "the vanilla of the 2020 tables: the entitled writer spins").waits(Waits::Handoff);
    rwsem_adaptive_rspin: shared_timed KernelRwSem<P, rwsem::AdaptiveRspin>, [], [bench torture brief],
        rwsem(rwsem::AdaptiveRspin::NAME, "readers stop spinning where writers failed to");
    rwsem_timed_writer_spin: shared_timed KernelRwSem<P, rwsem::TimedWriterSpin>, [], [bench torture brief],
        rwsem(rwsem::TimedWriterSpin::NAME, "writers spin on readers for a while");
    rwsem_timed_writer_spin_literal: shared_timed KernelRwSem<P, rwsem::TimedWriterSpinLiteral>, [], [bench torture],
        rwsem(rwsem::TimedWriterSpinLiteral::NAME, "... and look at a thread that no longer owns the lock").defect(LITERAL);
    rwsem_reader_spin_on_writer: shared_timed KernelRwSem<P, rwsem::ReaderSpinOnWriter>, [], [bench torture brief],
        rwsem(rwsem::ReaderSpinOnWriter::NAME, "readers spin while a writer runs");
    rwsem_wake_all_readers: shared_timed KernelRwSem<P, rwsem::WakeAllReaders>, [], [bench torture brief],
        rwsem(rwsem::WakeAllReaders::NAME, "wakes all queued readers, up to 256");
    rwsem_handoff_immediate: shared_timed KernelRwSem<P, rwsem::HandoffImmediate>, [], [bench torture brief],
        rwsem(rwsem::HandoffImmediate::NAME, "a waiter forbids barging at once");
    rwsem_handoff_4ms: shared_timed KernelRwSem<P, rwsem::Handoff4ms>, [], [bench torture simulated shuttle brief],
        rwsem(rwsem::Handoff4ms::NAME, "a waiter forbids barging after 4 ms");
    rwsem_handoff_none: shared_timed KernelRwSem<P, rwsem::HandoffNone>, [], [bench torture brief],
        rwsem(rwsem::HandoffNone::NAME, "no bound on barging");
    rwsem_xadd_baseline: shared_timed KernelRwSem<P, rwsem::XaddBaseline>, [], [bench torture shuttle swept models],
        rwsem(rwsem::XaddBaseline::NAME, "v5.1: readers are woken up to the first writer");
    rwsem_xadd_baseline_literal: shared_timed KernelRwSem<P, rwsem::XaddBaselineLiteral>, [], [bench torture],
        rwsem(rwsem::XaddBaselineLiteral::NAME, "... with its race between waking and counting readers").defect(LITERAL);
    qrwlock_today: shared_timed RawQRwLock<P>, [churn fair fair_shared], [bench torture everywhere seeds models],
        qrwlock("today", "waiters take turns; a waiter that does not come keeps nobody out")
            .absent(Absent::Counted).waits(Waits::Turns);
    qrwlock_today_kernel: shared KernelQRwLock<P, qrw::TodayKernel>, [churn fair fair_shared], [bench torture everywhere seeds models],
        qrwlock(qrw::TodayKernel::NAME, "the kernel's: a waiting writer sets its bit with one or");
    qrwlock_fetch_add: shared KernelQRwLock<P, qrw::FetchAdd>, [churn fair fair_shared], [bench torture everywhere seeds models],
        qrwlock(qrw::FetchAdd::NAME, "late 2017 to about 2021: ... with one addition");
    qrwlock_byte_cas: shared KernelQRwLock<P, qrw::ByteCas>, [churn], [bench torture everywhere seeds models],
        qrwlock(
            qrw::ByteCas::NAME,
            "from the patch of 2015 on: compare-exchange of the writer's byte; no bound on writers passing",
        );
    qrwlock_word_cas: shared KernelQRwLock<P, qrw::WordCas>, [churn], [bench torture everywhere seeds models],
        qrwlock(
            qrw::WordCas::NAME,
            "before the patch: compare-exchange of the whole word; no bound on writers passing",
        );
    semaphore_today: weigh RawSemaphore<P>, [fair], [bench torture everywhere swept models],
        semaphore("opportunistic-safe", "units are public, running threads may pass a waiter for a bounded time")
            .waits(Waits::Turns);
    semaphore_bundles: count Bundle<RawSemaphore<P>>, [fair], [torture everywhere swept],
        form("semaphore-bundles");
    semaphore_direct_handoff: count KernelSemaphore<P, DirectHandoff>, [fair], [bench torture everywhere swept models],
        semaphore(DirectHandoff::NAME, "a unit goes to the first waiter, asleep or not: fair, convoys").waits(Waits::Sleep);
    semaphore_2008: count KernelSemaphore<P, Opportunistic2008>, [], [bench torture brief],
        semaphore(Opportunistic2008::NAME, "the published fix of 2008: units are public, no bound").defect(LOSES_WAKE_UPS);
    rtmutex_lateral: timed RawRtMutex<P>, [churn fair], [lending],
        pi_mutex(pi::Lateral::NAME, "time-sharing threads wait in turns in user space, the others spin shortly, then in the kernel");
    rtmutex_merged: timed RawRtMutex<P, pi::Merged>, [fair], [lending],
        pi_mutex(pi::Merged::NAME, "the first waiter spins while the owner runs, then waits in the kernel");
    rtmutex_published: timed RawRtMutex<P, pi::Published>, [fair], [lending],
        pi_mutex(pi::Published::NAME, "the first waiter spins, as first published");
    rtmutex_off: timed RawRtMutex<P, pi::Off>, [fair], [lending],
        pi_mutex(pi::Off::NAME, "every waiter waits in the kernel at once, as pthread's");
    binary_semaphore: timed Binary<RawSemaphore<P>>, [churn fair], [torture everywhere swept], form("binary-semaphore");
    binary_semaphore_direct_handoff: timed Binary<KernelSemaphore<P, DirectHandoff>>, [fair], [native swept],
        form("binary-semaphore").policy(DirectHandoff::NAME);
    binary_semaphore_2008: timed Binary<KernelSemaphore<P, Opportunistic2008>>, [], [native swept],
        form("binary-semaphore").policy(Opportunistic2008::NAME);
    futex_hash: hashed HashedMutex<P, RawQSpinLock<P>>, [], [torture everywhere seeds], form("futex-hash").absent(Absent::Kept);
    futex_hash_hq_spinlock: hashed HashedMutex<P, RawHqSpinLock<P>>, [], [seeds], form("futex-hash").policy("hq-spinlock");
    futex_hash_ticket: hashed HashedMutex<P, RawTicketLock<P>>, [], [native scripted simulated seeds models],
        form("futex-hash").policy("ticket");
    mutex_detached: timed Detached<RawMutex<P>>, [fair], [native simulated shuttle swept], form("mutex-detached");
    rwsem_detached: timed Detached<RawRwSem<P>>, [fair], [native simulated], form("rwsem-detached").policy("today");
    rwsem_kernel_detached: timed Detached<KernelRwSem<P, rwsem::TodayKernel>>, [], [native simulated],
        form("rwsem-detached").policy(rwsem::TodayKernel::NAME);
    condvar: timed Monitor<P, RawMutex<P>>, [], [native simulated shuttle swept], form("condvar");
    condvar_spinning: timed Monitor<P, Spinning<P>>, [], [native simulated shuttle], form("condvar-spinning");
    } };
}

/// Expands `then!` for each lock that has this runner, in the order of the list, with these
/// arguments, the lock's name, its trait and its promises. In brackets `then` may be a path.
#[macro_export]
macro_rules! locks {
    ($runner:ident => $then:ident $arguments:tt) => { $crate::locks! { $runner => [$then] $arguments } };
    ($runner:ident => [$($then:tt)*] $arguments:tt) => { $crate::rows! { choose ($runner [$($then)*] $arguments) } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! choose {
    (($runner:ident $then:tt $arguments:tt)
        $($lock:ident: $trait:ident $type:ty, [$($promise:ident)*], [$($runs:ident)*], $entry:expr;)*) => {
        $($crate::runs! { $runner [$($runs)*] $then $arguments $lock $trait [$($promise)*] })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! runs {
    ($runner:ident [] $($then:tt)*) => {};
    (bench [bench $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (torture [torture $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (native [native $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (native [everywhere $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (scripted [scripted $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (scripted [everywhere $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (simulated [simulated $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (simulated [everywhere $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (shuttle [shuttle $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (shuttle [everywhere $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (seeds [seeds $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (swept [swept $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (models [models $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (brief [brief $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    (lending [lending $($_:ident)*] $($then:tt)*) => { $crate::expand! { $($then)* } };
    ($runner:ident [$other:ident $($runs:ident)*] $($then:tt)*) => { $crate::runs! { $runner [$($runs)*] $($then)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! expand {
    ([$($then:tt)*] $($words:tt)*) => { $($then)*! { $($words)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! define {
    (() $($lock:ident: $trait:ident $type:ty, [$($promise:ident)*], [$($runs:ident)*], $entry:expr;)*) => {
        /// The type of each line of the list, on the platform `P`.
        #[allow(non_camel_case_types)]
        pub mod types {
            use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
            use lockyard::history::rwsem::{KernelRwSem, policy as rwsem};
            use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
            use lockyard::lockref::LockRef;
            use lockyard::mutex::RawMutex;
            use lockyard::qrwlock::RawQRwLock;
            use lockyard::rtmutex::{RawRtMutex, policy as pi};
            use lockyard::rtmutex_tree::{RawTreeRtMutex, policy as rt};
            use lockyard::rwsem::RawRwSem;
            use lockyard::rwsem::apart::{self, RawApartRwSem};
            use lockyard::semaphore::RawSemaphore;
            use lockyard::spin::cna::RawCnaSpinLock;
            use lockyard::spin::hq::RawHqSpinLock;
            use lockyard::spin::mcs::RawMcsLock;
            use lockyard::spin::qspinlock::RawQSpinLock;
            use lockyard::spin::ticket::RawTicketLock;
            use lockyard::spin::ttas::RawTtasLock;

            use $crate::adapters::embedded::{Detached, Monitor, Spinning};
            use $crate::adapters::hashed::HashedMutex;
            use $crate::adapters::{Binary, Bundle, EagerHq, Restless};

            $(#[doc = concat!("`", stringify!($type), "`")]
            pub type $lock<P> = $type;)*
        }

        /// The entry of each line of the list.
        #[allow(non_upper_case_globals)]
        pub mod entries {
            use lockyard::history::qrwlock::policy::{self as qrw, Policy as _};
            use lockyard::history::rwsem::policy::{self as rwsem, Policy as _};
            use lockyard::history::semaphore::{DirectHandoff, Opportunistic2008, Policy as _};
            use lockyard::rtmutex::policy::{self as pi, Policy as _};
            use lockyard::rtmutex_tree::policy::{self as rt, Policy as _};

            use super::*;

            $(#[doc = concat!("Of [`", stringify!($lock), "`](super::types::", stringify!($lock), ").")]
            pub const $lock: Entry = $entry.promising(&[$(stringify!($promise)),*]);)*
        }

        /// The promises of all lines.
        #[cfg(test)]
        const PROMISES: &[&str] = &[$($(stringify!($promise),)*)*];

        /// The runners of all lines.
        #[cfg(test)]
        const RUNS: &[&str] = &[$($(stringify!($runs)),*),*];
    };
}

rows! { define () }

#[cfg(test)]
mod tests {
    use super::entries;

    macro_rules! entry {
        (($list:ident) $lock:ident $trait:ident $promises:tt) => {
            $list.extend([entries::$lock])
        };
    }

    #[test]
    fn every_policy_is_listed_and_the_default_comes_first() {
        let mut all = Vec::new();
        locks!(bench => entry (all));
        locks!(lending => entry (all));
        let listed = |name| {
            let of_lock = all.iter().filter(move |entry| entry.name == name);
            of_lock.filter_map(|entry| entry.policy).collect::<Vec<_>>()
        };
        let sorted = |names: &[&'static str]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        use lockyard::{history, rtmutex, rtmutex_tree};
        assert_eq!(listed("rwsem")[0], "today");
        assert_eq!(sorted(&listed("rwsem")[1..]), sorted(history::rwsem::policy::NAMES));
        assert_eq!(listed("rtmutex-tree"), rtmutex_tree::policy::NAMES);
        assert_eq!(listed("qrwlock"), [&["today"], history::qrwlock::policy::NAMES].concat());
        assert_eq!(listed("semaphore"), [&["opportunistic-safe"], history::semaphore::NAMES].concat());
        assert_eq!(listed("pi-mutex"), rtmutex::policy::POLICIES);
    }

    #[test]
    fn what_is_measured_is_tortured() {
        let (mut measured, mut tortured) = (Vec::new(), Vec::new());
        locks!(bench => entry (measured));
        locks!(torture => entry (tortured));
        for entry in measured {
            assert!(tortured.iter().any(|other| other.label() == entry.label()), "{}", entry.label());
        }
    }

    /// A runner that no macro knows would leave a lock out, and say nothing.
    #[test]
    fn every_runner_is_known() {
        let known = include_str!("list.rs").split("\n    (").filter_map(|arm| arm.split_once(" [")).map(|arm| arm.0);
        let known: Vec<&str> = known.chain(["everywhere"]).collect();
        let unknown: Vec<_> = super::RUNS.iter().filter(|word| !known.contains(word)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    /// A promise that nothing reads would not be kept to.
    #[test]
    fn every_promise_is_known() {
        let known = ["churn", "fair", "fair_shared"];
        let unknown: Vec<_> = super::PROMISES.iter().filter(|word| !known.contains(word)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
