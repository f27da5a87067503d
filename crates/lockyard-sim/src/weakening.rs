//! A lock with one of its orderings weakened: a detector of missing orderings
//! ([`Config::watch_order`](crate::Config::watch_order)) must notice it.
//!
//! The source stays as it is. Words know which line asks for an access; on one line another
//! ordering counts than what is said there.

use std::fmt;
use std::panic::Location;
use std::str::FromStr;

use lockyard::platform::Ordering;

/// What counts on one line of a lock's source instead of what is said there:
/// `spin/cna.rs:216=Relaxed`, `spin/queued.rs:486:failure=Relaxed`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakening {
    /// The end of the file's path, from a folder's name on.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// Whether it is the ordering of compare-exchanges that fail; else that of all other accesses
    /// on the line.
    pub failure: bool,
    /// What counts there.
    pub order: Ordering,
}

impl Weakening {
    /// Whether an access at `place` is meant; `failure`: it is a compare-exchange that fails.
    pub(crate) fn is_at(&self, failure: bool, place: &Location<'_>) -> bool {
        let file = || place.file().strip_suffix(&self.file).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        place.line() == self.line && self.failure == failure && file()
    }
}

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.failure { ":failure" } else { "" };
        write!(f, "{}:{}{part}={:?}", self.file, self.line, self.order)
    }
}

impl FromStr for Weakening {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not FILE:LINE=ORDERING, or FILE:LINE:failure=ORDERING");
        let (site, name) = text.split_once('=').ok_or_else(wrong)?;
        let (site, failure) = site.strip_suffix(":failure").map_or((site, false), |site| (site, true));
        let (file, line) = site.rsplit_once(':').ok_or_else(wrong)?;
        let line = line.parse().ok().filter(|&line| line > 0 && !file.is_empty()).ok_or_else(wrong)?;
        let order = ORDERINGS.into_iter().find(|order| format!("{order:?}") == name);
        let order =
            order.ok_or_else(|| format!("'{name}' is no ordering; valid: Relaxed, Acquire, Release, AcqRel"))?;
        Ok(Self { file: file.to_owned(), line, failure, order })
    }
}

/// The orderings that there is something weaker, or stronger, than.
const ORDERINGS: [Ordering; 4] = [Ordering::Relaxed, Ordering::Acquire, Ordering::Release, Ordering::AcqRel];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_it_is_written_it_is_read() {
        for text in ["spin/cna.rs:216=Relaxed", "spin/queued.rs:486:failure=Acquire"] {
            assert_eq!(text.parse::<Weakening>().map(|read| read.to_string()), Ok(text.to_owned()));
        }
        for text in [
            "",
            "spin/cna.rs=Relaxed",
            "spin/cna.rs:0=Relaxed",
            ":7=Relaxed",
            "a.rs:7",
            "a.rs:7=Weak",
            "a.rs:7:load=Relaxed",
        ] {
            assert!(text.parse::<Weakening>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_line_is_meant_and_one_part_of_it() {
        let here = Location::caller();
        let weakening = |text: String| text.parse::<Weakening>().expect("well written");
        let meant = weakening(format!("src/weakening.rs:{}=Relaxed", here.line()));
        assert!(meant.is_at(false, here) && !meant.is_at(true, here));
        assert!(!weakening(format!("eakening.rs:{}=Relaxed", here.line())).is_at(false, here));
        assert!(!weakening(format!("weakening.rs:{}=Relaxed", here.line() + 1)).is_at(false, here));
        assert!(weakening(format!("weakening.rs:{}:failure=Relaxed", here.line())).is_at(true, here));
    }
}
