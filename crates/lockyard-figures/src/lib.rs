//! Published tables of lock measurements, rerun on simulated machines and scored.
//!
//! Each table of `data/` is bound to a machine, a workload and lock policies. Rerunning it puts
//! published and simulated numbers side by side and says how good the prediction is. Nothing
//! published stands anywhere but in `data/`, nothing is tuned to a table, and rows that anything
//! was fitted on are marked and not scored.
//!
//! ```text
//! table (data/*.csv) ─► figure: kind and binding ─► plan: jobs, cells, changes
//!                                                     │ run: each job once per variant, in parallel
//!                                    score ◄── result ┘
//! ```
//!
//! * [`figure`]: the tables there are, [`figures`] lists them. How a table becomes a plan depends
//!   on its kind: one file each.
//! * [`variant`]: placements, seeds and parameter ranges that a prediction is the middle, and the
//!   band the edges, of.
//! * [`score`]: what "good" means.
//! * [`reproduce`]: does it.

pub mod error;
pub mod figure;
mod kind;
pub mod plan;
pub mod result;
pub mod run;
pub mod score;
pub mod table;
pub mod variant;

use std::sync::atomic::AtomicBool;

use serde::Serialize;

pub use error::Error;
pub use figure::{Figure, figures, find};
pub use result::FigureResult;
pub use run::{Options, Progress};

use crate::score::Score;
use crate::variant::Variant;

/// Rerun figures.
#[derive(Debug, Clone, Serialize)]
pub struct Reproduction {
    /// Those that are complete.
    pub figures: Vec<FigureResult>,
    /// Those of the series that the locks come from, in one score.
    pub together: Score,
    /// Those of others, in one score, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Score>,
    /// What predictions and bands are over, in one line.
    pub variants: String,
    /// Figures that were stopped before all of their runs were done.
    pub unfinished: Vec<&'static str>,
}

/// Reruns `wanted`, until done or until `stop` is raised.
///
/// # Errors
/// A figure's data or machine is wrong, or the host refuses threads. A run that fails costs its
/// cell only, which says so.
pub fn reproduce(
    wanted: &[&'static Figure],
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
    stop: &AtomicBool,
) -> Result<Reproduction, Error> {
    let variants = Variant::all(options.seeds, options.ranges);
    let mut all = plan::Plan::default();
    let mut planned = Vec::new();
    for figure in wanted {
        let plan = figure.plan()?;
        let jobs: Vec<usize> = plan.jobs.iter().map(|job| all.job(job.clone())).collect();
        planned.push((*figure, plan, jobs));
    }
    let outcomes = run::run(&all.jobs, &variants, options, progress, stop)?;
    let mut results = Vec::new();
    let mut unfinished = Vec::new();
    for (figure, plan, jobs) in planned {
        if jobs.iter().any(|job| outcomes[*job].iter().any(Option::is_none)) {
            unfinished.push(figure.id());
        } else {
            results.push(result::of(figure, plan, &jobs, &outcomes, &variants)?);
        }
    }
    let [together, external] = [false, true].map(|external| result::together(&results, external));
    let external = Some(external).filter(|score| score.rows > 0);
    Ok(Reproduction { figures: results, together, external, variants: variant::describe(&variants), unfinished })
}
