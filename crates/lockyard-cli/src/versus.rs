//! `lockyard compare -- PROGRAM`: the user's own program on glibc's locks and on ours.
//!
//! Every round runs the program once on each: twice on glibc's, which tells how far two runs of the
//! same thing are apart, and once on each choice. The order turns with the rounds, so that what
//! changes slowly (heat, caches, neighbours) meets all of them. What is compared is the ratio
//! inside a round; the middle of the ratios has an interval from their order alone, without a guess
//! at their distribution.
//!
//! With `--load` the program is a server: it is started, `--ready` is tried until it succeeds, the
//! load runs, and the server is stopped.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regex_lite::Regex;
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::CompareArgs;
use crate::failure::{Failure, INTERRUPTED, plain};
use crate::interrupt;
use crate::launch::{Launch, Purpose};
use crate::neighbours::Neighbours;
use crate::progress::Progress;
use crate::report::look::Look;
use crate::report::numbers;
use crate::report::versus::{Compared, FEWEST, Run};
use crate::values::{Bounds, seconds};

/// Time to spend, if the user names none, in seconds.
const BUDGET: f64 = 60.0;
/// A choice that needs no library.
const GLIBC: &str = "glibc";
/// How long a server may take until it is ready, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a server is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What is compared, and how.
#[derive(Debug)]
pub(crate) struct Versus {
    /// The program without any library of ours.
    glibc: Launch,
    /// The choices by name.
    choices: Vec<(String, Launch)>,
    rounds: usize,
    budget: Duration,
    server: Option<Server>,
    metric: Option<Regex>,
    json: bool,
}

#[derive(Debug)]
struct Server {
    load: String,
    ready: Option<String>,
}

