//! A limit on work in flight: a [`Semaphore`] has as many permits as the service can bear; a
//! request takes what it weighs, waits a bounded time, and is turned away after that.
//!
//! With feature `arc_lock` the permits could go to a thread that outlives this one:
//! `permits.into_owned(&slots)`.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lockyard::{CancellableSemaphore, Semaphore};

const CAPACITY: u32 = 4;

/// What the service does now, and did at most.
#[derive(Default)]
struct Load {
    now: AtomicU32,
    most: AtomicU32,
}

impl Load {
    fn serve(&self, weight: u32) {
        let now = self.now.fetch_add(weight, Relaxed) + weight;
        self.most.fetch_max(now, Relaxed);
        thread::sleep(Duration::from_micros(200));
        self.now.fetch_sub(weight, Relaxed);
    }
}

pub(crate) fn main() {
    let slots = Semaphore::new(CAPACITY);
    let load = Load::default();
    let served = AtomicU32::new(0);
    thread::scope(|scope| {
        for request in 0..64 {
            let weight = request % 3 + 1;
            let Some(permits) = slots.try_acquire_many_for(weight, Duration::from_millis(50)) else { continue };
            // The permits go with the request to its thread, and come back when it ends.
            scope.spawn(|| {
                let permits = permits;
                load.serve(permits.permits());
                served.fetch_add(1, Relaxed);
            });
        }
    });
    assert_eq!(slots.available(), CAPACITY);
    assert!(load.most.load(Relaxed) <= CAPACITY);
    println!("{} requests served, at most {} units at a time", served.load(Relaxed), load.most.load(Relaxed));
}
