//! The atomic words of every real machine: `core::sync::atomic`, and sub-word lanes by the
//! instructions that have them.
//!
//! On x86-64 a byte or half-word store and compare-exchange on a 32-bit word are what the machine
//! does for "a 32-bit read-modify-write that touches one lane": coherence works on lines, a locked
//! sub-word instruction is atomic against every overlapping one, and a plain store of either cannot
//! lose a neighbour's change. They are written in assembly because Rust has no such access on an
//! `AtomicU32`; to the compiler each is an opaque operation on that one atomic. Other architectures
//! use the whole-word forms of [`Lanes`].

// This is where the seam ends: the words are the machine's.
#![allow(clippy::disallowed_types)]

use core::sync::atomic::{AtomicU32, AtomicU64};

use super::{ConstZero, Lanes, Ordering, Word};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{Pair, Platform};

macro_rules! forward {
    ($name:ident, $value:ty, $atomic:ty) => {
        impl Word<$value> for $name {
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

#[cfg(any(not(target_arch = "x86_64"), miri))]
impl Lanes for LaneWord {}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Lanes for LaneWord {
    // Every asm block below lets the compiler assume that memory may change (no `nomem`), so
    // neither earlier nor later accesses move across it; x86-64's own order (TSO; locked
    // instructions are full fences) does the rest for any `Ordering` up to AcqRel, and for SeqCst
    // in the locked ones. A SeqCst byte store would need more and is refused.
    //
    // Values go into whole registers: to move a constant into a part of one waits for whatever made
    // the rest of it.

    #[inline(always)]
    fn store_byte(&self, lane: u32, value: u8, order: Ordering) {
        debug_assert!(lane < 4 && !matches!(order, Ordering::SeqCst));
        let byte = self.0.as_ptr().cast::<u8>().wrapping_add(lane as usize);
        // SAFETY: `byte` is inside the 4 bytes of this word (lane < 4); see the module text for why
        // this is an access of the one atomic.
        unsafe {
            core::arch::asm!("mov byte ptr [{}], {:l}", in(reg) byte, in(reg) u32::from(value), options(nostack, preserves_flags))
        };
    }

    #[inline(always)]
    fn store_half(&self, lane: u32, value: u16, order: Ordering) {
        debug_assert!(lane < 2 && !matches!(order, Ordering::SeqCst));
        let half = self.0.as_ptr().cast::<u16>().wrapping_add(lane as usize);
        // SAFETY: `half` is an aligned half of this word (lane < 2); otherwise as in `store_byte`.
        unsafe {
            core::arch::asm!("mov word ptr [{}], {:x}", in(reg) half, in(reg) u32::from(value), options(nostack, preserves_flags))
        };
    }

    #[inline(always)]
    fn compare_exchange_byte(&self, lane: u32, current: u8, new: u8, _ok: Ordering, _no: Ordering) -> Result<u8, u8> {
        debug_assert!(lane < 4);
        let byte = self.0.as_ptr().cast::<u8>().wrapping_add(lane as usize);
        let found: u32;
        // SAFETY: as in `store_byte`.
        unsafe {
            core::arch::asm!(
                "lock cmpxchg byte ptr [{}], {:l}",
                in(reg) byte, in(reg) u32::from(new), inout("eax") u32::from(current) => found,
                options(nostack)
            );
        }
        let found = found as u8;
        if found == current { Ok(found) } else { Err(found) }
    }

    #[inline(always)]
    fn compare_exchange_half(
        &self,
        lane: u32,
        current: u16,
        new: u16,
        _ok: Ordering,
        _no: Ordering,
    ) -> Result<u16, u16> {
        debug_assert!(lane < 2);
        let half = self.0.as_ptr().cast::<u16>().wrapping_add(lane as usize);
        let found: u32;
        // SAFETY: as in `store_byte`, with lane < 2.
        unsafe {
            core::arch::asm!(
                "lock cmpxchg word ptr [{}], {:x}",
                in(reg) half, in(reg) u32::from(new), inout("eax") u32::from(current) => found,
                options(nostack)
            );
        }
        let found = found as u16;
        if found == current { Ok(found) } else { Err(found) }
    }

    #[inline(always)]
    fn swap_half(&self, lane: u32, value: u16, _order: Ordering) -> u16 {
        debug_assert!(lane < 2);
        let half = self.0.as_ptr().cast::<u16>().wrapping_add(lane as usize);
        let old: u16;
        // SAFETY: as in `store_byte`, with lane < 2.
        unsafe {
            core::arch::asm!(
                "xchg word ptr [{}], {:x}",
                in(reg) half, inout(reg) value => old,
                options(nostack, preserves_flags)
            );
        }
        old
    }
}

/// Whether both halves of a pair can be exchanged in one step.
pub const PAIRS: bool = cfg!(all(target_arch = "x86_64", not(miri)));

/// Reads both halves as one value.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn pair_load<P: Platform<U32 = U32, Lanes = LaneWord>>(pair: &Pair<P>) -> u64 {
    let value: u64;
    // SAFETY: a pair is 8 bytes, aligned to 8, which makes a plain load of all of them atomic. As
    // for lanes, it is one opaque operation on both atomics to the compiler.
    unsafe {
        core::arch::asm!("mov {}, qword ptr [{}]", out(reg) value, in(reg) pair, options(nostack, preserves_flags));
    }
    value
}

/// Exchanges both halves in one step.
///
/// # Errors
/// The value found.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub fn pair_exchange<P: Platform<U32 = U32, Lanes = LaneWord>>(
    pair: &Pair<P>,
    current: u64,
    new: u64,
) -> Result<u64, u64> {
    let found: u64;
    // SAFETY: as in `pair_load`; a locked instruction is atomic against every one that overlaps it.
    unsafe {
        core::arch::asm!(
            "lock cmpxchg qword ptr [{}], {}",
            in(reg) pair, in(reg) new, inout("rax") current => found,
            options(nostack)
        );
    }
    if found == current { Ok(found) } else { Err(found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Native;
    use crate::platform::Ordering::*;

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

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn a_pair_is_its_halves() {
        let pair = Pair::<Native>::default();
        pair.low.store(0x0403_0201, Relaxed);
        pair.high.store(7, Relaxed);
        assert_eq!(pair_load(&pair), 0x0000_0007_0403_0201);
        assert_eq!(pair_exchange(&pair, 7, 0), Err(0x0000_0007_0403_0201));
        pair.low.store_byte(3, 9, Release);
        assert_eq!(pair_exchange(&pair, 0x0000_0007_0903_0201, u64::MAX << 8), Ok(0x0000_0007_0903_0201));
        assert_eq!((pair.low.load(Relaxed), pair.high.load(Relaxed)), (u32::MAX << 8, u32::MAX));
    }
}
