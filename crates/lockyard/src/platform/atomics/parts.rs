//! Where no instruction for parts of a word is known: whole words, no exchange of pairs, no hints.

use super::{LaneWord, U32};
use crate::platform::{Lanes, Ordering, Pair, Platform, Word};

impl Lanes for LaneWord {}

/// Nothing.
#[inline(always)]
pub(super) fn prefetch<T>(_place: *const T) {}

/// Whether both halves of a pair can be exchanged in one step.
pub const PAIRS: bool = false;

/// Reads both halves, one after the other.
pub fn pair_load<P: Platform<U32 = U32, Lanes = LaneWord>>(pair: &Pair<P>) -> u64 {
    u64::from(pair.high.load(Ordering::Relaxed)) << 32 | u64::from(pair.low.load(Ordering::Relaxed))
}

/// Always fails.
///
/// # Errors
/// The value found.
pub fn pair_exchange<P: Platform<U32 = U32, Lanes = LaneWord>>(
    pair: &Pair<P>,
    _current: u64,
    _new: u64,
    _success: Ordering,
) -> Result<u64, u64> {
    Err(pair_load(pair))
}
