//! `cargo xtask lab foreign DIR…`: the programs of other people's test suites on glibc's locks and,
//! preloaded, on ours.
//!
//! Each C file with a `main` is compiled by itself, with every folder `include` at or above it on
//! the path, and run both ways, a program for each CPU at a time. A suite of such files is the Open
//! POSIX Test Suite. What a run ends in is its exit code, its signal, or "timed out"; a program
//! that ends differently is printed, one line each.

use std::fmt::{self, Display, Formatter};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use crate::tools::{self, Outcome, cargo, need};

/// What programs are compiled with, unless `--cflags` says otherwise.
const FLAGS: &str = "-w -O1 -pthread -D_GNU_SOURCE";

/// Raised by Ctrl-C: no further program begins, and those that run are killed.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn kill(process: i32, signal: i32) -> i32;
}

extern "C" fn interrupt(_signal: i32) {
    INTERRUPTED.store(true, Relaxed);
}

/// What is compared.
#[derive(Debug)]
struct Suite {
    places: Vec<PathBuf>,
    preload: PathBuf,
    limit: Duration,
    jobs: usize,
    flags: String,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Code(i32),
    Signal(i32),
    TimedOut,
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::TimedOut => f.write_str("timed out"),
        }
    }
}

/// What came of a file.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Alike,
    Differs(End, End),
    Uncompiled,
    Skipped,
    /// The run was interrupted.
    Unknown,
}

/// How many files came to what.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    alike: usize,
    differ: usize,
    uncompiled: usize,
    skipped: usize,
    unknown: usize,
}

/// Carries out `cargo xtask lab foreign` with `words`, called in folder `here`. The exit code: 1 if
/// a program differs, 2 if nothing was compared.
pub(super) fn main(here: &Path, words: &[&str]) -> u8 {
    match suite(here, words).and_then(|suite| compare(&suite)) {
        Ok(tally) => {
            let interrupted = INTERRUPTED.load(Relaxed);
            let rest = if interrupted { format!("; interrupted, {} unknown", tally.unknown) } else { String::new() };
            println!(
                "{} alike, {} differ, {} did not compile, {} skipped{rest}",
                tally.alike, tally.differ, tally.uncompiled, tally.skipped
            );
            match (tally.differ, interrupted) {
                (0, false) => 0,
                (0, true) => 130,
                _ => 1,
            }
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            2
        }
    }
}

fn suite(here: &Path, words: &[&str]) -> Outcome<Suite> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let mut suite = Suite {
        places: Vec::new(),
        preload: PathBuf::new(),
        limit: Duration::from_secs(60),
        jobs: cpus,
        flags: FLAGS.to_owned(),
    };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("lab foreign: {word} needs a value"));
        let number = |text: &str, most: usize| {
            let number = text.parse().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| format!("lab foreign: {word}: 1 to {most}, '{text}' was given"))
        };
        match word {
            "--secs" => suite.limit = Duration::from_secs(number(value()?, 86_400)? as u64),
            "--jobs" => suite.jobs = number(value()?, cpus)?,
            "--cflags" => suite.flags = value()?.to_owned(),
            "--preload" => suite.preload = here.join(value()?),
            _ if word.starts_with('-') => return Err(format!("lab foreign: no such option: {word}")),
            _ => suite.places.push(here.join(word)),
        }
    }
    if suite.places.is_empty() {
        return Err("lab foreign: say `lab foreign DIR...`; `cargo xtask lab --help`".to_owned());
    }
    need("cc", "gcc")?;
    if suite.preload.as_os_str().is_empty() {
        cargo("build --release -p lockyard-preload")?;
        suite.preload = tools::target().join("release/liblockyard_preload.so");
    }
    // A loader that does not find the library goes on without it, and everything would be alike.
    suite.preload =
        fs::canonicalize(&suite.preload).map_err(|error| format!("{}: {error}", suite.preload.display()))?;
    // SAFETY: a handler that stores a flag.
    let _ = [2, 15].map(|number| unsafe { signal(number, interrupt) });
    Ok(suite)
}

/// Compiles and runs everything, and prints what differs.
fn compare(suite: &Suite) -> Outcome<Tally> {
    let mut files = Vec::new();
    for place in &suite.places {
        let place = fs::canonicalize(place).map_err(|error| format!("{}: {error}", place.display()))?;
        collect(&place, &mut files)?;
    }
    files.sort();
    files.dedup();
    let scratch = env::temp_dir().join(format!("lockyard-foreign-{}", process::id()));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut tally = Tally::default();
        while let Some(number) = Some(next.fetch_add(1, Relaxed)).filter(|&number| number < files.len()) {
            let file = &files[number];
            let folder = scratch.join(number.to_string());
            let verdict = judge(suite, file, &folder);
            // What a program leaves there it may have protected: nothing depends on it.
            drop(fs::remove_dir_all(&folder));
            match verdict? {
                Verdict::Alike => tally.alike += 1,
                Verdict::Uncompiled => tally.uncompiled += 1,
                Verdict::Skipped => tally.skipped += 1,
                Verdict::Unknown => tally.unknown += 1,
                Verdict::Differs(glibc, ours) => {
                    println!("{}: glibc {glibc}, preloaded {ours}", file.display());
                    tally.differ += 1;
                }
            }
        }
        Ok(tally)
    };
    let tallies: Vec<Outcome<Tally>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..suite.jobs).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err("a worker panicked".to_owned());
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
    });
    drop(fs::remove_dir_all(&scratch));
    let mut sum = Tally::default();
    for tally in tallies {
        let tally = tally?;
        sum.alike += tally.alike;
        sum.differ += tally.differ;
        sum.uncompiled += tally.uncompiled;
        sum.skipped += tally.skipped;
        sum.unknown += tally.unknown;
    }
    Ok(sum)
}

