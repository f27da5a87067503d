//! The processes of a program that this command has started, beyond the first: which of them go on
//! when that has ended, and which run without the preload library.
//!
//! | asked | told by |
//! |---|---|
//! | which processes go on | their segments, else the session in their environment |
//! | whether the library is in a process | what it has mapped: a C library, and ours or not |
//!
//! The environment is that with which a process began. What it has mapped is asked again when its
//! stack begins elsewhere, as it does after exec.
//! A process that has overwritten its environment, and has no segment, is not found.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lockyard_segment::{Program as Running, Reader};

use crate::elf;

/// Processes that are remembered.
const MOST: usize = 64;
/// Reads of an environment that is empty before it counts as empty, some milliseconds.
const INSIDE_EXEC: u32 = 500;

/// A process that goes on after the one that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) process: u32,
    /// Whether it has a segment.
    pub(crate) tells: bool,
}

/// The processes of session `session` that run, those that tell of their locks first.
pub(crate) fn running(session: u32) -> Vec<Left> {
    let readers = Reader::of_session(session);
    let mut found: Vec<Left> = readers
        .iter()
        .filter(|reader| !reader.ended())
        .map(|reader| Left { process: reader.process(), tells: true })
        .collect();
    let mark = format!("LOCKYARD_SESSION={session}");
    let began_so =
        |process: u32| environment(process).split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
    // An earlier command may have had the same id.
    let begun = began(session);
    let belongs = |process: &u32| began(*process).is_some_and(|its| Some(its) >= begun) && began_so(*process);
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for process in all.filter(belongs) {
        if !found.iter().any(|left| left.process == process) {
            found.push(Left { process, tells: false });
        }
    }
    found
}

/// The children of `process`, and theirs, that run and tell of their locks. Not those whose parents
/// have ended, as daemons' have.
pub(crate) fn children(process: u32) -> Vec<Left> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |child: u32| field_of(&fs::read_to_string(format!("/proc/{child}/stat")).ok()?, 4);
    let mut begun: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    all.filter_map(|child| Some((parent(child)?, child)))
        .for_each(|(parent, child)| begun.entry(parent).or_default().push(child));
    let mut found = vec![process];
    let mut at = 0;
    while let Some(of) = found.get(at) {
        found.extend(begun.remove(&u64::from(*of)).unwrap_or_default());
        at += 1;
    }
    let tells = |child: &u32| Reader::open(*child).is_ok_and(|reader| !reader.ended());
    found.into_iter().skip(1).filter(tells).map(|process| Left { process, tells: true }).collect()
}

/// The environment with which `process` began: empty if it began without one, has ended, belongs to
/// another user or to the kernel.
fn environment(process: u32) -> Vec<u8> {
    // A shell that starts a program and ends leaves a process inside exec. That reads as empty
    // until the new stack is laid out. A process of the kernel has no file.
    for _ in 0..INSIDE_EXEC {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if !environment.is_empty() || fs::read_link(format!("/proc/{process}/exe")).is_err() {
            return environment;
        }
        std::thread::yield_now();
    }
    Vec::new()
}

/// How many threads `process` has that go on. `None`: it has ended, though nobody may have
/// collected it yet, or is about to: to give much memory back takes long.
pub(crate) fn threads(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    if !ends(&stat) {
        return field_of(&stat, 20).map(|threads| threads as u32);
    }
    // The first thread may end before the others.
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    Some(stats.filter(|stat| !ends(stat)).count() as u32).filter(|threads| *threads > 0)
}

/// Whether the thread with this `stat` is in its end, or past it: a flag of the kernel's.
fn ends(stat: &str) -> bool {
    const EXITING: u64 = 4;
    field_of(stat, 9).is_some_and(|flags| flags & EXITING != 0)
}

/// What `left` means for a reader of the report, as half a sentence; `None`: nothing runs.
pub(crate) fn told(left: &[Left]) -> Option<String> {
    const NAMED: usize = 4;
    let first = left.first()?;
    let names: Vec<String> = left.iter().take(NAMED).map(|one| one.process.to_string()).collect();
    let names = match names.as_slice() {
        [only] => format!("process {only}, which it started, still runs"),
        _ if left.len() > NAMED => {
            format!("processes {} and {} more, which it started, still run", names.join(", "), left.len() - NAMED)
        }
        [most @ .., last] => format!("processes {} and {last}, which it started, still run", most.join(", ")),
        [] => return None,
    };
    let process = first.process;
    Some(match first.tells {
        true => format!("{names}: `lockyard stat --pid {process}`"),
        // The child of a fork opens its statistics when it first takes a lock.
        false => format!("{names}, without a lock so far: `lockyard stat --pid {process}` later"),
    })
}

