//! What the child of a fork keeps of its parent's segment: the place, and one page. In the page it
//! says that it could make no segment of its own, for which it may open no file: it may be in a
//! sandbox, without a file system, or out of descriptors. The rest is zeroes of its own: a signal
//! handler may fork within a call of this library, which goes on in the child where it was.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::layout::{Baseline, LENGTH, PAGE, Shared};
use crate::untold::Refused;

/// Where the page is.
const AT: usize = core::mem::offset_of!(Shared, baseline);

/// Where the last process before this one that had a segment had it, or null.
static KEPT: AtomicPtr<Shared> = AtomicPtr::new(null_mut());

/// `base` is mapped, or null, and nobody's any more. What an older process has left goes.
pub(crate) fn keep(base: *mut Shared) {
    if base.is_null() {
        return;
    }
    let older = KEPT.swap(base, Relaxed);
    if !older.is_null() {
        // SAFETY: mapped since `keep` had it. Calls that were under way in the process before the
        // parent would be in a handler of a handler, each of which has forked.
        let _ = unsafe { munmap(older.cast(), LENGTH) };
    }
    blank(base.cast(), AT);
    blank(base.wrapping_byte_add(AT + PAGE).cast(), LENGTH - AT - PAGE);
}

/// Zeroes take the place of a part of a segment that is mapped. Without memory for that it stays.
pub(crate) fn blank(begin: *mut c_void, length: usize) {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: in place of a mapping of this library's, within its length. References into it are
    // to zeroes now: a valid `Shared` and valid pages, nothing but atomics.
    let _ = unsafe { mmap_anonymous(begin, length, access, flags) };
}

/// This process, the child of a fork, could not make its segment, for the reason `why`.
pub(crate) fn could_not_tell(why: Refused) {
    let kept = KEPT.load(Relaxed);
    if kept.is_null() {
        return;
    }
    // SAFETY: mapped as long as this process lives. Its owner has made the page real, and it holds
    // nothing but atomics.
    let page = unsafe { &*kept.wrapping_byte_add(AT).cast::<Baseline>() };
    page.untold_why.store(why.word(), Relaxed);
    page.untold.fetch_add(1, Release);
}
