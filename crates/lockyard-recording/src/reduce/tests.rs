use super::numbers::PARTS;
use super::*;

/// Two workers, each of which takes A twice (once with B in it) and its own C in an operation;
/// one cleaner that takes B.
fn recorded() -> Recording {
    Recording::from_text("a", &text()).unwrap()
}

fn text() -> String {
    let mut text = "lockyard recording 1\nclass mutex A\nclass rwlock B\nclass spin C\n\
        lock 0\nlock 1\nlock 2\nlock 2\n"
        .to_owned();
    for thread in [1, 2] {
        text += &format!("window {thread} 0\n");
        for operation in 0..200_u64 {
            let own = thread + 1;
            let lines = [
                (100, "request 0 write".to_owned()),
                (110, "request 1 read".to_owned()),
                (130, "release 1".to_owned()),
                (150, "release 0".to_owned()),
                (250, "request 0 write".to_owned()),
                (280, "release 0".to_owned()),
                (400, format!("request {own} write")),
                (405, format!("release {own}")),
            ];
            for (at, what) in lines {
                text += &format!("{} {thread} {what}\n", operation * 1_000 + at);
            }
        }
    }
    text += "window 9 0\n";
    for operation in 0..50 {
        text += &format!("{} 9 off 900\n", operation * 1_000 + 950);
        text += &format!("{} 9 request 1 write\n", operation * 1_000 + 960);
        text += &format!("{} 9 release 1\n", operation * 1_000 + 1_000);
    }
    text
}

/// A thread that takes A 200 times, finds it taken at `waits` of the calls and waits, and tries in
/// vain `fails` times, `before` ns earlier.
fn with_tries(waits: u64, fails: u64, before: u64) -> Model {
    let mut text = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n".to_owned();
    for operation in 0..200_u64 {
        let begin = operation * 10_000 + 8_000;
        if operation < fails {
            text += &format!("{} 1 failed 0 write\n", begin - before);
        }
        text += &format!("{begin} 1 request 0 write\n");
        if operation < waits {
            text += &format!("{} 1 grant 0\n", begin + 50);
        }
        text += &format!("{} 1 release 0\n", begin + 150);
    }
    of_text(&text)
}

/// The model, which can be read back.
fn of_text(text: &str) -> Model {
    let model = Recording::from_text("a", text).unwrap().model(None).unwrap();
    assert_eq!(Model::read("b", &model.to_string()).unwrap(), model, "{model}");
    model
}

#[test]
fn tries_are_known_by_those_that_were_in_vain() {
    let found = |waits, fails, before| {
        let model = with_tries(waits, fails, before);
        let take = &model.roles[0].takes[0];
        (take.count, take.tries)
    };
    assert_eq!(found(0, 0, 0), (1.0, 0.0));
    assert_eq!(found(50, 0, 0), (1.0, 0.0));
    assert_eq!(found(0, 100, 6_000), (1.0, 100.0));
    assert_eq!(found(25, 75, 6_000), (1.0, 75.0));
    // A call that tries, and then waits.
    assert_eq!(found(50, 50, 50), (1.0, 0.0));
    // Too few to tell.
    assert_eq!(found(0, 3, 6_000).1, 0.0);
}

/// An operation was four sections with one thread, and a try in vain with many.
#[test]
fn an_operation_is_a_call_whether_it_had_the_lock_or_not() {
    let model = with_tries(0, 300, 6_000);
    let take = &model.roles[0].takes[0];
    assert_eq!((take.count, take.tries), (1.0, 100.0), "{model}");
}

#[test]
fn a_lock_that_is_tried_and_never_had_is_no_section() {
    let text = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 1 0\n\
        1000 1 failed 0 write\n2000 1 request 1 write\n2030 1 release 1\n";
    let model = of_text(text);
    assert_eq!(model.roles[0].takes.len(), 1, "{model}");
    let only =
        "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n1000 1 failed 0 write\n2000 1 failed 0 write\n";
    assert!(Recording::from_text("a", only).unwrap().model(None).is_err());
    // Many tries for one section: within what a model may have.
    let mut many = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 1 0\n".to_owned();
    for operation in 0..20_u64 {
        let begin = operation * 10_000_000;
        (1..2_000).for_each(|at| many += &format!("{} 1 failed 0 write\n", begin + at * 1_000));
        many += &format!("{} 1 request 0 write\n{0} 1 release 0\n", begin + 3_000_000);
        many += &format!("{} 1 request 1 write\n{0} 1 release 1\n", begin + 4_000_000);
    }
    of_text(&many);
}

