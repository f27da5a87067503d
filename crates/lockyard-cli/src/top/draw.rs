//! The screen.

use lockyard_segment::histogram;
use lockyard_segment::sample::ClassSample;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState, Wrap};

use super::state::{Row, State};
use crate::report::facts::{self, Facts};
use crate::report::{numbers, observed};
use crate::terminal;

/// The narrowest that the name of a class is shown.
const LEAST_LABEL: u16 = 24;
/// The longest bar of a histogram.
const BAR: usize = 20;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// A column: its head, its width, how soon it is left out (0: never), and what it says.
type Column = (&'static str, u16, u8, fn(&State, &Row<'_>) -> String);

const COLUMNS: [Column; 9] = [
    ("lost now", 8, 0, |state, row| {
        row.between.map_or_else(none, |class| facts::percent(state.facts_between().share(class.lost_ns())))
    }),
    ("lost", 8, 0, |_, row| time(row.class.lost_ns())),
    ("share", 7, 2, |state, row| facts::percent(state.facts().share(row.class.lost_ns()))),
    ("waits/s", 9, 3, |state, row| per_second(state, row, |class| class.counts.contended)),
    ("max wait", 8, 0, |_, row| time(row.class.counts.wait_max.max(row.class.waiting.longest_ns))),
    ("max hold", 8, 4, |_, row| time(row.class.counts.hold_max)),
    ("acquired/s", 10, 5, |state, row| per_second(state, row, |class| class.counts.acquired)),
    ("waiting", 7, 1, |_, row| match row.class.waiting.threads {
        0 => none(),
        threads => threads.to_string(),
    }),
    ("holder", 8, 6, |_, row| match row.class.waiting.holder {
        0 => none(),
        thread => thread.to_string(),
    }),
];

fn none() -> String {
    "–".to_owned()
}

fn time(ns: u64) -> String {
    if ns == 0 { none() } else { numbers::time(ns as f64) }
}

fn per_second(state: &State, row: &Row<'_>, count: fn(&ClassSample) -> u64) -> String {
    let seconds = state.facts_between().sample.seconds;
    match row.between.map(count) {
        Some(count) if seconds > 0.0 => numbers::three(count as f64 / seconds),
        _ => none(),
    }
}

/// Draws all of it.
pub(super) fn screen(frame: &mut Frame<'_>, state: &State) {
    let facts = state.facts();
    let sentence = state.verdict();
    let width = usize::from(frame.area().width.max(1));
    // Lines are broken between words: a tenth more.
    let lines = sentence.chars().count() * 11 / 10 / width + 2;
    let lines = u16::try_from(lines).unwrap_or(u16::MAX).min(frame.area().height / 2);
    let areas = [Constraint::Length(lines), Constraint::Length(2), Constraint::Min(3), Constraint::Length(1)];
    let [top, head, body, keys] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(sentence).style(BOLD).wrap(Wrap { trim: true }), top);
    let about = format!("{}, counted for {} s", terminal::visible(&state.what), numbers::three(facts.sample.seconds));
    frame.render_widget(Paragraph::new(about).style(DIM), head);
    let help = match state.opened() {
        Some(class) => {
            let more = match detail(frame, state, &facts, class, body) {
                0 => String::new(),
                lines => format!(" ({lines} below)"),
            };
            format!("Esc back   ↑↓ PgUp PgDn scroll{more}   n p class   r count anew   q quit")
        }
        None => {
            table(frame, state, body);
            format!("s sorted by {}   ↑↓ Enter open a class   r count anew   q quit", state.sort.name())
        }
    };
    frame.render_widget(Paragraph::new(help).style(DIM), keys);
}

fn table(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let rows = state.rows();
    if rows.is_empty() {
        let nothing = state.unseen.as_deref().unwrap_or("No lock was taken since the counting began.");
        frame.render_widget(Paragraph::new(nothing).wrap(Wrap { trim: true }), area);
        return;
    }
    let columns = fitting(area.width);
    let facts = state.facts();
    let sorted = |head: &str| head.trim_end_matches("/s") == state.sort.name();
    let head = columns.iter().map(|(head, width, ..)| {
        let cell = Cell::from(right(head, *width));
        if sorted(head) { cell.style(BOLD) } else { cell }
    });
    let head = TableRow::new(std::iter::once(Cell::from("lock class")).chain(head)).style(DIM);
    let taken: u16 = columns.iter().map(|(_, width, ..)| width + 1).sum();
    let room = area.width.saturating_sub(taken).max(LEAST_LABEL);
    let labels: Vec<String> = rows.iter().map(|row| facts.label(row.class)).collect();
    let body = rows.iter().zip(observed::fitted(&labels, room.into())).map(|(row, label)| {
        let cells = columns.iter().map(|(_, width, _, cell)| Cell::from(right(&cell(state, row), *width)));
        TableRow::new(std::iter::once(Cell::from(label)).chain(cells))
    });
    let widths = columns.iter().map(|(_, width, ..)| Constraint::Length(*width));
    let widths = std::iter::once(Constraint::Min(LEAST_LABEL)).chain(widths);
    let table = Table::new(body, widths).header(head).row_highlight_style(CHOSEN);
    let mut place = TableState::default().with_selected(state.place(&rows));
    frame.render_stateful_widget(table, area, &mut place);
}

