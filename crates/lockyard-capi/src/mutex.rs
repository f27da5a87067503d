//! `ly_mutex_…`: [`lockyard::mutex`].

use core::ffi::{c_char, c_int};

use libc::timespec;
use lockyard::condvar::Companion;
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard_segment::places::Object;
use lockyard_segment::{self as segment, Holder, tape};

use crate::calls;
use crate::layout::{Holds, ly_mutex_t};
use crate::site::{self, Site};
use crate::watch::{self, Kind, Place};

static KIND: Kind = Kind::new("mutex", owner, watch::queued!(ly_mutex_t, may_be_contended));

/// # Safety
/// A mutex is at `lock`.
unsafe fn owner(lock: usize) -> Holder {
    // SAFETY: the caller's promise.
    let owner = unsafe { Holds::lock(core::ptr::with_exposed_provenance_mut::<ly_mutex_t>(lock)) }.owner();
    owner.map_or(Holder::Unknown, |owner| Holder::Record(owner.raw()))
}

/// Makes `*mutex` unlocked, whatever it was. Not needed for zeroed memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_init(mutex: *mut ly_mutex_t) {
    // SAFETY: the C caller's promise; zero is an unlocked mutex.
    unsafe { mutex.write_bytes(0, 1) };
}

/// Locks the mutex; waits for it. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_lock(mutex: *mut ly_mutex_t) -> c_int {
    calls::takes!(KIND, mutex: ly_mutex_t, place(mutex), try_acquire, acquire)
}

/// Locks the mutex if it is free and not kept for a waiter whose turn is over. EBUSY: it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_trylock(mutex: *mut ly_mutex_t) -> c_int {
    calls::tries!(KIND, mutex: ly_mutex_t, place(mutex), try_acquire, EBUSY)
}

/// Locks the mutex; waits for it until `*abstime`, a time of CLOCK_REALTIME.
///
/// ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999. A
/// mutex that is free is locked whatever the time says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_timedlock(mutex: *mut ly_mutex_t, abstime: *const timespec) -> c_int {
    site::sited!(|site, mutex: *mut ly_mutex_t, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { until(mutex, libc::CLOCK_REALTIME, abstime, site) }
    })
}

/// As ly_mutex_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_clocklock(mutex: *mut ly_mutex_t, clock: c_int, abstime: *const timespec) -> c_int {
    site::sited!(|site, mutex: *mut ly_mutex_t, clock: c_int, abstime: *const timespec| {
        // SAFETY: the C caller's promise.
        unsafe { until(mutex, clock, abstime, site) }
    })
}

calls::until!(until, KIND, mutex: ly_mutex_t, place(mutex), try_acquire, acquire_until);

/// Unlocks the mutex, which the caller must have locked. Always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_unlock(mutex: *mut ly_mutex_t) -> c_int {
    calls::gives!(mutex, release)
}

/// The mutex of a thread that waits at a condition variable, at `site`.
pub(crate) struct Held {
    mutex: *mut ly_mutex_t,
    site: Site,
    /// The condition variable.
    waits_at: Object,
}

impl Held {
    /// The thread is about to wait at `waits_at`.
    ///
    /// # Safety
    /// It holds `mutex`, which lasts as long as the result.
    pub(crate) unsafe fn new(mutex: *mut ly_mutex_t, waits_at: Object, site: Site) -> Self {
        watch::tell(waits_at, tape::Kind::Wait);
        watch::idle(&KIND, place(mutex).at(site), mutex);
        Self { mutex, site, waits_at }
    }

    fn raw(&self) -> &RawMutex<Linux> {
        // SAFETY: the promise of `new`.
        unsafe { Holds::lock(self.mutex) }
    }
}

impl Companion<Linux> for Held {
    fn acquire(&self) {
        let (mutex, place) = (self.raw(), place(self.mutex).at(self.site.now()));
        watch::take(&KIND, place, self.mutex, || mutex.try_acquire(), || mutex.acquire());
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { Companion::release(self.raw()) };
    }

    fn mutex(&self) -> Option<&RawMutex<Linux>> {
        Some(self.raw())
    }

    fn awake(&self, signalled: bool) {
        watch::tell(self.waits_at, if signalled { tape::Kind::Woken } else { tape::Kind::GaveUp });
        if self.site.now() != Site::UNWATCHED {
            segment::awake();
        }
    }

    fn adopted(&self, moment: u64) {
        watch::moved(&KIND, place(self.mutex).at(self.site.now()), self.mutex, moment);
    }
}

/// Names the class under which `lockyard stat` shows the mutex; all with the same name are one
/// class. Without a name its class is the line that takes or tries it first while it is watched.
/// Call it before the mutex is used; a mutex that is initialised again has none. ENOSPC: there are
/// too many classes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ly_mutex_set_class(mutex: *mut ly_mutex_t, name: *const c_char) -> c_int {
    // SAFETY: the C caller's promises.
    unsafe { KIND.set(class_word(mutex), name) }
}

/// The first of the words that the mutex leaves to its embedder.
fn class_word(mutex: *mut ly_mutex_t) -> *mut u32 {
    mutex.cast::<u32>().wrapping_add(1)
}

fn place(mutex: *mut ly_mutex_t) -> Place {
    // SAFETY: nobody else uses that word.
    unsafe { Place::new(class_word(mutex)) }
}
