//! A cache: many threads read, few write. [`RwSem`] lets readers in beside each other, and bounds
//! how long a writer waits for them.

use std::collections::HashMap;
use std::thread;

use lockyard::RwSem;

/// Squares, computed once.
#[derive(Default)]
struct Squares {
    known: RwSem<HashMap<u64, u64>>,
}

impl Squares {
    fn of(&self, number: u64) -> u64 {
        if let Some(&square) = self.known.read().get(&number) {
            return square;
        }
        // Of several that miss at the same time, one inserts.
        *self.known.write().entry(number).or_insert_with(|| number * number)
    }
}

pub(crate) fn main() {
    let squares = Squares::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..10_000 {
                    let number = round % 100;
                    assert_eq!(squares.of(number), number * number);
                }
            });
        }
    });
    println!("{} squares are known", squares.known.read().len());
}
