//! Which slot a thread has, by the kernel's name of it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Names, and slots below them. Of two threads with one place the later one is found.
static SLOTS: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

fn place(thread: u32) -> &'static AtomicU64 {
    &SLOTS[thread as usize % SLOTS.len()]
}

/// The kernel calls the thread of `slot` so.
pub(crate) fn note(thread: u32, slot: u32) {
    place(thread).store(u64::from(thread) << 32 | u64::from(slot), Relaxed);
}

/// The slot of the thread that the kernel calls so, if that has been noted last at its place.
pub(crate) fn slot_of(thread: u32) -> Option<u32> {
    let found = place(thread).load(Relaxed);
    (found >> 32 == u64::from(thread) && thread != 0).then_some(found as u32)
}
