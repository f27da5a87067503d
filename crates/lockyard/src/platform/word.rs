//! Words: atomics as the seam has them, their lanes, and two of them as one.

use super::{ConstPlatform, Ordering, Platform};

/// An atomic word of value type `V` (`u32` or `u64`).
///
/// The operations are those of `core::sync::atomic`, with the same meaning and the same panics (a
/// store with an acquire ordering, a load with a release ordering). `Default` is the word with
/// value zero.
pub trait Word<V>: Default + Send + Sync + 'static {
    /// Asks for the word's cache line, for a load that follows: a hint, without a wait. A processor
    /// has at least eight lines on their way at a time.
    #[inline(always)]
    fn prefetch(&self) {}
    /// Reads the value.
    fn load(&self, order: Ordering) -> V;
    /// Writes the value.
    fn store(&self, value: V, order: Ordering);
    /// Writes `value` and returns the old one.
    fn swap(&self, value: V, order: Ordering) -> V;
    /// Writes `new` if the value is `current`. `Ok(current)` on success, `Err(actual)` otherwise.
    ///
    /// # Errors
    /// The value found, when it was not `current`.
    fn compare_exchange(&self, current: V, new: V, success: Ordering, failure: Ordering) -> Result<V, V>;
    /// As [`Word::compare_exchange`], but may fail spuriously: for use in loops.
    ///
    /// # Errors
    /// The value found.
    fn compare_exchange_weak(&self, current: V, new: V, success: Ordering, failure: Ordering) -> Result<V, V>;
    /// Adds, wrapping; returns the old value.
    fn fetch_add(&self, value: V, order: Ordering) -> V;
    /// Subtracts, wrapping; returns the old value.
    fn fetch_sub(&self, value: V, order: Ordering) -> V;
    /// Bitwise or; returns the old value.
    fn fetch_or(&self, value: V, order: Ordering) -> V;
    /// Bitwise and; returns the old value.
    fn fetch_and(&self, value: V, order: Ordering) -> V;
}

