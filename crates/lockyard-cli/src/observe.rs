//! `lockyard stat --pid P` and `lockyard stat -- PROGRAM`: what the locks of another process do,
//! from its segment.
//!
//! A process that runs is read as it is: it is not stopped, and does not notice. A program that is
//! started here keeps its numbers until it has ended and they are printed, those of its children as
//! well.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use lockyard_segment::{Reader, Sample};

use crate::cli::StatArgs;
use crate::failure::Failure;
use crate::follow::{Followed, Known};
use crate::interrupt;
use crate::launch::{Launch, Purpose};
use crate::output::Target;
use crate::report::table::Look;
use crate::report::{json, observed, openmetrics};
use crate::unseen::{self, Unseen};

/// How often a wait looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// What is looked at, and how it is told.
#[derive(Debug)]
pub(crate) struct Observation {
    subject: Subject,
    interval: Option<Duration>,
    form: Form,
    out: Option<Target>,
}

#[derive(Debug)]
enum Subject {
    Process { reader: Reader, reset: bool },
    Program(Launch),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Tables,
    Json,
    OpenMetrics,
}

impl Observation {
    /// Whether `args` ask for another process, rather than for a run of our own.
    pub(crate) fn is_meant(args: &StatArgs) -> bool {
        args.pid.is_some() || !args.program.is_empty()
    }

    /// Checks the arguments, and finds the process.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &StatArgs) -> Result<Self, Failure> {
        let form = match (args.json, args.openmetrics) {
            (true, _) => Form::Json,
            (_, true) => Form::OpenMetrics,
            _ => Form::Tables,
        };
        let time = |text: &String| crate::values::duration("--interval", text, 1_000_000, 86_400_000_000_000);
        let interval = args.interval.as_ref().map(time).transpose()?;
        let out = args.out.as_ref().map(|path: &PathBuf| Target::check("--out", path)).transpose()?;
        let subject = match &args.pid {
            Some(text) => {
                let bounds = crate::values::Bounds { flag: "--pid", least: 1, most: i32::MAX as u64 };
                let process = bounds.number(text)? as u32;
                let opened = if args.reset { Reader::open_to_reset(process) } else { Reader::open(process) };
                let reader = opened.map_err(|refusal| Failure::usage(format!("--pid: {refusal}")))?;
                Subject::Process { reader, reset: args.reset }
            }
            None => Subject::Program(Launch::check(&args.program, None, Purpose::Watch)?),
        };
        Ok(Self { subject, interval, form, out })
    }

    /// Looks, and tells. The exit code of a program is this command's.
    ///
    /// # Errors
    /// The process does not tell anything, or the output cannot be written.
    pub(crate) fn run(&self, styled: bool) -> Result<u8, Failure> {
        interrupt::listen_quietly()?;
        match &self.subject {
            Subject::Process { reader, reset } => self.process(reader, *reset, styled).map(|()| 0),
            Subject::Program(launch) => self.program(launch),
        }
    }

    fn process(&self, reader: &Reader, reset: bool, styled: bool) -> Result<(), Failure> {
        let what = name_of(reader.process());
        let Some(interval) = self.interval else {
            let sample = reader.sample();
            if unseen::is_unseen(Some(&sample)) {
                return Err(unseen_process(reader, &sample));
            }
            if reset {
                reader.reset().map_err(|refusal| Failure::run(refusal.to_string()))?;
            }
            return self.tell(&what, &sample, styled, false);
        };
        if reset {
            reader.reset().map_err(|refusal| Failure::run(refusal.to_string()))?;
        }
        let mut earlier = reader.sample();
        while pause(interval, || reader.ended()) {
            let now = reader.sample();
            self.tell(&what, &now.since(&earlier), styled, false)?;
            earlier = now;
        }
        let last = reader.sample();
        if unseen::is_unseen(Some(&last)) {
            return Err(unseen_process(reader, &last));
        }
        let rest = last.since(&earlier);
        if reader.ended() && rest.seconds > 0.0 { self.tell(&what, &rest, styled, false) } else { Ok(()) }
    }

    fn program(&self, launch: &Launch) -> Result<u8, Failure> {
        let session = std::process::id();
        let mut command = launch.command();
        command.env("LOCKYARD_SESSION", session.to_string());
        lockyard_segment::reader::sweep();
        let mut followed = Followed::new(command.spawn().map_err(|error| launch.refused(&error))?);
        let mut earlier: Option<Sample> = None;
        let status = loop {
            if let Some(status) = followed.wait(self.interval.unwrap_or(Duration::MAX))? {
                break status;
            }
            if let Some(now) = together(&Reader::of_session(session)) {
                let shown = earlier.as_ref().map_or_else(|| now.clone(), |earlier| now.since(earlier));
                self.tell(&launch.name(), &shown, false, true)?;
                earlier = Some(now);
            }
        };
        let readers = Reader::of_session(session);
        let sample = together(&readers);
        // Those that go on, a daemon for one, remove theirs themselves once this command is gone.
        readers.iter().filter(|reader| reader.ended()).for_each(Reader::remove);
        let Some(sample) = sample.as_ref().filter(|sample| !unseen::is_unseen(Some(sample))) else {
            let (known, preloaded) = (&followed.known, launch.preloaded);
            let why = Unseen { sample: sample.as_ref(), known, status: Some(status), preloaded }.why();
            return Err(unseen::failure(&why));
        };
        self.tell(&launch.name(), sample, false, true)?;
        Ok(exit_code(status))
    }

    /// Writes one report: to the file, else to stdout, or to stderr where stdout is the program's.
    fn tell(&self, what: &str, sample: &Sample, styled: bool, stdout_taken: bool) -> Result<(), Failure> {
        let look = Look { styled: styled && self.out.is_none(), full_titles: true, events: true };
        let text = match self.form {
            Form::Tables => observed::render(what, sample, look),
            Form::Json => json::line(&observed::document(what, sample))?,
            Form::OpenMetrics => openmetrics::render(sample),
        };
        match (&self.out, stdout_taken) {
            (Some(target), _) => target.write(&text),
            (None, false) => crate::print(&text).map(|_| ()),
            // A closed stderr is no reason to stop.
            (None, true) => {
                drop(io::stderr().write_all(text.as_bytes()));
                Ok(())
            }
        }
    }
}

/// All processes of a session as one; `None` if there is none.
fn together(readers: &[Reader]) -> Option<Sample> {
    let mut samples = readers.iter().map(Reader::sample);
    let mut sum = samples.next()?;
    samples.for_each(|sample| sum.add(&sample));
    Some(sum)
}

/// The failure of a look at a process that tells nothing.
fn unseen_process(reader: &Reader, sample: &Sample) -> Failure {
    let mut known = Known::default();
    if !reader.ended() {
        known.look(reader.process(), Duration::ZERO);
    }
    unseen::failure(&Unseen { sample: Some(sample), known: &known, status: None, preloaded: true }.why())
}

/// "memcached (process 123)".
fn name_of(process: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
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

/// As a shell has it: the program's own, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
