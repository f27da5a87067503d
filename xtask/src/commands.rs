//! The list of commands: the help, the table in CONTRIBUTING.md and the dispatch are made from it.

use std::fs;

use crate::steps::{
    self, ASSEMBLY, BUILD, CLIPPY, CLIPPY_SHORT, COUNTS, DEPENDENCIES, DOC_TESTS, DOCS, DOCS_SHORT, FEATURES, FORMAT,
    GUIDE, HEADER, MODELS, PLANTED, PORTABLE, PROGRAMS, SOURCES, SURFACE, Step, TESTS, passes,
};
use crate::tools::{Outcome, cargo, misunderstood, report};
use crate::{
    contributing, counts, coverage, documents, emulated, fuzz, install, lab, models, overhead, pages, programs, qemu,
    quick, size,
};

/// One form of a command.
pub(crate) struct Form {
    /// The words that name it: a command, or a command and what of it.
    pub(crate) name: &'static str,
    options: &'static str,
    about: &'static str,
    /// How long it takes on two cores.
    time: &'static str,
    /// Runs it with the words that follow its name: the exit code. Without `options` there are
    /// none.
    run: fn(&[&str]) -> u8,
}

/// All forms. Their first words are the commands.
pub(crate) const FORMS: &[Form] = &[
    Form {
        name: "quick",
        options: "[LOCK]",
        about: "formatting, clippy, unit and scripted tests of one lock (mutex, rwsem, spin, …); without LOCK, of what git says is changed",
        time: "under a minute when warm",
        run: quick::main,
    },
    Form {
        name: "test",
        options: "",
        about: "everything that a change must pass: house rules, builds, clippy, all tests, pages, instruction counts, a short form of `programs`. The closing line counts the checks",
        time: "10 minutes cold, 4 warm",
        run: |_| {
            let first = [
                FORMAT,
                SOURCES,
                TABLE,
                DEPENDENCIES,
                BUILD,
                CLIPPY_SHORT,
                TESTS,
                FEATURES,
                PORTABLE,
                DOC_TESTS,
                DOCS_SHORT,
            ];
            passes(&[&first[..], &[SURFACE, COUNTS, ASSEMBLY, PROGRAMS]].concat())
        },
    },
    Form {
        name: "lint --fix",
        options: "",
        about: "formats the sources; makes the C header, the tables and pictures from records, and the table of commands",
        time: "40 s cold, 2 s warm",
        run: |_| report(fix()),
    },
    Form {
        name: "lint --pages",
        options: "",
        about: "doc tests; the commands of every chapter of the guide, run in empty folders; all pages, private ones too, with warnings as errors",
        time: "8 minutes cold, 2 warm",
        run: |_| passes(&[DOC_TESTS, GUIDE, DOCS]),
    },
    Form {
        name: "lint --publish",
        options: "",
        about: "what `cargo publish --dry-run` says of every package that is for others, without compiling it again",
        time: "half a minute, and the registry",
        run: |_| report(pages::publish()),
    },
    Form {
        name: "lint --semver",
        options: "[REVISION]",
        about: "cargo-semver-checks: what the public interface has lost since a revision (the newest tag, or the last commit but one); compiles it when missing",
        time: "1 minute, 10 the first time",
        run: steps::semver,
    },
    Form {
        name: "lint --deny",
        options: "",
        about: "cargo-deny over `deny.toml`: licences, sources, duplicates; compiles cargo-deny when missing",
        time: "2 s, 4 minutes the first time",
        run: |_| report(steps::deny()),
    },
    Form {
        name: "lint",
        options: "",
        about: "formatting, house rules of sources and documents, licences, clippy for every set of features with warnings as errors, the number of public functions, the C header",
        time: "1 minute cold, 10 s warm",
        run: |_| passes(&[FORMAT, SOURCES, TABLE, DEPENDENCIES, CLIPPY, SURFACE, HEADER]),
    },
    Form {
        name: "cost counts",
        options: "[--bless]",
        about: "instructions per uncontended lock and unlock against the budget, the shape of the fast paths in assembly; `--bless` writes the budget",
        time: "1 minute cold, 10 s warm",
        run: |words| match words {
            [] => passes(&[COUNTS, ASSEMBLY]),
            ["--bless"] => report(counts::bless()),
            _ => misunderstood("cost counts", words),
        },
    },
    Form {
        name: "cost size",
        options: "",
        about: "what one mutex adds to a program (code, zeroed memory) and to its clean build, by std's and parking_lot's. Exit code 1 above a limit",
        time: "30 s",
        run: |_| report(size::check()),
    },
    Form {
        name: "cost overhead",
        options: "[--rounds 9] [--out DIR]",
        about: "what the preload library adds where nobody waits: each call against glibc's, alone and beside another thread; the start of a program; what counting costs LevelDB. `--out` keeps it as a record below DIR",
        time: "2 minutes",
        run: overhead::main,
    },
    Form {
        name: "cost inversion",
        options: "[--runs 1000] [--section-us 100] [NAME...]",
        about: "how long the most urgent thread waits while a middle one is ready to run, through chains of 1 to 8 mutexes. Exit code 1 if a mutex of ours was later than a section and 100 us, 2 where fixed priorities are not permitted",
        time: "minutes",
        run: steps::inversion,
    },
    Form {
        name: "models loom",
        options: "[--only TEXT] [--short] [--bless]",
        about: "every interleaving of small scenarios, and every value that weak memory allows, to the bounds of `crates/lockyard-check/loom-counts.txt`; `--bless` writes them",
        time: "minutes; `--short` seconds",
        run: models::loom,
    },
    Form {
        name: "models shuttle",
        options: "[--lock TEXT] [--case TEXT] [--schedules N] [--crowds N] [--seed S]",
        about: "the conformance suite under random and PCT schedules, four threads and crowds of sixteen",
        time: "minutes",
        run: models::shuttle,
    },
    Form {
        name: "models mutants",
        options: "[--only TEXT] [--seconds N]",
        about: "every ordering of every lock weakened one step at a time: which scenario notices; the barrier report. A survivor needs an argument in `crates/lockyard-check/loom-survivors.txt`",
        time: "tens of minutes",
        run: models::mutants,
    },
    Form {
        name: "models planted",
        options: "",
        about: "bugs that locks have had, planted in a copy of the sources from `crates/lockyard/planted-bugs.txt`: the tests named there must notice",
        time: "minutes cold, seconds warm",
        run: |_| passes(&[PLANTED]),
    },
    Form {
        name: "models changes",
        options: "[TEXT...] [--seconds 60] [--again]",
        about: "every change that cargo-mutants (compiled when missing) lists for the algorithm files, in one build: which test notices. What none can notice is explained in `crates/lockyard/mutants-explained.txt`. A run that was stopped goes on",
        time: "ten minutes to compile, a second or two each",
        run: coverage::cargo_mutants,
    },
    Form {
        name: "models short",
        options: "",
        about: "short forms of `loom` and `shuttle`",
        time: "minutes",
        run: |_| passes(&[MODELS]),
    },
    Form {
        name: "models all",
        options: "",
        about: "loom, mutants, planted bugs, 200,000 schedules of shuttle for each lock, Miri and ThreadSanitizer where the nightly toolchain has them, coverage; prints durations",
        time: "hours",
        run: |_| u8::from(!models::verify()),
    },
    Form {
        name: "explore schedules",
        options: "[--lock LIST] [--count N] [--seed N] [--machine LIST] [--size small|crowd]",
        about: "torture under faults on simulated machines, each schedule named by its seed (all locks, 100000 each, from 1, quad2008): 2 to 4 threads, or 12. Exit code 1 with the command that repeats a failure",
        time: "a minute a lock and core",
        run: steps::schedules,
    },
    Form {
        name: "explore seeds",
        options: "[--lock LIST] [--from SEED] [--count SEEDS] [--deal CASES]",
        about: "the conformance suite of each spinlock, and of what stands on them, on simulated schedules, preempted at every call of the seam; begins with broken locks that must fail",
        time: "milliseconds a seed",
        run: steps::seeds,
    },
    Form {
        name: "explore priorities",
        options: "[--cases N] [--from SEED]",
        about: "priority inheritance on random simulated cases, every invariant before every step (100000, 1)",
        time: "see its output",
        run: steps::priorities,
    },
    Form {
        name: "explore history",
        options: "",
        about: "historical bugs of locks as models: the form that shipped must be found wanting, its repair must pass",
        time: "2 minutes cold, seconds warm",
        run: |_| steps::history(),
    },
    Form {
        name: "explore fuzz",
        options: "[NAME...] [--secs 600]",
        about: "libFuzzer on machine files, statistics segments, option values and the C interface; installs cargo-fuzz when missing",
        time: "10 minutes a target",
        run: fuzz::main,
    },
    Form {
        name: "explore qemu",
        options: "[--secs 2] [--lock LIST] [--shape 8x4]",
        about: "Debian's kernel under QEMU (installed when missing), 8 CPUs in 4 NUMA nodes and 16 in 4: topology, queueing by node, torture",
        time: "2 to 3 minutes",
        run: qemu::main,
    },
    Form {
        name: "explore emulated",
        options: "[aarch64] [s390x]",
        about: "the tests of the library on other processors, and of the preload library on AArch64, under QEMU's emulation of a user's program; installs it and the compilers when missing",
        time: "8 minutes",
        run: emulated::main,
    },
    Form {
        name: "programs soak",
        options: "[memcached] [mariadb]",
        about: "ten minutes each on our locks at eight threads of load per CPU: no errors, no growth of memory",
        time: "20 minutes",
        run: programs::soak,
    },
    Form {
        name: "programs",
        options: "[NAME...] [--secs 5] [--threads 8] [--rounds 3] [--told]",
        about: "real programs on glibc's locks and, preloaded, on ours: loads with checked results, throughput of both in a table; `--told`: what `lockyard stat` says of them, and whether it is true. NAME: memcached, leveldb, jemalloc-first, jemalloc-last, rocksdb, db-bench, shard, mariadb, unbound, nginx, apache, stress-ng; none: all. Installs them",
        time: "6 minutes for all",
        run: programs::main,
    },
    Form {
        name: "coverage",
        options: "",
        about: "lines of the algorithm files that tests reach; compiles cargo-llvm-cov when missing",
        time: "20 minutes",
        run: |_| report(coverage::coverage()),
    },
    Form {
        name: "lab run",
        options: "WHAT [--short] [--host NAME] [--out DIR] [--program LOCKYARD]",
        about: "records a measurement in docs/lab: `front` (the mutexes of README.md's picture, on a quiet machine), `grid` (the score of every family, likewise) or `trust` (the simulator's score)",
        time: "9 minutes, 13 minutes, 4 minutes",
        run: |words| report(lab::run(words)),
    },
    Form {
        name: "lab table",
        options: "[--check]",
        about: "rewrites the marked blocks of README.md and of the documents below docs, and `docs/front.svg`, from the newest records; `--check` only looks, as `lint` does",
        time: "1 s",
        run: |words| match words {
            [] => report(lab::table(false)),
            ["--check"] => report(lab::table(true)),
            _ => misunderstood("lab table", words),
        },
    },
    Form {
        name: "lab predictions",
        options: "[PROGRAM...] [--short] [--host NAME] [--out DIR]",
        about: "programs are recorded with two threads, predicted, and only then measured, on glibc's locks and others: prints every cell and the score of each question, and records them in docs/lab. On a quiet machine",
        time: "20 minutes; --short: 5",
        run: lab::predict,
    },
    Form {
        name: "lab foreign",
        options: "DIR... [--secs 60] [--jobs CPUS] [--cflags WORDS] [--preload LIBRARY]",
        about: "other people's C test programs (the Open POSIX Test Suite's, whatever DIR holds; none is in the repository), each compiled and run on glibc's locks and under the preload library: prints those that end differently, then the counts. Ctrl-C ends it with what was found",
        time: "as the suite",
        run: lab::compare_foreign,
    },
    Form {
        name: "lab parking-lot",
        options: "[own] [std] [CRATE...]",
        about: "parking_lot's own tests, std's, and tests of crates that use most of parking_lot's types (tokio, parity-db, epaint, nebari, surrealkv), with Lockyard in its place: passed and failed, in a table. cargo fetches them",
        time: "10 minutes, and the downloads",
        run: lab::stand_in_for_parking_lot,
    },
    Form {
        name: "lab targets",
        options: "[TARGET...] [--all]",
        about: "compiles the library, without linking, for other systems and processors, installs what rustup has for them, and prints a table; none named: one of each kind; `--all`: all that rustup offers",
        time: "a minute for one of each kind, and the downloads",
        run: lab::targets,
    },
    Form {
        name: "lab cluster",
        options: "[kills] [recipes] [hyperqueue] [dask]",
        about: "sweeps whose processes are killed, compared with one in one piece: 2,000 cells with three kills; the guide's recipes, those of HyperQueue and Dask on two workers of which one is killed. Installs both in a virtual environment; none named: all",
        time: "minutes, and the downloads",
        run: lab::sweep_on_clusters,
    },
    Form {
        name: "install",
        options: "--prefix DIR | --deb FILE | --check",
        about: "the command with its manual pages and completions, the C libraries, headers, files for pkg-config and CMake under DIR (/usr/local), after DESTDIR of the environment; `--deb` packs them into a Debian package; `--check` installs beside the build and compiles against it",
        time: "as the build",
        run: |words| match words {
            ["--check"] => passes(&[steps::INSTALLED]),
            _ => report(install::run(words)),
        },
    },
];

