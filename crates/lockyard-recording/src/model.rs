//! A program as its locks see it.
//!
//! ```toml
//! [lock.CACHE]
//! kind = "rwlock"          # mutex (the default), rwlock, spin, semaphore
//! objects = 16             # locks of this class; each acquisition draws one
//!
//! [[role]]
//! name = "worker"
//! cpu = "2us"              # CPU time of an operation outside of its locks
//! takes = [{ lock = "CACHE", hold = "60ns", count = 5, reads = 80 }]
//! ```
//!
//! | table | field | meaning | default |
//! |---|---|---|---|
//! | `lock.NAME` | `kind` | the lock that the program has | `"mutex"` |
//! | | `units` | threads that may have a semaphore at once | 1 |
//! | | `objects` | locks of this class, 1 to 65536 | 1 |
//! | | `popularity` | exponent of Zipf's distribution over them, or a list of weights | 0: even |
//! | | `private` | each thread has objects of its own | false |
//! | | `lines` | cache lines that a section touches: a number, or the ends of a range | `[1, 4]` |
//! | `queue.NAME` | `start` | units at the beginning | 0 |
//! | | `condition` | threads wait at a condition variable | false |
//! | `role` | `name` | what reports call it | `role1` … |
//! | | `threads` | share of the threads, in proportion to the other roles' | 1 |
//! | | `cpu` | CPU time of an operation outside of its locks | required |
//! | | `wait` | time off the CPU in an operation, outside of its locks | `"0ns"` |
//! | | `gets` | the units that an operation waits for, before all else | none |
//! | | `takes` | the locks that an operation takes, in order | none |
//! | | `puts` | the units that an operation signals, after its last section | none |
//! | | `early` | percentage of `cpu` that comes before the puts | 100 |
//! | `takes` | `lock` | whose class | required |
//! | | `hold` | CPU time of a section, without what is nested in it | required |
//! | | `count` | acquisitions in an operation; a fraction is a probability | 1 |
//! | | `reads` | percentage of them that only read; rwlocks only | 0 |
//! | | `tries` | percentage that do without the lock if it is taken, and go on | 0 |
//! | | `sleep` | time off the CPU in a section | `"0ns"` |
//! | | `sleeps` | percentage of the sections in which that is so | 100 |
//! | | `within` | taken in the middle of the last take of that class | |
//!
//! | `gets` | `queue` | of which queue | required |
//! | | `count` | units in an operation | 1 |
//! | | `lasts` | time of the wait if all threads would wait | `"1ms"` |
//! | `puts` | `queue`, `count` | likewise | |
//! | | `all` | as many units as threads wait at that moment, no one if none does | false |
//!
//! A *queue* is how threads wait for each other: a semaphore, or what a condition variable stands
//! for.
//!
//! A time is a text with its unit; a list of times is drawn from, each as likely as another. One
//! value of `cpu` is drawn evenly from its half to one and a half: threads of a real program do not
//! march in step.
//!
//! Classes nest in one order only: a model in which A is taken within B and B within A, or A within
//! A, is refused, because a replay of it may deadlock.

use crate::error::Error;
use crate::time::Times;

pub mod change;
mod file;
mod queue;
mod write;

pub use change::Change;
pub use queue::{Get, MOST_START, Put, Queue};

/// The most objects of one class.
pub const MOST_OBJECTS: u32 = 65_536;
/// The most cache lines that a section may touch.
pub const MOST_LINES: u32 = 64;
/// The most acquisitions of one take in an operation.
pub const MOST_COUNT: f64 = 1_000.0;
/// The most classes, roles, and takes of a role.
pub const MOST_PARTS: usize = 256;

/// What kind of lock the program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A mutex that sleeps.
    Mutex,
    /// Readers and writers.
    RwLock,
    /// A spinlock.
    Spin,
    /// A semaphore whose units come back from the threads that took them.
    Semaphore,
}

impl Kind {
    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Spin => "spin",
            Self::Semaphore => "semaphore",
        }
    }
}

/// Which of a class's objects are wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum Popularity {
    /// The k-th in proportion to 1 / k^exponent.
    Zipf(f64),
    /// In proportion to these.
    Weights(Vec<f64>),
}

