//! `cargo xtask`: every check of the project, runnable at a desk.
//!
//! Nothing here comes from a registry: std, `cargo` and a few Debian tools, which are installed when missing.
//! `steps.rs` says what is checked and in which order, the other modules are the checks that cargo does not have.

mod asm;
mod counts;
mod coverage;
mod documents;
mod fuzz;
mod install;
mod lab;
mod licences;
mod models;
mod programs;
mod qemu;
mod sources;
mod steps;
mod tools;
mod weakened;

use std::process::ExitCode;

use steps::{
    ASSEMBLY, BUILD, CLIPPY, CLIPPY_SHORT, COUNTS, DEPENDENCIES, DOC_TESTS, DOCS, DOCS_SHORT, FORMAT, HEADER,
    INSTALLED, MODELS, PROGRAMS, SOURCES, TESTS,
};

const HELP: &str = "\
cargo xtask COMMAND

  test      `lint`, the builds that later steps need, all tests, `doc`, `counts`, a short form of `programs`; the closing line counts the checks
  fmt       format all sources (`lint` only looks)
  lint      formatting, house rules of the sources and documents, licences, clippy with warnings as errors, the C header
  header    make crates/lockyard-capi/include/lockyard.h from the sources; --check only looks
  install   --prefix DIR   the command, the C libraries, headers and pkg-config file under DIR (/usr/local);
            DESTDIR in the environment goes before it, for packages
            --check   installs into the build's own folder and uses it as a C programmer would
  doc       doc tests, then the documentation with warnings as errors
  counts    instructions per uncontended lock + unlock, and the shape of the fast paths in assembly
            --bless   write the counts found to the budget
  seeds     cases of one lock on thousands of simulated schedules, preempted at every call of the seam:
            --lock LIST   all, or hq-spinlock, cna, qspinlock, mcs, ticket, ttas, qrwlock, lockref, futex-hash: with their forms
            --from SEED --count SEEDS --deal CASES   which schedules (1, 1000), and so many cases on each (all); exit code 1 with the command
            to repeat a failure, 3 if a lock that is broken on purpose was not found out
  schedules  small cases of torture under faults on simulated machines, each schedule named by its seed:
            --lock LIST --count SCHEDULES --seed FIRST --machine LIST   (all, 100000, 1, quad2008); exit code 1 with the command to repeat a failure
            --size small|crowd   2 to 4 threads, 3 to 10 operations each (small), or 12 threads, 60 operations: rarer constellations, dearer schedules
  priorities  priority inheritance on random simulated cases, every invariant checked before every step:
            --cases N --from SEED   how many, and the first (100000, 1); exit code 1 with the command to repeat a failure
  inversion how long the most urgent thread waits while a middle one is ready to run, on this machine, chains of 1 to 8 mutexes: p50, p99, max;
            --runs N --section-us US NAME...   (1000, 100, all PI mutexes); exit code 1 if a Lockyard lock was later than a section and 100 us
            (runs in which the CPU was taken from all threads are told, and not held against it), 2 where fixed priorities are not permitted
  programs  real programs on glibc's locks and, preloaded, on ours: loads with checked results, throughput of both in a table
            NAME...  memcached, leveldb, jemalloc-first, jemalloc-last, rocksdb, db-bench, shard, mariadb, unbound, nginx, apache,
            stress-ng; none: all
            --secs 5 --threads 8 --rounds 3
  overhead  what the preload library adds where nobody waits: each call against glibc's, and a program's start (--rounds 9)
  soak      memcached and MariaDB (or the one named) on our locks, ten minutes each, eight threads of load per CPU: no errors, no growth of memory
  history   32 historical bugs of locks: models that must be found wanting, and their repairs, that must pass
  fuzz      libFuzzer on whatever reads what others wrote, and on the C interface (installs cargo-fuzz when missing):
            NAME...  machine, segment, options, calls; none: all. --secs 600   for each
  qemu      torture on NUMA machines that QEMU makes (8 CPUs in 4 nodes, 16 in 4), with Debian's kernel (installs QEMU when missing):
            --secs 2 --lock LIST --shape 8x4
  loom      every interleaving of small scenarios, with real orderings (--only TEXT, --short, --bless)
  mutants   every ordering of every lock weakened one step at a time, and the barrier report (--only TEXT, --seconds N)
  shuttle   the suite under random schedules (--lock TEXT --case TEXT --schedules N --crowds N --seed S)
  models    short forms of `loom` and `shuttle`
  cargo-mutants   all changes that cargo-mutants (installed when missing) lists for the algorithm files, in one build: which test notices each;
            TEXT... --seconds N --again   only mutants with this in their name; time of tests for each (60); judged ones, too
  coverage  lines of the algorithm files that tests reach (installs cargo-llvm-cov when missing)
  verify    the long form of loom, mutants, shuttle, Miri, ThreadSanitizer and coverage, with durations
  lab       records of measurements in docs/lab, and what README.md and docs/ show of them
            run WHAT   makes a record: front (mutexes for README.md; ten minutes, on a quiet machine) or trust (the simulator's score)
            --short   a few seconds, to try the form; --host NAME, --out DIR (docs/lab), --program LOCKYARD (none: builds one)
            table   rewrites the marked blocks and docs/front.svg from the newest records; --check only looks, as `lint` does
            foreign DIR...   compiles each C program in DIR, runs it on glibc's locks and, preloaded, on ours, and prints those that end
            differently; for suites of others (Open POSIX tests), none of which is here; exit code 1 if one differs; Ctrl-C ends it
            --secs 60 (for each run), --jobs CPUS, --cflags '-w -O1 -pthread -D_GNU_SOURCE', --preload LIBRARY (none: builds it)
  deny      cargo-deny over deny.toml: licences, sources, duplicates (installs cargo-deny when missing)
  help      this text; COMMAND --help: what it says of one
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wants_help = words.iter().skip(1).any(|word| ["--help", "-h"].contains(word));
    if let Some(text) = words.first().filter(|_| wants_help).and_then(|command| about(command)) {
        print!("{text}");
        return ExitCode::SUCCESS;
    }
    let here = std::env::current_dir().unwrap_or_default();
    if let Err(error) = std::env::set_current_dir(tools::root()) {
        eprintln!("xtask: {}: {error}", tools::root().display());
        return ExitCode::from(2);
    }
    let passed = match words.as_slice() {
        ["test"] => {
            let first = [FORMAT, SOURCES, DEPENDENCIES, BUILD, CLIPPY_SHORT, TESTS, DOC_TESTS, DOCS_SHORT];
            steps::run(&[&first[..], &[COUNTS, ASSEMBLY, PROGRAMS]].concat())
        }
        ["lint"] => steps::run(&[FORMAT, SOURCES, DEPENDENCIES, CLIPPY, HEADER]),
        ["header"] => report(steps::header()),
        ["header", "--check"] => steps::run(&[HEADER]),
        ["install", "--check"] => steps::run(&[INSTALLED]),
        ["install", options @ ..] => report(install::run(options)),
        ["doc"] => steps::run(&[DOC_TESTS, DOCS]),
        ["counts"] => steps::run(&[COUNTS, ASSEMBLY]),
        ["counts", "--bless"] => report(counts::bless()),
        ["fmt"] => report(tools::cargo("fmt --all")),
        ["deny"] => report(steps::deny()),
        ["lab", "foreign", words @ ..] => return ExitCode::from(lab::compare_foreign(&here, words)),
        ["lab", words @ ..] => report(lab::main(words)),
        ["schedules", options @ ..] => return ExitCode::from(steps::schedules(options)),
        ["fuzz", words @ ..] => return ExitCode::from(fuzz::main(words)),
        ["qemu", words @ ..] => return ExitCode::from(qemu::main(words)),
        ["priorities", options @ ..] => return ExitCode::from(steps::priorities(options)),
        ["inversion", options @ ..] => return ExitCode::from(steps::inversion(options)),
        ["programs", words @ ..] => return ExitCode::from(programs::main(words)),
        ["overhead", words @ ..] => return ExitCode::from(programs::overhead::main(words)),
        ["soak", names @ ..] => return ExitCode::from(programs::soak(names)),
        ["history"] => return ExitCode::from(steps::history()),
        ["loom", options @ ..] => return ExitCode::from(models::loom(options)),
        ["mutants", options @ ..] => return ExitCode::from(models::mutants(options)),
        ["shuttle", options @ ..] => return ExitCode::from(models::shuttle(options)),
        ["cargo-mutants", options @ ..] => return ExitCode::from(coverage::cargo_mutants(options)),
        ["coverage"] => report(coverage::coverage()),
        ["models"] => steps::run(&[MODELS]),
        ["verify"] => models::verify(),
        ["seeds", options @ ..] => return ExitCode::from(steps::seeds(options)),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            true
        }
        _ => {
            eprintln!("xtask: no such command: {}\n\n{HELP}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the help says of one command.
fn about(command: &str) -> Option<&'static str> {
    let begin = HELP.find(&format!("\n  {command} "))? + 1;
    let mut end = begin;
    for line in HELP[begin..].split_inclusive('\n') {
        if end > begin && !line.starts_with("     ") {
            break;
        }
        end += line.len();
    }
    Some(&HELP[begin..end])
}

fn report(outcome: tools::Outcome) -> bool {
    outcome.inspect_err(|error| eprintln!("xtask: {error}")).is_ok()
}
