//! Options of the commands about other processes, `run` and `stat`, and of `hq`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::SweepArgs;

/// Options of `lockyard run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Which locks serve which objects: KIND=LOCK, where KIND is mutex (mutex, spin, hq, rt),
    /// rwlock (rwsem, rwsem:POLICY, qrw), spin (spin, hq) or sem (lockyard), or glibc for any; a
    /// LOCK alone is for mutexes
    #[arg(long, value_name = "LIST")]
    pub(crate) lock: Option<String>,

    /// The program and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Options of `lockyard stat`.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// Look at this process
    #[arg(long, value_name = "PID", allow_negative_numbers = true, group = "subject")]
    pub(crate) pid: Option<String>,

    /// Start this program, and look at it and its children
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", group = "subject", conflicts_with = "reset")]
    pub(crate) program: Vec<OsString>,

    /// Report what happened in each interval, a line for each class: 500ms, 1s; a number
    /// alone is seconds
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, requires = "subject")]
    pub(crate) interval: Option<String>,

    /// Begin to count anew after this report; for everybody who looks
    #[arg(long, requires = "pid")]
    pub(crate) reset: bool,

    /// With --pid: show the calls that led to the lock as well, of its holder and of the thread
    /// that has waited longest; stops the process for some milliseconds (eu-stack does, of
    /// elfutils)
    #[arg(long, requires = "pid", conflicts_with_all = ["json", "openmetrics", "folded", "interval"])]
    pub(crate) stacks: bool,

    /// Show all columns, and the callers of all classes
    #[arg(long, requires = "subject", conflicts_with_all = ["json", "openmetrics"])]
    pub(crate) wide: bool,

    /// Show the lock events as well
    #[arg(long, requires = "subject", conflicts_with_all = ["json", "openmetrics"])]
    pub(crate) events: bool,

    /// Say at how many threads a lock is always busy on these machines: names of `lockyard list
    /// machines`, this, or paths to machine files
    #[arg(
        long,
        value_name = "LIST",
        requires = "subject",
        conflicts_with_all = ["json", "openmetrics", "folded", "interval"]
    )]
    pub(crate) machine: Option<String>,

    /// Print the OpenMetrics text format
    #[arg(long, requires = "subject", conflicts_with = "json")]
    pub(crate) openmetrics: bool,

    /// Print the waiting time as folded stacks, for flame graphs: program;lock class;code and
    /// nanoseconds
    #[arg(long, requires = "subject", conflicts_with_all = ["json", "openmetrics", "wide", "events"])]
    pub(crate) folded: bool,

    /// Write the report to FILE; with --interval the latest one
    #[arg(long, value_name = "FILE", requires = "subject")]
    pub(crate) out: Option<PathBuf>,

    /// Print one JSON document instead of tables; with --interval one line each, of which the last
    /// may be the total: "interval" is false in it
    #[arg(long, requires = "subject")]
    pub(crate) json: bool,
}

/// Options of `lockyard top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Look at this process [default: the only one that tells what its locks do]
    #[arg(long, value_name = "PID", allow_negative_numbers = true)]
    pub(crate) pid: Option<String>,

    /// How often the screen is drawn anew: 500ms, 1s
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value = "1s")]
    pub(crate) interval: String,
}

/// Options of `lockyard hq`.
#[derive(Debug, Args)]
pub(crate) struct HqArgs {
    /// The lock: hq-spinlock, or one that has it inside (lockref:hq-spinlock)
    #[arg(long, value_name = "LOCK", default_value = "hq-spinlock")]
    pub(crate) lock: String,

    /// What is run. One value each; 16 threads without --threads.
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,

    /// Length of the run in seconds
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, default_value = "1")]
    pub(crate) secs: String,

    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}
