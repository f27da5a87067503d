//! What `/proc` tells of a program, while it runs: how much time its threads have had, what they
//! waited in, and which programs it became.
//!
//! It is looked at now and then. A thread that begins and ends between two looks is not seen. The
//! process itself is not stopped.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::ends::Ends;
use crate::proc::{
    TICKS, command, cpu_time, file_of, inside, is_thread, last_begun, other_root, sleeps, waits_in_futex,
};
use crate::session::{Left, Loaded};

/// One look in so many goes through all threads.
const THOROUGH: u32 = 16;
/// Processes of a family, and threads of a process, that a look goes through.
const MOST: usize = 64;
/// Processes of a family that are remembered: where there are more than [`MOST`], each look goes
/// through others of them, which stand for all.
const FAMILY: usize = 4096;
/// Programs that are remembered.
const PROGRAMS: usize = 16;
/// Threads whose names are remembered.
const NAMES: usize = 4096;

/// What `/proc` told of a family of processes.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    /// The time of all its threads together.
    pub(crate) thread_time: Duration,
    /// The processes of the family, as of the last thorough look.
    family: Vec<u32>,
    /// When their programs ended.
    pub(crate) ends: Ends,
    /// Looks so far.
    looked: u32,
    /// How much of that time no thorough look has covered yet, by the clock.
    uncovered: Duration,
    /// Threads seen at thorough looks, each for the time that its look covers.
    looked_at: Duration,
    /// ... of which were in the system call `futex`, and joined no thread.
    in_futex: Duration,
    /// ... of which slept for a time, or waited for a lock of a file.
    asleep: Duration,
    /// The files that it ran, in the order in which they were seen first.
    pub(crate) programs: Vec<PathBuf>,
    /// Where its file system begins, if that is another than ours.
    pub(crate) root: Option<PathBuf>,
    /// The share of its threads' time that locks took while it was [watched](Self::watch).
    pub(crate) seen: Option<f64>,
    /// The processes that went on when the one that was started had ended.
    pub(crate) left: Vec<Left>,
    /// Why processes told nothing that should have.
    pub(crate) untold: Option<String>,
    /// The time that CPUs gave to them; 0: not known.
    pub(crate) cpu_time: Duration,
    /// Whether all that told of their locks became other programs, which told nothing.
    pub(crate) has_become: bool,
    /// A process whose file system is another than ours: so may its `/dev/shm` be.
    pub(crate) elsewhere: Option<u32>,
    /// The signal that ended the program, for people.
    pub(crate) killed: Option<String>,
    /// Where the preload library was, and was not.
    pub(crate) loaded: Loaded,
    /// The names of threads, by their processes and the kernel's names, as they were last.
    names: HashMap<(u32, u32), String>,
    /// The last process or thread that had begun anywhere at the last look.
    last_begun: Option<u64>,
    /// What `own_locks` has found in them.
    own: OnceCell<Option<String>>,
}

impl Known {
    /// What is known of `process` and its threads, of whose time only the last `seconds` count.
    /// Threads that have ended are not known.
    pub(crate) fn of_running(process: u32, seconds: f64) -> Self {
        let mut known = Self { root: other_root(process), ..Self::default() };
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
        known.cpu_time = cpu_time(process, false).unwrap_or_default();
        known
    }

    /// Looks for so long at where the threads of `process` are.
    pub(crate) fn watch(&mut self, process: u32, time: Duration) {
        let pause = time / THOROUGH;
        for _ in 0..THOROUGH {
            thread::sleep(pause);
            self.looked += 1;
            self.uncovered = pause;
            self.process(process, Duration::ZERO, &mut Vec::new());
        }
    }

    /// The share of their time that threads spent in the system call `futex`, joins apart; `None`:
    /// not known.
    pub(crate) fn futex_share(&self) -> Option<f64> {
        self.share_of(self.in_futex)
    }

    /// The same of sleeps for a time, and waits for locks of files.
    pub(crate) fn sleep_share(&self) -> Option<f64> {
        self.share_of(self.asleep)
    }

    fn share_of(&self, time: Duration) -> Option<f64> {
        // What may not be read is not known.
        (self.looked >= 10 && !self.looked_at.is_zero())
            .then(|| time.as_secs_f64() / self.looked_at.as_secs_f64().max(1e-9))
    }

    /// As if threads were seen for so many seconds, `in_futex` of them in the call `futex`.
    #[cfg(test)]
    pub(crate) fn saw(&mut self, in_futex: u64, seconds: u64) {
        (self.in_futex, self.looked_at) = (Duration::from_secs(in_futex), Duration::from_secs(seconds));
        self.looked = THOROUGH;
    }

