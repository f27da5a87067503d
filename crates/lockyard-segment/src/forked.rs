//! What the child of a fork keeps of its parent's segment: the place, and one page. In the page it
//! says that it could make no segment of its own, for which it may open no file: it may be in a
//! sandbox, without a file system, or out of descriptors. The rest is zeroes of its own: a signal
//! handler may fork within a call of this library, which goes on in the child where it was.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use lockyard::platform::linux::threads;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::layout::{Baseline, LENGTH, PAGE, Shared, THREADS_OFFSET};
use crate::untold::Refused;

/// Where the page is.
const AT: usize = core::mem::offset_of!(Shared, baseline);

/// Where the last process before this one that had a segment had it, or null; and how much of that
/// is mapped.
static KEPT: AtomicPtr<Shared> = AtomicPtr::new(null_mut());
static LENGTH_KEPT: AtomicUsize = AtomicUsize::new(0);

/// `shared` is the parent's, and nobody's any more. Zeroes take the place of what calls may refer
/// to: all but pages that no thread has had, and tapes that nobody has written. What an older
/// process has left goes.
pub(crate) fn keep(shared: &Shared) {
    let base = core::ptr::from_ref(shared).cast_mut();
    let is_recorded = shared.header.tapes.iter().any(|tapes| tapes.load(Relaxed) != 0);
    let used = (THREADS_OFFSET + (threads::last_name() as usize + 1) * PAGE).min(LENGTH);
    let length = if is_recorded { LENGTH } else { used };
    let older = KEPT.swap(null_mut(), Relaxed);
    if !older.is_null() {
        // Calls that were under way in the process before the parent would be in a handler of a
        // handler, each of which has forked.
        unmap(older.cast(), LENGTH_KEPT.load(Relaxed));
    }
    let rest = AT + PAGE;
    unmap(base.wrapping_byte_add(length).cast(), LENGTH - length);
    if blank(base.cast(), AT) && blank(base.wrapping_byte_add(rest).cast(), length - rest) {
        LENGTH_KEPT.store(length, Relaxed);
        KEPT.store(base, Relaxed);
    }
}

fn unmap(begin: *mut c_void, length: usize) {
    if length > 0 {
        // SAFETY: mapped by this library, and of no use to anybody.
        let _ = unsafe { munmap(begin, length) };
    }
}

/// Zeroes take the place of a part of a segment that is mapped: whether there was memory for that.
/// Else what is there now is not known. Shared ones: limits of data count private ones.
pub(crate) fn blank(begin: *mut c_void, length: usize) -> bool {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: in place of a mapping of this library's, within its length. References into it are
    // to zeroes now: a valid `Shared` and valid pages, nothing but atomics.
    unsafe { mmap_anonymous(begin, length, access, flags) }.is_ok()
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
