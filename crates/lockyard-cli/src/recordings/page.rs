//! The page of `report`: one file, no script, nothing loaded from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use lockyard_recording::Recording;
use lockyard_recording::summary::Summary;

use super::Said;
use crate::report::lanes::{self, Lane, Piece};
use crate::report::shares::{self, Divided};
use crate::report::svg::escape;
use crate::report::{html, numbers};
use crate::timeline::{self, Slice};

/// The picture of the threads shows about so many waits and holds, and so many threads.
const MOST_SLICES: u64 = 300;
const MOST_LANES: usize = 16;
/// Classes of which the bar shows the time apart: it has six colours.
const APART: usize = 1;

/// The whole page. Writing to a string cannot fail, here and below.
pub(super) fn page(recording: &Recording, summary: &Summary, said: &Said) -> String {
    let program = if recording.program.is_empty() { "A recorded program" } else { &recording.program };
    let mut out = html::begin(&format!("Locks of {program}"));
    let machine = if recording.machine.is_empty() { String::new() } else { format!(" · {}", recording.machine) };
    let _ = write!(
        out,
        "<h1>{}</h1>\n<p class=\"soft\">{}, {} recorded{} · lockyard {}</p>\n<p class=\"verdict\">{}</p>\n",
        escape(program),
        numbers::count(summary.threads, "thread"),
        numbers::time(summary.recorded_ns as f64),
        escape(&machine),
        env!("CARGO_PKG_VERSION"),
        escape(&said.sentence),
    );
    if recording.dropped > 0 {
        let lost = numbers::count(recording.dropped as usize, "window");
        let _ = writeln!(out, "<p class=\"notice\">{lost} were cut short: nobody took them in time.</p>");
    }
    let bar = Divided { label: "all threads".to_owned(), parts: shares_of_time(recording, summary) };
    let _ = writeln!(
        out,
        "<h2>Where the threads’ time goes</h2>\n<div class=\"scroll\">{}</div>",
        shares::chart("Shares of the time of all threads. Grey: ready to run, without a CPU", &[bar])
    );
    if let Some(picture) = stretch(recording, summary) {
        let _ = writeln!(out, "<h2>Who holds what, and who waits</h2>\n<div class=\"scroll\">{picture}</div>");
    }
    classes(&mut out, recording, summary);
    for line in super::awaited(recording, summary).lines().filter(|line| line.starts_with(' ')) {
        let _ = writeln!(out, "<p>Waits for what other threads signal: {}.</p>", escape(line.trim()));
    }
    for line in said.estimates.lines() {
        let line = escape(line.trim());
        let _ =
            writeln!(out, "<p>Threads at which a lock saturates if they never sleep, from averages alone: {line}.</p>");
    }
    out.push_str("</body>\n</html>\n");
    out
}

/// A class as people know it.
fn named(recording: &Recording, class: usize) -> String {
    let class = &recording.classes[class];
    format!("{} {}", class.sort.name(), class.name)
}

/// What the time of all threads is. The rest is time without a CPU.
fn shares_of_time(recording: &Recording, summary: &Summary) -> Vec<(String, f64)> {
    let share = |ns: u64| ns as f64 / summary.recorded_ns.max(1) as f64;
    let mut parts = vec![("outside of all locks".to_owned(), share(summary.outside_ns))];
    let (apart, others) = summary.classes.split_at(summary.classes.len().min(APART));
    for cost in apart {
        let name = named(recording, cost.class);
        parts.push((format!("waits for {name}"), share(cost.waited_ns)));
        parts.push((format!("holds {name}"), share(cost.held_ns)));
    }
    let of_others = others.iter().fold(0, |sum, cost| cost.waited_ns.saturating_add(cost.held_ns).saturating_add(sum));
    let signalled = summary.awaited.iter().fold(0, |sum, one| one.waited_ns.saturating_add(sum));
    parts.push(("waits for or holds other locks".to_owned(), share(of_others)));
    parts.push(("waits for signals".to_owned(), share(signalled)));
    parts.push(("asleep for other reasons".to_owned(), share(summary.away_ns)));
    parts.retain(|(_, share)| *share >= 0.000_5);
    parts
}

/// The stretch with most waiting, as a picture. `None`: no thread waited or held a lock.
fn stretch(recording: &Recording, summary: &Summary) -> Option<String> {
    let slices = timeline::slices(recording);
    let first = slices.iter().map(|slice| slice.begin).min()?;
    let (begin, length) = busiest(&slices, first);
    let end = begin.saturating_add(length);
    let shown: Vec<&Slice> = slices.iter().filter(|slice| slice.begin < end && slice.end > begin).collect();
    let part = |slice: &Slice| slice.end.min(end) - slice.begin.max(begin);
    let mut waited: BTreeMap<u32, u64> = BTreeMap::new();
    for slice in &shown {
        *waited.entry(slice.thread).or_default() += if slice.holds.is_none() { part(slice) } else { 0 };
    }
    let mut threads: Vec<(u32, u64)> = waited.into_iter().collect();
    threads.sort_by_key(|(thread, waited)| (u64::MAX - waited, *thread));
    let left = threads.len().saturating_sub(MOST_LANES);
    threads.truncate(MOST_LANES);
    threads.sort_unstable();
    // Colours: the classes that cost most of those that are seen.
    let seen: BTreeSet<usize> = shown.iter().map(|slice| slice.class).collect();
    let costs = summary.classes.iter().map(|cost| cost.class).filter(|class| seen.contains(class));
    let mut order: Vec<usize> = costs.collect();
    let others: Vec<usize> = seen.iter().copied().filter(|class| !order.contains(class)).collect();
    order.extend(others);
    let at = |ns: u64| ns as f64 - begin as f64;
    let lane = |thread: u32| {
        let own = shown.iter().filter(|slice| slice.thread == thread);
        let piece = |slice: &&Slice| Piece {
            name: order.iter().position(|class| *class == slice.class).unwrap_or(usize::MAX),
            is_wait: slice.holds.is_none(),
            begin: at(slice.begin),
            end: at(slice.end),
        };
        // What was taken first is painted first: what is nested lies on it.
        let mut own: Vec<&&Slice> = own.collect();
        own.sort_by_key(|slice| slice.begin);
        Lane { label: format!("thread {thread}"), pieces: own.into_iter().map(piece).collect() }
    };
    let lanes: Vec<Lane> = threads.iter().map(|(thread, _)| lane(*thread)).collect();
    let names: Vec<String> = order.iter().map(|class| named(recording, *class)).collect();
    let more = if left > 0 { format!(", {left} more threads not shown") } else { String::new() };
    let title = format!(
        "{} from {} on: the stretch with most waiting{more}",
        numbers::time(length as f64),
        numbers::time((begin - first) as f64),
    );
    Some(lanes::chart(&title, &names, &lanes, length as f64))
}

