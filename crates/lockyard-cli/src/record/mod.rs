//! `lockyard record`: what a program does with its locks, event by event, into a file that
//! `report`, `model`, `predict` and the workload `replay` read.
//!
//! The program writes to rings in shared memory, and never waits for this command, which reads them
//! and writes the file. Where a ring is full before it was read, the thread's window ends, and
//! another begins when there is room.

mod collector;

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::{self as segment, Reader, Recorder};
use lockyard_work::machine::Machine;

use crate::cli::RecordArgs;
use crate::deadlock::SETTLED;
use crate::failure::{Failure, plain};
use crate::follow::{Followed, exit_code};
use crate::interrupt;
use crate::known::Known;
use crate::launch::{Launch, Purpose};
use crate::observe::unseen_process;
use crate::output::{Growing, Target};
use crate::report::numbers;
use crate::session;
use crate::symbols::Symbols;
use crate::unseen::{self, Unseen};

use collector::Collector;

/// How often the rings are read.
const TICK: Duration = Duration::from_millis(1);
/// How often other processes of the program are looked for.
const LOOK: Duration = Duration::from_millis(20);
/// With `--windows`: so long is recorded, of each such stretch.
const WINDOW: Duration = Duration::from_millis(10);
const STRETCH: Duration = Duration::from_millis(200);

/// What is recorded, and where to.
#[derive(Debug)]
pub(crate) struct Recorded {
    subject: Subject,
    time: Option<Duration>,
    windows: bool,
    out: Target,
}

#[derive(Debug)]
enum Subject {
    Process(u32),
    Program(Launch),
}

