//! `lockyard report`: what its locks cost a program that was recorded.

use std::fmt::Write;

use lockyard_recording::Recording;
use lockyard_recording::saturation::saturation;
use lockyard_recording::summary::Summary;

use super::told::{self, Estimates, HEAD, MOST, Told};
use super::{json, page, path, standstill};
use crate::cli::ReportArgs;
use crate::failure::Failure;
use crate::output::Target;
use crate::predict;
use crate::programs::recorded;
use crate::report::look::{Look, align_right, new_table, trimmed};
use crate::report::numbers;
use crate::simulate::machines;
use crate::terminal;

/// `lockyard report`: what is printed.
///
/// # Errors
/// One line for the first thing that is wrong.
pub(crate) fn report(args: &ReportArgs, styled: bool) -> Result<String, Failure> {
    let target = args.html.as_deref().map(|path| Target::check("--html", path)).transpose()?;
    let machines = machines::to_predict("--machine", &args.machine, &[])?;
    let mut recording = recorded("report", &args.file)?;
    recording.tell_readers();
    recording.tell_pools();
    recording.tell_apart();
    let mut estimates = Vec::new();
    if let Ok(model) = &recording.model(None) {
        for machine in &machines {
            let found = saturation(model, &|threads| predict::transfer_ns(machine, threads), false);
            let named = found.iter().filter_map(|one| Some((model.locks[one.lock].name.clone(), one.threads?)));
            estimates.push(Estimates { machine: machine.label(), classes: named.take(MOST / 3).collect() });
        }
    }
    estimates.retain(|one| !one.classes.is_empty());
    let told = Told::new(&recording, estimates);
    let written = match target {
        Some(target) => {
            target.write(&page::page(&told))?;
            format!("wrote {}\n", target.path().display())
        }
        None => String::new(),
    };
    if args.json {
        return json::document(&told);
    }
    let look = Look { styled, full_titles: true, events: false };
    let mut out = text(&told, look, terminal::width(std::io::stdout()));
    if !written.is_empty() {
        let _ = write!(out, "\n{written}");
    }
    Ok(out)
}

fn text(said: &Told<'_>, look: Look, width: Option<usize>) -> String {
    let Told { recording, summary, .. } = said;
    let mut out = format!("{}\n\n", look.bold(&said.sentence));
    out.push_str(&classes(recording, summary, look, width));
    told::timed_out(recording, summary).iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    out.push_str(&path::told(recording, &said.path));
    out.push_str(&standstill::told(recording, &summary.at_end));
    out.push_str(&told::awaited(recording, summary));
    let estimates = said.estimates();
    if !estimates.is_empty() {
        out.push_str("\nThreads at which a lock saturates if they never sleep, from averages alone:\n");
        estimates.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
    }
    out
}

/// Blanks between two columns.
const GAP: usize = 3;

/// The table, of at most `width` columns of a terminal, if it is for one.
fn classes(recording: &Recording, summary: &Summary, look: Look, width: Option<usize>) -> String {
    let rows: Vec<_> = summary.classes.iter().take(MOST).map(|cost| told::row(recording, summary, cost)).collect();
    let width_of = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEAD[column].0.chars().count()]).max().unwrap_or(0) + GAP
    };
    let mut columns: Vec<usize> = (0..HEAD.len()).collect();
    while width.is_some_and(|width| columns.iter().map(|&column| width_of(column)).sum::<usize>() > width + 1) {
        let last = columns.iter().map(|&column| HEAD[column].1).max().unwrap_or(0);
        if last == 0 {
            break;
        }
        columns.retain(|&column| HEAD[column].1 != last);
    }
    let mut table = new_table(look, columns.iter().map(|&column| HEAD[column].0));
    let numbers_from = if columns.contains(&1) { 2 } else { 1 };
    align_right(&mut table, &(numbers_from..columns.len()).collect::<Vec<_>>());
    for row in &rows {
        table.add_row(columns.iter().map(|&column| row[column].clone()).collect::<Vec<_>>());
    }
    let mut out = if rows.is_empty() { String::new() } else { trimmed(&table) };
    if summary.classes.len() > MOST {
        let _ = writeln!(out, "… and {} more classes", summary.classes.len() - MOST);
    }
    let _ = writeln!(
        out,
        "{}",
        look.dim(&format!(
            "{}, {} recorded. waited: the sections that had to wait\n\
             of the time: all waits, of all threads' time; hold: with what is nested in it",
            numbers::count(summary.threads, "thread"),
            numbers::time(summary.recorded_ns as f64)
        ))
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was 135 columns wide on a terminal of 60.
    #[test]
    fn the_table_fits_the_terminal() {
        let text =
            "lockyard recording 1\nclass mutex CACHE\nlock 0\nwindow 1 0\n10 1 request 0 write\n90 1 release 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        let look = Look { styled: false, full_titles: true, events: false };
        let table = |width| classes(&recording, &recording.summary(), look, width);
        for width in (40..140).chain([180]) {
            let table = table(Some(width));
            let rows = table.lines().take(3);
            assert!(rows.clone().all(|line| line.chars().count() <= width), "{width}: {table}");
            assert!(table.contains("of the time") && table.contains("longest wait"), "{width}: {table}");
        }
        assert!(table(None).contains("hold p50"));
    }
}
