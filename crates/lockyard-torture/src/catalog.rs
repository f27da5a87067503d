//! The locks that can be tortured: Lockyard's, by the names that `lockyard list locks` shows, and
//! broken ones, which torture must find wanting.
//!
//! A new lock is one line in `entries`.

use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::rwsem::{KernelRwSem, policy as rwsem};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::platform::pi::PiPlatform;
use lockyard::qrwlock::RawQRwLock;
use lockyard::read_mostly::{self, RawReadMostlyRwSem};
use lockyard::rtmutex::{RawRtMutex, policy as pi};
use lockyard::rtmutex_tree::{RawTreeRtMutex, policy as rt};
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::broken;
use lockyard_check::cases::parking::HashedMutex;
use lockyard_sim::Sim;
use lockyard_sim::faults::Fault;

use crate::ground::Ground;
use crate::subject::{Subject, counted, plain, shared, shared_timed, timed, units};

/// Why a lock is not tortured unless it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// None: it is.
    None,
    /// A policy kept for study with a bug that its original had.
    Known(&'static str),
    /// Broken on purpose: torture must find this.
    Planted(&'static [Finding]),
}

/// What torture can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A check failed: exclusion, overlap, a wait that ended wrongly, something left behind.
    Check,
    /// Everybody waits, nobody will be woken.
    Hang,
    /// Somebody waits while others pass again and again.
    Starvation,
    /// Freed memory or a frame that has returned was touched.
    Gone,
    /// Protected data was touched by two threads that nothing orders: an ordering is missing.
    Race,
    /// A waiter burnt its CPU for a holder that did not run.
    Spinning,
    /// The run did not end within what it may cost.
    Endless,
    /// A lock was free, and kept for a waiter that did not come.
    Kept,
}

impl Finding {
    /// The finding in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Check => "a check failed",
            Self::Hang => "hang: a wake-up was lost, or a lock never released",
            Self::Starvation => "starvation",
            Self::Gone => "memory touched that was gone",
            Self::Race => "an ordering is missing",
            Self::Spinning => "spinning for a thread that does not run",
            Self::Endless => "no end in sight",
            Self::Kept => "a free lock kept for a waiter that does not come",
        }
    }
}

/// A lock that can be tortured.
#[derive(Debug)]
pub struct Entry<P: Ground> {
    /// Its name.
    pub name: &'static str,
    /// Its policy, if it has several.
    pub policy: Option<&'static str>,
    /// Makes one.
    pub make: fn() -> Box<dyn Subject<P>>,
    /// It has a bound on bypass: starvation is a failure.
    pub bounded: bool,
    /// How often others may get it first by right, besides the time that the bound gives them.
    pub passes: u64,
    /// It may be freed by the next owner; the others when every call has returned.
    pub frees: bool,
    /// What is wrong with it.
    pub defect: Defect,
    /// It must not be tortured natively: what it does to memory would be real.
    pub simulated_only: bool,
    /// Faults that it does not stand, and does not promise to: they are left out unless asked for.
    pub spared: &'static [Fault],
}

/// A ground with its locks.
pub trait Locks: Ground {
    /// Every lock on this ground. Compiled here, once: each caller of the generic list would
    /// compile all locks again.
    fn locks() -> Vec<Entry<Self>>;
}

impl Locks for Linux {
    fn locks() -> Vec<Entry<Self>> {
        let mut locks = entries();
        locks.extend(lending());
        locks
    }
}

impl Locks for Sim {
    fn locks() -> Vec<Entry<Self>> {
        entries()
    }
}

impl<P: Ground> Clone for Entry<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Ground> Copy for Entry<P> {}

impl<P: Ground> Entry<P> {
    fn new(name: &'static str, policy: Option<&'static str>, make: fn() -> Box<dyn Subject<P>>) -> Self {
        Self {
            name,
            policy,
            make,
            bounded: false,
            passes: 0,
            frees: false,
            defect: Defect::None,
            simulated_only: false,
            spared: &[],
        }
    }

    /// With a bound on bypass.
    fn bounded(mut self) -> Self {
        self.bounded = true;
        self
    }

    /// A lane's quota of hand-overs for each lane that may be ahead: four lanes on the machines
    /// that are used most.
    fn hierarchical(mut self) -> Self {
        self.passes = 3 * 1_001;
        self.bounded()
    }

    /// To be freed by the next owner.
    fn frees(mut self) -> Self {
        self.frees = true;
        self
    }

    fn known(mut self, why: &'static str) -> Self {
        self.defect = Defect::Known(why);
        self
    }

    fn planted(mut self, finding: &'static [Finding]) -> Self {
        self.defect = Defect::Planted(finding);
        self
    }

    /// It does not stand `faults`.
    fn spared(mut self, faults: &'static [Fault]) -> Self {
        self.spared = faults;
        self
    }

    fn simulated_only(mut self) -> Self {
        self.simulated_only = true;
        self
    }

    /// The name, with the policy behind a colon: `rwsem:today`.
    pub fn label(&self) -> String {
        self.policy.map_or_else(|| self.name.to_owned(), |policy| format!("{}:{policy}", self.name))
    }
}

