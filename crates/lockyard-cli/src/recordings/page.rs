//! The page of `report`: one file, no script, nothing loaded from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use lockyard_recording::Recording;
use lockyard_recording::critical::CriticalPath;
use lockyard_recording::recording::Sort;
use lockyard_recording::summary::Summary;

use super::told::{self, Told};
use crate::report::lanes::{self, Lane, Piece};
use crate::report::shares::{self, Divided};
use crate::report::svg::escape;
use crate::report::{html, numbers};
use crate::timeline::{self, Slice};

/// The picture of the threads shows about so many waits and holds, and so many threads.
const MOST_SLICES: usize = 300;
const MOST_LANES: usize = 16;
/// Classes of which the bar shows the time apart: it has six colours.
const APART: usize = 1;

/// The whole page. Writing to a string cannot fail, here and below.
pub(super) fn page(told: &Told<'_>) -> String {
    let Told { recording, summary, path, sentence, .. } = told;
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
        escape(sentence),
    );
    if recording.dropped > 0 {
        let lost = numbers::count(recording.dropped as usize, "window");
        let _ = writeln!(out, "<p class=\"notice\">Cut short, since nobody took them in time: {lost}.</p>");
    }
    if recording.missing > 0 {
        let threads = numbers::count(recording.missing as usize, "thread");
        let _ = writeln!(out, "<p class=\"notice\">{threads} not recorded: this page is of the others.</p>");
    }
    let mut bars = vec![Divided { label: "all threads".to_owned(), parts: shares_of_time(recording, summary) }];
    if path.length_ns > 0 && summary.threads > 1 {
        let parts = shares_of_path(recording, summary, path);
        bars.push(Divided { label: "critical path".to_owned(), parts });
    }
    let _ = writeln!(
        out,
        "<h2>Where the threads’ time goes</h2>\n<div class=\"scroll\">{}</div>",
        shares::chart(
            "Shares of the time of all threads, and of the critical path. Grey: without a CPU, what recording took, \
             and waits that no recorded thread ended",
            &bars
        )
    );
    if let Some(picture) = stretch(recording, summary) {
        let _ = writeln!(out, "<h2>Who holds what, and who waits</h2>\n<div class=\"scroll\">{picture}</div>");
    }
    classes(&mut out, recording, summary);
    for line in told::timed_out(recording, summary) {
        let _ = writeln!(out, "<p>{}.</p>", escape(&line));
    }
    for line in super::standstill::told(recording, &summary.at_end).lines().filter(|line| line.starts_with(' ')) {
        let _ = writeln!(out, "<p>At the end of the recording: {}.</p>", escape(line.trim()));
    }
    for line in told::awaited(recording, summary).lines().filter(|line| line.starts_with(' ')) {
        let _ = writeln!(out, "<p>Waits for what other threads signal: {}.</p>", escape(line.trim()));
    }
    for line in told.estimates() {
        let line = escape(&line);
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

/// The same of the critical path: what lies between two threads is a wait. The rest is in waits
/// that no recorded thread has ended.
fn shares_of_path(recording: &Recording, summary: &Summary, path: &CriticalPath) -> Vec<(String, f64)> {
    let share = |ns: u64| ns as f64 / path.length_ns.max(1) as f64;
    let mut parts = vec![("outside of all locks".to_owned(), share(path.outside_ns))];
    let apart: Vec<usize> = summary.classes.iter().take(APART).map(|cost| cost.class).collect();
    let (mut others, mut signalled) = (0.0, 0.0);
    for one in &path.classes {
        let name = named(recording, one.class);
        if apart.contains(&one.class) {
            parts.push((format!("waits for {name}"), share(one.handed_ns)));
            parts.push((format!("holds {name}"), share(one.held_ns)));
        } else if let Sort::Lock(_) = recording.classes[one.class].sort {
            others += share(one.ns());
        } else {
            signalled += share(one.ns());
        }
    }
    parts.push(("waits for or holds other locks".to_owned(), others));
    parts.push(("waits for signals".to_owned(), signalled));
    parts.push(("asleep for other reasons".to_owned(), share(path.asleep_ns)));
    parts.retain(|(_, share)| *share >= 0.000_5);
    parts
}

/// The stretch with most waiting, as a picture. `None`: no thread waited or held a lock.
fn stretch(recording: &Recording, summary: &Summary) -> Option<String> {
    let slices = timeline::slices(recording);
    let first = slices.iter().map(|slice| slice.begin).min()?;
    let lost = lost(recording, &slices);
    let (begin, end, shown) = busiest(&slices, &lost);
    let length = end - begin;
    let part = |slice: &Slice| slice.end.min(end) - slice.begin.max(begin);
    let mut waited: BTreeMap<u32, u64> = BTreeMap::new();
    for slice in &shown {
        let sum = waited.entry(slice.thread).or_default();
        *sum = sum.saturating_add(if lost(slice) { part(slice) } else { 0 });
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
    let known: BTreeSet<usize> = order.iter().copied().collect();
    order.extend(seen.difference(&known));
    let places: BTreeMap<usize, usize> = order.iter().enumerate().map(|(place, class)| (*class, place)).collect();
    let at = |ns: u64| ns as f64 - begin as f64;
    let lane = |thread: u32| {
        let own = shown.iter().filter(|slice| slice.thread == thread);
        let piece = |slice: &&Slice| Piece {
            name: places.get(&slice.class).copied().unwrap_or(usize::MAX),
            is_wait: slice.holds.is_none(),
            begin: at(slice.begin),
            end: at(slice.end),
        };
        // What was taken first is painted first: what is nested lies on it.
        let mut own: Vec<&&Slice> = own.collect();
        own.sort_by_key(|slice| slice.begin);
        Lane { label: lane_label(recording, thread), pieces: own.into_iter().map(piece).collect() }
    };
    let lanes: Vec<Lane> = threads.iter().map(|(thread, _)| lane(*thread)).collect();
    let names: Vec<String> = order.iter().map(|class| named(recording, *class)).collect();
    let more = if left > 0 { format!(", {left} more threads not shown") } else { String::new() };
    let title = format!(
        "{} from {} on: the stretch with most waiting{more}. Without what goes on at the end of a recording window",
        numbers::time(length as f64),
        numbers::time((begin - first) as f64),
    );
    Some(lanes::chart(&title, &names, &lanes, length as f64))
}

/// The name of a thread that no other one has; else its number. There is room for some letters.
fn lane_label(recording: &Recording, thread: u32) -> String {
    const ROOM: usize = 13;
    let own =
        recording.names.get(&thread).filter(|own| recording.names.values().filter(|name| name == own).count() == 1);
    match own {
        Some(name) if name.chars().count() > ROOM => name.chars().take(ROOM - 1).chain(['…']).collect(),
        Some(name) => name.clone(),
        None => format!("thread {thread}"),
    }
}

/// Which slices are waits that cost: for locks. Threads that wait for a signal may have nothing to
/// do, so that these count only where nothing else is waited for.
fn lost<'a>(recording: &'a Recording, slices: &[Slice]) -> impl Fn(&Slice) -> bool + 'a {
    let waits = |slice: &Slice| slice.holds.is_none();
    let for_lock = move |slice: &Slice| waits(slice) && matches!(recording.classes[slice.class].sort, Sort::Lock(_));
    let any = slices.iter().any(for_lock);
    move |slice| if any { for_lock(slice) } else { waits(slice) }
}

