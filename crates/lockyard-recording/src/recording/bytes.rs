//! The file of a recording.
//!
//! ```text
//! magic "LYREC\r\n\x1a"   version u32   block …
//! block:   length u32   kind u32   checksum u32   payload
//! ```
//!
//! Integers are little-endian; in payloads, numbers are varints of seven bits a byte, texts a
//! length and UTF-8. The checksum is over length, kind and payload. A reader skips kinds it does
//! not know and refuses a newer version. Version 1 had locks only; in version 2, windows had
//! no end but their last event. There is no version 3: two versions differ in two bits, so that one
//! that flips is noticed.
//!
//! | kind | payload |
//! |---|---|
//! | 1 about | program, machine |
//! | 2 class | its [`Sort`], name |
//! | 3 locks | the class of each further lock, condition variable or semaphore |
//! | 4 window | thread, begin, events: code, time since the event before, lock or length |
//! | 5 end | windows that were dropped |
//! | 6 name | number of a class, its name from here on |
//! | 7 cost | what an event of a lock cost the program, ns |
//! | 8 missing | threads that were not recorded |
//! | 9 window with an end | thread, begin, how long it lasts, events |
//! | 10 move | number of a lock, its class from the beginning of the recording on |
//! | 11 thread | its number, its name |
//!
//! A class stands before its locks, a lock before the first window that names it. A file without
//! its end was cut off; a block whose checksum is wrong ends the reading. What stands before is
//! whole either way.

use std::fmt;

use super::{Class, Event, Mode, Recording, Sort, What, Window, checksum};
use crate::error::Error;

const MAGIC: &[u8; 8] = b"LYREC\r\n\x1a";
const VERSIONS: [u32; 3] = [1, 2, 4];
const VERSION: u32 = VERSIONS[2];
const HEAD: usize = 12;

const ABOUT: u32 = 1;
const CLASS: u32 = 2;
const LOCKS: u32 = 3;
const WINDOW: u32 = 4;
const END: u32 = 5;
const NAME: u32 = 6;
const COST: u32 = 7;
const MISSING: u32 = 8;
const ENDED: u32 = 9;
const MOVE: u32 = 10;
const THREAD: u32 = 11;

/// Where a file stops to be readable. What was read before is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The byte at which the first block that is not whole begins.
    pub at: usize,
    /// What is wrong there.
    pub why: &'static str,
}

impl Damage {
    /// What is wrong, and where.
    pub fn cause(&self) -> String {
        format!("{} at byte {}", self.why, self.at)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; what stands before it was read", self.cause())
    }
}

