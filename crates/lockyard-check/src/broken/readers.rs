//! Reader-writer locks whose waiters poll.

use lockyard::platform::{Ordering::*, Platform, Word};

use crate::lock::{Lock, Shared, Way};
use crate::stage::Stage;

/// The highest bit: held for writing. Below: the number of readers.
const WRITER: u32 = 1 << 31;

/// A reader-writer lock whose waiters poll, that lets readers in whenever no writer holds it, and a
/// writer in beside up to `BESIDE` readers.
#[derive(Debug)]
pub struct Polled<P: Platform, const BESIDE: u32>(P::U32);

/// Lets a writer in beside the last reader.
pub type LeakyReaders<P> = Polled<P, 1>;
/// Excludes, but readers that overlap keep writers out for ever.
pub type ReadersFirst<P> = Polled<P, 0>;

impl<P: Platform, const BESIDE: u32> Default for Polled<P, BESIDE> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Stage, const BESIDE: u32> Lock for Polled<P, BESIDE> {
    type P = P;
    const WAYS: &'static [Way] = &[Way::Write, Way::Read];

    fn lock(&self, way: Way) {
        P::wait_window(|| self.try_lock(way).then_some(()));
    }

    fn try_lock(&self, way: Way) -> bool {
        let word = self.0.load(Relaxed);
        let (open, next) = match way {
            Way::Write => (word <= BESIDE, word | WRITER),
            Way::Read => (word & WRITER == 0, word + 1),
        };
        open && self.0.compare_exchange(word, next, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, way: Way) {
        self.0.fetch_sub(if way == Way::Write { WRITER } else { 1 }, Release);
    }
}

impl<P: Stage, const BESIDE: u32> Shared for Polled<P, BESIDE> {
    unsafe fn downgrade(&self) {
        self.0.fetch_sub(WRITER - 1, Release);
    }
}
