//! What the library counts beside the locks' own events: objects that are glibc's, by reason.
//!
//! One word each, changed where an object is made or first met, never on a fast path. This file is
//! the only one that knows where they lie.

use core::ffi::c_char;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why an object is glibc's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Fallback {
    /// `PTHREAD_PRIO_INHERIT`.
    PriorityInheritance,
    /// `PTHREAD_PRIO_PROTECT`.
    PriorityCeiling,
    /// `PTHREAD_MUTEX_ROBUST`.
    Robust,
    /// `PTHREAD_PROCESS_SHARED`, or `pshared` not 0.
    Shared,
    /// A condition variable that was waited for with a mutex of glibc's.
    ForeignMutex,
    /// The environment says so, or says something unknown.
    Chosen,
    /// A kind that this library does not know.
    Unknown,
}

impl Fallback {
    /// The reason in the words of the statistics.
    fn told(self) -> lockyard_segment::Fallback {
        use lockyard_segment::Fallback::{Ceiling, Condition, Inherit, Other, Robust, Shared};
        match self {
            Self::PriorityInheritance => Inherit,
            Self::PriorityCeiling => Ceiling,
            Self::Robust => Robust,
            Self::Shared => Shared,
            Self::ForeignMutex => Condition,
            Self::Chosen | Self::Unknown => Other,
        }
    }
}

const REASONS: usize = Fallback::Unknown as usize + 1;

/// The name of each reason.
static NAMES: [&core::ffi::CStr; REASONS] = [
    c"fallback_pi",
    c"fallback_ceiling",
    c"fallback_robust",
    c"fallback_shared",
    c"fallback_mutex",
    c"fallback_chosen",
    c"fallback_unknown",
];

static COUNTS: [AtomicU64; REASONS] = [const { AtomicU64::new(0) }; REASONS];

/// Counts one object.
pub(crate) fn count(reason: Fallback) {
    COUNTS[reason as usize].fetch_add(1, Relaxed);
    // A choice is told once, for all objects of a kind: see `config::watch`.
    if reason != Fallback::Chosen {
        lockyard_segment::fell_back(reason.told());
    }
}

/// How often objects were left to glibc for reason number `reason`; its name goes to `*name` unless
/// `name` is null. `-1`: there is no such reason.
///
/// # Safety
/// `name` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lockyard_preload_fallbacks(reason: u32, name: *mut *const c_char) -> i64 {
    let Some(count) = COUNTS.get(reason as usize) else { return -1 };
    if !name.is_null() {
        // SAFETY: not null, and the caller's promise.
        unsafe { *name = NAMES[reason as usize].as_ptr() };
    }
    count.load(Relaxed) as i64
}