/// Where a stretch begins that has most waiting of those with about [`MOST_SLICES`], and how long
/// it is.
fn busiest(slices: &[Slice], first: u64) -> (u64, u64) {
    let last = slices.iter().map(|slice| slice.end).max().unwrap_or(first);
    let span = (last - first).max(1);
    let count = slices.len() as u64;
    let length = if count <= MOST_SLICES { span } else { (span / count).saturating_mul(MOST_SLICES).clamp(1, span) };
    // Stretches begin each half a length after the one before.
    let step = (length / 2).max(1);
    let mut waited: BTreeMap<u64, u64> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.holds.is_none()) {
        *waited.entry((slice.begin - first) / step).or_default() += (slice.end - slice.begin).min(step);
    }
    let two = |at: u64| waited.get(&at).copied().unwrap_or(0) + waited.get(&(at + 1)).copied().unwrap_or(0);
    let best = waited.keys().copied().max_by_key(|at| (two(*at), u64::MAX - at)).unwrap_or(0);
    let begin = first.saturating_add(best.saturating_mul(step)).min(last.saturating_sub(length).max(first));
    (begin, length)
}

fn classes(out: &mut String, recording: &Recording, summary: &Summary) {
    if summary.classes.is_empty() {
        return;
    }
    out.push_str("<h2>The locks</h2>\n<div class=\"scroll\"><table>\n<tr>");
    for (column, head) in super::HEAD.iter().enumerate() {
        let _ = write!(out, "<th{}>{head}</th>", if column > 1 { " class=\"n\"" } else { "" });
    }
    out.push_str("</tr>\n");
    for cost in summary.classes.iter().take(super::MOST) {
        out.push_str("<tr>");
        for (column, text) in super::row(recording, summary, cost).iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", if column > 1 { " class=\"n\"" } else { "" }, escape(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    let more = summary.classes.len().saturating_sub(super::MOST);
    let more = if more > 0 { format!(" {more} more classes are not shown.") } else { String::new() };
    let _ = writeln!(
        out,
        "<p class=\"soft\">waited: the share of the sections that had to wait; of the time: what those waits are of \
         all threads’ time; p50, p99: half and 99 % were no longer.{more}</p>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(text: &str) -> String {
        let recording = Recording::from_text("a", text).unwrap();
        let said = Said { sentence: "Locks <cost> you.".to_owned(), estimates: "  this: A at 3\n".to_owned() };
        page(&recording, &recording.summary(), &said)
    }

    #[test]
    fn a_page_has_the_sentence_the_lanes_and_the_table() {
        let mut text =
            "lockyard recording 1\nprogram a&b\nclass mutex TABLE\nclass condition C\nlock 0\nlock 1\n".to_owned();
        for thread in 1..=20 {
            let _ = write!(text, "window {thread} 0\n10 {thread} request 0 write\n");
            let _ = write!(text, "{} {thread} grant 0\n{} {thread} release 0\n", 100 * thread, 100 * thread + 50);
            let _ = write!(text, "5000 {thread} wait 1\n6000 {thread} woken 1\n");
        }
        let page = page_of(&text);
        for part in [
            "a&amp;b",
            "Locks &lt;cost&gt; you.",
            "thread 20 waits for mutex TABLE for 1.99 µs",
            "4 more threads not shown",
        ] {
            assert!(page.contains(part), "no '{part}' in {page}");
        }
        assert!(page.contains("waits for signals") && page.contains("this: A at 3"), "{page}");
        for tag in ["svg", "table", "tr", "td", "h2", "div", "g", "text", "p"] {
            let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page_of("lockyard recording 1\n").ends_with("</html>\n"));
    }

    #[test]
    fn the_stretch_with_most_waiting_is_shown() {
        let slice = |begin, end, holds| Slice { thread: 1, class: 0, is_read: false, holds, begin, end };
        let mut slices: Vec<Slice> = (0..3_000).map(|at| slice(at * 1_000, at * 1_000 + 10, Some(0))).collect();
        slices.push(slice(2_000_000, 2_000_900, None));
        let (begin, length) = busiest(&slices, 0);
        assert!((200_000..=400_000).contains(&length), "{length}");
        assert!(begin <= 2_000_000 && begin + length >= 2_000_900, "{begin} {length}");
        assert_eq!(busiest(&slices[..1], 0), (0, 10));
    }
}
