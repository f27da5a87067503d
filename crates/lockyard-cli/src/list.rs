//! `lockyard list`: the names that the other commands accept.

use std::fmt::Write;

use lockyard::event::Event;
use lockyard_figures::Figure;
use lockyard_work::{Candidate, Origin, Workload};

use crate::cli::{ListArgs, Listing};
use crate::events;
use crate::failure::Failure;
use crate::selection;
use crate::simulate::machines;
use crate::terminal;

/// What can be listed: the head, the listing, and what its columns are called.
const SECTIONS: [(&str, Listing, &[&str]); 7] = [
    ("Locks", Listing::Locks, &["lock", "family", "about"]),
    ("Policies", Listing::Policies, &["policy", "lock", "about"]),
    ("Peers", Listing::Peers, &["peer", "family", "about"]),
    ("Workloads", Listing::Workloads, &["workload", "about"]),
    ("Machines", Listing::Machines, &["machine", "size", "about"]),
    ("Events", Listing::Events, &["event", "about"]),
    ("Figures", Listing::Figures, &["figure", "kind", "machines", "about"]),
];

/// The listing asked for, or all of them, for a terminal of `width` columns.
///
/// # Errors
/// The text to find is nowhere.
pub(crate) fn render(all: &'static [Candidate], args: &ListArgs, width: Option<usize>) -> Result<String, Failure> {
    let ListArgs { what, find, json } = args;
    if *what == Some(Listing::This) {
        return match (find, json) {
            (None, false) => Ok(machines::this()),
            _ => Err(Failure::usage("list this prints a machine file: it takes no text to find, and no --json")),
        };
    }
    let mut sections = Vec::new();
    for (head, listing, names) in SECTIONS {
        if what.is_some_and(|what| what != listing) {
            continue;
        }
        let mut rows = section(all, listing);
        if let Some(text) = find {
            let text = text.to_lowercase();
            rows.retain(|row| row.iter().any(|cell| cell.to_lowercase().contains(&text)));
        }
        match json {
            true => sections.push(rows.iter().map(|row| object(names, row)).collect()),
            false if rows.is_empty() && find.is_some() => {}
            false if what.is_some() => sections.push(columns(&rows, width)),
            false => {
                let width = width.map(|width| width.saturating_sub(2));
                let indented: String = columns(&rows, width).lines().map(|line| format!("  {line}\n")).collect();
                sections.push(format!("{head}\n{indented}"));
            }
        }
    }
    let text: String = if *json { sections.concat() } else { sections.join("\n") };
    match find {
        Some(find) if text.is_empty() => {
            Err(Failure::usage(format!("list: '{find}' is in no line of it; 'lockyard list' shows all")))
        }
        _ => Ok(text),
    }
}

/// A row as a line of JSON.
fn object(names: &[&str], row: &[String]) -> String {
    let fields: serde_json::Map<String, serde_json::Value> =
        names.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), cell.clone().into())).collect();
    format!("{}\n", serde_json::Value::Object(fields))
}

fn section(all: &'static [Candidate], listing: Listing) -> Vec<Vec<String>> {
    match listing {
        Listing::Locks => locks(all, Origin::Lockyard),
        Listing::Peers => locks(all, Origin::Peer),
        Listing::Policies => policies(all),
        Listing::Workloads => Workload::ALL.iter().map(|one| row([one.name(), one.what()])).collect(),
        Listing::Machines | Listing::This => machines::listing(),
        Listing::Events => Event::ALL.iter().map(|one| row([one.name(), events::plain(one.name())])).collect(),
        Listing::Figures => lockyard_figures::figures().iter().map(figure).collect(),
    }
}

fn locks(all: &'static [Candidate], origin: Origin) -> Vec<Vec<String>> {
    let describe = |name: &str| {
        let of_name: Vec<&Candidate> = all.iter().filter(|one| one.name == name && one.origin == origin).collect();
        let family = of_name.first().map_or("", |first| first.family.name());
        let note = match (of_name.as_slice(), origin) {
            ([first, _, ..], _) => format!("{} policies, default {}", of_name.len(), first.policy.unwrap_or("none")),
            _ => of_name.first().map_or("", |first| first.about).to_owned(),
        };
        vec![name.to_owned(), family.to_owned(), note]
    };
    selection::names(all, origin).into_iter().map(describe).collect()
}

fn policies(all: &'static [Candidate]) -> Vec<Vec<String>> {
    let describe = |one: &Candidate, policy: &str| {
        let default = if selection::is_default(all, one) { "default: " } else { "" };
        let caution = one.caution.map_or_else(String::new, |why| format!(" ({why}; measured only when named)"));
        vec![policy.to_owned(), one.name.to_owned(), format!("{default}{}{caution}", one.about)]
    };
    let ours = all.iter().filter(|one| one.origin == Origin::Lockyard);
    ours.filter_map(|one| Some(describe(one, one.policy?))).collect()
}

fn figure(figure: &Figure) -> Vec<String> {
    let machines = figure.machines();
    let machines = if machines.is_empty() { "not simulated".to_owned() } else { machines.join(", ") };
    let subject =
        figure.table().map_or_else(|error| error.to_string(), |table| table.about("commit subject").to_owned());
    vec![figure.id().to_owned(), figure.kind().to_owned(), machines, subject]
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The last column is at least so wide.
const LEAST: usize = 24;

/// Columns as wide as their widest entry; nothing behind the last one, which goes on below itself
/// where it is too long for `width`.
fn columns(rows: &[Vec<String>], width: Option<usize>) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    // Where the others leave too little room, the last one goes on near the beginning.
    let before = widths.iter().rev().skip(1).map(|width| width + 2).sum::<usize>();
    let indent = if width.is_some_and(|width| before + LEAST > width) { 4 } else { before };
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        let line = line.trim_end();
        match width {
            Some(width) => out.push_str(&terminal::wrapped(line, width, indent)),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates;

    fn list(what: Option<Listing>, find: Option<&str>, json: bool) -> Result<String, String> {
        let args = ListArgs { what, find: find.map(str::to_owned), json };
        render(candidates(), &args, None).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_text_is_found_in_any_column_whatever_its_capitals() {
        let all = list(None, None, false).unwrap();
        assert!(SECTIONS.iter().all(|(head, ..)| all.contains(&format!("{head}\n  "))), "{all}");
        let events = list(Some(Listing::Events), Some("HANDOFF"), false).unwrap();
        assert!(events.lines().count() > 3 && events.lines().all(|line| line.to_lowercase().contains("handoff")));
        let machines = list(None, Some("epyc9654"), false).unwrap();
        assert!(machines.starts_with("Machines\n  epyc9654") && !machines.contains("Locks\n"), "{machines}");
        assert!(list(None, Some("no such thing"), false).unwrap_err().contains("is in no line of it"));
        assert!(list(Some(Listing::This), None, true).unwrap_err().contains("takes no text"));
    }

    #[test]
    fn each_line_of_json_is_a_row() {
        let text = list(Some(Listing::Locks), None, true).unwrap();
        let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(rows.iter().any(|row| row["lock"] == "mutex" && row["family"] == "mutex" && row["about"] != ""));
        assert_eq!(rows.len(), section(candidates(), Listing::Locks).len());
    }
}
