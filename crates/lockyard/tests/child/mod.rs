//! What happens in the child of a fork, told to the test in the parent.
//!
//! A child's new threads come from the C library ([`crew`]), which keeps them usable after a fork.
//! Those of std do not stay so: a thread of the parent that begins or ends at that moment holds a
//! lock of std's, and in the child nobody releases it.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

/// Runs `child` in a child process, which must return `Ok` within half a minute.
pub(crate) fn in_child(child: impl FnOnce() -> Result<(), &'static str>) {
    // SAFETY: the child uses nothing but locks, threads and memory, all of which the C library
    // keeps usable, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // A panic would end the thread, with it the process, and be a success.
        let outcome = catch_unwind(AssertUnwindSafe(child)).unwrap_or(Err("a check failed"));
        let status = match outcome {
            Ok(()) => 0,
            Err(why) => {
                let text = format!("in the child: {why}\n");
                // SAFETY: a buffer and its length.
                unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
                1
            }
        };
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(status) };
    }
    assert!(pid > 0, "fork failed");
    let end = Linux::now() + 30_000_000_000;
    let mut status = 0;
    // SAFETY: our own child.
    while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
        if Linux::now() > end {
            let threads = threads_of(pid);
            // SAFETY: our own child, which has not been waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            panic!("the child hangs:{threads}");
        }
        Linux::nap(10);
    }
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with status {status:#x}");
}

/// What each thread of the child does: its state, and where in the kernel it waits.
fn threads_of(child: i32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{child}/task")).into_iter().flatten().flatten();
    let one = |task: std::fs::DirEntry| {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let state = read("status").lines().find_map(|line| line.strip_prefix("State:").map(str::to_owned));
        format!("\n{:?}:{} {}", task.file_name(), state.unwrap_or_default(), read("wchan"))
    };
    tasks.map(one).collect()
}

/// Threads of a child: see the [module text](self). Joined when this is dropped.
pub(crate) struct Crew<'env> {
    threads: RefCell<Vec<libc::pthread_t>>,
    /// Bodies live as long as `'env`, no less.
    bodies: PhantomData<Cell<&'env ()>>,
}

/// Runs `lead`, which may begin threads, and waits for them.
pub(crate) fn crew<'env, R>(lead: impl FnOnce(&Crew<'env>) -> R) -> R {
    lead(&Crew { threads: RefCell::default(), bodies: PhantomData })
}

impl<'env> Crew<'env> {
    /// Begins a thread that runs `body`. A panic in it ends the process.
    pub(crate) fn spawn(&self, body: impl FnOnce() + Send + 'env) {
        type Body<'a> = Box<dyn FnOnce() + Send + 'a>;
        extern "C" fn start(body: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: what `spawn` has made of a body, for this thread alone.
            let body = unsafe { Box::from_raw(body.cast::<Body<'_>>()) };
            body();
            ptr::null_mut()
        }
        let body: *mut Body<'env> = Box::into_raw(Box::new(Box::new(body)));
        let mut thread = 0;
        // SAFETY: the thread ends before `'env` does: `crew` drops this, which joins it.
        let failed = unsafe { libc::pthread_create(&mut thread, ptr::null(), start, body.cast()) };
        assert_eq!(failed, 0, "no thread");
        self.threads.borrow_mut().push(thread);
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        for thread in self.threads.take() {
            // SAFETY: ours, and not joined before.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        }
    }
}