fn fix() -> Outcome {
    cargo("fmt --all")?;
    steps::header()?;
    lab::table(false)?;
    contributing::write(&table())
}

/// The form that `words` name, and the words that follow.
pub(crate) fn find<'a>(words: &'a [&'a str]) -> Option<(&'static Form, &'a [&'a str])> {
    let matches = |form: &&Form| {
        let mut at = 0;
        form.name.split(' ').all(|name| {
            at += 1;
            words.get(at - 1) == Some(&name)
        })
    };
    // The longest name: `programs soak` before `programs`.
    let form = FORMS.iter().filter(matches).max_by_key(|form| form.name.len())?;
    Some((form, &words[form.name.split(' ').count()..]))
}

/// The help: of all forms, or of those that `command` begins.
pub(crate) fn help(command: Option<&str>) -> String {
    let mut text = String::from("cargo xtask COMMAND\n");
    let chosen = |form: &&Form| command.is_none_or(|command| form.name == command || form.first() == command);
    for form in FORMS.iter().filter(chosen) {
        text += &format!("\n  {}\n", [form.name, form.options].join(" ").trim_end());
        let mut line = String::from("     ");
        for word in form.about.split(' ') {
            if line.chars().count() + 1 + word.chars().count() > 100 {
                text += &format!("{line}\n");
                line = String::from("     ");
            }
            line += " ";
            line += word;
        }
        text += &format!("{line}\n");
    }
    text
}

