//! A control loop: a thread of high priority shares its setpoint with a thread of low priority. An
//! [`RtMutex`] lends the priority of the loop to the owner it waits for, and a cycle without the
//! lock uses the setpoint of the cycle before.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lockyard::RtMutex;

const PERIOD: Duration = Duration::from_millis(1);

static SETPOINT: RtMutex<f64> = RtMutex::new(0.0);

/// The loop. (A program of this kind gives its thread a fixed priority first.)
fn control(over: &AtomicBool) -> (u32, f64) {
    let (mut cycles, mut late, mut setpoint, mut output) = (0u32, 0u32, 0.0, 0.0f64);
    let mut next = Instant::now();
    while !over.load(Relaxed) {
        next += PERIOD;
        // A part of the period at most.
        match SETPOINT.try_lock_until(next - PERIOD / 2) {
            Some(value) => setpoint = *value,
            None => late += 1,
        }
        output += (setpoint - output) / 4.0;
        cycles += 1;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    println!("{cycles} cycles, {late} without a new setpoint");
    (cycles, output)
}

pub(crate) fn main() {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let control = scope.spawn(|| control(&over));
        for step in 1..=50 {
            *SETPOINT.lock() = f64::from(step);
            thread::sleep(PERIOD);
        }
        over.store(true, Relaxed);
        let (cycles, output) = control.join().expect("the loop ends");
        assert!(cycles > 0 && (0.0..=50.0).contains(&output));
    });
}
