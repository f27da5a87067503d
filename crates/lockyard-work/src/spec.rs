//! One cell of a matrix: which workload, how many threads, how long the sections, for how long.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::replay::Replay;

pub use crate::kind::{Mix, ThinkShape, Workload};

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().copied().find(|workload| workload.name() == text);
        found.ok_or_else(|| Error::Spec(format!("unknown workload '{text}'")))
    }
}

/// One cell. Build it from [`Spec::new`], which fills in what the workload usually has.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// What the threads do.
    pub workload: Workload,
    /// Locking threads, where threads have no roles.
    pub threads: usize,
    /// Reading threads, where threads have roles.
    pub readers: usize,
    /// Writing threads, where threads have roles.
    pub writers: usize,
    /// PAUSEs inside the section.
    pub cs: u32,
    /// Sleep inside the section, on top of `cs`. Zero: none.
    pub cs_sleep: Duration,
    /// Lines of data that each section touches besides those that the check of exclusion does. A
    /// writer changes all of them, a reader looks at all of them.
    pub lines: u32,
    /// PAUSEs between two sections; their mean, if they are drawn.
    pub think: u32,
    /// How the times between two sections are spread.
    pub think_shape: ThinkShape,
    /// Reads in 100 operations, with [`Mix::Random`]; fractions are possible.
    pub read_pct: f64,
    /// Reads to one write, for `qrw-loop`.
    pub ratio: u32,
    /// How reads and writes are mixed.
    pub mix: Mix,
    /// Jobs that each thread does, where the workload counts jobs ([`Workload::has_jobs`]): all
    /// begin together, and the last to be done closes the window. Zero: as many as the window is
    /// long enough for.
    pub jobs: u32,
    /// Length of the measured window.
    pub duration: Duration,
    /// What is run, and thrown away, before the window opens.
    pub warmup: Duration,
    /// Seed of every random draw.
    pub seed: u64,
    /// What `replay` plays back. `None`: an example.
    pub replay: Option<Arc<Replay>>,
}

impl Spec {
    /// The most threads one cell may have.
    pub const MOST_THREADS: usize = 32_000;

    /// The most jobs one thread may have.
    pub const MOST_JOBS: u32 = 100_000;

    /// The most lines of data that a section may touch.
    pub const MOST_LINES: u32 = 1024;

    /// The usual cell of `workload`.
    pub fn new(workload: Workload) -> Self {
        let usual = Self {
            workload,
            threads: 2,
            readers: 1,
            writers: 1,
            cs: 0,
            cs_sleep: Duration::ZERO,
            lines: 0,
            think: 0,
            think_shape: ThinkShape::Fixed,
            read_pct: 0.0,
            ratio: 5,
            mix: Mix::Random,
            jobs: 0,
            duration: Duration::from_secs(1),
            warmup: Duration::from_millis(100),
            seed: 1,
            replay: None,
        };
        let turn = Duration::from_millis(1);
        match workload {
            Workload::Uncontended => Self { threads: 1, ..usual },
            Workload::Contend => Self { cs: 1, think: 1, ..usual },
            Workload::RwsemMicro => Self { cs: 1, mix: Mix::Alternate, ..usual },
            Workload::BklAim7 => Self { threads: 64, ..usual },
            Workload::BootModel => Self { threads: 112, ..usual },
            Workload::BuildModel => Self { threads: 96, ..usual },
            Workload::PiStress => Self { threads: 3, ..usual },
            Workload::LockrefModel | Workload::KvModel | Workload::FutexHash => usual,
            Workload::PiCross => Self { threads: 3, cs: 1, think: 1, ..usual },
            Workload::PiInversion => Self { threads: 3, cs: 25_000, think: 250_000, ..usual },
            Workload::StarveWriters => Self { readers: 8, writers: 1, cs_sleep: turn, mix: Mix::Roles, ..usual },
            Workload::StarveReaders => Self { readers: 1, writers: 4, cs_sleep: turn, mix: Mix::Roles, ..usual },
            Workload::QrwLoop | Workload::TortureSpin | Workload::TortureSpin2021 => usual,
            Workload::Pf1Model | Workload::Replay => usual,
        }
    }

    /// Whether the threads have roles in this cell.
    pub fn has_roles(&self) -> bool {
        self.workload.has_roles(self.mix)
    }

    /// The number of locking threads.
    pub fn lockers(&self) -> usize {
        if self.has_roles() { self.readers + self.writers } else { self.threads }
    }

    /// The length of the measured window, if it has one: a number of jobs takes as long as it
    /// takes.
    pub fn window(&self) -> Option<Duration> {
        (self.jobs == 0).then_some(self.duration)
    }

    /// Whether locks are taken for reading in this cell.
    pub fn reads(&self) -> bool {
        self.workload.needs_shared()
            || matches!(self.workload, Workload::Contend | Workload::Uncontended)
                && (self.read_pct > 0.0 || self.mix != Mix::Random)
    }