impl Recording {
    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = head(&self.program, &self.machine, self.event_ns);
        self.classes.iter().for_each(|one| class(&mut out, one));
        self.locks.chunks(1 << 16).for_each(|some| locks(&mut out, some));
        self.windows.iter().for_each(|one| window(&mut out, one));
        self.names.iter().for_each(|(number, name)| thread(&mut out, *number, name));
        missing(&mut out, self.missing);
        end(&mut out, self.dropped);
        out
    }

    /// The recording in `bytes`, and where they stop to be readable, if they do before the end;
    /// `file` is what complaints call them.
    ///
    /// # Errors
    /// One line: it is no recording, or one of a newer version.
    pub fn from_bytes(file: &str, bytes: &[u8]) -> Result<(Self, Option<Damage>), Error> {
        let refuse = |why: String| Error::new(format!("{file}: {why}"));
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| refuse("it is no recording of lockyard".to_owned()))?;
        let (version, _) = rest.split_first_chunk().ok_or_else(|| refuse("it was cut off in its head".to_owned()))?;
        let version = u32::from_le_bytes(*version);
        if !VERSIONS.contains(&version) {
            return Err(refuse(format!("its version is {version}; this lockyard reads versions up to {VERSION}")));
        }
        let mut recording = Self::default();
        let mut at = MAGIC.len() + size_of::<u32>();
        loop {
            let step = whole(&bytes[at..]).and_then(|(kind, payload)| {
                recording.absorb(kind, Payload(payload)).ok_or("a block makes no sense")?;
                Ok((kind, HEAD + payload.len()))
            });
            match step {
                Ok((END, length)) if at + length == bytes.len() => return Ok((recording, None)),
                Ok((END, length)) => {
                    let damage = Damage { at: at + length, why: "something follows the end" };
                    return Ok((recording, Some(damage)));
                }
                Ok((_, length)) => at += length,
                Err(why) => return Ok((recording, Some(Damage { at, why }))),
            }
        }
    }

    /// Adds what a block says. `None`, and nothing added, if it makes no sense.
    fn absorb(&mut self, kind: u32, mut payload: Payload<'_>) -> Option<()> {
        match kind {
            ABOUT => {
                let (program, machine) = (payload.text()?, payload.text()?);
                payload.is_read()?;
                (self.program, self.machine) = (program, machine);
            }
            CLASS => {
                let sort = *Sort::ALL.get(usize::try_from(payload.number()?).ok()?)?;
                let name = payload.text()?;
                payload.is_read()?;
                self.classes.push(Class { name, sort });
            }
            LOCKS => {
                let mut locks = Vec::new();
                while payload.is_read().is_none() {
                    let class = payload.number()?;
                    locks.push(u32::try_from(class).ok().filter(|&class| (class as usize) < self.classes.len())?);
                }
                self.locks.append(&mut locks);
            }
            WINDOW | ENDED => {
                let window = payload.window(self.locks.len(), kind == ENDED)?;
                self.windows.push(window);
            }
            NAME => {
                let class = usize::try_from(payload.number()?).ok()?;
                let name = payload.text()?;
                payload.is_read()?;
                self.classes.get_mut(class)?.name = name;
            }
            MOVE => {
                let (lock, class) = (usize::try_from(payload.number()?).ok()?, payload.number()?);
                payload.is_read()?;
                let class = u32::try_from(class).ok().filter(|&class| (class as usize) < self.classes.len())?;
                *self.locks.get_mut(lock)? = class;
            }
            THREAD => {
                let (thread, name) = (u32::try_from(payload.number()?).ok()?, payload.text()?);
                payload.is_read()?;
                self.name_thread(thread, &name);
            }
            COST => {
                let event_ns = payload.number()?;
                payload.is_read()?;
                self.event_ns = event_ns;
            }
            MISSING => {
                let missing = payload.number()?;
                payload.is_read()?;
                self.missing = missing;
            }
            END => {
                let dropped = payload.number()?;
                payload.is_read()?;
                self.dropped = dropped;
            }
            _ => {}
        }
        Some(())
    }
}

/// The first block of `bytes`: its kind and payload.
fn whole(bytes: &[u8]) -> Result<(u32, &[u8]), &'static str> {
    const CUT: &str = "the file was cut off";
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or(CUT)?;
    let word = |index: usize| u32::from_le_bytes([head[index], head[index + 1], head[index + 2], head[index + 3]]);
    let length = word(0) as usize;
    let payload = rest.get(..length).ok_or(CUT)?;
    if checksum::of(&[&head[..8], payload].concat()) != word(8) {
        return Err("a block's checksum is wrong");
    }
    Ok((word(4), payload))
}

fn block(out: &mut Vec<u8>, kind: u32, payload: &[u8]) {
    let mut summed = (payload.len() as u32).to_le_bytes().to_vec();
    summed.extend(kind.to_le_bytes());
    let head = summed.len();
    summed.extend(payload);
    out.extend(&summed[..head]);
    out.extend(checksum::of(&summed).to_le_bytes());
    out.extend(payload);
}

/// What a file begins with.
pub(super) fn head(program: &str, machine: &str, event_ns: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    let mut about = Vec::new();
    text(&mut about, program);
    text(&mut about, machine);
    block(&mut out, ABOUT, &about);
    let mut cost = Vec::new();
    number(&mut cost, event_ns);
    block(&mut out, COST, &cost);
    out
}

pub(super) fn class(out: &mut Vec<u8>, class: &Class) {
    let mut payload = Vec::new();
    number(&mut payload, Sort::ALL.iter().position(|sort| *sort == class.sort).unwrap_or(0) as u64);
    text(&mut payload, &class.name);
    block(out, CLASS, &payload);
}

pub(super) fn name(out: &mut Vec<u8>, class: usize, name: &str) {
    let mut payload = Vec::new();
    number(&mut payload, class as u64);
    text(&mut payload, name);
    block(out, NAME, &payload);
}

