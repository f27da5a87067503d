//! House rules of the documents: README.md stays one page, lines end at 100 columns, links lead
//! somewhere.
//!
//! Tables, code and generated blocks may be wider. Links to other hosts are not followed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::lab;
use crate::tools::Outcome;

const COLUMNS: usize = 100;

/// What the front page may have.
const WORDS: usize = 900;
const LINES: usize = 120;
const NUMBERS: usize = 40;
const PICTURES: std::ops::RangeInclusive<usize> = 1..=3;

/// Every breach, one line each.
pub(crate) fn check() -> Outcome<Vec<String>> {
    let paths = all()?;
    let mut breaches = Vec::new();
    for path in &paths {
        let text = read(path)?;
        let name = path.display().to_string();
        breaches.extend(wide(&text).into_iter().map(|(line, what)| format!("{name}:{line}: {what}")));
        let dead = links(&text).into_iter().filter_map(|link| dead(path, &link));
        breaches.extend(dead.map(|what| format!("{name}: {what}")));
    }
    let page = Page::of(&read(Path::new("README.md"))?);
    println!("{} documents; README.md: {page}", paths.len());
    breaches.extend(page.breaches());
    Ok(breaches)
}

/// The paths of all documents.
pub(crate) fn all() -> Outcome<Vec<PathBuf>> {
    let mut paths = Vec::new();
    collect(Path::new("."), &mut paths)?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path.strip_prefix(".").unwrap_or(&path).to_owned());
        }
    }
    Ok(())
}

/// Lines that are too wide: not in a table, in code or in a generated block, and not one long word.
fn wide(text: &str) -> Vec<(usize, String)> {
    let (mut code, mut generated) = (false, false);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        code ^= start.starts_with("```");
        generated |= start.starts_with(lab::OPEN);
        generated &= !start.starts_with(lab::CLOSE);
        let width = line.chars().count();
        if width > COLUMNS && !code && !generated && !start.starts_with('|') && start.contains(' ') {
            found.push((number + 1, format!("{width} columns; at most {COLUMNS}")));
        }
    }
    found
}

/// Lines outside code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        code ^= line.trim_start().starts_with("```");
        !code
    })
}

/// The targets of all links and pictures outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let targets = line.split("](").skip(1);
        found.extend(targets.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()));
    }
    found
}

/// Why the link `target` of the document at `path` leads nowhere.
fn dead(path: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = path.parent().unwrap_or(Path::new(""));
    let there = if file.is_empty() { path.to_owned() } else { folder.join(file) };
    if !there.exists() {
        return Some(format!("the link {target} leads nowhere"));
    }
    let has_anchor = |text: String| text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
    let found = anchor.is_empty() || fs::read_to_string(&there).is_ok_and(has_anchor);
    (!found).then(|| format!("the link {target}: no such heading"))
}

/// A heading's anchor, as hosts of repositories make it.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// What is counted on the front page.
struct Page {
    words: usize,
    lines: usize,
    numbers: usize,
    pictures: usize,
    widest: usize,
}

impl Page {
    fn of(text: &str) -> Self {
        Page {
            words: text.split_whitespace().count(),
            lines: text.lines().count(),
            numbers: text.lines().map(numbers).sum(),
            pictures: prose(text).map(|line| line.matches("![").count()).sum(),
            widest: text.lines().map(|line| line.chars().count()).max().unwrap_or_default(),
        }
    }

    fn breaches(&self) -> Vec<String> {
        let limits = [
            (self.words, WORDS, "words"),
            (self.lines, LINES, "lines"),
            (self.numbers, NUMBERS, "numbers"),
            (self.widest, COLUMNS, "columns"),
        ];
        let over = limits.into_iter().filter(|(count, limit, _)| count > limit);
        let mut breaches: Vec<String> =
            over.map(|(count, limit, what)| format!("README.md: {count} {what}; at most {limit}")).collect();
        if !PICTURES.contains(&self.pictures) {
            let (least, most) = (PICTURES.start(), PICTURES.end());
            breaches.push(format!("README.md: {} pictures; {least} to {most}", self.pictures));
        }
        breaches
    }
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Page { words, lines, numbers, pictures, widest } = self;
        write!(f, "{words} words, {lines} lines, {numbers} numbers, {pictures} pictures, {widest} columns")
    }
}

/// Numbers of a line: runs of digits and points outside names (`x86-64`, `nps4`), links' targets
/// and comments.
fn numbers(line: &str) -> usize {
    if line.trim_start().starts_with("<!--") {
        return 0;
    }
    let (mut count, mut before, mut target) = (0, ' ', false);
    for c in line.chars() {
        target |= before == ']' && c == '(';
        target &= c != ')';
        let joined = before.is_alphanumeric() || "._-".contains(before);
        count += usize::from(c.is_ascii_digit() && !joined && !target);
        before = c;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_running_text_must_be_narrow() {
        let long = "word ".repeat(30);
        let text = format!("{long}\n| {long}|\n```\n{long}\n```\n<!-- lab:x -->\n{long}\n<!-- /lab -->\n{long}\n");
        assert_eq!(wide(&text).into_iter().map(|found| found.0).collect::<Vec<_>>(), [1, 9]);
        assert!(wide(&"w".repeat(200)).is_empty());
    }

    #[test]
    fn links_outside_code_are_found() {
        assert_eq!(links("[a](b.md#c), ![d](e.svg)\n```\n[f](g)\n```\n[h](i)"), ["b.md#c", "e.svg", "i"]);
        assert_eq!(slug("## For C and C++: `ly_…`"), "for-c-and-c-ly_");
        assert!(dead(Path::new("README.md"), "https://example.org/none").is_none());
        assert!(dead(Path::new("README.md"), "none/such.md").is_some());
    }

    #[test]
    fn numbers_are_those_a_reader_sees() {
        assert_eq!(numbers("1.5 and 20, [3](docs/4/5) x86-64 nps4 2,24"), 5);
        assert_eq!(numbers("<!-- 7 -->"), 0);
    }

    #[test]
    fn the_page_has_limits() {
        assert_eq!(Page::of("![a](b)\n```\nvec![]\nvec![]\nvec![]\n```\n").breaches(), Vec::<String>::new());
        assert_eq!(Page::of(&"1 \n".repeat(LINES + 1)).breaches().len(), 3);
    }
}
