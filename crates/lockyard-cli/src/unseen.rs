//! Why `lockyard stat` has seen no lock of a process, and what would help: found by looking at the
//! process and at the file that it runs.
//!
//! Nothing seen says nothing about what locks cost. So it is a failure, never a report.
//!
//! | what is found, first match | what is said |
//! |---|---|
//! | no segment can be made, or read | why: its own word, `/dev/shm`, the version |
//! | kinds of objects that are glibc's by choice | the variables that say so |
//! | a program that the library was not in | what its file says, else its changed environment |
//! | objects that were left to the C library, and no others | so many of these kinds |
//! | a program that tells by itself, or brings its own locks along | which, and the way in |
//! | none of these, and a process in another file system | that it tells there |
//! | none of these, and a segment | the signal that ended it, else that it took no lock |
//! | none of these, and no segment | all that may be the reason |
//!
//! Before the reason: processes that go on, and a signal that ended it. After it: the time in
//! futex calls.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use lockyard_segment::layout::LENGTH;
use lockyard_segment::{CHOSEN, Reader, Sample};
use rustix::fs::{Access, access, statvfs};
use rustix::io::Errno;
use rustix::process::{Resource, Signal, getrlimit};

use crate::failure::{Failure, plain};
use crate::known::Known;
use crate::own_locks::{own_locks, tells_by_itself};
use crate::report::numbers;
use crate::session;
use crate::untimed::{NOT_TIMED, none_taken};
use crate::{chosen, elf};

/// Where processes tell of their locks.
const SHARED_MEMORY: &str = "/dev/shm";
/// The room that the first page of a segment needs there, and some more.
const LEAST_ROOM: u64 = 64 << 10;

/// Whether nothing was seen: no thread has come to a lock that tells of itself.
pub(crate) fn is_unseen(sample: Option<&Sample>) -> bool {
    sample.is_none_or(|sample| sample.threads == 0 && took_none(sample))
}

/// Whether no mutex and no rwlock was taken, nor waited for.
pub(crate) fn took_none(sample: &Sample) -> bool {
    sample.acquired() == 0 && sample.lost_ns() == 0
}

/// The failure that says so of a program that was not started, with the reason and the way in.
pub(crate) fn failure(why: &str) -> Failure {
    seen_of(0, why)
}

fn seen_of(threads: u32, why: &str) -> Failure {
    let threads = numbers::count(threads as usize, "thread");
    Failure::run(format!("saw no lock of this process ({threads} registered): {why}"))
}

/// Refuses to start a program that cannot tell of its locks on this machine.
///
/// # Errors
/// Why it cannot.
pub(crate) fn check_room() -> Result<(), Failure> {
    no_room().map_or(Ok(()), |why| Err(failure(&format!("{why}; the program was not started"))))
}

fn no_room() -> Option<String> {
    no_room_in(Path::new(SHARED_MEMORY)).or_else(|| too_long(getrlimit(Resource::Fsize).current))
}

/// Whether a file of statistics is longer than the `limit` of this process, and what it starts.
fn too_long(limit: Option<u64>) -> Option<String> {
    limit.is_some_and(|limit| limit < LENGTH as u64).then(|| {
        let length = LENGTH.div_ceil(1 << 20);
        format!(
            "files are limited to less (ulimit -f) than the {length} MiB that statistics seem to have; raise the limit"
        )
    })
}

fn no_room_in(folder: &Path) -> Option<String> {
    let name = folder.display();
    let refused = access(folder, Access::WRITE_OK | Access::EXEC_OK).err();
    let full = || {
        let found = statvfs(folder).ok()?;
        // A file system without a limit says 0 of 0.
        (found.f_blocks > 0 && found.f_bavail.saturating_mul(found.f_frsize) < LEAST_ROOM).then_some(())
    };
    let (what, help) = match (refused, full) {
        (Some(Errno::NOENT), _) => ("is not there".to_owned(), format!("mount a tmpfs at {name}")),
        (Some(Errno::ROFS), _) => ("is mounted read-only".to_owned(), "mount it writable".to_owned()),
        (Some(error), _) => (format!("cannot be written: {}", plain(&error.into())), "allow it".to_owned()),
        (None, full) => full().map(|()| ("is full".to_owned(), "remove what is not needed there".to_owned()))?,
    };
    Some(format!("{name} {what}, and statistics are files there; {help}"))
}

/// Why processes of `session`, which has `readers`, told nothing, if the reason is not what they
/// did. `told`: others did tell.
pub(crate) fn refused(session: u32, readers: &[Reader], told: bool) -> Option<String> {
    let refused = Reader::refused_of_session(session);
    let why = refused.first().map(ToString::to_string).or_else(|| session::untold(readers));
    why.or_else(|| if told { None } else { no_room() })
}

