//! `lockyard sweep status`: how far the shards of a sweep are.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::gather::{Part, parts};
use super::shard::Shard;
use crate::cli::StatusArgs;
use crate::failure::Failure;
use crate::report::look::{Look, align_right, new_table, trimmed};
use crate::report::numbers::grouped;

/// What is printed.
///
/// # Errors
/// One line: the plan or a file cannot be read, or a file is another plan's.
pub(crate) fn status(args: &StatusArgs, look: Look) -> Result<String, Failure> {
    let (plan, parts) = parts(&args.plan, &args.files)?;
    let total = plan.cells.len();
    let mut table = new_table(look, ["shard", "done", "of", "failed", "file"]);
    align_right(&mut table, &[1, 2, 3]);
    let number = |number: usize| grouped(number as u64);
    let mut row = |shard: String, done: usize, of: Option<usize>, failed: usize, file: String| {
        table.add_row([shard, number(done), of.map_or_else(String::new, number), number(failed), file]);
    };
    for part in &parts {
        let places = &part.contents.places;
        let failed = places.iter().filter(|place| place.failed).count();
        let (shard, of) = (part.shard.map_or_else(String::new, |shard| shard.to_string()), part.shard);
        let of = of.map(|shard| shard.size(total));
        row(shard, places.len(), of, failed, part.path.display().to_string());
    }
    for shard in absent(&parts) {
        row(shard.to_string(), 0, Some(shard.size(total)), 0, "not begun".to_owned());
    }
    let all = || parts.iter().flat_map(|part| &part.contents.places);
    let done: BTreeSet<usize> = all().map(|place| place.cell).collect();
    let failed: BTreeSet<usize> = all().filter(|place| place.failed).map(|place| place.cell).collect();
    let mut out = trimmed(&table);
    let _ = write!(out, "{} of {} cells are done", number(done.len()), number(total));
    let _ = match failed.len() {
        0 => writeln!(out),
        failed => writeln!(out, ", {} of them failed", number(failed)),
    };
    Ok(out)
}

/// The shards that have no file, of the numbers of shards that have some.
fn absent(parts: &[Part]) -> Vec<Shard> {
    let known: BTreeSet<(usize, usize)> =
        parts.iter().filter_map(|part| part.shard).map(|shard| (shard.count, shard.number)).collect();
    let counts: BTreeSet<usize> = known.iter().map(|(count, _)| *count).collect();
    let all = counts.into_iter().flat_map(|count| (1..=count).map(move |number| (count, number)));
    all.filter(|shard| !known.contains(shard)).map(|(count, number)| Shard { number, count }).collect()
}
