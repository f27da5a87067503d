//! The absolute times of the timed calls, on two clocks.
//!
//! Semaphores and condition variables sleep on the caller's own clock, as glibc's do: a setting of
//! the real-time clock ends the sleep, or makes it longer, at once. Mutexes and rwlocks look at
//! that clock within 0.1 s; where they wait in the kernel (`LOCKYARD_MUTEX=rt`), at once.

use core::ffi::c_int;

use lockyard::cancel::Until;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

const SECOND: u64 = 1_000_000_000;

/// When a call gives up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    realtime: bool,
    /// Nanoseconds of the clock.
    at: u64,
}

/// Whether the timed calls know this clock.
pub(crate) fn knows(clock: libc::clockid_t) -> bool {
    clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC
}

impl Deadline {
    /// The time `at` of `clock`, which is one of the two.
    ///
    /// # Errors
    /// `EINVAL`: no such nanoseconds.
    ///
    /// # Safety
    /// `at` may be read.
    pub(crate) unsafe fn new(clock: libc::clockid_t, at: *const libc::timespec) -> Result<Self, c_int> {
        // SAFETY: the caller's promise.
        let at = unsafe { &*at };
        if !(0..SECOND as i64).contains(&at.tv_nsec) {
            return Err(libc::EINVAL);
        }
        // Before the clock began is as good as its beginning.
        let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
        let ns = seconds.saturating_mul(SECOND).saturating_add(at.tv_nsec as u64);
        Ok(Self { realtime: clock == libc::CLOCK_REALTIME, at: ns })
    }

    /// The same for a mutex that is held: glibc looks at the seconds first there. A time before the
    /// clock's beginning is over, whatever its nanoseconds are; with priority inheritance
    /// (`inherits`) it is none.
    ///
    /// # Errors
    /// `EINVAL`: no such time.
    ///
    /// # Safety
    /// `at` may be read.
    pub(crate) unsafe fn of_mutex(
        clock: libc::clockid_t,
        at: *const libc::timespec,
        inherits: bool,
    ) -> Result<Self, c_int> {
        // SAFETY: the caller's promise.
        match unsafe { (*at).tv_sec } {
            ..0 if inherits => Err(libc::EINVAL),
            ..0 => Ok(Self { realtime: clock == libc::CLOCK_REALTIME, at: 0 }),
            // SAFETY: the caller's promise.
            _ => unsafe { Self::new(clock, at) },
        }
    }

    /// The same for the locks.
    pub(crate) fn until(&self) -> Until<'static, Linux> {
        if self.realtime { Until::realtime(self.at) } else { Until::deadline(self.at) }
    }

    /// On the caller's own clock: whether that is the real-time clock, and nanoseconds of it.
    pub(crate) fn own(&self) -> (bool, u64) {
        (self.realtime, self.at)
    }

    /// Whether the caller's own clock has come so far.
    pub(crate) fn over(&self) -> bool {
        self.at <= if self.realtime { Linux::realtime() } else { Linux::now() }
    }
}
