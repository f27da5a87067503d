//! House rules that no compiler checks, over every `.rs` file of the workspace; `documents.rs` has
//! those of the documents, `lab` those of what is made from records.
//!
//! * A file has at most 450 lines.
//! * A comment, in C and C++ too, has at most 100 columns, but for the rows of tables and what is
//!   drawn.
//! * Nothing is left for later and no test is switched off.
//! * The lists of excused ordering mutants (`loom-survivors.txt`) and of lines without one
//!   (`loom-unreached.txt`) name lines that are in the sources: the check that needs these lists
//!   takes too long to run each time.
//! * No two modules of a crate use each other, directly or through others: see `circles`.
//! * The library reaches the machine through the seam only: outside `platform.rs` and `platform/`
//!   no file of `crates/lockyard/src` names an atomic, a thread, a clock or a system call. Clippy
//!   forbids the same by path (`crates/lockyard/clippy.toml`); this check sees code that the
//!   current features leave out, too. `src/api/` alone may read std's clock, because `lock_api`
//!   states deadlines in it.
//!
//! Comments and string literals are not looked at, nor, for the seam, unit tests (`#[cfg(test)]` to
//! the end of the file, `tests.rs` and what is in `tests/`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::circles::circles;
use crate::tools::Outcome;
use crate::{documents, lab};

const LONGEST: usize = 450;

const COLUMNS: usize = 100;
const WIDE: &str = "a comment of more than 100 columns";

const UNFINISHED: [&str; 3] = ["todo!", "unimplemented!", "#[ignore"];

const SEAM: [&str; 9] = [
    "core::sync::atomic",
    "std::sync",
    "std::thread",
    "Instant::now",
    "SystemTime",
    "libc::",
    "rustix::",
    "hint::spin_loop",
    "asm!",
];

const LIBRARY: &str = "crates/lockyard/src";

/// Lists of `FILE | SOURCE LINE | …`: where each is, and how many fields follow the line.
const LISTS: [(&str, usize); 3] = [
    ("crates/lockyard-check/loom-survivors.txt", 2),
    ("crates/lockyard-check/loom-unreached.txt", 1),
    ("crates/lockyard/mutants-explained.txt", 2),
];

/// The surface speaks std's `Instant` where `lock_api` does.
const SURFACE: (&str, &str) = ("crates/lockyard/src/api", "Instant::now");

/// Fails with one line per breach.
pub(crate) fn check() -> Outcome {
    let mut files = Vec::new();
    for folder in ["crates", "tools", "xtask"] {
        collect(Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut breaches = Vec::new();
    let mut crates: BTreeMap<&Path, Vec<(&str, String)>> = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        if file.extension().is_some_and(is_c) {
            let wide = text.lines().enumerate().filter(|(_, line)| is_wide(line, &["//", "/*", "* "]));
            breaches.extend(wide.map(|(number, _)| format!("{}:{}: {WIDE}", file.display(), number + 1)));
            continue;
        }
        breaches.extend(look(file, &text));
        if let Some((sources, name)) = in_sources(file) {
            crates.entry(sources).or_default().push((name, code_of(&text)));
        }
    }
    for (sources, files) in &crates {
        breaches.extend(circles(files).into_iter().map(|circle| format!("{}: a circle: {circle}", sources.display())));
    }
    for (name, fields) in LISTS {
        let list = fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
        breaches.extend(stale(name, &list, fields, |file| fs::read_to_string(Path::new(LIBRARY).join(file)).ok()));
    }
    println!("{} files", files.len());
    breaches.extend(documents::check()?);
    breaches.extend(lab::check().err());
    if breaches.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{} breaches; rerun: cargo xtask lint", breaches.join("\n"), breaches.len()))
}

/// The folder of its crate's sources, and the path from there.
fn in_sources(file: &Path) -> Option<(&Path, &str)> {
    let sources = file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "src"))?;
    Some((sources, file.strip_prefix(sources).ok()?.to_str()?))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs" || is_c(extension)) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_c(extension: &OsStr) -> bool {
    ["c", "h", "cc", "cpp", "hpp"].iter().any(|known| extension == *known)
}

fn look(file: &Path, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut found = |line: usize, what: &str| breaches.push(format!("{}:{line}: {what}", file.display()));
    let lines = text.lines().count();
    if lines > LONGEST {
        found(LONGEST, &format!("{lines} lines; one algorithm, one file, at most {LONGEST}"));
    }
    let mut drawing = false;
    for (number, line) in text.lines().enumerate() {
        let said = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        drawing = if said.starts_with("```") { said == "```text" } else { drawing };
        if !drawing && is_wide(line, &["//"]) {
            found(number + 1, WIDE);
        }
    }
    let mut algorithm = file.starts_with(LIBRARY)
        && !file.iter().any(|part| part == "tests" || part == "tests.rs")
        && !file.starts_with(Path::new(LIBRARY).join("platform"))
        && file != Path::new(LIBRARY).join("platform.rs");
    for (number, line) in code_of(text).lines().enumerate() {
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            found(number + 1, &format!("`{word}` left in the code"));
        }
        algorithm &= !line.contains("#[cfg(test)]") && !line.contains("#[cfg(all(test");
        for word in SEAM.iter().filter(|word| algorithm && line.contains(**word)) {
            if file.starts_with(SURFACE.0) && *word == SURFACE.1 {
                continue;
            }
            found(number + 1, &format!("`{word}` outside the seam: ask `crate::platform::Platform`"));
        }
    }
    breaches
}