/// What is known of a process that told nothing.
#[derive(Debug)]
pub(crate) struct Unseen<'a> {
    /// What it told after all.
    pub(crate) sample: Option<&'a Sample>,
    /// What `/proc` told.
    pub(crate) known: &'a Known,
    /// How it ended, if it did.
    pub(crate) status: Option<ExitStatus>,
    /// Whether the preload library was to be in it.
    pub(crate) preloaded: bool,
}

impl Unseen<'_> {
    /// The failure that says why.
    pub(crate) fn failure(&self) -> Failure {
        seen_of(self.sample.map_or(0, |sample| sample.threads), &self.why())
    }

    /// Why, in a line.
    pub(crate) fn why(&self) -> String {
        let left = session::told(&self.known.left).map(|left| left + "; of the program itself: ");
        let mut why = left.unwrap_or_default() + &self.reason();
        match self.known.futex_share() {
            Some(share) if share >= 0.01 => why.push_str(&format!(
                "; its threads spent {} % of their time in futex calls: \
                 in locks, semaphores and condition variables that are not seen",
                numbers::three(share * 100.0)
            )),
            Some(_) => why.push_str("; its threads were in futex calls for less than 1 % of their time"),
            // Too short to look at, or not to be looked at.
            None if self.sample.is_some() => {
                why.push_str("; how much of their time its threads spent in futex calls is unknown");
            }
            None => {}
        }
        why
    }

    fn reason(&self) -> String {
        if let Some(untold) = &self.known.untold {
            return untold.clone();
        }
        let here = || chosen::by_environment().filter(|_| self.preloaded);
        if let Some(left) = self.sample.map_or_else(here, chosen::by_sample) {
            return format!("{left}; unset that, or run it without --lock");
        }
        if let Some(program) = self.known.loaded.without() {
            return of_missed(program);
        }
        let killed = self.status.and_then(|status| status.signal()).map(|signal| match signal {
            // No sandbox allows what it does not know of.
            _ if signal == Signal::SYS.as_raw() => {
                "signal SIGSYS ended it: it shut itself in a sandbox that forbids a system call, perhaps one that counting makes"
                    .to_owned()
            }
            _ => format!("signal {signal} ended it before a lock was counted"),
        });
        let until_then = killed.as_ref().map_or_else(String::new, |killed| format!("{killed}; until then "));
        if let Some(left) = self.sample.and_then(left_to_glibc) {
            let none = format!("{until_then}it took no lock but what stays the C library's ({left})");
            // A thread that is registered has used something.
            let used = self.sample.is_some_and(|sample| sample.threads > 0);
            return if used { format!("{none}; {NOT_TIMED} are not timed") } else { none };
        }
        if self.known.programs.iter().any(|program| tells_by_itself(program)) {
            return match self.sample {
                Some(sample) => format!("{until_then}it told of its Lockyard locks by itself: {}", none_taken(sample)),
                None => {
                    "it tells of its Lockyard locks by itself, and has not: it ended before main, /dev/shm cannot be written, or LOCKYARD_STAT was taken out of its environment"
                        .to_owned()
                }
            };
        }
        if let Some(found) = self.known.programs.iter().rev().find_map(|program| of_file(program)) {
            return found;
        }
        if !self.preloaded {
            return "no preload library was asked for (LOCKYARD_PRELOAD is empty), and neither liblockyard nor lockyard-stat is in it; unset LOCKYARD_PRELOAD"
                .to_owned();
        }
        if let Some(process) = self.known.elsewhere {
            return format!(
                "process {process} has a file system of its own, and tells in the /dev/shm there: \
                 run this command in it, or `lockyard stat --pid` while the process runs"
            );
        }
        let Some(sample) = self.sample.filter(|_| !self.known.has_become) else { return self.not_known() };
        killed.unwrap_or_else(|| none_taken(sample))
    }

    /// Nothing came from it, not even why: all that it may be.
    fn not_known(&self) -> String {
        let ended = self.status.filter(|status| !status.success()).map(|status| {
            let how = match (status.code(), status.signal()) {
                (Some(code), _) => format!("with exit code {code}"),
                (_, Some(signal)) => format!("by signal {signal}"),
                _ => "in an unknown way".to_owned(),
            };
            format!("it ended {how}: before main, which its own messages would say, or ")
        });
        let limit = getrlimit(Resource::As).current.map(|limit| format!(", here {} MiB", limit >> 20));
        format!(
            "{}{}, it changed its user or its environment, \
             or limits (ulimit -f, -v{}) left it no room; start the process that takes the locks itself",
            ended.unwrap_or_default(),
            if self.known.has_become {
                "the program that it became by exec told nothing: it took no lock"
            } else {
                "the preload library was not in it"
            },
            limit.unwrap_or_default()
        )
    }
}

