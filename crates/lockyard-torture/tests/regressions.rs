//! What torture has found in Lockyard's own locks, as small as the search made it: each schedule
//! passes now.
//!
//! A seed and the sources decide a schedule; when the simulated machine changes, so do these, and
//! they are schedules like others then. Where a lock's own tests have the same case, the entry says
//! so.

use std::time::Duration;

use lockyard_sim::Sim;
use lockyard_sim::faults::Fault::*;
use lockyard_sim::machine::catalog;
use lockyard_torture::catalog::Locks;
use lockyard_torture::schedule::Fixed;
use lockyard_torture::schedule::Trouble::{self, *};
use lockyard_torture::simulated::{Wanted, torture};

fn passes(label: &str, machine: &str, seed: u64, threads: usize, operations: u32, small: bool, trouble: &[Trouble]) {
    let entry = Sim::locks().into_iter().find(|entry| entry.label() == label).expect("a lock of the catalog");
    let wanted = Wanted {
        machine: catalog::machine(machine).expect("a machine of the catalog"),
        machine_name: machine.to_owned(),
        seed,
        schedules: 1,
        time: Duration::from_secs(60),
        fixed: Fixed {
            threads: Some(threads),
            operations: Some(operations),
            trouble: Some(trouble.to_vec()),
            small,
            weakening: None,
            believes_in_ghosts: false,
        },
        workers: 1,
    };
    if let Err(failure) = torture(&entry, &wanted, &|_| true) {
        panic!("{}", failure.text());
    }
}

/// A head whose turn was over set pending only while it was awake. Woken on the CPU of a holder, it
/// ran only while that one was away in its section, found the lock held for as long as it spins,
/// and went to sleep: passed 1,990 times, and for as long as that went on.
#[test]
fn a_pending_head_is_served_though_every_look_meets_a_holder_that_is_away() {
    passes("qspinlock", "quad2008", 51, 6, 16, false, &[Machine(GrantAtDeadline), Exit]);
}

/// The same behind a head of a hierarchical lock.
#[test]
fn a_lane_is_served_though_its_head_meets_a_holder_that_is_away() {
    passes("hq-spinlock", "quad2008", 6560, 4, 9, true, &[Machine(ClockJump), Exit]);
}

/// Not the lock's fault: when the simulated clock jumped, the timers of those who slept stayed
/// where they were. A waiter whose turn was over by the clock, and who was therefore left to its
/// timer, slept for milliseconds more, passed 1,201 times.
#[test]
fn a_jump_of_the_clock_takes_the_timers_of_sleepers_along() {
    let trouble = [Machine(LateWake), Machine(ClockJump), Machine(GrantAtDeadline), Exit];
    passes("cna", "epyc9654_2s:nps4", 6560, 4, 9, true, &trouble);
}

/// Not the lock's fault, nor anybody's: where every second wake-up is up to 8 ms late, somebody who
/// stays for 3,000 operations while others are preempted needs more than the 30 s after which a run
/// was called endless.
#[test]
fn a_run_whose_wake_ups_are_late_may_take_longer() {
    let trouble = [Machine(Preempt), Machine(SpuriousWake), Machine(LateWake), Pct];
    passes("cna", "quad2008", 19_718, 6, 19, false, &trouble);
}

/// Not the lock's fault either: where the priorities of PCT keep those from running whose turn it
/// is, and every second wake-up is late, each hand-over of a ticket lock takes 0.1 s, and twelve
/// threads with sixty operations 80 s: longer than the limit by then.
#[test]
fn a_run_goes_on_as_long_as_locks_are_granted() {
    let trouble = [Machine(Preempt), Machine(LateWake), Machine(LostCpu), Pct];
    passes("lockref:ticket", "skx_2s_40c", 107, 12, 60, false, &trouble);
}

/// Not the lock's fault, as its page says: a reader with a deadline was stopped between its
/// addition and its taking that back, and kept writers out. The judge forgave that to readers
/// without a deadline only.
#[test]
fn a_stopped_reader_that_will_not_wait_for_ever_keeps_the_lock_taken_too() {
    let trouble = [Machine(LateWake), Machine(Migrate), Machine(NoRecord), Machine(Stop), Exit];
    passes("rwsem:today", "quad2008", 2_554_298, 4, 5, true, &trouble);
}

/// A thread without a record came back from every wait at once, and its caller's loop burnt a CPU
/// for as long as the holder slept.
#[test]
fn a_wait_on_the_futex_hash_without_a_record_sleeps() {
    passes("futex-hash", "quad2008", 1265, 2, 3, true, &[Machine(NoRecord), Exit]);
}
