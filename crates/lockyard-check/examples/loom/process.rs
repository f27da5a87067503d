//! Explorations as processes.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockyard_check::model::scenarios::Limits;

/// What became of an exploration.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// Executions, those of a failed one included.
    pub(crate) executions: u64,
    /// Whether there are no more within the bounds.
    pub(crate) complete: bool,
    /// Executions in which the budget of polls was spent.
    pub(crate) cut: u64,
    /// What failed.
    pub(crate) failure: Option<String>,
    /// Events that should have been counted and were not.
    pub(crate) missed: Vec<String>,
    /// The ordering sites it came to, as `SITE=ORDERING`.
    pub(crate) sites: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
}

/// Explores scenario `name`, with a weakened site or none.
pub(crate) fn explore(name: &str, limits: Limits, seconds: u64, mutant: Option<&str>) -> Result<Report, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(["one", name, &limits.to_string(), &seconds.to_string()]).args(mutant);
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut report = Report {
        executions: 0,
        complete: false,
        cut: 0,
        failure: None,
        missed: Vec::new(),
        sites: Vec::new(),
        took: begun.elapsed(),
    };
    for line in said.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("site") => report.sites.extend(words.next().map(str::to_owned)),
            Some("missed") => report.missed.extend(words.next().map(str::to_owned)),
            Some("failed") => report.executions = words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0),
            Some("explored") => {
                report.executions = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                report.complete = words.next() == Some("true");
                report.cut = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    if !output.status.success() {
        if output.status.code() == Some(2) {
            return Err(wrong.into_owned());
        }
        let lines: Vec<&str> = wrong.lines().filter(|line| !line.is_empty() && !line.starts_with("note: ")).collect();
        report.failure = Some(lines.join(" ").chars().take(400).collect());
    }
    Ok(report)
}

/// Does `work` for each of `items`, as many at a time as there are CPUs; the results in order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((number, item)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    items.get(number).map(|item| (number, item))
                } {
                    let result = work(item);
                    results.lock().expect("no worker panics")[number] = Some(result);
                }
            });
        }
    });
    results.into_inner().expect("no worker panics").into_iter().flatten().collect()
}
