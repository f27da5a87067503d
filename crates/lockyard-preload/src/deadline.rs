//! The absolute times of the timed calls: two clocks on the caller's side, the monotonic one on the locks'.
//!
//! The locks wait on the monotonic clock: a time of the real-time clock is converted when the wait
//! begins. Should that clock be set meanwhile, the wait ends when it would have ended, and the caller
//! looks again ([`Deadline::over`]): backward settings are obeyed, forward ones are noticed late.
//! Semaphores sleep on the caller's own clock ([`Deadline::own`]), so they obey both at once, as glibc.

use core::ffi::c_int;

use lockyard::cancel::Until;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use rustix::time::{ClockId, clock_gettime};

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
    /// clock's beginning is over, whatever its nanoseconds are; with priority inheritance (`inherits`)
    /// it is none.
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
        Until::deadline(self.monotonic())
    }

    /// In nanoseconds of the monotonic clock.
    pub(crate) fn monotonic(&self) -> u64 {
        if self.realtime { Linux::now().saturating_add(self.at.saturating_sub(realtime())) } else { self.at }
    }

    /// On the caller's own clock: whether that is the real-time clock, and nanoseconds of it.
    pub(crate) fn own(&self) -> (bool, u64) {
        (self.realtime, self.at)
    }

    /// Whether the caller's own clock has come so far.
    pub(crate) fn over(&self) -> bool {
        self.at <= if self.realtime { realtime() } else { Linux::now() }
    }
}

fn realtime() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * SECOND + now.tv_nsec as u64
}
