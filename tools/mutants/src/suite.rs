//! The tests: which there are, how long each takes, which mutants each reaches.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::program::{End, Program, run};

/// One test, run in a process of its own.
#[derive(Debug)]
pub(crate) struct Test {
    program: Program,
    pub(crate) name: String,
    pub(crate) time: Duration,
    /// The mutants that it asks about.
    pub(crate) reached: BTreeSet<u32>,
}

impl Test {
    /// A test's name, and which program's it is where that is not the library's own.
    pub(crate) fn title(&self) -> String {
        let file = self.program.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let program = file.rsplit_once('-').map_or(&*file, |(program, _)| program);
        if program == "lockyard" { self.name.clone() } else { format!("{program}: {}", self.name) }
    }

    /// Runs it as `mutant`, for a generous multiple of its own time.
    pub(crate) fn judge(&self, mutant: u32) -> End {
        let limit = self.time * 8 + Duration::from_secs(3);
        run(
            &self.program,
            &["--exact", &self.name, "--test-threads", "1"],
            &[("LOCKYARD_MUTANT", &mutant.to_string())],
            limit,
        )
    }
}

/// All tests that pass, unmutated, with what they reach. Those that fail are named, and do not
/// judge.
pub(crate) fn survey(programs: &[Program], folder: &Path, workers: usize) -> Result<Vec<Test>, String> {
    let mut named = Vec::new();
    for program in programs {
        let mut command = Command::new(&program.path);
        let output = command.current_dir(&program.folder).args(["--list", "--format", "terse"]).output();
        let output = output.map_err(|error| format!("{}: {error}", program.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        named.extend(text.lines().filter_map(|line| Some((program, line.strip_suffix(": test")?.to_owned()))));
    }
    let traces = folder.join("traces");
    fs::create_dir_all(&traces).map_err(|error| format!("{}: {error}", traces.display()))?;
    let (next, tests) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((index, (program, name))) =
            Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, named.get(at)?)))
        {
            let trace = traces.join(index.to_string());
            drop(fs::remove_file(&trace));
            let started = Instant::now();
            let path = trace.to_string_lossy();
            let end = run(
                program,
                &["--exact", name, "--test-threads", "1"],
                &[("LOCKYARD_MUTANT_TRACE", &path)],
                Duration::from_secs(300),
            );
            let time = started.elapsed();
            let bytes = fs::read(&trace).unwrap_or_default();
            let numbers =
                bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            let test = Test { program: (*program).clone(), name: name.clone(), time, reached: numbers.collect() };
            if end == End::Passed {
                tests.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(test);
            } else {
                eprintln!("{} does not pass by itself, and does not judge", test.title());
            }
        }
    };
    std::thread::scope(|scope| {
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    drop(fs::remove_dir_all(&traces));
    let mut tests = tests.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    tests.sort_by_key(|test| test.time);
    Ok(tests)
}