/// A class of locks.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// What the program has there.
    pub kind: Kind,
    /// How many threads may be in its sections at once; 1 but for semaphores.
    pub units: u32,
    /// How many there are.
    pub objects: u32,
    /// Which of them are wanted.
    pub popularity: Popularity,
    /// Whether each thread has its own.
    pub private: bool,
    /// Cache lines that a section touches: the least and the most. Sections of a semaphore run side
    /// by side, and touch none that they share.
    pub lines: (u32, u32),
}

impl Lock {
    /// One mutex.
    pub fn new(name: impl Into<String>) -> Self {
        let popularity = Popularity::Zipf(0.0);
        Self { name: name.into(), kind: Kind::Mutex, units: 1, objects: 1, popularity, private: false, lines: (1, 4) }
    }

    /// The geometric middle of [`Lock::lines`].
    pub fn middle_lines(&self) -> u32 {
        let (least, most) = self.lines;
        (f64::from(least) * f64::from(most)).sqrt().round() as u32
    }

    /// The weight of each object.
    pub fn weights(&self) -> Vec<f64> {
        match &self.popularity {
            Popularity::Weights(weights) => weights.clone(),
            Popularity::Zipf(exponent) => (1..=self.objects).map(|rank| f64::from(rank).powf(-exponent)).collect(),
        }
    }

    /// The share of the acquisitions that the most popular object has.
    pub fn hottest_share(&self) -> f64 {
        let weights = self.weights();
        weights.iter().copied().fold(0.0, f64::max) / weights.iter().sum::<f64>()
    }
}

/// A lock that an operation takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Take {
    /// The number of its class in [`Model::locks`].
    pub lock: usize,
    /// CPU time of a section.
    pub hold: Times,
    /// Acquisitions in an operation.
    pub count: f64,
    /// Percentage of them that only read.
    pub reads: f64,
    /// Percentage of them that do without the lock, and the section, if it is taken.
    pub tries: f64,
    /// Time off the CPU in a section that sleeps.
    pub sleep: Times,
    /// Percentage of the sections that do.
    pub sleeps: f64,
    /// The number of the take, of the same role, in whose section it happens.
    pub within: Option<usize>,
    /// Percentage of the role's CPU time that comes before its acquisitions; of one that is in no
    /// other's section. `None` of all of these: as much before, between and behind each.
    pub before: Option<f64>,
}

impl Take {
    /// The mean time of a section on the CPU and off it, without what is nested in it.
    pub fn section_ns(&self) -> f64 {
        self.hold.mean() + self.sleep.mean() * self.sleeps / 100.0
    }
}

/// Threads that do the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    /// What reports call it.
    pub name: String,
    /// Its share of the threads, in proportion.
    pub threads: f64,
    /// CPU time of an operation outside of its locks.
    pub cpu: Times,
    /// Time off the CPU in an operation outside of its locks.
    pub wait: Times,
    /// What it waits for.
    pub gets: Vec<Get>,
    /// What it takes, in order.
    pub takes: Vec<Take>,
    /// What it signals.
    pub puts: Vec<Put>,
    /// Percentage of its CPU time, outside of its locks, that comes before that.
    pub early: f64,
    /// Whether its operations are those that rates are of.
    pub counted: bool,
}

impl Role {
    /// How often the take of that number happens in an operation.
    pub fn times(&self, take: usize) -> f64 {
        let take = &self.takes[take];
        take.count * take.within.map_or(1.0, |outer| self.times(outer))
    }

    /// CPU time of the section of a take and of those that are nested in it, in the mean, ns.
    pub fn section_ns(&self, take: usize) -> f64 {
        let nested = (0..self.takes.len()).filter(|inner| self.takes[*inner].within == Some(take));
        let nested = nested.map(|inner| self.takes[inner].count * self.section_ns(inner));
        self.takes[take].hold.mean() + nested.sum::<f64>()
    }

    /// Time of an operation, ns, nobody waiting: [`operation_ns`](Self::operation_ns), and time off
    /// the CPU in its sections.
    pub fn lasts_ns(&self) -> f64 {
        let sections = (0..self.takes.len()).map(|take| self.times(take) * self.takes[take].section_ns());
        self.cpu.mean() + sections.sum::<f64>()
    }

