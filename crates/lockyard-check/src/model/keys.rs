//! Keys of locks: names for addresses that are the same in every execution.

use std::cell::{Cell, RefCell};

/// The keys of one execution.
#[derive(Default)]
pub(super) struct Keys {
    base: Cell<(usize, usize)>,
    /// Locks elsewhere, in the order in which their keys were asked for.
    strangers: RefCell<Vec<usize>>,
}

impl Keys {
    /// An execution begins.
    pub(super) fn begin(&self) {
        self.strangers.take();
    }

    /// Locks inside these bytes have keys that are the same in every execution.
    pub(super) fn set_base(&self, start: usize, length: usize) {
        self.base.set((start, length));
    }

    /// The key of the lock at `address`.
    pub(super) fn of(&self, address: usize) -> u64 {
        let (start, length) = self.base.get();
        let offset = address.wrapping_sub(start);
        if offset < length {
            return 0x1000 + offset as u64;
        }
        let mut strangers = self.strangers.borrow_mut();
        let known = strangers.iter().position(|stranger| *stranger == address);
        let number = known.unwrap_or_else(|| {
            strangers.push(address);
            strangers.len() - 1
        });
        0x10_0000 + 0x10 * number as u64
    }
}
