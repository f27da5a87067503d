//! The test programs of the workspace, several at once: many of them wait more than they compute,
//! and `cargo test` runs one after another.
//!
//! Each writes to a file of its own, which is shown when the program has failed. There is one more
//! of them than CPUs, and those that took longest the last time begin: a long one that began last
//! would run alone.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::tools::{LIMIT, Outcome, capture, target, wait};

/// A test program.
struct Suite {
    program: String,
    /// Where `cargo test` would run it: the folder of its package.
    folder: PathBuf,
    /// What `cargo test` calls it.
    words: String,
    /// Where its output goes; that of its last run says how long it took.
    log: PathBuf,
}

/// Compiles the tests that `words` name, and runs each program that comes of it.
pub(crate) fn run(words: &str) -> Outcome {
    println!("$ cargo test {words}");
    let mut build = Command::new("cargo");
    build.arg("test").args(words.split_whitespace()).args(["--no-run", "--message-format=json-render-diagnostics"]);
    let messages = capture(build.stderr(Stdio::inherit()))?;
    let logs = target().join("suites");
    fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    let mut suites: Vec<Suite> = messages.lines().filter_map(|message| suite(message, &logs)).collect();
    if suites.is_empty() {
        return Err(format!("no test program was made by: cargo test {words}"));
    }
    suites.sort_by_cached_key(|suite| Reverse(suite.last_took()));
    let (count, queue, failed) = (suites.len(), Mutex::new(VecDeque::from(suites)), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..=thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let next = || queue.lock().ok()?.pop_front();
                while let Some(suite) = next() {
                    if let Err(reason) = suite.run()
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(reason);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    match failed.len() {
        0 => Ok(()),
        some => Err(format!("{some} of {count} test programs failed\n{}", failed.join("\n"))),
    }
}

/// What a message of cargo's says of a test program, if it does.
fn suite(message: &str, logs: &Path) -> Option<Suite> {
    let program = field(message, "executable")?.to_owned();
    let manifest = PathBuf::from(field(message, "manifest_path")?);
    let folder = manifest.parent()?.to_owned();
    // "…/folder#version", or "…/folder#name@version" where the names differ.
    let (id, short) = (field(message, "package_id")?.rsplit_once('#')?.1, folder.file_name()?.to_string_lossy());
    let package = id.split_once('@').map_or(&*short, |(name, _)| name);
    let kind = message.split_once("\"kind\":[\"")?.1.split('"').next()?;
    let name = field(message.split_once("\"kind\":[\"")?.1, "name")?;
    let what = match kind {
        "test" => format!("--test {name}"),
        "bin" => format!("--bin {name}"),
        _ => "--lib".to_owned(),
    };
    // The programs that the tests start are made as well.
    // All packages together turn on more than one alone would.
    let features = message.split_once("\"features\":[")?.1.split(']').next()?.replace('"', "");
    let features = if features.is_empty() { features } else { format!(" -F {features}") };
    let words = format!("-p {package} {what}{features}");
    let log = logs.join(format!("{package}{what}.log").replace(' ', ""));
    message.contains("\"test\":true},\"features\"").then_some(Suite { program, folder, words, log })
}

fn field<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split_once(&format!("\"{name}\":\""))?.1.split('"').next()
}

impl Suite {
    /// Hundredths of seconds that it ran the last time, as it said itself; the most if unknown.
    fn last_took(&self) -> u32 {
        let said = fs::read_to_string(&self.log).ok();
        let took = said.as_deref().and_then(|text| text.trim_end().strip_suffix('s')?.rsplit_once("finished in "));
        took.and_then(|(_, secs)| secs.replace('.', "").parse().ok()).unwrap_or(u32::MAX)
    }

    /// Runs it, and says how it ended.
    fn run(&self) -> Outcome {
        let log = &self.log;
        let refused = |error| format!("{}: {error}", log.display());
        let output = File::create(log).map_err(refused)?;
        let errors = output.try_clone().map_err(refused)?;
        let begin = Instant::now();
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(output).stderr(errors);
        let ended = command.spawn().map_err(|error| error.to_string()).and_then(|mut child| wait(&mut child, LIMIT));
        let text = fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let result =
            text.lines().rev().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("without a result");
        let result = result.split("; 0 measured").next().unwrap_or(result);
        println!("{:>6.1} s  {}: {result}", begin.elapsed().as_secs_f64(), self.words);
        let why = match ended {
            Ok(Some(true)) => return Ok(()),
            Ok(Some(false)) => String::new(),
            Ok(None) => format!("stopped after {} minutes; ", LIMIT.as_secs() / 60),
            Err(reason) => format!("{reason}; "),
        };
        print!("{text}");
        Err(format!("{why}rerun: cargo test {}", self.words))
    }
}
