//! Verdicts and failures as text.

use std::fmt::Write;

use lockyard_sim::Sim;

use crate::catalog::{Entry, Finding};
use crate::schedule::{Schedule, Trouble};
use crate::simulated::{Tally, Telling, Wanted};

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
    pub(crate) fn simulated(
        entry: &Entry<Sim>,
        wanted: &Wanted,
        schedule: &Schedule,
        finding: Finding,
        message: String,
        telling: Telling,
    ) -> Self {
        let trouble: Vec<&str> = schedule.trouble.iter().map(|trouble| Trouble::name(*trouble)).collect();
        let trouble = if trouble.is_empty() { "none".to_owned() } else { trouble.join(",") };
        let (threads, operations) = (schedule.setup.threads, schedule.setup.operations.unwrap_or(0));
        let faults = &schedule.config.faults;
        let mut rates = Vec::new();
        for (name, one_in, ns) in [
            ("preempt", faults.preempt_one_in, faults.preempt_ns),
            ("lost-cpu", faults.lost_cpu_one_in, faults.lost_cpu_ns),
            ("late-wake", faults.delay_one_in, faults.delay_ns),
            ("spurious-wake", faults.spurious_one_in, faults.spurious_ns),
            ("clock-jump", faults.clock_jump_one_in, faults.clock_jump_ns),
        ] {
            if one_in > 0 {
                rates.push(format!("{name} one in {one_in}, up to {} us", ns as f64 / 1e3));
            }
        }
        let run = vec![
            ("machine", wanted.machine_name.clone()),
            ("seed", schedule.seed.to_string()),
            (
                "threads",
                format!(
                    "{threads}, {operations} operations each, {} locks, begun {}",
                    schedule.setup.locks, schedule.config.placement
                ),
            ),
            ("trouble", trouble.clone()),
            ("schedule", if rates.is_empty() { "no rates".to_owned() } else { rates.join("; ") }),
            ("ended", format!("at {} ns of simulated time", telling.ended_ns)),
        ];
        let small = if wanted.fixed.small { " --small" } else { "" };
        let weakened = wanted.fixed.weakening.as_ref().map_or_else(String::new, |weaker| format!(" --weaken {weaker}"));
        let replay = format!(
            "lockyard torture --lock {} --machine {}{small}{weakened} --seed {} --schedules 1 --threads {threads} --operations {operations} --fault {trouble}",
            entry.label(),
            wanted.machine_name,
            schedule.seed,
        );
        Self { lock: entry.label(), finding, message, run, telling, replay, exact: true }
    }

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

/// A simulated run without a failure, in one line.
pub fn simulated(lock: &str, machine: &str, tally: &Tally, seconds: f64) -> String {
    format!(
        "{lock}: passed: {} schedules on {machine} in {seconds:.1} s ({:.0}/s), {} acquisitions, {} faults, longest wait {}",
        grouped(tally.schedules),
        tally.schedules as f64 / seconds.max(0.001),
        grouped(tally.acquisitions),
        grouped(tally.faults.values().sum()),
        length(tally.longest_ns),
    )
}

/// Threads' shares in words: least, middle, most, and how far apart.
pub fn shares(taken: &[u64]) -> String {
    let mut sorted = taken.to_vec();
    sorted.sort_unstable();
    let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else { return "no threads".to_owned() };
    let middle = sorted[sorted.len() / 2];
    let factor = if least == 0 { "no bound".to_owned() } else { format!("{:.1}", most as f64 / least as f64) };
    format!("{} / {} / {} (max/min {factor})", grouped(least), grouped(middle), grouped(most))
}

/// A number with separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length of time, as one reads it.
pub fn length(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} us", ns / 1_000),
        10_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([999, 20_000, 30_000_000, 11_000_000_000].map(length), ["999 ns", "20 us", "30 ms", "11 s"]);
        assert_eq!(shares(&[30, 10, 20]), "10 / 20 / 30 (max/min 3.0)");
        assert_eq!(shares(&[0, 5]), "0 / 5 / 5 (max/min no bound)");
    }
}