impl Recorded {
    /// Checks the arguments.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &RecordArgs) -> Result<Self, Failure> {
        let time = |text: &String| crate::values::duration("--time", text, 1_000_000, 86_400_000_000_000);
        let time = args.time.as_ref().map(time).transpose()?;
        let out = Target::check("--out", &args.out)?;
        let subject = match &args.pid {
            Some(text) => {
                let bounds = crate::values::Bounds { flag: "--pid", least: 1, most: i32::MAX as u64 };
                Subject::Process(bounds.number(text)? as u32)
            }
            None => Subject::Program(Launch::check(&args.program, None, Purpose::Watch)?),
        };
        Ok(Self { subject, time, windows: args.windows, out })
    }

    /// Records. The exit code of a program is this command's.
    ///
    /// # Errors
    /// The process does not tell anything, or the file cannot be written.
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        interrupt::listen_quietly()?;
        match &self.subject {
            Subject::Process(process) => self.process(*process),
            Subject::Program(launch) => self.program(launch),
        }
    }

    fn process(&self, process: u32) -> Result<u8, Failure> {
        let mut recorder = Recorder::open(process).map_err(|refusal| Failure::usage(format!("--pid: {refusal}")))?;
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        let mut recording = self.begin(name.trim())?;
        recorder.record();
        recording.collector.begin(&recorder);
        recording.recorders.push(recorder);
        let end = Instant::now() + self.time.unwrap_or(Duration::from_secs(10));
        let mut looked = Instant::now();
        while Instant::now() < end && !interrupt::asked() {
            recording.tick(self.windows);
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                recording.look();
                if recording.recorders.iter().all(|recorder| recorder.reader().ended()) {
                    break;
                }
            }
            thread::sleep(TICK);
        }
        let known = Known::of_running(process, f64::INFINITY);
        recording.stop();
        if recording.collector.is_empty() {
            let sample = recording.recorders[0].reader().sample();
            if unseen::is_unseen(Some(&sample)) {
                return Err(unseen_process(&sample, &known));
            }
            return Err(Failure::run(format!(
                "process {process} took no lock meanwhile: nothing is recorded; give it work, or a longer --time"
            )));
        }
        recording.finish(self, &Symbols::of(&known)).map(|()| 0)
    }

    fn program(&self, launch: &Launch) -> Result<u8, Failure> {
        let session = std::process::id();
        unseen::check_room()?;
        let mut command = launch.command();
        command
            .env("LOCKYARD_SESSION", session.to_string())
            .env("LOCKYARD_NAMESPACE", segment::namespace().to_string())
            .env("LOCKYARD_RECORD", "1");
        segment::reader::sweep();
        let mut recording = self.begin(&launch.line())?;
        let child = command.spawn().map_err(|error| launch.refused(&error))?;
        let mut followed = Followed::new(child, launch.file(), launch.library.as_deref());
        let end = self.time.map(|time| Instant::now() + time);
        let mut looked = Instant::now();
        let status = loop {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if let Some(status) = followed.wait(Duration::ZERO)? {
                    break Some(status);
                }
                if interrupt::asked() {
                    break followed.end()?;
                }
                recording.join(session);
                recording.look();
            }
            if recording.recorders.is_empty() {
                recording.join(session);
            }
            if recording.is_on() && end.is_some_and(|end| Instant::now() >= end) {
                recording.stop();
            }
            if recording.is_on() {
                recording.tick(self.windows);
            }
            thread::sleep(if recording.is_on() { TICK } else { LOOK });
        };
        match status {
            Some(_) => followed.leave(session),
            // Nothing more can be said where stderr is closed.
            None => drop(writeln!(
                io::stderr(),
                "lockyard: the program, process {}, still runs; it is not recorded from here on",
                followed.process()
            )),
        }
        recording.join(session);
        if recording.is_on() {
            recording.stop();
        }
        let seen = !recording.collector.is_empty();
        let sample = recording.recorders.first().map(|recorder| recorder.reader().sample());
        // By the names that they have now: exec changes that of the program before.
        let readers = Reader::of_session(session);
        followed.known.untold = unseen::refused(session, &readers, sample.is_some());
        readers.iter().filter(|reader| reader.ended()).for_each(Reader::remove);
        segment::reader::sweep();
        if !seen {
            let (sample, known, preloaded) = (sample.as_ref(), &followed.known, launch.library.is_some());
            return Err(Unseen { sample, known, status, preloaded }.failure());
        }
        recording.finish(self, &Symbols::of(&followed.known))?;
        // A closed stderr is no reason to stop.
        if let Some(left) = session::told(&followed.known.left) {
            let _ = writeln!(io::stderr(), "lockyard: {left}; its locks are not recorded from here on");
        }
        if let Some(untold) = &followed.known.untold {
            let _ = writeln!(io::stderr(), "lockyard: not all is recorded: {untold}");
        }
        Ok(status.map_or_else(interrupt::code, |status: ExitStatus| exit_code(status)))
    }

    fn begin(&self, program: &str) -> Result<Recording, Failure> {
        let refuse = |error: io::Error| self.refused(&error);
        let file = self.out.grow().map_err(refuse)?;
        let collector = Collector::new(file, program, &Linux::describe(), event_ns()).map_err(refuse)?;
        Ok(Recording { collector, recorders: Vec::new(), alive: HashMap::new(), begun: Instant::now(), left_out: None })
    }

    fn refused(&self, error: &io::Error) -> Failure {
        Failure::run(format!("cannot write '{}': {}", self.out.path().display(), plain(error)))
    }
}

/// What an event costs the thread that writes it: the least of some, of this process's own, since
/// other programs only add to it. 0 if they cannot be had.
fn event_ns() -> u64 {
    const EVENTS: u64 = 500;
    if segment::open(b"lockyard").is_err() {
        segment::close();
        return 0;
    }
    let class = segment::class(b"mutex", b"", 0);
    let mut costs = Vec::new();
    if let (Ok(mut own), Some(page)) = (Recorder::open(std::process::id()), segment::page()) {
        for _ in 0..40 {
            own.record();
            let begun = Linux::now();
            for _ in 0..EVENTS / 2 {
                segment::acquired_on(page, class.into(), 64);
                segment::released_on(page, 64);
            }
            costs.push((Linux::now() - begun) / EVENTS);
            own.drain(|_, _| {});
        }
    }
    segment::close();
    costs.into_iter().min().unwrap_or(0)
}

