//! What memory and system calls cost here: for predictions of this very machine.
//!
//! Every cost is the median of many, on two CPUs at most, in a quarter of a second altogether, so
//! that a lost time slice does not count. A program that runs all the while makes them dearer than
//! they are.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use lockyard::platform::linux::Linux;
use lockyard::platform::{Ordering::*, Platform, Word};
use lockyard_sim::hand_over::way;
use lockyard_sim::machine::host::{Costs, TAKES, Wake};

use super::{allowed_cpus, compute, run_on, stamp};
use crate::machine::Machine;
use crate::padded::Padded;

/// Cycles of a link of [`compute`]'s chain: a shift, an exclusive or, a multiplication.
const LINK_CYCLES: f64 = 5.0;
/// A futex word.
type U32 = <Linux as Platform>::U32;

/// Measures this machine.
pub(crate) fn costs() -> Costs {
    let cpus = allowed_cpus();
    let near = neighbour(&cpus);
    // Wake-ups are measured even if the only other CPU is far, or of the same core.
    let other = near.or((cpus.len() > 1).then_some(1));
    let mut costs = Costs {
        ghz: compute::links_per_ns() * LINK_CYCLES,
        pause: Linux::pause_ns(),
        rmw: each(10_000, {
            let word = U32::default();
            move || {
                black_box(word.fetch_add(1, SeqCst));
            }
        }),
        transfer: None,
        takes: None,
        wake_none: each(2_000, {
            let word = U32::default();
            move || Linux::unpark(&word)
        }),
        yield_call: each(500, thread::yield_now),
        clock: each(5_000, || {
            black_box(std::time::Instant::now());
        }),
        hand_over: hand_over(),
        idle_pulls: other.map(|other| idle_pulls(cpus[0], cpus[other])),
        wake: other.map(|other| {
            let ((call, short), (_, long)) = (wake_up(other, Wake::SHORT, 150), wake_up(other, Wake::LONG, 60));
            Wake { call, short, long }
        }),
    };
    if let Some(near) = near {
        let (one, two) = (by_one_word(near), by_two_words(near));
        costs.takes = Some(two > TAKES * one);
        // If the host's file is no machine the caller finds that too.
        costs.transfer = way(&costs, one).ok();
    }
    costs
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(1.0).max(1.0)
}

/// Nanoseconds of one `act`: the median of batches.
fn each(times: u32, mut act: impl FnMut()) -> f64 {
    const BATCHES: u32 = 20;
    let batch = times / BATCHES;
    let one = |_| {
        let start = stamp::now();
        (0..batch).for_each(|_| act());
        stamp::now().saturating_sub(start) as f64 / f64::from(batch)
    };
    median((0..BATCHES).map(one).collect())
}

/// Sleeps while `word` is `value`.
fn wait(word: &U32, value: u32) {
    while word.load(Acquire) == value {
        Linux::park(word, value, None);
    }
}

/// Spins until `is_so`. The other thread may have lost its CPU, or have none of its own.
fn await_that(is_so: impl Fn() -> bool) {
    for round in 1_u32.. {
        if is_so() {
            return;
        }
        if round.is_multiple_of(10_000) { thread::yield_now() } else { spin_loop() }
    }
}

/// The median time of a turn, of `turns` that `act` plays one after another.
fn each_turn(turns: u32, mut act: impl FnMut(u32)) -> f64 {
    const BATCH: u32 = 100;
    let mut batches = Vec::new();
    let mut start = stamp::now();
    for turn in 0..turns {
        act(turn);
        if (turn + 1).is_multiple_of(BATCH) {
            let now = stamp::now();
            batches.push(now.saturating_sub(start) as f64 / f64::from(BATCH));
            start = now;
        }
    }
    median(batches)
}

/// Which of `cpus` is another core that shares the last-level cache of the first.
fn neighbour(cpus: &[usize]) -> Option<usize> {
    let listed = |file: String| -> Option<Vec<usize>> {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{}/{file}", cpus.first()?)).ok()?;
        let part = |part: &str| {
            let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
            Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
        };
        Some(text.split(',').filter_map(part).flatten().collect())
    };
    let siblings = listed("topology/thread_siblings_list".to_owned())?;
    let shared = (0..8).rev().find_map(|index| listed(format!("cache/index{index}/shared_cpu_list")))?;
    cpus.iter().position(|cpu| shared.contains(cpu) && !siblings.contains(cpu))
}

/// The index of the CPU on which thread `me` of two runs.
fn place(me: u32, other: usize) -> usize {
    if me == 0 { 0 } else { other }
}

/// Hand-overs that are measured, of each kind.
const TURNS: u32 = 4_000;

/// A hand-over between two CPUs by a word that both read and change.
fn by_one_word(other: usize) -> f64 {
    let turn = Padded(U32::default());
    let play = |me: u32| {
        Linux::pin(place(me, other));
        each_turn(TURNS, |round| {
            await_that(|| turn.load(Acquire) == 2 * round + me);
            turn.fetch_add(1, AcqRel);
        })
    };
    both(play)[0] / 2.0
}

