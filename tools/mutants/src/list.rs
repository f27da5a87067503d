//! What cargo-mutants would change, as it lists it itself, and what was said of mutants that no
//! test can notice.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// Where the algorithms are.
const ALGORITHMS: [&str; 16] = [
    "crates/lockyard/src/*.rs",
    "crates/lockyard/src/spin/**",
    "crates/lockyard/src/rwsem/*.rs",
    "crates/lockyard/src/rtmutex_tree/*.rs",
    "crates/lockyard/src/rtmutex/*.rs",
    "crates/lockyard/src/qrwlock/embed.rs",
    "crates/lockyard/src/qrwlock/fair.rs",
    "crates/lockyard/src/qrwlock/mod.rs",
    "crates/lockyard/src/history/semaphore.rs",
    "crates/lockyard/src/history/rwsem/*.rs",
    "crates/lockyard/src/history/qrwlock/mod.rs",
    "crates/lockyard/src/history/qrwlock/policy.rs",
    "crates/lockyard/src/wait/**",
    "crates/lockyard/src/futex_hash/*.rs",
    "crates/lockyard/src/platform/record.rs",
    "crates/lockyard/src/platform/thread.rs",
];
/// Of those: what is not an algorithm.
const OTHERS: [&str; 5] = [
    "crates/lockyard/src/lib.rs",
    "crates/lockyard/src/platform.rs",
    "crates/lockyard/src/event.rs",
    "**/tests.rs",
    "**/tests/**",
];

/// Mutants that no test can tell from the original, with the reason.
const EXPLAINED: &str = "crates/lockyard/mutants-explained.txt";

/// The kinds of change that cargo-mutants makes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
pub(crate) enum Genre {
    /// A function returns a value at once.
    FnValue,
    /// An operator of two operands is another.
    BinaryOperator,
    /// A `!` or a `-` is not there.
    UnaryOperator,
    /// An arm of a match is not there.
    MatchArm,
    /// A guard of an arm is `true`, or `false`.
    MatchArmGuard,
    /// A field is left to the structure that the others come from.
    StructField,
}

/// One change.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) file: String,
    pub(crate) genre: Genre,
    /// `FILE:LINE:COLUMN: what is changed in which function`.
    pub(crate) name: String,
    /// What stands there instead.
    pub(crate) replacement: String,
    pub(crate) span: Span,
}

impl Mutant {
    /// What is changed, without the place.
    pub(crate) fn change(&self) -> &str {
        self.name.splitn(4, ':').nth(3).map_or(&*self.name, str::trim)
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Position,
}

/// Both from one; columns count letters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// All mutants of the algorithm files.
pub(crate) fn mutants(root: &Path) -> Result<Vec<Mutant>, String> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["mutants", "--package", "lockyard", "--list", "--json"]);
    command.args(ALGORITHMS.iter().flat_map(|file| ["--file", file]));
    command.args(OTHERS.iter().flat_map(|file| ["--exclude", file]));
    let output = command.output().map_err(|error| format!("cargo mutants: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo mutants: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo mutants --list --json: {error}"))
}

/// A mutant, or all of a line, and why no test can tell it from the original.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Explained {
    file: String,
    line: String,
    change: String,
    /// Of several such changes of the line the one with this number from the left; all.
    place: Option<usize>,
}

impl Explained {
    /// Whether this is about `mutant`, the change with this `place` among the same of its line,
    /// which says `line`.
    pub(crate) fn is(&self, mutant: &Mutant, line: &str, place: usize) -> bool {
        mutant.file.strip_prefix("crates/lockyard/src/") == Some(&*self.file)
            && (line.trim() == self.line || line.split("//").next().is_some_and(|code| code.trim() == self.line))
            && (self.change == "*" || mutant.change().replace(' ', "").starts_with(&*self.change))
            && self.place.is_none_or(|wanted| wanted == place)
    }
}

/// The list of the explained ones.
pub(crate) fn explained(root: &Path) -> Result<Vec<Explained>, String> {
    read(&fs::read_to_string(root.join(EXPLAINED)).map_err(|error| format!("{EXPLAINED}: {error}"))?)
}

/// Lines `FILE | SOURCE LINE | CHANGE | REASON`; the line itself may have bars.
fn read(text: &str) -> Result<Vec<Explained>, String> {
    let entries = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |entry: &str| {
        let (file, rest) = entry.split_once(" | ")?;
        let (rest, reason) = rest.rsplit_once(" | ")?;
        let (line, change) = rest.rsplit_once(" | ")?;
        let fields = [file, line, change, reason].map(|field| field.trim().to_owned());
        let [file, line, change, reason] = fields;
        let (change, place) = match change.rsplit_once('#') {
            Some((change, place)) => (change.to_owned(), Some(place.parse().ok()?)),
            None => (change, None),
        };
        (!reason.is_empty()).then_some(Explained { file, line, change, place })
    };
    let entry = |(number, line): (usize, &str)| {
        read(line).ok_or_else(|| {
            format!(
                "{EXPLAINED}:{}: write FILE | SOURCE LINE | CHANGE | REASON, with * for all changes of a line",
                number + 1
            )
        })
    };
    entries.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str) -> Mutant {
        let start = Position { line: 1, column: 1 };
        let file = "crates/lockyard/src/spin/a.rs".to_owned();
        Mutant {
            file,
            genre: Genre::BinaryOperator,
            name: name.to_owned(),
            replacement: String::new(),
            span: Span { start },
        }
    }

    #[test]
    fn an_explanation_names_a_line_and_a_change_of_it() {
        let plus = mutant("crates/lockyard/src/spin/a.rs:1:5: replace + with - in f");
        let or = mutant("crates/lockyard/src/spin/a.rs:1:9: replace | with ^ in f");
        let explained =
            read("# a comment\n\nspin/a.rs | a + b | c | replace|with^ | never both\nspin/a.rs | x | * | y\n").unwrap();
        assert_eq!(explained.len(), 2);
        assert!(explained[0].is(&or, "    a + b | c", 1) && explained[0].is(&or, "    a + b | c // why", 2));
        assert!(!explained[0].is(&plus, "a + b | c", 1) && !explained[0].is(&or, "a + b | d", 1));
        assert!(explained[1].is(&plus, "x", 1));
        let second = &read("spin/a.rs | a | b | c | replace|with^#2 | disjoint\n").unwrap()[0];
        assert!(second.is(&or, "a | b | c", 2) && !second.is(&or, "a | b | c", 1));
        assert!(read("spin/a.rs | a | replace|with^#two | disjoint\n").is_err());
        let error = read("spin/a.rs | a + b | *\n").unwrap_err();
        assert!(error.contains("mutants-explained.txt:1: write FILE | SOURCE LINE | CHANGE | REASON"), "{error}");
    }

    #[test]
    fn the_list_can_be_read() {
        explained(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    }
}