/// The children of forks that could not tell of their locks, by the segments of `readers`.
pub(crate) fn untold(readers: &[Reader]) -> Option<String> {
    let (count, why) = Reader::untold_children(readers)?;
    Some(match count {
        1 => format!("a child of a fork could not make its statistics: {why}"),
        _ => format!("{count} children of forks could not make their statistics; one of them: {why}"),
    })
}

/// Where the preload library was found missing, and where not.
#[derive(Debug, Default, Clone)]
pub(crate) struct Loaded {
    /// The library's name among the files that a process has mapped; `None`: it is in none.
    library: Option<OsString>,
    /// The process that was started.
    first: Option<u32>,
    seen: Vec<Program>,
}

/// What a process runs.
#[derive(Debug, Clone)]
struct Program {
    process: u32,
    file: PathBuf,
    stack: u64,
    /// Whether the library is in it; `None`: not known so far.
    has: Option<bool>,
}

impl Loaded {
    /// `library` is to be in all processes.
    pub(crate) fn of(library: Option<&Path>) -> Self {
        let name = |library: &Path| Some(fs::canonicalize(library).ok()?.file_name()?.to_owned());
        Self { library: library.and_then(name), first: None, seen: Vec::new() }
    }

    /// Looks at `process`, which runs `file`.
    pub(crate) fn look(&mut self, process: u32, file: &Path) {
        let Some(library) = &self.library else { return };
        self.first.get_or_insert(process);
        let stack = Running::of(process).map_or(0, |running| running.stack);
        let is_known = |seen: &Program| seen.stack == stack && seen.file == file && seen.has.is_some();
        let at = match self.seen.iter().position(|seen| seen.process == process) {
            Some(at) if is_known(&self.seen[at]) => return,
            Some(at) => at,
            None if self.seen.len() < MOST => {
                self.seen.push(Program { process, file: PathBuf::new(), stack, has: None });
                self.seen.len() - 1
            }
            // Those that have it need no word.
            None => match self.seen.iter().position(|seen| seen.has != Some(false)) {
                Some(at) => at,
                None => return,
            },
        };
        let maps = fs::read(format!("/proc/{process}/maps")).ok().filter(|_| stack != 0);
        // What is linked statically never has a C library, and what has another's rights may not
        // be looked into.
        let has = maps.and_then(|maps| has_library(&maps, library));
        let has = has.or_else(|| elf::without_loader(file).map(|_| false));
        self.seen[at] = Program { process, file: file.to_owned(), stack, has };
    }

    /// Whether a look at `process`, which runs `file`, would tell what is known.
    pub(crate) fn knows(&self, process: u32, file: &Path) -> bool {
        let is_it = |seen: &Program| seen.process == process && seen.file == file && seen.has.is_some();
        self.library.is_none() || self.seen.iter().any(is_it)
    }

    /// The file of a program that had not the library in it, the last one that was seen, and what
    /// it is to the process that was started.
    pub(crate) fn without(&self) -> Option<(&Path, &'static str)> {
        let seen = self.seen.iter().rev().find(|seen| seen.has == Some(false))?;
        let is_first = self.first.is_none_or(|first| first == seen.process);
        Some((&seen.file, if is_first { "which it became" } else { "which it started" }))
    }

    /// As if a process had been seen that runs `file` without the library.
    #[cfg(test)]
    pub(crate) fn missed(file: &Path) -> Self {
        let seen = Program { process: 1, file: file.to_owned(), stack: 1, has: Some(false) };
        Self { library: None, first: None, seen: vec![seen] }
    }
}

/// Whether the process that has mapped `maps` has `library` among its files. `None`: it has no C
/// library either, so that the loader is not done with it, or there is no loader; or it has ended.
fn has_library(maps: &[u8], library: &OsStr) -> Option<bool> {
    let names = || {
        maps.split(|byte| *byte == b'\n')
            .filter_map(|line| Some(&line[line.iter().rposition(|byte| *byte == b'/')? + 1..]))
    };
    let c = names().any(|name| name.starts_with(b"libc.so") || name.starts_with(b"libc-2"));
    // The text comes in pieces, and ends early if the process does. The stack is behind all files.
    let whole = maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(b"[stack]"));
    match names().any(|name| name.starts_with(library.as_bytes())) {
        true => Some(true),
        false => (c && whole).then_some(false),
    }
}

