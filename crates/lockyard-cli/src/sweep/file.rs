//! The file of a shard: a line for each cell that is done, in the order in which they ended.
//!
//! A line is appended by one write, newline included. A process that is killed in it leaves a line
//! without an end, which the next one cuts off; nothing else is ever taken back. The process that
//! writes holds a lock on the file.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::plan::Plan;
use super::shard::Shard;
use crate::failure::{Failure, plain};
use crate::interrupt;
use crate::progress;
use crate::report::json::VERSION;

/// How often it is tried whether another process has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What of a line says which it is.
#[derive(Debug, Deserialize)]
struct Head {
    cell: usize,
    key: String,
    version: String,
    failed: Option<String>,
}

/// A whole line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The number of its cell.
    pub(super) cell: usize,
    /// The number of the line, from 1.
    pub(super) line: usize,
    /// Where in the file it begins.
    pub(super) start: u64,
    /// Its length, with the newline.
    pub(super) bytes: usize,
    /// Whether the simulation failed.
    pub(super) failed: bool,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Its whole lines.
    pub(super) places: Vec<Place>,
    /// Their bytes.
    pub(super) whole: u64,
    /// Whether a line without an end follows.
    pub(super) torn: bool,
}

/// What was done before.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The numbers of the cells.
    pub(super) cells: HashSet<usize>,
    /// How many of them failed.
    pub(super) failed: usize,
}

/// A file that is open for more lines, and locked.
#[derive(Debug)]
pub(super) struct ShardFile {
    path: PathBuf,
    file: File,
}

impl ShardFile {
    /// Opens the file of `shard`, new or to go on with, and says what it holds. Waits until
    /// `deadline` for another process that has it open.
    ///
    /// # Errors
    /// One line: it cannot be written, another process writes it, or what is in it does not belong
    /// there.
    pub(super) fn open(
        path: &Path,
        plan: &Plan,
        shard: Shard,
        resume: bool,
        deadline: Instant,
    ) -> Result<(Self, Before), Failure> {
        let refuse = |why: &str| Failure::usage(format!("'{}': {why}", path.display()));
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(|error| refuse(&format!("cannot be written: {}", plain(&error))))?;
        let mut locked = file.try_lock();
        while matches!(locked, Err(TryLockError::WouldBlock)) && Instant::now() < deadline && !interrupt::asked() {
            thread::sleep(LOOK);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = format!("another process does shard {shard} now; give --wait TIME, or another shard");
                return Err(refuse(&why));
            }
            // Some networks' file systems have no locks.
            Err(TryLockError::Error(error)) => {
                let path = path.display();
                let why = plain(&error);
                progress::say(&format!("lockyard: note: '{path}' cannot be locked ({why}): start each shard once"));
            }
        }
        let contents = Contents::read(path, plan)?;
        if !resume && !contents.places.is_empty() {
            let (done, all) = (contents.places.len(), shard.size(plan.cells.len()));
            return Err(refuse(&format!("it has {done} of {all} cells already; go on with --resume, or remove it")));
        }
        if let Some(place) = contents.places.iter().find(|place| !shard.has(place.cell)) {
            let Place { cell, line, .. } = place;
            return Err(refuse(&format!("line {line}: cell {cell} is not of shard {shard}; remove the line")));
        }
        if contents.torn {
            let cut = file.set_len(contents.whole);
            cut.map_err(|error| refuse(&format!("cannot cut off its last line: {}", plain(&error))))?;
        }
        let failed = contents.places.iter().filter(|place| place.failed).count();
        let cells = contents.places.iter().map(|place| place.cell).collect();
        Ok((Self { path: path.to_owned(), file }, Before { cells, failed }))
    }

    /// Appends a line, which ends in its newline.
    ///
    /// # Errors
    /// One line: the file and the reason.
    pub(super) fn append(&self, line: &str) -> Result<(), Failure> {
        let written = (&self.file).write_all(line.as_bytes()).and_then(|()| (&self.file).flush());
        written.map_err(|error| Failure::run(format!("cannot write '{}': {}", self.path.display(), plain(&error))))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Contents {
    /// What the file `path` holds of `plan`.
    ///
    /// # Errors
    /// One line: it cannot be read, or has a line that is none of this plan and version.
    pub(super) fn read(path: &Path, plan: &Plan) -> Result<Self, Failure> {
        let unreadable =
            |error: io::Error| Failure::usage(format!("'{}': cannot be read: {}", path.display(), plain(&error)));
        let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
        let mut contents = Self::default();
        let mut text = Vec::new();
        loop {
            text.clear();
            let bytes = reader.read_until(b'\n', &mut text).map_err(unreadable)?;
            if bytes == 0 || text.last() != Some(&b'\n') {
                contents.torn = bytes > 0;
                return Ok(contents);
            }
            let (line, start) = (contents.places.len() + 1, contents.whole);
            let (cell, failed) = cell_of(&text, plan)
                .map_err(|why| Failure::usage(format!("'{}', line {line}: {why}", path.display())))?;
            contents.places.push(Place { cell, line, start, bytes, failed });
            contents.whole += bytes as u64;
        }
    }
}

/// The cell of a line, and whether it failed.
fn cell_of(text: &[u8], plan: &Plan) -> Result<(usize, bool), String> {
    let head: Head = serde_json::from_slice(text)
        .map_err(|_| "it is no line of a sweep; remove it, and its cell is done again".to_owned())?;
    if head.version != VERSION {
        let what = "use one version for a sweep, or begin anew in another --dir";
        return Err(format!("it was written by lockyard {}, and this is {VERSION}; {what}", head.version));
    }
    let cell = head.cell.checked_sub(1).and_then(|index| plan.cells.get(index));
    if cell.is_none_or(|cell| cell.key.to_string() != head.key) {
        let what = "was the plan, a machine file or a LOCKYARD_HQ_ variable changed? begin anew in another --dir";
        return Err(format!("cell {} with key {} is of another plan; {what}", head.cell, head.key));
    }
    Ok((head.cell, head.failed.is_some()))
}
