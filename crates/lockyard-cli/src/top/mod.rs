//! `lockyard top`: what the locks of a running process cost, on a screen that is drawn anew.
//!
//! | file | what |
//! |---|---|
//! | `state` | what is shown: since when, in which order, which class |
//! | `draw` | the screen |
//!
//! The process is neither stopped nor slowed down, and counts on for others who look: `r` begins
//! anew on this screen alone.

mod draw;
mod state;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use lockyard_segment::{Reader, Sample};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli::TopArgs;
use crate::failure::{Failure, INTERRUPTED, plain};
use crate::known::Known;
use crate::observe::{name_of, unseen_process};
use crate::terminal::{self, Screen};
use crate::{interrupt, unseen};
use state::State;

/// The longest wait for a key, after which signals and the process's end are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// What is looked at, and how often.
#[derive(Debug)]
pub(crate) struct Top {
    reader: Reader,
    interval: Duration,
}

impl Top {
    /// Checks the arguments, and finds the process.
    ///
    /// # Errors
    /// One line for the first thing that is wrong.
    pub(crate) fn check(args: &TopArgs) -> Result<Self, Failure> {
        let interval = crate::values::duration("--interval", &args.interval, 50_000_000, 3_600_000_000_000)?;
        let process = match &args.pid {
            Some(text) => crate::values::Bounds { flag: "--pid", least: 1, most: i32::MAX as u64 }.number(text)? as u32,
            None => the_only(&lockyard_segment::reader::running())?,
        };
        let reader = Reader::open(process).map_err(|refusal| Failure::usage(format!("top: {refusal}")))?;
        Ok(Self { reader, interval })
    }

    /// Draws until `q`, a signal, or the end of the process.
    ///
    /// # Errors
    /// There is no terminal, or it fails.
    pub(crate) fn run(&self) -> Result<u8, Failure> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            let line = format!("lockyard stat --pid {} --interval 1s", self.reader.process());
            return Err(Failure::usage(format!("top draws on a terminal, and there is none; instead: {line}")));
        }
        interrupt::listen_quietly()?;
        let process = self.reader.process();
        let known = Known::of_running(process, f64::INFINITY);
        let first = self.reader.sample();
        let mut state = State::new(name_of(process), known, first.clone());
        self.look(&mut state, first);
        let failed = |error: io::Error| Failure::run(format!("the terminal: {}", plain(&error)));
        let mut screen = Screen::begin().map_err(failed)?;
        let shown = self.show(&mut screen, &mut state);
        drop(screen);
        shown.map_err(failed)?;
        // What was on the screen is gone with it.
        let last = self.reader.sample();
        if unseen::is_unseen(Some(&last)) {
            return Err(unseen_process(&last, &Known::of_running(process, f64::INFINITY)));
        }
        self.look(&mut state, last);
        let gone = match (self.reader.ended(), self.reader.is_before_exec()) {
            (_, true) => format!("process {process} runs another program\n"),
            (true, _) => format!("process {process} has ended\n"),
            _ => String::new(),
        };
        crate::print(&format!("{}\n{gone}", state.verdict()))?;
        Ok(if interrupt::asked() { INTERRUPTED } else { 0 })
    }

    fn show(&self, screen: &mut Screen, state: &mut State) -> io::Result<()> {
        let events = events()?;
        let mut next = Instant::now() + self.interval;
        let mut width = None;
        let mut changed = true;
        loop {
            let size = screen.0.size()?;
            if std::mem::take(&mut changed) || width != Some(size) {
                screen.0.draw(|frame| draw::screen(frame, state))?;
                width = Some(size);
            }
            if self.reader.ended() || interrupt::asked() || terminal::is_gone() {
                return Ok(());
            }
            let left = next.saturating_duration_since(Instant::now());
            match events.recv_timeout(left.min(LOOK)) {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if key.code == KeyCode::Char('r') {
                        self.look(state, self.reader.sample());
                    }
                    if !obey(state, key) {
                        return Ok(());
                    }
                    changed = true;
                }
                Ok(_) => changed = true,
                Err(RecvTimeoutError::Timeout) => {}
                // Nothing can be read any more.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if Instant::now() >= next {
                next = Instant::now() + self.interval;
                self.look(state, self.reader.sample());
                changed = true;
            }
        }
    }

    /// Has `state` show `sample` and what `/proc` tells.
    fn look(&self, state: &mut State, sample: Sample) {
        let (process, ended) = (self.reader.process(), self.reader.ended());
        let unseen = unseen::is_unseen(Some(&sample));
        let why = unseen.then(|| unseen_process(&sample, &Known::of_running(process, f64::INFINITY)).to_string());
        let threads = sample.threads;
        state.look(sample, ended, why, |seconds| match ended {
            // They are gone: this is what they had at most.
            true => Duration::from_secs_f64(seconds.max(0.0) * f64::from(threads.max(1))),
            false => Known::of_running(process, seconds).thread_time,
        });
    }
}

/// What comes from the terminal, read by a thread: a read may wait for the rest of a key for as
/// long as none is pressed, and the screen must not.
///
/// # Errors
/// The system refuses the thread.
fn events() -> io::Result<Receiver<Event>> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(read).map(|_| receiver)
}

/// Does what `key` stands for. `false`: it ends the command.
fn obey(state: &mut State, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') => return false,
        // The terminal makes no signal of it while the screen is drawn.
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('r') => state.begin_anew(),
        KeyCode::Char('s') => state.sort_by_the_next(),
        KeyCode::Down | KeyCode::Char('j') => state.go(1),
        KeyCode::Up | KeyCode::Char('k') => state.go(-1),
        KeyCode::PageDown => state.turn(1),
        KeyCode::PageUp => state.turn(-1),
        KeyCode::Char('n') => state.select(1),
        KeyCode::Char('p') => state.select(-1),
        KeyCode::Enter | KeyCode::Right => state.open(true),
        KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => state.open(false),
        _ => {}
    }
    true
}

/// The process to look at, if nobody has said which.
///
/// # Errors
/// There is none, or more than one.
fn the_only(running: &[u32]) -> Result<u32, Failure> {
    match running {
        [one] => Ok(*one),
        [] => Err(Failure::usage(
            "no running process tells what its locks do; start one with: lockyard run PROGRAM (or name it: --pid)",
        )),
        several => {
            let names: Vec<String> = several.iter().map(|process| name_of(*process)).collect();
            Err(Failure::usage(format!(
                "several processes tell of their locks; choose with --pid: {}",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::observed;

    #[test]
    fn keys_do_what_the_screen_says() {
        let mut state = State::new("x".to_owned(), Known::default(), observed::tests::sample());
        let mut press = |code, modifiers| obey(&mut state, KeyEvent::new(code, modifiers));
        let letters = ['r', 's', 'n', 'p', 'c'].map(KeyCode::Char);
        let keys = [KeyCode::Down, KeyCode::PageDown, KeyCode::Enter, KeyCode::Down, KeyCode::PageUp, KeyCode::Esc];
        for code in letters.into_iter().chain(keys) {
            assert!(press(code, KeyModifiers::NONE), "{code:?}");
        }
        assert!(!press(KeyCode::Char('q'), KeyModifiers::NONE) && !press(KeyCode::Char('c'), KeyModifiers::CONTROL));
    }

    #[test]
    fn a_process_that_nobody_has_named_is_the_only_one() {
        assert_eq!(the_only(&[7]).unwrap(), 7);
        assert!(the_only(&[]).unwrap_err().to_string().contains("lockyard run PROGRAM"));
        assert!(the_only(&[1, u32::MAX]).unwrap_err().to_string().contains("(process 4294967295)"));
    }
}