impl Versus {
    /// Checks the arguments.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &CompareArgs) -> Result<Self, Failure> {
        let named = if args.lock.is_empty() { vec!["mutex".to_owned(), "hq".to_owned()] } else { args.lock.clone() };
        let choice = |name: String| {
            // The program as it is: what the library costs that hands calls on is another question.
            if name == GLIBC {
                return Ok(("glibc, chosen".to_owned(), Launch::bare(&args.program)?));
            }
            let launch = Launch::check(&args.program, Some(&name), Purpose::Run)?;
            if launch.library.is_some() {
                Ok((name, launch))
            } else {
                Err(Failure::usage("LOCKYARD_PRELOAD is empty: there is nothing to compare with"))
            }
        };
        let choices = named.into_iter().map(choice).collect::<Result<Vec<_>, Failure>>()?;
        let bounds = Bounds { flag: "--rounds", least: FEWEST as u64, most: 1000 };
        let rounds = args.rounds.as_ref().map_or(Ok(1000), |text| bounds.number(text))? as usize;
        let budget = match &args.matrix.secs_total {
            Some(text) => seconds("--secs-total", text, 0.1, 86_400.0)?,
            None if args.rounds.is_some() => Duration::from_secs(86_400),
            None => Duration::from_secs_f64(BUDGET),
        };
        let pattern = |text: &String| {
            let metric = Regex::new(text).map_err(|error| Failure::usage(format!("--metric: '{text}': {error}")))?;
            if metric.captures_len() == 2 {
                Ok(metric)
            } else {
                Err(Failure::usage(format!(
                    "--metric: '{text}' must have one group, around the number: 'Ops/sec: ([0-9.]+)'"
                )))
            }
        };
        let metric = args.metric.as_ref().map(pattern).transpose()?;
        let server = args.load.as_ref().map(|load| Server { load: load.clone(), ready: args.ready.clone() });
        let json = args.matrix.json;
        Ok(Self { glibc: Launch::bare(&args.program)?, choices, rounds, budget, server, metric, json })
    }

    /// Measures, and tells.
    ///
    /// # Errors
    /// The program cannot be started, does not succeed, or prints no number.
    pub(crate) fn run(&self, look: Look) -> Result<u8, Failure> {
        interrupt::listen()?;
        let started = Instant::now();
        let mut progress = Progress::start(if self.rounds < 1000 { Duration::ZERO } else { self.budget });
        let subjects: Vec<(&str, &Launch)> = [(GLIBC, &self.glibc), ("glibc again", &self.glibc)]
            .into_iter()
            .chain(self.choices.iter().map(|(name, launch)| (name.as_str(), launch)))
            .collect();
        // The first run finds everything cold.
        let cold = self.once(GLIBC, &self.glibc);
        if !interrupt::asked() {
            cold?;
        }
        let neighbours = Neighbours::begin();
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); subjects.len()];
        let mut round = 0;
        'rounds: while !interrupt::asked() && round < self.rounds && (round < FEWEST || started.elapsed() < self.budget)
        {
            let mut found = vec![Run { rate: 0.0, others: 0.0 }; subjects.len()];
            for turn in 0..subjects.len() {
                let at = (round + turn) % subjects.len();
                let (name, launch) = subjects[at];
                let time = started.elapsed().as_secs_f64() / self.budget.as_secs_f64().max(0.1);
                let done = (round as f64 / self.rounds as f64).max(time);
                progress.at(done, "program", &format!("round {}", round + 1), name);
                let beside = Neighbours::begin();
                let rate = self.once(name, launch);
                // The signal has reached the program too: whatever it came to tells nothing.
                if interrupt::asked() {
                    break 'rounds;
                }
                found[at] = Run { rate: rate?, others: beside.share().unwrap_or(0.0) };
            }
            runs.iter_mut().zip(found).for_each(|(runs, run)| runs.push(run));
            round += 1;
        }
        progress.finish();
        if round < FEWEST {
            return Err(Failure::run(format!("interrupted after {}: too few to tell", numbers::count(round, "round"))));
        }
        let compared = Compared {
            subjects: subjects.iter().map(|(name, _)| *name).zip(runs).collect(),
            metric: self.metric.is_some(),
            others: neighbours.share(),
        };
        if self.json {
            crate::print(&compared.json()?)?
        } else {
            crate::show(&compared.table(look))?
        };
        Ok(if interrupt::asked() { INTERRUPTED } else { 0 })
    }

    /// One run: the greater the better.
    fn once(&self, name: &str, launch: &Launch) -> Result<f64, Failure> {
        let Some(server) = &self.server else {
            let begin = Instant::now();
            let (status, text) = finish(self.start(launch)?)?;
            return self.rate(("program", name), status, &text, begin.elapsed());
        };
        let mut child = self.start(launch)?;
        let loaded = self.loaded(name, server, &mut child);
        stop(&mut child);
        loaded
    }

    fn loaded(&self, name: &str, server: &Server, child: &mut Child) -> Result<f64, Failure> {
        let end = Instant::now() + PATIENCE;
        while let Some(ready) = &server.ready {
            if succeeds(ready, end) {
                break;
            }
            if let Some(status) = child.try_wait().ok().flatten() {
                return Err(Failure::run(format!("the program ended before it was ready, on {name}: {status}")));
            }
            if Instant::now() > end || interrupt::asked() {
                return Err(Failure::run(format!(
                    "the program did not become ready, on {name}: --ready '{ready}' failed"
                )));
            }
            thread::sleep(LOOK);
        }
        let begin = Instant::now();
        let load = shell(&server.load).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let load = load.map_err(|error| Failure::run(format!("cannot start the load: {}", plain(&error))))?;
        let (status, text) = finish(load)?;
        self.rate(("load", name), status, &text, begin.elapsed())
    }

    fn start(&self, launch: &Launch) -> Result<Child, Failure> {
        let mut command = launch.command();
        // Statistics would cost one side more than the other.
        command.env_remove("LOCKYARD_STAT").stdin(Stdio::null());
        let (out, err) = match self.server {
            // Nobody reads what a server says.
            Some(_) => (Stdio::null(), Stdio::null()),
            None => (Stdio::piped(), Stdio::piped()),
        };
        command.stdout(out).stderr(err).spawn().map_err(|error| launch.refused(&error))
    }

    /// What `what`, the program or the load, says on the locks called `name`.
    fn rate(&self, (what, name): (&str, &str), status: ExitStatus, text: &str, time: Duration) -> Result<f64, Failure> {
        if !status.success() {
            let last = text.lines().last().map_or_else(String::new, |line| format!("; it said: {line}"));
            return Err(Failure::run(format!("the {what} failed on {name} ({status}){last}")));
        }
        let Some(metric) = &self.metric else { return Ok(1.0 / time.as_secs_f64().max(1e-9)) };
        let number =
            metric.captures_iter(text).last().and_then(|found| found.get(1)?.as_str().replace(',', "").parse().ok());
        let number = number.filter(|number: &f64| *number > 0.0);
        number
            .ok_or_else(|| Failure::run(format!("--metric: '{metric}' found no number in what was printed on {name}")))
    }
}

/// Whether the probe `ready` succeeds before `end`. One that hangs is killed then.
fn succeeds(ready: &str, end: Instant) -> bool {
    let Ok(mut probe) = shell(ready).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return false };
    loop {
        match probe.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < end && !interrupt::asked() => thread::sleep(LOOK),
            _ => {
                stop(&mut probe);
                return false;
            }
        }
    }
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command
}

/// Waits for `child`, and what it printed, on both of its outputs.
fn finish(mut child: Child) -> Result<(ExitStatus, String), Failure> {
    let refused = |error: std::io::Error| Failure::run(format!("cannot wait for the program: {}", plain(&error)));
    let err = child.stderr.take();
    // Both are read at the same time: a program that fills one would wait for ever.
    let beside = thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read was not said.
        err.map(|mut err| err.read_to_end(&mut bytes).ok());
        bytes
    });
    let mut bytes = Vec::new();
    if let Some(out) = &mut child.stdout {
        out.read_to_end(&mut bytes).map_err(refused)?;
    }
    let status = child.wait().map_err(refused)?;
    bytes.extend(beside.join().unwrap_or_default());
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Ends a server: kindly, then not.
fn stop(child: &mut Child) {
    // One that has ended by itself needs neither.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let end = Instant::now() + PATIENCE;
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        thread::sleep(LOOK);
    }
}
