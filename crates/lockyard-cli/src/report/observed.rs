//! What the locks of a process did, for people.

use std::fmt::Write;

use lockyard_segment::sample::{CallerSample, ClassSample, Waiting};
use lockyard_segment::{CHOSEN, Sample};

use super::facts::{self, Facts};
use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;
use super::verdict;
use super::waiting;
use crate::chosen;
use crate::events;
use crate::terminal;

/// Lock classes shown to people.
const MOST_CLASSES: usize = 10;
/// Classes whose callers are shown.
const MOST_DETAILED: usize = 3;
/// Callers shown of each.
const MOST_CALLERS: usize = 3;
/// The shortest that a class is called.
const LEAST_LABEL: usize = 12;
/// Between columns.
const GAP: usize = 3;
/// What a class is called in, before columns are left out for it: most of them, and the last ones.
const GOOD_LABEL: usize = 32;
const SHORT_LABEL: usize = 20;

/// How much is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// All columns, and the callers of all classes.
    pub(crate) wide: bool,
    /// The lock events.
    pub(crate) events: bool,
    /// The columns that there are room for; `None`: any number.
    pub(crate) width: Option<usize>,
}

/// Everything. Writing to a string cannot fail, here and below.
pub(crate) fn render(what: &str, facts: &Facts<'_>, look: Look, extent: Extent) -> String {
    let sample = facts.sample;
    let mut out = format!("{}\n\n", look.bold(&verdict::verdict(facts)));
    let mut head = vec![
        format!("{} s", numbers::three(sample.seconds)),
        numbers::count(sample.threads.max(sample.started) as usize, "thread"),
    ];
    if !sample.locks.is_empty() {
        head.push(sample.locks.clone());
    }
    let _ = writeln!(out, "{}  {}\n", terminal::visible(what), look.dim(&head.join(", ")));
    out.push_str(&classes(facts, look, extent));
    if extent.events {
        out.push_str(&events(sample, look));
    }
    out.push_str(&fallbacks(sample));
    if let Some(threads) = verdict::uncounted(sample) {
        let _ = writeln!(out, "Without the counts of {threads}.");
    }
    out
}

/// One line for each class that lost time, after the time since the report began: what `--interval`
/// prints, in `width` columns if that is known.
pub(crate) fn lines(facts: &Facts<'_>, at: f64, width: Option<usize>) -> String {
    let lossy = |class: &&ClassSample| class.lost_ns() > 0;
    let classes: Vec<_> = ranked(facts).into_iter().filter(lossy).take(MOST_CLASSES).collect();
    let labels: Vec<String> = classes.iter().map(|class| facts.label(class)).collect();
    let line = |class: &ClassSample, label: &str, is_short: bool| {
        let counts = &class.counts;
        let (at, gap, longest) = match is_short {
            true => (format!("{at:6.1} s"), " ", "max"),
            false => (format!("{at:8.1} s"), "  ", "the longest"),
        };
        format!(
            "{at}{gap}lost {:>8} ({:>6}){gap}{:>6} waits, {longest} {:>8}  {label}",
            numbers::time(class.lost_ns() as f64),
            facts::percent(facts.share(class.lost_ns())),
            numbers::grouped(counts.contended),
            numbers::time(counts.wait_max.max(class.waiting.longest_ns) as f64),
        )
    };
    let columns = |text: &str| text.chars().count();
    let widest = classes.iter().zip(&labels).map(|(class, label)| columns(&line(class, label, false))).max();
    let is_short = width < widest && width.is_some();
    let mut out = String::new();
    let rest = classes.iter().map(|class| columns(&line(class, "", is_short))).max().unwrap_or(0);
    let room = width.filter(|_| is_short).map_or(usize::MAX, |width| width.saturating_sub(rest).max(LEAST_LABEL));
    for (class, label) in classes.iter().zip(fitted(&labels, room)) {
        let _ = writeln!(out, "{}", line(class, &label, is_short));
    }
    if out.is_empty() {
        let _ = writeln!(out, "{at:8.1} s  no wait, {} acquisitions", numbers::grouped(facts.sample.acquired()));
    }
    out
}