impl Form {
    /// Whether `option` is one of its own.
    pub(crate) fn takes(&self, option: &str) -> bool {
        self.options.split([' ', '[', ']', '|']).any(|word| word == option)
    }

    /// Runs it with the words that follow its name: the exit code.
    pub(crate) fn carry_out(&self, words: &[&str]) -> u8 {
        if self.options.is_empty() && !words.is_empty() {
            return misunderstood(self.name, words);
        }
        (self.run)(words)
    }

    /// The command that it is a form of.
    pub(crate) fn first(&self) -> &'static str {
        self.name.split(' ').next().unwrap_or_default()
    }
}

const TABLE: Step = Step { name: "commands of documents", needs_build: false, check: documents_agree };

/// The table is what xtask says, and all documents name commands that there are.
fn documents_agree() -> Outcome {
    contributing::check(&table())?;
    for path in documents::all()? {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some(what) = unknown_commands(&text).first() {
            return Err(format!("{}: {what}", path.display()));
        }
    }
    Ok(())
}

/// Commands of this program that are not there, or lack the option.
fn unknown_commands(text: &str) -> Vec<String> {
    let ends = |c: char| "`#&|;)".contains(c);
    let shown = text.lines().flat_map(|line| line.split("cargo xtask ").skip(1));
    let mut found = Vec::new();
    for command in shown.map(|rest| rest.split(ends).next().unwrap_or(rest).trim()) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let known = find(&words).is_some_and(|(form, rest)| {
            rest.iter().filter(|word| word.starts_with("--")).all(|option| form.takes(option))
        });
        // `cargo xtask COMMAND` and the like stand for any.
        let any = words.first().is_none_or(|word| !word.starts_with(|c: char| c.is_ascii_lowercase()));
        if !known && !any {
            found.push(format!("there is no `cargo xtask {command}`"));
        }
    }
    found
}

