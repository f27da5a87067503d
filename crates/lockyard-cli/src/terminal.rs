//! How wide the place is that a report goes to.

use std::os::fd::AsFd;

/// The columns of the terminal behind `out`; `None`: it is none, and nothing needs to fit.
/// `COLUMNS` of the environment comes first.
pub(crate) fn width(out: impl AsFd) -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || rustix::termios::tcgetwinsize(out).ok().map(|size| usize::from(size.ws_col));
    set.or_else(asked).filter(|columns| *columns > 0)
}
