//! What `compare -- PROGRAM` says: a sentence, and a line for each subject.

use std::fmt::Write as _;

use serde::Serialize;

use super::json;
use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;
use crate::failure::Failure;

/// The fewest rounds whose least and greatest ratio enclose the middle 95 times in 100.
pub(crate) const FEWEST: usize = 6;
/// With more of the CPUs' time in others' hands nothing is told.
const VOID: f64 = 0.3;

/// One subject's numbers, round by round: a rate, or the inverse of a time.
pub(crate) type Rates = Vec<f64>;

/// All rounds.
#[derive(Debug)]
pub(crate) struct Compared<'a> {
    /// glibc, glibc again, and each choice, with as many rounds each.
    pub(crate) subjects: Vec<(&'a str, Rates)>,
    /// Whether the rates are what the program printed; else they are inverse times.
    pub(crate) metric: bool,
    /// The share of the CPUs' time that others had.
    pub(crate) others: Option<f64>,
}

#[derive(Serialize)]
struct Document<'a> {
    sentence: String,
    rounds: usize,
    metric: bool,
    others: Option<f64>,
    subjects: Vec<Subject<'a>>,
}

#[derive(Serialize)]
struct Subject<'a> {
    locks: &'a str,
    /// Of the metric, or seconds.
    median: f64,
    /// Against glibc in the same round: above 1 is faster.
    ratio: Middle,
    /// Round by round.
    values: Vec<f64>,
}

impl Compared<'_> {
    fn ratios(&self) -> Vec<Middle> {
        let base = &self.subjects[0].1;
        self.subjects.iter().map(|(_, rates)| Middle::of_ratios(rates, base)).collect()
    }

    fn sentence(&self, ratios: &[Middle]) -> String {
        if let Some(others) = self.others.filter(|others| *others > VOID) {
            return format!(
                "No verdict: other programs had {:.0} % of the CPUs' time; {}. Repeat it on a quiet machine.",
                others * 100.0,
                floor(ratios[1])
            );
        }
        let named: Vec<(&str, Middle)> = self.subjects.iter().map(|(name, _)| *name).zip(ratios.to_vec()).collect();
        sentence(&named[2..], ratios[1])
    }

    /// What a rate is called by.
    fn value(&self, rate: f64) -> f64 {
        if self.metric { rate } else { 1.0 / rate }
    }

    /// For people.
    pub(crate) fn table(&self, look: Look) -> String {
        let ratios = self.ratios();
        let mut out = format!("{}\n\n", look.bold(&self.sentence(&ratios)));
        let what = if self.metric { "result" } else { "time" };
        let mut table = new_table(look, ["  locks", what, "against glibc", "95 % interval"]);
        align_right(&mut table, &[1, 2, 3]);
        for (index, ((name, rates), ratio)) in self.subjects.iter().zip(&ratios).enumerate() {
            let middle = self.value(Middle::of(rates.clone()).value);
            let shown = if self.metric { numbers::three(middle) } else { numbers::time(1e9 * middle) };
            // The first is what the others are compared with.
            let (value, interval) =
                if index == 0 { ("1".to_owned(), "–".to_owned()) } else { (times(ratio.value), ratio.interval()) };
            table.add_row(vec![format!("  {name}"), shown, value, interval]);
        }
        out.push_str(&trimmed(&table));
        let rounds = numbers::count(self.subjects[0].1.len(), "round");
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "\n{}",
            look.dim(&format!("  Medians of {rounds}, in turns; above 1 is faster. glibc again: the noise."))
        );
        out
    }

    /// For programs.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn json(&self) -> Result<String, Failure> {
        let ratios = self.ratios();
        let subjects = self.subjects.iter().zip(&ratios).map(|((locks, rates), ratio)| Subject {
            locks,
            median: self.value(Middle::of(rates.clone()).value),
            ratio: *ratio,
            values: rates.iter().map(|rate| self.value(*rate)).collect(),
        });
        json::line(&Document {
            sentence: self.sentence(&ratios),
            rounds: self.subjects[0].1.len(),
            metric: self.metric,
            others: self.others,
            subjects: subjects.collect(),
        })
    }
}

/// A middle and an interval that encloses it 95 times in 100.
#[derive(Debug, Clone, Copy, Serialize)]
struct Middle {
    value: f64,
    low: f64,
    high: f64,
}

impl Middle {
    fn of_ratios(rates: &[f64], base: &[f64]) -> Self {
        Self::of(rates.iter().zip(base).map(|(rate, base)| rate / base).collect())
    }

