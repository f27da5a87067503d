//! A recording as lines of text, for other people's tools: what `lockyard script` prints and
//! `lockyard import` reads.
//!
//! ```text
//! lockyard recording 1             the first line
//! program memcached -t 4
//! machine 2x Example CPU
//! cost 40                          what an event of a lock cost the program, ns
//! dropped 3                        windows that were lost
//! missing 2                        threads that were not recorded
//! class mutex src/items.cc:40      classes are numbered from 0, in order
//! lock 0                           a lock of class 0; locks are numbered from 0, in order
//! class condition src/queue.cc:9   or semaphore, in place of mutex, rwlock or spin
//! lock 1                           its condition variables are numbered as locks are
//! thread 7 flusher                 the name of thread 7
//! window 7 1000                    thread 7, from 1000 ns on, up to its last event; events follow:
//! 1500 7 request 0 write           time, thread, what, lock, mode
//! 1520 7 grant 0                   only if it had to wait
//! 1560 7 release 0
//! 1570 7 failed 0 read             it did not get the lock, and did not wait
//! 1580 7 request 0 read
//! 1690 7 gave-up 0                 its time was up
//! 1700 7 signal 1                  or: broadcast
//! 1800 7 wait 1                    at a condition variable it waits; of a semaphore it has a unit
//! 1900 7 woken 1                   only if it had to wait; or: gave-up
//! 9000 7 off 7000                  asleep for 7000 ns since the event before
//! 9900 7 preempted 500             ready, and without a CPU, for 500 ns since the event before
//! window 8 1000 12000              thread 8, up to 12000 ns: what it holds then is held until then
//! 1300 8 request 0 write
//! 12000 8 pending 0                until then it had to wait; or: pending-firm, where only a
//!                                  release by the lock's holder would have ended that
//! ```
//!
//! Empty lines and lines that begin with `#` say nothing.

use std::fmt::Write;

use super::{Class, Event, Mode, Recording, Sort, What, Window};
use crate::error::Error;

const FIRST: &str = "lockyard recording 1";
const EVENTS: [&str; 13] = [
    "request",
    "grant",
    "gave-up",
    "release",
    "failed",
    "wait",
    "woken",
    "pending",
    "pending-firm",
    "signal",
    "broadcast",
    "off",
    "preempted",
];

impl Recording {
    /// The lines.
    pub fn to_text(&self) -> String {
        let mut out = format!("{FIRST}\n");
        for (name, value) in [("program", &self.program), ("machine", &self.machine)] {
            if !value.is_empty() {
                let _ = writeln!(out, "{name} {value}");
            }
        }
        for (name, value) in [("cost", self.event_ns), ("dropped", self.dropped), ("missing", self.missing)] {
            if value > 0 {
                let _ = writeln!(out, "{name} {value}");
            }
        }
        for class in &self.classes {
            let _ = writeln!(out, "class {} {}", class.sort.name(), class.name);
        }
        for class in &self.locks {
            let _ = writeln!(out, "lock {class}");
        }
        for (thread, name) in &self.names {
            let _ = writeln!(out, "thread {thread} {name}");
        }
        for Window { thread, begin, end, events } in &self.windows {
            let end = end.map_or_else(String::new, |end| format!(" {end}"));
            let _ = writeln!(out, "window {thread} {begin}{end}");
            for Event { at, what, lock } in events {
                let _ = match what {
                    What::Request(mode) => writeln!(out, "{at} {thread} request {lock} {}", mode_name(*mode)),
                    What::Grant => writeln!(out, "{at} {thread} grant {lock}"),
                    What::Release => writeln!(out, "{at} {thread} release {lock}"),
                    What::GaveUp => writeln!(out, "{at} {thread} gave-up {lock}"),
                    What::Wait => writeln!(out, "{at} {thread} wait {lock}"),
                    What::Woken => writeln!(out, "{at} {thread} woken {lock}"),
                    What::Pending { firm: false } => writeln!(out, "{at} {thread} pending {lock}"),
                    What::Pending { firm: true } => writeln!(out, "{at} {thread} pending-firm {lock}"),
                    What::Signal => writeln!(out, "{at} {thread} signal {lock}"),
                    What::Broadcast => writeln!(out, "{at} {thread} broadcast {lock}"),
                    What::Failed(mode) => writeln!(out, "{at} {thread} failed {lock} {}", mode_name(*mode)),
                    What::Off(ns) => writeln!(out, "{at} {thread} off {ns}"),
                    What::Preempted(ns) => writeln!(out, "{at} {thread} preempted {ns}"),
                };
            }
        }
        out
    }

