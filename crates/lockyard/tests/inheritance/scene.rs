//! Threads of fixed priority on one CPU, and gates by which they wait for each other without
//! running.

use std::ffi::CStr;
use std::io::Write;
use std::str::SplitAsciiWhitespace;
use std::sync::{Mutex, PoisonError};

use lockyard::platform::linux::{Linux, U32};
use lockyard::platform::{Ordering::*, Platform, Word};
use lockyard_check::native::guarded;

/// What a thread sleeps at until another opens it. Opened once for each passage.
#[derive(Debug, Default)]
pub(crate) struct Gate(U32);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.fetch_add(1, Release);
        Linux::unpark(&self.0);
    }

    pub(crate) fn pass(&self) {
        loop {
            match self.0.load(Acquire) {
                0 => Linux::park(&self.0, 0, None),
                open => {
                    if self.0.compare_exchange(open, open - 1, Acquire, Relaxed).is_ok() {
                        return;
                    }
                }
            }
        }
    }
}

/// Binds the calling thread to the first CPU it may use, with priority `priority` of `SCHED_FIFO`.
pub(crate) fn fixed(priority: i32) {
    // SAFETY: sets are plain bits, filled by the call and asked within their bounds; the others
    // read what they are given.
    unsafe {
        let mut allowed: libc::cpu_set_t = core::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed), 0);
        let first = (0..8 * size_of::<libc::cpu_set_t>()).find(|&cpu| libc::CPU_ISSET(cpu, &allowed)).expect("a CPU");
        let mut one: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(first, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one), 0);
    }
    // SAFETY: has no preconditions. What is in memory stays there: an urgent thread that waits for
    // a page is passed by everybody. (If it is refused, most of it stays all the same.)
    unsafe { libc::mlockall(libc::MCL_CURRENT) };
    assert!(become_fixed(priority), "permission for SCHED_FIFO was there a moment ago");
}

fn become_fixed(priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: reads the parameters. (Of the calling thread, whatever its name says.)
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Whether this process may use fixed priorities. If not, says which test is skipped, and why,
/// where nobody swallows it.
pub(crate) fn permitted(test: &str) -> bool {
    let permitted = std::thread::spawn(|| become_fixed(1)).join().expect("a thread");
    if !permitted {
        let text = format!(
            "SKIPPED: {test}: SCHED_FIFO is not permitted here; run as root, with CAP_SYS_NICE, or with `ulimit -r 99`\n"
        );
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    permitted
}

/// Runs `scene`, [`guarded`], with nothing else going on in this process: when threads come the
/// kernel makes room for more futexes, and keeps urgent threads waiting for that.
pub(crate) fn alone(name: &str, scene: impl FnOnce()) {
    static STAGE: Mutex<()> = Mutex::new(());
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    guarded(name, scene);
}

/// Calls `tell` with the fields of a thread's line in `/proc`, from the third on. `None`: it has
/// ended.
///
/// Without the heap: its lock lends no priority, and whoever waits for it is passed by everybody.
fn told<R>(path: &CStr, tell: impl FnOnce(&mut SplitAsciiWhitespace<'_>) -> Option<R>) -> Option<R> {
    let mut line = [0u8; 1024];
    // SAFETY: a path and a buffer with their lengths; the descriptor is ours and closed once.
    let read = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let read = libc::read(file, line.as_mut_ptr().cast(), line.len());
        libc::close(file);
        usize::try_from(read).ok()?
    };
    // The second field, the thread's name, may contain anything but ends in the last parenthesis.
    let (_, rest) = str::from_utf8(&line[..read]).ok()?.rsplit_once(')')?;
    tell(&mut rest.split_ascii_whitespace())
}

/// The priority at which the calling thread runs now, lent ones included: 1 to 99, or 0 for a
/// time-sharing thread.
pub(crate) fn lent() -> i32 {
    // Field 18. A real-time thread has −1 − priority there.
    let value: i32 = told(c"/proc/thread-self/stat", |fields| fields.nth(15)?.parse().ok()).expect("proc is mounted");
    (-1 - value).max(0)
}

/// The name by which others ask the kernel about the calling thread.
pub(crate) fn thread_name() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { libc::gettid() }
}

/// What the kernel says that a thread of this process does: `R` it runs or could, `S` it sleeps
/// until somebody wakes it, `D` it sleeps inside the kernel for reasons of the kernel's own.
/// `None`: it has ended.
pub(crate) fn state(name: i32) -> Option<char> {
    let mut path = [0; 40];
    write!(&mut path[..39], "/proc/self/task/{name}/stat").expect("room for a number");
    told(CStr::from_bytes_until_nul(&path).expect("an end"), |fields| fields.next()?.chars().next())
}
