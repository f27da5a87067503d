//! Readers in seats: to take a place, to leave it, to be counted in by a writer.

use crate::platform::record::{SEAT_BITS, Seat, seat_of};
use crate::platform::{Ordering::*, Patience, Platform, Word};

use super::{FIRST, OPEN, Policy, RawReadMostlyRwSem, TOKEN};

/// How long a writer waits for a reader to leave its place, before it counts the reader in.
pub(super) const GAP_NS: u32 = 300;
/// How often it does so in vain.
pub(super) const GAPS: u32 = 4;

/// In `stint`: the logarithm of how many seats are in use.
const WIDTH: u32 = 0x1e;

/// The seat of the calling thread, with its number. `None`: it has no record.
#[inline(always)]
pub(super) fn own<P: Platform>() -> Option<(&'static Seat<P>, usize)> {
    let name = P::id().or_else(|| P::current().map(|me| me.id()))?;
    if name.is_anonymous() { None } else { seat_of(name) }
}

/// A stint that has never been, opened from the seat `number`, after the one that left `before`.
pub(super) fn new_stint<P: Platform>(seat: &Seat<P>, number: usize, before: u64) -> u64 {
    let time = seat.stints.fetch_add(1, Relaxed) + 1;
    let width = width_for(number).max(width_of(before));
    (time << SEAT_BITS | number as u64) << FIRST.trailing_zeros() | u64::from(width) | OPEN
}

/// The width that includes the seat `number`, in its place in `stint`.
pub(super) fn width_for(number: usize) -> u32 {
    (usize::BITS - number.leading_zeros()) << 1
}

fn width_of(stint: u64) -> u32 {
    stint as u32 & WIDTH
}

/// The seats in which there may be readers of `stint`.
pub(super) fn used<P: Platform>(stint: u64) -> &'static [Seat<P>] {
    let seats = P::commons().seats;
    seats.get(..1 << (width_of(stint) >> 1)).unwrap_or(seats)
}

/// Whether a place has the token of `stint`: its reader holds, or tests.
pub(super) fn holds<P: Platform>(stint: u64) -> bool {
    let mut places = used::<P>(stint).iter().flat_map(|seat| &seat.places);
    // Acquire: a writer that finds none sees what those did that have left.
    places.any(|place| place.load(Acquire) == stint & TOKEN)
}

/// The caller has taken a place in the stint called `token`.
#[inline(always)]
fn note<P: Platform>(seat: &Seat<P>, token: u64) {
    let count = seat.reads.load(Relaxed);
    let next = match count ^ token {
        others if others & TOKEN != 0 => token | 1,
        others => count + u64::from(others != !TOKEN),
    };
    seat.reads.store(next, Relaxed);
}

impl<P: Platform, Y: Policy> RawReadMostlyRwSem<P, Y> {
    /// Takes a place, in the stint that the caller has found open. `false`: reads by `sem`.
    #[inline]
    pub(super) fn sit_down(&self, stint: u64) -> bool {
        let Some((seat, number)) = own::<P>() else { return false };
        if width_for(number) > width_of(stint) && !self.widen(stint, number) {
            return false;
        }
        let Some(place) = seat.places.iter().find(|place| place.load(Relaxed) == 0) else { return false };
        let token = stint & TOKEN;
        // A compare-exchange: a signal handler, or a thread with the same seat, may be first.
        // Relaxed: what matters is the fence.
        if place.compare_exchange(0, token, Relaxed, Relaxed).is_err() {
            return false;
        }
        P::fence_after_update();
        // Acquire: what the last writer wrote.
        if (self.stint.load(Acquire) ^ stint) & (TOKEN | OPEN) == 0 {
            note(seat, token);
            return true;
        }
        // It is gone: we are counted in.
        place.compare_exchange(token, 0, Release, Acquire).is_err()
    }

    /// The seats of `stint` are to include `number`. `false`: it is closed.
    #[cold]
    fn widen(&self, stint: u64, number: usize) -> bool {
        let mut found = stint;
        while (found ^ stint) & (TOKEN | OPEN) == 0 {
            if width_for(number) <= width_of(found) {
                return true;
            }
            let wider = found & !u64::from(WIDTH) | u64::from(width_for(number));
            match self.stint.compare_exchange_weak(found, wider, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => found = other,
            }
        }
        false
    }

    /// Leaves a place of the caller's seat in `stint`. `false`: there is none.
    #[inline]
    pub(super) fn stand_up(&self, stint: u64) -> bool {
        let token = stint & TOKEN;
        own::<P>().is_some_and(|(seat, _)| {
            let leave = |place: &P::U64| {
                // Acquire: who finds that a writer has taken the token is counted.
                place.load(Acquire) == token && place.compare_exchange(token, 0, Release, Acquire).is_ok()
            };
            seat.places.iter().any(leave)
        })
    }

    /// The caller, which holds `sem` for writing and has shut `stint`, counts in whoever stays in a
    /// place. How many.
    pub(super) fn count_in(&self, stint: u64) -> i64 {
        let token = stint & TOKEN;
        let (mut moved, mut gaps, mut spare) = (0, GAPS, false);
        for place in used::<P>(stint).iter().flat_map(|seat| &seat.places) {
            // Acquire: what its reader did there.
            let left = || (place.load(Acquire) != token).then_some(());
            if left().is_some() || gaps > 0 && P::spin(Patience::ns(GAP_NS), left).is_some() {
                continue;
            }
            gaps = gaps.saturating_sub(1);
            if !spare {
                // SAFETY: the caller holds `sem` for writing, and either downgrades or takes out
                // the spare one below.
                unsafe { self.sem.admit_reader() };
            }
            let taken = place.compare_exchange(token, 0, Release, Acquire).is_ok();
            moved += i64::from(taken);
            spare = !taken;
        }
        if spare {
            // SAFETY: admitted above, for nobody.
            unsafe { self.sem.read_release() };
        }
        moved
    }
}
