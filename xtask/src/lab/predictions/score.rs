//! How far predictions were from what was measured.

use std::fmt;

use super::super::json::Value;

/// What was asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Question {
    Again,
    Threads,
    Cpus,
    Locks,
    Shards,
}

impl Question {
    pub(super) const ALL: [Question; 5] =
        [Question::Again, Question::Threads, Question::Cpus, Question::Locks, Question::Shards];

    pub(super) fn name(self) -> &'static str {
        match self {
            Question::Again => "again",
            Question::Threads => "threads",
            Question::Cpus => "cpus",
            Question::Locks => "locks",
            Question::Shards => "shards",
        }
    }

    /// A change of less than this has no direction; `None`: it is no change that is asked for.
    fn counts(self) -> Option<f64> {
        match self {
            Question::Again | Question::Cpus => None,
            Question::Threads | Question::Shards => Some(0.10),
            Question::Locks => Some(0.05),
        }
    }
}

/// One prediction, and what came.
pub(super) struct Cell {
    pub(super) question: Question,
    pub(super) program: &'static str,
    pub(super) threads: u32,
    pub(super) lock: String,
    pub(super) predicted: f64,
    pub(super) measured: f64,
    /// What the two simple prophets say.
    pub(super) prophets: Option<[f64; 2]>,
}

/// The larger of two by the smaller, less one.
fn error(predicted: f64, measured: f64) -> f64 {
    (predicted / measured).ln().abs().exp() - 1.0
}

impl Cell {
    fn error(&self) -> f64 {
        error(self.predicted, self.measured)
    }

    pub(super) fn json(&self) -> Value {
        let mut members = vec![
            ("question".to_owned(), Value::Text(self.question.name().to_owned())),
            ("program".to_owned(), Value::Text(self.program.to_owned())),
            ("threads".to_owned(), Value::Number(f64::from(self.threads))),
            ("lock".to_owned(), Value::Text(self.lock.clone())),
            ("predicted".to_owned(), Value::Number(self.predicted)),
            ("measured".to_owned(), Value::Number(self.measured)),
            ("error".to_owned(), Value::Number(self.error())),
        ];
        for (name, said) in ["up_to_the_cpus", "usl"].iter().zip(self.prophets.iter().flatten()) {
            members.push(((*name).to_owned(), Value::Number(*said)));
        }
        Value::Object(members.into_iter().map(|(key, value)| (key, rounded(value))).collect())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { question, threads, lock, predicted, measured, .. } = self;
        let miss = 100.0 * self.error();
        write!(
            f,
            "{:<8} {threads:>2} threads {lock:<12} predicted {predicted:>6.3}, measured {measured:>6.3}",
            question.name()
        )?;
        write!(f, ", off by {miss:.0} %")
    }
}

/// Four digits: more say nothing.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number((number * 1e4).round() / 1e4),
        other => other,
    }
}

/// Two ways to guess without a simulator.
#[derive(Clone, Copy)]
pub(super) struct Prophets {
    cpus: f64,
    /// The law's one coefficient that two rates give: contention.
    contention: f64,
}

impl Prophets {
    /// From the rates with one and with two threads.
    pub(super) fn of(one: f64, two: f64) -> Prophets {
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        Prophets { cpus, contention: 2.0 * one / two - 1.0 }
    }

    /// By how much throughput changes from so many threads to so many.
    pub(super) fn change(self, from: u32, to: u32) -> [f64; 2] {
        let (from, to) = (f64::from(from), f64::from(to));
        let law = |threads: f64| threads / (1.0 + self.contention * (threads - 1.0)).max(0.01);
        [to.min(self.cpus) / from.min(self.cpus), law(to) / law(from)]
    }
}

/// The score of a question.
pub(super) struct Score {
    question: Question,
    cells: usize,
    median: f64,
    p90: f64,
    worst: f64,
    /// Changes that count, and those whose direction was right.
    signs: Option<(usize, usize)>,
    prophets: Option<[f64; 2]>,
}

