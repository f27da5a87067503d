//! What the threads of an execution did, for whoever has to understand a failure.

use std::fmt::Write as _;
use std::panic::Location;

/// An access.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deed {
    pub(super) thread: usize,
    pub(super) place: &'static Location<'static>,
    pub(super) word: usize,
    pub(super) value: u64,
    pub(super) written: bool,
    /// It read a value that is not the newest.
    pub(super) old: bool,
}

/// `deeds`, a line each.
pub(super) fn tell(deeds: &[Deed]) -> String {
    let mut text = String::new();
    for Deed { thread, place, word, value, written, old } in deeds {
        let does = if *written { "writes" } else { "reads" };
        let remark = if *old { " (old)" } else { "" };
        let (file, line) = (place.file().trim_start_matches("crates/"), place.line());
        let word = word & 0xf_ffff;
        let _ = writeln!(text, "  thread {thread} {does:<6} {value:#x} in …{word:05x}{remark} at {file}:{line}");
    }
    text
}
