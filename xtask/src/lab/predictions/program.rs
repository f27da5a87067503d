//! The programs: how each is recorded, predicted and measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::json::{self, Value};
use crate::tools::{self, Outcome, capture};

/// Longest run of a program.
const LIMIT: Duration = Duration::from_secs(60);
/// Seconds that are recorded.
const RECORDED_SECONDS: &str = "1";

/// A program that takes `THREADS SECONDS` and prints what it did.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) name: &'static str,
    made: Made,
}

/// Where it comes from.
#[derive(Clone, Copy)]
enum Made {
    /// A kind of `space.c`.
    Space { rwlock: bool },
    /// A driver of `crates/lockyard-preload/programs`, with the libraries that it needs and the
    /// file and package that tell of them; whether it wants a folder to store in.
    Driver {
        source: &'static str,
        links: &'static [&'static str],
        needs: &'static [(&'static str, &'static str)],
        stores: bool,
    },
}

const SPACE: [&str; 15] = [
    "hot", "short", "no-think", "think10", "think100", "long", "hashed", "readers", "nested", "chain", "sleep",
    "roles", "try", "queue", "posts",
];

const DRIVERS: [Program; 3] = [
    Program { name: "shard", made: Made::Driver { source: "shard.c", links: &[], needs: &[], stores: false } },
    Program {
        name: "leveldb",
        made: Made::Driver {
            source: "leveldb.cc",
            links: &["-lleveldb"],
            needs: &[("/usr/include/leveldb/db.h", "libleveldb-dev")],
            stores: true,
        },
    },
    Program {
        name: "rocksdb",
        made: Made::Driver {
            source: "rocksdb.cc",
            links: &["-lrocksdb"],
            needs: &[("/usr/include/rocksdb/db.h", "librocksdb-dev")],
            stores: true,
        },
    },
];

impl Program {
    pub(super) fn all() -> Vec<Program> {
        let space = SPACE.iter().map(|name| Program { name, made: Made::Space { rwlock: *name == "readers" } });
        space.chain(DRIVERS).collect()
    }

    pub(super) fn named(name: &str) -> Outcome<Program> {
        let names = || Program::all().iter().map(|program| program.name).collect::<Vec<_>>().join(", ");
        let found = Program::all().into_iter().find(|program| program.name == name);
        found.ok_or_else(|| format!("lab predictions: '{name}'? One of {}", names()))
    }

    pub(super) fn is_rwlock(&self) -> bool {
        matches!(self.made, Made::Space { rwlock: true })
    }
}

/// On which locks a program is measured.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Locks {
    Glibc,
    /// The preload library's, as `lockyard run --lock` has them.
    Ours(&'static str),
}

/// What a program did.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    /// Per second.
    pub(super) operations: f64,
    /// CPUs' worth of its own computing, where it says so.
    pub(super) computed: Option<f64>,
}

impl Rate {
    pub(super) fn median(rates: Vec<Rate>) -> Rate {
        let middle = |mut numbers: Vec<f64>| {
            numbers.sort_by(f64::total_cmp);
            numbers.get(numbers.len() / 2).copied()
        };
        let computed = middle(rates.iter().filter_map(|rate| rate.computed).collect());
        Rate { operations: middle(rates.iter().map(|rate| rate.operations).collect()).unwrap_or_default(), computed }
    }

    /// What stands for progress.
    pub(super) fn useful(&self) -> f64 {
        self.computed.unwrap_or(self.operations)
    }

    fn of(text: &str) -> Option<Rate> {
        let before = |word: &str| text.lines().find_map(|line| line.strip_suffix(word));
        let (operations, rest) = text.lines().find_map(|line| line.split_once(" operations, "))?;
        let seconds: f64 = rest.strip_suffix(" seconds, 0 errors")?.parse().ok()?;
        let computed = before(" CPUs computed").and_then(|number| number.parse().ok());
        Some(Rate { operations: operations.parse::<f64>().ok()? / seconds, computed })
    }
}

/// The command, the library, and a folder for what is made.
pub(super) struct Tools {
    lockyard: PathBuf,
    folder: PathBuf,
}

