//! On x86-64 a byte or half-word store and compare-exchange on a 32-bit word are what the machine
//! does for "a 32-bit read-modify-write that touches one lane": coherence works on lines, a locked
//! sub-word instruction is atomic against every overlapping one, and a plain store of either cannot
//! lose a neighbour's change.

use super::{LaneWord, U32};
use crate::platform::{Lanes, Ordering, Pair, Platform};

/// Asks for the line of `place`.
#[inline(always)]
pub(super) fn prefetch<T>(place: *const T) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint: it reads nothing into the program, and no address faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
}

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
    fn take_beside(&self, beside: u8) -> Option<u8> {
        let word = self.0.as_ptr().cast::<u8>();
        let byte = || {
            let value: u32;
            // SAFETY: byte lane 1 of this word; otherwise as in `store_byte`.
            unsafe {
                core::arch::asm!(
                    "movzx {:e}, byte ptr [{} + 1]",
                    out(reg) value, in(reg) word,
                    options(nostack, preserves_flags)
                );
            }
            value as u8
        };
        self.fetch_to_write();
        if byte() != beside {
            return None;
        }
        self.compare_exchange_byte(0, 0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(byte())
    }

    #[inline(always)]
    fn load_middle(&self) -> u16 {
        self.load_half_at::<1>()
    }

    #[inline(always)]
    fn take_bare(&self, claim: u8, value: u8) -> Option<bool> {
        self.fetch_to_write();
        // What it does not see the looks below will.
        if self.load_middle() != 0 {
            return None;
        }
        self.compare_exchange_byte(0, 0, claim, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let bare = self.load_half_at::<2>() | self.load_middle() == 0;
        if bare {
            self.store_byte(0, value, Ordering::Relaxed);
        }
        Some(bare)
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

impl LaneWord {
    /// Bytes `BYTE` and the next one.
    #[inline(always)]
    fn load_half_at<const BYTE: usize>(&self) -> u16 {
        const { assert!(BYTE < 3) };
        let value: u32;
        // SAFETY: two bytes of this word: in one aligned group of 8, so they are one access,
        // although they may not be aligned themselves. Otherwise as in `store_byte`.
        unsafe {
            core::arch::asm!(
                "movzx {:e}, word ptr [{} + {at}]",
                out(reg) value, in(reg) self.0.as_ptr(), at = const BYTE,
                options(nostack, preserves_flags)
            );
        }
        value as u16
    }

    /// Has the line fetched to be written, or an exchange after a look would have to ask for it
    /// once more: so it is on Intel's before 2014, which do nothing here. (Those of 2004 do not
    /// know the instruction.)
    #[inline(always)]
    fn fetch_to_write(&self) {
        // SAFETY: a hint.
        unsafe {
            core::arch::asm!(
                "prefetchw byte ptr [{}]",
                in(reg) self.0.as_ptr(),
                options(nostack, preserves_flags)
            );
        }
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
        core::arch::asm!("mov {}, qword ptr [{}]", out(reg) value, in(reg) pair, options(nostack, preserves_flags));
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
