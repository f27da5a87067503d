//! What threads can be made to do: the workloads, and how reads and writes mix in them.

use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! workloads {
    ($($name:ident = $text:literal: $what:literal,)*) => {
        /// What the threads do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Workload {
            $(#[doc = $what] $name,)*
        }

        impl Workload {
            /// All workloads, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name that users write.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            /// What it is, in one line.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$name => $what),* }
            }
        }
    };
}

workloads! {
    Uncontended = "uncontended": "one thread locks and unlocks an idle lock, a second one sleeps",
    Contend = "contend": "lock, section, unlock, think",
    RwsemMicro = "rwsem-micro": "the kernel's rwsem microbenchmark: no think time, reads and writes mixed, begun with everybody asleep",
    QrwLoop = "qrw-loop": "the qrwlock test: empty sections, five reads to a write",
    TortureSpin = "torture-spin": "locktorture's spinlock writers, steady setting, pinned",
    TortureSpin2021 = "torture-spin-2021": "torture-spin as it was up to 2021: 2 µs in the section a hundred times as often",
    BklAim7 = "bkl-aim7": "AIM7 tasks on one big lock that is dropped around sleeps",
    Pf1Model = "pf1-model": "page faults under one lock: short reads, rare long writes",
    LockrefModel = "lockref-model": "requests for one file: every one takes and gives up two references to one object",
    KvModel = "kv-model": "memcached: as many sets as gets, under key and LRU locks",
    FutexHash = "futex-hash": "perf bench futex hash: waits on words with another value; the lock is the buckets'",
    PiStress = "pi-stress": "groups of three FIFO threads on one CPU each: high inherits through low past middle; threads = 3 × groups",
    BootModel = "boot-model": "services starting on all CPUs: every mapping of a file writes under the file's lock",
    BuildModel = "build-model": "a parallel build: thousands of locks, most of them idle",
    PiCross = "pi-cross": "fixed priorities, owner and waiter on different CPUs: low and high lock, medium interferes",
    PiInversion = "pi-inversion": "fixed priorities on one CPU: high waits for a chain of threads - 2 owners, medium is ready to run",
    StarveWriters = "starve-writers": "overlapping sleeping readers against one writer",
    StarveReaders = "starve-readers": "looping sleeping writers against one reader",
    Replay = "replay": "a program's model: a file's name in place of this one; by this name an example, one mutex",
}

impl Workload {
    /// Whether it takes locks for reading, whatever the share asked for.
    pub const fn needs_shared(self) -> bool {
        matches!(
            self,
            Self::RwsemMicro
                | Self::QrwLoop
                | Self::Pf1Model
                | Self::BootModel
                | Self::BuildModel
                | Self::StarveWriters
                | Self::StarveReaders
        )
    }

    /// Whether its threads have fixed priorities: it takes the right to set them. A lock that spins
    /// without end would never let go there.
    pub const fn needs_priorities(self) -> bool {
        matches!(self, Self::PiStress | Self::PiCross | Self::PiInversion)
    }

    /// Whether it counts jobs, and can be given a number of them.
    pub const fn has_jobs(self) -> bool {
        matches!(self, Self::BklAim7)
    }

    /// Whether a thread does nothing but lock, section, unlock, think: then its sections can touch
    /// data ([`Spec::lines`](crate::Spec::lines)), and its thinking can be drawn
    /// ([`Spec::think_shape`](crate::Spec::think_shape)).
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Contend | Self::RwsemMicro)
    }

    /// Whether its threads are readers or writers for life, by [`Spec::mix`](crate::Spec::mix) or
    /// always.
    pub const fn has_roles(self, mix: Mix) -> bool {
        match self {
            Self::StarveWriters | Self::StarveReaders => true,
            Self::RwsemMicro | Self::Contend => matches!(mix, Mix::Roles),
            _ => false,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// How reads and writes are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Each operation draws: a read with probability [`Spec::read_pct`](crate::Spec::read_pct).
    Random,
    /// Each thread alternates strictly; odd threads begin with a write.
    Alternate,
    /// Each thread is a reader or a writer for life, see [`Spec::readers`](crate::Spec::readers)
    /// and [`Spec::writers`](crate::Spec::writers).
    Roles,
}

/// How the times between two sections of a thread are spread around their mean,
/// [`Spec::think`](crate::Spec::think).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkShape {
    /// Each is the mean.
    Fixed,
    /// Drawn from the exponential distribution, in 256 steps: the longest is 6.5 times the mean.
    Exponential,
}

impl ThinkShape {
    /// The name, as in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Exponential => "exponential",
        }
    }
}
