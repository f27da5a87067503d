//! The code that calls, of which the statistics are told.

use lockyard_segment as segment;
use lockyard_segment::places::Object;

/// The code that has called a function of ours, as an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site(usize);

impl Site {
    /// Nobody watches: nothing is told.
    pub(crate) const UNWATCHED: Self = Self(0);
    /// Told, without a place.
    const UNKNOWN: Self = Self(1);

    /// The code at `address`; 0: unknown.
    pub(crate) const fn at(address: usize) -> Self {
        if address == 0 { Self::UNKNOWN } else { Self(address) }
    }

    /// The address.
    pub(crate) fn known(self) -> Option<usize> {
        (self.0 > Self::UNKNOWN.0).then_some(self.0)
    }

    /// A condition variable in a call that was made here.
    pub(crate) fn condition<T>(self, cond: *const T) -> Object {
        Object::condition(cond, self.known().unwrap_or(0))
    }

    /// The same, after a wait in which somebody may have begun to watch.
    pub(crate) fn now(self) -> Self {
        if self == Self::UNWATCHED && segment::watched() { Self::UNKNOWN } else { self }
    }
}

/// The body of a C function that takes a lock, in which `$site` says where it was called.
///
/// The function only jumps: to the body without a place or, if somebody watches, to the one with
/// it. So the address of the caller is still on top of the stack.
macro_rules! sited {
    (|$site:ident, $($argument:ident: $type:ty),*| $body:block) => {{
        #[inline(always)]
        unsafe fn body($($argument: $type,)* $site: $crate::site::Site) -> core::ffi::c_int $body

        #[inline(never)]
        unsafe extern "C" fn plain($($argument: $type),*) -> core::ffi::c_int {
            // SAFETY: the C caller's promises.
            $crate::site::opaque(unsafe { body($($argument,)* $crate::site::Site::UNWATCHED) })
        }

        #[cold]
        unsafe extern "C" fn told($($argument: $type,)* call: lockyard_segment::Call) -> core::ffi::c_int {
            // SAFETY: the C caller's promises.
            unsafe { body($($argument,)* $crate::site::Site::at(call.place())) }
        }

        lockyard_segment::with_caller!(#[cold] fn watched($($argument: $type),*) => told);
        if lockyard_segment::watched() {
            // SAFETY: the C caller's promises.
            unsafe { watched($($argument),*) }
        } else {
            // SAFETY: the C caller's promises.
            unsafe { plain($($argument),*) }
        }
    }};
}
pub(crate) use sited;

/// `code`, of which the compiler knows nothing: a function that it knows to return 0 would be
/// called, and not jumped to.
#[inline(always)]
pub(crate) fn opaque(mut code: core::ffi::c_int) -> core::ffi::c_int {
    // SAFETY: no instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("/* {:e} */", inout(reg) code, options(pure, nomem, nostack, preserves_flags));
    }
    // SAFETY: no instruction.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("/* {:w} */", inout(reg) code, options(pure, nomem, nostack, preserves_flags));
    }
    code
}