    /// Adds a look at the family of `root`, which covers the last `time`. Most looks only count
    /// threads; the first ones, and one in [`THOROUGH`], go through all of them.
    pub(crate) fn look(&mut self, root: u32, time: Duration) {
        self.looked += 1;
        self.uncovered += time;
        if self.looked > THOROUGH && !self.looked.is_multiple_of(THOROUGH) {
            self.look_at_some(time);
            self.look_for_new();
            return;
        }
        // Of many some in turn, and some of those that are new.
        let known = self.family.len().max(1);
        let first = (self.looked / THOROUGH) as usize * MOST % known;
        let (mut family, mut next, mut new) = (vec![root], 0, 0);
        while let Some(&process) = family.get(next) {
            let is_new = next >= known && new < MOST;
            new += usize::from(is_new);
            if is_new || next < known && (next + known - first) % known < MOST {
                self.process(process, time, &mut family);
            } else if let Some(program) = self.ends.look(process) {
                self.thread_time += time * program.threads;
                family.extend(children_of(process, process));
                family.truncate(FAMILY);
            }
            next += 1;
        }
        self.uncovered = Duration::ZERO;
        self.family = family;
    }

    /// Counts the threads of some processes, which stand for all: others at the next look.
    fn look_at_some(&mut self, time: Duration) {
        let all = self.family.len();
        let some: Vec<u32> = self.family.drain(..all.min(MOST)).collect();
        let mut threads = 0;
        for process in &some {
            if let Some(program) = self.ends.look(*process) {
                threads += program.threads;
                self.family.push(*process);
            }
        }
        self.thread_time += time.mul_f64(f64::from(threads) * all as f64 / some.len().max(1) as f64);
    }

    /// Looks at children that have begun since the last look, and at processes that have become
    /// other programs: some live for less than the time between two thorough looks. Children of
    /// other threads than the first wait for one of these.
    fn look_for_new(&mut self) {
        let last = last_begun();
        let has_begun = std::mem::replace(&mut self.last_begun, last) != last || last.is_none();
        // What threads do is for thorough looks.
        let uncovered = std::mem::take(&mut self.uncovered);
        let mut family = self.family.clone();
        let mut next = 0;
        while let Some(&process) = family.get(next).filter(|_| next < MOST) {
            next += 1;
            let is_new = !self.family.contains(&process);
            let file = file_of(process).map(|file| inside(self.root.as_deref(), &file));
            if is_new || file.is_some_and(|file| !self.loaded.knows(process, &file)) {
                self.process(process, Duration::ZERO, &mut Vec::new());
            }
            if has_begun {
                let children = children_of(process, process);
                let new: Vec<u32> = children.into_iter().filter(|child| !family.contains(child)).collect();
                family.extend(new);
                family.truncate(FAMILY);
            }
        }
        self.family = family;
        self.uncovered = uncovered;
    }

    /// What thread `thread` of `process` was last seen to be called.
    pub(crate) fn name_of(&self, process: u32, thread: u32) -> Option<&str> {
        self.names.get(&(process, thread)).map(String::as_str)
    }

    fn process(&mut self, process: u32, time: Duration, family: &mut Vec<u32>) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return };
        let tasks: Vec<PathBuf> = tasks.flatten().map(|task| task.path()).collect();
        self.ends.look(process);
        self.thread_time += time * tasks.len() as u32;
        // Of many threads some, from all of them.
        for task in tasks.iter().step_by(tasks.len().div_ceil(MOST).max(1)) {
            if let Ok(call) = fs::read_to_string(task.join("syscall")) {
                self.looked_at += self.uncovered;
                if waits_in_futex(&call, &|thread| is_thread(process, thread)) {
                    self.in_futex += self.uncovered;
                } else if sleeps(&call) {
                    self.asleep += self.uncovered;
                }
            }
            self.note_name(process, task);
            let thread = task.file_name().and_then(|name| name.to_str()?.parse().ok());
            family.extend(thread.map_or_else(Vec::new, |thread| children_of(process, thread)));
        }
        family.truncate(FAMILY);
        // A first thread that has ended tells nothing: the others do.
        let program = tasks.iter().find_map(|task| fs::read_link(task.join("exe")).ok());
        let Some(program) = program.or_else(|| command(process)) else { return };
        let program = inside(self.root.as_deref(), &program);
        self.loaded.look(process, &program);
        self.elsewhere = self.elsewhere.or_else(|| other_root(process).map(|_| process));
        if self.programs.len() < PROGRAMS && !self.programs.contains(&program) {
            self.programs.push(program);
            self.own = OnceCell::new();
        }
    }

    /// Whether all of its processes told all.
    pub(crate) fn has_all(&self) -> bool {
        self.left.is_empty() && self.untold.is_none()
    }

    fn note_name(&mut self, process: u32, task: &Path) {
        let Some(thread) = task.file_name().and_then(|name| name.to_str()?.parse().ok()) else { return };
        let Ok(name) = fs::read_to_string(task.join("comm")) else { return };
        if self.names.len() < NAMES || self.names.contains_key(&(process, thread)) {
            self.names.insert((process, thread), name.trim_end().to_owned());
        }
    }

    /// The locks that its programs bring along, by `look`, which reads their files: once.
    pub(crate) fn own_locks(&self, look: impl Fn(&Path) -> Option<String>) -> Option<&str> {
        self.own.get_or_init(|| self.programs.iter().rev().find_map(|program| look(program))).as_deref()
    }
}

