//! The terminal: how wide it is, and a screen of one's own on it.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::DefaultTerminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The columns of the terminal behind `out`; `None`: it is none, and nothing needs to fit.
/// `COLUMNS` of the environment comes first.
pub(crate) fn width(out: impl AsFd) -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(out).ok().map(|size| usize::from(size.ws_col));
    set.or_else(asked).filter(|columns| *columns > 0)
}

/// Whether the terminal shows a screen of ours, and not what it showed before.
static SCREEN: AtomicBool = AtomicBool::new(false);

/// A screen of one's own, until this is dropped or the command ends at once.
#[derive(Debug)]
pub(crate) struct Screen(pub(crate) DefaultTerminal);

impl Screen {
    /// Begins it. Keys are no signals while it lasts.
    ///
    /// # Errors
    /// The terminal cannot do that.
    pub(crate) fn begin() -> io::Result<Self> {
        SCREEN.store(true, Ordering::Relaxed);
        // What it has done before it failed is undone.
        ratatui::try_init().map(Self).inspect_err(|_| leave_screen())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave_screen();
    }
}

/// The terminal shows again what it showed before.
pub(crate) fn leave_screen() {
    if SCREEN.swap(false, Ordering::Relaxed) {
        ratatui::restore();
    }
}

/// What there is on the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyboard {
    /// Nothing, for so long, or until a signal came.
    Quiet,
    /// Something to read.
    Ready,
    /// The terminal is gone.
    Gone,
}

/// Waits for a key for `time` at most.
pub(crate) fn keyboard(time: Duration) -> Keyboard {
    let stdin = io::stdin();
    let mut files = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    // A signal ends the wait as its end does.
    let _ = poll(&mut files, Some(&time));
    let found = files[0].revents();
    if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        Keyboard::Gone
    } else if found.contains(PollFlags::IN) {
        Keyboard::Ready
    } else {
        Keyboard::Quiet
    }
}
