//! Short sections under a lock's wait lock.
//!
//! A section is a window ([`Platform::begin_window`]): no child process begins in the middle of
//! one, so a child finds every wait lock free and every queue whole.

use crate::platform::{Patience, Platform};
use crate::spin::qspinlock::RawQSpinLock;

/// Runs `section` under `lock`. The release of `lock` is the last that touches it: what `section`
/// lets another thread free may be gone by then.
#[inline]
pub(crate) fn locked<P: Platform, R>(lock: &RawQSpinLock<P>, section: impl FnOnce() -> R) -> R {
    enter(lock);
    let result = section();
    // SAFETY: entered above.
    unsafe { exit(lock) };
    result
}

/// Runs `section` under `lock`, if `lock` is free now.
#[inline]
pub(crate) fn try_locked<P: Platform, R>(lock: &RawQSpinLock<P>, section: impl FnOnce() -> R) -> Option<R> {
    try_enter(lock).then(|| {
        let result = section();
        // SAFETY: entered above.
        unsafe { exit(lock) };
        result
    })
}

/// Runs `section` under `lock`, if `lock` is free before the caller has spun for `ns`.
#[inline]
pub(crate) fn locked_within<P: Platform, R>(ns: u32, lock: &RawQSpinLock<P>, section: impl FnOnce() -> R) -> Option<R> {
    P::spin(Patience::ns(ns), || try_enter(lock).then_some(()))?;
    let result = section();
    // SAFETY: entered above.
    unsafe { exit(lock) };
    Some(result)
}

/// Begins a section under `lock`, if `lock` is free now.
#[inline]
pub(crate) fn try_enter<P: Platform>(lock: &RawQSpinLock<P>) -> bool {
    P::begin_window();
    let entered = lock.try_acquire();
    if !entered {
        P::end_window();
    }
    entered
}

/// Begins a section under `lock`.
#[inline]
pub(crate) fn enter<P: Platform>(lock: &RawQSpinLock<P>) {
    P::begin_window();
    lock.acquire();
}

/// Ends the section.
///
/// # Safety
/// The caller began it with [`enter`] or [`try_enter`].
#[inline]
pub(crate) unsafe fn exit<P: Platform>(lock: &RawQSpinLock<P>) {
    // SAFETY: acquired by `enter`.
    unsafe { lock.release() };
    P::end_window();
}
