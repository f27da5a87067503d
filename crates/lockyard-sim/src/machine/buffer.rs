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

use super::line::{Asker, NOBODY};
use crate::engine::Engine;

/// A store on its way.
#[derive(Debug)]
struct Store {
    number: u64,
    address: usize,
    line: u32,
    value: u64,
    mask: u64,
    bytes: u8,
    release: bool,
    asked: bool,
}

/// The store buffer of a CPU.
#[derive(Debug, Default)]
pub(crate) struct StoreBuffer {
    stores: VecDeque<Store>,
    /// How many stores ever came in; all below `first` are visible.
    pushed: u64,
    /// Tasks that wait until the buffer has no store below the number.
    waiters: Vec<(u64, u32)>,
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

impl Engine {
    /// Puts a store into the buffer of `cpu` and sees to it that it will become visible.
    pub(crate) fn buffer_store(&mut self, cpu: u32, line: u32, write: Write, release: bool) {
        let buffer = &mut self.cpus[cpu as usize].buffer;
        let Write { address, value, mask, bytes } = write;
        let number = buffer.pushed;
        buffer.stores.push_back(Store { number, address, line, value, mask, bytes, release, asked: false });
        buffer.pushed += 1;
        self.drain(cpu);
    }

    /// Makes visible what can be made visible, and asks for lines that can be asked for.
    pub(crate) fn drain(&mut self, cpu: u32) {
        let core = self.cpus[cpu as usize].core;
        let (weak, now) = (self.model.weak_stores, self.now);
        let mut index = 0;
        while index < self.cpus[cpu as usize].buffer.stores.len() {
            let stores = &self.cpus[cpu as usize].buffer.stores;
            let store = &stores[index];
            let line = store.line;
            let blocked = index > 0 && (!weak || store.release || stores.iter().take(index).any(|e| e.line == line));
            if blocked {
                if !weak {
                    return;
                }
                index += 1;
                continue;
            }
            if !store.asked && self.lines[line].serves(core, true, now) {
                self.complete(cpu, index);
                continue;
            }
            if !store.asked {
                let asker = Asker::Buffer { cpu, store: store.number };
                self.cpus[cpu as usize].buffer.stores[index].asked = true;
                self.request(line, asker, core, true);
            }
            index += 1;
        }
    }

    /// The line of store `number` has come.
    pub(crate) fn store_granted(&mut self, cpu: u32, number: u64) {
        let stores = &self.cpus[cpu as usize].buffer.stores;
        if let Some(index) = stores.iter().position(|store| store.number == number) {
            self.complete(cpu, index);
            self.drain(cpu);
        }
    }

    fn complete(&mut self, cpu: u32, index: usize) {
        let Some(store) = self.cpus[cpu as usize].buffer.stores.remove(index) else { return };
        let Store { address, value, mask, bytes, line, .. } = store;
        // SAFETY: the word was alive when its thread stored to it. It still is: a thread that may
        // free it has synchronised with this store, or is its own thread, whose stores to its stack
        // do not wait here (`Host::store`).
        unsafe { Write { address, value, mask, bytes }.perform() };
        self.written(line, cpu);
        let buffer = &mut self.cpus[cpu as usize].buffer;
        if buffer.waiters.is_empty() {
            return;
        }
        let mut woken = Vec::new();
        let first = buffer.stores.iter().map(|store| store.number).min().unwrap_or(u64::MAX);
        buffer.waiters.retain(|&(number, task)| {
            let done = first >= number;
            if done {
                woken.push(task);
            }
            !done
        });
        for task in woken {
            if task == NOBODY {
                // The scheduler waits to switch.
                if self.cpus[cpu as usize].need_resched {
                    self.reschedule(cpu);
                }
            } else {
                self.wake_at(self.now, task);
            }
        }
    }

    /// `task` goes on when the buffer of `cpu` has no store below `number`; with `NOBODY` the
    /// scheduler does.
    pub(crate) fn await_stores(&mut self, cpu: u32, number: u64, task: u32) {
        self.cpus[cpu as usize].buffer.waiters.push((number, task));
    }
}
