//! What is known of a lock on every platform.

/// Locks that can stand in for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Sleeping mutual exclusion with an owner.
    Mutex,
    /// Spinning mutual exclusion.
    Spin,
    /// Readers and writers.
    Rw,
    /// Counting semaphores, used as locks with one unit.
    Semaphore,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 4] = [Self::Mutex, Self::Spin, Self::Rw, Self::Semaphore];

    /// The name, as in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Spin => "spin",
            Self::Rw => "rw",
            Self::Semaphore => "semaphore",
        }
    }
}

/// What becomes of a free lock while a waiter does not come: it is stopped, or was left in the
/// parent by a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Others take the lock.
    Passed,
    /// As `Passed`, in the child of a fork only where the platform tells the lock of such waiters.
    Told,
    /// As `Passed`, but a reader that a fork leaves between its addition and its taking that back
    /// stays counted in the child.
    Counted,
    /// The lock is kept for it, or its wake-up is spent.
    Kept,
}

/// How a model checker lets waiters wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// They only spin.
    Spin,
    /// On two nodes, without timers: they only spin.
    SpinByNode,
    /// On two nodes: they spin for ever, or exactly as long as they must.
    QueueByNode,
    /// They only sleep.
    Sleep,
    /// They spin, or sleep without timers.
    SpinOrSleep,
    /// As `SpinOrSleep`; tries and pairs are explored asleep.
    SleepOrSpin,
    /// As `SleepOrSpin`, and every turn may be over: handoff.
    Handoff,
    /// As `Handoff`, and sleep with or without timers.
    Turns,
    /// As `Turns`, and spin exactly as long as they must.
    Queue,
}

/// What is known of a lock on every platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// Its policy, if it comes in several.
    pub policy: Option<&'static str>,
    /// Which locks it is compared with.
    pub family: Family,
    /// What it is, in one line; of a lock with policies, what the policy is.
    pub about: &'static str,
    /// Comparisons that name no locks leave it out: a baseline, or a lock inside another one.
    pub by_name: bool,
    /// A defect kept for study, if it has one: it runs only when it is asked for.
    pub defect: Option<&'static str>,
    /// It may be freed by the next owner; the others when every call has returned.
    pub frees: bool,
    /// How often others may get it first by right, besides the time that its bound gives them.
    pub passes: u64,
    /// What becomes of it while a waiter does not come.
    pub absent: Absent,
    /// How its waiters wait in a model.
    pub waits: Waits,
    /// What it promises beyond its trait: groups of the conformance suite.
    pub promises: &'static [&'static str],
}

impl Entry {
    /// The name, with the policy behind a colon if there is one: `rwsem:today`.
    pub fn label(&self) -> String {
        self.policy.map_or_else(|| self.name.to_owned(), |policy| format!("{}:{policy}", self.name))
    }

    /// Whether it has a bound on bypass.
    pub fn is_bounded(&self) -> bool {
        self.promises.contains(&"fair")
    }

    pub(crate) const fn new(name: &'static str, family: Family, about: &'static str) -> Self {
        Self {
            name,
            policy: None,
            family,
            about,
            by_name: false,
            defect: None,
            frees: false,
            passes: 0,
            absent: Absent::Passed,
            waits: Waits::SleepOrSpin,
            promises: &[],
        }
    }

    pub(crate) const fn policy(mut self, policy: &'static str) -> Self {
        self.policy = Some(policy);
        self
    }

    pub(crate) const fn by_name(mut self) -> Self {
        self.by_name = true;
        self
    }

    pub(crate) const fn defect(mut self, why: &'static str) -> Self {
        self.defect = Some(why);
        self
    }

    pub(crate) const fn frees(mut self) -> Self {
        self.frees = true;
        self
    }

    /// A lane's quota of hand-overs for each lane that may be ahead: four lanes on the machines
    /// that are used most.
    pub(crate) const fn by_lanes(mut self) -> Self {
        self.passes = 3 * 1_001;
        self
    }

    pub(crate) const fn absent(mut self, absent: Absent) -> Self {
        self.absent = absent;
        self
    }

    pub(crate) const fn waits(mut self, waits: Waits) -> Self {
        self.waits = waits;
        self
    }

    pub(crate) const fn promising(mut self, promises: &'static [&'static str]) -> Self {
        self.promises = promises;
        self
    }
}