/// A 32-bit word whose bytes and half-words can be operated on alone.
///
/// **Meaning.** Every lane operation is a 32-bit read-modify-write that changes one lane and
/// preserves the others. Rust does not define racing atomics of different sizes on the same bytes;
/// with this meaning there is only one size. A machine whose sub-word instructions are
/// indistinguishable from that (x86-64) may use them, the provided methods are the whole-word form
/// for everybody else.
///
/// Lane 0 holds the least significant bits.
pub trait Lanes: Word<u32> {
    /// Stores byte lane `lane` (0 to 3).
    #[inline]
    fn store_byte(&self, lane: u32, value: u8, order: Ordering) {
        let shift = lane * 8;
        let mut word = self.load(Ordering::Relaxed);
        loop {
            let new = word & !(0xff << shift) | u32::from(value) << shift;
            match self.compare_exchange_weak(word, new, order, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Stores half-word lane `lane` (0 or 1).
    #[inline]
    fn store_half(&self, lane: u32, value: u16, order: Ordering) {
        let shift = lane * 16;
        let mut word = self.load(Ordering::Relaxed);
        loop {
            let new = word & !(0xffff << shift) | u32::from(value) << shift;
            match self.compare_exchange_weak(word, new, order, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => word = found,
            }
        }
    }

    /// Compare-exchange of byte lane `lane` (0 to 3). Fails only if that lane differs.
    ///
    /// # Errors
    /// The lane's value, when it was not `current`.
    #[inline]
    fn compare_exchange_byte(
        &self,
        lane: u32,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        let shift = lane * 8;
        let mut word = self.load(failure);
        loop {
            let found = (word >> shift) as u8;
            if found != current {
                return Err(found);
            }
            let next = word & !(0xff << shift) | u32::from(new) << shift;
            match self.compare_exchange_weak(word, next, success, failure) {
                Ok(_) => return Ok(current),
                Err(seen) => word = seen,
            }
        }
    }

    /// Compare-exchange of half-word lane `lane` (0 or 1). Fails only if that lane differs.
    ///
    /// # Errors
    /// The lane's value, when it was not `current`.
    #[inline]
    fn compare_exchange_half(
        &self,
        lane: u32,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        let shift = lane * 16;
        let mut word = self.load(failure);
        loop {
            let found = (word >> shift) as u16;
            if found != current {
                return Err(found);
            }
            let next = word & !(0xffff << shift) | u32::from(new) << shift;
            match self.compare_exchange_weak(word, next, success, failure) {
                Ok(_) => return Ok(current),
                Err(seen) => word = seen,
            }
        }
    }

    /// Exchanges byte lane 0 from 0 to 1, if byte lane 1 is `beside` then, or was a moment before
    /// that. `Some`: byte lane 1 after that, or later. Acquire.
    ///
    /// A processor may forward its own store of a byte to loads of that byte only. Where a load or
    /// an exchange of more waits for the store (AMD Zen), two steps are faster than one.
    #[inline]
    fn take_beside(&self, beside: u8) -> Option<u8> {
        let mut word = self.load(Ordering::Relaxed);
        while word & 0xffff == u32::from(beside) << 8 {
            match self.compare_exchange_weak(word, word | 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(beside),
                Err(found) => word = found,
            }
        }
        None
    }

    /// Byte lanes 1 and 2. Relaxed.
    #[inline]
    #[track_caller]
    fn load_middle(&self) -> u16 {
        (self.load(Ordering::Relaxed) >> 8) as u16
    }

    /// Exchanges byte lane 0 from 0 to `value`, if the other lanes are 0. `Some(true)`: it has.
    /// Acquire.
    ///
    /// In one step, or in several, for the sake of what [`Self::take_beside`] says. Then lane 0 is
    /// `claim`, while this looks at lanes 2 and 3, and after that at lanes 1 and 2, and becomes
    /// `value` if they are 0. `Some(false)`: they are not. Lane 0 is `claim` still, and the caller
    /// is to clear it.
    #[inline]
    #[track_caller]
    fn take_bare(&self, _claim: u8, value: u8) -> Option<bool> {
        let taken = self.compare_exchange(0, value.into(), Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(true)
    }

    /// Swaps half-word lane `lane` (0 or 1); returns the lane's old value.
    #[inline]
    fn swap_half(&self, lane: u32, value: u16, order: Ordering) -> u16 {
        let shift = lane * 16;
        let mut word = self.load(Ordering::Relaxed);
        loop {
            let next = word & !(0xffff << shift) | u32::from(value) << shift;
            match self.compare_exchange_weak(word, next, order, Ordering::Relaxed) {
                Ok(_) => return (word >> shift) as u16,
                Err(seen) => word = seen,
            }
        }
    }
}

/// A word with lanes and its neighbour, which a machine may be able to read and exchange as one
/// value of 64 bits.
///
/// As one value, `low` is the less significant half. **Meaning.** An exchange of the whole is a
/// 64-bit read-modify-write; every operation on a half counts as one that changes that half alone.
/// (See [`Lanes`] for why that has to be said.)
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Pair<P: Platform> {
    /// Bits 0 to 31.
    pub low: P::Lanes,
    /// Bits 32 to 63.
    pub high: P::U32,
}

impl<P: Platform> Default for Pair<P> {
    fn default() -> Self {
        Self { low: P::Lanes::default(), high: P::U32::default() }
    }
}

impl<P: Platform> Pair<P> {
    /// Both zero, in constants.
    pub(crate) const fn new() -> Self
    where
        P: ConstPlatform,
    {
        Self { low: P::Lanes::ZERO, high: P::U32::ZERO }
    }
}

/// Lanes with this value, in constants.
pub(crate) const fn lanes<P: ConstPlatform>(value: u32) -> P::Lanes {
    /// As atomics are, on every processor.
    #[repr(C, align(4))]
    struct Aligned(u32);
    const { assert!(size_of::<P::Lanes>() == 4 && align_of::<P::Lanes>() <= align_of::<Aligned>()) };
    // SAFETY: that they are the same in memory is the platform's promise; size and alignment are
    // looked at above.
    unsafe { core::ptr::from_ref(&Aligned(value)).cast::<P::Lanes>().read() }
}

/// A word that exists in constants, with value zero.
pub trait ConstZero {
    /// The word with value zero.
    #[allow(clippy::declare_interior_mutable_const)] // a constructor: each use makes a new word
    const ZERO: Self;
}