    /// Checks that the cell makes sense.
    ///
    /// # Errors
    /// One line that names the value and what would be accepted.
    pub fn validate(&self) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Spec(what));
        let workload = self.workload;
        let lockers = self.lockers();
        if self.has_roles() {
            let name = workload.name();
            match workload {
                Workload::StarveWriters | Workload::StarveReaders if self.readers == 0 || self.writers == 0 => {
                    return refuse(format!("{name} needs at least one reader and one writer"));
                }
                _ if lockers == 0 => return refuse(format!("{name} needs at least one reader or writer")),
                _ => {}
            }
        } else if lockers == 0 {
            return refuse("threads: at least 1 is needed, 0 given".to_owned());
        }
        if lockers > Self::MOST_THREADS {
            return refuse(format!("threads: at most {} are possible, {lockers} given", Self::MOST_THREADS));
        }
        if workload == Workload::PiStress && !self.threads.is_multiple_of(3) {
            return refuse(format!("pi-stress: threads come in groups of three, {} given", self.threads));
        }
        if workload == Workload::Uncontended {
            if self.threads != 1 {
                return refuse(format!("uncontended measures one thread, {} given", self.threads));
            }
            if self.mix != Mix::Random || self.read_pct != 0.0 && self.read_pct != 100.0 {
                return refuse("uncontended measures reads or writes: read share 0 or 100".to_owned());
            }
        }
        if workload == Workload::PiCross && self.threads != 3 {
            return refuse(format!("pi-cross has three threads: low, high and medium; {} given", self.threads));
        }
        if workload == Workload::PiInversion && !(3..=10).contains(&self.threads) {
            return refuse(format!(
                "pi-inversion has 3 to 10 threads: a chain of 1 to 8 owners, medium and high; {} given",
                self.threads
            ));
        }
        if self.jobs > 0 && !workload.has_jobs() {
            return refuse(format!("jobs: {workload} has none; only bkl-aim7 has"));
        }
        if self.jobs > Self::MOST_JOBS {
            return refuse(format!("jobs: at most {} a thread, {} given", Self::MOST_JOBS, self.jobs));
        }
        if self.lines > 0 && !workload.is_plain() {
            return refuse(format!("lines: {workload} has none; only contend and rwsem-micro have"));
        }
        if self.lines > Self::MOST_LINES {
            return refuse(format!("lines: at most {} a section, {} given", Self::MOST_LINES, self.lines));
        }
        if self.think_shape != ThinkShape::Fixed && !workload.is_plain() {
            return refuse(format!("think time: {workload} draws none; only contend and rwsem-micro do"));
        }
        if !(0.0..=100.0).contains(&self.read_pct) {
            return refuse(format!("read share: 0 to 100 per cent, {} given", self.read_pct));
        }
        if self.ratio == 0 {
            return refuse("reads to a write: at least 1".to_owned());
        }
        for (name, pauses) in [("section", self.cs), ("think time", self.think)] {
            if pauses > 10_000_000 {
                return refuse(format!("{name}: at most 10000000 PAUSEs, {pauses} given"));
            }
        }
        if self.cs_sleep > Duration::from_secs(1) {
            return refuse(format!("sleep in the section: at most 1 s, {:?} given", self.cs_sleep));
        }
        if self.duration < Duration::from_micros(1) || self.duration > Duration::from_secs(3600) {
            return refuse(format!("duration: 1 µs to 1 h, {:?} given", self.duration));
        }
        if self.warmup > Duration::from_secs(60) {
            return refuse(format!("warm-up: at most 60 s, {:?} given", self.warmup));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_cells_are_valid() {
        for &workload in Workload::ALL {
            Spec::new(workload).validate().unwrap();
            assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
        }
        assert!("contention".parse::<Workload>().is_err());
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        let contend = || Spec::new(Workload::Contend);
        let starve = || Spec::new(Workload::StarveWriters);
        let bad = [
            (Spec { threads: 0, ..contend() }, "threads"),
            (Spec { threads: 1_000_000, ..contend() }, "at most 32000"),
            (Spec { read_pct: 101.0, ..contend() }, "read share"),
            (Spec { read_pct: -0.1, ..contend() }, "read share"),
            (Spec { read_pct: f64::NAN, ..contend() }, "read share"),
            (Spec { lines: 5000, ..contend() }, "lines: at most"),
            (Spec { lines: 1, ..Spec::new(Workload::QrwLoop) }, "lines: qrw-loop has none"),
            (Spec { think_shape: ThinkShape::Exponential, ..starve() }, "starve-writers draws none"),
            (Spec { cs: u32::MAX, ..contend() }, "section"),
            (Spec { think: u32::MAX, ..contend() }, "think"),
            (Spec { duration: Duration::ZERO, ..contend() }, "duration"),
            (Spec { warmup: Duration::from_secs(100), ..contend() }, "warm-up"),
            (Spec { cs_sleep: Duration::from_secs(2), ..contend() }, "sleep"),
            (Spec { jobs: 1, ..contend() }, "jobs: contend has none"),
            (Spec { jobs: u32::MAX, ..Spec::new(Workload::BklAim7) }, "jobs: at most"),
            (Spec { ratio: 0, ..Spec::new(Workload::QrwLoop) }, "reads to a write"),
            (Spec { writers: 0, ..starve() }, "starve-writers needs"),
            (Spec { readers: 0, writers: 0, mix: Mix::Roles, ..Spec::new(Workload::RwsemMicro) }, "needs at least"),
            (Spec { threads: 2, ..Spec::new(Workload::Uncontended) }, "one thread"),
            (Spec { threads: 4, ..Spec::new(Workload::PiStress) }, "groups of three"),
            (Spec { read_pct: 50.0, ..Spec::new(Workload::Uncontended) }, "0 or 100"),
            (Spec { threads: 2, ..Spec::new(Workload::PiCross) }, "three threads"),
            (Spec { threads: 2, ..Spec::new(Workload::PiInversion) }, "3 to 10"),
            (Spec { threads: 11, ..Spec::new(Workload::PiInversion) }, "3 to 10"),
        ];
        for (spec, part) in bad {
            let message = spec.validate().expect_err(part).to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{message}");
        }
    }

    #[test]
    fn roles_decide_the_number_of_threads() {
        assert_eq!(Spec::new(Workload::StarveWriters).lockers(), 9);
        assert_eq!(Spec { threads: 7, ..Spec::new(Workload::Contend) }.lockers(), 7);
    }
}