fn events(sample: &Sample, look: Look) -> String {
    let happened: Vec<_> = sample.events.iter().filter(|(_, count)| *count != 0).collect();
    if happened.is_empty() {
        return format!("{}\n", look.dim("No lock event."));
    }
    let acquired = sample.acquired();
    let mut table = new_table(look, ["  lock event", "count", "per s", "per acq.", "meaning"]);
    align_right(&mut table, &[1, 2, 3]);
    for (name, count) in happened {
        let per = |whole: f64| if whole > 0.0 { numbers::three(*count as f64 / whole) } else { "–".to_owned() };
        let meaning = events::plain(name).to_owned();
        let row = [numbers::grouped(*count), per(sample.seconds), per(acquired as f64), meaning];
        table.add_row([vec![format!("  {name}")], row.to_vec()].concat());
    }
    format!("{}\n", trimmed(&table))
}

/// The classes that were used, those that lost most first.
pub(super) fn ranked<'a>(facts: &Facts<'a>) -> Vec<&'a ClassSample> {
    let used = |class: &&ClassSample| class.counts.acquired != 0 || class.lost_ns() != 0;
    let mut classes: Vec<&ClassSample> = facts.sample.classes.iter().filter(used).collect();
    classes.sort_by_key(|class| std::cmp::Reverse((class.lost_ns(), class.counts.acquired)));
    classes
}

/// A column: its head, how soon it is left out (0: never), and what it says of a class.
type Column = (&'static str, u8, fn(&Facts<'_>, &ClassSample) -> String);

/// The columns, of which the last ones are for `--wide`.
const COLUMNS: [Column; 16] = [
    ("time lost", 0, |_, class| time_of(class.lost_ns(), class.lost_ns())),
    ("share", 1, |facts, class| facts::percent(facts.share(class.lost_ns()))),
    ("waits", 2, |_, class| numbers::grouped(class.counts.contended + u64::from(class.waiting.threads))),
    ("average", 3, |_, class| {
        let counts = &class.counts;
        time_of(counts.contended, counts.wait_ns / counts.contended.max(1))
    }),
    ("max wait", 0, |_, class| {
        let longest = class.counts.wait_max.max(class.waiting.longest_ns);
        time_of(longest, longest)
    }),
    ("max hold", 1, |_, class| {
        // A sample does not tell it where those are not known that had others wait.
        let unknown = class.callers.iter().any(|caller| caller.holds > 0 && caller.hold_max == 0);
        let longest = if unknown { 0 } else { class.counts.hold_max };
        time_of(longest, longest)
    }),
    ("acquired", 4, |_, class| numbers::grouped(class.counts.acquired)),
    ("contended", 5, |_, class| facts::percent(class.counts.contended_share())),
    ("wait p50", 9, |_, class| time_of(class.counts.contended, class.counts.wait(0.5))),
    ("wait p99", 9, |_, class| time_of(class.counts.contended, class.counts.wait(0.99))),
    ("hold p50", 9, |_, class| time_of(class.counts.holds.iter().sum(), class.counts.hold(0.5))),
    ("hold p99", 9, |_, class| time_of(class.counts.holds.iter().sum(), class.counts.hold(0.99))),
    ("handoffs", 9, |_, class| numbers::grouped(class.counts.handoffs)),
    ("sleeps", 9, |_, class| numbers::grouped(class.counts.parks)),
    ("gave up", 9, |_, class| numbers::grouped(class.counts.gave_up)),
    ("failed tries", 9, |_, class| numbers::grouped(class.counts.refused)),
];

fn time_of(count: u64, ns: u64) -> String {
    if count == 0 { "–".to_owned() } else { numbers::time(ns as f64) }
}

