//! What is known of mutants from earlier runs, and the sources that it depends on.
//!
//! A verdict is written down as it falls, a line each. That a mutant dies or does not compile is
//! true for as long as its file is as it was; that nobody noticed it, for as long as no source of
//! the project changes.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::list::Mutant;

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It does not compile.
    Unviable,
    /// By which test.
    Failed(String),
    /// In which test.
    Hung(String),
    /// So many tests passed, of so many that meet it.
    Missed(usize, usize),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unviable => f.write_str("unviable"),
            Self::Failed(test) => write!(f, "failed {test}"),
            Self::Hung(test) => write!(f, "hung {test}"),
            Self::Missed(passed, all) => write!(f, "missed {passed} {all}"),
        }
    }
}

impl Verdict {
    fn read(text: &str) -> Option<Self> {
        if text == "unviable" {
            return Some(Self::Unviable);
        }
        let (word, rest) = text.split_once(' ')?;
        match word {
            "failed" => Some(Self::Failed(rest.to_owned())),
            "hung" => Some(Self::Hung(rest.to_owned())),
            "missed" => {
                let (passed, all) = rest.split_once(' ')?;
                Some(Self::Missed(passed.parse().ok()?, all.parse().ok()?))
            }
            _ => None,
        }
    }

    pub(crate) fn is_missed(&self) -> bool {
        matches!(self, Self::Missed(..))
    }
}

/// Verdicts that are still true.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Each mutated file, and a number that is another when it changes.
    files: HashMap<String, (String, u64)>,
    everything: u64,
    path: PathBuf,
    /// By the mutant's name.
    verdicts: BTreeMap<String, Verdict>,
    file: Mutex<File>,
}

impl Memory {
    /// Of what was written in `folder`.
    pub(crate) fn recall(root: &Path, folder: &Path, mutants: &[Mutant]) -> Result<Self, String> {
        let mut files = HashMap::new();
        for mutant in mutants {
            if !files.contains_key(&mutant.file) {
                let path = root.join(&mutant.file);
                let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let stamp = stamp(&text);
                files.insert(mutant.file.clone(), (text, stamp));
            }
        }
        let mut sources = Vec::new();
        collect(&root.join("crates"), &mut sources);
        sources.sort();
        let everything: Vec<String> = sources.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        let path = folder.join("verdicts.txt");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let file = fs::create_dir_all(folder).and_then(|()| OpenOptions::new().create(true).append(true).open(&path));
        let file = Mutex::new(file.map_err(|error| format!("{}: {error}", path.display()))?);
        let mut memory = Self { files, everything: stamp(&everything), path, verdicts: BTreeMap::new(), file };
        let old = text.lines().filter_map(|line| memory.read(line));
        memory.verdicts = old.collect();
        Ok(memory)
    }

    /// Where the verdicts are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn verdict(&self, mutant: &Mutant) -> Option<&Verdict> {
        self.verdicts.get(&mutant.name)
    }

    /// A verdict that is not written is reached again next time.
    pub(crate) fn write(&self, mutant: &Mutant, verdict: &Verdict) {
        let line = format!("{} {} => {verdict}\n", self.stamp(&mutant.file, verdict), mutant.name);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        drop(file.write_all(line.as_bytes()));
    }

    /// The line of the source that `mutant` changes.
    pub(crate) fn line(&self, mutant: &Mutant) -> &str {
        let text = self.files.get(&mutant.file).map_or("", |(text, _)| text);
        text.lines().nth(mutant.span.start.line - 1).unwrap_or_default().trim()
    }

    fn stamp(&self, file: &str, verdict: &Verdict) -> u64 {
        if verdict.is_missed() { self.everything } else { self.files.get(file).map_or(0, |(_, stamp)| *stamp) }
    }

    fn read(&self, line: &str) -> Option<(String, Verdict)> {
        let (stamp, rest) = line.split_once(' ')?;
        let (name, verdict) = rest.split_once(" => ")?;
        let verdict = Verdict::read(verdict)?;
        let file = name.split(':').next()?;
        (stamp.parse() == Ok(self.stamp(file, &verdict))).then(|| (name.to_owned(), verdict))
    }
}

fn stamp(what: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// All sources in a folder.
pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::{Genre, Position, Span};

    #[test]
    fn deaths_outlive_changes_elsewhere_and_survival_does_not() {
        let root = std::env::temp_dir().join(format!("lockyard-mutants-{}", std::process::id()));
        let crates = root.join("crates");
        fs::create_dir_all(&crates).unwrap();
        fs::write(crates.join("a.rs"), "first\nsecond // why\n").unwrap();
        fs::write(crates.join("b.rs"), "").unwrap();
        let mutant = |name: &str| {
            let (start, file) = (Position { line: 2, column: 1 }, "crates/a.rs".to_owned());
            let (genre, replacement) = (Genre::BinaryOperator, String::new());
            Mutant { file, genre, name: format!("crates/a.rs:2:1: {name}"), replacement, span: Span { start } }
        };
        let mutants = ["replace + with -", "replace + with *", "replace -> u32 with 0", "delete !"].map(mutant);
        let verdicts = [
            Verdict::Failed("b: c::d".to_owned()),
            Verdict::Hung("e".to_owned()),
            Verdict::Unviable,
            Verdict::Missed(1, 2),
        ];
        let recall = || Memory::recall(&root, &root.join("target"), &mutants).unwrap();
        let known = |memory: &Memory| mutants.iter().map(|mutant| memory.verdict(mutant).cloned()).collect::<Vec<_>>();
        let memory = recall();
        assert_eq!(memory.line(&mutants[0]), "second // why");
        mutants.iter().zip(&verdicts).for_each(|(mutant, verdict)| memory.write(mutant, verdict));
        assert_eq!(known(&recall()), verdicts.clone().map(Some));
        fs::write(crates.join("b.rs"), "a test").unwrap();
        let [failed, hung, unviable, _] = verdicts.map(Some);
        assert_eq!(known(&recall()), [failed, hung, unviable, None]);
        fs::write(crates.join("a.rs"), "other").unwrap();
        assert_eq!(known(&recall()), [None, None, None, None]);
        fs::remove_dir_all(&root).unwrap();
    }
}