fn table() -> String {
    let mut table = String::from("| `cargo xtask …` | what it does | time |\n|---|---|---|\n");
    for Form { name, options, about, time, .. } in FORMS {
        let call = format!("{name} {options}").trim_end().replace('|', "\\|");
        table += &format!("| `{call}` | {} | {time} |\n", about.replace('|', "\\|"));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn commands_are_those_that_there_are() {
        let text = "run `cargo xtask test`, `cargo xtask lint --deny` or\n    cargo xtask install --prefix /x && y\n";
        assert_eq!(unknown_commands(text), Vec::<String>::new());
        assert_eq!(unknown_commands("`cargo xtask tests`, `cargo xtask lint --fixed`, `cargo xtask …`").len(), 2);
    }

    #[test]
    fn forms_are_found_by_their_longest_name() {
        let found = |words: &[&str]| find(words).map(|(form, rest)| (form.name, rest.len()));
        assert_eq!(found(&["programs", "soak", "mariadb"]), Some(("programs soak", 1)));
        assert_eq!(found(&["programs", "mariadb"]), Some(("programs", 1)));
        assert_eq!((found(&["lint"]), found(&["lint", "--fix"])), (Some(("lint", 0)), Some(("lint --fix", 0))));
        assert_eq!((found(&["models"]), found(&[])), (None, None));
    }

    #[test]
    fn there_are_ten_commands_at_most_and_their_help_fits() {
        let commands: BTreeSet<&str> = FORMS.iter().map(Form::first).collect();
        assert!(commands.len() <= 10, "{commands:?}");
        assert!(help(None).lines().all(|line| line.chars().count() <= 110));
        assert!(help(Some("models")).contains("models loom") && !help(Some("models")).contains("explore"));
    }
}
