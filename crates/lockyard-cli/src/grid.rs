//! `lockyard bench --grid`: cells that look like programs, and which of them a run measures.
//!
//! | what | values |
//! |---|---|
//! | threads | 1, 2, 4, 16, 64 |
//! | section, in PAUSEs | 0, 1, 20, 100, 1000 |
//! | think time | 1 PAUSE; ¼, 1 and 4 sections; drawn, with a section as mean |
//! | lines of data in a section | 0, 1, 8 |
//! | reads, of reader-writer locks | 50, 95, 99.9 % |
//!
//! and the uncontended pair. [`Size::Full`] is the cross product; the smaller sizes keep what their
//! [`Size::keeps`] says. A cell is called *even* if think time and section are the same.
//!
//! **Peers that never sleep** are left out of cells with more threads than CPUs: threads of theirs
//! get no turn there, so none of them counts, and 64 threads at a ticket lock take seconds to end.
//! Where that leaves a family without a peer (the spinlocks), the sleeping mutexes stand in.

use std::time::Duration;

use lockyard_work::{Candidate, Family, Origin, Spec, ThinkShape, Workload};

use crate::progress;
use crate::run::{self, PlannedCell, warmup};
use crate::selection::Group;
use crate::values::Think;

const THREADS: [usize; 5] = [1, 2, 4, 16, 64];
const SECTIONS: [u32; 5] = [0, 1, 20, 100, 1000];
const THINKS: [(Think, ThinkShape); 5] = [
    (Think::Pauses(1), ThinkShape::Fixed),
    (Think::Sections(0.25), ThinkShape::Fixed),
    (Think::Sections(1.0), ThinkShape::Fixed),
    (Think::Sections(4.0), ThinkShape::Fixed),
    (Think::Sections(1.0), ThinkShape::Exponential),
];
const LINES: [u32; 3] = [0, 1, 8];
const READS: [f64; 3] = [50.0, 95.0, 99.9];
/// The share of reads of the cells that have one.
const USUAL_READS: f64 = 95.0;
/// With more threads a window is twice as long: each needs a chance to have a turn.
const CROWD: usize = 16;

/// How much of the grid is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// What shows most.
    Quick,
    /// Each value of each dimension, and the cross product of those that matter most.
    Usual,
    /// Everything.
    Full,
}

impl Size {
    /// Whether a cell is measured.
    fn keeps(self, spec: &Spec) -> bool {
        let fixed = spec.think_shape == ThinkShape::Fixed;
        let even = fixed && spec.think == spec.cs.max(1);
        let middle = matches!(spec.cs, 20 | 100);
        let reads_as_usual = spec.read_pct == 0.0 || spec.read_pct == USUAL_READS;
        let alone = spec.threads == 1;
        match self {
            Size::Full => true,
            _ if alone && (!fixed || spec.think != 1 || !reads_as_usual) => false,
            Size::Usual if alone => matches!((spec.cs, spec.lines), (0 | 20, 0) | (20, 8)),
            Size::Usual => {
                (middle || spec.cs == 1 || even)
                    && (spec.threads != 4 || middle && even)
                    && (spec.lines == 0 || even && spec.cs == 20 && matches!(spec.threads, 2 | 16))
                    && (reads_as_usual || even)
            }
            Size::Quick if alone => (spec.cs, spec.lines) == (20, 0),
            Size::Quick => {
                let usual = even || middle && (spec.think == 1 || !fixed);
                usual
                    && (middle || spec.cs == 1)
                    && spec.threads != 4
                    && (spec.lines == 0 || even && (spec.cs, spec.lines, spec.threads) == (20, 8, 16))
                    && (reads_as_usual || even && spec.cs == 20)
            }
        }
    }
}

