//! What the two locked instructions of a lock and an unlock cost here, beside `RtMutex` and
//! `Mutex`: nanoseconds a pair, medians of batches.
//!
//! The word of a PI futex names its owner, and the kernel adds a bit to it when somebody waits: so
//! it is taken by a compare-exchange and, unlike an ordinary mutex's, must also be released by one.
//! No mutex on such a word costs less than the first figure.
//!
//! `cargo run --release -p lockyard-work --example two_exchanges`

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use lockyard::{Mutex, RtMutex};

const BATCH: u32 = 1024;
const BATCHES: usize = 20_000;

/// The median batch, per pair.
fn median(mut pair: impl FnMut()) -> f64 {
    let mut batches: Vec<Duration> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..BATCH).for_each(|_| pair());
            start.elapsed()
        })
        .collect();
    batches.sort_unstable();
    batches[BATCHES / 2].as_secs_f64() * 1e9 / f64::from(BATCH)
}

fn main() {
    // Alive for the whole run, asleep: programs with one thread are another case.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let sleeper = std::thread::spawn(move || {
        // An error: the other end is gone, which is the sign to end.
        let _ = stopped.recv();
    });
    let word = AtomicU64::new(0);
    let me = black_box(4711);
    let inheriting = RtMutex::new(());
    let plain = Mutex::new(());
    println!("two compare-exchanges   compare-exchange, subtraction   RtMutex   Mutex");
    for _ in 0..5 {
        let word = black_box(&word);
        let exchanges = median(|| {
            black_box(word.compare_exchange(0, me, Acquire, Relaxed).is_ok());
            black_box(word.compare_exchange(me, 0, Release, Relaxed).is_ok());
        });
        let ordinary = median(|| {
            black_box(word.compare_exchange(0, me, Acquire, Relaxed).is_ok());
            black_box(word.fetch_sub(me, Release) == me);
        });
        let inheriting = median(|| drop(black_box(&inheriting).lock()));
        let plain = median(|| drop(black_box(&plain).lock()));
        println!("{exchanges:>21.2}   {ordinary:>29.2}   {inheriting:>7.2}   {plain:>5.2}");
    }
    drop(stop);
    drop(sleeper.join());
}
