//! The end of a timed wait: a `struct timespec` on one of two clocks.

use core::ffi::c_int;

use libc::timespec;
use lockyard::cancel::{GaveUp, Until};
use lockyard::platform::linux::Linux;
use rustix::time::{ClockId, clock_gettime};

/// What a lock call returns, as C has it: 0 or an errno value.
pub(crate) trait Code {
    /// That value.
    fn code(self) -> c_int;
}

impl Code for GaveUp {
    fn code(self) -> c_int {
        libc::ETIMEDOUT
    }
}

impl<E: Code> Code for Result<(), E> {
    fn code(self) -> c_int {
        self.map_or_else(Code::code, |()| 0)
    }
}

/// A moment on a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    clock: ClockId,
    ns: u64,
}

impl Deadline {
    /// The moment `*time` of `clock` (`CLOCK_REALTIME` or `CLOCK_MONOTONIC`).
    ///
    /// # Errors
    /// `EINVAL`: another clock, or nanoseconds that are none.
    ///
    /// # Safety
    /// `time` points to a `struct timespec`.
    unsafe fn new(clock: c_int, time: *const timespec) -> Result<Self, c_int> {
        let clock = match clock {
            libc::CLOCK_REALTIME => ClockId::Realtime,
            libc::CLOCK_MONOTONIC => ClockId::Monotonic,
            _ => return Err(libc::EINVAL),
        };
        // SAFETY: the caller's promise.
        let time = unsafe { &*time };
        if !(0..1_000_000_000).contains(&time.tv_nsec) {
            return Err(libc::EINVAL);
        }
        // Before 1970 is over already; after year 2500 is never.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Ok(Self { clock, ns: seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64) })
    }

    /// Nanoseconds until then.
    fn left(self) -> u64 {
        let now = clock_gettime(self.clock);
        self.ns.saturating_sub(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    /// Waits with `acquire`. A wait on the real-time clock sleeps as long as that clock says at the
    /// start; if it has been set back since, it sleeps on.
    fn wait<C: Code>(self, acquire: impl Fn(Until<'static, Linux>) -> C) -> c_int {
        if self.clock == ClockId::Monotonic {
            // The platform's own clock.
            return acquire(Until::deadline(self.ns)).code();
        }
        loop {
            match acquire(Until::after(self.left())).code() {
                libc::ETIMEDOUT if self.left() > 0 => {}
                code => return code,
            }
        }
    }
}

/// The slow half of a timed acquisition, after a failed attempt: `acquire` until `*time` of
/// `clock`. What POSIX asks: a wait that need not be does not look at the time.
///
/// # Safety
/// `time` points to a `struct timespec`.
pub(crate) unsafe fn until<C: Code>(
    clock: c_int,
    time: *const timespec,
    acquire: impl Fn(Until<'static, Linux>) -> C,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Deadline::new(clock, time) } {
        Ok(deadline) => deadline.wait(acquire),
        Err(error) => error,
    }
}

/// `*time` of `clock` as the end of a wait that looks at that clock itself: for what must not be
/// begun again, such as a wait for a signal.
///
/// # Errors
/// `EINVAL`: another clock, or nanoseconds that are none.
///
/// # Safety
/// `time` points to a `struct timespec`.
pub(crate) unsafe fn end(clock: c_int, time: *const timespec) -> Result<Until<'static, Linux>, c_int> {
    // SAFETY: the caller's promise.
    let Deadline { clock, ns } = unsafe { Deadline::new(clock, time) }?;
    Ok(if clock == ClockId::Monotonic { Until::deadline(ns) } else { Until::realtime(ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(clock: c_int, tv_sec: i64, tv_nsec: i64) -> Result<Deadline, c_int> {
        // SAFETY: a reference to a local.
        unsafe { Deadline::new(clock, &timespec { tv_sec, tv_nsec }) }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        assert_eq!(deadline(libc::CLOCK_REALTIME, 1, 1_000_000_000).unwrap_err(), libc::EINVAL);
        assert_eq!(deadline(libc::CLOCK_MONOTONIC, 1, -1).unwrap_err(), libc::EINVAL);
        assert_eq!(deadline(libc::CLOCK_PROCESS_CPUTIME_ID, 1, 0).unwrap_err(), libc::EINVAL);
    }

    #[test]
    fn the_ends_of_time_are_no_special_cases() {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            assert_eq!(deadline(clock, -5, 0).unwrap().left(), 0);
            assert_eq!(deadline(clock, 0, 0).unwrap().left(), 0);
            assert!(deadline(clock, i64::MAX, 999_999_999).unwrap().left() > 1 << 60);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_end_the_wait() {
        // The wait below is told "over" long before: as if the clock had been set back in between.
        let rounds = core::cell::Cell::new(0);
        let later = deadline(libc::CLOCK_REALTIME, i64::MAX, 0).unwrap();
        let acquire = |_| {
            rounds.set(rounds.get() + 1);
            if rounds.get() < 3 { Err(GaveUp::TimedOut) } else { Ok(()) }
        };
        assert_eq!((later.wait(acquire), rounds.get()), (0, 3));
    }
}
