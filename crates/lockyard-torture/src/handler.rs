//! A signal handler that keeps its thread, as a collector's does that stops the world, or a
//! debugger.
//!
//! It keeps a thread only that holds nothing and was asleep in the kernel: anywhere else the thread
//! may be in a window, with a lock's wait lock held. The registers tell: a sleep that a signal ends
//! returns `EINTR` to the instruction after the system call. Elsewhere than on x86-64 nobody is
//! stopped.

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

/// Whether threads can be stopped here.
pub(super) const WORKS: bool = cfg!(target_arch = "x86_64");

/// As many as can be tortured.
const MOST: usize = 4_096;

thread_local! {
    static ME: Cell<usize> = const { Cell::new(MOST) };
    static MAY: Cell<bool> = const { Cell::new(false) };
}

static GO: AtomicBool = AtomicBool::new(true);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static KEPT: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

/// The calling thread is number `me` of the run.
pub(super) fn enter(me: usize) {
    ME.set(me);
}

/// The calling thread holds nothing from here on, or may.
pub(crate) fn may_stop(may: bool) {
    MAY.set(may);
}

/// Whether thread `me` of the run is kept.
pub(crate) fn is_stopped(me: usize) -> bool {
    KEPT.get(me).is_some_and(|kept| kept.load(Acquire))
}

/// How many threads are kept.
pub(super) fn stopped() -> usize {
    COUNT.load(Acquire)
}

/// From here on the handler keeps threads.
pub(super) fn arm() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: a handler that touches this module's statics and thread-locals without
        // destructors only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = keep as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
        }
    });
    GO.store(false, Release);
}

/// All that are kept go on, and nobody is kept any more.
pub(super) fn release() {
    GO.store(true, Release);
}

/// Has `thread` come to its handler.
pub(super) fn signal(thread: libc::pthread_t) {
    // SAFETY: a thread that has not been joined or detached: its handle is kept until the round is
    // over.
    unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
}

extern "C" fn keep(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let me = ME.get();
    // SAFETY: the kernel's own context of this signal.
    if GO.load(Acquire) || !MAY.get() || me >= MOST || !unsafe { slept(context) } {
        return;
    }
    // SAFETY: the calling thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    KEPT[me].store(true, Release);
    COUNT.fetch_add(1, AcqRel);
    while !GO.load(Acquire) {
        Linux::nap(8);
    }
    COUNT.fetch_sub(1, AcqRel);
    KEPT[me].store(false, Release);
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Whether the signal has ended a sleep in the kernel.
///
/// # Safety
/// `context` is the kernel's.
#[cfg(target_arch = "x86_64")]
unsafe fn slept(context: *mut libc::c_void) -> bool {
    // SAFETY: the caller's promise. The two bytes before the next instruction are code of this
    // process.
    unsafe {
        let registers = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let next = registers[libc::REG_RIP as usize] as *const [u8; 2];
        registers[libc::REG_RAX as usize] == -i64::from(libc::EINTR) && *next.sub(1) == [0x0f, 0x05]
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn slept(_context: *mut libc::c_void) -> bool {
    false
}
