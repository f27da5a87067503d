//! The atomic words of every real machine: `core::sync::atomic`, and sub-word lanes and pairs of
//! words by the instructions that have them.
//!
//! Those are written in assembly because Rust has no such access on an `AtomicU32`; to the compiler
//! each is an opaque operation on that one atomic. Why the processor's own rules make it one is
//! said for each. Other architectures use the whole-word forms of [`Lanes`](super::Lanes).
//!
//! A processor without atomics of 64 bits has those of the crate `portable-atomic`, which locks for
//! them: there a signal handler must not lock, and a fork in one of several threads may find such a
//! lock held for ever.

// This is where the seam ends: the words are the machine's.
#![allow(clippy::disallowed_types)]

#[cfg(target_has_atomic = "32")]
use core::sync::atomic::AtomicU32;
#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(not(target_has_atomic = "32"))]
use portable_atomic::AtomicU32;
#[cfg(not(target_has_atomic = "64"))]
pub(crate) use portable_atomic::AtomicU64;

use super::{ConstZero, Ordering, Word};

#[cfg_attr(all(target_arch = "x86_64", not(miri)), path = "atomics/x86_64.rs")]
#[cfg_attr(
    all(target_arch = "aarch64", target_pointer_width = "64", target_endian = "little", not(miri)),
    path = "atomics/aarch64.rs"
)]
mod parts;

pub use parts::{PAIRS, pair_exchange, pair_load};

macro_rules! forward {
    ($name:ident, $value:ty, $atomic:ty) => {
        impl Word<$value> for $name {
            #[inline(always)]
            fn prefetch(&self) {
                parts::prefetch(self.0.as_ptr());
            }
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order);
            }
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                ok: Ordering,
                no: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, ok, no)
            }
            #[inline(always)]
            fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                ok: Ordering,
                no: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange_weak(current, new, ok, no)
            }
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, order)
            }
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, order)
            }
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, order)
            }
            #[inline(always)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_and(value, order)
            }
        }

        impl ConstZero for $name {
            const ZERO: Self = Self(<$atomic>::new(0));
        }
    };
}

/// The 32-bit atomic.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct U32(pub(super) AtomicU32);

/// The 64-bit atomic.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct U64(pub(super) AtomicU64);

/// The 32-bit atomic with lanes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LaneWord(pub(super) AtomicU32);

impl U64 {
    /// The word with `value`.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
}

forward!(U32, u32, AtomicU32);
forward!(U64, u64, AtomicU64);
forward!(LaneWord, u32, AtomicU32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Ordering::*;
    use crate::platform::{Lanes, Native, Pair};

    /// Runs the same operations on the sub-word form and on the whole-word form.
    #[test]
    fn lanes_agree_with_the_whole_word_form() {
        #[derive(Default)]
        struct Whole(U32);
        impl Word<u32> for Whole {
            fn load(&self, o: Ordering) -> u32 {
                self.0.load(o)
            }
            fn store(&self, v: u32, o: Ordering) {
                self.0.store(v, o);
            }
            fn swap(&self, v: u32, o: Ordering) -> u32 {
                self.0.swap(v, o)
            }
            fn compare_exchange(&self, c: u32, n: u32, s: Ordering, f: Ordering) -> Result<u32, u32> {
                self.0.compare_exchange(c, n, s, f)
            }
            fn compare_exchange_weak(&self, c: u32, n: u32, s: Ordering, f: Ordering) -> Result<u32, u32> {
                self.0.compare_exchange_weak(c, n, s, f)
            }
            fn fetch_add(&self, v: u32, o: Ordering) -> u32 {
                self.0.fetch_add(v, o)
            }
            fn fetch_sub(&self, v: u32, o: Ordering) -> u32 {
                self.0.fetch_sub(v, o)
            }
            fn fetch_or(&self, v: u32, o: Ordering) -> u32 {
                self.0.fetch_or(v, o)
            }
            fn fetch_and(&self, v: u32, o: Ordering) -> u32 {
                self.0.fetch_and(v, o)
            }
        }
        impl Lanes for Whole {}

        let (lanes, whole) = (LaneWord::default(), Whole::default());
        for word in [0u32, 0x0403_0201, 0xffff_ffff, 0x8000_0001] {
            for lane in 0..4 {
                lanes.store(word, Relaxed);
                whole.store(word, Relaxed);
                lanes.store_byte(lane, 0x5a, Release);
                whole.store_byte(lane, 0x5a, Release);
                assert_eq!(lanes.load(Relaxed), whole.load(Relaxed));
                for current in [0x5a, 0x5b] {
                    let a = lanes.compare_exchange_byte(lane, current, 0x77, AcqRel, Relaxed);
                    assert_eq!(a, whole.compare_exchange_byte(lane, current, 0x77, AcqRel, Relaxed));
                    assert_eq!(lanes.load(Relaxed), whole.load(Relaxed));
                }
            }
            for (beside, locked) in [(0, 0), (2, 0), (2, 1), (0xff, 0)] {
                lanes.store(word & !0xff | locked, Relaxed);
                whole.store(word & !0xff | locked, Relaxed);
                assert_eq!(lanes.take_beside(beside), whole.take_beside(beside));
                assert_eq!(lanes.load(Relaxed), whole.load(Relaxed));
            }
            assert_eq!(lanes.load_middle(), whole.load_middle());
            for lane in 0..2 {
                lanes.store(word, Relaxed);
                whole.store(word, Relaxed);
                lanes.store_half(lane, 0x4711, Release);
                whole.store_half(lane, 0x4711, Release);
                assert_eq!(lanes.swap_half(lane, 0x1234, AcqRel), whole.swap_half(lane, 0x1234, AcqRel));
                for current in [0x1234, 0x4321] {
                    let a = lanes.compare_exchange_half(lane, current, 0xbeef, AcqRel, Relaxed);
                    assert_eq!(a, whole.compare_exchange_half(lane, current, 0xbeef, AcqRel, Relaxed));
                    assert_eq!(lanes.load(Relaxed), whole.load(Relaxed));
                }
            }
        }
    }

    /// Each bit of the word alone, and beside what is looked for.
    #[test]
    fn a_byte_is_taken_only_if_the_word_is_bare() {
        for (bit, locked) in (0..33).flat_map(|bit| [0, 1, 0xff].map(|locked| (bit, locked))) {
            let word = (1_u64 << bit) as u32 | locked;
            let lanes = LaneWord::default();
            lanes.store(word, Relaxed);
            assert_eq!(lanes.load_middle(), (word >> 8) as u16);
            let taken = lanes.take_bare(1, 0xff);
            let left = [word, word | 1, 0xff][taken.map_or(0, |taken| 1 + usize::from(taken))];
            assert_eq!((taken == Some(true), lanes.load(Relaxed)), (word == 0, left), "{word:#x}");
        }
    }

    #[test]
    fn a_pair_is_its_halves() {
        if !PAIRS {
            return;
        }
        let pair = Pair::<Native>::default();
        pair.low.store(0x0403_0201, Relaxed);
        pair.high.store(7, Relaxed);
        assert_eq!(pair_load(&pair), 0x0000_0007_0403_0201);
        assert_eq!(pair_exchange(&pair, 7, 0, AcqRel), Err(0x0000_0007_0403_0201));
        pair.low.store_byte(3, 9, Release);
        assert_eq!(pair_exchange(&pair, 0x0000_0007_0903_0201, u64::MAX << 8, AcqRel), Ok(0x0000_0007_0903_0201));
        assert_eq!((pair.low.load(Relaxed), pair.high.load(Relaxed)), (u32::MAX << 8, u32::MAX));
    }
}
