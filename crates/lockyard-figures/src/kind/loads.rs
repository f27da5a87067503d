//! Loads of published programs that are in no data set: what is known of them, as ranges.
//!
//! None of these numbers is derived from the tables that they are for. Middles are geometric; the
//! ends of all ranges of a load together are two variants more, and widen the band
//! ([`Given::ends`](crate::plan::Given)). Times are in nanoseconds on the published machine.
//!
//! **Locktorture**: `torture-spin-2021` (`spec/workloads.md` 3.3), all in one instant, as for the
//! other tables of it; the kernel is older than theirs. Under the lock it draws three times, and
//! divides 64 bits for each draw: 32 to 96 cycles on this processor, by the public instruction
//! tables, and some ten more. (That was looked up after the table had been run without.)
//!
//! **will-it-scale `lock2`**: every task locks and unlocks the same file by `fcntl(F_SETLK)`, for
//! ever; the spinlock is that of the file's list of locks. A call takes 490 ns on the project's
//! host, of which the bare system call is 187; the published machine is slower, and its kernel
//! changes page tables at every call: 500 to 900. Under the lock a list is searched, and an entry
//! put in or taken out: a tenth to a third of what is not the bare call. Lines that travel beside
//! the lock's: the entry, one or two, and the list of the CPU that put it there. Tasks are bound,
//! one to a core, in the order of cores, unless the program is told otherwise (its issue 8;
//! `spec/workloads.md` 6).
//!
//! **Kyoto Cabinet**: the cache test of its own test program, as others ran it under exchanged
//! locks (Dice and Kogan, "Compact NUMA-aware Locks", recalled): every operation on a table in
//! memory under one mutex. Version 1.2.79, traced on the project's host with its own locks (16 of
//! them under a reader-writer lock): an operation is inside for 450 to 505 ns on average and
//! outside for 300 (`order -rnd`) to 1,360 (`wicked`). There the table fits the shared cache; on
//! the published machine it does not, memory is interleaved, and an operation meets up to eight
//! lines of it that nobody has: 0.5 to 2 µs. Lines that travel: the ends of the list of use and the
//! counters, one to four, and the mutex that the exchange of locks takes inside the other. Rows say
//! on how many sockets their threads ran: as many as are full. One CPU is left to the thread that
//! opens the window; nobody opened one in their minute.

use std::time::Duration;

use lockyard_sim::machine::topology::Placement;
use lockyard_work::{Spec, ThinkShape, Workload};

use super::gains::LONG_HOLDS_NS;
use crate::plan::{Given, Take};

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    LockTorture,
    FileLock,
    KyotoCabinet,
}

/// A number that is known within a range.
struct Range(f64, f64);

impl Range {
    /// Its lower end, its middle, its upper end.
    fn three(&self) -> [f64; 3] {
        [self.0, (self.0 * self.1).sqrt(), self.1]
    }
}

/// The draws under locktorture's lock.
const TORTURE_DRAWS_NS: Range = Range(40.0, 110.0);

/// What a program that only locks, works and thinks is made of.
struct Sections {
    hold_ns: Range,
    rest_ns: Range,
    /// Beside the lock's line and the one that every section here changes.
    lines: [u32; 3],
    shape: ThinkShape,
}

const FILE_LOCK: Sections =
    Sections { hold_ns: Range(30.0, 120.0), rest_ns: Range(450.0, 800.0), lines: [0, 1, 3], shape: ThinkShape::Fixed };

const KYOTO_CABINET: Sections = Sections {
    hold_ns: Range(500.0, 2_000.0),
    rest_ns: Range(300.0, 1_360.0),
    lines: [1, 2, 4],
    shape: ThinkShape::Exponential,
};

/// Some rounds of what a millisecond decides: how long waiters of other nodes stay aside.
const WINDOW: Duration = Duration::from_millis(4);
const WARMUP: Duration = Duration::from_millis(1);

