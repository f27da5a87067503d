//! What predictions come to, of models as small as can be.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Words {
    #[command(flatten)]
    args: PredictArgs,
}

/// What `lockyard predict` takes from these words and a model.
fn options(name: &str, model: &str, words: &str) -> PredictOptions {
    let path = std::env::temp_dir().join(format!("lockyard-predict-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, model).unwrap();
    let file = path.to_string_lossy().into_owned();
    let words = Words::try_parse_from(["predict", &file].into_iter().chain(words.split_whitespace())).unwrap();
    let options = PredictOptions::check(&words.args);
    std::fs::remove_file(path).unwrap();
    options.unwrap_or_else(|failure| panic!("{failure}"))
}

const SHORT: &str = "[lock.A]\n[[role]]\ncpu = \"2us\"\ntakes = [{ lock = \"A\", hold = \"1us\" }]\n";

/// They were "0 ×", and a point of one run of three had a band without width.
#[test]
fn what_a_signal_cut_off_is_not_filled_in() {
    let words = "--machine quad2008 --threads 1,2 --lock none --what-if hold/2:A --what-if remove:A --duration 300us";
    let options = options("cut", SHORT, words);
    let (mut outcomes, _) = simulate::run(options.runs());
    // Of the second alternative one run of two threads is missing, of the third all.
    let [_, half, none] = options.alternatives.as_slice() else { panic!() };
    let place = outcomes.iter().position(|one| half.is_of(one, 2)).unwrap();
    outcomes.remove(place);
    outcomes.retain(|one| !none.is_of(one, 1) && !none.is_of(one, 2));
    let found = outcome::collect(&options, &outcomes, true).unwrap();
    let points: Vec<usize> = found.alternatives.iter().map(|one| one.points.len()).collect();
    assert_eq!(points, [2, 1, 0]);
    assert!(!found.sentence.contains('×'), "{}", found.sentence);
    let look = crate::report::look::Look { styled: false, full_titles: true, events: false };
    let text = table::render(&found, look);
    assert!(text.contains("This run was interrupted"), "{text}");
    let row = text.lines().find(|line| line.starts_with("remove:A")).unwrap();
    assert_eq!(row.split_whitespace().skip(1).collect::<Vec<_>>(), ["–"; 4], "{text}");
    let csv = csv::render(&found);
    assert!(csv.lines().next().unwrap().ends_with(",settled,interrupted"), "{csv}");
    assert!(csv.lines().skip(1).all(|line| line.ends_with(",true")), "{csv}");
}

/// With hundreds of threads at one lock a handful of operations was a rate.
#[test]
fn a_run_in_which_little_happens_is_made_longer() {
    let model = "[lock.A]\n[[role]]\ncpu = \"100us\"\ntakes = [{ lock = \"A\", hold = \"1ms\" }]\n";
    let words = "--machine epyc9654_2s:nps4 --threads 32 --lock none --what-if remove:A";
    let longer = options("longer", model, words);
    let (mut outcomes, _) = simulate::run(longer.runs());
    let spans = |outcomes: &[Outcome]| -> Vec<Duration> {
        let mine = outcomes.iter().filter(|one| longer.alternatives[0].is_of(one, 32));
        mine.map(|one| one.run.spec.duration).collect()
    };
    let before = spans(&outcomes);
    assert!(outcomes.iter().any(|one| !settle::settled(one)));
    assert!(!settle::lengthen(&longer, &mut outcomes));
    assert!(outcomes.iter().all(settle::settled));
    assert_eq!((spans(&outcomes).len(), spans(&outcomes)[0]), (before.len(), before[0] * 4));
    let found = outcome::collect(&longer, &outcomes, false).unwrap();
    assert!(found.sentence.contains("remove:A × ") && !found.sentence.contains("settled"), "{}", found.sentence);
    // A time that is given is kept, and what it does not tell is not told.
    let given = options("given", model, &format!("{words} --duration 5ms"));
    let found = run(&given).unwrap();
    assert!(!found.alternatives[0].points[0].settled && !found.sentence.contains('×'), "{}", found.sentence);
    let look = crate::report::look::Look { styled: false, full_titles: true, events: false };
    let text = table::render(&found, look);
    assert!(text.contains("? has not settled") && csv::render(&found).contains(",false,false"), "{text}");
}

#[test]
fn alternatives_have_a_band() {
    let words = "--machine quad2008 --threads 4 --lock none --what-if remove:A --duration 2ms";
    let found = run(&options("band", SHORT, words)).unwrap();
    let (base, other) = (&found.alternatives[0], &found.alternatives[1]);
    let (times, low, high) = other.beside(base).unwrap();
    assert!(low <= times && times <= high && low > 1.0, "{low} {times} {high}");
    let said = format!("remove:A × {} ({} – {})", three(times), three(low), three(high));
    assert!(found.sentence.contains(&said), "{} not {said}", found.sentence);
}

fn three(value: f64) -> String {
    crate::report::numbers::three(value)
}

const WAITS: &str =
    "[lock.A]\nlines = 1\n[[role]]\ncpu = \"10us\"\nwait = \"100us\"\ntakes = [{ lock = \"A\", hold = \"2us\" }]\n";

/// Two threads on a core were to take what the threads slept.
#[test]
fn what_threads_sleep_they_do_not_lose_to_another_on_their_core() {
    let words = "--machine skx_1s --threads 40 --lock none --what-if remove:A --arrival recorded --duration 2ms";
    let found = run(&options("sleep", WAITS, words)).unwrap();
    let losses = &found.alternatives[0].points[0].losses;
    let core = losses.iter().find(|loss| loss.what == "two threads on a core").map_or(0.0, |loss| loss.share);
    assert!(core < 0.2, "{losses:?}");
}

/// The estimate was of threads that never sleep, beside a simulation in which they do.
#[test]
fn the_estimate_counts_the_waits_that_are_simulated() {
    let estimate = |more: &str| {
        let words = format!("--machine skx_1s --threads 1 --lock none --what-if remove:A --duration 1ms {more}");
        run(&options("estimate", WAITS, &words)).unwrap().estimates[0].threads
    };
    let (saturated, recorded) = (estimate(""), estimate("--arrival recorded"));
    assert!(recorded > 7.0 * saturated, "{saturated} {recorded}");
}