/// The columns that there is room for: those that matter least go first.
fn fitting(width: u16) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    loop {
        let taken: u16 = columns.iter().map(|(_, width, ..)| width + 1).sum();
        let last = columns.iter().map(|(_, _, rank, _)| *rank).max().unwrap_or(0);
        if taken + LEAST_LABEL <= width || last == 0 {
            return columns;
        }
        columns.retain(|(_, _, rank, _)| *rank != last);
    }
}

fn right(text: &str, width: u16) -> String {
    format!("{text:>width$}", width = usize::from(width))
}

/// A class: who waits, which lines wait and make others wait, and for how long. How many lines are
/// below those that there is room for.
fn detail(frame: &mut Frame<'_>, state: &State, facts: &Facts<'_>, class: &ClassSample, area: Rect) -> usize {
    let (width, height) = (usize::from(area.width.max(1)), usize::from(area.height));
    let mut told = vec![facts.label(class)];
    let place = facts.sample.classes.iter().position(|one| std::ptr::eq(one, class));
    for thread in &facts.sample.waiters {
        let Some(wait) = thread.waits.as_ref().filter(|wait| Some(wait.class) == place) else { continue };
        let held = match wait.holder {
            0 => String::new(),
            holder => format!(", held by thread {holder} when it began"),
        };
        told.push(format!(
            "  {} waits since {} in {}{held}",
            facts::called(thread.thread, &thread.name),
            numbers::time(wait.ns as f64),
            facts.symbols.line(&wait.place),
        ));
    }
    let callers = observed::callers(facts, class);
    told.extend(callers.lines().skip(1).map(|line| format!("  {}", line.trim_start())));
    // What is too long goes on below, further in than all lines begin.
    let folded = told.iter().map(|line| terminal::wrapped(line, width, 4));
    let mut lines: Vec<Line<'_>> =
        folded.flat_map(|text| text.lines().map(|line| Line::from(line.to_owned())).collect::<Vec<_>>()).collect();
    if let Some(first) = lines.first_mut() {
        *first = std::mem::take(first).style(BOLD);
    }
    lines.push(Line::default());
    lines.extend(pictures(class, width));
    let first = state.first_of(lines.len(), height);
    let below = lines.len().saturating_sub(first + height);
    frame.render_widget(Paragraph::new(lines.split_off(first.min(lines.len()))), area);
    below
}

/// The distributions of waits and holds beside each other.
fn pictures(class: &ClassSample, width: usize) -> Vec<Line<'static>> {
    let half = width / 2;
    // What stands beside a bar: a time, and a count.
    let bar = half.saturating_sub(26).clamp(1, BAR);
    let [waits, holds] = [("  waits", &class.counts.waits), ("  holds, a sample", &class.counts.holds)]
        .map(|(what, counts)| [vec![what.to_owned()], bars(counts, bar)].concat());
    let empty = String::new();
    let row = |at: usize| {
        let [left, right] = [&waits, &holds].map(|lines| lines.get(at).unwrap_or(&empty));
        let line = Line::from(format!("{left:<half$}{right}"));
        if at == 0 { line.style(DIM) } else { line }
    };
    (0..waits.len().max(holds.len())).map(row).collect()
}