/// The stretch with most waiting of those with about [`MOST_SLICES`], and what is in it. It has
/// more where as many threads wait at once.
fn busiest<'a>(slices: &'a [Slice], lost: &impl Fn(&Slice) -> bool) -> (u64, u64, Vec<&'a Slice>) {
    let mut shown: Vec<&Slice> = slices.iter().collect();
    let mut from = shown.iter().map(|slice| slice.begin).min().unwrap_or(0);
    let mut to = shown.iter().map(|slice| slice.end).max().unwrap_or(0);
    // Where it is crowded, a part of that again.
    while shown.len() > MOST_SLICES {
        let length = ((to - from) / shown.len() as u64).saturating_mul(MOST_SLICES as u64).clamp(1, to - from);
        let begin = most_waiting(&shown, (from, to), length, lost);
        let end = begin.saturating_add(length);
        let inside = |slice: &&&Slice| slice.begin < end && slice.end > begin;
        let part: Vec<&Slice> = shown.iter().filter(inside).copied().collect();
        // They go on all the time: a shorter one has hardly fewer.
        if part.len() > shown.len() / 8 * 7 {
            break;
        }
        (from, to, shown) = (begin, end, part);
        if shown.len() <= 4 * MOST_SLICES {
            break;
        }
    }
    (from, to, shown)
}

