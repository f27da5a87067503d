//! The terminal: how wide it is, and a screen of one's own on it.

use std::borrow::Cow;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::DefaultTerminal;
use ratatui::crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// The columns of the terminal behind `out`; `None`: it is none, and nothing needs to fit.
/// `COLUMNS` of the environment comes first.
pub(crate) fn width(out: impl AsFd) -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(out).ok().map(|size| usize::from(size.ws_col));
    set.or_else(asked).filter(|columns| *columns > 0)
}

/// `text`, which others have made, for one line of a terminal: its control characters would move
/// the cursor, or change colours.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let letter = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(letter).collect::<String>().into()
}

/// `text` with lines of at most `width` columns: what is too long goes on below, further in.
pub(crate) fn fit(text: &str, width: Option<usize>) -> Cow<'_, str> {
    let Some(width) = width.filter(|width| text.lines().any(|line| display_width(line) > *width)) else {
        return text.into();
    };
    let fold = |line: &str| {
        let indent = match line.len() - line.trim_start().len() {
            0 => 0,
            indent => indent + 2,
        };
        format!("{}\n", wrapped(line, width, indent))
    };
    text.lines().map(fold).collect::<String>().into()
}

/// A line, and what goes on below it after `indent` columns. Words stay whole.
pub(crate) fn wrapped(line: &str, width: usize, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = Options::new(width).subsequent_indent(&indent).break_words(false);
    let options = options.word_splitter(WordSplitter::NoHyphenation).wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(line, options).join("\n")
}

/// Whether the terminal shows a screen of ours, and not what it showed before.
static SCREEN: AtomicBool = AtomicBool::new(false);

/// A screen of one's own, until this is dropped or the command ends at once.
///
/// The terminal under it is never dropped: that writes to it, and tells of what fails, which panics
/// once the terminal is gone.
#[derive(Debug)]
pub(crate) struct Screen(pub(crate) ManuallyDrop<DefaultTerminal>);

impl Screen {
    /// Begins it. Keys are no signals while it lasts.
    ///
    /// # Errors
    /// The terminal cannot do that.
    pub(crate) fn begin() -> io::Result<Self> {
        SCREEN.store(true, Ordering::Relaxed);
        // What it has done before it failed is undone.
        ratatui::try_init().map(|terminal| Self(ManuallyDrop::new(terminal))).inspect_err(|_| leave_screen())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave_screen();
    }
}

/// The terminal shows again what it showed before, and its cursor. Waits neither for a lock, which
/// a thread that draws may hold, nor for a terminal that takes nothing.
pub(crate) fn leave_screen() {
    const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";
    if SCREEN.swap(false, Ordering::Relaxed) {
        let _ = disable_raw_mode();
        let stdout = io::stdout();
        if state_of(&stdout, PollFlags::OUT).contains(PollFlags::OUT) {
            let _ = rustix::io::write(&stdout, LEAVE);
        }
    }
}

/// Whether the terminal that keys come from is gone.
pub(crate) fn is_gone() -> bool {
    state_of(io::stdin(), PollFlags::empty()).intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

fn state_of(file: impl AsFd, wanted: PollFlags) -> PollFlags {
    let mut files = [PollFd::new(&file, wanted)];
    // A failure is as if nothing was so.
    let _ = poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    files[0].revents()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_the_cursor_is_seen() {
        assert_eq!(visible("a\u{1b}[31mb\n\tc\u{9b}"), "a\\u{1b}[31mb\\n\\tc\\u{9b}");
        assert_eq!(visible("Räuber „x“"), "Räuber „x“");
    }

    #[test]
    fn long_lines_go_on_further_in_and_tables_stay() {
        let table = "  a      b\n───────────\n  1      2\n";
        assert_eq!(fit(table, Some(11)), table);
        assert_eq!(fit("hq-spinlock of some", None), "hq-spinlock of some");
        assert_eq!(fit("  hq-spinlock of some\n\nx\n", Some(14)), "  hq-spinlock\n    of some\n\nx\n");
        assert_eq!(fit("\u{1b}[1mbold or not\u{1b}[0m\n", Some(11)), "\u{1b}[1mbold or not\u{1b}[0m\n");
    }
}
