//! What the drivers of programs print: operations, and the time that they took. A run with errors
//! has no report.

use std::process::ExitStatus;

use crate::tools::Outcome;

/// What was done, and in what time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Report {
    pub(crate) operations: f64,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn speed(self) -> f64 {
        self.operations / self.seconds
    }
}

/// The report in what a driver printed.
pub(crate) fn reported(text: &str, status: ExitStatus) -> Outcome<Report> {
    let report = text.lines().find_map(|line| own_report(line).or_else(|| db_bench_report(line)));
    let report = report.or_else(|| dnsperf_report(text)).or_else(|| sysbench_report(text)).or_else(|| ab_report(text));
    match report {
        Some(report) if status.success() && report.speed() > 0.0 => Ok(report),
        _ => Err(format!("{status}\n{}", text.trim_end())),
    }
}

/// What a driver of ours prints, if there were no errors: "OPERATIONS operations, SECONDS seconds,
/// 0 errors".
fn own_report(line: &str) -> Option<Report> {
    let (operations, rest) = line.split_once(" operations, ")?;
    let seconds = rest.strip_suffix(" seconds, 0 errors")?;
    Some(Report { operations: operations.parse().ok()?, seconds: seconds.parse().ok()? })
}

/// What `db_bench` prints, if every key was found: "readrandom : … ops/sec SECONDS seconds
/// OPERATIONS operations; … (N of N found)".
fn db_bench_report(line: &str) -> Option<Report> {
    let rest = line.strip_prefix("readrandom")?;
    let (_, rest) = rest.split_once(" ops/sec ")?;
    let (seconds, rest) = rest.split_once(" seconds ")?;
    let (operations, rest) = rest.split_once(" operations;")?;
    let (_, found) = rest.rsplit_once('(')?;
    let (found, of) = found.strip_suffix(" found)")?.split_once(" of ")?;
    let report = Report { operations: operations.trim().parse().ok()?, seconds: seconds.trim().parse().ok()? };
    (found == of).then_some(report)
}

/// What `dnsperf` prints, if every query was answered with the right code: "Response codes: NOERROR
/// 12345 (100.00%)", and nothing else.
fn dnsperf_report(text: &str) -> Option<Report> {
    let right = text
        .lines()
        .any(|line| line.contains("Response codes:") && line.contains("NOERROR") && line.contains("(100.00%)"));
    let number = |name: &str| number_after(text, name).ok();
    let report = Report { operations: number("Queries completed:")?, seconds: number("Run time (s):")? };
    (right && number("Queries lost:")? == 0.0).then_some(report)
}

/// What `sysbench` prints, if it kept its connections: "queries: 12345 (2468.00 per sec.)".
/// Deadlocks that InnoDB resolved ("ignored errors") are part of the load.
fn sysbench_report(text: &str) -> Option<Report> {
    let number = |name: &str| number_after(text, name).ok();
    let report = Report { operations: number("queries:")?, seconds: number("total time:")? };
    (number("reconnects:")? == 0.0).then_some(report)
}

/// What `ab` prints, once or more often, if every answer was right.
fn ab_report(text: &str) -> Option<Report> {
    let runs: Vec<&str> = text.split("Concurrency Level:").skip(1).collect();
    let sum = |name: &str| runs.iter().map(|run| number_after(run, name).ok()).sum::<Option<f64>>();
    let report = Report { operations: sum("Complete requests:")?, seconds: sum("Time taken for tests:")? };
    (sum("Failed requests:")? == 0.0 && !text.contains("Non-2xx") && !runs.is_empty()).then_some(report)
}

/// The number that follows `before` in `text`.
pub(crate) fn number_after(text: &str, before: &str) -> Outcome<f64> {
    let rest = text.split_once(before).map(|(_, rest)| rest.trim_start());
    let word = rest.and_then(|rest| rest.split(|c: char| !(c.is_ascii_digit() || c == '.')).next());
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("no number after {before:?} in\n{}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_count_only_without_errors() {
        assert_eq!(own_report("1000 operations, 4.000000 seconds, 0 errors").map(Report::speed), Some(250.0));
        assert_eq!(own_report("1000 operations, 4.000000 seconds, 10 errors"), None);
        let line = |found| {
            format!(
                "readrandom   :      22.346 micros/op 357278 ops/sec 4.025 seconds 1437992 operations;   39.5 MB/s ({found} of 178999 found)"
            )
        };
        assert_eq!(db_bench_report(&line(178_999)), Some(Report { operations: 1_437_992.0, seconds: 4.025 }));
        assert_eq!(db_bench_report(&line(178_998)), None);
        assert_eq!(db_bench_report("fillseq      :     100.0 micros/op 9810 ops/sec"), None);
        let text = |lost, share| {
            format!(
                "  Queries sent:         98\n  Queries completed:    98 (100.00%)\n  Queries lost:         {lost} (0.00%)\n\n  Response codes:       NOERROR 98 ({share}%)\n  Run time (s):         2.0\n"
            )
        };
        assert_eq!(dnsperf_report(&text(0, "100.00")), Some(Report { operations: 98.0, seconds: 2.0 }));
        assert_eq!(dnsperf_report(&text(1, "100.00")), None);
        assert_eq!(dnsperf_report(&text(0, "99.99")), None);
        let text = |lost| {
            format!(
                "    queries:                             1200   (299.00 per sec.)\n    reconnects:                          {lost}      (0.00 per sec.)\n\n\
                 General statistics:\n    total time:                          4.0023s\n"
            )
        };
        assert_eq!(sysbench_report(&text(0)), Some(Report { operations: 1200.0, seconds: 4.0023 }));
        assert_eq!(sysbench_report(&text(1)), None);
        let text = |failed| {
            format!(
                "Concurrency Level:      4\nTime taken for tests:   2.500 seconds\nComplete requests:      100\nFailed requests:        {failed}\n"
            )
        };
        assert_eq!(ab_report(&(text(0) + &text(0))), Some(Report { operations: 200.0, seconds: 5.0 }));
        assert_eq!(ab_report(&(text(0) + &text(1))), None);
        assert_eq!(ab_report(""), None);
    }
}
