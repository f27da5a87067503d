//! A compiled test program, and how a run of it ends.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One compiled test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Its package's folder, which cargo would run it in.
    pub(crate) folder: PathBuf,
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Passed,
    Failed,
    /// Not in its time.
    Hung,
}

/// A mutant may ask for all memory there is.
const MOST_MEMORY: u64 = 64 << 30;

/// Runs a test program, for so long.
pub(crate) fn run(program: &Program, words: &[&str], environment: &[(&str, &str)], limit: Duration) -> End {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder).args(words);
    command.env("CARGO_MANIFEST_DIR", &program.folder).env("RUST_BACKTRACE", "0").envs(environment.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let limits = || {
        for (what, most) in [(libc::RLIMIT_CORE, 0), (libc::RLIMIT_AS, MOST_MEMORY)] {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: a structure of this function's.
            unsafe { libc::setrlimit(what, &raw const limit) };
        }
        // Whoever stops the judges stops the judged.
        // SAFETY: no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: nothing between `fork` and `exec` but system calls.
    unsafe { command.pre_exec(limits) };
    let Ok(mut child) = command.spawn() else { return End::Failed };
    let end = wait(&mut child, limit);
    // With all it has started. Its number is free again only if nobody of its group is left.
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-i32::try_from(child.id()).unwrap_or(i32::MAX), libc::SIGKILL) };
    drop(child.wait());
    end
}

fn wait(child: &mut Child, limit: Duration) -> End {
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return End::Passed,
            Ok(Some(_)) => return End::Failed,
            Ok(None) if started.elapsed() < limit => std::thread::sleep(pause),
            _ => return End::Hung,
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