    /// CPU time of an operation, ns: outside of its locks and in them, nobody waiting.
    pub fn operation_ns(&self) -> f64 {
        let sections = (0..self.takes.len()).map(|take| self.times(take) * self.takes[take].hold.mean());
        self.cpu.mean() + sections.sum::<f64>()
    }
}

/// A program as its locks see it.
///
/// ```
/// use lockyard_recording::Model;
///
/// let model = Model::read(
///     "app.toml",
///     r#"
///     [lock.CACHE]
///     [[role]]
///     cpu = "2us"
///     takes = [{ lock = "CACHE", hold = "60ns", count = 5 }]
///     "#,
/// )?;
/// assert_eq!((model.locks.len(), model.roles[0].operation_ns()), (1, 2_300.0));
/// assert!(Model::read("app.toml", "[[role]]\ncpu = 3\n").is_err());
/// # Ok::<(), lockyard_recording::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The classes of locks, by name.
    pub locks: Vec<Lock>,
    /// The queues, by name.
    pub queues: Vec<Queue>,
    /// The roles, in the order of the file.
    pub roles: Vec<Role>,
}

impl Model {
    /// The model that `text` says; `file` is what complaints call it.
    ///
    /// # Errors
    /// One line: the file, the line, the reason.
    pub fn read(file: &str, text: &str) -> Result<Self, Error> {
        file::read(file, text)
    }

    /// The number of the class called `name`.
    pub fn lock(&self, name: &str) -> Option<usize> {
        self.locks.iter().position(|lock| lock.name == name)
    }

    /// Whether anybody takes locks of the class `lock` for reading.
    pub fn is_read(&self, lock: usize) -> bool {
        self.roles.iter().flat_map(|role| &role.takes).any(|take| take.lock == lock && take.reads > 0.0)
    }

    /// How many of `threads` threads each role has: by largest remainder, so that the shares are
    /// kept, the first role first among equals.
    pub fn crew(&self, threads: usize) -> Vec<usize> {
        let sum: f64 = self.roles.iter().map(|role| role.threads).sum();
        let exact: Vec<f64> = self.roles.iter().map(|role| role.threads / sum * threads as f64).collect();
        let mut crew: Vec<usize> = exact.iter().map(|share| *share as usize).collect();
        let mut order: Vec<usize> = (0..crew.len()).collect();
        order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
        let left = threads - crew.iter().sum::<usize>().min(threads);
        order.into_iter().cycle().take(left).for_each(|role| crew[role] += 1);
        crew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(shares: &[f64]) -> Model {
        let role = |&threads: &f64| Role {
            name: String::new(),
            threads,
            cpu: Times::one(1),
            wait: Times::default(),
            gets: Vec::new(),
            takes: Vec::new(),
            puts: Vec::new(),
            early: 100.0,
            counted: true,
        };
        Model { locks: Vec::new(), queues: Vec::new(), roles: shares.iter().map(role).collect() }
    }

    #[test]
    fn crews_keep_shares() {
        assert_eq!(shares(&[1.0, 1.0]).crew(8), [4, 4]);
        assert_eq!(shares(&[1.0, 3.0]).crew(8), [2, 6]);
        assert_eq!(shares(&[1.0, 3.0]).crew(1), [0, 1]);
        assert_eq!(shares(&[0.1, 0.1, 0.1]).crew(7).iter().sum::<usize>(), 7);
    }

    #[test]
    fn the_hottest_of_a_class() {
        let even = Lock { objects: 8, ..Lock::new("A") };
        assert!((even.hottest_share() - 0.125).abs() < 1e-12);
        let skewed = Lock { objects: 2, popularity: Popularity::Zipf(1.0), ..Lock::new("A") };
        assert!((skewed.hottest_share() - 2.0 / 3.0).abs() < 1e-12);
        let weighed = Lock { objects: 3, popularity: Popularity::Weights(vec![1.0, 2.0, 1.0]), ..Lock::new("A") };
        assert!((weighed.hottest_share() - 0.5).abs() < 1e-12);
    }
}