    /// The recording that the lines of `text` say; `file` is what complaints call them.
    ///
    /// # Errors
    /// One line: the file, the line, the reason.
    pub fn from_text(file: &str, text: &str) -> Result<Self, Error> {
        let mut recording = Self::default();
        let mut begun = false;
        for (index, line) in text.lines().enumerate() {
            let at = |why: String| Error::new(format!("{file}:{}: {why}", index + 1));
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if !begun && line != FIRST {
                return Err(at(format!("the first line must be '{FIRST}'")));
            }
            if begun {
                recording.line(line).map_err(at)?;
            }
            begun = true;
        }
        if begun { Ok(recording) } else { Err(Error::new(format!("{file}:1: the first line must be '{FIRST}'"))) }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "program" => self.program = rest.to_owned(),
            "machine" => self.machine = rest.to_owned(),
            "cost" => self.event_ns = number(rest)?,
            "dropped" => self.dropped = number(rest)?,
            "missing" => self.missing = number(rest)?,
            "class" => {
                let (kind, name) = rest.split_once(' ').ok_or("a class has a kind and a name")?;
                let sort = Sort::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(|| {
                    format!("unknown kind '{kind}'; known are {}", Sort::ALL.map(Sort::name).join(", "))
                })?;
                self.classes.push(Class { name: name.trim().to_owned(), sort });
            }
            "lock" => {
                let class: u32 = number(rest)?;
                if class as usize >= self.classes.len() {
                    return Err(format!("class {class} has not been named; there are {}", self.classes.len()));
                }
                self.locks.push(class);
            }
            "thread" => {
                let (thread, name) = rest.split_once(' ').ok_or("a thread has a number and a name")?;
                self.name_thread(number(thread)?, name);
            }
            "window" => {
                let (thread, begin) = rest.split_once(' ').ok_or("a window has a thread and a beginning")?;
                let (begin, end) =
                    begin.trim().split_once(' ').map_or((begin, None), |(begin, end)| (begin, Some(end)));
                let (begin, end) = (number(begin)?, end.map(number).transpose()?);
                if end.is_some_and(|end| end < begin) {
                    return Err("the window ends before it begins".to_owned());
                }
                self.windows.push(Window { thread: number(thread)?, begin, end, events: Vec::new() });
            }
            _ => self.event(line)?,
        }
        Ok(())
    }

    fn event(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (time, thread, what, value, mode) = match words.as_slice() {
            [time, thread, what, value] => (time, thread, *what, value, None),
            [time, thread, what, value, mode] => (time, thread, *what, value, Some(*mode)),
            _ => return Err(format!("'{line}' is not 'time thread what lock mode'")),
        };
        let (at, thread): (u64, u32) = (number(time)?, number(thread)?);
        let mode = match mode {
            None => None,
            Some("read") => Some(Mode::Read),
            Some("write") => Some(Mode::Write),
            Some(other) => return Err(format!("unknown mode '{other}'; known are read, write")),
        };
        let what = match (what, mode) {
            ("request", Some(mode)) => What::Request(mode),
            ("failed", Some(mode)) => What::Failed(mode),
            ("grant", None) => What::Grant,
            ("release", None) => What::Release,
            ("gave-up", None) => What::GaveUp,
            ("wait", None) => What::Wait,
            ("woken", None) => What::Woken,
            ("pending" | "pending-firm", None) => What::Pending { firm: what == "pending-firm" },
            ("signal", None) => What::Signal,
            ("broadcast", None) => What::Broadcast,
            ("off", None) => What::Off(number(value)?),
            ("preempted", None) => What::Preempted(number(value)?),
            ("request" | "failed", None) => return Err(format!("'{what}' needs a mode: read or write")),
            _ if EVENTS.contains(&what) => return Err(format!("'{what}' has no mode")),
            _ => return Err(format!("unknown event '{what}'; known are {}", EVENTS.join(", "))),
        };
        let lock: u32 = if what.time().is_some() { 0 } else { number(value)? };
        if what.time().is_none() && lock as usize >= self.locks.len() {
            return Err(format!("lock {lock} has not been named; there are {}", self.locks.len()));
        }
        let window = self.windows.last_mut().ok_or("an event stands in a window")?;
        if window.thread != thread {
            return Err(format!("thread {thread} in a window of thread {}", window.thread));
        }
        if at < window.events.last().map_or(window.begin, |event| event.at) {
            return Err("the time goes back".to_owned());
        }
        if window.end.is_some_and(|end| end < at) {
            return Err("the window ends before this event".to_owned());
        }
        window.events.push(Event { at, what, lock });
        Ok(())
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "read",
        Mode::Write => "write",
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is not a whole number in bounds"))
}