#[test]
fn what_is_nested_in_a_section_is_not_in_a_try_in_vain() {
    let mut text = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 1 0\n".to_owned();
    for operation in 0..100_u64 {
        let begin = operation * 10_000;
        for (at, what) in [
            (1_000, "failed 0 write"),
            (5_000, "request 0 write"),
            (5_100, "request 1 write"),
            (5_200, "release 1"),
            (5_300, "release 0"),
        ] {
            text += &format!("{} 1 {what}\n", begin + at);
        }
    }
    let model = of_text(&text);
    let counts: Vec<(f64, Option<usize>)> = model.roles[0].takes.iter().map(|take| (take.count, take.within)).collect();
    assert_eq!(counts, [(2.0, None), (1.0, Some(0))], "{model}");
}

#[test]
fn a_recording_comes_to_what_was_done() {
    let model = recorded().model(None).unwrap();
    assert_eq!(Model::read("b", &model.to_string()).unwrap(), model, "{model}");
    let names: Vec<&str> = model.locks.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(names, ["A", "B", "C"]);
    assert_eq!(model.locks.iter().map(|lock| lock.private).collect::<Vec<_>>(), [false, false, true]);
    let worker = model.roles.iter().find(|role| role.threads == 2.0).expect("two workers");
    let counts: Vec<(usize, f64, Option<usize>)> =
        worker.takes.iter().map(|take| (take.lock, take.count, take.within)).collect();
    assert_eq!(counts, [(0, 2.0, None), (1, 0.5, Some(0)), (2, 1.0, None)], "{model}");
    // 10 + 20 around the nested section, and 30; of B 20.
    assert_eq!(worker.takes[0].hold.mean(), 30.0);
    assert_eq!((worker.takes[1].hold.mean(), worker.takes[1].reads), (20.0, 100.0));
    let cpu = worker.cpu.mean();
    assert!((cpu - (1_000.0 - 85.0)).abs() < 10.0, "{cpu}");
    let cleaner = model.roles.iter().find(|role| role.threads == 1.0).expect("a cleaner");
    assert_eq!((cleaner.wait.mean(), cleaner.takes[0].hold.mean()), (900.0, 40.0));
}

/// The main thread, which starts the others: it was a role of its own, and saturated its lock.
#[test]
fn a_thread_that_hardly_takes_a_lock_has_no_role() {
    let text = text() + "class mutex D\nlock 3\nwindow 12 0\n500 12 request 4 write\n520 12 release 4\n";
    let model = Recording::from_text("a", &text).unwrap().model(None).unwrap();
    assert_eq!((model.roles.len(), model.locks.len()), (2, 3), "{model}");
}

#[test]
fn an_operation_can_be_said() {
    let model = recorded().model(Some(("A", 20.0))).unwrap();
    let worker = model.roles.iter().find(|role| role.threads == 2.0).unwrap();
    assert_eq!((worker.takes[0].count, worker.takes[2].count), (20.0, 10.0));
    assert!(recorded().model(Some(("X", 1.0))).is_err());
}

#[test]
fn what_nests_both_ways_is_taken_outside() {
    let mut text = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 1 0\n".to_owned();
    for round in 0..30_u64 {
        let (outer, inner) = if round % 3 == 0 { (1, 0) } else { (0, 1) };
        let at = round * 100;
        text += &format!("{} 1 request {outer} write\n{} 1 request {inner} write\n", at + 10, at + 20);
        text += &format!("{} 1 release {inner}\n{} 1 release {outer}\n", at + 30, at + 40);
    }
    let model = Recording::from_text("a", &text).unwrap().model(None).unwrap();
    assert_eq!(Model::read("b", &model.to_string()).unwrap(), model, "{model}");
    let nested: Vec<(usize, Option<usize>)> =
        model.roles[0].takes.iter().map(|take| (take.lock, take.within)).collect();
    assert_eq!(nested, [(0, None), (1, Some(0)), (1, None)]);
}

/// An array of two, of which each thread takes one inside the other: it was a class of two locks
/// to draw from, and the order was lost.
#[test]
fn locks_of_one_place_that_are_taken_in_order_are_several() {
    let text = |inner: fn(u64) -> u64| {
        let mut text = "lockyard recording 1\nclass mutex A\nlock 0\nlock 0\nlock 0\n".to_owned();
        for thread in [1, 2] {
            text += &format!("window {thread} 0\n");
            for round in 0..60_u64 {
                let (at, inner) = (round * 100, inner(round));
                text += &format!("{} {thread} request 0 write\n{} {thread} request {inner} write\n", at + 10, at + 20);
                text += &format!("{} {thread} release {inner}\n{} {thread} release 0\n", at + 30, at + 40);
            }
        }
        text
    };
    let model = Recording::from_text("a", &text(|_| 1)).unwrap().model(None).unwrap();
    let names: Vec<&str> = model.locks.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!((names, model.roles[0].takes[1].within), (vec!["A 1", "A 2"], Some(0)), "{model}");
    let both = Recording::from_text("a", &text(|_| 1)).unwrap().model(Some(("A", 2.0))).unwrap();
    assert_eq!(both.roles[0].takes.iter().map(|take| take.count).collect::<Vec<_>>(), [1.0, 1.0], "{both}");
    // Where nobody can tell which comes next, they stay one class.
    let model = Recording::from_text("a", &text(|round| 1 + round * round % 7 % 2)).unwrap().model(None).unwrap();
    assert_eq!((model.locks.len(), model.locks[0].objects), (1, 3), "{model}");
}

