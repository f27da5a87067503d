//! The C library's locks: mutexes, rwlocks, the spinlock and the semaphore.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use crate::padded::Padded;

pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(super) mod semaphore;
pub(crate) mod spin;

/// A C object that stays where it is, alone on its cache lines.
#[derive(Debug)]
struct Pinned<T>(Box<Padded<UnsafeCell<T>>>);

// SAFETY: the objects kept here are locks, which C lets any thread use through a pointer.
unsafe impl<T> Sync for Pinned<T> {}
// SAFETY: as above; the object itself never moves, its box does.
unsafe impl<T> Send for Pinned<T> {}

impl<T> Pinned<T> {
    fn new(value: T) -> Self {
        Self(Box::new(Padded(UnsafeCell::new(value))))
    }

    #[inline(always)]
    fn get(&self) -> *mut T {
        self.0.0.get()
    }
}

/// Ends the program if a call failed: a lock that was not taken must not be measured.
#[inline(always)]
fn must(call: &'static str, status: c_int) {
    if status != 0 {
        failed(call, status);
    }
}

/// Whether a try got its lock.
#[inline(always)]
fn had(call: &'static str, status: c_int) -> bool {
    if status != libc::EBUSY {
        must(call, status);
    }
    status == 0
}

#[cold]
fn failed(call: &'static str, status: c_int) -> ! {
    panic!("{call} failed: {}", std::io::Error::from_raw_os_error(status));
}
