//! The words of the scripted machine: those of the real one, with a place to stop before each
//! operation.

use lockyard::platform::{ConstZero, Lanes, Native, Ordering, Pair, Platform, Word, atomics};

use super::Scripted;
use super::scene::step;

macro_rules! word {
    ($name:ident, $inner:ty, $value:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name($inner);

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:#x}", self.0.load(Ordering::Relaxed))
            }
        }

        #[allow(clippy::declare_interior_mutable_const)] // a constructor
        impl ConstZero for $name {
            const ZERO: Self = Self(<$inner as ConstZero>::ZERO);
        }

        impl Word<$value> for $name {
            fn load(&self, order: Ordering) -> $value {
                step();
                self.0.load(order)
            }

            fn store(&self, value: $value, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            fn swap(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.swap(value, order)
            }

            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                step();
                self.0.compare_exchange(current, new, success, failure)
            }

            fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_add(value, order)
            }

            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_sub(value, order)
            }

            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_or(value, order)
            }

            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                step();
                self.0.fetch_and(value, order)
            }
        }
    };
}

word!(U32, atomics::U32, u32, "The 32-bit atomic.");
word!(U64, atomics::U64, u64, "The 64-bit atomic.");
word!(LaneWord, atomics::LaneWord, u32, "The 32-bit atomic with lanes.");

impl U32 {
    /// The word without steps: for the theatre itself.
    pub(super) fn inner(&self) -> &atomics::U32 {
        &self.0
    }
}

/// Each lane operation is one step, as on a machine that has them.
impl Lanes for LaneWord {
    fn store_byte(&self, lane: u32, value: u8, order: Ordering) {
        step();
        self.0.store_byte(lane, value, order);
    }

    fn store_half(&self, lane: u32, value: u16, order: Ordering) {
        step();
        self.0.store_half(lane, value, order);
    }

    fn compare_exchange_byte(
        &self,
        lane: u32,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        step();
        self.0.compare_exchange_byte(lane, current, new, success, failure)
    }

    fn compare_exchange_half(
        &self,
        lane: u32,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        step();
        self.0.compare_exchange_half(lane, current, new, success, failure)
    }

    fn take_beside(&self, beside: u8) -> Option<u8> {
        // A look and an exchange, as on x86-64. (There follows a second look, for what no thread
        // adds while the byte is taken.)
        step();
        if self.0.load(Ordering::Relaxed) >> 8 & 0xff != u32::from(beside) {
            return None;
        }
        step();
        self.0.compare_exchange_byte(0, 0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some((self.0.load(Ordering::Relaxed) >> 8) as u8)
    }

    fn take_bare(&self, claim: u8, value: u8) -> Option<bool> {
        // As on x86-64.
        if self.load_middle() != 0 {
            return None;
        }
        self.compare_exchange_byte(0, 0, claim, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let bare = self.load(Ordering::Acquire) & !0xff == 0;
        if bare {
            self.store_byte(0, value, Ordering::Relaxed);
        }
        Some(bare)
    }

    fn swap_half(&self, lane: u32, value: u16, order: Ordering) -> u16 {
        step();
        self.0.swap_half(lane, value, order)
    }
}

fn inner(pair: &Pair<Scripted>) -> &Pair<Native> {
    // SAFETY: the scripted words are transparent wrappers of the real ones, so both pairs are the
    // same 8 bytes.
    unsafe { &*core::ptr::from_ref(pair).cast::<Pair<Native>>() }
}

/// Reads a pair in one step.
pub(super) fn pair_load(pair: &Pair<Scripted>) -> u64 {
    step();
    Native::pair_load(inner(pair))
}

/// Exchanges a pair in one step.
pub(super) fn pair_exchange(pair: &Pair<Scripted>, current: u64, new: u64, order: Ordering) -> Result<u64, u64> {
    step();
    Native::pair_exchange(inner(pair), current, new, order)
}
