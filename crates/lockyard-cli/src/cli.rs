//! The command line as the user sees it. Help, completions and the manual page all come from here.
//!
//! Values are taken as text and checked in [`crate::options`], so that every refusal reads alike:
//! one line, what was wrong, where, and what to do.

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::suggest;

mod processes;

pub(crate) use processes::{RunArgs, StatArgs};

const EXAMPLES: &str = "\
Examples:
  lockyard                                   compare everything on this machine, about a minute
  lockyard --quick                           the same in about 15 seconds, coarser
  lockyard bench --lock mutex --threads 2,16,64
  lockyard bench --family rw --read-pct 50,95 --threads 16 --json > rw.jsonl
  lockyard sim --machine epyc9654_2s:nps4 --lock mutex --threads 2,96,384
  lockyard stat --lock hq-spinlock --threads 16
  lockyard torture --lock all --machine quad2008 --secs 2
  lockyard list peers

Exit codes: 0 done, 1 failed while running, 2 bad request (nothing measured, nothing written), \
130 interrupted (what was measured so far has been printed and written).";

const COMPARE_EXAMPLES: &str = "\
Examples:
  lockyard compare
  lockyard compare --secs-total 20 --out-dir /tmp
  lockyard compare --family rw,mutex --secs-total 120

Cells: one thread alone; 2 threads; 8 threads per CPU; for reader-writer locks also 50 % and 95 % reads, and \
the two starvation tests (overlapping readers against one writer, looping writers against one reader).

All locks of a family are measured in turn within each round, so a noisy moment of the machine hits all of \
them alike; the printed numbers are medians over the rounds.";

const BENCH_EXAMPLES: &str = "\
Examples:
  lockyard bench --lock mutex --peer all --threads 2,16,64 --cs 1,20,100
  lockyard bench --lock rwsem --policy today,v5.10,no-rspin --peer none --threads 2:16:2
  lockyard bench --lock qspinlock --peer pthread-spin,std-mutex --threads 16,64
  lockyard bench --family semaphore --threads 16 --secs 2 --rounds 7 --out semaphore.csv
  lockyard bench --family rw --workload starve-writers --json | jq '.lock, .wait_max'

Lists take commas and inclusive ranges first:last:step. Each combination of threads, section, think time and \
read share is one cell. Within a cell the locks run one after another, round by round, so their ratios do not \
depend on how the machine's speed drifts. Critical sections and think times are counted in PAUSE instructions.

Without named peers each family is compared in itself; named peers are compared with all chosen locks, \
whatever their family.";

const SIM_EXAMPLES: &str = "\
Examples:
  lockyard sim --machine epyc9654_2s:nps4 --lock qspinlock --threads 2,24,96,384
  lockyard sim --machine ivb_ex_8s --lock rwsem --policy reader-spin-on-writer,timed-writer-spin \\
      --workload rwsem-micro --threads 2,8,32,64,128,240
  lockyard sim --machine this --lock mutex --threads 2 --cs 20 --json

The very lock source that ships runs inside a deterministic model of caches, interconnect, scheduler and futexes: same \
machine, workload and seed give the same result to the last digit. A prediction is as good as the machine's numbers, \
each of which has a source, a confidence and a range in its file. Threads are simulated threads, times simulated times.";

const TRACE_EXAMPLES: &str = "\
Example:
  lockyard trace --machine clx_2s_48c --lock mutex --threads 24 --duration 1ms --window 100us --out trace.json

Open the file at https://ui.perfetto.dev or chrome://tracing: one track per CPU and per thread (running, spinning, ready, sleeping), \
one per thread for the sections, and an arrow from each section to the next one of the same lock.";

const RUN_EXAMPLES: &str = "\
Examples:
  lockyard run -- memcached -t 4
  lockyard run --lock hq -- mariadbd
  lockyard run --lock mutex=mutex,rwlock=qrw -- ./server & lockyard stat --pid $! --interval 1s