/// The same by two words, each changed by one of them.
fn by_two_words(other: usize) -> f64 {
    let turns = [Padded(U32::default()), Padded(U32::default())];
    let play = |me: u32| {
        Linux::pin(place(me, other));
        let (mine, others) = (&turns[me as usize], &turns[1 - me as usize]);
        each_turn(TURNS, |round| {
            await_that(|| others.load(Acquire) == round + me);
            mine.fetch_add(1, AcqRel);
        })
    };
    both(play)[0] / 2.0
}

/// A wake-up, a wait and a switch, of two threads that share a CPU.
fn hand_over() -> f64 {
    const TURNS: u32 = 500;
    let turns = [Padded(U32::default()), Padded(U32::default())];
    let play = |me: u32| {
        Linux::pin(0);
        let (mine, other) = (&turns[me as usize], &turns[1 - me as usize]);
        let give = |round: u32| {
            other.store(round + 1, Release);
            Linux::unpark(other);
        };
        each_turn(TURNS, |round| {
            if me == 0 {
                give(round);
            }
            wait(mine, round);
            if me == 1 {
                give(round);
            }
        })
    };
    both(play)[0] / 2.0
}

/// The waker's call, and the time until the woken thread runs, on the CPU `other`, which has idled
/// for `idle`.
fn wake_up(other: usize, idle: Duration, times: u32) -> (f64, f64) {
    let (word, slept) = (Padded(U32::default()), Padded(U32::default()));
    let ran = Padded(AtomicU64::new(0));
    let play = |me: u32| {
        Linux::pin(place(me, other));
        let (mut calls, mut ways) = (Vec::new(), Vec::new());
        for round in 0..times {
            if me == 1 {
                slept.store(round + 1, Release);
                wait(&word, round);
                ran.store(stamp::now(), Release);
                continue;
            }
            await_that(|| slept.load(Acquire) == round + 1);
            let begin = stamp::now();
            await_that(|| stamp::now().saturating_sub(begin) >= idle.as_nanos() as u64);
            ran.store(0, Release);
            word.store(round + 1, Release);
            let start = stamp::now();
            Linux::unpark(&word);
            calls.push(stamp::now().saturating_sub(start) as f64);
            await_that(|| ran.load(Acquire) != 0);
            ways.push(ran.load(Acquire).saturating_sub(start) as f64);
        }
        (median(calls), median(ways))
    };
    both(play)[0]
}

/// Whether a CPU that runs out of work takes a waiting thread of another at once. If not, a tick
/// hands it one later, to which it must find the CPU idle: kernels differ, and weigh it.
///
/// One thread naps again and again on the CPU `there`. Two compute on `here`, and may move: one of
/// them is there after few naps, or after many.
fn idle_pulls(here: usize, there: usize) -> bool {
    /// A thread that has just run does not move for half a millisecond: five naps. In as few the
    /// next tick comes now and then.
    const FEW: u32 = 7;
    const ATTEMPTS: usize = 11;
    let attempt = |_| {
        let (naps, may_move, moved) = (U32::default(), U32::default(), U32::default());
        // A thread that yields has run a moment ago, whenever another looks.
        let spin_until = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                spin_loop();
            }
        };
        let busy = || {
            run_on(&[here]);
            let start = stamp::now();
            let since = || Duration::from_nanos(stamp::now().saturating_sub(start));
            // Both are known to the scheduler as threads that compute.
            spin_until(&|| since() > Duration::from_millis(5));
            run_on(&[here, there]);
            if may_move.fetch_add(1, AcqRel) == 1 {
                naps.store(0, Release);
            }
            let is_over = || moved.load(Acquire) != 0 || since() > Duration::from_millis(50);
            spin_until(&|| Linux::cpu() as usize != here || is_over());
            moved.store(1, Release);
        };
        let nap = || {
            run_on(&[there]);
            while moved.load(Acquire) == 0 {
                thread::sleep(Duration::from_micros(50));
                naps.fetch_add(1, AcqRel);
            }
        };
        thread::scope(|scope| {
            scope.spawn(nap);
            scope.spawn(busy);
            scope.spawn(busy);
        });
        f64::from(naps.load(Acquire))
    };
    median((0..ATTEMPTS).map(attempt).collect()) <= f64::from(FEW)
}

/// What two threads return that run at the same time.
fn both<R: Send + Copy>(play: impl Fn(u32) -> R + Sync) -> [R; 2] {
    thread::scope(|scope| {
        let play = &play;
        let other = scope.spawn(move || play(1));
        let first = scope.spawn(move || play(0));
        let end = |thread: thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        [end(first), end(other)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_is_one() {
        let Costs { ghz, pause, rmw, transfer, takes: _, idle_pulls: _, wake_none, yield_call, clock, hand_over, wake } =
            costs();
        let mut all = vec![pause, rmw, wake_none, yield_call, clock, hand_over];
        all.extend(transfer);
        all.extend(wake.into_iter().flat_map(|wake| [wake.call, wake.short, wake.long]));
        assert!(all.iter().all(|ns| (0.1..1e9).contains(ns)) && (0.3..20.0).contains(&ghz), "{ghz} {all:?}");
    }
}
