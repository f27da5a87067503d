//! The fast paths of locks that are told of: of the default lock and a class, where nobody is in
//! the way.

use core::ffi::c_int;
use core::sync::atomic::Ordering::*;

use libc::pthread_rwlock_t;
use lockyard_segment::{self as segment, Call, Caller};

use super::{Default, RwlockObject};
use crate::watch::{self, Ask, Noted};
use crate::{config, fork, thread};

impl RwlockObject {
    /// The lock under a private object with a class, and its class word, if the process uses the
    /// default lock and tells, and no queue of a parent's is in it.
    #[inline(always)]
    unsafe fn told_default<'a>(rwlock: *mut pthread_rwlock_t) -> Option<(&'a Self, &'a Default, u32)> {
        // SAFETY: the caller's promise. Everything inside is atomic, and any bytes are valid.
        let object = unsafe { &*rwlock.cast::<Self>() };
        let class = object.class.load(Relaxed);
        let is = config::rwlock_is_default_and_told()
            && object.shared.load(Relaxed) == 0
            && class != 0
            && object.generation.load(Relaxed) == fork::generation();
        is.then(|| (object, object.under::<Default>(), class))
    }

    /// As [`RwlockObject::read_fast`]. `ask`: see `watch`.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    pub(super) unsafe fn read_told(rwlock: *mut pthread_rwlock_t, caller: Call, ask: impl Ask) -> Option<Noted> {
        let page = watch::known_page()?;
        // SAFETY: the caller's promise.
        let (object, lock, class) = unsafe { Self::told_default(rwlock) }?;
        let (class, place) = ask(class, caller)?;
        // Others that wait are to be told.
        (!lock.may_be_contended() && lock.try_read_acquire()).then(|| {
            thread::block().holds.add(object.address());
            (page, Caller::new(class, place).shared())
        })
    }

    /// As [`RwlockObject::write_fast`]. `ask`: see `watch`.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    pub(super) unsafe fn write_told(rwlock: *mut pthread_rwlock_t, caller: Call, ask: impl Ask) -> Option<Noted> {
        let page = watch::known_page()?;
        // SAFETY: the caller's promise.
        let (object, lock, class) = unsafe { Self::told_default(rwlock) }?;
        let (class, place) = ask(class, caller)?;
        let identity = thread::block().known_identity()?;
        (!lock.may_be_contended() && lock.try_write_acquire()).then(|| {
            object.writer.store(identity, Relaxed);
            (page, Caller::new(class, place))
        })
    }

    /// Gives up a lock that is held by the caller or by whom it acts for; for reading, if nobody
    /// waits for it.
    ///
    /// # Safety
    /// As [`RwlockObject::ours`].
    #[inline(always)]
    pub(super) unsafe fn unlock_told(rwlock: *mut pthread_rwlock_t) -> Option<c_int> {
        let page = watch::known_page()?;
        // SAFETY: the caller's promise.
        let (object, lock, _) = unsafe { Self::told_default(rwlock) }?;
        if lock.is_write_locked() {
            object.writer.store(0, Relaxed);
            segment::releasing_on(page, rwlock.addr());
            // SAFETY: held for writing, by the caller or by whom it acts for.
            unsafe { lock.write_release_detached() };
            return Some(watch::forget(page, rwlock.addr()));
        }
        // SAFETY: if nobody holds it nothing is done.
        unsafe { lock.try_read_release_unasked() }.then(|| {
            // The object may be gone: its address is used.
            thread::block().holds.remove(rwlock.addr());
            watch::forget(page, rwlock.addr())
        })
    }
}
