//! The bodies of the functions that take and release a lock: each tells what it does, if somebody
//! watches.

/// Takes `$lock`, of a `$kind` and with its class word at `$place`, and waits for it. 0.
macro_rules! takes {
    ($kind:ident, $lock:ident: $type:ty, $place:expr, $attempt:ident, $acquire:ident) => {
        $crate::site::sited!(|site, $lock: *mut $type| {
            // SAFETY: the C caller's promise: a lock.
            let inner = unsafe { $crate::layout::Holds::lock($lock) };
            $crate::watch::take(&$kind, $place.at(site), $lock, || inner.$attempt(), || inner.$acquire());
            0
        })
    };
}
pub(crate) use takes;

/// Takes it if that needs no wait; else `$code`.
macro_rules! tries {
    ($kind:ident, $lock:ident: $type:ty, $place:expr, $attempt:ident, $code:ident) => {
        $crate::site::sited!(|site, $lock: *mut $type| {
            // SAFETY: the C caller's promise: a lock.
            let inner = unsafe { $crate::layout::Holds::lock($lock) };
            $crate::watch::attempt(&$kind, $place.at(site), $lock, || inner.$attempt(), libc::$code)
        })
    };
}
pub(crate) use tries;

/// The function `$name`, which takes it, and waits until `*abstime` of `clock`.
macro_rules! until {
    ($name:ident, $kind:ident, $lock:ident: $type:ty, $place:expr, $attempt:ident, $acquire:ident) => {
        unsafe fn $name(
            $lock: *mut $type,
            clock: core::ffi::c_int,
            abstime: *const libc::timespec,
            site: $crate::site::Site,
        ) -> core::ffi::c_int {
            // SAFETY: the C caller's promise: a lock.
            let inner = unsafe { $crate::layout::Holds::lock($lock) };
            if $crate::watch::at_once(&$kind, $place.at(site), $lock, || inner.$attempt()) {
                return 0;
            }
            // SAFETY: the C caller's promise: a time.
            $crate::watch::wait(&$kind, $place.at(site), $lock, || unsafe {
                $crate::deadline::until(clock, abstime, |until| inner.$acquire(until))
            })
        }
    };
}
pub(crate) use until;

/// Releases `$lock`. 0.
macro_rules! gives {
    ($lock:ident, $release:ident) => {{
        $crate::watch::giving($lock);
        // SAFETY: the C caller's promises: a lock, which is held so.
        unsafe { $crate::layout::Holds::lock($lock).$release() };
        $crate::watch::give($lock);
        0
    }};
}
pub(crate) use gives;
