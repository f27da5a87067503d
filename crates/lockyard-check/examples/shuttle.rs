//! The conformance suite under shuttle's schedules: `cargo xtask models shuttle`.
//!
//! Each lock's schedules are shared out over the cases of its groups. The first failure ends the
//! run with exit code 1 and the command that repeats it; shuttle prints the schedule.

use std::process::ExitCode;
use std::time::Instant;

use lockyard::platform::{Ordering::*, Platform, Word};
use lockyard_check::broken::Nothing;
use lockyard_check::cases::exclusion;
use lockyard_check::catalog::{entries, types};
use lockyard_check::lock::{Lock, Way};
use lockyard_check::model::random::{Shuttle, fault_of, perform};
use lockyard_check::stage::Stage;
use lockyard_check::{catalog, groups};

const HELP: &str = "\
cargo xtask models shuttle [--lock TEXT] [--case TEXT] [--schedules N] [--crowds N] [--seed S]
  --lock       the lock of this name; if there is none, those whose names contain it
  --case       only the cases whose names contain this
  --schedules  random schedules of four threads for each lock, and as many of PCT (2000; the long form: 100000)
  --crowds     likewise with sixteen threads (50; the long form: 5000)
  --seed       where the schedules begin (1)
";

type Case = (&'static str, fn());

/// Sixteen threads, two acquisitions each.
fn crowd<L: Lock<P: Stage>>() {
    let guarded = lockyard_check::data::Data::<L::P>::default();
    let lock = L::default();
    L::P::run(16, |me| {
        for _ in 0..2 {
            lock.lock(Way::Write);
            guarded.write(me);
            // SAFETY: held to write.
            unsafe { lock.unlock(Way::Write) };
        }
    });
    guarded.finish(32);
    assert!(lock.at_rest(), "something is left in a lock that nobody uses: {}", lock.state());
}

/// A sleeping mutex (0 free, 1 held, 2 held and somebody may sleep) whose woken waiter forgets that
/// others may sleep as well.
#[derive(Default, Debug)]
struct Forgetful(<Shuttle as Platform>::U32);

impl Lock for Forgetful {
    type P = Shuttle;

    fn lock(&self, way: Way) {
        while !self.try_lock(way) {
            let _ = self.0.compare_exchange(1, 2, Relaxed, Relaxed);
            Shuttle::park(&self.0, 2, None);
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _way: Way) {
        if self.0.swap(0, Release) == 2 {
            Shuttle::unpark(&self.0);
        }
    }
}

/// Two broken locks that must fail, or the others' passing says nothing: no exclusion, and a lost
/// wake-up.
fn can_fail() -> bool {
    let mut can = true;
    for (name, case, evidence) in [
        ("no lock at all", exclusion::two_threads::<Nothing<Shuttle>> as fn(), ""),
        ("a mutex that forgets a sleeper", exclusion::sections_exclude_each_other::<Forgetful>, "lost wake-up"),
    ] {
        let fault = fault_of(case, 200, 1);
        let found = fault.as_ref().is_some_and(|fault| fault.contains(evidence));
        println!("{name:<30} {}", if found { "fails, as it must" } else { "PASSED: nothing here can be believed" });
        can &= found;
    }
    can
}

/// Time passes for those who sleep by the clock also when the last thread that runs does not stop,
/// but ends. (It did not: a deadlock that was none.)
fn time_passes_when_threads_end() {
    let words = [(); 3].map(|()| <Shuttle as Platform>::U32::default());
    Shuttle::run(4, |me| {
        if me > 0 {
            // The later ones sleep longer, so somebody always ends while others sleep.
            Shuttle::park(&words[me - 1], 0, Some(1_000 * me as u64));
        }
    });
}

struct Subject {
    name: String,
    cases: Vec<Case>,
    crowd: Option<fn()>,
}

fn subjects() -> Vec<Subject> {
    let machine: Case = ("time_passes_when_threads_end", time_passes_when_threads_end);
    let mut list = vec![Subject { name: "machine".to_owned(), cases: vec![machine], crowd: None }];
    macro_rules! subject {
        (() $lock:ident count $promises:tt) => {
            subject!(@ $lock count, None);
        };
        (() $lock:ident weigh $promises:tt) => {
            subject!(@ $lock weigh, None);
        };
        (() $lock:ident $trait:ident $promises:tt) => {
            subject!(@ $lock $trait, Some(crowd::<types::$lock<Shuttle>> as fn()));
        };
        (@ $lock:ident $trait:ident, $crowd:expr) => {
            let cases = groups!($trait => cases (types::$lock<Shuttle>));
            list.push(Subject { name: entries::$lock.label(), cases, crowd: $crowd });
        };
    }
    catalog::locks!(shuttle => subject ());
    list
}

struct Options {
    lock: String,
    case: String,
    schedules: usize,
    crowds: usize,
    seed: u64,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut options = Self { lock: String::new(), case: String::new(), schedules: 2_000, crowds: 50, seed: 1 };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("a number is needed, not '{text}'"));
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            match option.as_str() {
                "--lock" => options.lock.clone_from(value),
                "--case" => options.case.clone_from(value),
                "--schedules" => options.schedules = number(value)? as usize,
                "--crowds" => options.crowds = number(value)? as usize,
                "--seed" => options.seed = number(value)?,
                _ => return Err(format!("no such option: {option}")),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("shuttle: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if !can_fail() {
        return ExitCode::FAILURE;
    }
    let mut chosen = 0;
    let subjects = subjects();
    let exact = subjects.iter().any(|subject| subject.name == options.lock);
    let is_chosen = |name: &str| if exact { name == options.lock } else { name.contains(&options.lock) };
    for subject in subjects.iter().filter(|subject| is_chosen(&subject.name)) {
        let begun = Instant::now();
        let mut cases: Vec<(Case, usize)> = Vec::new();
        let each = options.schedules.div_ceil(subject.cases.len());
        cases.extend(subject.cases.iter().map(|case| (*case, each)));
        cases.extend(subject.crowd.map(|crowd| (("crowd", crowd), options.crowds)));
        cases.retain(|((name, _), schedules)| *schedules > 0 && name.contains(options.case.as_str()));
        let mut performed = 0;
        for ((name, case), schedules) in &cases {
            if let Err(why) = perform(*case, *schedules, options.seed) {
                eprintln!("\nshuttle: {}: {name} failed {why}", subject.name);
                eprintln!(
                    "again: cargo xtask models shuttle --lock {} --case {name} --schedules {} --crowds {} --seed {}",
                    subject.name, options.schedules, options.crowds, options.seed
                );
                return ExitCode::FAILURE;
            }
            performed += 2 * schedules;
        }
        chosen += cases.len();
        println!(
            "{:<30} {:>3} cases {performed:>8} schedules passed in {:.1} s",
            subject.name,
            cases.len(),
            begun.elapsed().as_secs_f64()
        );
    }
    if chosen == 0 {
        eprintln!("shuttle: no case is chosen\n\n{HELP}");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