/// A collector that takes every worker's lock once made the workers roles of their own.
#[test]
fn locks_that_threads_have_for_themselves_stay_a_class() {
    let mut text = "lockyard recording 1\nclass mutex A\nlock 0\nlock 0\nlock 0\n".to_owned();
    for thread in [0, 1, 2] {
        text += &format!("window {} 0\n", thread + 1);
        for round in 0..100_u64 {
            let at = round * 100;
            text += &format!(
                "{} {} request {thread} write\n{} {} release {thread}\n",
                at + 10,
                thread + 1,
                at + 90,
                thread + 1
            );
        }
    }
    text += "window 9 0\n10 9 request 0 write\n20 9 release 0\n30 9 request 1 write\n40 9 release 1\n\
        50 9 request 2 write\n60 9 release 2\n";
    let model = Recording::from_text("a", &text).unwrap().model(None).unwrap();
    assert_eq!((model.locks.len(), model.locks[0].private, model.locks[0].objects), (1, true, 1), "{model}");
}

#[test]
fn threads_that_hold_a_lock_much_longer_are_another_role() {
    let mut text = "lockyard recording 1\nclass mutex A\nlock 0\n".to_owned();
    for (thread, hold) in [(1, 100), (2, 300), (3, 120), (4, 320)] {
        text += &format!("window {thread} 0\n");
        for round in 0..50_u64 {
            let at = round * 1_000 + 100;
            text += &format!("{at} {thread} request 0 write\n{} {thread} release 0\n", at + hold);
        }
    }
    let model = Recording::from_text("a", &text).unwrap().model(None).unwrap();
    let roles: Vec<(f64, f64)> = model.roles.iter().map(|role| (role.threads, role.takes[0].hold.mean())).collect();
    assert_eq!(roles, [(2.0, 110.0), (2.0, 310.0)], "{model}");
}

/// One distribution for both let a reader hold as long as a writer, now and then.
#[test]
fn reads_and_writes_that_differ_are_two_takes() {
    let text = |write: u64| {
        let mut text = "lockyard recording 1\nclass mutex B\nclass rwlock A\nlock 0\nlock 1\nwindow 1 0\n".to_owned();
        for round in 0..200_u64 {
            let begin = round * 200_000 + 100;
            let (mode, own) = if round % 4 == 0 { ("write", write) } else { ("read", 400) };
            text += &format!("{begin} 1 request 1 {mode}\n{begin} 1 request 0 write\n{} 1 release 0\n", begin + 50);
            text += &format!("{} 1 release 1\n", begin + 50 + own);
        }
        of_text(&text)
    };
    let takes = |model: &Model| -> Vec<(usize, f64, f64, f64, Option<usize>)> {
        let take = |take: &Take| (take.lock, take.count, take.reads, take.hold.mean(), take.within);
        model.roles[0].takes.iter().map(take).collect()
    };
    // B is taken in each section of A, whatever its mode.
    let apart = [(0, 0.75, 100.0, 400.0, None), (1, 1.0, 0.0, 50.0, Some(0)), (0, 0.25, 0.0, 70_000.0, None)];
    assert_eq!(takes(&text(70_000)), [apart.as_slice(), &[(1, 1.0, 0.0, 50.0, Some(2))]].concat());
    assert_eq!(takes(&text(450)), [(0, 1.0, 75.0, 413.0, None), (1, 1.0, 0.0, 50.0, Some(0))]);
}

/// What was set up once, in 200 ms under the lock, came again and again.
#[test]
fn a_first_section_out_of_all_proportion_is_no_section_of_the_model() {
    let model = |sections: u64, first: &str| {
        let mut text = format!(
            "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n1000 1 request 0 write\n{first}\
            200001000 1 release 0\n"
        );
        for round in 1..sections {
            let begin = 200_000_000 + round * 10_000;
            text += &format!("{begin} 1 request 0 write\n{} 1 release 0\n", begin + 1_000);
        }
        of_text(&text).roles[0].takes[0].section_ns()
    };
    assert_eq!(model(1_000, "200001000 1 off 199000000\n"), 1_000.0);
    assert_eq!(model(1_000, ""), 1_000.0);
    // Too few others to tell.
    assert!(model(50, "") > 1_000_000.0);
}

