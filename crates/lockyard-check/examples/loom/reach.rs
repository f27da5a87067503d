//! Ordering lines that no scenario comes to: nothing judges them, so each must be listed with the
//! reason why not, in `loom-unreached.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lockyard_check::model::sites::Site;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/loom-unreached.txt");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lockyard/src");
/// What makes a line one that asks for an order.
const ORDERS: [&str; 5] = ["Acquire", "Release", "AcqRel", "SeqCst", "P::fence"];
/// Calls whose arguments are on lines of their own begin so many lines before, at most.
const WRAPPED: u32 = 3;

/// Prints which lines are reached by none of `sites`, and why. Whether each of them is listed, and
/// nothing else is.
pub(crate) fn judge(sites: &BTreeSet<Site>, library: &str) -> Result<bool, String> {
    let mut lines = BTreeMap::new();
    collect(Path::new(SOURCES), "", &mut lines)?;
    let reached: BTreeSet<(&str, u32)> =
        sites.iter().map(|site| (site.file.trim_start_matches(library), site.line)).collect();
    let listed = listed()?;
    let (all, mut unused) = (lines.len(), listed.keys().collect::<BTreeSet<_>>());
    let (mut excused, mut open) = (0, Vec::new());
    println!("\n=== lines with an ordering that no scenario comes to ===");
    for ((file, line), text) in lines {
        if (line.saturating_sub(WRAPPED)..=line).any(|line| reached.contains(&(file.as_str(), line))) {
            continue;
        }
        let entry = format!("{file} | {text}");
        match listed.get(&entry) {
            Some(reason) => {
                unused.remove(&entry);
                excused += 1;
                println!("{file}:{line}: {text}\n    {reason}");
            }
            None => open.push(format!("{file}:{line}\n    {entry}")),
        }
    }
    println!("{all} lines: {excused} out of reach and listed with the reason, {} out of reach and not", open.len());
    open.iter().for_each(|line| println!("open: {line}"));
    unused.iter().for_each(|entry| println!("listed, and reached, or not in the sources: {entry}"));
    Ok(open.is_empty() && unused.is_empty())
}

/// What is the seam and no algorithm.
const SEAM: [&str; 4] = ["platform.rs", "platform/patience.rs", "platform/pi.rs", "platform/word.rs"];

/// The lines with an ordering of every algorithm file, without tests: by file and number.
fn collect(folder: &Path, name: &str, lines: &mut BTreeMap<(String, u32), String>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(base) = path.file_name().and_then(|base| base.to_str()) else { continue };
        let file = if name.is_empty() { base.to_owned() } else { format!("{name}/{base}") };
        if path.is_dir() {
            if !matches!(base, "linux" | "tests") {
                collect(&path, &file, lines)?;
            }
        } else if base.ends_with(".rs") && base != "tests.rs" && !SEAM.contains(&&*file) {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let code = text.lines().take_while(|line| *line != "mod tests {");
            for (number, line) in (1..).zip(code.map(|line| line.split("//").next().unwrap_or_default().trim())) {
                if !line.starts_with("use ") && ORDERS.iter().any(|order| has_word(line, order)) {
                    lines.insert((file.clone(), number), line.to_owned());
                }
            }
        }
    }
    Ok(())
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let whole = word.contains(':') || !line[at + word.len()..].starts_with(part);
        whole && !line[..at].ends_with(part)
    })
}

fn listed() -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| match line.rsplit_once(" | ") {
            Some((entry, reason)) if !reason.trim().is_empty() => Ok((entry.to_owned(), reason.to_owned())),
            _ => Err(format!("{FILE}: no reason: {line}")),
        })
        .collect()
}
