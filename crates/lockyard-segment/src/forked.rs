//! What the child of a fork keeps of its parent's segment: one page. There it says that it could
//! make no segment of its own, for which it may open no file: it may be in a sandbox, without a
//! file system, or out of descriptors.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use rustix::mm::munmap;

use crate::layout::{Baseline, LENGTH, PAGE, Shared};
use crate::untold::Refused;

/// Where the page is.
const AT: usize = core::mem::offset_of!(Shared, baseline);

/// The page, of the last process before this one that had a segment, or null.
static KEPT: AtomicPtr<Baseline> = AtomicPtr::new(null_mut());

/// The parent's segment in the child of a fork, until it is dropped.
#[derive(Debug)]
pub struct Parents(*mut Shared);

impl Parents {
    /// `base` is mapped, or null, and nobody's any more. The page of an older process goes.
    pub(crate) fn new(base: *mut Shared) -> Self {
        if !base.is_null() {
            unmap(KEPT.swap(base.wrapping_byte_add(AT).cast(), Relaxed).cast(), PAGE);
        }
        Self(base)
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        let base = self.0.cast::<u8>();
        if !base.is_null() {
            unmap(base, AT);
            unmap(base.wrapping_add(AT + PAGE), LENGTH - AT - PAGE);
        }
    }
}

/// Unmaps a part of a parent's segment, if there is one.
fn unmap(begin: *mut u8, length: usize) {
    if !begin.is_null() {
        // SAFETY: `Parents::new` has got the mapping to give away, and its callers have dropped
        // what referred to it. The page that is kept goes in a child with one thread.
        let _ = unsafe { munmap(begin.cast(), length) };
    }
}

/// This process, the child of a fork, could not make its segment, for the reason `why`.
pub(crate) fn could_not_tell(why: Refused) {
    // SAFETY: null, or a page that stays as long as there may be a second thread; its owner has
    // made it real, and it holds nothing but atomics.
    if let Some(page) = unsafe { KEPT.load(Relaxed).as_ref() } {
        page.untold_why.store(why.word(), Relaxed);
        page.untold.fetch_add(1, Release);
    }
}
