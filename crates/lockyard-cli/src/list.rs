//! `lockyard list`: the names that the other commands accept.

use std::fmt::Write;

use lockyard::event::Event;
use lockyard_figures::Figure;
use lockyard_work::{Candidate, Origin, Workload};

use crate::cli::Listing;
use crate::events;
use crate::selection;
use crate::simulate::machines;

/// The listing asked for; all of them without one.
pub(crate) fn render(all: &'static [Candidate], what: Option<Listing>) -> String {
    match what {
        Some(Listing::This) => machines::this(),
        Some(listing) => section(all, listing),
        None => {
            let headed = [
                ("Locks", Listing::Locks),
                ("Policies", Listing::Policies),
                ("Peers", Listing::Peers),
                ("Workloads", Listing::Workloads),
                ("Machines", Listing::Machines),
                ("Events", Listing::Events),
                ("Figures", Listing::Figures),
            ]
            .map(|(head, listing)| {
                let lines = section(all, listing);
                let indented: String = lines.lines().map(|line| format!("  {line}\n")).collect();
                format!("{head}\n{indented}")
            });
            headed.join("\n")
        }
    }
}

fn section(all: &'static [Candidate], listing: Listing) -> String {
    let rows: Vec<Vec<String>> = match listing {
        Listing::Locks => locks(all, Origin::Lockyard),
        Listing::Peers => locks(all, Origin::Peer),
        Listing::Policies => policies(all),
        Listing::Workloads => Workload::ALL.iter().map(|one| row([one.name(), one.what()])).collect(),
        Listing::Machines | Listing::This => machines::listing(),
        Listing::Events => Event::ALL.iter().map(|one| row([one.name(), events::plain(one.name())])).collect(),
        Listing::Figures => lockyard_figures::figures().iter().map(figure).collect(),
    };
    columns(&rows)
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

/// Columns as wide as their widest entry; nothing behind the last one.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
