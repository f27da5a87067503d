//! What the user sees on stderr while the machine is being measured.
//!
//! On a terminal: one bar with the current cell and the time left. Elsewhere (a log, a pipe): one
//! short line per cell, so that a log shows where the time went, and nothing that needs a cursor.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bar on the screen, for whoever has something to say above it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Says a line on stderr, above the bar if there is one.
pub(crate) fn say(line: &str) {
    match &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(bar) => bar.println(line),
        // A closed stderr is no reason to stop.
        None => drop(writeln!(io::stderr(), "{line}")),
    }
}

fn show(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Progress towards a known number of milliseconds of measuring.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
    started: Instant,
    planned: Duration,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines { last: String },
}

impl Progress {
    /// Begins to show progress towards `planned`; zero: nobody knows how long it will take.
    pub(crate) fn start(planned: Duration) -> Self {
        let shown = if io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            // The template is a constant: if it were wrong, the default style would still show
            // progress.
            if let Ok(style) = ProgressStyle::with_template("{bar:24.cyan/dim} {percent:>3} %  {prefix}  {msg:.dim}") {
                bar.set_style(style.progress_chars("━╸─"));
            }
            show(Some(bar.clone()));
            Shown::Bar(bar)
        } else {
            Shown::Lines { last: String::new() }
        };
        Self { shown, started: Instant::now(), planned }
    }

    /// Says that `share` (0 to 1) of the work is done, and that `lock` of `group` is about to do
    /// `what`.
    pub(crate) fn at(&mut self, share: f64, group: &str, what: &str, lock: &str) {
        let share = share.clamp(0.0, 1.0);
        let left = self.left(share);
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_position((share * 1000.0) as u64);
                bar.set_prefix(left.map_or(String::new(), |left| format!("{} left", brief(left))));
                bar.set_message(format!("{group}: {what}: {lock}"));
            }
            Shown::Lines { last } => {
                let cell = format!("{group}: {what}");
                if *last != cell {
                    let left = left.map_or(String::new(), |left| format!(", {} left", brief(left)));
                    say(&format!("[{:>3.0} %{left}] {cell}", share * 100.0));
                    *last = cell;
                }
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        if let Shown::Bar(bar) = &self.shown {
            show(None);
            bar.finish_and_clear();
        }
    }

    /// The time left: the plan at first, if there is one; what the clock says later.
    fn left(&self, share: f64) -> Option<Duration> {
        let passed = self.started.elapsed();
        if share < 0.02 {
            return (!self.planned.is_zero()).then(|| self.planned.saturating_sub(passed));
        }
        Some(passed.mul_f64(((1.0 - share) / share).min(1e6)))
    }
}

/// A time left, as one reads it: `47 s`, `2 min 05 s`.
pub(crate) fn brief(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_nobody_knows_is_not_told() {
        let of = |planned| Progress { shown: Shown::Lines { last: String::new() }, started: Instant::now(), planned };
        assert_eq!(of(Duration::ZERO).left(0.0), None);
        assert!(of(Duration::from_secs(100)).left(0.0).is_some_and(|left| left > Duration::from_secs(10)));
        assert!(of(Duration::ZERO).left(0.5).is_some());
    }

    #[test]
    fn times_left_are_short() {
        assert_eq!(brief(Duration::from_millis(10)), "1 s");
        assert_eq!(brief(Duration::from_secs(47)), "47 s");
        assert_eq!(brief(Duration::from_secs(125)), "2 min 05 s");
    }
}
