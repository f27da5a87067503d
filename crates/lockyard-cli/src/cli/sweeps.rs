//! The commands that measure over sweeps: `bench`, and on simulated machines `sim` and `trace`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Arrival;

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

    /// Measure a grid of cells that look like programs, instead of a sweep, and score each lock by
    /// the best peer of each cell [locks by default: all families]
    #[arg(long, conflicts_with_all = [
        "workload", "threads", "cs", "lines", "think", "think_shape", "read_pct", "mix", "readers", "writers", "sleep_us",
        "jobs",
    ])]
    pub(crate) grid: bool,

    /// Fewer cells of the grid, in one round: under three minutes
    #[arg(long, requires = "grid", conflicts_with = "full")]
    pub(crate) quick: bool,

    /// All cells of the grid: hours
    #[arg(hide_short_help = true, long, requires = "grid")]
    pub(crate) full: bool,

    /// What is swept.
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,

    /// Length of one measurement in seconds [default: 1; of the grid 0.1, and always twice as long
    /// with 64 threads]
    #[arg(long, value_name = "SECS", allow_negative_numbers = true)]
    pub(crate) secs: Option<String>,

    /// How often each candidate is measured in each cell; the median is reported [default: 5; of
    /// the grid 3, with --quick 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) rounds: Option<String>,

    /// What is printed and written.
    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Run although this machine offers one CPU (contended numbers then mean little)
    #[arg(hide_short_help = true, long)]
    pub(crate) allow_one_cpu: bool,
}

/// The cells that `bench` and `sim` sweep.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// What the threads do: names of `lockyard list workloads`, or a program's model by the path of
    /// its file (app.toml)
    #[arg(long, value_name = "LIST", default_value = "contend")]
    pub(crate) workload: String,

    /// Whether the threads of a model wait for work as it says (`wait`), or always find some
    #[arg(hide_short_help = true, long, value_name = "ARRIVAL", default_value = "saturated")]
    pub(crate) arrival: Arrival,

    /// Locking threads [default: what the workload usually has, mostly 2]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) threads: Option<String>,

    /// Length of the critical section, in PAUSE instructions [default: what the workload usually
    /// has]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) cs: Option<String>,

    /// Lines of data that each section touches, writers changing and readers looking at all of
    /// them, besides the line of the check [default: 0]
    #[arg(hide_short_help = true, long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) lines: Option<String>,

    /// Time between two acquisitions of a thread, in PAUSE instructions, or with an x as a multiple
    /// of the section: 1,20 or 0.25x,1x,4x [default: what the workload usually has]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) think: Option<String>,

    /// Whether each of these times is as given, or drawn with that mean
    #[arg(hide_short_help = true, long, value_name = "SHAPE", default_value = "fixed")]
    pub(crate) think_shape: ThinkArg,

    /// Share of acquisitions that are reads, in percent, fractions too: 50,99.9; reader-writer
    /// locks only [default: 50; uncontended: 0,100]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) read_pct: Option<String>,

    /// How reads and writes mix: each acquisition draws (random), each thread takes turns
    /// (alternate), or each thread reads or writes for life (roles) [default: what the workload
    /// usually has]
    #[arg(hide_short_help = true, long, value_name = "MIX")]
    pub(crate) mix: Option<MixArg>,

    /// Reading threads, where threads have roles
    #[arg(hide_short_help = true, long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) readers: Option<String>,

    /// Writing threads, where threads have roles
    #[arg(hide_short_help = true, long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) writers: Option<String>,

    /// Sleep inside the critical section, in microseconds [default: 1000 in the starvation tests,
    /// else 0]
    #[arg(hide_short_help = true, long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) sleep_us: Option<String>,

    /// Jobs of each thread, in bkl-aim7: the run ends with the last instead of after a time (AIM7
    /// has 97)
    #[arg(hide_short_help = true, long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) jobs: Option<String>,

    /// Seed of everything random in the workloads
    #[arg(hide_short_help = true, long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
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
    #[arg(hide_short_help = true, long)]
    pub(crate) events: bool,
}

/// Numbers of simulated machines that are changed.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Change a number of the machines, by its path in the machine file or common.toml: only
    /// numbers that are derived or estimated, and only inside their range
    /// (model.occupancy_ratio=0.5); may be given several times
    #[arg(hide_short_help = true, long, value_name = "PATH=NUMBER")]
    pub(crate) set: Vec<String>,
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

    /// What is changed in the machine.
    #[command(flatten)]
    pub(crate) set: SetArgs,

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

/// How think times are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkArg {
    /// Each as given
    Fixed,
    /// Drawn from the exponential distribution with that mean
    Exponential,
}