    /// By the order of `values` alone, of which there are some.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let value = (values[(count - 1) / 2] + values[count / 2]) / 2.0;
        let outside = outside(count);
        Self { value, low: values[outside], high: values[count - 1 - outside] }
    }

    fn interval(&self) -> String {
        format!("{} to {}", times(self.low), times(self.high))
    }
}

/// How many of `count` values may be left out at each end, so that the rest encloses the middle of
/// what they are drawn from 95 times in 100.
fn outside(count: usize) -> usize {
    // The chance that at most so many of them lie below the middle: heads of a fair coin.
    let mut term = 0.5_f64.powi(count as i32);
    let (mut sum, mut left_out) = (term, 0);
    for heads in 1..count {
        term *= (count - heads + 1) as f64 / heads as f64;
        if 2.0 * (sum + term) > 0.05 {
            break;
        }
        sum += term;
        left_out = heads;
    }
    // `sum` is the chance of at most `left_out` on one side: then the interval ends beyond those.
    left_out.min((count - 1) / 2)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}")
}

fn floor(noise: Middle) -> String {
    format!("glibc against itself {} ({})", times(noise.value), noise.interval())
}

fn sentence(subjects: &[(&str, Middle)], noise: Middle) -> String {
    let floor = floor(noise);
    let best = subjects.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let faster = best.filter(|(_, ratio)| ratio.low > 1.0 && ratio.value > noise.high);
    if let Some((name, ratio)) = faster {
        return format!(
            "Other locks make this program faster: with {name} {} times as fast ({}); {floor}.",
            times(ratio.value),
            ratio.interval()
        );
    }
    let slower = subjects.iter().all(|(_, ratio)| ratio.high < 1.0 && ratio.value < noise.low);
    match best {
        Some((name, ratio)) if slower => format!(
            "Other locks make this program slower, the best of them {name} with {} ({}); {floor}. Keep glibc's.",
            times(ratio.value),
            ratio.interval()
        ),
        Some((name, ratio)) => format!(
            "No difference that these rounds show: {name} {} ({}); {floor}. Keep glibc's, or give it more rounds.",
            times(ratio.value),
            ratio.interval()
        ),
        None => floor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_come_from_the_order() {
        // Tables of the sign test: 6 values none, 9 one, 12 two, 20 five, 100 thirty-nine.
        assert_eq!([5, 6, 8, 9, 12, 20, 100].map(outside), [0, 0, 0, 1, 2, 5, 39]);
        let middle = Middle::of((1..=9).map(f64::from).collect());
        assert_eq!((middle.value, middle.low, middle.high), (5.0, 2.0, 8.0));
        let ratios = Middle::of_ratios(&[2.0, 4.0], &[1.0, 2.0]);
        assert_eq!((ratios.value, ratios.low, ratios.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_sentence_says_no_more_than_the_rounds() {
        let say = |value: f64, low: f64, high: f64, noise: f64| {
            let noise = Middle { value: 1.0, low: 1.0 - noise, high: 1.0 + noise };
            sentence(&[("hq", Middle { value, low, high })], noise)
        };
        assert!(say(1.12, 1.09, 1.15, 0.02).starts_with("Other locks make this program faster: with hq 1.120 times"));
        assert!(say(1.01, 1.005, 1.015, 0.02).starts_with("No difference"), "inside the noise");
        assert!(say(1.12, 0.99, 1.3, 0.02).starts_with("No difference"));
        assert!(say(0.9, 0.85, 0.95, 0.02).starts_with("Other locks make this program slower"));
    }

    #[test]
    fn a_busy_machine_has_no_verdict_and_programs_get_the_same() {
        let rates = |rate: f64| vec![rate; FEWEST];
        let subjects = vec![("glibc", rates(2.0)), ("glibc again", rates(2.0)), ("hq", rates(4.0))];
        let mut compared = Compared { subjects, metric: false, others: Some(0.1) };
        let document: serde_json::Value = serde_json::from_str(&compared.json().unwrap()).unwrap();
        let hq = &document["subjects"][2];
        assert_eq!((&hq["median"], &hq["ratio"]["value"], &hq["values"][5]), (&0.25.into(), &2.0.into(), &0.25.into()));
        assert!(document["sentence"].as_str().unwrap().starts_with("Other locks make this program faster"));
        compared.others = Some(0.31);
        let look = Look { styled: false, full_titles: true, events: true };
        assert!(compared.table(look).starts_with(
            "No verdict: other programs had 31 % of the CPUs' time; glibc against itself 1.000 (1.000 to 1.000). "
        ));
    }
}