fn at(sorted: &[f64], share: f64) -> f64 {
    sorted
        .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Of the cells of `question`; `None`: it was not asked.
pub(super) fn score(question: Question, cells: &[Cell]) -> Option<Score> {
    let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.question == question).collect();
    if cells.is_empty() {
        return None;
    }
    let errors = sorted(cells.iter().map(|cell| cell.error()));
    let signs = question.counts().map(|least| {
        let counting = || cells.iter().filter(|cell| error(cell.measured, 1.0) > least);
        let right = |cell: &&&Cell| (cell.predicted - 1.0) * (cell.measured - 1.0) > 0.0;
        (counting().count(), counting().filter(right).count())
    });
    let prophet = |number: usize| {
        let said = cells.iter().filter_map(|cell| cell.prophets.map(|said| error(said[number], cell.measured)));
        at(&sorted(said), 0.5)
    };
    let prophets = cells.iter().any(|cell| cell.prophets.is_some()).then(|| [prophet(0), prophet(1)]);
    let [median, p90, worst] = [0.5, 0.9, 1.0].map(|share| at(&errors, share));
    Some(Score { question, cells: cells.len(), median, p90, worst, signs, prophets })
}

impl Score {
    pub(super) fn json(&self) -> Value {
        let mut members = vec![
            ("score".to_owned(), Value::Text(self.question.name().to_owned())),
            ("cells".to_owned(), Value::Number(self.cells as f64)),
            ("median_error".to_owned(), Value::Number(self.median)),
            ("p90_error".to_owned(), Value::Number(self.p90)),
            ("worst_error".to_owned(), Value::Number(self.worst)),
        ];
        if let Some((signs, right)) = self.signs {
            members.push(("signs".to_owned(), Value::Number(signs as f64)));
            members.push(("signs_right".to_owned(), Value::Number(right as f64)));
        }
        for (name, error) in ["up_to_the_cpus", "usl"].iter().zip(self.prophets.iter().flatten()) {
            members.push(((*name).to_owned(), Value::Number(*error)));
        }
        Value::Object(members.into_iter().map(|(key, value)| (key, rounded(value))).collect())
    }
}

/// For people.
pub(super) fn table(scores: &[Score]) -> String {
    let mut text = String::from("question  cells  median    p90  worst  direction  up to the CPUs    USL\n");
    for Score { question, cells, median, p90, worst, signs, prophets } in scores {
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let signs = signs.map_or_else(String::new, |(signs, right)| format!("{right}/{signs}"));
        let [cpus, law] = prophets.map_or_else(Default::default, |errors| errors.map(percent));
        text += &format!(
            "{:<9} {cells:>5} {:>7} {:>6} {:>6} {signs:>10} {cpus:>15} {law:>6}\n",
            question.name(),
            percent(*median),
            percent(*p90),
            percent(*worst)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(predicted: f64, measured: f64) -> Cell {
        let (question, lock) = (Question::Threads, String::new());
        Cell { question, program: "hot", threads: 8, lock, predicted, measured, prophets: Some([1.0, measured]) }
    }

    #[test]
    fn scores_count_changes_that_are_large_enough() {
        let cells = [cell(1.0, 1.25), cell(0.9, 0.5), cell(2.0, 1.05)];
        let score = score(Question::Threads, &cells).unwrap();
        // The first says "no change", which is no direction; the third changed by too little.
        assert_eq!((score.cells, score.signs), (3, Some((2, 1))));
        assert!((score.median - 0.8).abs() < 1e-9 && (score.worst - 2.0 / 1.05 + 1.0).abs() < 1e-9);
        assert!(score.prophets.unwrap()[1].abs() < 1e-9);
        assert!(super::score(Question::Locks, &cells).is_none());
    }

    #[test]
    fn the_law_goes_through_the_rates_that_it_was_given() {
        let prophets = Prophets { cpus: 2.0, ..Prophets::of(100.0, 160.0) };
        assert!((prophets.change(1, 2)[1] - 1.6).abs() < 1e-9);
        assert!((prophets.change(2, 64)[0] - 1.0).abs() < 1e-9);
        assert!(prophets.change(2, 64)[1] < 4.0 / 1.6);
    }
}
