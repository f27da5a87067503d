//! How much of the machine's time went to others while something was measured.

use std::fs;
use std::time::Instant;

/// Ticks of a second in `/proc`: the kernel's promise to programs.
const TICKS: f64 = 100.0;

/// A moment, and what had been used until then.
#[derive(Debug)]
pub(crate) struct Neighbours {
    begun: Instant,
    /// CPUs, ticks in which they had work, and those of this process and its ended children.
    used: Option<(u32, u64, u64)>,
}

impl Neighbours {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), used: used() }
    }

    /// The share of all CPUs' time since then that others had; `None`: not known.
    pub(crate) fn share(&self) -> Option<f64> {
        let ((cpus, busy, own), (_, then_busy, then_own)) = (used()?, self.used?);
        let whole = self.begun.elapsed().as_secs_f64() * TICKS * f64::from(cpus);
        let others = busy.saturating_sub(then_busy).saturating_sub(own.saturating_sub(then_own));
        (whole > 0.0).then(|| (others as f64 / whole).min(1.0))
    }
}

fn used() -> Option<(u32, u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let cpus = allowed(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)?;
    let busy = cpus.iter().filter_map(|cpu| busy(&stat, *cpu)).fold((0, 0), |sum, ticks| (sum.0 + 1, sum.1 + ticks));
    Some((busy.0, busy.1, own_and_childrens(&own)?))
}

/// The numbers in a list like "0-3,8".
fn allowed(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// How long `cpu` had work: all but idle, waiting for input, and interrupts, which may be for us.
fn busy(stat: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(ticks.iter().enumerate().filter(|(at, _)| !matches!(at, 3..=6)).map(|(_, ticks)| ticks).sum())
}

/// Fields 14 to 17: user and system time, of the process and of the children that it has waited
/// for.
fn own_and_childrens(stat: &str) -> Option<u64> {
    let fields = stat.rsplit(')').next()?.split_whitespace().skip(11).take(4);
    fields.map(|word| word.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_nobodys() {
        let stat = "cpu  1 1\ncpu1 10 1 5 1000 200 2 3 4 7 7\ncpu10 10 x 5\n";
        assert_eq!([1, 10, 2].map(|cpu| busy(stat, cpu)), [Some(20), None, None]);
        assert_eq!(allowed("\t0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!((allowed("x"), allowed("0-")), (None, None));
        let stat = "7 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 11 12 13 14 20 0 1 0 5";
        assert_eq!(own_and_childrens(stat), Some(50));
    }

    #[test]
    fn a_share_is_one() {
        let share = Neighbours::begin().share();
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
    }
}
