//! What came of a figure: the table with both sides, the changes, the score.

use lockyard_sim::calibration;
use serde::Serialize;

use crate::error::Error;
use crate::figure::{Figure, Quantity, figures};
use crate::plan::{Change, Curve, Outcome, Plan, Shape, Source, Take};
use crate::run::Outcomes;
use crate::score::{Estimate, Pair, Score, geometric_mean};
use crate::variant::Variant;

/// A rerun figure.
#[derive(Debug, Clone, Serialize)]
pub struct FigureResult {
    /// The stem of its data file.
    pub figure: &'static str,
    /// Whether it is others' work: see [`Figure::is_external`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Subject of the commit whose message published it.
    pub subject: &'static str,
    /// The published machine.
    pub machine: &'static str,
    /// The simulated machines.
    pub simulated_on: Vec<&'static str>,
    /// The published workload.
    pub workload: &'static str,
    /// Unit of the cells.
    pub unit: &'static str,
    /// Names of what identifies a row.
    pub keys: Vec<String>,
    /// What was chosen, and what the reader must know.
    pub notes: Vec<String>,
    /// All cells, row by row.
    pub cells: Vec<CellResult>,
    /// All changes.
    pub changes: Vec<ChangeResult>,
    /// How good that is.
    pub score: Score,
}

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub struct CellResult {
    /// The row.
    pub row: String,
    /// The column.
    pub column: String,
    /// Threads, where the row is a number of threads.
    pub threads: Option<u32>,
    /// Which chart it is drawn in, where there are several.
    pub panel: String,
    /// As published; `None` where there is nothing to compare.
    pub published: Option<f64>,
    /// As simulated.
    pub simulated: Option<Estimate>,
    /// Why there is no simulated number, or what went wrong in some of the runs.
    pub note: Option<String>,
    /// Something was fitted on this row: it is not scored.
    pub fitted: bool,
    /// Where time and lines went in the first variant.
    pub shape: Option<Shape>,
}

/// One change.
#[derive(Debug, Clone, Serialize)]
pub struct ChangeResult {
    /// What changed.
    pub label: String,
    /// Published after/before.
    pub published: f64,
    /// Simulated after/before; each variant's own ratio.
    pub simulated: Option<Estimate>,
    /// A row was fitted on: not scored.
    pub fitted: bool,
    /// Published changes below this share are none.
    #[serde(skip)]
    pub noise: f64,
}

impl ChangeResult {
    /// What is scored of it.
    fn pair(&self) -> Option<Pair> {
        Some(Pair { published: self.published, simulated: self.simulated?, noise: self.noise })
    }
}

/// Puts the outcomes into the table. `jobs[i]` is the place of the plan's job `i` in `outcomes`.
pub(crate) fn of(
    figure: &Figure,
    plan: Plan,
    jobs: &[usize],
    outcomes: &[Outcomes],
    variants: &[Variant],
) -> Result<FigureResult, Error> {
    let table = figure.table()?;
    let fitted = fitted_rows(figure)?;
    let cells: Vec<CellResult> = plan
        .cells
        .iter()
        .map(|cell| {
            let is_fitted = fitted.contains(&cell.row);
            let (simulated, note, shape) = match &cell.source {
                Err(why) => (None, Some(why.clone()), None),
                Ok(source) => {
                    let runs = || source.jobs().map(|job| &outcomes[jobs[job]]);
                    let first = runs().next().and_then(|runs| runs.first());
                    let shape = first.and_then(|run| run.as_ref()?.as_ref().ok()?.shape.clone());
                    (estimate(variants, &numbers(source, jobs, outcomes)), runs().find_map(failures), shape)
                }
            };
            CellResult {
                row: cell.row.clone(),
                column: cell.column.clone(),
                threads: cell.threads,
                panel: cell.panel.clone(),
                published: cell.published,
                simulated,
                note,
                fitted: is_fitted,
                shape,
            }
        })
        .collect();
    let changes: Vec<ChangeResult> = plan
        .changes
        .iter()
        .map(|change| ChangeResult {
            label: change.label.clone(),
            published: change.published,
            simulated: simulated_ratio(&plan, change, jobs, outcomes, variants),
            fitted: change.before.is_some_and(|before| cells[before].fitted) || cells[change.after].fitted,
            noise: change.noise,
        })
        .collect();
    let pairs: Vec<Pair> = changes.iter().filter(|change| !change.fitted).filter_map(ChangeResult::pair).collect();
    let missing = changes.iter().filter(|change| !change.fitted && change.simulated.is_none()).count();
    let scored = cells.iter().filter(|cell| !cell.fitted);
    let sides: Vec<(f64, f64)> = scored.filter_map(|cell| Some((cell.published?, cell.simulated?.median))).collect();
    Ok(FigureResult {
        figure: figure.id(),
        external: figure.is_external(),
        subject: table.about("commit subject"),
        machine: table.about("machine"),
        simulated_on: figure.machines(),
        workload: table.about("workload"),
        unit: plan.unit,
        keys: plan.keys,
        notes: plan.notes.into_iter().chain(plan.curves.iter().filter_map(|curve| shape_of(curve, &cells))).collect(),
        score: Score { missing, ..Score::of(table.rows.len(), &pairs, &sides, mean_of_others(figure)?) },
        cells,
        changes,
    })
}

