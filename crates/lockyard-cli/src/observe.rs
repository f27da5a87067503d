//! `lockyard stat --pid P` and `lockyard stat -- PROGRAM`: what the locks of another process do,
//! from its segment.
//!
//! A process that runs is read as it is: it is not stopped, and does not notice. A program that is
//! started here keeps its numbers until it has ended and they are printed, those of its children as
//! well. Children that go on are named, and told of as far as they are then.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lockyard_segment::sample::ThreadSample;
use lockyard_segment::{Reader, Sample};
use lockyard_sim::machine::model::Model as Machine;
use rustix::process::Signal;

use crate::cli::StatArgs;
use crate::deadlock;
use crate::failure::Failure;
use crate::follow::{Followed, exit_code};
use crate::interrupt;
use crate::known::Known;
use crate::launch::{Launch, Purpose};
use crate::output::Target;
use crate::report::facts::Facts;
use crate::report::look::Look;
use crate::report::observed::Extent;
use crate::report::{folded, json, observed, observed_json, openmetrics, saturation, verdict};
use crate::session;
use crate::simulate::machines;
use crate::stacks;
use crate::symbols::Symbols;
use crate::terminal;
use crate::unseen::{self, Unseen};

/// How often a program under way is looked at for a deadlock.
const DEADLOCKS: Duration = Duration::from_secs(2);
/// How long a look at a running process sees where its threads wait, beside its locks.
const GLANCE: Duration = Duration::from_millis(100);
/// How often a wait looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// What is looked at, and how it is told.
#[derive(Debug)]
pub(crate) struct Observation {
    subject: Subject,
    interval: Option<Duration>,
    form: Form,
    /// Those of which it is said when locks are busy.
    machines: Vec<Arc<Machine>>,
    out: Option<Target>,
}

#[derive(Debug)]
enum Subject {
    Process { reader: Reader, reset: bool, stacks: bool },
    Program(Launch),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Tables { wide: bool, events: bool },
    Json,
    OpenMetrics,
    Folded,
}

