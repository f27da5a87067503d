//! Stores on their way from the buffers of CPUs to their lines: see
//! [`buffer`](crate::machine::buffer).

use super::Engine;
use crate::machine::buffer::{Store, Write};
use crate::machine::line::{Asker, NOBODY};

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
