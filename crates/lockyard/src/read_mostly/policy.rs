//! When a stint begins, and what it teaches.
//!
//! A stint costs a write to the lock's line when it begins, and a look at each seat when it ends.
//! It saves each reader two transfers of the lock's line. So it pays if there are [`PAYS`] times as
//! many reads in it as seats. A reader that was counted in `sem`, and met others there, begins one,
//! every [`EVERY`] << `reluctance` times. A stint that has not paid makes the lock more reluctant;
//! one that has, less. So a lock that is often written tries ever more rarely; one whose readers
//! meet nobody never does.

use core::fmt::Debug;

use crate::event::Event;
use crate::platform::{Ordering::*, Platform, Word};

use super::seats::{self, used};
use super::{FIRST, RawReadMostlyRwSem, TOKEN};

/// Of so many reads that met others, one begins a stint, if the lock is not reluctant.
pub(super) const EVERY: u32 = 16;
/// A stint has paid that had so many reads for each seat.
pub(super) const PAYS: u64 = 4;
/// At the most reluctant, one of `EVERY << RELUCTANT` reads begins a stint.
pub(super) const RELUCTANT: u32 = 16;

/// When readers take places.
pub trait Policy: Copy + Debug + Send + Sync + 'static {
    /// The name that users see.
    const NAME: &'static str;
    /// Whether the lock looks if stints pay.
    const ADAPTS: bool;
}

/// When that pays: for locks of which nothing is known.
#[derive(Debug, Clone, Copy)]
pub struct Adaptive;

impl Policy for Adaptive {
    const NAME: &'static str = "adaptive";
    const ADAPTS: bool = true;
}

/// Whenever no writer holds or waits: for locks that are hardly ever written. A write costs a look
/// at each seat that readers have used.
#[derive(Debug, Clone, Copy)]
pub struct Always;

impl Policy for Always {
    const NAME: &'static str = "always";
    const ADAPTS: bool = false;
}

impl<P: Platform, Y: Policy> RawReadMostlyRwSem<P, Y> {
    /// The caller is counted in `sem`. It met others there, or the policy does not ask.
    pub(super) fn met_others(&self) {
        let Some((seat, number)) = seats::own::<P>() else { return };
        if Y::ADAPTS {
            let met = seat.met.load(Relaxed).wrapping_add(1);
            seat.met.store(met, Relaxed);
            if !met.is_multiple_of(EVERY) || !met.is_multiple_of(EVERY << self.reluctance()) {
                return;
            }
        }
        let before = self.stint.load(Relaxed);
        if before >= FIRST || self.sem.is_contended() {
            return;
        }
        // Release: who takes a place sees what the last writer wrote.
        if self.stint.compare_exchange(before, seats::new_stint(seat, number, before), Release, Relaxed).is_ok() {
            P::count(Event::ReadMostlyOpen, 1);
        }
    }

    pub(super) fn reluctance(&self) -> u32 {
        self.reluctance.load(Relaxed).min(RELUCTANT)
    }

    /// The caller, which holds `sem` for writing, has closed `stint`, and no seat has its token any
    /// more. Has it paid?
    pub(super) fn end(&self, stint: u64) {
        let (mut reads, mut width) = (0, 0);
        for (number, seat) in used::<P>(stint).iter().enumerate() {
            let count = seat.reads.load(Relaxed);
            if (count ^ stint) & TOKEN == 0 {
                reads += count & !TOKEN;
                width = seats::width_for(number);
            }
        }
        let reluctance = self.reluctance();
        let seats = used::<P>(stint).len() as u64;
        let next = match reads >= PAYS * seats {
            true => reluctance.saturating_sub(2),
            // The more readers, the dearer: all of them meet at `sem` now.
            false => (reluctance + seats.ilog2().max(1)).min(RELUCTANT),
        };
        if Y::ADAPTS && next != reluctance {
            self.reluctance.store(next, Relaxed);
        }
        // Release: see the module text.
        self.stint.store(u64::from(width), Release);
    }
}