/// When `process` began, in ticks since boot.
fn began(process: u32) -> Option<u64> {
    Running::of(process).map(|running| running.began)
}

/// A number in a `stat` that was read, behind the name.
fn field_of(stat: &str, number: usize) -> Option<u64> {
    stat.rsplit(')').next()?.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_that_go_on_are_named() {
        let left = |processes: &[u32], tells| {
            let left: Vec<Left> = processes.iter().map(|process| Left { process: *process, tells }).collect();
            told(&left).unwrap_or_default()
        };
        assert_eq!(left(&[], true), "");
        assert_eq!(left(&[7], true), "process 7, which it started, still runs: `lockyard stat --pid 7`");
        assert_eq!(
            left(&[7], false),
            "process 7, which it started, still runs, without a lock so far: `lockyard stat --pid 7` later"
        );
        assert!(left(&[7, 8], true).starts_with("processes 7 and 8, which it started, still run: "));
        assert!(left(&[1, 2, 3, 4, 5, 6], true).starts_with("processes 1, 2, 3, 4 and 2 more, which it "));
    }

    /// Its waits went on until its memory was given back.
    #[test]
    fn a_thread_that_is_about_to_end_does_not_go_on() {
        let stat = |flags: u32| format!("7 (a) b) S 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 3 0 100");
        assert!(ends(&stat(0x40_0004)) && !ends(&stat(0x40_0100)) && !ends(""));
        assert_eq!(field_of(&stat(0), 20), Some(3));
    }

    #[test]
    fn a_process_of_a_session_is_found_by_its_environment() {
        // No process has such a number.
        let session = u32::MAX - std::process::id();
        let mut child = Command::new("cat");
        child.env("LOCKYARD_SESSION", session.to_string()).stdin(Stdio::piped());
        let mut child = child.spawn().expect("cat");
        let expected = Left { process: child.id(), tells: false };
        assert_eq!(running(session), [expected]);
        assert_eq!(running(session - 1), []);
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        assert_eq!(running(session), []);
    }

    #[test]
    fn a_process_of_an_earlier_session_with_the_same_id_is_not_found() {
        let mut earlier = Command::new("sh");
        earlier.args(["-c", "read session; LOCKYARD_SESSION=$session exec cat"]);
        let mut earlier = earlier.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("sh");
        let session = || Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let mut later = session();
        while began(later.id()) == began(earlier.id()) {
            later.kill().expect("it is there");
            later.wait().expect("it ends");
            later = session();
        }
        let mut told = earlier.stdin.take().expect("a pipe");
        writeln!(told, "{}", later.id()).expect("it reads");
        let mark = format!("LOCKYARD_SESSION={}", later.id());
        let is_mark = |word: &[u8]| word == mark.as_bytes();
        while !environment(earlier.id()).split(|byte| *byte == 0).any(is_mark) {
            std::thread::yield_now();
        }
        assert_eq!(running(later.id()), []);
        for mut child in [earlier, later] {
            child.kill().expect("it is there");
            child.wait().expect("it ends");
        }
    }

    #[test]
    fn the_library_is_missed_only_where_the_loader_is_done() {
        let library = OsStr::new("libours.so");
        let maps = |files: &[&str]| {
            files.iter().map(|file| format!("1-2 r-xp 0 08:01 7   {file}\n")).collect::<String>().into_bytes()
        };
        assert_eq!(has_library(&maps(&["/bin/a", "[heap]", "/lib/ld-linux.so.2"]), library), None);
        assert_eq!(has_library(&maps(&["/bin/a", "/lib/libc.so.6", "[stack]"]), library), Some(false));
        // The process ended while this was read.
        assert_eq!(has_library(&maps(&["/bin/a", "/lib/libc.so.6"]), library), None);
        assert_eq!(has_library(&maps(&["/bin/a", "/lib/libc.so.6", "/x/libours.so (deleted)"]), library), Some(true));
    }

    #[test]
    fn a_process_has_what_it_has_mapped() {
        let (own, exe) = (std::process::id(), std::env::current_exe().unwrap());
        let look = |library: &str| {
            let mut loaded = Loaded { library: Some(library.into()), first: None, seen: Vec::new() };
            loaded.look(own, &exe);
            loaded.without().map(|(file, _)| file.to_owned())
        };
        assert_eq!((look("liblockyard_no_such.so"), look("libc.so")), (Some(exe.clone()), None));
        assert_eq!(Loaded::of(Some(Path::new("/no/such.so"))).library, None);
    }
}