The program keeps its process id, its signals and its exit code: this command becomes it. The library that puts it on Lockyard's locks is \
LOCKYARD_PRELOAD, else liblockyard_preload.so beside this command or in ../lib. Programs that are setuid, linked \
statically or with musl, or for another processor would run without it, and are refused.";

const STAT_EXAMPLES: &str = "\
Examples:
  lockyard stat --pid 1234                            since it began, or since the last --reset
  lockyard stat --pid 1234 --interval 1s              every second, until it ends or Ctrl-C
  lockyard stat --pid 1234 --openmetrics
  lockyard stat -- memcached -t 4                     starts it; the report follows its end, on stderr
  lockyard stat --lock hq-spinlock --workload kv-model --threads 64 --secs 5
  LOCKYARD_HQ_LANES=2 lockyard stat --json

Of another process: lock events (lockyard list events), and its lock classes with the most waiting. It must have been started with lockyard \
run, lockyard stat, or, if it is linked with liblockyard, with LOCKYARD_STAT=1; it is neither stopped nor slowed down by looking.

Without a process: a short run of a hierarchical spinlock, which queues its waiters by NUMA node while it is contended from several. Its lanes \
are in a pool of records that all locks of a process share. The run has 16 threads without --threads. The tunables come from the environment \
(LOCKYARD_HQ_...) and hold for every command, on simulated machines too; their names and ranges are in the first table.";

const TORTURE_EXAMPLES: &str = "\
Examples:
  lockyard torture --lock all --secs 2
  lockyard torture --lock rwsem --secs 60 --threads 2,8,64
  lockyard torture --lock mutex --machine skx_2s_40c --secs 30
  lockyard torture --lock qspinlock --machine quad2008 --schedules 100000 --fault preempt,late-wake,pct
  lockyard torture --lock all --machine quad2008 --small --schedules 100000
  lockyard torture --lock ttas --machine quad2008 --weaken spin/ttas.rs:73=Relaxed      (must fail)
  lockyard torture --lock broken-wakeups --machine quad2008 --secs 5      (must fail)

Without --machine the threads are real: 1, 4 and 32 to a CPU in turn, in rounds of 0.4 s with fresh locks, under a watchdog. With --machine each \
schedule is a simulated run named by its seed, with the machine's faults and the order of threads drawn from it; a failure is made smaller, told with the last \
50 events and calls of each thread, and replayed to the instruction by the command that is printed.

Faults: preempt, spurious-wake, late-wake, lost-cpu, migrate, clock-jump, grant-at-deadline, wake-order, wrong-node, no-record, stop-in-handler, fork, \
pct, thread-exit, cancel-at-grant; real threads have migrate, stop-in-handler, fork, thread-exit and cancel-at-grant. Locks called broken-... are broken on purpose. Some are tried first in every run.

Exit codes: 0 passed, 1 a lock failed, 2 bad request, 3 void (a detector missed a lock that is broken on purpose), 130 interrupted.";

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  lockyard reproduce --all                   all published tables, a few minutes
  lockyard reproduce rwsem_07 semaphore_01
  lockyard reproduce --all --json > score.json
  lockyard reproduce rwsem_01 --html rwsem_01.html

Every cell runs on each placement with several seeds; the middle is the prediction. The band also covers both ends of \
the ranges of uncertain machine numbers. The result depends on source, machine files and seeds only, not on this \
machine or on --workers.";