impl Observation {
    /// Checks the arguments, and finds the process.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &StatArgs) -> Result<Self, Failure> {
        let form = match (args.json, args.openmetrics, args.folded) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::OpenMetrics,
            (_, _, true) => Form::Folded,
            _ => Form::Tables { wide: args.wide, events: args.events },
        };
        let time = |text: &String| crate::values::duration("--interval", text, 1_000_000, 86_400_000_000_000);
        let interval = args.interval.as_ref().map(time).transpose()?;
        let machines = args.machine.as_ref().map(|text| machines::to_predict("--machine", text, &[])).transpose()?;
        let out = args.out.as_ref().map(|path: &PathBuf| Target::check("--out", path)).transpose()?;
        let subject = match &args.pid {
            Some(text) => {
                let bounds = crate::values::Bounds { flag: "--pid", least: 1, most: i32::MAX as u64 };
                let process = bounds.number(text)? as u32;
                let opened = if args.reset { Reader::open_to_reset(process) } else { Reader::open(process) };
                let reader = opened.map_err(|refusal| Failure::usage(format!("--pid: {refusal}")))?;
                Subject::Process { reader, reset: args.reset, stacks: args.stacks }
            }
            None if args.stacks => {
                return Err(Failure::usage("--stacks shows what a running process does: it needs --pid PID"));
            }
            None => Subject::Program(Launch::check(&args.program, None, Purpose::Watch)?),
        };
        Ok(Self { subject, interval, form, machines: machines.unwrap_or_default(), out })
    }

    /// Looks, and tells. The exit code of a program is this command's.
    ///
    /// # Errors
    /// The process does not tell anything, or the output cannot be written.
    pub(crate) fn run(&self, styled: bool) -> Result<u8, Failure> {
        interrupt::listen_quietly()?;
        match &self.subject {
            Subject::Process { reader, reset, stacks } => self.process(reader, *reset, *stacks, styled).map(|()| 0),
            Subject::Program(launch) => self.program(launch),
        }
    }

    fn process(&self, reader: &Reader, reset: bool, stacks: bool, styled: bool) -> Result<(), Failure> {
        let process = reader.process();
        let mut known = Known::of_running(process, f64::INFINITY);
        if self.interval.is_none() {
            let before = reader.sample();
            known.watch(process, GLANCE);
            let between = reader.sample().since(&before);
            let threads = f64::from(between.threads.max(1));
            known.seen = Some(between.lost_ns() as f64 / (GLANCE.as_nanos() as f64 * threads));
        }
        known.untold = session::untold(std::slice::from_ref(reader));
        // They come and go: of one moment alone.
        if self.interval.is_none() {
            known.left = session::children(process);
        }
        let symbols = Symbols::of(&known);
        let teller = Teller { what: name_of(process), symbols, known, styled, stdout_taken: false };
        let first = reader.sample();
        if reset {
            reader.reset().map_err(|refusal| Failure::run(refusal.to_string()))?;
        }
        let whole = |sample: &Sample, seconds: f64| Known::of_running(process, seconds.min(sample.seconds));
        let Some(interval) = self.interval else {
            let known = whole(&first, f64::INFINITY);
            if took_none(reader, &first) {
                return Err(unseen_process(&first, &teller.known));
            }
            // At once: threads go on.
            let stacks = if stacks { stacks::told(&first, process, &teller.symbols)? } else { String::new() };
            let report = self.report(&teller, &first, known.thread_time, reader.ended())?;
            return self.put(&teller, &(report + &stacks));
        };
        let mut begin = if reset { reader.sample() } else { first };
        let mut earlier = begin.clone();
        while pause(interval, || reader.ended()) {
            let now = reader.sample();
            if now.seconds < earlier.seconds {
                // Somebody else has begun to count anew.
                (earlier, begin) = (Sample::default(), Sample::default());
            }
            let between = now.since(&earlier);
            let time = whole(&now, between.seconds).thread_time;
            self.tell_interval(&teller, &between, time, now.seconds - begin.seconds)?;
            earlier = now;
        }
        let last = reader.sample();
        if took_none(reader, &last) {
            let mut known = whole(&last, f64::INFINITY);
            known.left = session::children(process);
            known.untold = session::untold(std::slice::from_ref(reader));
            return Err(unseen_process(&last, &known));
        }
        let rest = last.since(&earlier);
        if !reader.ended() || rest.seconds <= 0.0 {
            return Ok(());
        }
        // Its threads are gone: they had this time at most.
        let time = Duration::from_secs_f64(rest.seconds * f64::from(last.threads.max(1)));
        self.tell_interval(&teller, &rest, time, last.seconds - begin.seconds)
    }

    fn program(&self, launch: &Launch) -> Result<u8, Failure> {
        let session = std::process::id();
        unseen::check_room()?;
        let mut command = launch.command();
        command.env("LOCKYARD_SESSION", session.to_string());
        command.env("LOCKYARD_NAMESPACE", lockyard_segment::namespace().to_string());
        lockyard_segment::reader::sweep();
        let child = command.spawn().map_err(|error| launch.refused(&error))?;
        let mut followed = Followed::new(child, launch.file(), launch.library.as_deref());
        let (what, symbols, known) = (launch.name(), Symbols::default(), Known::default());
        let mut teller = Teller { what, symbols, known, styled: false, stdout_taken: true };
        let mut earlier = (Sample::default(), Duration::ZERO);
        let (mut said, mut programs) = (false, 0);
        let status = loop {
            if let Some(status) = followed.wait(self.interval.unwrap_or(DEADLOCKS))? {
                break Some(status);
            }
            if interrupt::asked() {
                break followed.end()?;
            }
            let readers = Reader::of_session(session);
            let Some(now) = together(&readers, &followed.known) else { continue };
            let time = followed.known.thread_time;
            // It keeps what it has read of them.
            if programs != followed.known.programs.len() {
                programs = followed.known.programs.len();
                teller.symbols = Symbols::of(&followed.known);
            }
            let running = Sample { waiters: of_running(&now, &readers), ..now.clone() };
            if !said && deadlock::circle(&running).is_some() {
                said = true;
                self.say_now(&teller, &running, time);
            }
            if self.interval.is_some() {
                let (between, at) = (now.since(&earlier.0), now.seconds);
                self.tell_interval(&teller, &between, time - earlier.1, at)?;
                earlier = (now, time);
            }
        };
        followed.leave(session);
        followed.known.killed = status.and_then(killed);
        let readers = Reader::of_session(session);
        let sample = together(&readers, &followed.known);
        followed.known.untold = unseen::refused(session, &readers, sample.is_some());
        let is_over = |reader: &Reader| {
            let end = followed.known.ends.of_reader(reader);
            reader.is_before_exec() || end.is_some_and(|(_, has_become)| has_become)
        };
        followed.known.has_become = !readers.is_empty() && readers.iter().all(is_over);
        // Those that go on, a daemon for one, remove theirs themselves once this command is gone.
        readers.iter().filter(|reader| reader.ended()).for_each(Reader::remove);
        // And what those left that could not tell.
        lockyard_segment::reader::sweep();
        let Some(sample) = sample.as_ref().filter(|sample| !unseen::took_none(sample)) else {
            let (sample, known, preloaded) = (sample.as_ref(), &followed.known, launch.library.is_some());
            return Err(Unseen { sample, known, status, preloaded }.failure());
        };
        teller.symbols = Symbols::of(&followed.known);
        teller.known = followed.known.clone();
        let time = followed.known.thread_time;
        if self.interval.is_some() && sample.seconds > earlier.0.seconds {
            // What came after the last whole interval.
            let rest = sample.since(&earlier.0);
            self.tell_interval(&teller, &rest, time.saturating_sub(earlier.1), sample.seconds)?;
        }
        self.tell(&teller, sample, time, status.is_some())?;
        Ok(status.map_or_else(interrupt::code, exit_code))
    }

    /// What cannot wait for the end of the program, since there may be none: a deadlock.
    fn say_now(&self, teller: &Teller, sample: &Sample, thread_time: Duration) {
        let sentence = verdict::verdict(&teller.facts(sample, thread_time, false));
        // A closed stderr leaves nobody to tell.
        let _ = writeln!(io::stderr(), "lockyard: {sentence}");
    }

    /// What happened in an interval: a line for each class that lost time, where people read.
    fn tell_interval(&self, teller: &Teller, sample: &Sample, time: Duration, at: f64) -> Result<(), Failure> {
        let facts = teller.facts(sample, time, false);
        let text = match self.form {
            Form::Tables { wide, .. } => observed::lines(&facts, at, self.width(teller).filter(|_| !wide)),
            Form::Json => json::line(&observed_json::document(&teller.what, true, &facts))?,
            _ => return self.tell(teller, sample, time, false),
        };
        self.put(teller, &text)
    }

    /// Writes one report.
    fn tell(&self, teller: &Teller, sample: &Sample, thread_time: Duration, ended: bool) -> Result<(), Failure> {
        self.put(teller, &self.report(teller, sample, thread_time, ended)?)
    }

    fn report(&self, teller: &Teller, sample: &Sample, thread_time: Duration, ended: bool) -> Result<String, Failure> {
        let facts = teller.facts(sample, thread_time, ended);
        let look = Look { styled: teller.styled && self.out.is_none(), full_titles: true, events: true };
        Ok(match self.form {
            Form::Tables { wide, events } => {
                let width = self.width(teller);
                let text = observed::render(&teller.what, &facts, look, Extent { wide, events, width });
                let text = text + &saturation::told(&facts, &self.machines);
                match (wide, width, text.split_once('\n')) {
                    // The tables are as wide as they are, the sentence is not.
                    (true, Some(width), Some((first, rest))) => {
                        format!("{}\n{rest}", terminal::wrapped(first, width, 0))
                    }
                    _ => terminal::fit(&text, width.filter(|_| !wide)).into_owned(),
                }
            }
            Form::Json => json::line(&observed_json::document(&teller.what, false, &facts))?,
            Form::OpenMetrics => openmetrics::render(sample, |class| facts.label(class)),
            Form::Folded => folded::render(&teller.what, &facts),
        })
    }

    /// The columns of what is written to.
    fn width(&self, teller: &Teller) -> Option<usize> {
        match (&self.out, teller.stdout_taken) {
            (Some(_), _) => None,
            (None, false) => terminal::width(io::stdout()),
            (None, true) => terminal::width(io::stderr()),
        }
    }

    /// To the file, else to stdout, or to stderr where stdout is the program's.
    fn put(&self, teller: &Teller, text: &str) -> Result<(), Failure> {
        match (&self.out, teller.stdout_taken) {
            (Some(target), _) => target.write(text),
            (None, false) => crate::print(text).map(|_| ()),
            // A closed stderr is no reason to stop.
            (None, true) => {
                drop(io::stderr().write_all(text.as_bytes()));
                Ok(())
            }
        }
    }
}