/// What a curve says on both sides: where its peak is, and how high its plateau.
fn shape_of(curve: &Curve, cells: &[CellResult]) -> Option<String> {
    let side = |number: &dyn Fn(&CellResult) -> Option<f64>| -> Option<(String, f64)> {
        let numbers: Vec<f64> = curve.cells.iter().map(|&cell| number(&cells[cell])).collect::<Option<_>>()?;
        let (place, peak) = numbers.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let last = &numbers[numbers.len().saturating_sub(curve.plateau)..];
        let plateau = last.iter().sum::<f64>() / last.len().max(1) as f64;
        Some((cells[curve.cells[place]].row.clone(), plateau / peak))
    };
    let (published_peak, published_plateau) = side(&|cell| cell.published)?;
    let (simulated_peak, simulated_plateau) = side(&|cell| Some(cell.simulated?.median))?;
    Some(format!(
        "{}: peak published at {published_peak}, simulated at {simulated_peak} ({}); mean of the last {} by the peak: published {published_plateau:.2}, \
         simulated {simulated_plateau:.2}",
        curve.label,
        if published_peak == simulated_peak { "right" } else { "wrong" },
        curve.plateau
    ))
}

/// All figures of a group together: their changes in one score; no rank correlation, since units
/// differ.
pub(crate) fn together(results: &[FigureResult], external: bool) -> Score {
    let results = || results.iter().filter(|result| result.external == external);
    let mut pairs = Vec::new();
    for result in results() {
        let scored = result.changes.iter().filter(|change| !change.fitted);
        pairs.extend(scored.filter_map(ChangeResult::pair));
    }
    let rows = results().map(|result| result.score.rows).sum();
    let missing = results().map(|result| result.score.missing).sum();
    Score { missing, ..Score::of(rows, &pairs, &[], None) }
}

/// The rows of `figure` that calibration names as `table:row`.
fn fitted_rows(figure: &Figure) -> Result<Vec<String>, Error> {
    let rows = calibration::read()?.rows();
    let own = rows.iter().filter_map(|row| row.split_once(':'));
    Ok(own
        .filter(|(table, _)| *table == figure.id() || *table == figure.short())
        .map(|(_, row)| row.to_owned())
        .collect())
}

/// The geometric mean of the published changes of all other tables with the same quantity. Those of
/// others are no news for the series'.
fn mean_of_others(figure: &Figure) -> Result<Option<f64>, Error> {
    let mut ratios = Vec::new();
    let alike = |other: &&Figure| {
        let known = figure.is_external() || !other.is_external();
        other.id() != figure.id() && other.quantity() == figure.quantity() && known
    };
    if figure.quantity() == Quantity::Spread {
        return Ok(None);
    }
    for other in figures().iter().filter(alike) {
        ratios.extend(other.plan()?.changes.iter().map(|change| change.published));
    }
    Ok(geometric_mean(ratios))
}

/// The numbers of a cell, variant by variant; of a ratio each variant's own.
fn numbers(source: &Source, jobs: &[usize], outcomes: &[Outcomes]) -> Vec<Option<f64>> {
    let of = |job: usize, take: &Take| -> Vec<Option<f64>> {
        let number = |run: &Option<Result<Outcome, String>>| take.from(run.as_ref()?.as_ref().ok()?);
        outcomes[jobs[job]].iter().map(number).collect()
    };
    match source {
        Source::Number(job, take) => of(*job, take),
        Source::Ratio(after, before, take) => ratios(&of(*before, take), &of(*after, take), 0.0),
    }
}

/// After/before, where both are known; what is below `floor` counts as `floor`.
fn ratios(before: &[Option<f64>], after: &[Option<f64>], floor: f64) -> Vec<Option<f64>> {
    let one = |(before, after): (&Option<f64>, &Option<f64>)| {
        let (before, after) = ((*before)?.max(floor), (*after)?.max(floor));
        // Nothing before and something after: no finite ratio says so. Nothing on both sides: no
        // change was seen, which is a prediction like any other and scored as one.
        match (before > 0.0, after > 0.0) {
            (true, _) => Some(after / before),
            (false, true) => Some(f64::INFINITY),
            (false, false) => Some(1.0),
        }
    };
    before.iter().zip(after).map(one).collect()
}

fn estimate(variants: &[Variant], numbers: &[Option<f64>]) -> Option<Estimate> {
    let known = || variants.iter().zip(numbers).filter_map(|(variant, number)| Some((variant, (*number)?)));
    let own: Vec<f64> = known().filter(|known| known.0.is_own()).map(|known| known.1).collect();
    let all: Vec<f64> = known().map(|known| known.1).collect();
    Estimate::of(&own, &all)
}

fn simulated_ratio(
    plan: &Plan,
    change: &Change,
    jobs: &[usize],
    outcomes: &[Outcomes],
    variants: &[Variant],
) -> Option<Estimate> {
    let side = |cell: usize| Some(numbers(plan.cells[cell].source.as_ref().ok()?, jobs, outcomes));
    let after = side(change.after)?;
    let found = match change.before {
        Some(before) => ratios(&side(before)?, &after, change.floor),
        None => after,
    };
    estimate(variants, &found)
}

/// What went wrong in a job's runs, if anything did.
fn failures(runs: &Outcomes) -> Option<String> {
    let failed: Vec<&String> = runs.iter().flatten().filter_map(|run| run.as_ref().err()).collect();
    let first = failed.first()?;
    Some(if runs.len() == 1 {
        (*first).clone()
    } else {
        format!("{} of {} runs failed: {first}", failed.len(), runs.len())
    })
}
