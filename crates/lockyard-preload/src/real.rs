//! glibc's own functions, behind ours.
//!
//! Each is looked up when it is first needed, by `dlsym(RTLD_NEXT)`: a look-up that succeeds
//! allocates nothing. Nothing is looked up for an object that is ours, so an allocator may lock
//! mutexes while it initialises itself. Condition variables have two implementations in old
//! binaries' names; ours stand for the current one, so that is what is asked for by version.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// Where the condition variables that current programs use appeared.
#[cfg(target_arch = "x86_64")]
const COND_VERSION: Option<&CStr> = Some(c"GLIBC_2.3.2");
#[cfg(not(target_arch = "x86_64"))]
const COND_VERSION: Option<&CStr> = None;

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// A function of glibc's.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address. The process ends, with a line that says why, if there is none: nothing could be
    /// done in its place.
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.look_up() } else { found }
    }

    /// Looks it up, for a function that a program may call where `dlsym` may not be called: in the
    /// child of a fork, in a signal handler.
    #[cold]
    pub(crate) fn look_up(&self) -> *mut c_void {
        let mut found = core::ptr::null_mut();
        if let Some(version) = COND_VERSION.filter(|_| is_cond(self.name)) {
            // SAFETY: C strings, and a handle that the loader documents.
            found = unsafe { dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), version.as_ptr()) };
        }
        if found.is_null() {
            // SAFETY: as above.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        }
        if found.is_null() {
            let parts = [b"lockyard: the C library has no ".as_slice(), self.name.to_bytes(), b"; cannot go on\n"];
            for part in parts {
                // SAFETY: memory of the given length.
                let _ = unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
            }
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
        self.found.store(found, Relaxed);
        found
    }
}

/// `clockwait` came later and has one version.
fn is_cond(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.starts_with(b"pthread_cond_") && name != b"pthread_cond_clockwait"
}

/// Calls glibc's function of this name with the arguments:
/// `real!(pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int)`. With a [`Real`] in place of
/// the name, that one.
macro_rules! real {
    (($real:expr)($($argument:ident: $type:ty),*) -> $result:ty) => {{
        // SAFETY: the C library's function of that name, whose type its manual gives.
        let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { core::mem::transmute($real.address()) };
        // SAFETY: the caller's own promises, passed on.
        unsafe { function($($argument),*) }
    }};
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {{
        static REAL: $crate::real::Real = {
            const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            $crate::real::Real::new(NAME)
        };
        $crate::real::real!((REAL)($($argument: $type),*) -> $result)
    }};
}
pub(crate) use real;