/// Records no more of the process of `recorder`.
fn rest(collector: &mut Collector<Growing>, recorder: &mut Recorder, alive: &HashMap<u64, u64>) {
    let threads = recorder.pause();
    collector.read(recorder);
    if threads.is_empty() {
        return;
    }
    // One that was killed had no time to say when.
    let seen = || alive.get(&recorder.key()).copied().filter(|_| recorder.reader().ended());
    let at = recorder.ended_at().or_else(seen).unwrap_or_else(Linux::now);
    collector.close(recorder, at, &threads);
}

/// A recording under way.
struct Recording {
    collector: Collector<Growing>,
    recorders: Vec<Recorder>,
    /// When processes were last seen alive, ns of the monotonic clock, by their recorders' keys.
    alive: HashMap<u64, u64>,
    begun: Instant,
    /// Windows that were cut and threads that were not recorded until it stopped, if it has.
    left_out: Option<(u64, u32)>,
}

impl Recording {
    /// Reads the rings, and lets windows begin and end.
    fn tick(&mut self, windows: bool) {
        let stretch = self.begun.elapsed().as_nanos() % STRETCH.as_nanos();
        let on = !windows || stretch < WINDOW.as_nanos();
        for recorder in &mut self.recorders {
            self.collector.read(recorder);
            if !on {
                rest(&mut self.collector, recorder, &self.alive);
            } else if recorder.record() {
                self.collector.begin(recorder);
            }
        }
    }

    /// Notes which processes are there.
    fn look(&mut self) {
        let there = self.recorders.iter().filter(|recorder| !recorder.reader().ended());
        self.alive.extend(there.map(|recorder| (recorder.key(), Linux::now())));
    }

    /// Looks for processes of the session that are new. Of those that come after the end nothing is
    /// wanted, and nothing is said.
    fn join(&mut self, session: u32) {
        let known: Vec<u64> = self.recorders.iter().map(Recorder::key).collect();
        let mut new = Recorder::of_session(session, &known);
        if !self.is_on() {
            new.iter_mut().for_each(|recorder| drop(recorder.pause()));
        }
        self.recorders.extend(new);
    }

    fn is_on(&self) -> bool {
        self.left_out.is_none()
    }

    fn stop(&mut self) {
        let mut left_out = (0, 0);
        for recorder in &mut self.recorders {
            rest(&mut self.collector, recorder, &self.alive);
            left_out = (left_out.0 + recorder.cut(), recorder.unrecorded().saturating_add(left_out.1));
        }
        self.left_out = Some(left_out);
    }

    /// Ends the file, and says what is in it.
    fn finish(self, recorded: &Recorded, symbols: &Symbols) -> Result<(), Failure> {
        let (cut, unrecorded) = self.left_out.unwrap_or_default();
        let summary = self.collector.finish(cut, unrecorded, symbols);
        let path = recorded.out.path().display();
        // Of what did not fit nothing is told as if it were there.
        let wrote = if summary.failed.is_none() { "wrote" } else { "recorded for" };
        let mut text = format!(
            "lockyard: {wrote} {path}: {} of {} in {}\n",
            numbers::count(summary.events as usize, "event"),
            numbers::count(summary.threads, "thread"),
            numbers::count(summary.windows as usize, "window"),
        );
        if cut > 0 {
            text += &format!(
                "lockyard: {} ended early, since the ring was full: between them is what is not known; --windows records less\n",
                numbers::count(cut as usize, "window")
            );
        }
        if unrecorded > 0 {
            text += &format!(
                "lockyard: {} not recorded: only 256 at a time are, and each needs 516 KiB in /dev/shm\n",
                numbers::count(unrecorded as usize, "thread")
            );
        }
        if let Some((threads, ns)) = summary.waiting.filter(|(_, ns)| *ns >= SETTLED) {
            text += &format!(
                "lockyard: at its end {} for a lock, the longest for {}: `lockyard report {path}` tells for which\n",
                if threads == 1 { "1 thread waits".to_owned() } else { format!("{threads} threads wait") },
                numbers::time(ns as f64)
            );
        }
        // A closed stderr is no reason to stop.
        drop(io::stderr().write_all(text.as_bytes()));
        match summary.failed {
            None => Ok(()),
            Some(error) => Err(Failure::run(format!(
                "cannot write all of '{path}': {}; what was written before can be read",
                plain(&error)
            ))),
        }
    }
}