/// The objects of `sample` that stayed the C library's, by their kinds.
fn left_to_glibc(sample: &Sample) -> Option<String> {
    let some = sample.fallbacks.iter().filter(|(kind, count)| *count > 0 && !kind.starts_with(CHOSEN));
    let some: Vec<String> = some.map(|(kind, count)| format!("{} {kind}", numbers::grouped(*count))).collect();
    let help = chosen::inheriting(sample).map_or_else(String::new, |help| format!("; {help}"));
    (!some.is_empty()).then(|| some.join(", ") + &help)
}

/// What is said of a program that the library was not in; `kin`: what it is to the one that was
/// started.
fn of_missed((program, kin): (&Path, &str)) -> String {
    let name = program.display();
    own_locks(program).unwrap_or_else(|| match elf::without_loader(program) {
        Some(why) => left_out(&format!("'{name}', {kin},"), program, why),
        None => format!(
            "the preload library was not in '{name}', {kin}: LD_PRELOAD was taken out of its environment; \
             run that under this command, or keep LD_PRELOAD and LOCKYARD_STAT"
        ),
    })
}

/// What the file of `program` says about locks that cannot be seen, and the way in.
pub(crate) fn of_file(program: &Path) -> Option<String> {
    let own = own_locks(program);
    let refused = elf::without_loader(program).map(|why| of_refused(program, why));
    own.or(refused)
}

/// The same for a program of which the loader would leave the library out, for the reason `why`.
pub(crate) fn of_refused(program: &Path, why: &str) -> String {
    own_locks(program).unwrap_or_else(|| left_out(&format!("'{}'", program.display()), program, why))
}

/// `program`, which is called `name`, gets no library by the loader, for the reason `why`.
fn left_out(name: &str, program: &Path, why: &str) -> String {
    let help = if elf::gains_privileges(program).is_some() {
        "start a copy of it as the user that it needs: `cp` leaves that out"
    } else {
        "link it dynamically with glibc, or with liblockyard"
    };
    format!("{name} {why}: LD_PRELOAD has no effect on it; {help}")
}

