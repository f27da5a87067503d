//! What happens in the child of a fork, told to the test in the parent.

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

/// Runs `child` in a child process, which must return `Ok` within half a minute.
pub(crate) fn in_child(child: impl FnOnce() -> Result<(), &'static str>) {
    // SAFETY: the child uses nothing but locks, threads and memory, all of which the C library
    // keeps usable, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = match child() {
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
