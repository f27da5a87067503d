//! `lockyard sweep merge`: the lines of all shards in the order of their cells.
//!
//! A cell may be there more than once: shards were cut in another way, or two hosts did the same.
//! Then the bytes must be the same, or one of the hosts computes wrongly: nothing is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use super::file::Place;
use super::gather::{Part, parts};
use crate::cli::MergeArgs;
use crate::failure::{Failure, plain};
use crate::output::Target;
use crate::progress;
use crate::report::numbers::grouped;

/// So many missing ranges are named.
const MOST: usize = 10;

/// Where a line is.
type Found<'a> = (&'a Open, Place);

/// A file that is read.
struct Open {
    part: Part,
    file: File,
}

/// Writes the lines: the exit code.
///
/// # Errors
/// One line: a file that cannot be read or is another plan's, two lines of a cell that differ, or a
/// place that cannot be written; cells that are missing, or failed, once the others are written.
pub(crate) fn merge(args: &MergeArgs) -> Result<u8, Failure> {
    let target = args.out.as_deref().map(|path| Target::check("--out", path)).transpose()?;
    let (plan, parts) = parts(&args.plan, &args.files)?;
    let open = |part: Part| match File::open(&part.path) {
        Ok(file) => Ok(Open { part, file }),
        Err(error) => Err(Failure::usage(format!("'{}': cannot be read: {}", part.path.display(), plain(&error)))),
    };
    let files = parts.into_iter().map(open).collect::<Result<Vec<Open>, Failure>>()?;
    let mut cells: Vec<Option<Found<'_>>> = vec![None; plan.cells.len()];
    for open in &files {
        for &place in &open.part.contents.places {
            match cells[place.cell - 1] {
                None => cells[place.cell - 1] = Some((open, place)),
                Some(first) => same(first, (open, place))?,
            }
        }
    }
    match &target {
        Some(target) => target.write_by(&mut |out| write(&cells, out))?,
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            write(&cells, &mut out)?;
            out.flush()?;
        }
    }
    let missing: Vec<usize> = (1..=cells.len()).filter(|cell| cells[cell - 1].is_none()).collect();
    let failed = cells.iter().flatten().filter(|(_, place)| place.failed).count();
    let (of, word) = (grouped(cells.len() as u64), if failed == 1 { "simulation" } else { "simulations" });
    if !missing.is_empty() {
        let (count, ranges) = (grouped(missing.len() as u64), ranges(&missing));
        let what = format!("{count} of {of} cells are missing: {ranges}; 'lockyard sweep status' says of which shards");
        return Err(Failure::run(what));
    }
    if failed > 0 {
        return Err(Failure::run(format!("{failed} {word} of {of} failed; their lines have the field failed")));
    }
    if let Some(target) = target {
        progress::say(&format!("lockyard: wrote {}: {of} cells", target.path().display()));
    }
    Ok(0)
}

fn bytes((open, place): Found<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; place.bytes];
    let read = open.file.read_exact_at(&mut bytes, place.start);
    let path = open.part.path.display();
    read.map_err(|error| io::Error::new(error.kind(), format!("'{path}' cannot be read: {}", plain(&error))))?;
    Ok(bytes)
}

fn write(cells: &[Option<Found<'_>>], out: &mut dyn Write) -> io::Result<()> {
    cells.iter().flatten().try_for_each(|&found| out.write_all(&bytes(found)?))
}

/// # Errors
/// One line: the two lines differ.
fn same(first: Found<'_>, second: Found<'_>) -> Result<(), Failure> {
    if bytes(first)? == bytes(second)? {
        return Ok(());
    }
    let place = |(open, place): Found<'_>| format!("'{}', line {}", open.part.path.display(), place.line);
    Err(Failure::run(format!(
        "cell {} differs between {} and {}: the same lockyard must give the same bytes everywhere, so one of the hosts \
         or builds is not to be trusted; nothing was written",
        first.1.cell,
        place(first),
        place(second)
    )))
}

/// `3, 7-9`.
fn ranges(numbers: &[usize]) -> String {
    let runs: Vec<&[usize]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    let run = |run: &&[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    let mut shown: Vec<String> = runs.iter().take(MOST).map(run).collect();
    if runs.len() > MOST {
        shown.push("…".to_owned());
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cells_are_told_in_ranges() {
        assert_eq!(ranges(&[3, 7, 8, 9, 12]), "3, 7-9, 12");
        assert_eq!(ranges(&(1..100).step_by(2).collect::<Vec<_>>()), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, …");
    }
}