/// Where in a time a stretch of `length` begins that has most waiting. Stretches begin each half a
/// length after the one before.
fn most_waiting(slices: &[&Slice], (from, to): (u64, u64), length: u64, lost: &impl Fn(&Slice) -> bool) -> u64 {
    let step = (length / 2).max(1);
    let cells = ((to - from) / step) as usize + 2;
    // What begins and ends in a cell, and how many more wait through a whole one than before it.
    let (mut parts, mut whole) = (vec![0.0; cells], vec![0.0; cells]);
    for slice in slices.iter().filter(|slice| lost(slice)) {
        let [begin, end] = [slice.begin, slice.end].map(|ns| ns.clamp(from, to) - from);
        let [first, last] = [begin, end].map(|ns| (ns / step) as usize);
        if first == last {
            parts[first] += (end - begin) as f64;
        } else {
            parts[first] += (step - begin % step) as f64;
            parts[last] += (end % step) as f64;
            whole[first + 1] += step as f64;
            whole[last] -= step as f64;
        }
    }
    let mut through = 0.0;
    for (part, more) in parts.iter_mut().zip(&whole) {
        through += more;
        *part += through;
    }
    let waited = parts.windows(2).map(|two| two[0] + two[1]);
    let (best, _) = waited.enumerate().fold((0, 0.0), |best, one| if one.1 > best.1 { one } else { best });
    from.saturating_add((best as u64).saturating_mul(step)).min(to - length)
}

