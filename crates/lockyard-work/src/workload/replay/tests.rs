//! What a replay counts and what it does.

use std::time::Duration;

use lockyard::platform::linux::Linux;

use super::*;
use crate::spec::Workload;

const TWO: &str = r#"
[lock.MAP]
kind = "rwlock"
objects = 4
popularity = 1
[lock.LIST]
[lock.OWN]
private = true
[[role]]
threads = 1
cpu = "2us"
takes = [
  { lock = "MAP", hold = "50ns", reads = 75, count = 2 },
  { lock = "LIST", hold = "50ns", within = "MAP", count = 0.5 },
]
[[role]]
threads = 1
cpu = "1us"
takes = [{ lock = "OWN", hold = "50ns" }]
"#;

fn replayed(threads: usize) -> Run {
    played(TWO, threads)
}

#[test]
fn operations_take_what_the_model_says() {
    let run = replayed(2);
    let counted = |lock: usize, what: &str| run.locks[lock].numbers[what] as f64;
    // Classes are in the order of their names: LIST, MAP, OWN.
    let maps = counted(1, "acquisitions");
    assert!(maps > 100.0, "{:?}", run.locks);
    let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.25;
    assert!(near(counted(1, "reads") / maps, 0.75), "{:?}", run.locks);
    assert!(near(counted(0, "acquisitions") / maps, 0.5), "{:?}", run.locks);
    assert!(counted(2, "acquisitions") > 100.0 && run.metrics["progress"] > 0.0);
}

#[test]
fn a_fraction_is_a_probability() {
    let mut prng = Prng::new(1, 0);
    let sum: u32 = (0..10_000).map(|_| often(1.25, &mut prng)).sum();
    assert!((12_200..12_800).contains(&sum), "{sum}");
    assert_eq!(often(3.0, &mut prng), 3);
}

const QUEUE: &str = r#"
[lock.M]
lines = 1
[queue.ITEMS]
[queue.PLACES]
start = 4
[[role]]
cpu = "20us"
gets = [{ queue = "PLACES" }]
takes = [{ lock = "M", hold = "50ns" }]
puts = [{ queue = "ITEMS" }]
[[role]]
cpu = "2us"
gets = [{ queue = "ITEMS" }]
takes = [{ lock = "M", hold = "50ns" }]
puts = [{ queue = "PLACES" }]
"#;

fn played(text: &str, threads: usize) -> Run {
    played_as(Replay::new("queue", Arc::new(Model::read("queue.toml", text).unwrap())), threads)
}

fn played_as(replay: Replay, threads: usize) -> Run {
    let spec = Spec {
        threads,
        duration: Duration::from_millis(30),
        warmup: Duration::from_millis(1),
        replay: Some(Arc::new(replay)),
        ..Spec::new(Workload::Replay)
    };
    run::<Linux>(&spec, |name| locks::recorded::<Linux>(&Lock::new(""), name), false).unwrap()
}

#[test]
fn the_slower_of_two_that_wait_for_each_other_sets_the_pace() {
    let run = played(QUEUE, 2);
    let [items, places] = &run.locks[1..] else { panic!("{:?}", run.locks) };
    assert_eq!((items.lock, places.lock), (1, 2));
    // At the edges of the window as many as there are places may be under way.
    let apart = items.numbers["units"].abs_diff(places.numbers["units"]);
    assert!(apart <= 6 && items.numbers["waits"] > 0, "{items:?} {places:?}");
    assert_eq!((items.numbers["alone"], places.numbers["alone"]), (0, 0));
}

/// As the C library's condition variables: a signaller waits for those that were signalled before.
#[test]
fn threads_that_wait_at_condition_variables_are_signalled_in_groups() {
    let text = QUEUE
        .replace("[queue.ITEMS]", "[queue.ITEMS]\ncondition = true")
        .replace("start = 4", "start = 4\ncondition = true");
    let replay = Replay { tested: vec![false], ..Replay::new("queue", Arc::new(Model::read("q", &text).unwrap())) };
    let run = played_as(replay, 6);
    let [items, places] = &run.locks[1..] else { panic!("{:?}", run.locks) };
    assert!(items.numbers["units"] > 10 && items.numbers["waits"] > 0, "{items:?} {places:?}");
    assert_eq!((items.numbers["alone"], places.numbers["alone"]), (0, 0));
}

#[test]
fn nobody_waits_for_ever_where_all_wait() {
    let text =
        QUEUE.replace("start = 4", "start = 0").replace("\"ITEMS\" }]\ntakes", "\"ITEMS\", lasts = \"10us\" }]\ntakes");
    let run = played(&text, 2);
    let alone: u64 = run.locks[1..].iter().map(|queue| queue.numbers["alone"]).sum();
    let operations: u64 = run.tallies.iter().map(|tally| tally.jobs).sum();
    assert!(alone > 0 && operations > 0, "{:?}", run.locks);
}

#[test]
fn a_broadcast_is_for_those_that_wait() {
    let text = "[queue.Q]\n[[role]]\nname = \"a\"\ncpu = \"5us\"\nputs = [{ queue = \"Q\", all = true }]\n\
        [[role]]\nname = \"b\"\nthreads = 3\ncpu = \"1us\"\ngets = [{ queue = \"Q\" }]\n";
    let run = played(text, 4);
    let queue = &run.locks[0].numbers;
    assert!(queue["waits"] > 0 && queue["alone"] == 0, "{queue:?}");
}

#[test]
fn units_with_fractions_are_even() {
    let mut share = super::queues::Share::new(1, 3);
    let all: u32 = (0..1000).map(|_| share.of(0, 0.37)).sum();
    assert!((369..=371).contains(&all), "{all}");
    assert!((0..100).map(|_| share.of(0, 2.5)).all(|units| units == 2 || units == 3));
}

/// What a thread does with a unit, its sleep too, was played without one.
#[test]
fn no_more_threads_are_in_a_semaphores_sections_than_it_has_units() {
    let text = "[lock.POOL]\nkind = \"semaphore\"\nunits = 2\n[lock.M]\nlines = 1\n[[role]]\ncpu = \"1us\"\n\
        takes = [{ lock = \"POOL\", hold = \"1us\", sleep = \"200us\" }, \
        { lock = \"M\", hold = \"50ns\", within = \"POOL\" }]\n";
    let run = played(text, 8);
    // Classes are in the order of their names: M, POOL.
    let pool = &run.locks[1].numbers;
    let most = run.window_ns as f64 * 2.0 / 200e3 + 8.0;
    assert!(pool["acquisitions"] > 10 && (pool["acquisitions"] as f64) < most, "{pool:?}, not {most}");
    assert!(pool["waited_ns"] > 0 && run.locks[0].numbers["acquisitions"] > 10, "{:?}", run.locks);
}
