//! The writer allocates nothing and leaves errno alone: it runs before `main`, and while threads
//! wait for locks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use lockyard_segment::{self as segment, Fallback};

struct Counting;

thread_local! {
    /// Of this thread alone: the test harness has one that allocates meanwhile.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A value that no system call returns.
const MARK: i32 = 4242;

fn errno() -> *mut i32 {
    // SAFETY: always answers for the calling thread.
    unsafe { libc::__errno_location() }
}

#[test]
fn the_writer_allocates_nothing_and_leaves_errno_alone() {
    // SAFETY: the calling thread's own.
    unsafe { *errno() = MARK };
    let before = CALLS.get();
    let opened = segment::open(b"test");
    let class = segment::class(b"mutex", b"quiet", 7);
    for round in 0..1000 {
        segment::acquired(class, 8);
        segment::released(8);
        if round % 100 == 0 {
            segment::contended(class, 8).got();
            segment::released(8);
            segment::contended(class, 8).gave_up();
        }
    }
    segment::fell_back(Fallback::Other);
    segment::after_fork_in_child(); // as if: this process has one thread that counts
    segment::contended(class, 8).got();
    segment::released(8);
    segment::close();
    // SAFETY: as above.
    let (calls, errno) = (CALLS.get() - before, unsafe { *errno() });
    assert_eq!((opened, calls, errno), (Ok(()), 0, MARK));
    assert!(!std::path::Path::new(&format!("/dev/shm/lockyard.{}", std::process::id())).exists());
}
