//! A word to which something can happen between two steps.

use super::with;
use crate::platform::linux::U32;
use crate::platform::{ConstZero, Ordering, Word};

/// A word to which something can happen in the moment before bits are set in it.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Watched(U32);

impl ConstZero for Watched {
    const ZERO: Self = Self(U32::ZERO);
}

impl Word<u32> for Watched {
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    fn swap(&self, value: u32, order: Ordering) -> u32 {
        self.0.swap(value, order)
    }

    fn compare_exchange(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, success, failure)
    }

    fn compare_exchange_weak(&self, current: u32, new: u32, success: Ordering, failure: Ordering) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, success, failure)
    }

    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order)
    }

    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_sub(value, order)
    }

    fn fetch_or(&self, value: u32, order: Ordering) -> u32 {
        if let Some(answer) = with(|state| state.marks.pop_front()) {
            let _ = answer();
        }
        self.0.fetch_or(value, order)
    }

    fn fetch_and(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_and(value, order)
    }
}
