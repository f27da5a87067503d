//! The table of commands in CONTRIBUTING.md.

use std::fs;

use crate::tools::Outcome;

const PAGE: &str = "CONTRIBUTING.md";
const OPEN: &str = "<!-- commands -->\n";
const CLOSE: &str = "<!-- /commands -->";

/// Fails if the page has another table.
pub(crate) fn check(table: &str) -> Outcome {
    let (page, made) = pages(table)?;
    if made == page {
        return Ok(());
    }
    Err(format!("{PAGE}: the table of commands is not what xtask says; cargo xtask lint --fix"))
}

/// Puts the table into the page.
pub(crate) fn write(table: &str) -> Outcome {
    let (page, made) = pages(table)?;
    if made == page { Ok(()) } else { fs::write(PAGE, made).map_err(|error| format!("{PAGE}: {error}")) }
}

/// The page as it is, and with `table`.
fn pages(table: &str) -> Outcome<(String, String)> {
    let page = fs::read_to_string(PAGE).map_err(|error| format!("{PAGE}: {error}"))?;
    let place = || format!("{PAGE}: no table of commands: {OPEN}");
    let (before, rest) = page.split_once(OPEN).ok_or_else(place)?;
    let (_, after) = rest.split_once(CLOSE).ok_or_else(place)?;
    let made = format!("{before}{OPEN}{table}{CLOSE}{after}");
    Ok((page, made))
}