#[test]
fn nothing_comes_to_nothing() {
    assert!(Recording::default().model(None).is_err());
}

#[test]
fn parts_keep_the_mean() {
    let values: Vec<u64> = (0..1_200).map(|value| value * value).collect();
    let mean = values.iter().sum::<u64>() as f64 / 1_200.0;
    let parts = spread(&values);
    assert_eq!(parts.values().len(), PARTS);
    assert!((parts.mean() / mean - 1.0).abs() < 0.001);
    assert_eq!(spread(&[100, 101, 99]).values(), [100]);
}

#[test]
fn popularity_is_kept() {
    assert_eq!(popularity(&[10.0, 9.0, 8.0]), Popularity::Zipf(0.0));
    assert_eq!(popularity(&[10.0, 1.0]), Popularity::Weights(vec![10.0, 1.0]));
    let zipf: Vec<f64> = (1..=1_000).map(|rank| 1e6 / f64::from(rank)).collect();
    assert_eq!(popularity(&zipf), Popularity::Zipf(1.0));
}

/// The lock that the main thread took once, at the end, was the program; later, such a recording
/// was refused.
#[test]
fn threads_that_wait_and_take_no_lock_are_no_threads_to_be_without() {
    let mut text = "lockyard recording 1\nclass mutex A\nclass semaphore S\nlock 0\nlock 1\n".to_owned();
    for (thread, what) in [(1, "wait"), (2, "signal")] {
        text += &format!("window {thread} 0\n");
        (1..=300).for_each(|at| text += &format!("{} {thread} {what} 1\n", 100 * at));
    }
    text += "window 3 40000\n40100 3 request 0 write\n80000 3 release 0\n";
    let model = Recording::from_text("a", &text).unwrap().model(None).unwrap();
    assert_eq!((model.roles.len(), model.queues.len(), model.lock("A")), (2, 1, None), "{model}");
}

/// Two locks in turn, then 3 µs: half of the operations computed nothing, and the others 6 µs.
#[test]
fn what_an_operation_computes_is_what_lies_around_all_of_its_sections() {
    let mut text = "lockyard recording 1\nclass mutex A\nclass mutex B\nlock 0\nlock 1\nwindow 1 0\n".to_owned();
    for round in 0..100 {
        let at = round * 9_000 + 3_000;
        text += &format!("{at} 1 request 0 write\n{} 1 release 0\n", at + 3_000);
        text += &format!("{} 1 request 1 write\n{} 1 release 1\n", at + 3_020, at + 5_980);
    }
    let recording = Recording::from_text("a", &text).unwrap();
    let model = recording.model(None).unwrap();
    let role = &model.roles[0];
    assert!(role.cpu.values().iter().all(|ns| (3_000..=3_100).contains(ns)), "{model}");
    let before: Vec<f64> = role.takes.iter().map(|take| take.before.unwrap().round()).collect();
    assert_eq!(before, [99.0, 1.0], "{model}");
    assert_eq!(Model::read("a", &model.to_string()).unwrap(), model);
}

/// Turns of threads that do no operation were added to the rate of those that do.
#[test]
fn operations_are_those_of_threads_that_take_the_class() {
    let text = "lockyard recording 1\nclass mutex A\nclass mutex B\nclass semaphore S\nlock 0\nlock 1\nlock 2\n";
    let thread = |thread: u32| {
        let round =
            |at: u32| format!("{at} {thread} request {0} write\n{1} {thread} release {0}\n", thread - 1, at + 5);
        format!("window {thread} 0\n{}", (1..50).map(|turn| round(turn * 100)).collect::<String>())
    };
    let recording = Recording::from_text("a", &format!("{text}{}{}", thread(1), thread(2))).unwrap();
    let counted = |operation| -> Vec<bool> {
        let model = recording.model(operation).unwrap();
        model.roles.iter().map(|role| role.counted).collect()
    };
    assert_eq!(counted(None), [true, true]);
    assert_eq!(counted(Some(("B", 2.0))), [false, true]);
    let seldom = format!(
        "{text}{}{}window 3 0\n100 3 request 1 write\n120 3 release 1\n",
        thread(1),
        thread(1).replace(" 1 ", " 4 ")
    );
    let error = Recording::from_text("a", &seldom).unwrap().model(Some(("B", 1.0))).unwrap_err().to_string();
    assert!(error.contains("no thread that works all along takes 'B'"), "{error}");
    for none in ["C", "S"] {
        let error = recording.model(Some((none, 1.0))).unwrap_err().to_string();
        assert_eq!(error, format!("no lock class '{none}' was recorded; known are A, B"));
    }
}
