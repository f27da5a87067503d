//! The page of `compare`: one file, no script, nothing loaded from anywhere.

use std::fmt::Write;

use lockyard_work::{Origin, Summary};

use super::summary::Standing;
use super::svg::{self, Bar, Panel, escape};
use super::{numbers, summary, table};
use crate::events;
use crate::results::{self, CellResult, GroupResult, Results};

const STYLE: &str = include_str!("page.css");

/// The whole page. Writing to a string cannot fail, here and below.
pub(crate) fn page(results: &Results) -> String {
    let mut out = begin(&format!("Lockyard on {}", results.machine.model));
    head(&mut out, results);
    against_peers(&mut out, results);
    for group in &results.groups {
        section(&mut out, group);
    }
    reading(&mut out);
    out.push_str("</body>\n</html>\n");
    out
}

/// The beginning of a page, up to and with the opening of its body.
pub(crate) fn begin(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(title)
    )
}

fn head(out: &mut String, results: &Results) {
    let _ = write!(
        out,
        "<h1>Lockyard beside today’s locks</h1>\n<p class=\"soft\">{} UTC · measured for {:.0} s · seed {} · lockyard {}</p>\n",
        escape(&results.started),
        results.elapsed.as_secs_f64(),
        results.seed,
        env!("CARGO_PKG_VERSION"),
    );
    if results.interrupted {
        out.push_str(
            "<p class=\"notice\">This run was interrupted: some cells are missing or rest on fewer rounds.</p>\n",
        );
    }
    if let Some(warning) = results.disturbance() {
        let _ = writeln!(out, "<p class=\"notice\">Note: {}.</p>", escape(&warning));
    }
    for (lock, cell, why) in results.failures() {
        let line = format!("{lock} failed in “{cell}”: {why}");
        let _ = writeln!(out, "<p class=\"notice\">{}</p>", escape(&line));
    }
    let verdicts = summary::verdicts(results);
    if !verdicts.is_empty() {
        let items: String = verdicts.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        let _ = write!(out, "<ul>\n{items}</ul>\n");
    }
    if !verdicts.is_empty() && !results.is_void() {
        let _ = writeln!(
            out,
            "<p class=\"soft\">As fast: within the spread of the rounds. Best peer: the fastest that \
             left no thread without a turn.</p>"
        );
    }
    out.push_str("<dl>\n");
    for (name, value) in results.machine.lines() {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    }
    out.push_str("</dl>\n");
}

fn against_peers(out: &mut String, results: &Results) {
    let rows = summary::summary_rows(results);
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Summary</h2>\n<div class=\"scroll\"><table class=\"lead\">\n<tr><th>Lockyard</th><th>cell</th><th class=\"n\">vs best peer</th>\
         <th>best peer</th><th class=\"n\">our longest wait</th><th class=\"n\">its longest wait</th></tr>\n",
    );
    for row in rows {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td class=\"n{}\">{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&row.lock),
            escape(&row.cell),
            match row.standing {
                Some(Standing::Ahead) => " good",
                Some(Standing::Even | Standing::Unrivalled) => " soft",
                Some(Standing::Behind | Standing::Unfair) => " warn",
                None => "",
            },
            escape(&row.ratio),
            escape(&row.best_peer),
            escape(&row.our_wait),
            escape(&row.its_wait),
        );
    }
    out.push_str("</table></div>\n");
}

fn section(out: &mut String, group: &GroupResult) {
    let name = escape(&group.name);
    let _ = writeln!(out, "<h2>{name} locks</h2>");
    let panels: Vec<Panel> = group.cells.iter().map(panel).collect();
    let described = format!("Throughput and longest wait of the {} locks, one panel per cell", group.name);
    let _ = writeln!(out, "<div class=\"scroll\">{}</div>", svg::chart(&described, &panels));
    numbers_table(out, group);
    event_tables(out, group);
}

fn panel(cell: &CellResult) -> Panel {
    let bar = |lock: &Summary| {
        let ours = lock.origin == Origin::Lockyard;
        let unit = if cell.is_alone() { "a turn" } else { "kops/s" };
        let ratio = lock
            .ratio_to_best_peer
            .filter(|_| ours)
            .map_or_else(String::new, |ratio| format!(" · {}", numbers::ratio(ratio)));
        Bar {
            label: lock.label(),
            ours,
            best_peer: cell.is_best_peer(lock),
            rate: lock.kops_per_s,
            rate_text: format!("{} {unit}{ratio}", cell.rate(lock)),
            wait_ns: if cell.is_alone() { 0.0 } else { lock.wait_max },
            wait_text: table::wait(cell, lock),
            // Alone, a thread without a turn only means that the window was too short for it to be
            // scheduled.
            idle: if cell.is_alone() { 0 } else { lock.worst_idle_threads },
        }
    };
    Panel { title: results::title(&cell.spec, false), bars: cell.locks.iter().map(bar).collect() }
}

