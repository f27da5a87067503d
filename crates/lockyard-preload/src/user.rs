//! Programs that begin as root's and become another user's: their statistics go with them.
//!
//! The calls are glibc's, which changes every thread. Before that, the segment is given to the new
//! user: see [`lockyard_segment::give_to`]. A program that asks the kernel by itself keeps a
//! segment that root alone can read.

use core::ffi::c_int;

use libc::uid_t;

use crate::real::real;

/// In place of a user: it stays as it is.
const SAME: uid_t = uid_t::MAX;

fn becomes(user: uid_t) {
    if user != SAME && user != 0 {
        lockyard_segment::give_to(user);
    }
}

/// See `setuid(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setuid(user: uid_t) -> c_int {
    becomes(user);
    real!(setuid(user: uid_t) -> c_int)
}

/// See `setreuid(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setreuid(real: uid_t, effective: uid_t) -> c_int {
    becomes(effective);
    real!(setreuid(real: uid_t, effective: uid_t) -> c_int)
}

/// See `setresuid(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    becomes(effective);
    real!(setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int)
}