/// The grid that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// How much of it.
    pub(crate) size: Size,
    /// Length of a measurement with few threads.
    pub(crate) window: Duration,
    /// How often each lock is measured in each cell.
    pub(crate) rounds: usize,
    /// Seed of the workloads.
    pub(crate) seed: u64,
    /// CPUs this process may use.
    pub(crate) cpus: usize,
    /// Peers for cells whose own never sleep; empty if the user named peers, which then are
    /// in every cell.
    pub(crate) stand_ins: Vec<&'static Candidate>,
}

impl Grid {
    /// The cells of all groups.
    pub(crate) fn cells(&self, groups: &[Group]) -> Vec<PlannedCell> {
        groups.iter().flat_map(|group| self.cells_of(group)).collect()
    }

    fn cells_of(&self, group: &Group) -> Vec<PlannedCell> {
        let shared = group.candidates.iter().all(|candidate| candidate.shared);
        let planned = |spec: Spec| PlannedCell {
            group: group.name.clone(),
            candidates: self.locks(group, spec.threads),
            spec,
            rounds: self.rounds,
            weight: 1.0,
        };
        self.specs(shared).into_iter().map(planned).collect()
    }

    /// The locks of `group` that are measured with `threads` threads.
    fn locks(&self, group: &Group, threads: usize) -> Vec<&'static Candidate> {
        if self.stand_ins.is_empty() || threads <= self.cpus {
            return group.candidates.clone();
        }
        let is_peer = |lock: &&'static Candidate| lock.origin == Origin::Peer;
        let mut locks = group.candidates.clone();
        let had_peers = locks.iter().any(is_peer);
        locks.retain(|lock| lock.origin == Origin::Lockyard || lock.sleeps);
        if had_peers && !locks.iter().any(is_peer) {
            locks.extend(&self.stand_ins);
        }
        locks
    }

    /// The cells, fewest threads first.
    fn specs(&self, shared: bool) -> Vec<Spec> {
        let usual = |workload| Spec {
            duration: self.window,
            warmup: warmup(self.window),
            seed: self.seed,
            ..Spec::new(workload)
        };
        let alone = |&read_pct: &f64| Spec { read_pct, ..usual(Workload::Uncontended) };
        let mut specs: Vec<Spec> = if shared { &[0.0, 100.0][..] } else { &[0.0] }.iter().map(alone).collect();
        let reads = if shared { &READS[..] } else { &[0.0] };
        for threads in THREADS {
            for cs in SECTIONS {
                for (think, think_shape) in THINKS {
                    for lines in LINES {
                        for &read_pct in reads {
                            let think = think.beside(cs);
                            let base = usual(Workload::Contend);
                            let mut spec = Spec { threads, cs, think, think_shape, lines, read_pct, ..base };
                            if threads > CROWD {
                                spec.duration *= 2;
                            }
                            // Think times of a short section may be the same; none is not drawn.
                            let same = think == 0 && think_shape != ThinkShape::Fixed || specs.contains(&spec);
                            if !same && self.size.keeps(&spec) {
                                specs.push(spec);
                            }
                        }
                    }
                }
            }
        }
        specs
    }
}