impl Tools {
    /// For `programs`: what one of them needs is installed now, not beside a measurement.
    pub(super) fn build(programs: &[Program]) -> Outcome<Tools> {
        tools::need("cc", "gcc")?;
        tools::need("taskset", "util-linux")?;
        for program in programs {
            if let Made::Driver { needs, .. } = program.made {
                needs.iter().try_for_each(|(file, package)| tools::need_file(file, package))?;
            }
        }
        tools::cargo("build --release -p lockyard-cli -p lockyard-preload")?;
        let folder = tools::target().join("predictions");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let source = tools::root().join("xtask/src/lab/predictions/space.c");
        capture(Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(folder.join("space")).arg(source))?;
        Ok(Tools { lockyard: tools::target().join("release/lockyard"), folder })
    }

    /// The words that run `program`.
    fn words(&self, program: &Program, threads: u32, seconds: &str) -> Outcome<Vec<String>> {
        let mut words = match program.made {
            Made::Space { .. } => vec![self.folder.join("space").display().to_string(), program.name.to_owned()],
            Made::Driver { source, links, stores, .. } => {
                let store = self.folder.join(format!("{}-store", program.name));
                let driver = crate::programs::driver(source, links)?.display().to_string();
                if stores { vec![driver, store.display().to_string()] } else { vec![driver] }
            }
        };
        words.extend([threads.to_string(), seconds.to_owned()]);
        Ok(words)
    }

    /// Records `program` with `threads`, on one CPU if `pinned`, and predicts it for this machine.
    pub(super) fn predict(
        &self,
        program: &Program,
        threads: u32,
        pinned: bool,
        asked: &[u32],
        locks: &str,
        what_if: Option<&str>,
    ) -> Outcome<Predicted> {
        let file = self.folder.join(format!("{}.lyr", program.name));
        let mut record = match pinned {
            true => pinned_to_one(&self.lockyard),
            false => Command::new(&self.lockyard),
        };
        record.args(["record", "--out"]).arg(&file).arg("--");
        capture(record.args(self.words(program, threads, RECORDED_SECONDS)?))?;
        let list = asked.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut predict = Command::new(&self.lockyard);
        predict.arg("predict").arg(&file).args(["--machine", "this", "--threads", &list, "--json", "--class", "all"]);
        predict.args(["--lock", if locks.is_empty() { "none" } else { locks }]);
        if let Some(change) = what_if {
            predict.args(["--what-if", change]);
        }
        Ok(Predicted { document: json::parse(&capture(&mut predict)?)? })
    }

    /// Runs `program` once.
    pub(super) fn measure(&self, program: &Program, threads: u32, locks: Locks, seconds: f64) -> Outcome<Rate> {
        // The drivers count whole seconds.
        let seconds = if let Made::Driver { .. } = program.made { "1".to_owned() } else { seconds.to_string() };
        let words = self.words(program, threads, &seconds)?;
        let mut command = match locks {
            Locks::Glibc => Command::new(&words[0]),
            Locks::Ours(names) => {
                let mut command = Command::new(&self.lockyard);
                command.args(["run", "--lock", names, "--", &words[0]]);
                command
            }
        };
        let (text, status) = crate::programs::finish(command.args(&words[1..]), LIMIT)?;
        Rate::of(&text).filter(|_| status.success()).ok_or_else(|| format!("{}: {status}\n{text}", words.join(" ")))
    }
}

fn pinned_to_one(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program);
    command
}

/// What `lockyard predict --json` said.
pub(super) struct Predicted {
    document: Value,
}

impl Predicted {
    /// Progress with `threads`: as it is, with `change` in place of all its locks, or changed so.
    pub(super) fn progress(&self, change: &str, threads: u32) -> Outcome<f64> {
        let wanted = ["as it is".to_owned(), format!("{change} on all"), change.to_owned()];
        let wanted = if change.is_empty() { &wanted[..1] } else { &wanted[1..] };
        let is = |alternative: &&Value| wanted.iter().any(|wanted| wanted == alternative.text("name"));
        let found = self.document.list("alternatives").iter().find(is);
        let points = found.map(|alternative| alternative.list("points")).unwrap_or_default();
        let point = points.iter().find(|point| point.number("threads") == Some(f64::from(threads)));
        let progress = point.and_then(|point| point.number("progress")).filter(|progress| *progress > 0.0);
        progress.ok_or_else(|| format!("no prediction of '{change}' with {threads} threads"))
    }
}