/// Whether `line` is a comment, with one of these beginnings, that is too wide and could be folded.
fn is_wide(line: &str, begins: &[&str]) -> bool {
    let comment = line.trim_start();
    let said = comment.trim_start_matches(['/', '!', '*']).trim_start();
    begins.iter().any(|begin| comment.starts_with(begin))
        && line.chars().count() > COLUMNS
        && !said.starts_with('|')
        && said.contains(' ')
}

/// Entries of the list `name`, `FILE | SOURCE LINE` and so many fields, whose line is not in its
/// file. (Comments do not count: the list may name the code alone.)
fn stale(name: &str, list: &str, fields: usize, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let names_a_line = |entry: &str| {
        let (file, mut wanted) = entry.split_once(" | ")?;
        // From behind: the line itself may have bars.
        for _ in 0..fields {
            wanted = wanted.rsplit_once(" | ")?.0;
        }
        let text = read(file)?;
        let is_it =
            |line: &str| line.trim() == wanted || line.split("//").next().is_some_and(|code| code.trim() == wanted);
        text.lines().any(is_it).then_some(())
    };
    let entries = list.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let stale = entries.filter(|(_, entry)| names_a_line(entry).is_none());
    stale.map(|(number, entry)| format!("{name}:{}: not in the sources: {entry}", number + 1)).collect()
}

/// The text with comments and the contents of string and character literals blanked, line by line.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].chars().filter(|c| *c == '\n'));
        rest = &rest[length..];
    }
    code
}

/// The length of the string or character literal that `text` starts with.
fn literal(text: &str) -> Option<usize> {
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", &raw[..hashes]);
            let body = hashes + 1;
            return Some(1 + raw[body..].find(&end).map_or(raw.len(), |at| body + at + end.len()));
        }
    }
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + 1),
            // A lifetime, not a character: a literal would have closed by now.
            _ if quote == '\'' && at > 1 && !text[1..].starts_with('\\') => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_c_are_folded_too() {
        let words = "word ".repeat(25);
        for (line, wide) in [
            (format!(" * {words}"), true),
            (format!("/* {words}"), true),
            (format!("    call({words});"), false),
            (format!("// {}", "x".repeat(120)), false),
        ] {
            assert_eq!(is_wide(&line, &["//", "/*", "* "]), wide, "{line}");
        }
        assert!(!is_wide(&format!(" * {words}"), &["//"]), "a product");
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "a // b\nc /* d\ne */ f \"g \\\" h\" i 'j' k<'l> '\\'' m r#\"n \" o\"# p for";
        assert_eq!(code_of(text), "a \nc \n f  i  k<'l>  m  p for");
    }

    #[test]
    fn survivors_that_are_gone_are_stale() {
        let read = |file: &str| (file == "a.rs").then(|| "fn f() {\n    x |= y | z;\n}".to_owned());
        let list = "# FILE | LINE\na.rs | x |= y | z; | Relaxed | why\na.rs | x |= y; | Relaxed | why\nb.rs | x | Relaxed | why\n";
        let stale = |list, fields| super::stale("list.txt", list, fields, read);
        let gone = stale(list, 2);
        assert_eq!(gone.len(), 2, "{gone:?}");
        assert!(gone[0].contains("txt:3:") && gone[1].contains("txt:4:"));
        assert_eq!(stale("a.rs | x |= y | z; | why\na.rs | x |= y; | why\n", 1).len(), 1);
    }

    #[test]
    fn breaches_are_found_where_they_are() {
        let breaches = |path: &str, text: &str| look(Path::new(path), text).len();
        let atomics = "//! std::thread\nuse core::sync::atomic::AtomicU32;\n#[cfg(test)]\nuse std::thread;\n";
        assert_eq!(breaches("crates/lockyard/src/mutex.rs", atomics), 1);
        assert_eq!(breaches("crates/lockyard/src/platform.rs", atomics), 0);
        assert_eq!(breaches("crates/lockyard/src/platform/linux/clock.rs", atomics), 0);
        assert_eq!(breaches("crates/lockyard-work/src/lib.rs", atomics), 0);
        assert_eq!(breaches("crates/lockyard/src/rwsem/tests/machine.rs", "use std::thread;"), 0);
        assert_eq!(breaches("crates/lockyard/src/api/mod.rs", "use std::thread;\nInstant::now()"), 1);
        let unfinished = format!("fn f() {{ {}() }}\n{}]\n", UNFINISHED[0], UNFINISHED[2]);
        assert_eq!(breaches("crates/lockyard-work/src/lib.rs", &unfinished), 2);
        assert_eq!(breaches("xtask/src/long.rs", &"\n".repeat(LONGEST + 1)), 1);
        let (comment, row) = (format!("//! {}", "a ".repeat(60)), format!("/// | {}", "a ".repeat(60)));
        assert_eq!(breaches("xtask/src/wide.rs", &format!("{comment}\n{row}\n    {comment}")), 2);
    }
}