fn classes(facts: &Facts<'_>, look: Look, extent: Extent) -> String {
    let classes = ranked(facts);
    if classes.is_empty() {
        return String::new();
    }
    let shown = &classes[..classes.len().min(MOST_CLASSES)];
    let labels: Vec<String> = shown.iter().map(|class| facts.label(class)).collect();
    let brief = briefly(&labels);
    let columns = fitting(facts, shown, &brief, extent);
    let room = extent.width.filter(|_| !extent.wide).map_or(usize::MAX, |width| {
        let taken: usize = columns.iter().map(|column| width_of(facts, shown, column) + GAP).sum();
        width.saturating_sub(taken + GAP + 4).max(LEAST_LABEL)
    });
    let labels = fitted(&labels, room);
    let head = std::iter::once("  lock class").chain(columns.iter().map(|(head, ..)| *head));
    let mut table = new_table(look, head);
    align_right(&mut table, &(1..=columns.len()).collect::<Vec<_>>());
    for (class, label) in shown.iter().zip(&labels) {
        let cells = columns.iter().map(|(_, _, cell)| cell(facts, class));
        table.add_row(std::iter::once(format!("  {label}")).chain(cells).collect::<Vec<_>>());
    }
    let mut out = format!("{}\n", trimmed(&table));
    if let Some(more) = classes.len().checked_sub(MOST_CLASSES).filter(|more| *more > 0) {
        let more = format!("  and {} with less time lost, all in --json", numbers::count(more, "class"));
        let _ = writeln!(out, "{}", look.dim(&more));
    }
    let detailed = if extent.wide { shown.len() } else { MOST_DETAILED };
    shown.iter().take(detailed).for_each(|class| out.push_str(&callers(facts, class)));
    let note = terminal::wrapped(NOTE, extent.width.map_or(100, |width| width.min(100)), 2);
    let _ = writeln!(out, "{}", look.dim(&note));
    let tree = waiting::tree(facts);
    out + if tree.is_empty() { waiting_by_class(facts) } else { tree }.as_str()
}

const NOTE: &str = "  Sorted by time lost: waiting, spinning included. The longest hold is of a sample, and of those that had others wait: of these what came before the first of the others is left out, as a rule.";

/// The columns that there is room for: those that matter least go first.
fn fitting(facts: &Facts<'_>, shown: &[&ClassSample], labels: &[&str], extent: Extent) -> Vec<Column> {
    let mut columns: Vec<Column> = COLUMNS.into_iter().filter(|(_, rank, _)| extent.wide || *rank < 9).collect();
    let Some(width) = extent.width.filter(|_| !extent.wide) else { return columns };
    let label = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    loop {
        let taken: usize = columns.iter().map(|column| width_of(facts, shown, column) + GAP).sum();
        let last = columns.iter().map(|(_, rank, _)| *rank).max().unwrap_or(0);
        let label = label.min(if last > 1 { GOOD_LABEL } else { SHORT_LABEL });
        if taken + label + GAP + 4 <= width || last == 0 {
            return columns;
        }
        columns.retain(|(_, rank, _)| *rank != last);
    }
}

fn width_of(facts: &Facts<'_>, shown: &[&ClassSample], (head, _, cell): &Column) -> usize {
    let cells = shown.iter().map(|class| cell(facts, class).chars().count());
    cells.chain([head.chars().count()]).max().unwrap_or(0)
}

/// `labels`, each in `room` columns.
pub(crate) fn fitted(labels: &[String], room: usize) -> Vec<String> {
    let fit = |(label, brief): (&String, &str)| match label.chars().count() <= room {
        true => label.clone(),
        false => shortened(brief, room),
    };
    labels.iter().zip(briefly(labels)).map(fit).collect()
}

/// `labels` without what their lines are inlined into, unless others begin alike.
fn briefly(labels: &[String]) -> Vec<&str> {
    let brief = |label: &str| label.find(") in ").map_or(label.len(), |end| end + 1);
    let one = |label: &'_ String| {
        let end = brief(label);
        labels.iter().filter(|other| other.starts_with(&label[..end])).count() == 1
    };
    labels.iter().map(|label| if one(label) { &label[..brief(label)] } else { label }).collect()
}

/// `label` in `room` columns: its middle is left out, since both ends tell most.
fn shortened(label: &str, room: usize) -> String {
    let letters: Vec<char> = label.chars().collect();
    if letters.len() <= room {
        return label.to_owned();
    }
    let (front, back) = (room.saturating_sub(1) / 2, room.saturating_sub(1).div_ceil(2));
    letters[..front].iter().chain(&['…']).chain(&letters[letters.len() - back..]).collect()
}