/// Queued rwlocks, and the rwsems of the kernel's policies, hand over to the first waiter, whether
/// or not that one comes.
const KEEPS_ITS_WAITERS: &[Fault] = &[Fault::Stop, Fault::Fork];
/// A wake-up that a futex hash gives to a stopped thread, or to one of the parent, is spent, as its
/// page says: the mutex that is built on it here then wakes nobody else.
const GHOSTS_WAIT: &[Fault] = &[Fault::Stop, Fault::Fork];
/// A reader that a fork leaves between its addition and its taking that back stays counted in the
/// child, as the pages say.
const GHOSTS_ARE_COUNTED: &[Fault] = &[Fault::Fork];

/// Only the machine's fork handler can call the numbers of ghosts back.
fn ticket<P: Ground>(entry: Entry<P>) -> Entry<P> {
    entry.bounded().frees().spared(if P::CALLS_BACK { &[] } else { &[Fault::Fork] })
}

/// All threads have one priority here: what differs between priorities is the business of
/// `cargo xtask explore priorities`.
fn rtmutex_tree<P: Ground, Y: rt::Policy>() -> Entry<P> {
    Entry::new("rtmutex-tree", Some(Y::NAME), timed::<P, RawTreeRtMutex<P, Y>>).bounded().frees()
}

fn rwsem<P: Ground, Y: rwsem::Policy>() -> Entry<P> {
    let entry = Entry::new("rwsem", Some(Y::NAME), shared_timed::<P, KernelRwSem<P, Y>>);
    entry.spared(KEEPS_ITS_WAITERS)
}

fn read_mostly<P: Ground, Y: read_mostly::Policy>() -> Entry<P> {
    let entry = Entry::new("read-mostly", Some(Y::NAME), shared_timed::<P, RawReadMostlyRwSem<P, Y>>);
    entry.spared(GHOSTS_ARE_COUNTED).bounded()
}

fn qrwlock<P: Ground, Y: qrw::Policy>() -> Entry<P> {
    Entry::new("qrwlock", Some(Y::NAME), shared::<P, KernelQRwLock<P, Y>>).spared(KEEPS_ITS_WAITERS)
}

fn rtmutex<P: Ground + PiPlatform, S: pi::Policy>() -> Entry<P> {
    Entry::new("pi-mutex", Some(S::NAME), timed::<P, RawRtMutex<P, S>>).bounded()
}

/// The locks that need a kernel which lends priorities: no simulated machine has one.
fn lending<P: Ground + PiPlatform>() -> Vec<Entry<P>> {
    vec![
        rtmutex::<P, pi::Lateral>(),
        rtmutex::<P, pi::Merged>(),
        rtmutex::<P, pi::Published>(),
        rtmutex::<P, pi::Off>(),
    ]
}

