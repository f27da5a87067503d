//! A program that this command has started, while it runs: when it ended, and what is
//! [known](Known) of it until then, by looks that grow rarer.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use lockyard_segment::Program;
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Failure, plain};
use crate::interrupt;
use crate::known::Known;
use crate::proc::cpu_time;
use crate::session::{self, Loaded};

/// The time between the first two looks; each is twice as long as the one before.
const FIRST: Duration = Duration::from_millis(1);
/// The longest time between two.
const LONGEST: Duration = Duration::from_millis(20);

/// A program under way.
#[derive(Debug)]
pub(crate) struct Followed {
    child: Child,
    looked: Instant,
    pause: Duration,
    /// What is known so far.
    pub(crate) known: Known,
}

impl Followed {
    /// `child` has just been started, and runs `file`, with `library` in it.
    pub(crate) fn new(child: Child, file: Option<PathBuf>, library: Option<&Path>) -> Self {
        let mut known = Known::default();
        known.loaded = Loaded::of(library);
        known.look(child.id(), Duration::ZERO);
        // Of one that has ended by now, `/proc` does not tell it.
        if known.programs.is_empty() {
            known.programs.extend(file);
        }
        Self { child, looked: Instant::now(), pause: FIRST, known }
    }

    /// Waits for `time`, or until the program ends: how it did. `None`: it goes on.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<Option<ExitStatus>, Failure> {
        let end = Instant::now().checked_add(time);
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            self.look();
            let left = end.map_or(LONGEST, |end| end.saturating_duration_since(self.looked));
            if left.is_zero() || interrupt::asked() {
                return Ok(None);
            }
            thread::sleep(self.pause.min(left));
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }

    fn look(&mut self) {
        let now = Instant::now();
        self.known.look(self.child.id(), now - self.looked);
        self.looked = now;
    }

    /// Passes a signal on, that asked this command to end: one that the terminal has sent came to
    /// the program as well. How it ended, if it does within a second.
    ///
    /// # Errors
    /// The system does not say.
    pub(crate) fn end(&mut self) -> Result<Option<ExitStatus>, Failure> {
        const PATIENCE: Duration = Duration::from_secs(1);
        const LOOK: Duration = Duration::from_millis(5);
        let end = Instant::now() + PATIENCE;
        if interrupt::terminated() {
            // One that has ended meanwhile needs none.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        loop {
            match self.ended()? {
                None if Instant::now() < end => thread::sleep(LOOK),
                status => return Ok(status),
            }
            self.look();
        }
    }

    /// The process that was started.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The program has ended, or goes on without this command: notes which processes of `session`
    /// go on.
    pub(crate) fn leave(&mut self, session: u32) {
        const PATIENCE: Duration = Duration::from_millis(20);
        if session::running(session).is_empty() {
            return;
        }
        // One that only starts another, as daemons do, ends at once.
        let begun = Instant::now();
        thread::sleep(PATIENCE);
        self.known.left = session::running(session);
        let threads = self.known.left.iter().filter_map(|left| Some(Program::of(left.process)?.threads)).sum::<u32>();
        self.known.thread_time += begun.elapsed() * threads;
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let refused = |error| Failure::run(format!("cannot wait for the program: {}", plain(&error)));
        let status = self.child.try_wait().map_err(refused)?;
        if status.is_some() {
            self.known.ends.note(self.child.id());
            // This command has started nothing else.
            self.known.cpu_time = cpu_time(std::process::id(), true).unwrap_or_default();
        }
        Ok(status)
    }
}

/// As a shell has it: the program's own, or 128 and the signal that ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use lockyard_segment::Maker;
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;
    use crate::elf;

    #[test]
    fn a_program_is_waited_for() {
        let mut followed = Followed::new(Command::new("sleep").arg("600").spawn().expect("sleep"), None, None);
        assert_eq!(followed.wait(Duration::ZERO).unwrap(), None);
        let maker = {
            let program = Program::of(followed.child.id()).expect("it runs");
            Maker { at: program.began, stack: program.stack }
        };
        followed.child.kill().expect("it is there");
        assert!(followed.wait(Duration::MAX).unwrap().is_some_and(|status| !status.success()));
        let end = followed.known.ends.of(followed.child.id(), &maker, 0);
        assert!(end.is_some(), "what comes after is not its time");
    }

    #[test]
    fn one_that_has_ended_before_the_first_look_is_known_by_its_file() {
        let child = Command::new("true").spawn().expect("true");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), options).expect("it ends");
        let file = elf::file_of("true".as_ref()).expect("it is in the path");
        let mut followed = Followed::new(child, Some(file.clone()), None);
        assert_eq!(followed.known.programs, [file]);
        assert!(followed.wait(Duration::MAX).unwrap().is_some_and(|status| status.success()));
    }
}
