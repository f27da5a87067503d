//! The locks that can be tortured: Lockyard's, by the names that `lockyard list locks` shows; forms
//! that only tests know; and broken ones, which torture must find wanting.

use lockyard::platform::linux::Linux;
use lockyard::platform::pi::PiPlatform;
use lockyard_catalog::entry::{self, Absent};
use lockyard_catalog::{entries, types};
use lockyard_check::broken;
use lockyard_sim::Sim;
use lockyard_sim::faults::Fault;

use crate::ground::Ground;
use crate::subject::{self, Subject, count, lock, shared, timed};

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
        [listed(), broken(), lending()].concat()
    }
}

impl Locks for Sim {
    fn locks() -> Vec<Entry<Self>> {
        [listed(), broken()].concat()
    }
}

impl<P: Ground> Clone for Entry<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Ground> Copy for Entry<P> {}

impl<P: Ground> Entry<P> {
    /// A lock of the list.
    fn listed(entry: &entry::Entry, make: fn() -> Box<dyn Subject<P>>) -> Self {
        Self {
            policy: entry.policy,
            bounded: entry.is_bounded(),
            passes: entry.passes,
            frees: entry.frees,
            defect: entry.defect.map_or(Defect::None, Defect::Known),
            spared: match entry.absent {
                Absent::Passed => &[],
                Absent::Told if P::CALLS_BACK => &[],
                Absent::Told | Absent::Counted => &[Fault::Fork],
                Absent::Kept => &[Fault::Stop, Fault::Fork],
            },
            ..Self::planted(entry.name, make, &[])
        }
    }

    /// A lock that is broken on purpose: torture must find this.
    fn planted(name: &'static str, make: fn() -> Box<dyn Subject<P>>, findings: &'static [Finding]) -> Self {
        Self {
            name,
            policy: None,
            make,
            bounded: false,
            passes: 0,
            frees: false,
            defect: Defect::Planted(findings),
            simulated_only: false,
            spared: &[],
        }
    }

    /// With a bound on bypass.
    fn bounded(mut self) -> Self {
        self.bounded = true;
        self
    }

    /// To be freed by the next owner.
    fn frees(mut self) -> Self {
        self.frees = true;
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

macro_rules! entry {
    (($ground:ty, $list:ident) $lock:ident $trait:ident $promises:tt) => {
        $list.extend([Entry::listed(&entries::$lock, subject::$trait::<$ground, types::$lock<$ground>>)])
    };
}

/// Lockyard's locks: on other grounds than these, [`Locks::locks`].
fn listed<P: Ground>() -> Vec<Entry<P>> {
    let mut list = Vec::new();
    lockyard_catalog::locks!(torture => entry (P, list));
    list
}

/// The locks that need a kernel which lends priorities: no simulated machine has one.
fn lending<P: Ground + PiPlatform>() -> Vec<Entry<P>> {
    let mut list = Vec::new();
    lockyard_catalog::locks!(lending => entry (P, list));
    list
}

/// Locks that are broken on purpose, and one that is not.
fn broken<P: Ground>() -> Vec<Entry<P>> {
    use Finding::{Check, Gone, Hang, Kept, Race, Spinning, Starvation};
    vec![
        Entry::planted("broken-nothing", lock::<P, broken::Nothing<P>>, &[Check]),
        Entry::planted("broken-wakeups", lock::<P, broken::LosesWakeups<P>>, &[Hang]),
        Entry::planted("broken-try", timed::<P, broken::TryTraces<P>>, &[Check]),
        Entry::planted("broken-patience", timed::<P, broken::Impatient<P>>, &[Check]),
        Entry::planted("broken-timeout", timed::<P, broken::KeepsOnTimeout<P>>, &[Hang, Check]),
        Entry::planted("broken-cancel", timed::<P, broken::DeafToTokens<P>>, &[Check]),
        Entry::planted("broken-readers", shared::<P, broken::LeakyReaders<P>>, &[Check, Race]),
        Entry::planted("broken-fairness", lock::<P, broken::BargersFirst<P>>, &[Starvation]).bounded(),
        Entry::planted("broken-preference", shared::<P, broken::ReadersFirst<P>>, &[Starvation]).bounded(),
        Entry::planted("broken-units", count::<P, broken::LosesUnits<P>>, &[Hang, Check]),
        Entry::planted("broken-release", lock::<P, broken::LateTouch<P>>, &[Gone]).frees().simulated_only(),
        Entry::planted("broken-waiter", lock::<P, broken::StaleWaiter<P>>, &[Gone]).simulated_only(),
        Entry::planted("broken-reservation", lock::<P, broken::Keeps<P>>, &[Kept, Hang]),
        Entry::planted("broken-acquire", lock::<P, broken::RelaxedLock<P>>, &[Race]).simulated_only(),
        Entry::planted("broken-unlock", lock::<P, broken::RelaxedUnlock<P>>, &[Race]).simulated_only(),
        Entry::planted("broken-spin", lock::<P, broken::SpinsForEver<P>>, &[Spinning]).simulated_only(),
        Entry {
            defect: Defect::Known("the control: nothing is wrong with it"),
            ..Entry::planted("sound", timed::<P, broken::Sound<P>>, &[]).bounded()
        },
    ]
}