/// What a process waits for beside the locks that were seen, `seen` of its threads' time: what
/// `known` tells of it, if that is worth a word.
pub(crate) fn beside(known: &Known, seen: f64) -> Option<String> {
    let own = known.own_locks(own_locks).map(str::to_owned);
    // A program with locks of its own is one without the library, as a rule.
    let missed = known.loaded.without().map(of_missed).filter(|missed| own.as_ref() != Some(missed));
    let own = own.into_iter().chain(missed);
    let share = known.futex_share().map(|share| share - seen).filter(|share| *share >= 0.01);
    let time = share.map(|share| {
        format!(
            "{} % of its threads' time in other futex calls: condition variables, where idle threads wait as well, or other locks",
            numbers::three(share * 100.0)
        )
    });
    let all: Vec<String> = own.chain(time).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rust_program_is_known_by_its_file() {
        let why = of_file(&std::env::current_exe().unwrap()).expect("this test is one");
        assert!(why.contains("is a Rust program") && why.contains("perf record"), "{why}");
    }

    #[test]
    fn what_is_beside_the_locks_is_told_if_it_is_much() {
        let mut known = Known::default();
        assert_eq!(beside(&known, 0.0), None);
        known.saw(90, 100);
        assert!(beside(&known, 0.4).is_some_and(|text| text.starts_with("50.0 % of its threads' time")));
        assert_eq!(beside(&known, 0.895), None);
        let mut known = Known::default();
        known.saw(90, 100);
        known.programs.push(std::env::current_exe().unwrap());
        assert!(
            beside(&known, 0.0).is_some_and(|text| text.contains("is a Rust program") && text.contains("; 90.0 %"))
        );
    }

    #[test]
    fn a_process_that_took_no_lock_says_nothing_about_locks() {
        let (sample, known) = (Sample::default(), Known::default());
        assert!(is_unseen(None) && is_unseen(Some(&sample)));
        assert!(!is_unseen(Some(&Sample { threads: 1, ..Sample::default() })), "counted, and reset");
        let of = |sample, preloaded| Unseen { sample, known: &known, status: None, preloaded }.why();
        assert!(of(Some(&sample), true).starts_with("it took no mutex, rwlock or spinlock; semaphores, "));
        assert!(of(None, true).contains("was not in it"));
        assert!(of(None, false).contains("LOCKYARD_PRELOAD is empty"));
        assert!(of(Some(&sample), true).ends_with("in futex calls is unknown"));
        let robust = Sample { fallbacks: vec![("robust".to_owned(), 2)], ..Sample::default() };
        assert!(of(Some(&robust), true).contains("but what stays the C library's (2 robust)"));
        // It was left there, though a lock of ours is for it.
        let inherit = Sample { fallbacks: vec![("inherit".to_owned(), 1)], ..Sample::default() };
        let why = of(Some(&inherit), true);
        assert!(why.contains("(1 inherit; those that") && why.contains("`lockyard run --lock rt`"), "{why}");
    }

    /// It was said to take none.
    #[test]
    fn semaphores_of_a_program_that_tells_by_itself_are_told() {
        let file = std::env::temp_dir().join(format!("lockyard-tells.{}", std::process::id()));
        std::fs::write(&file, lockyard_segment::TELLS_BYTES).expect("a file");
        let mut known = Known::default();
        known.programs.push(file.clone());
        let events = vec![("sem_slowpath".to_owned(), 193)];
        let sample = Sample { threads: 4, events, ..Sample::default() };
        let why = Unseen { sample: Some(&sample), known: &known, status: None, preloaded: false }.why();
        std::fs::remove_file(&file).expect("it is there");
        let begin = "it told of its Lockyard locks by itself: it took no mutex, rwlock or spinlock; ";
        assert!(why.starts_with(begin) && why.contains("not timed (193 waits for semaphores)"), "{why}");
    }

    #[test]
    fn what_is_seen_of_it_besides_is_told_with_the_reason() {
        let sample = Sample { threads: 2, events: vec![("sem_slowpath".to_owned(), 3)], ..Sample::default() };
        let mut known = Known::default();
        let of = |known: &Known, untold: Option<&str>| {
            let mut known = known.clone();
            known.untold = untold.map(str::to_owned);
            Unseen { sample: Some(&sample), known: &known, status: None, preloaded: true }.failure().to_string()
        };
        assert!(took_none(&sample) && !is_unseen(Some(&sample)));
        assert!(of(&known, None).contains("(2 threads registered)") && of(&known, None).contains("(3 waits for sem"));
        known.saw(0, 100);
        assert!(of(&known, None).ends_with("in futex calls for less than 1 % of their time"));
        known.loaded = session::Loaded::missed(Path::new("/no/such/program"));
        assert!(of(&known, None).contains("the preload library was not in '/no/such/program'"));
        assert!(beside(&known, 0.0).is_some_and(|text| text.starts_with("the preload library was not in")));
        known.left = vec![session::Left { process: 7, tells: true }];
        assert!(of(&known, Some("no room")).contains(": process 7, which it started, still runs: `lockyard "));
        assert!(of(&known, Some("no room")).contains("--pid 7`; of the program itself: no room"));
    }

    #[test]
    fn where_nothing_can_be_told_is_said() {
        let missing = no_room_in(Path::new("/no/such/folder")).unwrap_or_default();
        assert!(
            missing.starts_with("/no/such/folder is not there, and statistics are files there; mount"),
            "{missing}"
        );
        assert_eq!(no_room_in(&std::env::temp_dir()), None);
        // A limit is a reason only where it may be one.
        let length = LENGTH as u64;
        assert!(too_long(Some(length - 1)).is_some_and(|why| why.contains("(ulimit -f)")));
        assert!([None, Some(length)].into_iter().all(|limit| too_long(limit).is_none()));
    }

    /// Its main may have run: without the library nobody knows.
    #[test]
    fn a_program_that_tells_nothing_and_fails_is_not_said_to_have_ended_before_main() {
        let known = Known::default();
        let status = Some(ExitStatus::from_raw(1 << 8));
        let why = Unseen { sample: None, known: &known, status, preloaded: true }.why();
        for part in [
            "it ended with exit code 1: before main, which",
            ", or the preload library was not in it,",
            "(ulimit -f, -v",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
    }

    #[test]
    fn a_program_that_a_sandbox_ended_is_not_said_to_take_no_lock() {
        let known = Known::default();
        let ended = |signal: i32| {
            let (sample, status) = (Sample { threads: 2, ..Sample::default() }, ExitStatus::from_raw(signal));
            let unseen = Unseen { sample: Some(&sample), known: &known, status: Some(status), preloaded: true };
            unseen.why()
        };
        assert!(ended(Signal::SYS.as_raw()).starts_with("signal SIGSYS ended it: it shut itself in a sandbox"));
        assert!(ended(9).starts_with("signal 9 ended it before a lock was counted"));
        // Nor is it told only what it left to others until then.
        let robust = Sample { fallbacks: vec![("robust".to_owned(), 1)], ..Sample::default() };
        let status = Some(ExitStatus::from_raw(Signal::SYS.as_raw()));
        let why = Unseen { sample: Some(&robust), known: &known, status, preloaded: true }.why();
        assert!(
            why.starts_with("signal SIGSYS ended it") && why.contains("until then it took no lock but what"),
            "{why}"
        );
        assert!(ended(0).starts_with("it took no mutex"));
    }
}
