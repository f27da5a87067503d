//! Programs on Lockyard's locks: `lockyard run -- PROGRAM`, and what `lockyard stat -- PROGRAM` has
//! in common with it.
//!
//! The preload library is `LOCKYARD_PRELOAD`, or `liblockyard_preload.so` beside this command or in
//! `../lib`. An empty `LOCKYARD_PRELOAD` means none: for programs that are linked with liblockyard.
//! Its path is made absolute: the program, or a child of it, may work in another directory. What
//! the loader would not take is refused: see `elf`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockyard::history::rwsem::policy;

use crate::cli::RunArgs;
use crate::failure::{Failure, plain};
use crate::{elf, own_locks, suggest, unseen};

const LIBRARY: &str = "liblockyard_preload.so";

/// A kind of pthread object: how `--lock` names it, its variable, and the locks that can serve it.
struct Served {
    kind: &'static str,
    variable: &'static str,
    by: &'static [&'static str],
}

const SERVED: [Served; 4] = [
    Served { kind: "mutex", variable: "LOCKYARD_MUTEX", by: &["mutex", "spin", "hq", "rt", "glibc"] },
    Served {
        kind: "rwlock",
        variable: "LOCKYARD_RWLOCK",
        by: &["rwsem", "read-mostly", "percpu-rwsem", "qrw", "glibc"],
    },
    Served { kind: "spin", variable: "LOCKYARD_SPIN", by: &["spin", "hq", "glibc"] },
    Served { kind: "sem", variable: "LOCKYARD_SEM", by: &["lockyard", "glibc"] },
];

/// A program to be started on Lockyard's locks.
#[derive(Debug)]
pub(crate) struct Launch {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    /// The preload library that is to be in it.
    pub(crate) library: Option<PathBuf>,
}

/// What a program is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be on our locks.
    Run,
    /// To tell of its locks. One that has lockyard-stat or a static liblockyard in it does so
    /// without the preload library.
    Watch,
}

impl Launch {
    /// Checks that the program can be started, and that it will be on our locks.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(words: &[OsString], locks: Option<&str>, purpose: Purpose) -> Result<Self, Failure> {
        let [program, arguments @ ..] = words else {
            return Err(unnamed());
        };
        let mut environment = locks.map_or(Ok(Vec::new()), chosen)?;
        let by_itself =
            purpose == Purpose::Watch && elf::file_of(program).is_some_and(|file| own_locks::tells_by_itself(&file));
        let library = if by_itself { None } else { library()? };
        if let Some(preloaded) = &library
            && let Some((file, why)) = elf::ignores(program, preloaded)
        {
            match purpose {
                Purpose::Run => {
                    return Err(Failure::usage(format!("'{}' {why}: LD_PRELOAD has no effect on it", file.display())));
                }
                Purpose::Watch => return Err(unseen::failure(&unseen::of_refused(&file, why))),
            }
        }
        if let Some(library) = &library {
            let mut preload = library.clone().into_os_string();
            // Ours last: an allocator that is preloaded as well takes locks of ours, not the other
            // way round.
            if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
                preload = [others.as_os_str(), preload.as_os_str()].join(OsStr::new(":"));
            }
            environment.push(("LD_PRELOAD", preload));
        }
        // What is linked with liblockyard, or with lockyard-stat, opens its statistics by this; the
        // preload library does so anyway. Under `run` the user may say no.
        let refused = purpose == Purpose::Run && std::env::var_os("LOCKYARD_STAT").is_some_and(|value| value == "0");
        environment.push(("LOCKYARD_STAT", if refused { "0" } else { "1" }.into()));
        Ok(Self { program: program.clone(), arguments: arguments.to_vec(), environment, library })
    }

    /// The program as it is, without a library of ours.
    ///
    /// # Errors
    /// None is named.
    pub(crate) fn bare(words: &[OsString]) -> Result<Self, Failure> {
        let [program, arguments @ ..] = words else { return Err(unnamed()) };
        let (program, arguments) = (program.clone(), arguments.to_vec());
        Ok(Self { program, arguments, environment: Vec::new(), library: None })
    }

    /// The program, as it was named.
    pub(crate) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// The program and its arguments, in one line.
    pub(crate) fn line(&self) -> String {
        let words = [&self.program].into_iter().chain(&self.arguments).map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    /// The file that it is.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        elf::file_of(&self.program)
    }

    /// How it is started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (*name, value)));
        command
    }

    /// Why it could not be started, in a line.
    pub(crate) fn refused(&self, error: &std::io::Error) -> Failure {
        let name = self.name();
        let process = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let hint = if process { format!("; a running process is named by --pid {name}") } else { String::new() };
        Failure::usage(format!("cannot start '{name}': {}{hint}", plain(error)))
    }
}

