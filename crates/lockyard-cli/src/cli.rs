//! The command line as the user sees it. Help, completions and the manual page all come from here.
//!
//! Values are taken as text and checked in [`crate::options`], so that every refusal reads alike:
//! one line, what was wrong, where, and what to do.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::suggest;

mod examples;
mod plans;
mod processes;
mod recordings;
mod sweeps;

use examples::*;
pub(crate) use plans::{MergeArgs, PlanArgs, PlanCommand, ShardArgs, StatusArgs};
pub(crate) use processes::{HqArgs, RunArgs, StatArgs, TopArgs};
pub(crate) use recordings::{Arrival, ImportArgs, ModelArgs, PredictArgs, RecordArgs, ReportArgs, ScriptArgs};
pub(crate) use sweeps::{BenchArgs, MixArg, OutputArgs, SetArgs, SimArgs, SweepArgs, ThinkArg, TraceArgs};

/// Lockyard: the Linux kernel's adaptive locks in userspace, measured beside the locks people use
/// today.
///
/// Without a command: `lockyard compare`, which measures every lock family on this machine beside
/// std's, parking_lot's and pthread's locks and prints tables.
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
    pub(crate) compare: MatrixArgs,
}

impl Cli {
    /// What to do: `compare` if nothing is said.
    pub(crate) fn chosen(self) -> Command {
        self.command.unwrap_or_else(|| Command::Compare(CompareArgs::of(self.compare)))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure every lock family beside its peers on this machine (the default command), or a
    /// program of yours on other locks
    #[command(after_help = brief(COMPARE_EXAMPLES), after_long_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),

    /// Measure chosen locks, peers, policies and workloads over chosen sweeps
    #[command(after_help = brief(BENCH_EXAMPLES), after_long_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),

    /// Run Lockyard's locks on a simulated many-core machine
    #[command(after_help = brief(SIM_EXAMPLES), after_long_help = SIM_EXAMPLES)]
    Sim(Box<SimArgs>),

    /// Draw what every CPU and thread of a simulated machine did, as a trace for Perfetto or Chrome
    #[command(after_help = brief(TRACE_EXAMPLES), after_long_help = TRACE_EXAMPLES)]
    Trace(Box<TraceArgs>),

    /// Simulate the cells of a plan, shard by shard, on as many machines as there are
    #[command(after_help = brief(SWEEP_EXAMPLES), after_long_help = SWEEP_EXAMPLES)]
    Sweep(Box<PlanArgs>),

    /// Say how far a program scales on a machine you may not have, and which change would help
    #[command(after_help = brief(PREDICT_EXAMPLES), after_long_help = PREDICT_EXAMPLES)]
    Predict(Box<PredictArgs>),

    /// Record what a program does with its locks
    #[command(after_help = brief(RECORD_EXAMPLES), after_long_help = RECORD_EXAMPLES)]
    Record(RecordArgs),

    /// Say what its locks cost a program that was recorded
    #[command(after_help = brief(REPORT_EXAMPLES), after_long_help = REPORT_EXAMPLES)]
    Report(ReportArgs),

    /// Reduce a recording to a model: a small file that people read and edit
    #[command(after_help = brief(MODEL_EXAMPLES), after_long_help = MODEL_EXAMPLES)]
    Model(ModelArgs),

    /// Print a recording as lines of text
    #[command(after_help = brief(SCRIPT_EXAMPLES), after_long_help = SCRIPT_EXAMPLES)]
    Script(ScriptArgs),

    /// Make a recording of lines of text, such as another tool's
    #[command(after_help = brief(IMPORT_EXAMPLES), after_long_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),

    /// Rerun published tables on simulated machines and score the predictions
    #[command(after_help = brief(REPRODUCE_EXAMPLES), after_long_help = REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArgs),

    /// Run a program on Lockyard's locks
    #[command(after_help = brief(RUN_EXAMPLES), after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),

    /// Say what locks cost a program, which, who holds them at which line, and what would help
    #[command(after_help = brief(STAT_EXAMPLES), after_long_help = STAT_EXAMPLES, arg_required_else_help = true)]
    Stat(Box<StatArgs>),

    /// Watch what locks cost a running process, on a screen that is drawn anew
    #[command(after_help = brief(TOP_EXAMPLES), after_long_help = TOP_EXAMPLES)]
    Top(TopArgs),

    /// Show what hierarchical spinlocks do on this machine, and what is set for them
    #[command(after_help = brief(HQ_EXAMPLES), after_long_help = HQ_EXAMPLES)]
    Hq(Box<HqArgs>),

    /// Make locks suffer, here or on a simulated machine, and say whether they held
    #[command(after_help = brief(TORTURE_EXAMPLES), after_long_help = TORTURE_EXAMPLES)]
    Torture(TortureArgs),

    /// List the names that the other commands accept
    #[command(after_help = LIST_EXAMPLES)]
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

/// Options of `lockyard compare` without a program.
#[derive(Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Time to spend on measuring, in seconds, all families together [default: 55, with --quick 14]
    #[arg(long, value_name = "SECS", allow_negative_numbers = true)]
    pub(crate) secs_total: Option<String>,

    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a page with charts, which loads nothing from elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Then the same locks on a simulated machine of two sockets
    #[arg(long, conflicts_with = "json")]
    pub(crate) sim: bool,

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

/// Options of `lockyard compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) matrix: MatrixArgs,

    /// The program to compare: it runs on glibc's locks, on glibc's again (the noise), and on each
    /// --lock, in rounds that take turns, for --secs-total (60) or --rounds
    #[arg(
        trailing_var_arg = true,
        value_name = "PROGRAM",
        conflicts_with_all = ["quick", "family", "html", "sim", "seed", "allow_one_cpu"]
    )]
    pub(crate) program: Vec<OsString>,

    /// Locks for PROGRAM, as `lockyard run` has them; may be given several times [default: mutex
    /// and hq]
    #[arg(long, value_name = "LIST", requires = "program")]
    pub(crate) lock: Vec<String>,

    /// Rounds of PROGRAM, 6 at least
    #[arg(long, value_name = "N", requires = "program")]
    pub(crate) rounds: Option<String>,

    /// What PROGRAM, or the load, prints before the number to compare: a regular expression with
    /// one group, greater is better [default: the time it takes]
    #[arg(long, value_name = "REGEX", requires = "program")]
    pub(crate) metric: Option<String>,

    /// PROGRAM is a server, and this shell command its load
    #[arg(long, value_name = "CMD", requires = "program")]
    pub(crate) load: Option<String>,

    /// A shell command that succeeds once the server can be loaded
    #[arg(long, value_name = "CMD", requires = "load")]
    pub(crate) ready: Option<String>,
}

impl CompareArgs {
    fn of(matrix: MatrixArgs) -> Self {
        let (program, lock) = (Vec::new(), Vec::new());
        Self { matrix, program, lock, rounds: None, metric: None, load: None, ready: None }
    }
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

    /// What is changed in the machines.
    #[command(flatten)]
    pub(crate) set: SetArgs,

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

    /// Only lines that contain this text
    #[arg(value_name = "TEXT")]
    pub(crate) find: Option<String>,

    /// One JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
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
    /// This machine, measured, as a machine file
    This,
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
            // `-1s` is a value that was meant, and that no option takes after `--` either.
            let value =
                tip.strip_prefix("to pass '-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            parts.push(if value { "a time is not negative".to_owned() } else { tip.to_owned() });
        }
    }
    parts.push("see --help".to_owned());
    parts.join("; ")
}
