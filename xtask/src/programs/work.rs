//! One run of a program: its folder, its environment, its port, and how it is started, waited for
//! and ended.

use std::cell::Cell;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::programs::Scale;
use crate::programs::report::{Report, number_after, reported};
use crate::tools::{self, Outcome};

/// On which locks a program runs.
#[derive(Debug, Clone)]
pub(crate) enum Locks {
    Glibc,
    /// Those of this library.
    Ours(PathBuf),
    /// Those of this library, under `stat` of this command.
    Told(PathBuf, PathBuf),
}

/// One run: what belongs to it goes when it is dropped.
pub(crate) struct Work {
    folder: PathBuf,
    locks: Locks,
    /// Reports of `lockyard stat` so far.
    told: Cell<u32>,
    pub(crate) scale: Scale,
}

impl Work {
    /// An empty folder for a run of `program` on `locks`.
    pub(crate) fn new(program: &str, locks: Locks, scale: Scale) -> Outcome<Self> {
        // Not inside the workspace: servers drop their privileges and must be able to get there.
        let folder = std::env::temp_dir().join(format!("lockyard-{program}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, locks, told: Cell::new(0), scale })
    }

    /// A path in the run's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The same as text.
    pub(crate) fn text_path(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file there.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Outcome {
        fs::write(self.path(name), text).map_err(|error| format!("{name}: {error}"))
    }

    /// What goes into `LD_PRELOAD`, if the run is not on glibc alone.
    pub(crate) fn library(&self) -> Option<String> {
        match &self.locks {
            Locks::Glibc => None,
            Locks::Ours(library) | Locks::Told(library, _) => Some(library.display().to_string()),
        }
    }

    /// A command that runs on the run's locks.
    pub(crate) fn on_locks(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program.as_ref());
        match &self.locks {
            Locks::Glibc => {}
            Locks::Ours(library) => {
                command.env("LD_PRELOAD", library);
            }
            Locks::Told(library, lockyard) => {
                command = Command::new(lockyard);
                command.args(["stat", "--json", "--out"]).arg(self.report(self.told.get()));
                command.arg("--").arg(program.as_ref()).env("LOCKYARD_PRELOAD", library);
                self.told.set(self.told.get() + 1);
            }
        }
        command
    }

    fn report(&self, number: u32) -> PathBuf {
        self.path(&format!("told.{number}.json"))
    }

    /// What was told of each program that has run, in order.
    pub(crate) fn told(&self) -> Outcome<Vec<String>> {
        let read = |number| {
            let report = self.report(number);
            fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))
        };
        (0..self.told.get()).map(read).collect()
    }

