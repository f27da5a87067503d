//! Tables for people: one per group of locks, its cells below each other, and a legend.

use std::fmt::Write;

use comfy_table::{Attribute, Cell};
use lockyard_work::{Origin, Spec, Summary, Workload};

use super::look::{Look, align_right, new_table, trimmed};
use super::{numbers, score};
use crate::events;
use crate::hq;
use crate::results::{self, CellResult, GroupResult, Results};

/// The most events that are shown per lock.
const MOST_EVENTS: usize = 8;

/// The machine, as it is printed before measuring.
pub(crate) fn machine(lines: &[(&'static str, String)], look: Look) -> String {
    let mut out = String::new();
    for (name, value) in lines {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "{} {value}", look.dim(&format!("{name:<11}")));
    }
    out
}

/// All tables, events and legend.
pub(crate) fn render(results: &Results, look: Look) -> String {
    let mut out = score::tables(&results.scores, look);
    for group in &results.groups {
        let _ = writeln!(out, "{}", group_table(group, look));
        out.push_str(&metrics_of(group, look));
        if look.events {
            out.push_str(&events_of(group, look));
        }
    }
    for (lock, cell, why) in results.failures() {
        let _ = writeln!(out, "FAILED: {lock}, {cell}: {why}");
    }
    if !results.groups.is_empty() {
        out.push_str(&legend(results, look));
    }
    if let Some(warning) = results.disturbance() {
        let _ = writeln!(out, "\n{}", look.bold(&format!("Note: {warning}")));
    }
    out
}

fn group_table(group: &GroupResult, look: Look) -> String {
    let head = ["", "kops/s", "±", "vs best peer", "fairness", "longest wait", "no turn"];
    let mut table = new_table(look, head);
    align_right(&mut table, &[1, 2, 3, 4, 5, 6]);
    for cell in &group.cells {
        for lock in &cell.locks {
            table.add_row(row(cell, lock, look));
        }
    }
    // Every row is one line: cells are titled by lines set between the rows.
    let mut lines = table.lines();
    let mut out = format!("{}{}\n", look.bold(&format!("{} locks", group.name)), look.dim(&basis(group, look)));
    for line in lines.by_ref().take(2) {
        let _ = writeln!(out, "{}", line.trim_end());
    }
    for cell in &group.cells {
        let _ = writeln!(out, "{}", look.bold(&results::title(&cell.spec, look.full_titles)));
        for line in lines.by_ref().take(cell.locks.len()) {
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

/// What the numbers of a group rest on: ` medians of 3 rounds of 170 ms`, and the section that
/// titles leave out.
fn basis(group: &GroupResult, look: Look) -> String {
    let rounds = || group.cells.iter().flat_map(|cell| &cell.locks).map(|lock| lock.rounds);
    let windows = || group.cells.iter().filter_map(|cell| cell.spec.window());
    let (Some(least), Some(most)) = (rounds().min(), rounds().max()) else { return String::new() };
    let span = |low: String, high: String| if low == high { low } else { format!("{low} to {high}") };
    let time = |window: std::time::Duration| numbers::chosen_time(window.as_nanos() as f64);
    let rounds = if (least, most) == (1, 1) {
        "1 round".to_owned()
    } else {
        format!("medians of {} rounds", span(least.to_string(), most.to_string()))
    };
    let contended = group.cells.iter().find(|cell| cell.spec.workload == Workload::Contend && !look.full_titles);
    let section = contended.map_or_else(String::new, |cell| {
        let (section, think) = (cell.spec.cs, Spec::new(Workload::Contend).think);
        format!("; section {section}, think {think} PAUSEs unless said")
    });
    let of = windows().min().zip(windows().max());
    let of = of.map_or_else(String::new, |(shortest, longest)| format!(" of {}", span(time(shortest), time(longest))));
    format!("  {rounds}{of}{section}")
}

fn row(cell: &CellResult, lock: &Summary, look: Look) -> Vec<Cell> {
    let best = cell.is_best_peer(lock);
    let ours = lock.origin == Origin::Lockyard;
    let mark = if ours { "▸" } else { " " };
    let alone = cell.is_alone();
    let idle = match lock.worst_idle_threads {
        0 => "–".to_owned(),
        idle => idle.to_string(),
    };
    let texts = [
        format!("{mark} {}", lock.label()),
        cell.rate(lock),
        if lock.rounds > 1 { numbers::spread(lock.spread) } else { "–".to_owned() },
        format!("{}{}", if best { "★ " } else { "" }, ratio(lock)),
        if alone { "–".to_owned() } else { format!("{:.2}", lock.fairness) },
        wait(cell, lock),
        idle,
    ];
    let cell_of = |text: String| {
        let cell = Cell::new(text);
        if look.styled && ours { cell.add_attribute(Attribute::Bold) } else { cell }
    };
    texts.into_iter().map(cell_of).collect()
}

pub(super) fn ratio(lock: &Summary) -> String {
    lock.ratio_to_best_peer.map_or_else(|| "–".to_owned(), numbers::ratio)
}

/// The longest wait; where threads have roles, with the role that waited longest.
pub(crate) fn wait(cell: &CellResult, lock: &Summary) -> String {
    if cell.is_alone() || lock.wait_max <= 0.0 {
        return "–".to_owned();
    }
    let longest = lock.roles.iter().max_by(|a, b| a.wait_max.total_cmp(&b.wait_max));
    let role = longest.map_or("", |role| if role.role == "readers" { " r" } else { " w" });
    format!("{}{role}", numbers::time(lock.wait_max))
}

/// What a group's workloads measured beside turns and waits: `rounds`, `late` and the like, a line
/// per cell and lock that has some.
fn metrics_of(group: &GroupResult, look: Look) -> String {
    let mut out = String::new();
    let cells = group.cells.iter().flat_map(|cell| cell.locks.iter().map(move |lock| (cell, lock)));
    for (cell, lock) in cells.filter(|(_, lock)| !lock.metrics.is_empty()) {
        let metrics = lock.metrics.iter().map(|(name, value)| format!("{name} {}", numbers::three(*value)));
        let cell = results::title(&cell.spec, look.full_titles);
        let _ = writeln!(out, "{} {}", look.dim(&format!("{}, {cell}:", lock.label())), list(metrics));
    }
    if !out.is_empty() {
        out.insert_str(0, &format!("{}\n", look.bold("What the workload measured beside")));
        out.push('\n');
    }
    out
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

/// What Lockyard's locks of a group did inside, in their busiest cell.
fn events_of(group: &GroupResult, look: Look) -> String {
    let mut out = String::new();
    let mut seen: Vec<String> = Vec::new();
    for lock in group.cells.iter().flat_map(|cell| &cell.locks) {
        let label = lock.label();
        if lock.origin != Origin::Lockyard || seen.contains(&label) {
            continue;
        }
        if let Some((cell, busiest)) = busiest(group, &label) {
            let _ = writeln!(
                out,
                "{} {}",
                look.bold(&format!("What {label} did")),
                look.dim(&format!("({})", results::title(&cell.spec, look.full_titles)))
            );
            let _ = writeln!(out, "{}", event_table(busiest, look));
            if hq::is_hierarchical(&label) {
                let _ = writeln!(out, "{}", look.dim(&hq::settings_line()));
            }
        }
        seen.push(label);
    }
    out
}

/// The cell with the most threads in which the lock called `label` counted anything.
fn busiest<'a>(group: &'a GroupResult, label: &str) -> Option<(&'a CellResult, &'a Summary)> {
    let mut found: Option<(&CellResult, &Summary)> = None;
    for cell in &group.cells {
        for lock in cell.locks.iter().filter(|lock| lock.label() == label && !ranked_events(lock).is_empty()) {
            if found.is_none_or(|(best, _)| cell.spec.lockers() > best.spec.lockers()) {
                found = Some((cell, lock));
            }
        }
    }
    found
}

/// The events that explain a lock, most frequent first: name, count, and count per thousand turns.
pub(crate) fn ranked_events(lock: &Summary) -> Vec<(&str, u64, f64)> {
    let mut events: Vec<(&str, u64, f64)> = lock
        .events
        .iter()
        .filter(|(name, count)| (**count as i64) > 0 && events::belongs(name, lock.lock))
        .map(|(name, count)| (name.as_str(), *count, lock.events_per_kop.get(name).copied().unwrap_or(0.0)))
        .collect();
    events.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    events
}

fn event_table(lock: &Summary, look: Look) -> String {
    let mut table = new_table(look, ["  event", "count", "per 1000", "meaning"]);
    align_right(&mut table, &[1, 2]);
    let events = ranked_events(lock);
    for (name, count, rate) in events.iter().take(MOST_EVENTS) {
        table.add_row(vec![
            format!("  {name}"),
            numbers::grouped(*count),
            numbers::three(*rate),
            events::plain(name).to_owned(),
        ]);
    }
    let mut out = trimmed(&table);
    if events.len() > MOST_EVENTS {
        let _ = writeln!(out, "{}", look.dim(&format!("  … and {} rarer", events.len() - MOST_EVENTS)));
    }
    out
}

fn legend(results: &Results, look: Look) -> String {
    let cells = || results.groups.iter().flat_map(|group| &group.cells);
    let mut lines = vec![
        "▸ Lockyard's own; the others are what people use today. One turn is one lock and unlock of one thread.",
        "kops/s        thousand turns per second, all threads together; one thread alone: time of one turn",
        "±             largest minus smallest round, in percent of the median",
        "vs best peer  throughput against the fastest lock that is not Lockyard's (★) in the same cell",
        "fairness      share of the turns that the busier half of the threads got: 0.50 is even, 1.00 starves half",
        "longest wait  the longest wait for one turn in a round",
        "no turn       threads that got nothing at all in the worst round",
    ];
    if cells().any(|cell| cell.spec.has_roles()) {
        lines[5] = "longest wait  the longest wait for one turn in a round; r, w: it was a reader's, a writer's";
    }
    if look.events {
        lines.push("count         lock events of all rounds; per 1000: of them in a thousand turns");
    }
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{}", look.dim(line));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    const PLAIN: Look = Look { styled: false, full_titles: false, events: true };

    #[test]
    fn a_group_is_one_table_with_titled_cells() {
        let table = group_table(&fixture::results().groups[0], PLAIN);
        let expected = "\
mutex locks  medians of 3 rounds of 50 ms to 200 ms; section 20, think 1 PAUSEs unless said
                  kops/s     ±   vs best peer   fairness   longest wait   no turn
─────────────────────────────────────────────────────────────────────────────────
alone
▸ mutex          14.3 ns   3 %         1.02 ×          –              –         –
  std-mutex      14.5 ns   3 %       ★ 1.00 ×          –              –         –
  pthread-mutex  16.7 ns   3 %         0.87 ×          –              –         –
16 threads
▸ mutex              812   3 %         1.08 ×       0.52        8.20 ms         –
  std-mutex          750   3 %       ★ 1.00 ×       0.52        31.4 ms         –
  pthread-mutex      400   3 %         0.53 ×       0.52         226 ms         3
";
        let squeezed = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let (found, wanted) = (squeezed(&table), squeezed(expected));
        for (found, wanted) in found.iter().zip(&wanted).filter(|(_, wanted)| !wanted.starts_with('─')) {
            assert_eq!(found, wanted);
        }
        assert_eq!(found.len(), wanted.len());
        assert!(table.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn what_a_workload_measures_beside_is_shown() {
        let mut results = fixture::results();
        assert!(!render(&results, PLAIN).contains("measured beside"));
        results.groups[0].cells[1].locks[0].metrics = [("late".to_owned(), 0.0), ("rounds".to_owned(), 1002.0)].into();
        let text = render(&results, PLAIN);
        let line = text.lines().find(|line| line.starts_with("mutex, 16 threads")).expect("a line");
        assert!(line.ends_with(": late 0, rounds 1,002"), "{line}");
    }

    #[test]
    fn events_are_ranked_explained_and_of_this_lock() {
        let text = events_of(&fixture::results().groups[0], PLAIN);
        assert!(text.starts_with("What mutex did (16 threads)"), "{text}");
        let slow = text.find("mutex_slowpath").expect("the most frequent");
        let spun = text.find("mutex_opt_lock").expect("the second");
        assert!(slow < spun && text.contains("4,200") && text.contains("found the lock taken"));
        assert!(!text.contains("lock_slowpath    "), "the spinlock inside is not what is looked at");
    }

    #[test]
    fn failures_and_noise_are_said() {
        let mut results = fixture::results();
        results.groups[0].cells[1].failures.push(("mutex".to_owned(), "mutual exclusion violated".to_owned()));
        for lock in results.groups[0].cells.iter_mut().flat_map(|cell| &mut cell.locks) {
            lock.others = 0.3;
        }
        let text = render(&results, PLAIN);
        assert!(text.contains("FAILED: mutex, 16 threads, section 20, think 1: mutual exclusion violated"));
        assert!(text.contains("other programs used 30 % of the CPUs"));
        assert!(!render(&fixture::results(), PLAIN).contains("other programs"));
    }

    #[test]
    fn only_a_terminal_gets_escapes() {
        let styled = Look { styled: true, ..PLAIN };
        assert!(render(&fixture::results(), styled).contains("\x1b[1m"));
        assert!(!render(&fixture::results(), PLAIN).contains('\x1b'));
    }
}
