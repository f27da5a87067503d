//! The bugs of others: models of the historical algorithms, each in the form that shipped and in
//! the form that repaired it.
//!
//! A model is a page of the algorithm around the bug, on simulated words. The same exploration
//! (seeds, preemptions at every seam call, late wake-ups, the order of accesses watched) must find
//! the historical form wanting and the repaired one sound: a check that passes both proves nothing.
//! Numbers are those of the project's list of regressions.
//!
//! | file | numbers |
//! |---|---|
//! | `orderings` | 1 to 8: an acquire, a release, an initialisation too late |
//! | `sleepers` | 14, 16, 19, 21, 24 to 26, 28: who is woken, and who is forgotten |
//! | `conditions` | 22, 23, 27, 29: a wake-up that somebody else consumes |
//! | `readers` | 9, 10, 30 to 32: downgrades, upgrades, readers inside readers |
//! | `handoffs` | 11 to 13, 15, 17, 18, 20: state that two parties change, and permission that goes astray |

mod conditions;
mod handoffs;
mod orderings;
mod readers;
mod sleepers;

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::PoisonError;

use lockyard::platform::{Ordering, Platform, Word};
use lockyard_sim::faults::Faults;
use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Error, Sim, Simulation, words};

use crate::quiet::quietly;

/// A model: what its threads share.
trait Model: Default {
    /// How many threads.
    const THREADS: usize;
    /// What thread `me` does.
    fn act(&self, me: usize);
    /// What must hold when all are done.
    fn finish(&self) {}
    /// Words that are protected as plain memory is.
    fn protected(&self) -> Vec<&words::U32> {
        Vec::new()
    }
}

/// What shows that a model is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Two threads at protected data that nothing orders.
    Race,
    /// Somebody waits for ever.
    Hang,
    /// A check failed.
    Check,
}

impl Shown {
    fn of(error: &Error) -> Self {
        match error {
            Error::Race(_) => Self::Race,
            Error::Deadlock(_) | Error::TimeLimit(_) | Error::EventLimit(_) => Self::Hang,
            _ => Self::Check,
        }
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Race => "race on protected data",
            Self::Hang => "hang",
            Self::Check => "failed check",
        }
    }
}

/// A bug of the list.
#[derive(Debug, Clone, Copy)]
pub struct Bug {
    /// Its number.
    pub number: u32,
    /// A name for tests.
    pub name: &'static str,
    /// What it was.
    pub what: &'static str,
    /// What must show it.
    pub shown: Shown,
    /// The form that shipped: the first seed that shows something, and what; none within so many.
    historical: fn(u64) -> Option<(u64, Shown, String)>,
    /// The repaired form.
    repaired: fn(u64) -> Option<(u64, Shown, String)>,
}

macro_rules! bugs {
    ($($number:literal $name:ident $shown:ident $model:ty, $repaired:ty: $what:literal;)*) => {
        &[$(Bug {
            number: $number,
            name: stringify!($name),
            what: $what,
            shown: Shown::$shown,
            historical: explore::<$model>,
            repaired: explore::<$repaired>,
        },)*]
    };
}
use bugs;

/// All of them, by number.
pub fn all() -> Vec<Bug> {
    let mut list = [orderings::BUGS, sleepers::BUGS, conditions::BUGS, readers::BUGS, handoffs::BUGS].concat();
    list.sort_by_key(|bug| bug.number);
    list
}

/// Seeds that are tried at most.
pub const SEEDS: u64 = 400;

impl Bug {
    /// Tries both forms.
    ///
    /// # Errors
    /// Which form did not behave as it must.
    pub fn check(&self) -> Result<u64, String> {
        let Self { number, name, shown, .. } = *self;
        let Some((seed, found, message)) = (self.historical)(SEEDS) else {
            return Err(format!("{number} {name}: nothing shows the bug in {SEEDS} schedules"));
        };
        if found != shown {
            return Err(format!("{number} {name}: shown by {}, not by {}: {message}", found.text(), shown.text()));
        }
        match (self.repaired)(SEEDS) {
            Some((seed, found, message)) => {
                Err(format!("{number} {name}: the repaired form fails with seed {seed}: {}: {message}", found.text()))
            }
            None => Ok(seed),
        }
    }
}