/// The processes that are told of, and how.
#[derive(Debug)]
struct Teller {
    what: String,
    symbols: Symbols,
    /// What is known of them beside their locks.
    known: Known,
    styled: bool,
    stdout_taken: bool,
}

impl Teller {
    fn facts<'a>(&'a self, sample: &'a Sample, thread_time: Duration, ended: bool) -> Facts<'a> {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        self.symbols.tell_apart(sample);
        Facts { sample, thread_time, cpus, ended, symbols: &self.symbols, known: &self.known }
    }
}

/// The signal that ended a program, as people know it.
fn killed(status: ExitStatus) -> Option<String> {
    Some(match status.signal()? {
        signal if signal == Signal::SYS.as_raw() => {
            "SIGSYS (a sandbox that forbids a system call, perhaps one that counting makes)".to_owned()
        }
        signal => format!("Signal {signal}"),
    })
}

/// The threads of processes that go on: a circle of others is over.
fn of_running(sample: &Sample, readers: &[Reader]) -> Vec<ThreadSample> {
    let runs = |process: u32| readers.iter().any(|reader| reader.process() == process && !reader.ended());
    sample.waiters.iter().filter(|thread| runs(thread.process)).cloned().collect()
}

/// All processes of a session as one; `None` if there is none.
fn together(readers: &[Reader], known: &Known) -> Option<Sample> {
    let samples = readers.iter().map(|reader| {
        let end = known.ends.of_reader(reader);
        let mut sample = end.map_or_else(|| reader.sample(), |(at, _)| reader.sample_at(at));
        if reader.is_before_exec() || end.is_some_and(|(_, has_become)| has_become) {
            // Its threads are gone, and what they waited for. Those of the program that the process
            // is now have other locks, at the same addresses perhaps.
            sample.waiters.clear();
        }
        // A thread that has never waited has not noted its name, and the kernel's note is gone.
        for thread in sample.waiters.iter_mut().filter(|thread| thread.name.is_empty()) {
            thread.name = known.name_of(thread.process, thread.thread).unwrap_or_default().to_owned();
        }
        sample
    });
    let mut processes: Vec<Sample> = Vec::new();
    for sample in samples {
        match processes.iter_mut().find(|process| process.process == sample.process) {
            // What it was before exec: the one after the other.
            Some(process) => {
                let seconds = process.seconds + sample.seconds;
                process.add(&sample);
                process.seconds = seconds;
            }
            None => processes.push(sample),
        }
    }
    processes.into_iter().reduce(|mut sum, process| {
        sum.add(&process);
        sum
    })
}

/// The failure of a look at a process that tells nothing.
pub(crate) fn unseen_process(sample: &Sample, known: &Known) -> Failure {
    Unseen { sample: Some(sample), known, status: None, preloaded: true }.failure()
}

/// Whether the process of `reader` has taken no lock since it began. After a reset that is news
/// like other news.
fn took_none(reader: &Reader, sample: &Sample) -> bool {
    unseen::is_unseen(Some(sample)) || unseen::took_none(sample) && !reader.was_reset()
}

/// "memcached (process 123)".
pub(crate) fn name_of(process: u32) -> String {
    let name = std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    format!("{} (process {process})", name.trim())
}

/// Waits for `time`, or until `over`. `false`: over, or interrupted.
fn pause(time: Duration, over: impl FnMut() -> bool) -> bool {
    pause_for(time, over) && !interrupt::asked()
}

fn pause_for(time: Duration, mut over: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if over() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        if interrupt::asked() {
            return false;
        }
        thread::sleep(left.min(LOOK));
    }
}