/// The mutexes of others.
pub(crate) fn sleeping_mutexes(all: &'static [Candidate]) -> Vec<&'static Candidate> {
    let meant = |lock: &&Candidate| lock.family == Family::Mutex && lock.origin == Origin::Peer && lock.sleeps;
    all.iter().filter(meant).collect()
}

/// What a plan is, and how long it takes.
pub(crate) fn announced(cells: &[PlannedCell]) -> String {
    let measurements: usize = cells.iter().map(|cell| cell.candidates.len() * cell.rounds).sum();
    let time = progress::brief(run::planned(cells));
    format!("grid: {} cells, {measurements} measurements, about {time}", cells.len())
}

#[cfg(test)]
mod tests {
    use lockyard_work::candidates;

    use super::*;
    use crate::selection;

    fn grid(size: Size) -> Grid {
        let rounds = if size == Size::Quick { 1 } else { 3 };
        let stand_ins = sleeping_mutexes(candidates());
        Grid { size, window: Duration::from_millis(100), rounds, seed: 7, cpus: 2, stand_ins }
    }

    fn cells(size: Size) -> Vec<PlannedCell> {
        grid(size).cells(&selection::defaults(candidates(), &Family::ALL))
    }

    #[test]
    fn every_planned_cell_can_run_and_has_a_peer() {
        for size in [Size::Quick, Size::Usual, Size::Full] {
            for cell in cells(size) {
                assert_eq!(cell.spec.seed, 7);
                for candidate in &cell.candidates {
                    candidate.check(&cell.spec).unwrap();
                }
                for origin in [Origin::Lockyard, Origin::Peer] {
                    assert!(cell.candidates.iter().any(|lock| lock.origin == origin), "{} {:?}", cell.group, cell.spec);
                }
            }
        }
    }

    #[test]
    fn plans_take_the_time_that_is_promised() {
        let time = |size| run::planned(&cells(size));
        assert!(time(Size::Quick) < Duration::from_secs(180), "{:?}", time(Size::Quick));
        assert!(time(Size::Usual) < Duration::from_secs(15 * 60), "{:?}", time(Size::Usual));
    }

    #[test]
    fn no_cell_is_measured_twice_and_small_plans_are_part_of_larger_ones() {
        for shared in [false, true] {
            let specs = |size| grid(size).specs(shared);
            let (quick, usual, full) = (specs(Size::Quick), specs(Size::Usual), specs(Size::Full));
            assert!(quick.iter().all(|spec| usual.contains(spec)) && usual.iter().all(|spec| full.contains(spec)));
            assert!(quick.len() < usual.len() && usual.len() < full.len());
            for (index, spec) in full.iter().enumerate() {
                assert!(!full[..index].contains(spec), "{spec:?}");
            }
        }
    }

    #[test]
    fn the_usual_plan_has_every_value() {
        let specs = grid(Size::Usual).specs(true);
        let some = |what: &dyn Fn(&Spec) -> bool| specs.iter().any(what);
        assert!(THREADS.iter().all(|&threads| some(&|spec| spec.threads == threads)));
        assert!(SECTIONS.iter().all(|&cs| some(&|spec| spec.threads == 16 && spec.cs == cs)));
        assert!(LINES.iter().all(|&lines| some(&|spec| spec.lines == lines)));
        assert!(READS.iter().all(|&reads| some(&|spec| spec.threads == 64 && spec.read_pct == reads)));
        for think in [1, 5, 20, 80] {
            assert!(some(&|spec| (spec.threads, spec.cs, spec.think) == (64, 20, think)));
        }
        assert!(some(&|spec| spec.think_shape == ThinkShape::Exponential));
    }

    #[test]
    fn peers_that_never_sleep_have_a_cpu_for_each_thread() {
        let cells = cells(Size::Quick);
        let labels = |group: &str, threads| {
            let cell = cells.iter().find(|cell| cell.group == group && cell.spec.threads == threads).expect("a cell");
            cell.candidates.iter().map(|lock| lock.label()).collect::<Vec<_>>()
        };
        let has = |group, threads, lock: &str| labels(group, threads).iter().any(|label| label == lock);
        assert!(has("spin", 2, "spin-ticket") && !has("spin", 2, "std-mutex"));
        assert!(!has("spin", 16, "spin-ticket") && has("spin", 16, "std-mutex") && has("spin", 16, "qspinlock"));
        assert!(has("rw", 2, "spin-rwlock") && !has("rw", 16, "spin-rwlock") && has("rw", 16, "std-rwlock"));
        // Named peers are in every cell.
        let groups = selection::defaults(candidates(), &[Family::Spin]);
        let named = Grid { stand_ins: Vec::new(), ..grid(Size::Quick) }.cells(&groups);
        assert!(named.iter().all(|cell| cell.candidates.len() == groups[0].candidates.len()));
    }
}