/// `lockyard run`: becomes the program. Its signals, its exit code and its process id are those of
/// this command.
///
/// # Errors
/// It cannot be started.
pub(crate) fn run(args: &RunArgs) -> Result<u8, Failure> {
    let launch = Launch::check(&args.program, args.lock.as_deref(), Purpose::Run)?;
    Err(launch.refused(&launch.command().exec()))
}

fn unnamed() -> Failure {
    Failure::usage("no program is named; as in: lockyard run memcached -t 4")
}

/// What `--lock` says, as the preload library's variables.
fn chosen(list: &str) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let kinds: Vec<&str> = SERVED.iter().map(|served| served.kind).collect();
    let one = |part: &str| -> Result<(&'static str, OsString), Failure> {
        let (kind, lock) = part.trim().split_once('=').unwrap_or(("mutex", part.trim()));
        suggest::known("kind of object", "--lock", kind, &kinds)?;
        let served = SERVED.iter().find(|served| served.kind == kind).unwrap_or(&SERVED[0]);
        let lock = match lock.split_once(':') {
            Some((family, name)) if kind == "rwlock" && suggest::lock(family, &["rwsem"]).is_some() => {
                let policies = [&["today"], policy::NAMES].concat();
                &format!("rwsem:{}", suggest::known("policy", "--lock", name, &policies)?)
            }
            _ => suggest::known("lock", "--lock", lock, served.by)?,
        };
        Ok((served.variable, lock.into()))
    };
    let mut all: Vec<(&'static str, OsString)> = Vec::new();
    for part in list.split(',') {
        let (variable, lock) = one(part)?;
        if all.iter().any(|(known, _)| *known == variable) {
            let kind = SERVED.iter().find(|served| served.variable == variable).map_or("", |served| served.kind);
            return Err(Failure::usage(format!("--lock: '{list}' names two locks for {kind}; give one")));
        }
        all.push((variable, lock));
    }
    Ok(all)
}

/// The preload library, by its absolute path; `None` if none is wanted.
fn library() -> Result<Option<PathBuf>, Failure> {
    let Some(path) = named_or_near()? else { return Ok(None) };
    let path = std::path::absolute(&path).unwrap_or(path);
    match elf::no_library(&path) {
        None => Ok(Some(path)),
        Some(why) => Err(Failure::usage(format!("'{}' {why} (set LOCKYARD_PRELOAD)", path.display()))),
    }
}

fn named_or_near() -> Result<Option<PathBuf>, Failure> {
    if let Some(set) = std::env::var_os("LOCKYARD_PRELOAD") {
        let path = PathBuf::from(set);
        return match path.as_os_str().is_empty() {
            true => Ok(None),
            false if path.is_file() => Ok(Some(path)),
            false => Err(Failure::usage(format!("LOCKYARD_PRELOAD: '{}' is no file", path.display()))),
        };
    }
    let here = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned)).unwrap_or_default();
    let places = [here.join(LIBRARY), here.join("../lib").join(LIBRARY)];
    let found = places.into_iter().find(|place| place.is_file());
    found.map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "no {LIBRARY} in {} or ../lib; make it with `cargo build --release -p lockyard-preload`, or set LOCKYARD_PRELOAD to it, or to nothing for a program linked with liblockyard",
            here.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(list: &str) -> String {
        match chosen(list) {
            Ok(all) => format!("{all:?}"),
            Err(failure) => failure.to_string(),
        }
    }

    /// The last one was taken, and no word said.
    #[test]
    fn two_locks_for_one_kind_are_refused() {
        for list in ["mutex=hq,mutex=spin", "hq,mutex=spin", "hq, rwlock=qrw, hq"] {
            assert_eq!(shown(list), format!("--lock: '{list}' names two locks for mutex; give one"));
        }
    }

    #[test]
    fn locks_are_chosen_by_kind_of_object() {
        assert_eq!(shown("hq"), "[(\"LOCKYARD_MUTEX\", \"hq\")]");
        assert_eq!(
            shown("mutex=spin,rwlock=rwsem:v5.10"),
            "[(\"LOCKYARD_MUTEX\", \"spin\"), (\"LOCKYARD_RWLOCK\", \"rwsem:v5.10\")]"
        );
        assert!(shown("mutx=hq").contains("did you mean 'mutex'?"));
        assert!(
            shown("rwlock=hq")
                .starts_with("--lock: unknown lock 'hq'; valid: rwsem, read-mostly, percpu-rwsem, qrw, glibc"),
            "{}",
            shown("rwlock=hq")
        );
        assert!(shown("rwlock=rwsem:v5").starts_with("--lock: unknown policy 'v5'"));
    }
}