/// The children of `thread` of `process`.
fn children_of(process: u32, thread: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use lockyard::platform::Platform;
    use lockyard::platform::linux::Linux;
    use lockyard_segment::{Maker, Program};
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    use super::*;

    /// What a segment of `process` would tell of it.
    fn maker_of(process: u32) -> Maker {
        let program = Program::of(process).expect("it runs");
        Maker { at: program.began, stack: program.stack }
    }

    #[test]
    fn threads_have_time_and_processes_have_programs() {
        let mut known = Known::default();
        known.look(std::process::id(), Duration::from_secs(1));
        assert!(known.thread_time >= Duration::from_secs(1));
        let before = known.thread_time;
        (0..THOROUGH).for_each(|_| known.look(std::process::id(), Duration::from_secs(1)));
        assert!(known.thread_time >= before + Duration::from_secs(THOROUGH.into()), "rough looks count as well");
        assert!(known.programs.contains(&std::env::current_exe().unwrap()), "{known:?}");
        assert_eq!(Known::default().futex_share(), None);
        known.watch(std::process::id(), Duration::from_millis(16));
        assert!(known.futex_share().is_some_and(|share| (0.0..=1.0).contains(&share)));
    }

    /// Those beyond the 64th had no time, so that locks had cost all of it.
    #[test]
    fn some_processes_of_many_stand_for_all() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let of = |processes: usize| {
            let family = vec![child.id(); processes];
            let mut known = Known { family, looked: THOROUGH, ..Known::default() };
            known.look(child.id(), Duration::from_secs(1));
            assert_eq!(known.family.len(), processes);
            known.thread_time.as_secs()
        };
        let found = [of(MOST), of(4 * MOST)];
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        assert_eq!(found, [MOST as u64, 4 * MOST as u64]);
    }

    #[test]
    fn the_end_of_a_child_is_noted_though_nobody_collects_it() {
        let begun = Linux::now();
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
        let child_id = child.id();
        // Inside exec its stack begins elsewhere.
        child.stdin.as_mut().expect("a pipe").write_all(b"x").expect("it reads");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it writes");
        let mut known = Known { family: vec![child_id], ..Known::default() };
        known.look(std::process::id(), Duration::ZERO);
        let maker = maker_of(child_id);
        let end = |known: &Known| known.ends.of(child_id, &maker, begun);
        assert_eq!(end(&known), None);
        child.kill().expect("it is there");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), options).expect("it ends");
        known.look(std::process::id(), Duration::ZERO);
        let ended = end(&known);
        assert!(ended.is_some_and(|(at, has_become)| at <= Linux::now() && !has_become));
        known.look(std::process::id(), Duration::ZERO);
        assert_eq!(end(&known), ended, "once");
        child.wait().expect("it has ended");
    }

    /// A child that began and ended between two thorough looks was not seen.
    #[test]
    fn a_child_is_seen_before_the_next_thorough_look() {
        let mut parent = Command::new("sh");
        let parent = parent.args(["-c", "sleep 600 & wait"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut parent = parent.spawn().expect("sh");
        let children = format!("/proc/{0}/task/{0}/children", parent.id());
        let child = loop {
            let found = fs::read_to_string(&children).expect("it is there");
            match found.trim().parse::<u32>() {
                Ok(child) if file_of(child) != file_of(parent.id()) => break child,
                _ => thread::yield_now(),
            }
        };
        let mut known = Known { family: vec![parent.id()], looked: THOROUGH, ..Known::default() };
        known.look(parent.id(), Duration::ZERO);
        let file = file_of(child).expect("it runs");
        for process in [child, parent.id()] {
            let process = Pid::from_raw(process as i32).expect("a number");
            kill_process(process, Signal::KILL).expect("it is there");
        }
        parent.wait().expect("it ends");
        assert!(known.family.contains(&child), "{known:?}");
        assert!(known.programs.contains(&file), "{known:?}");
        assert_eq!(known.name_of(child, child), Some("sleep"));
    }
}