/// Lockyard: the Linux kernel's adaptive locks in userspace, measured beside the locks people use
/// today.
///
/// Without a command: `lockyard compare`, which measures every lock family on this machine beside
/// std's, parking_lot's and pthread's locks, prints tables, and writes lockyard-compare.html and
/// lockyard-compare.json.
#[derive(Debug, Parser)]
#[command(
    name = "lockyard",
    version,
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// The options of the default command, `compare`.
    #[command(flatten)]
    pub(crate) compare: CompareArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure every lock family beside its peers on this machine (the default command)
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),

    /// Measure chosen locks, peers, policies and workloads over chosen sweeps
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),

    /// Run Lockyard's locks on a simulated many-core machine
    #[command(after_help = SIM_EXAMPLES)]
    Sim(Box<SimArgs>),

    /// Draw what every CPU and thread of a simulated machine did, as a trace for Perfetto or Chrome
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(Box<TraceArgs>),

    /// Rerun published tables on simulated machines and score the predictions
    #[command(after_help = REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArgs),

    /// Run a program on Lockyard's locks
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),

    /// Show what the locks of a process do; without one, what hierarchical spinlocks do on this
    /// machine
    #[command(after_help = STAT_EXAMPLES)]
    Stat(Box<StatArgs>),

    /// Make locks suffer, here or on a simulated machine, and say whether they held
    #[command(after_help = TORTURE_EXAMPLES)]
    Torture(TortureArgs),

    /// List the names that the other commands accept
    List(ListArgs),

    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  lockyard completions bash > ~/.local/share/bash-completion/completions/lockyard"
    )]
    Completions {
        /// The shell to complete for.
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },

    /// Print the manual page (roff)
    #[command(after_help = "Example:\n  lockyard man > lockyard.1 && man ./lockyard.1")]
    Man {
        /// The command whose page is wanted; without it the main page.
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

/// Options of `lockyard compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Time to spend on measuring, in seconds, all families together [default: 55, with --quick 14]
    #[arg(long, value_name = "SECS", allow_negative_numbers = true)]
    pub(crate) secs_total: Option<String>,

    /// Directory for lockyard-compare.html and lockyard-compare.json
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out_dir: PathBuf,

    /// Families to compare: mutex, spin, rw, semaphore, or all
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) family: String,

    /// Seed of everything random in the workloads
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub(crate) seed: String,

    /// A coarser run in about a quarter of the time
    #[arg(long, conflicts_with = "secs_total")]
    pub(crate) quick: bool,

    /// Run although this machine offers one CPU (contended numbers then mean little)
    #[arg(long, action = ArgAction::SetTrue)]
    pub(crate) allow_one_cpu: bool,
}

/// Options of `lockyard bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Lockyard's locks to measure: names of `lockyard list locks`, also with a policy
    /// (rwsem:v5.10), all, or none [default: those of --family, else mutex]
    #[arg(long, value_name = "LIST")]
    pub(crate) lock: Option<String>,

    /// Locks to compare with: names of `lockyard list peers`, all (those of the same families), or
    /// none
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) peer: String,

    /// Policies of the chosen locks: names of `lockyard list policies`, or all (but those known to
    /// be defective) [default: each lock's default]
    #[arg(long, value_name = "LIST")]
    pub(crate) policy: Option<String>,

    /// Choose locks and peers by family: mutex, spin, rw, semaphore, or all
    #[arg(long, value_name = "LIST")]
    pub(crate) family: Option<String>,

    /// What is swept.
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,

    /// Length of one measurement in seconds
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, default_value = "1")]
    pub(crate) secs: String,

    /// How often each candidate is measured in each cell; the median is reported
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "5")]
    pub(crate) rounds: String,

    /// What is printed and written.
    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Run although this machine offers one CPU (contended numbers then mean little)
    #[arg(long)]
    pub(crate) allow_one_cpu: bool,
}