/// Every other lock on the ground `P`: outside, [`Ground::locks`].
fn entries<P: Ground>() -> Vec<Entry<P>> {
    const HANGS: &str = "known to hang, as it did in the kernel";
    const LITERAL: &str = "literal form of a known bug";
    const LOSES: &str = "loses wake-ups, as it did in the kernel";
    vec![
        Entry::new("mutex", None, timed::<P, RawMutex<P>>).bounded(),
        rtmutex_tree::<P, rt::Today>(),
        rtmutex_tree::<P, rt::Published2016>(),
        rtmutex_tree::<P, rt::NoSpin>(),
        rtmutex_tree::<P, rt::Strict>(),
        Entry::new("qspinlock", None, plain::<P, RawQSpinLock<P>>).bounded().frees(),
        // With settings that make it queue by node at once; as it is set usually it is a qspinlock
        // in most runs.
        Entry::new("hq-spinlock", None, plain::<P, EagerHq<P>>).hierarchical().frees(),
        Entry::new("cna", None, plain::<P, RawCnaSpinLock<P>>).bounded().frees(),
        Entry::new("mcs", None, plain::<P, RawMcsLock<P>>).bounded().frees(),
        ticket(Entry::new("ticket", None, plain::<P, RawTicketLock<P>>)),
        Entry::new("ttas", None, plain::<P, RawTtasLock<P>>).frees(),
        Entry::new("lockref", Some("qspinlock"), counted::<P, LockRef<P>>).bounded().frees(),
        Entry::new("lockref", Some("hq-spinlock"), counted::<P, LockRef<P, RawHqSpinLock<P>>>).hierarchical().frees(),
        Entry::new("lockref", Some("cna"), counted::<P, LockRef<P, RawCnaSpinLock<P>>>).bounded().frees(),
        Entry::new("lockref", Some("mcs"), counted::<P, LockRef<P, RawMcsLock<P>>>).bounded().frees(),
        ticket(Entry::new("lockref", Some("ticket"), counted::<P, LockRef<P, RawTicketLock<P>>>)),
        Entry::new("lockref", Some("ttas"), counted::<P, LockRef<P, RawTtasLock<P>>>).frees(),
        Entry::new("rwsem", Some("today"), shared_timed::<P, RawRwSem<P>>).spared(GHOSTS_ARE_COUNTED).bounded(),
        rwsem::<P, rwsem::TodayKernel>(),
        rwsem::<P, rwsem::V5_16>().known(HANGS),
        rwsem::<P, rwsem::NoRspin>(),
        rwsem::<P, rwsem::LimitRspin>(),
        rwsem::<P, rwsem::ReaderStealV2>(),
        rwsem::<P, rwsem::ReaderSteal>(),
        rwsem::<P, rwsem::StarvationGuard>(),
        rwsem::<P, rwsem::V5_10>(),
        rwsem::<P, rwsem::AdaptiveRspin>(),
        rwsem::<P, rwsem::TimedWriterSpin>(),
        rwsem::<P, rwsem::TimedWriterSpinLiteral>().known(LITERAL),
        rwsem::<P, rwsem::ReaderSpinOnWriter>(),
        rwsem::<P, rwsem::WakeAllReaders>(),
        rwsem::<P, rwsem::HandoffImmediate>(),
        rwsem::<P, rwsem::Handoff4ms>(),
        rwsem::<P, rwsem::HandoffNone>(),
        rwsem::<P, rwsem::XaddBaseline>(),
        rwsem::<P, rwsem::XaddBaselineLiteral>().known(LITERAL),
        read_mostly::<P, read_mostly::Adaptive>(),
        read_mostly::<P, read_mostly::Always>(),
        Entry::new("qrwlock", Some("today"), shared_timed::<P, RawQRwLock<P>>)
            .spared(GHOSTS_ARE_COUNTED)
            .bounded()
            .frees(),
        qrwlock::<P, qrw::TodayKernel>().bounded().frees(),
        qrwlock::<P, qrw::FetchAdd>().bounded().frees(),
        qrwlock::<P, qrw::ByteCas>().frees(),
        qrwlock::<P, qrw::WordCas>().frees(),
        Entry::new("semaphore", Some("opportunistic-safe"), units::<P, RawSemaphore<P>>).bounded(),
        Entry::new("semaphore", Some("direct-handoff"), units::<P, KernelSemaphore<P, DirectHandoff>>).bounded(),
        Entry::new("semaphore", Some("opportunistic-2008"), units::<P, KernelSemaphore<P, Opportunistic2008>>)
            .known(LOSES),
        Entry::new("binary-semaphore", None, timed::<P, Binary<RawSemaphore<P>>>).bounded(),
        Entry::new("futex-hash", None, plain::<P, HashedMutex<P, RawQSpinLock<P>>>).spared(GHOSTS_WAIT),
        Entry::new("broken-nothing", None, plain::<P, broken::Nothing<P>>).planted(&[Finding::Check]),
        Entry::new("broken-wakeups", None, plain::<P, broken::LosesWakeups<P>>).planted(&[Finding::Hang]),
        Entry::new("broken-try", None, timed::<P, broken::TryTraces<P>>).planted(&[Finding::Check]),
        Entry::new("broken-patience", None, timed::<P, broken::Impatient<P>>).planted(&[Finding::Check]),
        Entry::new("broken-timeout", None, timed::<P, broken::KeepsOnTimeout<P>>)
            .planted(&[Finding::Hang, Finding::Check]),
        Entry::new("broken-cancel", None, timed::<P, broken::DeafToTokens<P>>).planted(&[Finding::Check]),
        Entry::new("broken-readers", None, shared::<P, broken::LeakyReaders<P>>)
            .planted(&[Finding::Check, Finding::Race]),
        Entry::new("broken-fairness", None, plain::<P, broken::BargersFirst<P>>)
            .bounded()
            .planted(&[Finding::Starvation]),
        Entry::new("broken-preference", None, shared::<P, broken::ReadersFirst<P>>)
            .bounded()
            .planted(&[Finding::Starvation]),
        Entry::new("broken-units", None, units::<P, broken::LosesUnits<P>>).planted(&[Finding::Hang, Finding::Check]),
        Entry::new("broken-release", None, plain::<P, broken::LateTouch<P>>)
            .frees()
            .planted(&[Finding::Gone])
            .simulated_only(),
        Entry::new("broken-waiter", None, plain::<P, broken::StaleWaiter<P>>)
            .planted(&[Finding::Gone])
            .simulated_only(),
        Entry::new("broken-reservation", None, plain::<P, broken::Keeps<P>>).planted(&[Finding::Kept, Finding::Hang]),
        Entry::new("broken-acquire", None, plain::<P, broken::RelaxedLock<P>>)
            .planted(&[Finding::Race])
            .simulated_only(),
        Entry::new("broken-unlock", None, plain::<P, broken::RelaxedUnlock<P>>)
            .planted(&[Finding::Race])
            .simulated_only(),
        Entry::new("broken-spin", None, plain::<P, broken::SpinsForEver<P>>)
            .planted(&[Finding::Spinning])
            .simulated_only(),
        Entry::new("sound", None, timed::<P, broken::Sound<P>>)
            .bounded()
            .known("the control: nothing is wrong with it"),
    ]
}
