//! Statistics and settings of hierarchical spinlocks for people.

use std::fmt::Write;

use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;
use crate::events;
use crate::hq::{self, Stat};
use crate::results;

/// Locks shown one by one; a workload may have thousands.
const MOST_LOCKS: usize = 16;

/// Everything. Writing to a string cannot fail, here and below.
pub(crate) fn render(found: &Stat, look: Look) -> String {
    let mut out = format!("{}\n\n", found.machine.line());
    out.push_str(&settings(found, look));
    out.push_str(&pool(found, look));
    out.push_str(&locks(found, look));
    out
}

fn settings(found: &Stat, look: Look) -> String {
    let mut table = new_table(look, ["  tunable", "value", "default", "range", "environment"]);
    align_right(&mut table, &[1, 2, 3]);
    for one in &found.tunables {
        table.add_row(vec![
            format!("  {}", one.name),
            one.value.to_string(),
            one.default.to_string(),
            format!("0 … {}", one.most),
            one.variable.to_owned(),
        ]);
    }
    format!("{}\n{}\n", look.bold("Tunables in force"), trimmed(&table))
}

fn pool(found: &Stat, look: Look) -> String {
    let mut out = String::new();
    let head = format!("{}, {}", found.record.label(), results::title(&found.spec, true));
    let rate = format!("{} kops/s, fairness {:.2}", numbers::three(found.record.kops_per_s), found.record.fairness);
    let _ = writeln!(out, "{}  {}", look.bold(&head), look.dim(&rate));
    let mut table = new_table(look, ["  all locks", "count", "meaning"]);
    align_right(&mut table, &[1]);
    let mut row = |name: &str, count: String, meaning: &str| {
        table.add_row(vec![format!("  {name}"), count, meaning.to_owned()]);
    };
    row("records", numbers::grouped(found.pool.records as u64), "locks that can be in hierarchical mode at a time");
    row("records in use", found.pool.in_use.to_string(), "locks in hierarchical mode when the window closed");
    row("most in use", found.pool.most_in_use.to_string(), "… at a time, in the whole run");
    row("lanes", found.pool.lanes.to_string(), "queues of a lock in hierarchical mode");
    for name in hq::hierarchical_events() {
        row(name, numbers::grouped(found.pool.events.get(name).copied().unwrap_or(0)), events::plain(name));
    }
    out.push_str(&trimmed(&table));
    if found.pool.lanes == 1 {
        let one = "one lane: no lock enters hierarchical mode here; LOCKYARD_HQ_LANES=2 divides threads by their ids";
        let _ = writeln!(out, "{}", look.dim(one));
    }
    out.push('\n');
    out
}

fn locks(found: &Stat, look: Look) -> String {
    if found.locks.is_empty() {
        return format!("{}\n", look.dim("No lock was in hierarchical mode when the window closed."));
    }
    let mut table = new_table(look, ["  lock", "local", "remote", "local in a row"]);
    align_right(&mut table, &[1, 2, 3]);
    for lock in found.locks.iter().take(MOST_LOCKS) {
        let number = |name: &str| lock.numbers.get(name).copied().unwrap_or(0);
        let (local, remote) = (number("local"), number("remote"));
        let run = if remote == 0 { "–".to_owned() } else { numbers::three(local as f64 / remote as f64) };
        table.add_row(vec![format!("  {}", lock.lock), numbers::grouped(local), numbers::grouped(remote), run]);
    }
    let head = look.bold("Hand-overs of each lock");
    let since = look.dim("since it last entered hierarchical mode, without the visit of a lane under way");
    let mut out = format!("{head}  {since}\n{}", trimmed(&table));
    if let Some(more) = found.locks.len().checked_sub(MOST_LOCKS).filter(|more| *more > 0) {
        let _ = writeln!(out, "{}", look.dim(&format!("and {} more, all in --json", numbers::count(more, "lock"))));
    }
    out
}
