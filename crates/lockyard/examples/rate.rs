//! A limit on work in flight: a [`Semaphore`] has as many permits as the service can bear; a
//! request takes what it weighs, waits a bounded time, and is turned away after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lockyard::Semaphore;

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
    let slots = Arc::new(Semaphore::new(CAPACITY));
    let load = Arc::new(Load::default());
    let requests: Vec<_> = (0..64)
        .filter_map(|request: u32| {
            let weight = request % 3 + 1;
            // The permits go with the request to its thread, and come back when it ends.
            let permits = slots.try_acquire_many_for(weight, Duration::from_millis(50))?.into_owned(&slots);
            let load = load.clone();
            Some(thread::spawn(move || load.serve(permits.permits())))
        })
        .collect();
    let served = requests.len();
    requests.into_iter().for_each(|request| request.join().expect("a request is served"));
    assert_eq!(slots.available(), CAPACITY);
    assert!(load.most.load(Relaxed) <= CAPACITY);
    println!("{served} requests served, at most {} units at a time", load.most.load(Relaxed));
}
