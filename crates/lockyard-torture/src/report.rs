//! Verdicts as text.

use crate::simulated::Tally;

pub use crate::failure::{Failure, Telling};

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