/// All C files in `place`, or it itself.
fn collect(place: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    if place.is_file() {
        files.push(place.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(place).map_err(|error| format!("{}: {error}", place.display()))?;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| !path.is_symlink()) {
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "c") {
            files.push(path);
        }
    }
    Ok(())
}

/// Compiles `file` in `folder` and runs it both ways.
fn judge(suite: &Suite, file: &Path, folder: &Path) -> Outcome<Verdict> {
    if INTERRUPTED.load(Relaxed) {
        return Ok(Verdict::Unknown);
    }
    let text = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    if !String::from_utf8_lossy(&text).contains("main") {
        return Ok(Verdict::Skipped);
    }
    let [glibc, ours] = ["glibc", "preloaded"].map(|name| folder.join(name));
    for folder in [&glibc, &ours] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let program = folder.join("program");
    let mut compiler = Command::new("cc");
    compiler.args(suite.flags.split_whitespace()).arg("-o").arg(&program).arg(file);
    for above in file.ancestors().skip(1).map(|above| above.join("include")).filter(|include| include.is_dir()) {
        compiler.arg("-I").arg(above);
    }
    compiler.args(["-lrt", "-lm"]);
    if end(&mut compiler, folder, suite.limit)? != Some(End::Code(0)) {
        let verdict = if INTERRUPTED.load(Relaxed) { Verdict::Unknown } else { Verdict::Uncompiled };
        return Ok(verdict);
    }
    let first = end(&mut Command::new(&program), &glibc, suite.limit)?;
    let second = end(Command::new(&program).env("LD_PRELOAD", &suite.preload), &ours, suite.limit)?;
    Ok(match (first, second) {
        (Some(first), Some(second)) if first == second => Verdict::Alike,
        (Some(first), Some(second)) => Verdict::Differs(first, second),
        _ => Verdict::Unknown,
    })
}

/// How a command ends in `folder`, with all that it has started; `None` if it was interrupted.
fn end(command: &mut Command, folder: &Path, limit: Duration) -> Outcome<Option<End>> {
    // A group of its own: Ctrl-C comes to us alone, and what is left of it goes by one signal.
    command.current_dir(folder).process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let begun = Instant::now();
    let end = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let signal = || End::Signal(status.signal().unwrap_or_default());
            break Some(status.code().map_or_else(signal, End::Code));
        }
        let interrupted = INTERRUPTED.load(Relaxed);
        if interrupted || begun.elapsed() > limit {
            tools::kill_family(&mut child)?;
            break (!interrupted).then_some(End::TimedOut);
        }
        thread::sleep(Duration::from_millis(5));
    };
    let group = i32::try_from(child.id()).map_err(|error| error.to_string())?;
    // SAFETY: signals the group that the child was made the leader of, if anybody of it is left.
    unsafe { kill(-group, 9) };
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that ends alike, one that does not, one that hangs when preloaded, one that is
    /// none, and one that does not compile.
    #[test]
    fn planted_programs_are_told_apart() {
        let folder = env::temp_dir().join(format!("lockyard-planted-{}", process::id()));
        let inner = folder.join("inner");
        fs::create_dir_all(folder.join("include")).unwrap();
        fs::create_dir_all(&inner).unwrap();
        let preloaded = "#include <stdlib.h>\n#include <unistd.h>\n#include \"planted.h\"\n";
        for (name, text) in [
            ("include/planted.h", "#define SEVEN 7\n".to_owned()),
            ("alike.c", "int main(void) { return 3; }\n".to_owned()),
            (
                "inner/differs.c",
                format!("{preloaded}int main(void) {{ return getenv(\"LD_PRELOAD\") ? SEVEN : 0; }}\n"),
            ),
            (
                "inner/hangs.c",
                format!("{preloaded}int main(void) {{ return getenv(\"LD_PRELOAD\") ? pause() : 0; }}\n"),
            ),
            ("inner/part.c", "int part;\n".to_owned()),
            ("inner/wrong.c", "int main(void) { return nothing; }\n".to_owned()),
            ("library.txt", "int library;\n".to_owned()),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let preload = folder.join("library.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-x", "c", "-shared", "-fPIC", "-o"]).arg(&preload).arg(folder.join("library.txt"));
        assert!(compiler.status().unwrap().success());
        let limit = Duration::from_secs(1);
        let suite = Suite { places: vec![folder.clone()], preload, limit, jobs: 2, flags: FLAGS.to_owned() };
        let wanted = Tally { alike: 1, differ: 2, uncompiled: 1, skipped: 1, unknown: 0 };
        assert_eq!(compare(&suite).unwrap(), wanted);
        let judged = |name: &str| judge(&suite, &inner.join(name), &folder.join("scratch")).unwrap();
        assert_eq!(judged("differs.c"), Verdict::Differs(End::Code(0), End::Code(7)));
        assert_eq!(judged("hangs.c"), Verdict::Differs(End::Code(0), End::TimedOut));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn words_are_checked() {
        for (words, reason) in [
            (&[][..], "say `lab foreign DIR...`"),
            (&["--secs"], "needs a value"),
            (&["--secs", "0", "x"], "1 to 86400"),
            (&["--fast"], "no such option"),
        ] {
            assert!(suite(Path::new("/"), words).unwrap_err().contains(reason), "{words:?}");
        }
    }
}