/// The cells that `bench` and `sim` sweep.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// What the threads do: names of `lockyard list workloads`
    #[arg(long, value_name = "LIST", default_value = "contend")]
    pub(crate) workload: String,

    /// Locking threads [default: what the workload usually has, mostly 2]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) threads: Option<String>,

    /// Length of the critical section, in PAUSE instructions [default: what the workload usually
    /// has]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) cs: Option<String>,

    /// Time between two acquisitions of a thread, in PAUSE instructions [default: what the workload
    /// usually has]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) think: Option<String>,

    /// Share of acquisitions that are reads, in percent; reader-writer locks only [default: 50;
    /// uncontended: 0,100]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) read_pct: Option<String>,

    /// How reads and writes mix: each acquisition draws (random), each thread takes turns
    /// (alternate), or each thread reads or writes for life (roles) [default: what the workload
    /// usually has]
    #[arg(long, value_name = "MIX")]
    pub(crate) mix: Option<MixArg>,

    /// Reading threads, where threads have roles
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) readers: Option<String>,

    /// Writing threads, where threads have roles
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) writers: Option<String>,

    /// Sleep inside the critical section, in microseconds [default: 1000 in the starvation tests,
    /// else 0]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) sleep_us: Option<String>,

    /// Jobs of each thread, in bkl-aim7: the run ends with the last instead of after a time (AIM7
    /// has 97)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) jobs: Option<String>,

    /// Seed of everything random in the workloads
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub(crate) seed: String,
}

/// What `bench` and `sim` print and write.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON lines instead of tables: one object per lock and cell
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print CSV instead of tables: a header, then one line per lock and cell
    #[arg(long)]
    pub(crate) csv: bool,

    /// Write the result to FILE and the tables to stdout; FILE holds JSON lines, CSV or tables,
    /// chosen by --json or --csv, else by its ending (.json, .jsonl, .csv, anything else)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Show the lock events under each table
    #[arg(long)]
    pub(crate) events: bool,
}

/// Options of `lockyard sim`.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Machines to simulate: names of `lockyard list machines`, with a mode behind a colon
    /// (epyc9654_2s:nps4), this, or a path to a machine file
    #[arg(long, value_name = "LIST")]
    pub(crate) machine: String,

    /// Lockyard's locks: names of `lockyard list locks`, also with a policy (rwsem:v5.10), or all
    /// [default: those of --family, else mutex]
    #[arg(long, value_name = "LIST")]
    pub(crate) lock: Option<String>,

    /// Policies of the chosen locks: names of `lockyard list policies`, or all (but those known to
    /// be defective) [default: each lock's default]
    #[arg(long, value_name = "LIST")]
    pub(crate) policy: Option<String>,

    /// Choose locks by family: mutex, spin, rw, semaphore, or all
    #[arg(long, value_name = "LIST")]
    pub(crate) family: Option<String>,

    /// What is swept.
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,

    /// Change a number of the machine, by its path in the machine file or common.toml: only numbers
    /// that are derived or estimated, and only inside their range (model.occupancy_ratio=0.5); may
    /// be given several times
    #[arg(long, value_name = "PATH=NUMBER")]
    pub(crate) set: Vec<String>,

    /// Where threads begin: fill (socket by socket), spread (round the NUMA nodes), random, or all
    /// three
    #[arg(long, value_name = "LIST", default_value = "fill")]
    pub(crate) placement: String,

    /// The locks are part of the kernel, as in most published tables: they block and wake threads
    /// without system calls
    #[arg(long)]
    pub(crate) in_kernel: bool,

    /// Simulated time that is measured: 500us, 10ms, 1s
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value = "10ms")]
    pub(crate) duration: String,

    /// What is printed and written.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Options of `lockyard trace`: those of `sim`, for one run.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// What is simulated.
    #[command(flatten)]
    pub(crate) sim: SimArgs,

    /// How much of the end of the run is drawn: 50us, 1ms
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value = "200us")]
    pub(crate) window: String,
}

/// How reads and writes mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MixArg {
    /// Each acquisition draws, with the probability of --read-pct
    Random,
    /// Each thread alternates strictly
    Alternate,
    /// Each thread reads or writes for life
    Roles,
}