/// The name of the thread with a number.
pub(super) fn thread(out: &mut Vec<u8>, thread: u32, name: &str) {
    let mut payload = Vec::new();
    number(&mut payload, thread.into());
    text(&mut payload, name);
    block(out, THREAD, &payload);
}

/// The lock with a number is of another class.
pub(super) fn moved(out: &mut Vec<u8>, lock: u32, class: u32) {
    let mut payload = Vec::new();
    number(&mut payload, lock.into());
    number(&mut payload, class.into());
    block(out, MOVE, &payload);
}

/// Further locks, by their classes.
pub(super) fn locks(out: &mut Vec<u8>, classes: &[u32]) {
    let mut payload = Vec::new();
    classes.iter().for_each(|&class| number(&mut payload, class.into()));
    block(out, LOCKS, &payload);
}

/// Nothing, if there are none.
pub(super) fn missing(out: &mut Vec<u8>, threads: u64) {
    if threads > 0 {
        let mut payload = Vec::new();
        number(&mut payload, threads);
        block(out, MISSING, &payload);
    }
}

pub(super) fn end(out: &mut Vec<u8>, dropped: u64) {
    let mut payload = Vec::new();
    number(&mut payload, dropped);
    block(out, END, &payload);
}

pub(super) fn window(out: &mut Vec<u8>, window: &Window) {
    let mut payload = Vec::new();
    number(&mut payload, window.thread.into());
    number(&mut payload, window.begin);
    if let Some(end) = window.end {
        number(&mut payload, end.saturating_sub(window.begin));
    }
    let mut before = window.begin;
    for event in &window.events {
        number(&mut payload, code(event.what));
        number(&mut payload, event.at.saturating_sub(before));
        number(&mut payload, event.what.time().unwrap_or(event.lock.into()));
        before = event.at;
    }
    block(out, if window.end.is_some() { ENDED } else { WINDOW }, &payload);
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn code(what: What) -> u64 {
    match what {
        What::Request(Mode::Read) => 0,
        What::Request(Mode::Write) => 1,
        What::Grant => 2,
        What::Release => 3,
        What::Failed(Mode::Read) => 4,
        What::Failed(Mode::Write) => 5,
        What::Off(_) => 6,
        What::Preempted(_) => 7,
        What::GaveUp => 8,
        What::Wait => 9,
        What::Woken => 10,
        What::Signal => 11,
        What::Broadcast => 12,
        What::Pending { firm: false } => 13,
        What::Pending { firm: true } => 14,
    }
}

/// What of a payload has not been read.
struct Payload<'a>(&'a [u8]);

impl Payload<'_> {
    fn is_read(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let part = u64::from(byte & 127);
            if part << shift >> shift != part {
                return None;
            }
            value |= part << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        let text = std::str::from_utf8(text).ok()?;
        // A line of text says it: no line may end in it.
        (!text.contains(['\n', '\r'])).then(|| text.to_owned())
    }

    fn window(&mut self, locks: usize, has_end: bool) -> Option<Window> {
        let thread = u32::try_from(self.number()?).ok()?;
        let begin = self.number()?;
        let end = if has_end { Some(begin.checked_add(self.number()?)?) } else { None };
        let (mut at, mut events) = (begin, Vec::new());
        while self.is_read().is_none() {
            let code = self.number()?;
            at = at.checked_add(self.number()?)?;
            let value = self.number()?;
            let what = match code {
                0 => What::Request(Mode::Read),
                1 => What::Request(Mode::Write),
                2 => What::Grant,
                3 => What::Release,
                4 => What::Failed(Mode::Read),
                5 => What::Failed(Mode::Write),
                6 => What::Off(value),
                7 => What::Preempted(value),
                8 => What::GaveUp,
                9 => What::Wait,
                10 => What::Woken,
                11 => What::Signal,
                12 => What::Broadcast,
                13 | 14 => What::Pending { firm: code == 14 },
                _ => return None,
            };
            let lock = if what.time().is_some() { 0 } else { u32::try_from(value).ok()? };
            if what.time().is_none() && lock as usize >= locks {
                return None;
            }
            events.push(Event { at, what, lock });
        }
        (end.is_none_or(|end| at <= end)).then_some(Window { thread, begin, end, events })
    }
}
