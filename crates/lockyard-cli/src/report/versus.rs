//! What `compare -- PROGRAM` says: a sentence, and a line for each subject.

use std::fmt::Write as _;

use serde::Serialize;

use super::json;
use super::look::{Look, align_right, new_table, trimmed};
use super::numbers;
use crate::failure::Failure;

/// The fewest rounds whose least and greatest ratio enclose the middle 95 times in 100.
pub(crate) const FEWEST: usize = 6;
/// With more of the CPUs' time in others' hands only what they cannot have caused is told.
const BUSY: f64 = 0.3;

/// The program, once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// A rate, or the inverse of a time.
    pub(crate) rate: f64,
    /// The share of the CPUs' time that others had meanwhile; 0: not known.
    pub(crate) others: f64,
}

/// All rounds.
#[derive(Debug)]
pub(crate) struct Compared<'a> {
    /// glibc, glibc again, and each choice, with as many rounds each.
    pub(crate) subjects: Vec<(&'a str, Vec<Run>)>,
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
    fn ratios(&self) -> Vec<Ratio> {
        let least = self.others.unwrap_or(0.0);
        let base = &self.subjects[0].1;
        self.subjects.iter().map(|(_, runs)| Ratio::of(runs, base, least)).collect()
    }

    fn sentence(&self, ratios: &[Ratio]) -> String {
        let named: Vec<(&str, Ratio)> = self.subjects.iter().map(|(name, _)| *name).zip(ratios.to_vec()).collect();
        sentence(&named[2..], ratios[1].middle, self.others.filter(|others| *others > BUSY))
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
        for (index, ((name, runs), ratio)) in self.subjects.iter().zip(&ratios).enumerate() {
            let middle = self.value(median(runs));
            let ratio = ratio.middle;
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
        let subjects = self.subjects.iter().zip(&ratios).map(|((locks, runs), ratio)| Subject {
            locks,
            median: self.value(median(runs)),
            ratio: ratio.middle,
            values: runs.iter().map(|run| self.value(run.rate)).collect(),
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

fn median(runs: &[Run]) -> f64 {
    Middle::of(runs.iter().map(|run| run.rate).collect()).value
}

/// How much faster than glibc's a subject's runs are, and what of it the locks must have made.
///
/// **The rule.** A scheduler leaves no CPU idle while a thread is ready, so a program that lacked
/// CPUs while others had the share f of them had the share 1 - f: alone it would have been as fast
/// as it was, at least, and 1 / (1 - f) times as fast, at most. The ratio of two runs, beside
/// others that had f of this one and g of glibc's, is therefore that of the locks times something
/// between 1 - f and 1 / (1 - g). A difference is told if the interval leaves out 1, and the middle
/// is beyond the interval of glibc against itself, which has in it what others did to some runs by
/// chance. On a busy machine both must be so at the bad end of what each round may have been.
///
/// What a share cannot bound: locks that wait for a thread without a CPU, a holder or the next one
/// of a queue, lose more than the share. That is a difference between locks, but one of busy
/// machines: so the sentence says beside what it was found.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    middle: Middle,
    /// Had others slowed glibc's runs alone; had they slowed the subject's alone.
    least: Middle,
    most: Middle,
}

impl Ratio {
    /// `others`: what others had of all the time. It is taken to be what they had of a run, at
    /// least: a short run is one or two of the ticks that the kernel counts in.
    fn of(runs: &[Run], base: &[Run], others: f64) -> Self {
        let rounds = || runs.iter().zip(base).map(|(run, base)| (run.rate / base.rate, run, base));
        let left = |run: &Run| 1.0 - run.others.max(others).min(1.0);
        Self {
            middle: Middle::of(rounds().map(|(ratio, ..)| ratio).collect()),
            least: Middle::of(rounds().map(|(ratio, _, base)| ratio * left(base)).collect()),
            most: Middle::of(rounds().map(|(ratio, run, _)| ratio / left(run)).collect()),
        }
    }

    /// Whether it is above what is due to chance, and on a busy machine to others.
    fn is_faster(&self, noise: Middle, busy: bool) -> bool {
        let ratio = if busy { self.least } else { self.middle };
        told(ratio.low) > 1.0 && told(ratio.value) > told(noise.high)
    }

    /// Whether it is below that.
    fn is_slower(&self, noise: Middle, busy: bool) -> bool {
        let ratio = if busy { self.most } else { self.middle };
        told(ratio.high) < 1.0 && told(ratio.value) < told(noise.low)
    }
}

/// A ratio as it is printed: what that does not show is no difference.
fn told(ratio: f64) -> f64 {
    times(ratio).parse().unwrap_or(ratio)
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
    if ratio < 0.01 { format!("{ratio:.5}") } else { format!("{ratio:.3}") }
}

/// A choice's name, and its runs'.
type Choice<'a> = (&'a str, Ratio);

fn best<'a>(choices: impl Iterator<Item = Choice<'a>>) -> Option<Choice<'a>> {
    choices.max_by(|a, b| a.1.middle.value.total_cmp(&b.1.middle.value))
}

/// `others`: what other programs had of the CPUs' time, if that was much.
fn sentence(choices: &[Choice<'_>], noise: Middle, others: Option<f64>) -> String {
    let busy = others.is_some();
    let share = 100.0 * others.unwrap_or(0.0);
    let if_busy = |text: String| if busy { text } else { String::new() };
    let floor = format!("glibc against itself {} ({})", times(noise.value), noise.interval());
    let beside = if_busy(format!("Beside other programs, with {share:.0} % of the CPUs' time: "));
    let caveat = if_busy(" On a quiet machine it may be another number.".to_owned());
    let all = || choices.iter().copied();
    if let Some((name, Ratio { middle, least, .. })) = best(all().filter(|(_, ratio)| ratio.is_faster(noise, busy))) {
        let least = if_busy(format!(", at least {} if they slowed glibc's runs alone", times(least.low)));
        let (value, interval) = (times(middle.value), middle.interval());
        return format!(
            "{beside}Other locks make this program faster: with {name} {value} times as fast ({interval}){least}; \
             {floor}.{caveat}"
        );
    }
    let Some((name, Ratio { middle, most, .. })) = best(all()) else { return floor };
    let (value, interval) = (times(middle.value), middle.interval());
    let slower: Vec<Choice<'_>> = all().filter(|(_, ratio)| ratio.is_slower(noise, busy)).collect();
    if slower.len() == choices.len() {
        let most = if_busy(format!(", at most {} if they slowed its runs alone", times(most.high)));
        return format!(
            "{beside}Other locks make this program slower, the best of them {name} with {value} ({interval}){most}; \
             {floor}. Keep glibc's.{caveat}"
        );
    }
    let said =
        |(name, Ratio { middle, .. }): &Choice<'_>| format!("{name} {} ({})", times(middle.value), middle.interval());
    let slower = match slower.iter().map(said).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!(" Slower: {some}."),
    };
    if busy {
        let made =
            if share < 99.5 { format!("a factor of {:.1}", 100.0 / (100.0 - share)) } else { "any difference".into() };
        format!(
            "No verdict: other programs had {share:.0} % of the CPUs' time, and may have made {made}; \
             {floor}.{slower} Repeat it on a quiet machine."
        )
    } else {
        format!(
            "No difference that these rounds show: {name} {value} ({interval}); {floor}.{slower} Keep glibc's, or give \
             it more rounds."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds in which a subject was so much faster than glibc, beside others that had those shares
    /// of its runs and of glibc's.
    fn rounds(ratio: f64, [others, of_glibcs]: [f64; 2]) -> [Vec<Run>; 2] {
        [(1.0, of_glibcs), (ratio, others)].map(|(rate, others)| vec![Run { rate, others }; FEWEST])
    }

    /// What is said of one choice.
    fn say(ratio: f64, shares: [f64; 2], noise: Middle, others: f64) -> String {
        let [base, runs] = rounds(ratio, shares);
        sentence(&[("hq", Ratio::of(&runs, &base, others))], noise, Some(others))
    }

    const EVEN: Middle = Middle { value: 1.0, low: 0.98, high: 1.02 };

    #[test]
    fn intervals_come_from_the_order() {
        // Tables of the sign test: 6 values none, 9 one, 12 two, 20 five, 100 thirty-nine.
        assert_eq!([5, 6, 8, 9, 12, 20, 100].map(outside), [0, 0, 0, 1, 2, 5, 39]);
        let middle = Middle::of((1..=9).map(f64::from).collect());
        assert_eq!((middle.value, middle.low, middle.high), (5.0, 2.0, 8.0));
        let [base, runs] = rounds(2.0, [0.0; 2]);
        let ratio = Ratio::of(&runs, &base, 0.0);
        assert_eq!((ratio.middle.value, ratio.middle.low, ratio.most.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_sentence_says_no_more_than_the_rounds() {
        let say = |value: f64, low: f64, high: f64| {
            let middle = Middle { value, low, high };
            sentence(&[("hq", Ratio { middle, least: middle, most: middle })], EVEN, None)
        };
        assert!(say(1.12, 1.09, 1.15).starts_with("Other locks make this program faster: with hq 1.120 times"));
        assert!(say(1.01, 1.005, 1.015).starts_with("No difference"), "inside the noise");
        // A program that sleeps for a second: "slower, 0.999 (0.999 to 1.000)", by a millisecond.
        let middle = Middle { value: 0.9987, low: 0.9985, high: 0.9998 };
        let noise = Middle { value: 1.0, low: 0.9989, high: 1.0011 };
        let said = sentence(&[("hq", Ratio { middle, least: middle, most: middle })], noise, None);
        assert!(said.starts_with("No difference"), "{said}");
        let middle = Middle { value: 1.0013, low: 1.0002, high: 1.0015 };
        let said = sentence(&[("hq", Ratio { middle, least: middle, most: middle })], noise, None);
        assert!(said.starts_with("No difference"), "{said}");
        assert!(say(1.12, 0.99, 1.3).starts_with("No difference"));
        let slower = say(0.9, 0.85, 0.95);
        assert!(slower.starts_with("Other locks make this program slower, the best of them hq with 0.900 (0.850 to"));
    }

    #[test]
    fn on_a_busy_machine_a_difference_beyond_what_others_can_have_made_is_told() {
        let faster = say(324.0, [0.75; 2], EVEN, 0.75);
        assert_eq!(
            faster,
            "Beside other programs, with 75 % of the CPUs' time: Other locks make this program faster: with hq \
             324.000 times as fast (324.000 to 324.000), at least 81.000 if they slowed glibc's runs alone; glibc \
             against itself 1.000 (0.980 to 1.020). On a quiet machine it may be another number."
        );
        let slower = say(1.0 / 324.0, [0.75; 2], EVEN, 0.75);
        assert!(
            slower.contains("slower, the best of them hq with 0.00309 (0.00309 to 0.00309), at most 0.012 if"),
            "{slower}"
        );
        // Three of four CPUs make a factor of four.
        for (ratio, told) in [(4.2, true), (3.9, false), (1.0, false), (0.26, false), (0.24, true)] {
            let said = say(ratio, [0.75; 2], EVEN, 0.75);
            assert_eq!(said.starts_with("Beside other programs"), told, "{said}");
            assert!(told || said.starts_with("No verdict: other programs had 75 % of the CPUs' time, and"), "{said}");
        }
        assert!(
            say(9.0, [1.0; 2], EVEN, 1.0).contains("100 % of the CPUs' time, and may have made any difference; glibc")
        );
    }

    #[test]
    fn what_others_had_of_one_subjects_runs_alone_is_not_taken_for_its_locks() {
        let [even, apart] = [[0.4; 2], [0.0, 0.9]].map(|shares| say(5.0, shares, EVEN, 0.4));
        assert!(even.starts_with("Beside") && apart.starts_with("No verdict"), "{even} {apart}");
        // As much as of all the time at least: the kernel's ticks are coarse.
        assert!(say(1.5, [0.0; 2], EVEN, 0.4).starts_with("No verdict"));
        // By its own runs it may be a tenth as fast as it would be alone.
        let [even, apart] = [[0.4; 2], [0.9, 0.0]].map(|shares| say(0.2, shares, EVEN, 0.4));
        assert!(even.starts_with("Beside") && apart.starts_with("No verdict"), "{even} {apart}");
    }

    #[test]
    fn on_a_busy_machine_the_noise_comes_on_top() {
        let noise = Middle { value: 1.0, low: 0.2, high: 5.0 };
        for (ratio, told) in [(9.0, false), (11.0, true), (0.11, false), (0.09, true)] {
            assert_eq!(say(ratio, [0.5; 2], noise, 0.5).starts_with("Beside"), told, "{ratio}");
        }
        // Nine times as fast in the middle, and in one round not at all, once others are left out.
        let [base, mut runs] = rounds(9.0, [0.5; 2]);
        runs[3].rate = 1.9;
        let said = sentence(&[("hq", Ratio::of(&runs, &base, 0.5))], EVEN, Some(0.5));
        assert!(said.starts_with("No verdict"), "{said}");
    }

    #[test]
    fn one_choice_that_is_much_slower_is_told_where_another_has_no_verdict() {
        let of = |ratio, share| {
            let [base, runs] = rounds(ratio, [share; 2]);
            Ratio::of(&runs, &base, share)
        };
        let say = |share, others| sentence(&[("hq", of(1.01, share)), ("mutex", of(0.01, share))], EVEN, others);
        let busy = say(0.5, Some(0.5));
        assert!(busy.starts_with("No verdict: ") && busy.contains("). Slower: mutex 0.010 (0.010 to"), "{busy}");
        let quiet = say(0.0, None);
        assert!(quiet.starts_with("No difference") && quiet.contains("). Slower: mutex 0.010 (0.010 to"), "{quiet}");
        // The other way round: of those that are surely faster it is the fastest.
        let mixed = sentence(&[("hq", of(3.0, 0.5)), ("mutex", of(2.5, 0.5)), ("x", of(1.5, 0.5))], EVEN, Some(0.5));
        assert!(mixed.contains("faster: with hq 3.000"), "{mixed}");
    }

    #[test]
    fn people_and_programs_get_the_same() {
        let runs = |rate: f64| vec![Run { rate, others: 0.1 }; FEWEST];
        let subjects = vec![("glibc", runs(2.0)), ("glibc again", runs(2.0)), ("hq", runs(4.0))];
        let mut compared = Compared { subjects, metric: false, others: Some(0.1) };
        let document: serde_json::Value = serde_json::from_str(&compared.json().unwrap()).unwrap();
        let hq = &document["subjects"][2];
        assert_eq!((&hq["median"], &hq["ratio"]["value"], &hq["values"][5]), (&0.25.into(), &2.0.into(), &0.25.into()));
        assert!(document["sentence"].as_str().unwrap().starts_with("Other locks make this program faster"));
        let look = Look { styled: false, full_titles: true, events: true };
        compared.others = Some(0.31);
        assert!(compared.table(look).starts_with("Beside other programs, with 31 % of the CPUs' time: Other locks"));
        compared.others = Some(0.61);
        assert!(compared.table(look).starts_with("No verdict: other programs had 61 % of the CPUs' time, and may"));
    }
}
