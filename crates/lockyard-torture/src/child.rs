//! A real fork, by a thread that holds a lock: the child uses the lock, says how that went, and
//! ends.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::quiet::quietly;

/// Prefix of what the forking thread says of a child that did not end.
pub(super) const HANGS: &str = "hang in the child of a fork: ";

/// Opportunities until somebody forks; 0: nobody does.
static LEFT: AtomicU32 = AtomicU32::new(0);
/// Seconds that a child has.
static PATIENCE: AtomicU32 = AtomicU32::new(1);

/// A thread of a child.
struct Heir<'a> {
    number: usize,
    life: &'a (dyn Fn(usize) + Sync),
    panic: Option<Box<dyn Any + Send>>,
}

/// In a child: lives `life` on a new thread for each of `numbers`, and `own` on this one; ends when
/// all have. They are threads of the C library: one of std's takes locks of std when it starts and
/// ends, which a thread of the parent may have held at the fork.
///
/// # Panics
/// With the panic of a thread that panicked.
pub(crate) fn with_heirs(numbers: &[usize], life: &(dyn Fn(usize) + Sync), own: impl FnOnce()) {
    let mut heirs: Vec<Heir<'_>> = numbers.iter().map(|&number| Heir { number, life, panic: None }).collect();
    let start = |heir: &mut Heir<'_>| {
        let mut thread = 0;
        // SAFETY: `begin` has what it reads until it is joined, below.
        let code = unsafe { libc::pthread_create(&raw mut thread, ptr::null(), begin, ptr::from_mut(heir).cast()) };
        if code != 0 {
            heir.panic = Some(Box::new(format!("a thread could not be started: error {code}")));
        }
        (code == 0).then_some(thread)
    };
    let threads: Vec<libc::pthread_t> = heirs.iter_mut().filter_map(start).collect();
    let owns = catch_unwind(AssertUnwindSafe(own));
    for thread in threads {
        // SAFETY: started above, joined once.
        unsafe { libc::pthread_join(thread, ptr::null_mut()) };
    }
    if let Some(panic) = owns.err().or_else(|| heirs.into_iter().find_map(|heir| heir.panic)) {
        resume_unwind(panic);
    }
}

extern "C" fn begin(heir: *mut c_void) -> *mut c_void {
    // SAFETY: `with_heirs` keeps it, and uses it no more until this thread has ended.
    let heir = unsafe { &mut *heir.cast::<Heir<'_>>() };
    heir.panic = catch_unwind(AssertUnwindSafe(|| (heir.life)(heir.number))).err();
    ptr::null_mut()
}

/// From here on the `number`th opportunity is taken. A child has so many seconds.
pub(super) fn arm(number: u32, seconds: u32) {
    PATIENCE.store(seconds.max(1), Relaxed);
    LEFT.store(number, Relaxed);
}

/// An opportunity: perhaps a child does what `child` says.
pub(crate) fn fork(child: &mut dyn FnMut()) {
    if LEFT.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)) != Ok(1) {
        return;
    }
    // SAFETY: the child uses locks, threads and memory, which the C library keeps usable, and
    // leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork");
    if pid == 0 {
        // SAFETY: kills this process when its time is up.
        unsafe { libc::alarm(PATIENCE.load(Relaxed)) };
        let outcome = quietly(|| catch_unwind(AssertUnwindSafe(child)));
        if let Err(panic) = &outcome {
            let text = panic.downcast_ref::<String>().map_or("a check failed", |text| text);
            let text = format!("in the child: {text}\n");
            // SAFETY: a buffer and its length.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        }
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: our own child, which ends: by itself, or by its alarm.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 {}
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
        panic!("{HANGS}it could not use the lock that its only thread held");
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child of a fork ended with {status:#x}");
}
