//! Store buffers: a store is cheap for the one who makes it and late for the others
//! (`spec/simulation.md` 4.3).
//!
//! A store to a line that the core owns, with nothing waiting in front of it, is done at once. Any
//! other waits in the buffer of its CPU: the thread goes on after one cycle, its own loads see the
//! value, everybody else sees it when ownership of the line arrives. On x86-64 stores become
//! visible in order, one request at a time. Where stores are weakly ordered, plain stores ask at
//! once and complete as they come; a release store waits for all earlier ones; stores to one line
//! keep their order.
//!
//! A read-modify-write and a full fence wait until the buffer is empty (where stores are weak:
//! those that release). A CPU's buffer is empty before its thread is switched out. The heavy half
//! of the asymmetric fence waits until what was in any buffer at its interrupt has become visible.

use std::collections::VecDeque;

/// A store on its way.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) number: u64,
    pub(crate) address: usize,
    pub(crate) line: u32,
    pub(crate) value: u64,
    pub(crate) mask: u64,
    pub(crate) bytes: u8,
    pub(crate) release: bool,
    pub(crate) asked: bool,
}

/// The store buffer of a CPU.
#[derive(Debug, Default)]
pub(crate) struct StoreBuffer {
    pub(crate) stores: VecDeque<Store>,
    /// How many stores ever came in; all below `first` are visible.
    pub(crate) pushed: u64,
    /// Tasks that wait until the buffer has no store below the number.
    pub(crate) waiters: Vec<(u64, u32)>,
}

impl StoreBuffer {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.stores.len()
    }

    /// The number of the oldest store.
    pub(crate) fn oldest(&self) -> u64 {
        self.stores.iter().map(|store| store.number).min().unwrap_or(self.pushed)
    }

    /// Whether a store to `line` is on its way.
    pub(crate) fn has_line(&self, line: u32) -> bool {
        self.stores.iter().any(|store| store.line == line)
    }

    /// The number that the next store will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.pushed
    }

    /// Whether a store below `number` is still on its way.
    pub(crate) fn has_before(&self, number: u64) -> bool {
        self.stores.iter().any(|store| store.number < number)
    }

    /// The value a load of `address` sees, if a store to it is waiting: memory's `value` with the
    /// stores applied. `None` if there is none; `Some(Err(()))` if one covers the word only in part
    /// and the load must wait.
    pub(crate) fn forward(&self, address: usize, full: u64, mut value: u64) -> Option<Result<u64, ()>> {
        let mut found = false;
        for store in self.stores.iter().filter(|store| store.address == address) {
            if store.mask != full {
                return Some(Err(()));
            }
            found = true;
            value = store.value;
        }
        found.then_some(Ok(value))
    }
}

/// What a store writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) address: usize,
    pub(crate) value: u64,
    pub(crate) mask: u64,
    pub(crate) bytes: u8,
}

impl Write {
    /// Writes to the host's memory.
    ///
    /// # Safety
    /// `address` is that of a live, aligned word of `bytes` bytes (4 or 8) that only this
    /// simulation touches.
    #[inline(always)]
    pub(crate) unsafe fn perform(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.bytes == 4 {
                let word = self.address as *mut u32;
                *word = *word & !(self.mask as u32) | self.value as u32;
            } else {
                let word = self.address as *mut u64;
                *word = *word & !self.mask | self.value;
            }
        }
    }
}
