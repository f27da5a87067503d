//! A failure, with everything that is known about it.

use std::fmt::Write;

use crate::catalog::Finding;

/// A failure, with everything that is known about it.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The lock.
    pub lock: String,
    /// What was found.
    pub finding: Finding,
    /// What the detector said.
    pub message: String,
    /// The run: machine, seed, threads, what went wrong.
    pub run: Vec<(&'static str, String)>,
    /// What is known of the end of it.
    pub telling: Telling,
    /// The command that does it again.
    pub replay: String,
    /// Whether the replay is exact.
    pub exact: bool,
}

impl Failure {
    /// The verdict in one line.
    pub fn line(&self) -> String {
        format!("{}: FAILED: {}: {}", self.lock, self.finding.text(), self.message)
    }

    /// Everything.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.line());
        for (name, value) in &self.run {
            let _ = writeln!(text, "  {name:<9} {value}");
        }
        for lock in &self.telling.locks {
            let _ = writeln!(text, "  state     {lock}");
        }
        if !self.telling.faults.is_empty() {
            let _ = writeln!(text, "\nthe last {} faults", self.telling.faults.len());
            self.telling.faults.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        for (thread, events) in self.telling.events.iter().enumerate() {
            let _ = writeln!(text, "\nthread {thread}: its last {} events", events.len());
            events.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
            if let Some(calls) = self.telling.calls.get(thread).filter(|calls| !calls.is_empty()) {
                let _ =
                    writeln!(text, "thread {thread}: its last {} seam calls (what the word held before)", calls.len());
                calls.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
            }
        }
        let how = if self.exact { "replay, to the instruction" } else { "again, not the same to the instruction" };
        let _ = writeln!(text, "\n{how}:\n  {}", self.replay);
        text
    }
}

/// What is told of a failed run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Telling {
    /// The last events of each thread.
    pub events: Vec<Vec<String>>,
    /// Its last seam calls.
    pub calls: Vec<Vec<String>>,
    /// The last faults.
    pub faults: Vec<String>,
    /// The state of each lock.
    pub locks: Vec<String>,
    /// When it ended, ns of simulated time.
    pub ended_ns: u64,
}