/// A bar of at most `longest` columns for each two octaves between the first and the last that hold
/// anything.
fn bars(counts: &[u64], longest: usize) -> Vec<String> {
    const TWO: usize = 8;
    let sums: Vec<u64> =
        counts.chunks(TWO).map(|four| four.iter().fold(0, |sum: u64, &n| sum.saturating_add(n))).collect();
    let Some(first) = sums.iter().position(|&count| count > 0) else { return Vec::new() };
    let last = sums.iter().rposition(|&count| count > 0).unwrap_or(first);
    let most = sums.iter().copied().max().unwrap_or(1).max(1);
    let bar = |place: usize| {
        let count = sums[place];
        let length = (count as f64 / most as f64 * longest as f64).ceil() as usize;
        let least = numbers::time(histogram::lower(place * TWO) as f64);
        format!("  {least:>8} …  {:<longest$} {}", "█".repeat(length), numbers::grouped(count))
    };
    (first..=last).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use lockyard_segment::sample::{Place, ThreadSample, Wait};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::Sort;
    use super::*;
    use crate::known::Known;

    fn drawn(state: &State, width: u16) -> String {
        drawn_on(state, width, 30)
    }

    fn drawn_on(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    fn state() -> State {
        let mut state = State::new("memcached (process 7)".to_owned(), Known::default(), observed::tests::sample());
        let mut later = observed::tests::sample();
        later.seconds += 1.0;
        later.classes[1].counts.acquired += 500;
        state.look(later, false, None, |_| std::time::Duration::from_secs(9));
        state
    }

    #[test]
    fn classes_are_shown_and_columns_fit() {
        let text = drawn(&state(), 120);
        for part in [
            "memcached (process 7), counted for 3.00 s",
            "mutex a \"\"b\"\"",
            "3.00 ms",
            "500",
            "4711",
            "s sorted by lost",
        ] {
            assert!(text.contains(&part.replace("\"\"", "\"")), "{part}: {text}");
        }
        let mut long = observed::tests::sample();
        long.classes[1].name = "of open_the_table_of_accounts (accounts.c:15)".to_owned();
        let cut = drawn(&State::new("x".to_owned(), Known::default(), long), 80);
        assert!(cut.contains("…") && cut.contains("accounts.c:15)"), "{cut}");
        let narrow = drawn(&state(), 60);
        assert!(narrow.contains("max wait") && narrow.contains("lost now") && !narrow.contains("holder"), "{narrow}");
        drawn(&state(), 1);
    }

    #[test]
    fn an_open_class_shows_who_waits_and_for_how_long() {
        let mut state = state();
        state.open(true);
        let text = drawn(&state, 100);
        assert!(text.contains("2.05 µs …") && text.contains("█") && text.contains("Esc back"), "{text}");
        assert!(bars(&[0; histogram::BUCKETS], BAR).is_empty());
    }

    /// Lines were cut within a number, and nothing showed the rest.
    #[test]
    fn an_open_class_goes_on_below_and_is_scrolled() {
        let mut sample = observed::tests::sample();
        let place = Place { file: "/usr/lib/x86_64-linux-gnu/libstore-of-accounts.so.1".to_owned(), place: 0x1f0 };
        let wait = Wait { lock: 8, class: 1, place, since: 1, ns: 5, holder: 16_970, has_deadline: false };
        let name = "flusher".to_owned();
        let waiter = ThreadSample { process: 1, thread: 16_971, name, waits: Some(wait), ..ThreadSample::default() };
        sample.waiters = vec![waiter; 6];
        let mut state = State::new("x".to_owned(), Known::default(), sample);
        state.open(true);
        let label = "mutex a";
        let top = drawn_on(&state, 80, 24);
        assert!(top.contains("by thread 16970") && top.contains("2.05 µs …"), "{top}");
        assert!(top.contains("Esc back") && !top.contains("below"), "{top}");
        let body = |state: &State| drawn_on(state, 80, 14).lines().skip(6).collect::<String>();
        let short = body(&state);
        assert!(short.contains(" below)") && short.contains(label), "{short}");
        state.turn(1);
        let next = body(&state);
        assert!(!next.contains(label) && next.contains("thread 16971"), "{next}");
        (0..9).for_each(|_| state.turn(1));
        let last = body(&state);
        assert!(last.contains("2.05 µs …") && !last.contains("below"), "{last}");
        state.turn(-1);
        state.go(-99);
        assert!(body(&state).contains(label));
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let mut state = State::new("x".to_owned(), Known::default(), Default::default());
        assert!(drawn(&state, 80).contains("No lock was taken"));
        state.unseen = Some("saw no lock of this process".to_owned());
        assert!(drawn(&state, 80).contains("saw no lock"));
    }

    #[test]
    fn each_order_has_a_column() {
        for sort in [Sort::LostNow, Sort::Lost, Sort::Waits, Sort::MaxWait, Sort::MaxHold, Sort::Acquired] {
            assert!(COLUMNS.iter().any(|(head, ..)| head.trim_end_matches("/s") == sort.name()), "{sort:?}");
        }
    }
}
