//! Whole figures, cut short: complete, scored, and the same whatever the number of workers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockyard_figures::{Figure, Options, Reproduction, find, reproduce};

fn short(workers: usize) -> Options {
    Options { workers, seeds: 1, ranges: false, changes: Vec::new(), longest: Some(Duration::from_millis(1)) }
}

fn wanted(names: &[&str]) -> Vec<&'static Figure> {
    names.iter().map(|name| find(name).unwrap()).collect()
}

fn run(names: &[&str], options: &Options) -> Reproduction {
    reproduce(&wanted(names), options, &|_| {}, &AtomicBool::new(false)).unwrap()
}

#[test]
fn one_worker_and_two_agree_to_the_last_digit() {
    // 08 wants two of the jobs of 07: they run once.
    let names = ["rwsem_07", "rwsem_08", "rwsem_06"];
    let digits = |workers| format!("{:?}", run(&names, &short(workers)));
    let one = digits(1);
    assert_eq!(one, digits(2));
    assert_eq!(one, digits(2));
}

#[test]
fn a_figure_is_the_same_alone_and_among_others() {
    let among = run(&["rwsem_06", "rwsem_08"], &short(2));
    let alone = run(&["rwsem_08"], &short(2));
    assert_eq!(format!("{:?}", among.figures[1]), format!("{:?}", alone.figures[0]));
}

#[test]
fn every_cell_has_a_number_or_a_reason() {
    let done = run(&["rwsem_06", "rwsem_08", "rwsem_12", "semaphore_02"], &short(0));
    assert_eq!(done.figures.len(), 4);
    for figure in &done.figures {
        for cell in &figure.cells {
            assert!(cell.simulated.is_some() || cell.note.is_some(), "{}: {cell:?}", figure.figure);
        }
    }
    let missing = |figure: usize| done.figures[figure].cells.iter().filter(|cell| cell.simulated.is_none()).count();
    assert_eq!(missing(0), 1, "one machine has no file");
}

#[test]
fn a_curve_says_where_its_peak_is_on_both_sides() {
    let done = run(&["pi_stress_rtmutex_topspinner_2016"], &short(0));
    let figure = &done.figures[0];
    for cell in &figure.cells {
        println!(
            "{} {}: published {:?}, simulated {:?}, {:?}",
            cell.row, cell.column, cell.published, cell.simulated, cell.note
        );
    }
    figure.notes.iter().for_each(|note| println!("{note}"));
    println!("{:?}", figure.score);
    assert!(figure.cells.iter().all(|cell| cell.simulated.is_some_and(|found| found.median > 0.0)));
    let told =
        |column: &str| figure.notes.iter().any(|note| note.starts_with(&format!("{column}: peak published at 7,")));
    assert!(told("vanilla") && told("patched"), "{:?}", figure.notes);
    // By hand: the largest published change is 4.9 %, and what is below 5 % is no change.
    assert_eq!(figure.score.signs, 0);
}

#[test]
fn the_loop_costs_what_a_poll_costs() {
    let done = run(&["rwsem_06"], &short(1));
    for cell in done.figures[0].cells.iter().filter(|cell| cell.simulated.is_some()) {
        let ratio = cell.simulated.unwrap().median / cell.published.unwrap();
        assert!((0.5..2.0).contains(&ratio), "{cell:?}");
    }
}

#[test]
fn a_stopped_run_reports_what_was_complete() {
    let stop = AtomicBool::new(true);
    let done = reproduce(&wanted(&["rwsem_06", "rwsem_12"]), &short(1), &|_| {}, &stop).unwrap();
    assert!(done.figures.is_empty());
    assert_eq!(done.unfinished, ["rwsem_06_timed_spin_loop_ns", "rwsem_12_code_size"]);
    // Stopped after the first job: no figure is half there.
    let stop = AtomicBool::new(false);
    let halt = |_: lockyard_figures::Progress<'_>| stop.store(true, Ordering::Relaxed);
    let done = reproduce(&wanted(&["rwsem_06"]), &short(1), &halt, &stop).unwrap();
    assert_eq!((done.figures.len(), done.unfinished.len()), (0, 1));
}

#[test]
fn progress_grows_to_the_end() {
    let seen = Mutex::new(Vec::new());
    let note = |step: lockyard_figures::Progress<'_>| seen.lock().unwrap().push(step.share);
    reproduce(&wanted(&["rwsem_06"]), &short(2), &note, &AtomicBool::new(false)).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "{seen:?}");
    assert!((seen.last().unwrap() - 1.0).abs() < 1e-9);
}
