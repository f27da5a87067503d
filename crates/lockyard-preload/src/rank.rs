//! Fixed priorities: the locks queue threads of `SCHED_FIFO` and `SCHED_RR` by them, as glibc's do.
//!
//! The kernel is not asked for a thread's class when the thread waits. The library learns it here.
//!
//! | when | what is done |
//! |---|---|
//! | the library is loaded, the main thread has a fixed priority | `RANKED` is set |
//! | a thread gets a fixed priority, or is created with one | likewise, before it has it |
//! | a thread's first lock, `RANKED` is set | the thread asks the kernel for its own class |
//! | a class or priority is set | the record of that thread gets it |
//! | a child of a fork, `RANKED` is set | its thread asks once more: the class may be reset |
//!
//! So a program without fixed priorities makes no system call for this after its start. The kernel
//! gives a thread its creator's class, and each asks for its own: no thread needs a start of ours.
//! (Its creator makes room for its record: a sandbox may have forbidden `mmap` when it locks.)
//!
//! **Not seen**: changes that another process makes (`chrt -p`), and `sched_setattr`. The order is
//! that of the last change that was seen. A waiter keeps its place until it queues again.
//!
//! **Ordering.** A thread publishes its name, then looks at `RANKED`, and asks the kernel until the
//! answer is what it has stored. A teller sets `RANKED`, changes the class, then looks for the
//! name. (`SeqCst` on both sides: each writes one word and reads the other's.) A store of the
//! thread that comes after the teller's is followed by a question that finds the new class.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use libc::{SCHED_FIFO, SCHED_RR, pid_t, pthread_attr_t, pthread_t, sched_param};
use lockyard::platform::Platform;
use lockyard::platform::linux::table::{Place, Table};
use lockyard::platform::linux::{Linux, threads};
use lockyard::platform::thread::ThreadId;

use crate::real::real;

/// Some thread of this process has, or had, a fixed priority.
static RANKED: AtomicBool = AtomicBool::new(false);

/// The names of the thread that has a record: the C library's, and the kernel's.
#[derive(Debug)]
struct Names {
    thread: AtomicU64,
    tid: AtomicU32,
}

// SAFETY: zero words.
unsafe impl Place for Names {
    const NEW: Self = Self { thread: AtomicU64::new(0), tid: AtomicU32::new(0) };
}

static TABLE: Table<Names> = Table::new();

/// Or-ed to a class: children do not inherit it.
const RESET_ON_FORK: c_int = 0x4000_0000;

fn is_fixed(policy: c_int) -> bool {
    matches!(policy & !RESET_ON_FORK, SCHED_FIFO | SCHED_RR)
}

/// When the library is loaded.
pub(crate) fn learn() {
    // SAFETY: no conditions.
    if is_fixed(unsafe { libc::sched_getscheduler(0) }) {
        RANKED.store(true, SeqCst);
    }
}

/// The calling thread has the record `id` from now on.
pub(crate) fn introduce(id: ThreadId, tid: u32) {
    if id.is_anonymous() {
        return;
    }
    let Some(names) = TABLE.claim(id.raw()) else { return };
    names.tid.store(tid, Relaxed);
    // SAFETY: no conditions.
    names.thread.store(unsafe { libc::pthread_self() }, SeqCst);
    ask(id);
}

/// In a child process: its thread may have another class.
pub(crate) fn renew() {
    if let Some(id) = Linux::id() {
        ask(id);
    }
}

/// The calling thread, `id`, asks for its own class if that may be of a fixed priority.
fn ask(id: ThreadId) {
    if RANKED.load(SeqCst) {
        let mut rank = Linux::priority(id);
        loop {
            threads::set_rank(id, rank);
            match Linux::priority(id) {
                same if same == rank => return,
                other => rank = other,
            }
        }
    }
}

/// What a class and its priority amount to.
fn rank(policy: c_int, priority: c_int) -> u32 {
    if is_fixed(policy) { u32::try_from(priority).unwrap_or(0) } else { 0 }
}

