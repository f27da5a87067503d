//! On AArch64 a store or exchange of a byte or half-word is atomic by itself and coherent with
//! those of the word around it: no neighbour's change is lost, and a load-acquire of the word that
//! reads any byte of a store-release is ordered after it (Flur et al., "Mixed-size Concurrency",
//! POPL 2017; Alglave et al., "Armed Cats", TOPLAS 2021).
//!
//! Two things differ from a read-modify-write of the word. A later load of the word by the same
//! thread may be performed before its store of a part is seen by others: so may any load after any
//! store-release, and no lock relies on more without a fence or an exchange. And an acquire that
//! reads one lane is ordered after the releases of that lane only: every release here is of the
//! lane, or of the whole word, that its acquire exchanges.
//!
//! Exchanges of lanes are the processor's own where the compiler may assume the large system
//! extensions (`-C target-feature=+lse`). Else they are those of the whole word, which the compiler
//! makes: on Linux they find out at run time whether it has them.

use core::arch::asm;

use super::{LaneWord, U32};
use crate::platform::{Lanes, Ordering, Pair, Platform};

/// Whether a store has to release. A sequentially consistent one would have to do more.
#[inline(always)]
fn releases(order: Ordering) -> bool {
    debug_assert!(!matches!(order, Ordering::SeqCst));
    !matches!(order, Ordering::Relaxed)
}

/// Asks for the line of `place`.
#[inline(always)]
pub(super) fn prefetch<T>(place: *const T) {
    // SAFETY: a hint: it reads nothing into the program, and no address faults.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly)) };
}

impl Lanes for LaneWord {
    // No asm block below has `nomem`: neither earlier nor later accesses move across it in the
    // compiler. The instructions that acquire and release do the rest.

    #[inline(always)]
    fn store_byte(&self, lane: u32, value: u8, order: Ordering) {
        debug_assert!(lane < 4);
        let byte = self.0.as_ptr().cast::<u8>().wrapping_add(lane as usize);
        // SAFETY: `byte` is inside the 4 bytes of this word (lane < 4); see the module text for why
        // this is an access of the one atomic.
        unsafe {
            if releases(order) {
                asm!("stlrb {:w}, [{}]", in(reg) u32::from(value), in(reg) byte, options(nostack, preserves_flags));
            } else {
                asm!("strb {:w}, [{}]", in(reg) u32::from(value), in(reg) byte, options(nostack, preserves_flags));
            }
        }
    }

    #[inline(always)]
    fn store_half(&self, lane: u32, value: u16, order: Ordering) {
        debug_assert!(lane < 2);
        let half = self.0.as_ptr().cast::<u16>().wrapping_add(lane as usize);
        // SAFETY: `half` is an aligned half of this word (lane < 2); otherwise as in `store_byte`.
        unsafe {
            if releases(order) {
                asm!("stlrh {:w}, [{}]", in(reg) u32::from(value), in(reg) half, options(nostack, preserves_flags));
            } else {
                asm!("strh {:w}, [{}]", in(reg) u32::from(value), in(reg) half, options(nostack, preserves_flags));
            }
        }
    }

    #[cfg(target_feature = "lse")]
    #[inline(always)]
    fn compare_exchange_byte(&self, lane: u32, current: u8, new: u8, _ok: Ordering, _no: Ordering) -> Result<u8, u8> {
        debug_assert!(lane < 4);
        let byte = self.0.as_ptr().cast::<u8>().wrapping_add(lane as usize);
        let found: u32;
        // SAFETY: as in `store_byte`.
        unsafe {
            asm!("casalb {:w}, {:w}, [{}]", inout(reg) u32::from(current) => found, in(reg) u32::from(new), in(reg) byte,
                options(nostack, preserves_flags));
        }
        let found = found as u8;
        if found == current { Ok(found) } else { Err(found) }
    }

    #[cfg(target_feature = "lse")]
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
            asm!("casalh {:w}, {:w}, [{}]", inout(reg) u32::from(current) => found, in(reg) u32::from(new), in(reg) half,
                options(nostack, preserves_flags));
        }
        let found = found as u16;
        if found == current { Ok(found) } else { Err(found) }
    }

    #[cfg(target_feature = "lse")]
    #[inline(always)]
    fn take_beside(&self, beside: u8) -> Option<u8> {
        let free = u16::from(beside) << 8;
        self.compare_exchange_half(0, free, free | 1, Ordering::Acquire, Ordering::Relaxed).is_ok().then_some(beside)
    }

    #[cfg(target_feature = "lse")]
    #[inline(always)]
    fn swap_half(&self, lane: u32, value: u16, _order: Ordering) -> u16 {
        debug_assert!(lane < 2);
        let half = self.0.as_ptr().cast::<u16>().wrapping_add(lane as usize);
        let old: u32;
        // SAFETY: as in `store_byte`, with lane < 2.
        unsafe {
            asm!("swpalh {:w}, {:w}, [{}]", in(reg) u32::from(value), lateout(reg) old, in(reg) half,
                options(nostack, preserves_flags));
        }
        old as u16
    }
}

/// Whether both halves of a pair can be exchanged in one step.
pub const PAIRS: bool = true;

/// Reads both halves as one value.
#[inline(always)]
pub fn pair_load<P: Platform<U32 = U32, Lanes = LaneWord>>(pair: &Pair<P>) -> u64 {
    let value: u64;
    // SAFETY: a pair is 8 bytes, aligned to 8, which makes a plain load of all of them atomic. As
    // for lanes, it is one opaque operation on both atomics to the compiler.
    unsafe {
        asm!("ldr {}, [{}]", out(reg) value, in(reg) pair, options(nostack, preserves_flags));
    }
    value
}

/// Exchanges both halves in one step.
///
/// # Errors
/// The value found.
#[inline(always)]
pub fn pair_exchange<P: Platform<U32 = U32, Lanes = LaneWord>>(
    pair: &Pair<P>,
    current: u64,
    new: u64,
    _success: Ordering,
) -> Result<u64, u64> {
    let found: u64;
    // SAFETY: as in `pair_load`. The exchange is atomic against every access that overlaps it; it
    // acquires and releases, whatever was asked for.
    #[cfg(target_feature = "lse")]
    unsafe {
        asm!("casal {}, {}, [{}]", inout(reg) current => found, in(reg) new, in(reg) pair,
            options(nostack, preserves_flags));
    }
    // SAFETY: as above. The loop ends when no other thread has written between its two ends.
    #[cfg(not(target_feature = "lse"))]
    unsafe {
        asm!(
            "2:",
            "ldaxr {found}, [{pair}]",
            "cmp {found}, {current}",
            "b.ne 3f",
            "stlxr {failed:w}, {new}, [{pair}]",
            "cbnz {failed:w}, 2b",
            "3:",
            found = out(reg) found,
            failed = out(reg) _,
            pair = in(reg) pair,
            current = in(reg) current,
            new = in(reg) new,
            options(nostack),
        );
    }
    if found == current { Ok(found) } else { Err(found) }
}
