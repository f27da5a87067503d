//! Programs that begin as root's and become another user's: their statistics go with them.
//!
//! | call, as root | the way back to root | the segment |
//! |---|---|---|
//! | `setuid(u)`, `setreuid(u, u)`, `setresuid(u, u, u)` | none | `u`'s |
//! | `seteuid(u)`, `setreuid` and `setresuid` otherwise | the real or the saved id | root's |
//! | any, with capabilities kept (`PR_SET_KEEPCAPS`) | the capabilities | root's |
//!
//! A user can make a file of theirs shorter, which ends a process that has it mapped, and can write
//! what that process reads. A process without root's ids is in its user's hands anyway.
//!
//! The segment is given before the call, because only root can. Where the call then fails, the
//! process leaves the segment: see [`lockyard_segment::withdraw`]. The calls are glibc's, which
//! changes every thread. A program that asks the kernel by itself keeps a segment that root alone
//! can read.

use core::ffi::c_int;

use libc::uid_t;

use crate::real::{Real, real};

/// In place of a user: it stays as it is.
const SAME: uid_t = uid_t::MAX;

static SETUID: Real = Real::new(c"setuid");
static SETREUID: Real = Real::new(c"setreuid");
static SETRESUID: Real = Real::new(c"setresuid");

/// POSIX has `setuid` among what a signal handler, and the child of a fork, may call.
pub(crate) fn look_up() {
    for real in [&SETUID, &SETREUID, &SETRESUID] {
        real.look_up();
    }
}

/// Makes the `change`, which leaves root no id but `user`, if it is done by root.
fn become_for_good(user: uid_t, change: impl FnOnce() -> c_int) -> c_int {
    let given = user != SAME && user != 0 && lockyard_segment::give_to(user);
    let result = change();
    if given && result != 0 {
        lockyard_segment::withdraw();
    }
    result
}

/// See `setuid(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setuid(user: uid_t) -> c_int {
    become_for_good(user, || real!((SETUID)(user: uid_t) -> c_int))
}

/// See `setreuid(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setreuid(real: uid_t, effective: uid_t) -> c_int {
    let change = || real!((SETREUID)(real: uid_t, effective: uid_t) -> c_int);
    if real == effective { become_for_good(real, change) } else { change() }
}

/// See `setresuid(2)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int {
    let change = || real!((SETRESUID)(real: uid_t, effective: uid_t, saved: uid_t) -> c_int);
    if real == effective && effective == saved { become_for_good(real, change) } else { change() }
}
