//! The pages of a segment that are made real, so that writing to them cannot fail.

use core::mem::offset_of;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::classes;
use crate::layout::{ClassRecord, PAGE, Shared, THREADS_OFFSET};

/// Addresses of the mapping below this are real.
static RESERVED: AtomicUsize = AtomicUsize::new(0);
/// How much is made real at once where it must be decided beforehand: 256 threads have pages.
const OLD_KERNEL: usize = THREADS_OFFSET + 256 * PAGE;

/// What precedes the classes, which must be there.
const HEADER: usize = offset_of!(Shared, classes);
const _: () = assert!(HEADER.is_multiple_of(PAGE));

/// Makes real what a new segment begins with: `file`, mapped at `base`.
pub(crate) fn begin(base: *mut u8, file: impl AsFd) -> Result<(), Errno> {
    RESERVED.store(0, Relaxed);
    // With the records of the classes that a child has from its parent, in one call: they may be
    // many.
    let pages = (HEADER + classes::count() * size_of::<ClassRecord>()).div_ceil(PAGE);
    match real_pages(base, pages) {
        Ok(()) => RESERVED.store(base.addr() + pages * PAGE, Relaxed),
        // A kernel before 5.14: everything but the threads, and a number of these.
        Err(Errno::INVAL) => {
            fallocate(file, FallocateFlags::empty(), 0, OLD_KERNEL as u64)?;
            RESERVED.store(base.addr() + OLD_KERNEL, Relaxed);
        }
        // There may be room for the header, and for some classes.
        Err(_) => real_pages(base, HEADER / PAGE)?,
    }
    Ok(())
}

/// Makes the page at `place` real, so that writing to it cannot fail.
pub(crate) fn real(place: *mut u8) -> Result<(), Errno> {
    real_pages(place, 1)
}

/// The same of so many pages from that one on.
pub(crate) fn real_pages(place: *mut u8, pages: usize) -> Result<(), Errno> {
    let page = place.map_addr(|address| address & !(PAGE - 1));
    if page.addr() + pages * PAGE <= RESERVED.load(Relaxed) { Ok(()) } else { populate(page, pages) }
}

/// The same of any process's mapped segment. An error instead of a SIGBUS later: `/dev/shm` may be
/// full.
pub(crate) fn populate(page: *mut u8, pages: usize) -> Result<(), Errno> {
    // SAFETY: asks for nothing but that a write would do; where there is no mapping it is refused.
    let made = unsafe { madvise(page.cast(), pages * PAGE, Advice::LinuxPopulateWrite) };
    // So the kernel calls what a write would have met with SIGBUS.
    made.map_err(|error| if error == Errno::FAULT { Errno::NOSPC } else { error })
}