/// The lines of code that ask for the locks of a class, and those that make others wait.
pub(crate) fn callers(facts: &Facts<'_>, class: &ClassSample) -> String {
    let mut out = String::new();
    let waits = |caller: &CallerSample| (caller.waits, caller.wait_ns, caller.wait_max);
    for line in lines_of(facts, class, facts::askers(class), waits).into_iter().take(MOST_CALLERS) {
        let _ = writeln!(
            out,
            "    waited in {}: {} in {}{}",
            line.at,
            numbers::time(line.ns as f64),
            numbers::count(line.count as usize, "wait"),
            at_most(line.longest),
        );
    }
    let holds = |caller: &CallerSample| (caller.holds, caller.hold_ns, caller.hold_max);
    for line in lines_of(facts, class, facts::holders(class), holds).into_iter().take(MOST_CALLERS) {
        let who = match line.of_longest.holder {
            0 => String::new(),
            thread => format!(", by {}", facts::called(thread, &line.of_longest.name)),
        };
        let _ = writeln!(
            out,
            "    held from {}: others waited in {}{}{who}",
            line.at,
            numbers::count(line.count as usize, "hold"),
            at_most(line.longest),
        );
    }
    if out.is_empty() { out } else { format!("  {}\n{out}\n", facts.label(class)) }
}

/// The longest time, if it is known.
fn at_most(ns: u64) -> String {
    if ns == 0 { String::new() } else { format!(", at most {}", numbers::time(ns as f64)) }
}

/// A line of code that takes locks of a class in one way: to people the places in it are one.
struct Line<'a> {
    at: String,
    count: u64,
    ns: u64,
    longest: u64,
    /// The place with the longest.
    of_longest: &'a CallerSample,
}

/// The lines of `callers`, that with most time first. One that reads and writes says which is
/// meant.
fn lines_of<'a>(
    facts: &Facts<'_>,
    class: &ClassSample,
    callers: Vec<&'a CallerSample>,
    times: fn(&CallerSample) -> (u64, u64, u64),
) -> Vec<Line<'a>> {
    let line = |caller: &CallerSample| facts.symbols.line(&caller.place);
    let modes: Vec<(String, bool)> = class.callers.iter().map(|caller| (line(caller), caller.shared)).collect();
    let mut lines: Vec<Line<'a>> = Vec::new();
    for caller in callers {
        let mut at = line(caller);
        if modes.iter().any(|(other, shared)| *other == at && *shared != caller.shared) {
            at.push_str(if caller.shared { " (reading)" } else { " (writing)" });
        }
        let (count, ns, longest) = times(caller);
        match lines.iter_mut().find(|line| line.at == at) {
            Some(line) => {
                line.count = line.count.saturating_add(count);
                line.ns = line.ns.saturating_add(ns);
                if longest > line.longest {
                    (line.longest, line.of_longest) = (longest, caller);
                }
            }
            None => lines.push(Line { at, count, ns, longest, of_longest: caller }),
        }
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.ns));
    lines
}

/// A line for each class that somebody waits for at this moment: where the threads are not known.
fn waiting_by_class(facts: &Facts<'_>) -> String {
    let mut out = String::new();
    for class in facts.sample.classes.iter().filter(|class| class.waiting.threads > 0) {
        let Waiting { threads, longest_ns, holder, .. } = class.waiting;
        let (threads, longest) = (numbers::count(threads as usize, "thread"), numbers::time(longest_ns as f64));
        let when = if facts.ended { "at the end" } else { "now" };
        let _ = write!(out, "  {}: {threads} waiting {when}, the first since {longest}", facts.label(class));
        let _ = if holder == 0 { writeln!(out, ".") } else { writeln!(out, ", when thread {holder} held it.") };
    }
    out
}

fn fallbacks(sample: &Sample) -> String {
    let some: Vec<String> = sample
        .fallbacks
        .iter()
        .filter(|(_, count)| *count != 0)
        .map(|(reason, count)| match reason.strip_prefix(CHOSEN) {
            Some(kind) => format!("every {kind}"),
            None => format!("{reason} {}", numbers::grouped(*count)),
        })
        .collect();
    let help = chosen::inheriting(sample).map_or_else(String::new, |help| format!("; {help}"));
    if some.is_empty() { String::new() } else { format!("Left to the C library: {}{help}.\n", some.join(", ")) }
}

#[cfg(test)]
pub(crate) mod tests;
