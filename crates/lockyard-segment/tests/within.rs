//! What is counted of the waits of threads that hold what others wait for: two threads, in steps.
//!
//! A process has one segment: one test at a time, and each has locks of its own.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use lockyard::condvar::Moved;
use lockyard::platform::Platform;
use lockyard::platform::linux::{Linux, threads};
use lockyard_segment::sample::{ClassSample, Sample};
use lockyard_segment::{self as segment, Class, Holder, Reader, Waiting};

const A_WHILE_NS: u64 = 2_000_000;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static OPENED: Once = Once::new();
    OPENED.call_once(|| segment::open(b"test").expect("a segment"));
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class called `name`, and the address of its lock.
fn lock(name: &str) -> (Class, usize) {
    let class = segment::class(b"mutex", name.as_bytes(), 0);
    (class, (1 << 20) + 8 * class.raw() as usize)
}

fn sample() -> Sample {
    Reader::open(std::process::id()).expect("this process").sample()
}

fn counted(name: &str) -> ClassSample {
    counted_in(sample(), name)
}

fn counted_in(sample: Sample, name: &str) -> ClassSample {
    sample.classes.into_iter().find(|class| class.name == name).expect("it has a lock")
}

fn within(name: &str) -> u64 {
    counted(name).within.iter().map(|within| within.ns).sum()
}

/// Another thread comes for what the calling thread holds, and goes again.
fn comes((class, lock): (Class, usize)) {
    let holder = Holder::Thread(threads::kernel_id_of_caller());
    thread::scope(|scope| scope.spawn(|| segment::contended_by(class, lock, holder).gave_up()).join())
        .expect("it goes");
}

fn pass() {
    let begun = Linux::now();
    while Linux::now() < begun + A_WHILE_NS {}
}

fn waits((class, lock): (Class, usize)) -> Waiting {
    segment::contended(class, lock)
}

fn released(locks: &[(Class, usize)]) {
    for (_, lock) in locks {
        segment::releasing(*lock);
        segment::released(*lock);
    }
}

/// All of a wait counted at whose end others came.
#[test]
fn what_holders_waited_before_others_came_costs_those_nothing() {
    let _alone = alone();
    let (outer, inner) = (lock("late outer"), lock("late inner"));
    // The hold has no time until they come; or it has one, since it ended a wait.
    for ends_a_wait in [false, true] {
        if ends_a_wait {
            waits(outer).got_last();
        } else {
            segment::acquired(outer.0, outer.1);
        }
        let counted = within("late outer");
        let waiting = waits(inner);
        pass();
        let before = Linux::now();
        comes(outer);
        waiting.got();
        let most = Linux::now() - before;
        released(&[inner]);
        let now = within("late outer") - counted;
        assert!(0 < now && now <= most, "{now} of {most}, ends a wait: {ends_a_wait}");
        released(&[outer]);
    }
}

/// The last lock that a thread had taken was looked at alone.
#[test]
fn every_lock_that_others_wait_for_is_told_of_a_wait() {
    let _alone = alone();
    let [outer, middle, own, inner] = ["all outer", "all middle", "all own", "all inner"].map(lock);
    for (class, lock) in [outer, middle, own] {
        segment::acquired(class, lock);
    }
    comes(outer);
    comes(middle);
    let waiting = waits(inner);
    pass();
    waiting.got();
    released(&[inner]);
    assert!(within("all outer") >= A_WHILE_NS && within("all middle") >= A_WHILE_NS);
    assert_eq!(within("all own"), 0, "nobody waits for it");
    released(&[own, middle, outer]);
}

/// The wait of a thread that a signal had put into the queue of its mutex was nobody's.
#[test]
fn a_wait_after_a_condition_variable_counts_within_a_hold() {
    let _alone = alone();
    let (outer, inner) = (lock("signalled outer"), lock("signalled inner"));
    segment::acquired(outer.0, outer.1);
    comes(outer);
    segment::idle(inner.0, inner.1);
    let record = Linux::current().expect("a record").id().raw();
    let since = Linux::now();
    let signals = move || {
        segment::acquired(inner.0, inner.1);
        segment::awaited(Moved { mutex: inner.1, waiter: record });
        pass();
        released(&[inner]);
    };
    thread::spawn(signals).join().expect("it releases it");
    segment::awake();
    segment::acquired_after(inner.0, inner.1, since, false);
    released(&[inner, outer]);
    assert!(within("signalled outer") >= A_WHILE_NS);
}

/// What was waited for before the reset was named, though it costs nothing since.
#[test]
fn what_holders_wait_for_is_counted_anew_after_a_reset() {
    let _alone = alone();
    let [outer, first, second] = ["reset outer", "reset first", "reset second"].map(lock);
    let nested = |inner| {
        segment::acquired(outer.0, outer.1);
        comes(outer);
        let waiting = waits(inner);
        pass();
        waiting.got();
        released(&[inner, outer]);
    };
    nested(first);
    nested(first);
    let before = sample();
    nested(second);
    // And between two looks.
    let between = sample().since(&before);
    let reset = Reader::open_to_reset(std::process::id()).expect("this process");
    reset.reset().expect("there is memory");
    nested(second);
    for class in [between, sample()].map(|sample| counted_in(sample, "reset outer")) {
        let of = |name| class.within.iter().filter(|within| within.name == name).map(|within| within.ns).sum::<u64>();
        assert!(of("reset first") == 0 && of("reset second") >= A_WHILE_NS, "{:?}", class.within);
    }
}
