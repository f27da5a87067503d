//! Four threads book on a ledger, and a fifth one writes it out now and then, with the lock held:
//!
//! ```text
//! cargo build --release -p lockyard-stat --example ledger
//! lockyard stat -- target/release/examples/ledger
//! ```

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lockyard::{Mutex, RwSem};
use lockyard_stat::Named as _;

struct Bank {
    ledger: Mutex<Vec<u64>>,
    rates: RwSem<[u64; 16]>,
}

fn book(bank: &Bank, amount: u64) {
    let rate = bank.rates.read()[amount as usize % 16];
    bank.ledger.lock().push(amount * rate);
}

/// What takes long, as a file on a slow disk would.
fn write_out(bank: &Bank) -> u64 {
    let mut ledger = bank.ledger.lock();
    thread::sleep(Duration::from_millis(30));
    ledger.drain(..).fold(0, u64::wrapping_add)
}

fn main() {
    let bank = Bank { ledger: Mutex::named("ledger", Vec::new()), rates: RwSem::named("rates", [7; 16]) };
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let (end, stop) = (Instant::now() + Duration::from_secs(seconds), AtomicBool::new(false));
    let total = thread::scope(|scope| {
        for clerk in 1..=4 {
            let (bank, stop) = (&bank, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    book(bank, clerk);
                    thread::sleep(Duration::from_micros(50));
                }
            });
        }
        let mut total = 0u64;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(100));
            total = total.wrapping_add(write_out(&bank));
        }
        stop.store(true, Relaxed);
        total
    });
    println!("booked {}", total.wrapping_add(write_out(&bank)));
}