impl Load {
    /// The load of `threads` threads on a machine whose PAUSE takes `pause_ns`.
    pub(super) fn of(self, threads: usize, pause_ns: f64) -> (Spec, Given) {
        let usual = |workload| Spec { threads, warmup: WARMUP, duration: WINDOW, ..Spec::new(workload) };
        let pauses = |ns: f64| (ns / pause_ns).round() as u32;
        let (sections, program) = match self {
            Self::LockTorture => {
                let drawing = |ns| Spec { cs: pauses(ns), ..usual(Workload::TortureSpin2021) };
                let [low, middle, high] = TORTURE_DRAWS_NS.three().map(drawing);
                return (middle, Given { ends: Some(Box::new([low, high])), ..Given::default() });
            }
            Self::FileLock => (FILE_LOCK, false),
            Self::KyotoCabinet => (KYOTO_CABINET, true),
        };
        let [low, middle, high] = [0, 1, 2].map(|at| Spec {
            cs: pauses(sections.hold_ns.three()[at]),
            think: pauses(sections.rest_ns.three()[at]),
            think_shape: sections.shape,
            lines: sections.lines[at],
            ..usual(Workload::Contend)
        });
        let given = Given { placement: Some(Placement::Fill), program, ends: Some(Box::new([low, high])) };
        (middle, given)
    }

    /// How a rate becomes a cell of the table.
    pub(super) fn take(self, threads: usize) -> Take {
        let kops = Take::plain("kops_per_s");
        match self {
            // In 10⁷ operations of 30 s.
            Self::LockTorture => Take { factor: 3e-3, beside_ns: LONG_HOLDS_NS / threads as f64, ..kops },
            Self::FileLock => Take { factor: 1e-3, ..kops },
            Self::KyotoCabinet => Take { factor: 1e3, ..kops },
        }
    }

    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::LockTorture => "10⁷ operations of a run, taken for 60 s that run half of the time",
            Self::FileLock => "operations per µs",
            Self::KyotoCabinet => "operations per second",
        }
    }

    /// What was chosen, for the reader.
    pub(super) fn notes(self) -> Vec<String> {
        let mut notes =
            vec![format!("chosen: a window of {} ms after {} ms of warm-up", WINDOW.as_millis(), WARMUP.as_millis())];
        let range = |range: &Range| format!("{:.0} to {:.0} ns", range.0, range.1);
        let sections = |sections: &Sections| {
            let [least, _, most] = sections.lines;
            format!(
                "a section of {} that touches {} to {} lines beside the lock's, {} between two; not in the data set, but from what is \
                 known of the program; the band is over all of it",
                range(&sections.hold_ns),
                least + 1,
                most + 1,
                range(&sections.rest_ns)
            )
        };
        notes.extend(match self {
            Self::LockTorture => vec![
                format!("the three draws under the lock take {}", range(&TORTURE_DRAWS_NS)),
                "torture-spin-2021, locks inside the kernel; holds of 100 ms count as what they take on average; all begin at once; the length \
                 of a run is not published and changes no ratio"
                    .to_owned(),
            ],
            Self::FileLock => vec![
                sections(&FILE_LOCK),
                "locks inside the kernel; tasks are bound to cores in their order, as the program does it".to_owned(),
            ],
            Self::KyotoCabinet => vec![
                sections(&KYOTO_CABINET),
                "locks of a program; threads fill as many sockets as the row says; 47 threads stand for 48, so that the thread that opens \
                 the window has a CPU"
                    .to_owned(),
            ],
        });
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prediction_is_between_the_ends() {
        for load in [Load::FileLock, Load::KyotoCabinet] {
            let (middle, given) = load.of(8, 3.5);
            let [low, high] = *given.ends.unwrap();
            for number in [|spec: &Spec| spec.cs, |spec: &Spec| spec.think, |spec: &Spec| spec.lines] {
                assert!(number(&low) < number(&middle) && number(&middle) < number(&high), "{load:?}");
            }
        }
        let (spec, given) = Load::FileLock.of(1, 10.0);
        assert_eq!((spec.cs, spec.think), (6, 60));
        assert!(!given.program && Load::KyotoCabinet.of(1, 10.0).1.program);
        assert_eq!(Load::LockTorture.of(1, 10.0).1.placement, None);
    }
}