/// The threads of which `is` holds have this rank. A record whose thread has gone may be among
/// them.
fn tell(is: impl Fn(&Names) -> bool, rank: u32) {
    for (index, names) in TABLE.mapped(threads::last_name()) {
        if let Some(id) = ThreadId::from_raw(index).filter(|_| is(names)) {
            threads::set_rank(id, rank);
        }
    }
}

/// The thread that the kernel calls `tid` (0: the caller) has this rank.
fn tell_kernels(tid: pid_t, rank: u32) {
    if tid == 0 || tid as u32 == threads::kernel_id_of_caller() {
        if let Some(id) = Linux::id() {
            threads::set_rank(id, rank);
        }
    } else {
        tell(|names| names.tid.load(Relaxed) == tid as u32, rank);
    }
}

/// A thread is about to get this class.
fn expect(policy: c_int) {
    if is_fixed(policy) && !RANKED.load(Relaxed) {
        RANKED.store(true, SeqCst);
    }
}

unsafe extern "C" {
    fn pthread_attr_getinheritsched(attributes: *const pthread_attr_t, inherit: *mut c_int) -> c_int;
    fn pthread_attr_getschedpolicy(attributes: *const pthread_attr_t, policy: *mut c_int) -> c_int;
    fn pthread_getschedparam(thread: pthread_t, policy: *mut c_int, param: *mut sched_param) -> c_int;
}

/// See `pthread_create(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    threads::make_room();
    if !attributes.is_null() {
        let (mut inherit, mut policy) = (libc::PTHREAD_INHERIT_SCHED, 0);
        // SAFETY: attributes, as in C, and places for the values.
        unsafe {
            pthread_attr_getinheritsched(attributes, &mut inherit);
            pthread_attr_getschedpolicy(attributes, &mut policy);
        }
        if inherit == libc::PTHREAD_EXPLICIT_SCHED {
            expect(policy);
        }
    }
    real!(
        pthread_create(
            thread: *mut pthread_t, attributes: *const pthread_attr_t,
            start: extern "C" fn(*mut c_void) -> *mut c_void, argument: *mut c_void
        ) -> c_int
    )
}

/// See `pthread_setschedparam(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedparam(thread: pthread_t, policy: c_int, param: *const sched_param) -> c_int {
    expect(policy);
    let result = real!(
        pthread_setschedparam(thread: pthread_t, policy: c_int, param: *const sched_param) -> c_int
    );
    if result == 0 && RANKED.load(Relaxed) {
        // SAFETY: read by the call that has succeeded.
        let rank = rank(policy, unsafe { (*param).sched_priority });
        tell(|names| names.thread.load(SeqCst) == thread, rank);
    }
    result
}

/// See `pthread_setschedprio(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int {
    let result = real!(pthread_setschedprio(thread: pthread_t, priority: c_int) -> c_int);
    if result == 0 && RANKED.load(Relaxed) {
        let (mut policy, mut param) = (0, MaybeUninit::uninit());
        // SAFETY: a thread, as in C, and places for the values.
        if unsafe { pthread_getschedparam(thread, &mut policy, param.as_mut_ptr()) } == 0 {
            tell(|names| names.thread.load(SeqCst) == thread, rank(policy, priority));
        }
    }
    result
}

/// See `sched_setscheduler(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setscheduler(pid: pid_t, policy: c_int, param: *const sched_param) -> c_int {
    expect(policy);
    let result = real!(sched_setscheduler(pid: pid_t, policy: c_int, param: *const sched_param) -> c_int);
    if result != -1 && RANKED.load(Relaxed) {
        // SAFETY: read by the call that has succeeded.
        tell_kernels(pid, rank(policy, unsafe { (*param).sched_priority }));
    }
    result
}

/// See `sched_setparam(3p)`.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setparam(pid: pid_t, param: *const sched_param) -> c_int {
    let result = real!(sched_setparam(pid: pid_t, param: *const sched_param) -> c_int);
    if result != -1 && RANKED.load(Relaxed) {
        // SAFETY: no conditions; and the parameters were read by the call that has succeeded.
        let (policy, priority) = unsafe { (libc::sched_getscheduler(pid), (*param).sched_priority) };
        tell_kernels(pid, rank(policy, priority));
    }
    result
}