/// Options of `lockyard reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Figures to rerun: names of `lockyard list figures`, also in their short form (rwsem_07)
    #[arg(value_name = "FIGURE", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) figures: Vec<String>,

    /// Rerun all of them
    #[arg(long)]
    pub(crate) all: bool,

    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write a page with charts to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Seeds per placement
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "2")]
    pub(crate) seeds: String,

    /// Simulations that run at a time; 0 means one per CPU
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "0")]
    pub(crate) workers: String,

    /// Change a number of the machines, by its path in the machine file or common.toml: only
    /// numbers that are derived or estimated, and only inside their range
    /// (model.occupancy_ratio=0.5); may be given several times
    #[arg(long, value_name = "PATH=NUMBER")]
    pub(crate) set: Vec<String>,

    /// Leave out the ends of the ranges of uncertain machine numbers: narrower bands in less time
    #[arg(long)]
    pub(crate) no_ranges: bool,
}

/// Options of `lockyard torture`.
#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// Lockyard's locks: names of `lockyard list locks`, also with a policy (rwsem:v5.10), all, or
    /// one that is broken on purpose (broken-wakeups)
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) lock: String,

    /// Time for each lock, in seconds
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, default_value = "10")]
    pub(crate) secs: String,

    /// Simulate this machine: a name of `lockyard list machines`, this, or a path to a machine file
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Option<String>,

    /// The first seed
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub(crate) seed: String,

    /// Threads [default: 1, 4 and 32 to a CPU; simulated: 2 to 8, drawn from the seed]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) threads: Option<String>,

    /// What goes wrong: names as below, all, or none [default: all there is; simulated: drawn from
    /// the seed]
    #[arg(long, value_name = "LIST")]
    pub(crate) fault: Option<String>,

    /// Simulate so many schedules, instead of --secs
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) schedules: Option<String>,

    /// Simulate small cases, many times as many: 2 to 4 threads, 3 to 10 operations each
    #[arg(long)]
    pub(crate) small: bool,

    /// Simulate the lock with one ordering of its source weakened, which must be noticed:
    /// FILE:LINE=ORDERING, or FILE:LINE:failure=ORDERING for compare-exchanges that fail
    #[arg(long, value_name = "SITE")]
    pub(crate) weaken: Option<String>,

    /// Operations of each simulated thread [default: 6 to 25, drawn from the seed]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) operations: Option<String>,

    /// How long a real thread may wait before it is called hung or starved, in seconds
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, default_value = "10")]
    pub(crate) patience: String,
}

/// Options of `lockyard list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// What to list; everything without it.
    #[arg(value_name = "WHAT")]
    pub(crate) what: Option<Listing>,
}

/// What `lockyard list` can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    /// Lockyard's locks
    Locks,
    /// The policies of each lock
    Policies,
    /// What threads can be made to do
    Workloads,
    /// The locks compared with
    Peers,
    /// The machines that can be simulated
    Machines,
    /// The lock events and their meaning
    Events,
    /// The published tables that can be rerun
    Figures,
}

/// The definition behind the manual page of `command`; of the whole tool without one.
///
/// # Errors
/// One line for an unknown command.
pub(crate) fn page_of(command: Option<&str>) -> Result<clap::Command, Failure> {
    let mut whole = Cli::command();
    whole.build();
    let Some(name) = command else { return Ok(whole) };
    let names: Vec<&str> = whole.get_subcommands().map(clap::Command::get_name).collect();
    suggest::known("command", "man", name, &names)?;
    // A built subcommand is displayed under its whole invocation: lockyard-bench.
    Ok(whole.find_subcommand(name).cloned().unwrap_or(whole))
}

/// A parse error as one line: what, the nearest valid spelling, where to read on.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut parts: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let paragraph = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(what) = paragraph.strip_prefix("error: ") {
            parts.push(what.to_owned());
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            parts.push(tip.to_owned());
        }
    }
    parts.push("see --help".to_owned());
    parts.join("; ")
}
