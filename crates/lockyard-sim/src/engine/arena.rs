//! The memory of a simulated program: thread records, the table of sleeping heads, placed objects,
//! the pool of contended hierarchical locks, and stacks.
//!
//! One mapping per simulation, so that the place of everything in it is an offset that is the same
//! on every host: cache-line identity, keys of locks and false sharing follow from offsets and
//! never from host addresses.
//!
//! ```text
//! | heads | thread records | placed objects … | hq pool | guard | stack 0 | guard | stack 1 | …
//! 0                                          stacks
//! ```
//!
//! Mappings are kept for the next simulation of the same host thread: what was used in front of the
//! stacks is zeroed, stacks are left as they are (nothing reads a stack that it has not written).

use core::num::NonZeroUsize;
use std::cell::RefCell;

use corosensei::stack::{Stack, StackPointer};

use crate::error::Error;

const PAGE: usize = 4096;
/// Room for placed objects.
const PLACED: usize = 16 << 20;

/// A mapping.
#[derive(Debug)]
struct Mapping {
    base: usize,
    len: usize,
    /// Where the stacks begin, and how they are spaced.
    stacks: usize,
    stride: usize,
    /// How many stacks have their guard page.
    guarded: usize,
    /// Bytes at the front that may not be zero.
    used: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more.
        unsafe { libc::munmap(self.base as *mut _, self.len) };
    }
}

thread_local! {
    static POOL: RefCell<Vec<Mapping>> = const { RefCell::new(Vec::new()) };
}

/// The memory of one simulation.
#[derive(Debug)]
pub(crate) struct Arena {
    mapping: Option<Mapping>,
    /// End of the placed objects.
    top: usize,
    /// Where there is no more room for them.
    end: usize,
}

/// One stack of an arena.
#[derive(Debug)]
pub(crate) struct TaskStack {
    limit: usize,
    base: usize,
}

// SAFETY: base and limit delimit a range of the arena that belongs to this stack alone; its lowest
// page, above the limit, is a guard page (`Arena::stack` protects it); the arena outlives the
// coroutine that runs on it.
unsafe impl Stack for TaskStack {
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(self.base).expect("not the null page")
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(self.limit).expect("not the null page")
    }
}

impl TaskStack {
    /// The addresses of the stack.
    pub(crate) fn range(&self) -> core::ops::Range<usize> {
        self.limit..self.base
    }
}

impl Arena {
    /// An arena with room for `records` bytes at the front and `stacks` stacks of `stack_bytes`.
    pub(crate) fn new(records: usize, stacks: usize, stack_bytes: usize) -> Result<Self, Error> {
        let front = (records + PLACED).next_multiple_of(PAGE);
        let stride = stack_bytes.next_multiple_of(PAGE) + PAGE;
        let len = front + stacks * stride;
        let pooled = POOL.with_borrow_mut(|pool| {
            let fits = |mapping: &Mapping| mapping.stacks == front && mapping.stride == stride && mapping.len >= len;
            pool.iter().position(fits).map(|index| pool.swap_remove(index))
        });
        let mut mapping = match pooled {
            Some(mapping) => mapping,
            None => Self::map(len, front, stride)?,
        };
        // SAFETY: the front of our own mapping.
        unsafe { core::ptr::write_bytes(mapping.base as *mut u8, 0, mapping.used) };
        mapping.used = records;
        let end = mapping.stacks;
        Ok(Self { mapping: Some(mapping), top: records, end })
    }

    fn map(len: usize, stacks: usize, stride: usize) -> Result<Mapping, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new private mapping anywhere.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            let why = std::io::Error::last_os_error();
            return Err(Error::Memory(format!("cannot map {} MiB for the simulated program: {why}", len >> 20)));
        }
        Ok(Mapping { base: base as usize, len, stacks, stride, guarded: 0, used: 0 })
    }

    fn mapping(&self) -> &Mapping {
        self.mapping.as_ref().expect("taken only when the arena is dropped")
    }

    /// The address of offset 0.
    pub(crate) fn base(&self) -> usize {
        self.mapping().base
    }

    /// Bytes from the base to the end.
    pub(crate) fn len(&self) -> usize {
        self.mapping().len
    }

    /// Room for an object, zeroed. `None` when the arena is full.
    pub(crate) fn place(&mut self, size: usize, align: usize) -> Option<*mut u8> {
        let mapping = self.mapping.as_mut().expect("taken only when the arena is dropped");
        let start = self.top.next_multiple_of(align);
        let end = start.checked_add(size)?;
        if end > self.end {
            return None;
        }
        self.top = end;
        mapping.used = end;
        Some((mapping.base + start) as *mut u8)
    }

    /// Room for an object at the far end, where it moves no other. Not zeroed.
    pub(crate) fn place_last(&mut self, size: usize, align: usize) -> Option<*mut u8> {
        let start = self.end.checked_sub(size)? / align * align;
        if start < self.top {
            return None;
        }
        self.end = start;
        Some((self.base() + start) as *mut u8)
    }

    /// Stack number `index`.
    pub(crate) fn stack(&mut self, index: usize) -> Result<TaskStack, Error> {
        let mapping = self.mapping.as_mut().expect("taken only when the arena is dropped");
        let limit = mapping.base + mapping.stacks + index * mapping.stride;
        if index >= mapping.guarded {
            // SAFETY: the lowest page of a stack that nobody uses yet.
            if unsafe { libc::mprotect(limit as *mut _, PAGE, libc::PROT_NONE) } != 0 {
                let why = std::io::Error::last_os_error();
                return Err(Error::Memory(format!("cannot guard the stack of thread {index}: {why}")));
            }
            mapping.guarded = index + 1;
        }
        Ok(TaskStack { limit, base: limit + mapping.stride })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        const KEPT: usize = 4;
        if let Some(mapping) = self.mapping.take() {
            // During the host thread's end the pool may be gone: then the mapping is dropped here.
            let _ = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.len() < KEPT {
                    pool.push(mapping);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_again_after_reuse() {
        for _ in 0..2 {
            let mut arena = Arena::new(1000, 2, 16 << 10).unwrap();
            let place = arena.place(64, 64).unwrap();
            assert_eq!((place as usize - arena.base()) % 64, 0);
            // SAFETY: 64 bytes were placed.
            unsafe {
                assert_eq!(*place, 0);
                *place = 7;
            }
            assert!(arena.place(usize::MAX / 2, 8).is_none());
            let (a, b) = (arena.stack(0).unwrap(), arena.stack(1).unwrap());
            assert!(a.range().end <= b.range().start);
        }
    }
}
