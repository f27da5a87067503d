//! Options of `lockyard sweep`, `sweep status` and `sweep merge`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples::{MERGE_EXAMPLES, STATUS_EXAMPLES, brief};

/// Options of `lockyard sweep`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
pub(crate) struct PlanArgs {
    /// What to do besides simulating.
    #[command(subcommand)]
    pub(crate) what: Option<PlanCommand>,

    /// Of a shard to simulate.
    #[command(flatten)]
    pub(crate) shard: ShardArgs,
}

/// What can be done with the files of shards.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Say how far each shard is
    #[command(after_help = brief(STATUS_EXAMPLES), after_long_help = STATUS_EXAMPLES)]
    Status(StatusArgs),

    /// Put the lines of all shards in order, and say which are missing
    #[command(after_help = brief(MERGE_EXAMPLES), after_long_help = MERGE_EXAMPLES)]
    Merge(MergeArgs),
}

/// Options of `lockyard sweep PLAN`.
#[derive(Debug, Args)]
pub(crate) struct ShardArgs {
    /// The plan: a TOML file of lists, as below
    #[arg(value_name = "PLAN", required = true)]
    pub(crate) plan: Option<PathBuf>,

    /// Simulate the K-th of N shards: every N-th cell [default: what HQ_TASK_ID,
    /// JOB_COMPLETION_INDEX or SLURM_ARRAY_TASK_ID says, else 1/1]
    #[arg(long, value_name = "K/N", conflicts_with = "shards")]
    pub(crate) shard: Option<String>,

    /// How many shards there are, where the environment says which [default: what
    /// SLURM_ARRAY_TASK_COUNT says]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) shards: Option<String>,

    /// Simulations that run at a time; 0 means one per CPU
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "0")]
    pub(crate) jobs: String,

    /// Go on with a shard that was begun; begins one that was not
    #[arg(long)]
    pub(crate) resume: bool,

    /// How long to wait for another process that does the shard, such as one that was told to end
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, default_value = "0s")]
    pub(crate) wait: String,

    /// Folder for the files of shards, made if it is not there [default: the plan's name with
    /// .sweep in the place of .toml]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Options of `lockyard sweep status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The plan
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,

    /// Files of shards, or folders of them [default: the plan's folder]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Options of `lockyard sweep merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The plan
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,

    /// Files of shards, or folders of them [default: the plan's folder]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Write the lines to FILE instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