    /// Starts a server; what it says goes into a file of the folder.
    pub(crate) fn start(&self, command: &mut Command) -> Outcome<Server> {
        let log = self.path("log");
        let out = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let err = out.try_clone().map_err(|error| error.to_string())?;
        let shown = format!("{command:?}");
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let child = child.map_err(|error| format!("{shown}: {error}"))?;
        Ok(Server { child, log, told: matches!(self.locks, Locks::Told(..)), ended: false })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// A server that runs. Killed when it is dropped without having been ended.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    /// The child is `lockyard stat`, which starts the server.
    told: bool,
    ended: bool,
}

impl Server {
    /// Waits until something listens on `port`.
    pub(crate) fn wait_port(&mut self, port: u16) -> Outcome {
        self.wait(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
    }

    /// Waits until `ready`, for half a minute at most.
    pub(crate) fn wait(&mut self, mut ready: impl FnMut() -> bool) -> Outcome {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Err(self.complaint(&format!("ended at once: {status}")));
            }
            if start.elapsed() > Duration::from_secs(30) {
                return Err(self.complaint("does not answer after 30 s"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Asks it to end with signal `name` and checks that it does, with code 0.
    pub(crate) fn end(mut self, name: &str) -> Outcome {
        // What `lockyard stat` hands on.
        let name = if self.told { "TERM" } else { name };
        tools::capture(Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()))?;
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                self.ended = true;
                return if status.success() { Ok(()) } else { Err(self.complaint(&format!("ended with {status}"))) };
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err(self.complaint("has not ended a minute after it was asked to"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Looks at the server's memory once a second from now on.
    pub(crate) fn watch(&self) -> Watch {
        let (stop, stopped) = mpsc::channel();
        let status = format!("/proc/{}/status", self.child.id());
        let samples = std::thread::spawn(move || {
            let mut samples = Vec::new();
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                let text = fs::read_to_string(&status).unwrap_or_default();
                samples.extend(number_after(&text, "VmRSS:"));
            }
            samples
        });
        Watch { stop, samples }
    }

    fn complaint(&self, what: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("the server {what}\n{}", lines[lines.len().saturating_sub(15)..].join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.ended {
            // With the server, where the child is `lockyard stat`.
            drop(tools::kill_family(&mut self.child));
        }
    }
}

/// How much memory a server has, second by second.
pub(crate) struct Watch {
    stop: mpsc::Sender<()>,
    samples: JoinHandle<Vec<f64>>,
}

impl Watch {
    /// A minute or more after the start, memory must not grow any more: the last quarter's mean is
    /// at most a tenth, and 8 MB, above the second's.
    pub(crate) fn end(self) -> Outcome {
        drop(self.stop);
        let samples = self.samples.join().unwrap_or_default();
        if samples.len() < 60 {
            return Ok(());
        }
        let quarter = samples.len() / 4;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (early, late) = (mean(&samples[quarter..2 * quarter]), mean(&samples[3 * quarter..]));
        println!("  memory: {early:.0} kB in the second quarter, {late:.0} kB in the last");
        if late > early * 1.1 + 8192.0 {
            Err(format!("memory grows: from {early:.0} kB to {late:.0} kB"))
        } else {
            Ok(())
        }
    }
}

/// A port that nobody listens on.
pub(crate) fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

/// Runs a command to its end and returns what it printed, and how it ended; kills it after `limit`.
pub(crate) fn finish(command: &mut Command, limit: Duration) -> Outcome<(String, ExitStatus)> {
    finish_with(command, limit, |_| {})
}

/// The same; `started` is told its process id.
fn finish_with(command: &mut Command, limit: Duration, started: impl FnOnce(u32)) -> Outcome<(String, ExitStatus)> {
    let shown = format!("{command:?}").replace('"', "");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{shown}: {error}"))?;
    started(child.id());
    // Reads both at the same time, so that neither pipe fills.
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut pipe) = pipe {
                drop(pipe.read_to_string(&mut text));
            }
            text
        })
    };
    let out = read(out.map(|pipe| Box::new(pipe) as _));
    let err = read(err.map(|pipe| Box::new(pipe) as _));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if start.elapsed() > limit {
            tools::kill_family(&mut child)?;
            return Err(format!("hangs: stopped after {} s: {shown}", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let text = out.join().unwrap_or_default() + &err.join().unwrap_or_default();
    Ok((text, status))
}

/// What a driver of ours reports: operations per second, if there were no errors.
pub(crate) fn driven(command: &mut Command, scale: Scale) -> Outcome<f64> {
    let (text, status) = finish(command, Duration::from_secs(u64::from(scale.seconds) + 180))?;
    reported(&text, status).map(Report::speed)
}

/// A program under load: a driver that loads itself, or a server and its load generator.
pub(crate) struct Load<'w> {
    /// The driver or the generator, with all it starts. Stopped, it leaves the server without work.
    pub(crate) command: Command,
    served: Option<Served<'w>>,
}

/// The server of a load.
struct Served<'w> {
    server: Server,
    /// Ends it and looks at what it leaves.
    end: Box<dyn FnOnce(Server) -> Outcome + 'w>,
}

impl From<Command> for Load<'_> {
    fn from(command: Command) -> Self {
        Self { command, served: None }
    }
}

impl<'w> Load<'w> {
    /// `command` loads `server`, which `end` ends.
    pub(crate) fn on(server: Server, command: Command, end: impl FnOnce(Server) -> Outcome + 'w) -> Self {
        Self { command, served: Some(Served { server, end: Box::new(end) }) }
    }

    /// Runs it alone: operations per second, if there were no errors and the server's memory does
    /// not grow.
    pub(crate) fn alone(mut self, scale: Scale) -> Outcome<f64> {
        // The memory of `lockyard stat` says nothing of the server's.
        let memory = self.served.as_ref().filter(|served| !served.server.told).map(|served| served.server.watch());
        let speed = driven(&mut self.command, scale)?;
        if let Some(memory) = memory {
            memory.end()?;
        }
        end(self.served)?;
        Ok(speed)
    }
}

fn end(served: Option<Served<'_>>) -> Outcome {
    served.map_or(Ok(()), |Served { server, end }| end(server))
}

/// How long one of two drivers runs before it is the other's turn.
const TURN: Duration = Duration::from_millis(200);

/// Two drivers that took turns: operations per second of the time in which each ran, and how much
/// of a CPU each had meanwhile, in the kernel's ticks (0: it was not the driver that worked, but a
/// server).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    pub(crate) speeds: [f64; 2],
    pub(crate) ticks: [u64; 2],
}

/// Runs two drivers at the same time, of which at any moment one is stopped. Whatever else the
/// machine does, and however its speed changes, the two have the same of it; one after the other
/// they would not. Each is to be told twice the seconds. What it did counts against the turns it
/// had in the time that it measured.
pub(crate) fn driven_in_turns(loads: [Load<'_>; 2], scale: Scale) -> Outcome<Turns> {
    let limit = Duration::from_secs(2 * u64::from(scale.seconds) + 360);
    let mut ticks = [0; 2];
    let mut turns = [const { Vec::new() }; 2];
    let [Load { command: first, served: first_server }, Load { command: second, served: second_server }] = loads;
    let ends = std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let ends = [(0, first), (1, second)].map(|(number, mut command)| {
            let tell = tell.clone();
            let started = move |process: u32| {
                // Cannot fail: they are listened to until all have started.
                let _ = tell.send((number, process));
            };
            // A group of its own, so that a signal reaches what it starts.
            command.process_group(0);
            scope.spawn(move || finish_with(&mut command, limit, started).map(|end| (end, Instant::now())))
        });
        drop(tell);
        let mut drivers: Vec<(usize, u32)> = told.iter().take(ends.len()).collect();
        let running = |number: usize| ends.get(number).is_some_and(|end| !end.is_finished());
        // Not one that has ended: its process id may be another's.
        let signal = |name: &str, (number, process): (usize, u32)| {
            if running(number) {
                drop(Command::new("kill").args([name, "--", &format!("-{process}")]).stderr(Stdio::null()).status());
            }
        };
        drivers.iter().for_each(|driver| signal("-STOP", *driver));
        while drivers.iter().any(|driver| running(driver.0)) {
            drivers.reverse();
            for driver in &drivers {
                let (number, process) = *driver;
                signal("-CONT", *driver);
                let begin = Instant::now();
                std::thread::sleep(TURN);
                signal("-STOP", *driver);
                if let (Some(sum), Some(now)) = (ticks.get_mut(number), cpu_ticks(process)) {
                    *sum = now.max(*sum);
                }
                if let Some(turns) = turns.get_mut(number) {
                    turns.push((begin, Instant::now()));
                }
            }
        }
        ends.map(|end| end.join().unwrap_or_else(|_| Err("a driver's watcher panicked".to_owned())))
    });
    if first_server.is_some() {
        ticks = [0; 2];
    }
    let [first, second] = ends;
    let [first_turns, second_turns] = turns;
    let speed = |end: Outcome<((String, ExitStatus), Instant)>, turns: &[(Instant, Instant)]| {
        let ((text, status), end) = end?;
        let report = reported(&text, status)?;
        match within(turns, report.seconds, end) {
            ran if ran > 0.0 => Ok(report.operations / ran),
            _ => Err("a driver measured nothing in any turn of its own".to_owned()),
        }
    };
    let speeds = [speed(first, &first_turns)?, speed(second, &second_turns)?];
    end(first_server)?;
    end(second_server)?;
    Ok(Turns { speeds, ticks })
}

/// How many of the last `seconds` before `end` belong to `turns`.
fn within(turns: &[(Instant, Instant)], seconds: f64, end: Instant) -> f64 {
    let before_end = |at: Instant| end.saturating_duration_since(at).as_secs_f64().min(seconds);
    turns.iter().map(|(begin, stop)| before_end(*begin) - before_end(*stop)).sum()
}

/// How much CPU time a process has had; `None` once it is gone.
fn cpu_ticks(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // "id (name) state …": the name may hold spaces and brackets. The state is field 3, the times
    // are fields 14 and 15.
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    let mut time = || fields.next()?.parse::<u64>().ok();
    Some(time()? + time()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_count_as_far_as_the_driver_measured() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let turns = [(at(0), at(200)), (at(400), at(600)), (at(800), at(1000))];
        // It measured from 100 ms to 900 ms.
        assert!((within(&turns, 0.8, at(900)) - 0.4).abs() < 1e-9);
        // All of it, and time before and after in which it had no turn.
        assert!((within(&turns, 5.0, at(3000)) - 0.6).abs() < 1e-9);
    }
}
