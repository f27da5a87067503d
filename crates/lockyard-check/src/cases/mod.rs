//! The cases. Each is a function of a lock type and names no machine: `conformance!` makes tests of
//! them.
//!
//! | file | what must hold |
//! |---|---|
//! | `exclusion` | nobody is let in who should not be, what one holder writes the next one sees |
//! | `trying` | a try never waits, and a failed one leaves no trace |
//! | `wakeups` | no wake-up is lost |
//! | `fairness` | a waiter gets through, whatever others do |
//! | `timeouts`, `cancelling` | a wait ends when it should, not earlier, and without harm to the others |
//! | `sharing` | readers are inside together; downgrade |
//! | `parking` | a futex hash loses no wake-up, and may grow |
//! | `references` | a count beside a lock is exact, and stands still under it |
//! | `counting` | units are conserved, and each `up` reaches a waiter |
//! | `weighing` | many units are taken in one step, and no size starves another |
//! | `lives` | threads that come and go |
//!
//! Cases have no timing assertions but one ("never early"), do not sleep to wait for something, and
//! end by themselves.

pub mod cancelling;
pub mod counting;
pub mod exclusion;
pub mod fairness;
pub mod lives;
pub mod parking;
pub mod references;
pub mod sharing;
pub mod timeouts;
pub mod trying;
pub mod wakeups;
pub mod weighing;

use crate::data::Data;
use crate::lock::{Lock, Way};
use crate::stage::Stage;

/// A lock and what it protects.
#[derive(Debug)]
pub(crate) struct Guarded<L: Lock<P: Stage>> {
    pub(crate) lock: L,
    pub(crate) data: Data<L::P>,
}

impl<L: Lock<P: Stage>> Default for Guarded<L> {
    fn default() -> Self {
        Self { lock: L::default(), data: Data::default() }
    }
}

impl<L: Lock<P: Stage>> Guarded<L> {
    /// A section of thread `me`, who holds the lock that `way`. Returns how many write sections
    /// that makes.
    pub(crate) fn section(&self, me: usize, way: Way) -> u64 {
        match way {
            Way::Write => self.data.write(me),
            Way::Read => self.data.read(),
        }
        u64::from(way == Way::Write)
    }

    /// After everybody has left: the data is whole, the lock as new.
    pub(crate) fn finish(&self, turns: u64) {
        self.data.finish(turns);
        assert!(self.lock.at_rest(), "something is left in a lock that nobody uses: {}", self.lock.state());
    }
}

/// Every sequence of `length` ways that `L` has.
pub(crate) fn patterns<L: Lock<P: Stage>>(length: usize) -> impl Iterator<Item = Vec<Way>> {
    let ways = L::WAYS.len();
    (0..ways.pow(length as u32))
        .map(move |number| (0..length as u32).map(|place| L::WAYS[number / ways.pow(place) % ways]).collect())
}