/// A line for each bug: number, kind of evidence, schedules needed. And whether all are as they
/// must be.
pub fn table() -> (String, bool) {
    let mut text = format!("{:>3}  {:<38} {:<24} {:<12} {}\n", "no", "bug", "shown by", "schedules", "what it was");
    let mut sound = true;
    for bug in all() {
        let line = match bug.check() {
            Ok(seed) => {
                format!("{:>3}  {:<38} {:<24} {:<12} {}", bug.number, bug.name, bug.shown.text(), seed + 1, bug.what)
            }
            Err(why) => {
                sound = false;
                format!("FAILED {why}")
            }
        };
        let _ = writeln!(text, "{line}");
    }
    (text, sound)
}

/// Tries the seeds below `seeds` on a model.
fn explore<M: Model + Sync>(seeds: u64) -> Option<(u64, Shown, String)> {
    #[repr(align(128))]
    #[derive(Default)]
    struct Aligned<M>(M);
    let machine = catalog::machine("quad2008").unwrap_or_else(|error| panic!("{error}"));
    (0..seeds).find_map(|seed| {
        let one_in = 3 << (seed % 6);
        let faults = Faults {
            preempt_one_in: if seed == 0 { 0 } else { one_in },
            preempt_ns: 2_000 * one_in,
            delay_one_in: 3,
            delay_ns: 20_000,
            ..Faults::default()
        };
        let config = Config {
            seed,
            faults,
            watch_order: true,
            time_limit_ns: 200_000_000,
            event_limit: 200_000,
            ..Config::new(machine.clone())
        };
        let model = Aligned::<M>::default();
        let simulation = Simulation::new(&config, M::THREADS).unwrap_or_else(|error| panic!("{error}"));
        for word in model.0.protected() {
            simulation.protect(std::ptr::from_ref(word).addr(), size_of::<words::U32>());
        }
        let outcome = quietly(|| {
            simulation.run(|me| model.0.act(me)).and_then(|_| {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.0.finish()))
                    .map_err(|_| Error::Panic("something is left behind".to_owned()))
            })
        });
        outcome.err().map(|error| (seed, Shown::of(&error), error.to_string()))
    })
}

// ---- what models are written with

use Ordering::{Acquire, Relaxed, Release};

/// A word of a model.
type W = words::U32;

fn get(word: &W) -> u32 {
    word.load(Acquire)
}

fn set(word: &W, value: u32) {
    word.store(value, Release);
}

fn swap(word: &W, value: u32) -> u32 {
    word.swap(value, Ordering::AcqRel)
}

/// From `old` to `new`, if it is `old`.
fn cas(word: &W, old: u32, new: u32) -> bool {
    word.compare_exchange(old, new, Ordering::AcqRel, Acquire).is_ok()
}

fn add(word: &W, value: u32) -> u32 {
    word.fetch_add(value, Ordering::AcqRel)
}

fn sub(word: &W, value: u32) -> u32 {
    word.fetch_sub(value, Ordering::AcqRel)
}

/// Sleeps once, if `word` is `value`.
fn sleep(word: &W, value: u32) {
    Sim::park(word, value, None);
}

fn wake(word: &W) {
    Sim::unpark(word);
}

/// Waits by looking now and then.
fn until(mut ready: impl FnMut() -> bool) {
    Sim::wait_window(|| ready().then_some(()));
}

/// Time passes.
fn pause() {
    lockyard_sim::compute(500);
}

/// Protected data: reads, computes, writes.
fn touch(data: &W) {
    let value = data.load(Relaxed);
    data.store(value + 1, Relaxed);
}

/// State behind a lock of the algorithm that is not in question: looked at and changed in one step.
#[derive(Debug, Default)]
struct Behind<T>(Mutex<T>);

impl<T> Behind<T> {
    fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        pause();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state);
        drop(state);
        pause();
        result
    }
}
