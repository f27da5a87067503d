//! From how long a hand-over between two cores takes on a real machine, a line's way on its file.
//!
//! A hand-over is more than a way: the waiter looks once a PAUSE, and where a load shares the line
//! the change after it needs the line once more. All that is in the model, so the model is asked:
//! which way makes the same hand-over as long?

use lockyard::platform::{Ordering::*, Platform, Word};

use crate::error::Error;
use crate::inside::clock_ps;
use crate::machine::{catalog, host};
use crate::{Config, Sim, Simulation, Start, words};

/// Ways, in nanoseconds, between which hand-overs grow alike, but for the waiter's looks.
const WAYS: (f64, f64) = (30.0, 120.0);
/// How often a guess is tried, and mended.
const GUESSES: u32 = 4;

/// The way of a line with which a hand-over, by a load that spins and a read-modify-write, takes
/// `ns` on this host, with its other `costs`.
///
/// # Errors
/// The host's file cannot be simulated.
pub fn way(costs: &host::Costs, ns: f64) -> Result<f64, Error> {
    let (short, long) = (taken(costs, WAYS.0)?, taken(costs, WAYS.1)?);
    let slope = (long - short) / (WAYS.1 - WAYS.0);
    let (mut guess, mut error) = (WAYS.0, ns - short);
    for _ in 0..GUESSES {
        guess = (guess + error / slope.max(0.1)).max(1.0);
        error = ns - taken(costs, guess)?;
    }
    Ok(guess)
}

/// What a hand-over takes on the host's file with a way of `ns`.
fn taken(costs: &host::Costs, ns: f64) -> Result<f64, Error> {
    const TURNS: u32 = 2_000;
    let machine = catalog::read("this", &host::measured(&host::Costs { transfer: Some(ns), ..*costs }))?;
    let config = Config { start: Start::Together, ..Config::new(machine) };
    let simulation = Simulation::new(&config, 2)?;
    (0..2).for_each(|thread| simulation.assign(thread, thread, true));
    simulation.new_line();
    let turn = simulation.place("turn", words::U32::default())?;
    let ends = std::sync::atomic::AtomicU64::new(0);
    simulation.run(|me| {
        let begin = clock_ps();
        for round in 0..TURNS {
            while turn.load(Acquire) != 2 * round + me as u32 {
                Sim::relax();
            }
            turn.fetch_add(1, AcqRel);
        }
        ends.fetch_max(clock_ps() - begin, std::sync::atomic::Ordering::Relaxed);
    })?;
    Ok(ends.into_inner() as f64 / 1e3 / f64::from(2 * TURNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_found_again_whether_loads_take_lines_or_share_them() {
        let costs = |takes| host::Costs {
            ghz: 2.6,
            pause: 16.0,
            rmw: 9.0,
            transfer: None,
            takes: Some(takes),
            idle_pulls: None,
            wake_none: 140.0,
            yield_call: 300.0,
            clock: 38.0,
            hand_over: 1_400.0,
            wake: None,
        };
        for (takes, ways) in [(true, 0.9..1.5), (false, 1.5..2.5)] {
            for real in [45.0, 70.0, 150.0] {
                let measured = taken(&costs(takes), real).unwrap();
                let found = way(&costs(takes), measured).unwrap();
                assert!((found / real - 1.0).abs() < 0.05, "{takes} {real}: {found}");
                assert!(ways.contains(&(measured / real)), "{takes} {real}: {measured}");
            }
        }
    }
}