fn numbers_table(out: &mut String, group: &GroupResult) {
    out.push_str(
        "<details><summary>All numbers</summary>\n<div class=\"scroll\"><table>\n<tr><th>lock</th>\
         <th class=\"n\">kops/s</th><th class=\"n\">ns per turn</th><th class=\"n\">±</th><th class=\"n\">vs best peer</th>\
         <th class=\"n\">fairness</th><th class=\"n\">median wait</th><th class=\"n\">99.9 %</th>\
         <th class=\"n\">longest wait</th><th class=\"n\">no turn</th><th class=\"n\">CPU used</th></tr>\n",
    );
    for cell in &group.cells {
        let window = numbers::time(cell.spec.duration.as_nanos() as f64);
        let _ = writeln!(
            out,
            "<tr class=\"cell\"><td colspan=\"11\">{} <span class=\"soft\">· {} of {window}</span></td></tr>",
            escape(&results::title(&cell.spec, true)),
            numbers::count(cell.locks.iter().map(|lock| lock.rounds).max().unwrap_or(0), "round"),
        );
        for lock in &cell.locks {
            number_row(out, cell, lock);
        }
    }
    out.push_str("</table></div></details>\n");
}

fn number_row(out: &mut String, cell: &CellResult, lock: &Summary) {
    let class = if lock.origin == Origin::Lockyard { " class=\"ours\"" } else { "" };
    let star = if cell.is_best_peer(lock) { "★ " } else { "" };
    let _ = write!(out, "<tr{class}><td>{}</td>", escape(&lock.label()));
    let wait = |ns: f64| if cell.is_alone() || ns <= 0.0 { "–".to_owned() } else { numbers::time(ns) };
    let idle = lock.worst_idle_threads;
    for text in [
        numbers::three(lock.kops_per_s),
        numbers::three(lock.ns_per_op),
        if lock.rounds > 1 { numbers::spread(lock.spread) } else { "–".to_owned() },
        lock.ratio_to_best_peer.map_or_else(|| "–".to_owned(), |ratio| format!("{star}{}", numbers::ratio(ratio))),
        if cell.is_alone() { "–".to_owned() } else { format!("{:.2}", lock.fairness) },
        wait(lock.wait_p50),
        wait(lock.wait_p999),
        table::wait(cell, lock),
    ] {
        let _ = write!(out, "<td class=\"n\">{}</td>", escape(&text));
    }
    let warn = if idle > 0 { " warn" } else { "" };
    let _ = write!(out, "<td class=\"n{warn}\">{}</td>", if idle > 0 { idle.to_string() } else { "–".to_owned() });
    let _ = writeln!(out, "<td class=\"n\">{:.0} %</td></tr>", lock.busy * 100.0);
}

fn event_tables(out: &mut String, group: &GroupResult) {
    let mut inner = String::new();
    for cell in &group.cells {
        for lock in &cell.locks {
            let ranked = table::ranked_events(lock);
            if lock.origin != Origin::Lockyard || ranked.is_empty() {
                continue;
            }
            let _ = write!(
                inner,
                "<h3>{} <span class=\"soft\">· {}</span></h3>\n<div class=\"scroll\"><table>\n<tr><th>event</th>\
                 <th class=\"n\">count</th><th class=\"n\">per 1000 turns</th><th>meaning</th></tr>\n",
                escape(&lock.label()),
                escape(&results::title(&cell.spec, false)),
            );
            for (name, count, rate) in ranked {
                let _ = writeln!(
                    inner,
                    "<tr><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                     <td class=\"words\">{}</td></tr>",
                    escape(name),
                    numbers::grouped(count),
                    escape(&numbers::three(rate)),
                    escape(events::plain(name)),
                );
            }
            inner.push_str("</table></div>\n");
        }
    }
    if !inner.is_empty() {
        let _ = write!(out, "<details><summary>What Lockyard’s locks did inside</summary>\n{inner}</details>\n");
    }
}

fn reading(out: &mut String) {
    let terms = [
        ("turn", "one lock and unlock of one thread; kops/s counts thousand turns per second, all threads together"),
        (
            "best peer",
            "the fastest lock in a cell that is not Lockyard’s (★); ratios are against it, above 1 is faster",
        ),
        ("±", "largest minus smallest round, in percent of the median"),
        ("fairness", "share of the turns that the busier half of the threads got: 0.50 is even, 1.00 starves half"),
        ("longest wait", "the longest wait for one turn in a round (median over rounds); r, w: a reader’s, a writer’s"),
        ("no turn, idle", "threads that never got the lock in the worst round"),
        ("section, think", "time inside the lock and between two turns, in PAUSE instructions"),
    ];
    out.push_str("<h2>How to read this</h2>\n<dl>\n");
    for (name, meaning) in terms {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(meaning));
    }
    out.push_str(
        "</dl>\n<p class=\"soft\">All locks of a cell were measured in turn within each round; every number is a median over \
         the rounds.</p>\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_page_is_whole_and_self_contained() {
        let page = page(&fixture::results());
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        for tag in ["svg", "table", "tr", "td", "ul", "li", "details", "dl", "div", "g", "text"] {
            let opened = page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        // The only address is the name of the SVG vocabulary.
        assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
        assert!(page.contains("★ best peer") && page.contains("3 no turn") && page.contains("mutex_opt_lock"));
        assert!(!page.contains("lock_slowpath"), "events of inner locks stay out");
        assert!(!page.contains("interrupted"));
    }

    #[test]
    fn an_interrupted_run_says_so() {
        let mut results = fixture::results();
        results.interrupted = true;
        assert!(page(&results).contains("This run was interrupted"));
    }
}
