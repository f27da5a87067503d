//! The classical inversion: low has what high wants, and middle has the CPU.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockyard::mutex::RawMutex;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard_sim::machine::catalog;
use lockyard_sim::scheduler::class::Class;
use lockyard_sim::{Config, Sim, Simulation, Start, clock_ps, compute, set_class};

/// Length of a critical section, and of what the middle thread does, ns.
const SECTION: u64 = 50_000;
const MIDDLE: u64 = 50_000_000;
/// Between the moments at which threads begin: longer than any idle state takes to leave.
const APART: u64 = 1_000_000;
/// A few system calls and switches.
const KERNEL: u64 = 60_000;

/// A lock as the inversion needs it.
trait Lock: Default + Sync {
    fn lock(&self);
    fn unlock(&self);
}

impl Lock for RawTreeRtMutex<Sim> {
    fn lock(&self) {
        self.acquire().unwrap_or_else(|cycle| panic!("{cycle}"));
    }

    fn unlock(&self) {
        // SAFETY: each thread below unlocks what it has locked.
        unsafe { self.release() }.expect("the owner");
    }
}

impl Lock for RawMutex<Sim> {
    fn lock(&self) {
        self.acquire();
    }

    fn unlock(&self) {
        // SAFETY: as above.
        unsafe { self.release() };
    }
}

/// All on one CPU of `machine`: a chain of `depth` owners, each of which waits for the one before,
/// a middle thread that computes, and a high one that wants the last mutex. How long it waits, ns.
fn wait_of_high<L: Lock>(machine: &str, depth: usize) -> u64 {
    let model = catalog::machine(machine).unwrap_or_else(|error| panic!("{error}"));
    let config = Config { start: Start::InOrder, ..Config::new(model) };
    let threads = depth + 2;
    let simulation = Simulation::new(&config, threads).expect("a simulation");
    let locks: Vec<L> = (0..depth).map(|_| L::default()).collect();
    (0..threads).for_each(|thread| simulation.assign(thread, 0, true));
    let waited = AtomicU64::new(0);
    let sleep_until = |ns: u64| {
        let word = <Sim as lockyard::platform::Platform>::U32::default();
        while clock_ps() / 1000 < ns {
            <Sim as lockyard::platform::Platform>::park(&word, 0, Some(ns));
        }
    };
    let report = simulation.run(|me| {
        if me < depth {
            // Owner i has mutex i, works a section, then asks for mutex i − 1, and works another.
            set_class(Class::Fifo(1 + me as u8));
            sleep_until((1 + me as u64) * APART);
            locks[me].lock();
            if me > 0 {
                locks[me - 1].lock();
                compute(SECTION);
                locks[me - 1].unlock();
            } else {
                compute((depth as u64 + 2) * APART);
            }
            locks[me].unlock();
        } else if me == depth {
            set_class(Class::Fifo(50));
            sleep_until((1 + depth as u64) * APART);
            compute(MIDDLE);
        } else {
            set_class(Class::Fifo(90));
            sleep_until((1 + depth as u64) * APART + APART / 2);
            let called = clock_ps();
            locks[depth - 1].lock();
            waited.store((clock_ps() - called) / 1000, Relaxed);
            locks[depth - 1].unlock();
        }
    });
    report.unwrap_or_else(|error| panic!("{machine}, depth {depth}: {error}"));
    waited.into_inner()
}

/// With inheritance the wait is the critical sections ahead; the middle thread's fifty milliseconds
/// are no part of it. Without, they are: the check can fail.
#[test]
fn high_waits_for_sections_not_for_the_middle() {
    for machine in ["quad2008", "skx_2s_40c", "kunpeng920_2s_96c"] {
        for depth in 1..=4 {
            let sections = (depth as u64 + 2) * APART + SECTION * depth as u64;
            let waited = wait_of_high::<RawTreeRtMutex<Sim>>(machine, depth);
            assert!(waited <= sections + KERNEL * depth as u64, "{machine}, chain of {depth}: {waited} ns");
            let plain = wait_of_high::<RawMutex<Sim>>(machine, depth);
            assert!(plain >= MIDDLE / 2, "{machine}, chain of {depth}: a plain mutex took {plain} ns only");
        }
    }
}
