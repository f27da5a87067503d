//! The commands on what a program does with its locks: `predict`, `record`, and on recordings
//! `model`, `report`, `script`, `import`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::SetArgs;

/// Options of `lockyard predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// The program: a model (app.toml) or a recording, as a file or as text
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Machine to predict for: a name of `lockyard list machines`, with a mode behind a colon
    /// (epyc9654_2s:nps4), a path to a machine file, or this: the machine it runs on, which is
    /// measured first
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: String,

    /// Threads of the program [default: six numbers from 1 to the machine's CPUs]
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    pub(crate) threads: Option<String>,

    /// What an operation of a recording is: so many sections of a class [default: as few as let
    /// each class that matters be taken once]
    #[arg(long, value_name = "CLASS=N")]
    pub(crate) op: Option<String>,

    /// The class of locks that alternatives are about, or "all" that are taken alike [default: the
    /// one that saturates first]
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,

    /// Locks to put in that class's place: names of `lockyard list locks`, also with a policy
    /// (rwsem:v5.10), or none [default: by the class's kind]
    #[arg(long, value_name = "LIST")]
    pub(crate) lock: Option<String>,

    /// The program with another structure, as below; may be given several times [default: eight
    /// shards, half the hold, and no lock at all]
    #[arg(long, value_name = "CHANGE")]
    pub(crate) what_if: Vec<String>,

    /// Whether operations wait for work as the model says, or always find some
    #[arg(long, value_name = "ARRIVAL", default_value = "saturated")]
    pub(crate) arrival: Arrival,

    /// Seeds for each placement
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub(crate) seeds: String,

    /// The first seed of everything random
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    pub(crate) seed: String,

    /// Simulated time of each run: 500us, 10ms, 1s [default: so long that 100,000 operations would
    /// be done if nobody waited, 1ms to 20ms; longer where few end]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) duration: Option<String>,

    /// What is changed in the machine.
    #[command(flatten)]
    pub(crate) set: SetArgs,

    /// Write a page with the curves and where the time goes to FILE as well
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print one JSON document instead of tables
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print CSV instead of tables: a header, then one line per alternative and thread count
    #[arg(long)]
    pub(crate) csv: bool,

    /// Write the result to FILE and the tables to stdout; FILE holds JSON, CSV or tables, chosen by
    /// --json or --csv, else by its ending (.json, .csv, anything else)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// When a thread has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrival {
    /// Always
    Saturated,
    /// After the time that the model says
    Recorded,
}

/// Options of `lockyard record`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("recorded").required(true))]
pub(crate) struct RecordArgs {
    /// Record this process
    #[arg(long, value_name = "PID", allow_negative_numbers = true, group = "recorded")]
    pub(crate) pid: Option<String>,

    /// Start this program, and record it and its children
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", group = "recorded")]
    pub(crate) program: Vec<OsString>,

    /// Record so long: 500ms, 10s [default: until the program ends; with --pid 10 s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) time: Option<String>,

    /// Record 10 ms of each 200 ms, for programs that take very many locks
    #[arg(long)]
    pub(crate) windows: bool,

    /// The recording to write
    #[arg(long, value_name = "FILE", default_value = "lockyard.lyr")]
    pub(crate) out: PathBuf,
}

/// Options of `lockyard model`.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// A recording, as a file or as text
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// What an operation is: so many sections of a class [default: as few as let each class that
    /// matters be taken once]
    #[arg(long, value_name = "CLASS=N")]
    pub(crate) op: Option<String>,

    /// Write the model to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Options of `lockyard report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A recording, as a file or as text
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Machines for which the threads are estimated at which a lock saturates: names of `lockyard
    /// list machines`, this, or paths to machine files
    #[arg(long, value_name = "LIST", default_value = "this")]
    pub(crate) machine: String,

    /// Write a page to FILE as well: where the time goes, and the threads in the stretch with most
    /// waiting
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `lockyard script`.
#[derive(Debug, Args)]
pub(crate) struct ScriptArgs {
    /// A recording
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// Print a trace instead, with the waits and holds of each thread as slices, for Perfetto
    #[arg(long)]
    pub(crate) trace: bool,
}

/// Options of `lockyard import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Lines of text, as `lockyard script` prints them
    #[arg(value_name = "FILE")]
    pub(crate) file: String,

    /// The recording to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}
