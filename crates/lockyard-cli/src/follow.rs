//! A program that this command has started, while it runs: how much time its threads have had, and
//! which programs it became.
//!
//! Both come from `/proc`, at looks that grow rarer. A thread that begins and ends between two
//! looks is not seen. The process itself is not stopped.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Failure, plain};
use crate::interrupt;

/// The time between the first two looks; each is twice as long as the one before.
const FIRST: Duration = Duration::from_millis(1);
/// The longest time between two.
const LONGEST: Duration = Duration::from_millis(20);
/// One look in so many goes through all threads.
const THOROUGH: u32 = 16;
/// Processes of a family, and threads of a process, that a look goes through.
const MOST: usize = 64;
/// Programs that are remembered.
const PROGRAMS: usize = 16;
/// Ticks of a second in `/proc`: the kernel's promise to programs.
const TICKS: f64 = 100.0;
/// The number of the system call `futex`.
const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202 " } else { "98 " };

/// A program under way.
#[derive(Debug)]
pub(crate) struct Followed {
    child: Child,
    looked: Instant,
    pause: Duration,
    /// What is known so far.
    pub(crate) known: Known,
}

/// What `/proc` told of a family of processes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    /// The time of all its threads together.
    pub(crate) thread_time: Duration,
    /// The processes of the family, as of the last thorough look.
    family: Vec<u32>,
    /// Looks so far.
    looked: u32,
    /// Threads seen at a look, summed over the looks.
    looks: u64,
    /// ... of which were in the system call `futex`.
    in_futex: u64,
    /// The files that it ran, in the order in which they were seen first.
    pub(crate) programs: Vec<PathBuf>,
}

impl Known {
    /// What is known of `process` and its threads, of whose time only the last `seconds` count.
    /// Threads that have ended are not known.
    pub(crate) fn of_running(process: u32, seconds: f64) -> Self {
        let mut known = Self::default();
        known.process(process, Duration::ZERO, &mut Vec::new());
        let uptime = fs::read_to_string("/proc/uptime").ok();
        let uptime = uptime.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0);
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let ages = tasks.filter_map(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).ok()?;
            let began: f64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
            Some((uptime - began / TICKS).clamp(0.0, seconds.max(0.0)))
        });
        known.thread_time = Duration::try_from_secs_f64(ages.sum()).unwrap_or_default();
        known
    }

    /// The share of their time that threads spent in the system call `futex`; `None`: not known.
    pub(crate) fn futex_share(&self) -> Option<f64> {
        (self.looks >= 10).then(|| self.in_futex as f64 / self.looks as f64)
    }

    /// Adds a look at the family of `root`, which covers the last `time`. Most looks only count
    /// threads; the first ones, and one in [`THOROUGH`], go through all of them.
    pub(crate) fn look(&mut self, root: u32, time: Duration) {
        self.looked += 1;
        if self.looked > THOROUGH && !self.looked.is_multiple_of(THOROUGH) {
            let threads: u32 = self.family.iter().filter_map(|process| threads(*process)).sum();
            self.thread_time += time * threads;
            return;
        }
        let mut family = vec![root];
        let mut next = 0;
        while let Some(&process) = family.get(next) {
            next += 1;
            self.process(process, time, &mut family);
        }
        self.family = family;
    }

    fn process(&mut self, process: u32, time: Duration, family: &mut Vec<u32>) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return };
        let tasks: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
        self.thread_time += time * tasks.len() as u32;
        for task in tasks.iter().take(MOST) {
            if let Ok(call) = fs::read_to_string(task.join("syscall")) {
                self.looks += 1;
                self.in_futex += u64::from(call.starts_with(FUTEX));
            }
            let children = fs::read_to_string(task.join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        family.truncate(MOST);
        if let Ok(program) = fs::read_link(format!("/proc/{process}/exe"))
            && self.programs.len() < PROGRAMS
            && !self.programs.contains(&program)
        {
            self.programs.push(program);
        }
    }
}

/// How many threads `process` has: field 20 of its `stat`.
fn threads(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(17)?.parse().ok()
}

impl Followed {
    /// `child` has just been started, and runs `file`.
    pub(crate) fn new(child: Child, file: Option<PathBuf>) -> Self {
        let mut known = Known::default();
        known.look(child.id(), Duration::ZERO);
        // Of one that has ended by now, `/proc` does not tell it.
        if known.programs.is_empty() {
            known.programs.extend(file);
        }
        Self { child, looked: Instant::now(), pause: FIRST, known }
    }

    /// Waits for `time`, or until the program ends: how it did. `None`: it goes on.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<Option<ExitStatus>, Failure> {
        let end = Instant::now().checked_add(time);
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            let now = Instant::now();
            self.known.look(self.child.id(), now - self.looked);
            self.looked = now;
            let left = end.map_or(LONGEST, |end| end.saturating_duration_since(now));
            if left.is_zero() || interrupt::asked() {
                return Ok(None);
            }
            thread::sleep(self.pause.min(left));
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }

    /// Passes a signal on, that asked this command to end: one that the terminal has sent came to
    /// the program as well. How it ended, if it does within a second.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn end(&mut self) -> Result<Option<ExitStatus>, Failure> {
        const PATIENCE: Duration = Duration::from_secs(1);
        const LOOK: Duration = Duration::from_millis(5);
        let end = Instant::now() + PATIENCE;
        if interrupt::terminated() {
            // One that has ended meanwhile needs none.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        loop {
            match self.ended()? {
                None if Instant::now() < end => thread::sleep(LOOK),
                status => return Ok(status),
            }
        }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let refused = |error| Failure::run(format!("cannot wait for the program: {}", plain(&error)));
        self.child.try_wait().map_err(refused)
    }
}

/// As a shell has it: the program's own, or 128 and the signal that ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;
    use crate::elf;

    #[test]
    fn threads_have_time_and_processes_have_programs() {
        let mut known = Known::default();
        known.look(std::process::id(), Duration::from_secs(1));
        assert!(known.thread_time >= Duration::from_secs(1));
        assert!(threads(std::process::id()).is_some_and(|threads| threads >= 1));
        let before = known.thread_time;
        (0..THOROUGH).for_each(|_| known.look(std::process::id(), Duration::from_secs(1)));
        assert!(known.thread_time >= before + Duration::from_secs(THOROUGH.into()), "rough looks count as well");
        assert!(known.programs.contains(&std::env::current_exe().unwrap()), "{known:?}");
        assert_eq!(Known::default().futex_share(), None);
    }

    #[test]
    fn a_program_is_waited_for() {
        let mut followed = Followed::new(Command::new("sleep").arg("600").spawn().expect("sleep"), None);
        assert_eq!(followed.wait(Duration::ZERO).unwrap(), None);
        followed.child.kill().expect("it is there");
        assert!(followed.wait(Duration::MAX).unwrap().is_some_and(|status| !status.success()));
    }

    #[test]
    fn one_that_has_ended_before_the_first_look_is_known_by_its_file() {
        let child = Command::new("true").spawn().expect("true");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), options).expect("it ends");
        let file = elf::file_of("true".as_ref()).expect("it is in the path");
        let mut followed = Followed::new(child, Some(file.clone()));
        assert_eq!(followed.known.programs, [file]);
        assert!(followed.wait(Duration::MAX).unwrap().is_some_and(|status| status.success()));
    }
}