fn classes(out: &mut String, recording: &Recording, summary: &Summary) {
    if summary.classes.is_empty() {
        return;
    }
    out.push_str("<h2>The locks</h2>\n<div class=\"scroll\"><table>\n<tr>");
    for (column, (head, _)) in told::HEAD.iter().enumerate() {
        let _ = write!(out, "<th{}>{head}</th>", if column > 1 { " class=\"n\"" } else { "" });
    }
    out.push_str("</tr>\n");
    for cost in summary.classes.iter().take(told::MOST) {
        out.push_str("<tr>");
        for (column, text) in told::row(recording, summary, cost).iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", if column > 1 { " class=\"n\"" } else { "" }, escape(text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    let more = summary.classes.len().saturating_sub(told::MOST);
    let more = if more > 0 { format!(" {more} more classes are not shown.") } else { String::new() };
    let _ = writeln!(
        out,
        "<p class=\"soft\">waited: the share of the sections that had to wait; of the time: what all waits are of \
         all threads’ time; hold: with what is nested in it, and waits for that; p50, p99: half and 99 % were no \
         longer.{more}</p>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(text: &str) -> String {
        let recording = Recording::from_text("a", text).unwrap();
        let estimates = told::Estimates { machine: "this".to_owned(), classes: vec![("A".to_owned(), 3.0)] };
        let mut told = Told::new(&recording, vec![estimates]);
        told.sentence = "Locks <cost> you.".to_owned();
        page(&told)
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
        assert!(page.contains("critical path: holds mutex TABLE"), "{page}");
        let named = page_of(
            &text.replace("window 3 0", "thread 18 a thread with a name\nthread 19 b\nthread 20 b\nwindow 3 0"),
        );
        for lane in ["a thread wit… waits for", "thread 19 waits for"] {
            assert!(named.contains(lane), "{lane}: {named}");
        }
        assert!(page.contains("waits for signals") && page.contains("this: A at 3"), "{page}");
        for tag in ["svg", "table", "tr", "td", "h2", "div", "g", "text", "p"] {
            let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page_of("lockyard recording 1\n").ends_with("</html>\n"));
    }

    fn slice(thread: u32, begin: u64, end: u64, holds: Option<usize>) -> Slice {
        Slice { thread, class: 0, is_read: false, holds, begin, end }
    }

    fn waits(slice: &Slice) -> bool {
        slice.holds.is_none()
    }

    #[test]
    fn the_stretch_with_most_waiting_is_shown() {
        let mut slices: Vec<Slice> = (0..3_000).map(|at| slice(1, at * 1_000, at * 1_000 + 10, Some(0))).collect();
        slices.push(slice(1, 2_000_000, 2_000_900, None));
        let (begin, end, _) = busiest(&slices, &waits);
        assert!((200_000..=400_000).contains(&(end - begin)), "{begin} {end}");
        assert!(begin <= 2_000_000 && end >= 2_000_900, "{begin} {end}");
        assert_eq!(busiest(&slices[..1], &waits).0, 0);
        // Waits are counted where they last, not where they begin.
        slices.extend((0..12).map(|thread| slice(thread, 50_000 * u64::from(thread), 1_500_000, None)));
        let (begin, end, _) = busiest(&slices, &waits);
        assert!(begin >= 500_000 && end <= 1_550_000, "{begin} {end}");
    }

    #[test]
    fn a_crowd_is_no_large_picture_and_times_without_an_end_do_no_harm() {
        let mut crowd = vec![slice(1, 0, 1_000, None)];
        crowd.extend((0..100_000).map(|at| 10_000_000_000 + at * 100).map(|at| slice(1, at, at + 50, Some(0))));
        let (_, _, shown) = busiest(&crowd, &waits);
        assert!(shown.len() <= 4 * MOST_SLICES, "{}", shown.len());
        let mut text = "lockyard recording 1\nclass mutex A\nlock 0\n".to_owned();
        for thread in 1..=4 {
            let _ = write!(text, "window {thread} 0\n0 {thread} request 0 write\n{} {thread} grant 0\n", u64::MAX);
        }
        assert!(page_of(&text).ends_with("</html>\n"));
        let ends: Vec<Slice> = (0..400).map(|thread| slice(thread, 0, u64::MAX, None)).collect();
        assert_eq!(busiest(&ends, &waits).2.len(), 400);
    }

    /// The stretch was cut down to a nanosecond, in which as many waited.
    #[test]
    fn a_stretch_with_many_waiters_stays_one() {
        let all: Vec<Slice> = (0..5_000).map(|thread| slice(thread, 0, 1_000_000, None)).collect();
        let (begin, end, shown) = busiest(&all, &waits);
        assert_eq!((begin, end, shown.len()), (0, 1_000_000, 5_000));
    }

    /// Twenty threads without work took all lanes.
    #[test]
    fn threads_that_wait_for_locks_come_before_those_that_wait_for_signals() {
        let mut text = "lockyard recording 1\nclass mutex A\nclass condition C\nlock 0\nlock 1\n".to_owned();
        for thread in 1..=20 {
            let _ = write!(text, "window {thread} 0\n10 {thread} wait 1\n9000000 {thread} woken 1\n");
        }
        let busy = "window 21 0\n5000 21 request 0 write\n9000 21 grant 0\n9500 21 release 0\n";
        assert!(page_of(&(text.clone() + busy)).contains("thread 21 waits for mutex A for"));
        assert!(page_of(&text).contains("thread 1 waits for condition C for"));
    }
}
