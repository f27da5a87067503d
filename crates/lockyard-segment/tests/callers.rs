//! Which code waited, which code made it wait, and whose hold time is known: two threads, in steps.
//!
//! A test program of its own: a process has one segment.

use std::sync::mpsc;
use std::thread;

use lockyard::condvar::Moved;
use lockyard::platform::Platform;
use lockyard::platform::linux::{Linux, threads};
use lockyard_segment::layout::HELD;
use lockyard_segment::sample::{CallerSample, Sample};
use lockyard_segment::{self as segment, Caller, Holder, Reader};

const LOCK: usize = 8;
const OTHER: usize = 16;
const A_WHILE_NS: u64 = 2_000_000;

/// The code that holds, and the code that waits: two places in this function.
fn code() -> [usize; 2] {
    let code = code as fn() -> [usize; 2] as usize;
    [code + 1, code + 2]
}

fn callers(sample: &Sample) -> Vec<&CallerSample> {
    let mut callers: Vec<_> = sample.classes.iter().flat_map(|class| &class.callers).collect();
    callers.sort_by_key(|caller| caller.place.place);
    callers
}

#[test]
fn a_hold_that_others_wait_for_is_timed_and_has_a_place() {
    segment::open(b"test").expect("a segment");
    let class = segment::class(b"mutex", b"one", 0);
    let [holds, waits] = code().map(|address| Caller::new(class, address));
    let ((told, tell), (done, end)) = (mpsc::channel(), mpsc::channel::<()>());
    let reader = Reader::open(std::process::id()).expect("this process");
    // More than a thread can note are left for others to release.
    for lock in 100..100 + 2 * HELD {
        segment::acquired(holds, lock);
    }
    thread::scope(|scope| {
        // Dropped where a check fails: the other ends then.
        let done = done;
        scope.spawn(move || {
            segment::acquired(holds, LOCK);
            told.send(threads::kernel_id_of_caller()).expect("the other listens");
            end.recv().expect("the other tells");
            segment::released(LOCK);
        });
        let holder = tell.recv().expect("the other tells");
        let waiting = segment::contended_by(waits, LOCK, Holder::Thread(holder));
        let sample = reader.sample();
        assert!(sample.lost_ns() > 0, "a wait under way is lost time");
        let waiter = sample.waiters.iter().find_map(|thread| thread.waits.as_ref()).expect("it waits");
        assert_eq!((waiter.lock, waiter.holder), (LOCK as u64, holder));
        let thread = sample.waiters.iter().find(|thread| thread.thread == holder).expect("it holds what is waited for");
        assert_eq!(thread.holds.iter().map(|hold| hold.lock).collect::<Vec<_>>(), [LOCK as u64]);
        assert!(!thread.holds[0].place.file.is_empty());
        assert!(!waiter.has_deadline);
        let waiting = waiting.with_deadline();
        let sample = reader.sample();
        let waiter = sample.waiters.iter().find_map(|thread| thread.waits.as_ref()).expect("it waits");
        assert_eq!((waiter.holder, waiter.has_deadline), (holder, true));
        done.send(()).expect("the other listens");
        waiting.gave_up();
    });
    let sample = reader.sample();
    let [held, waited] = callers(&sample)[..] else { panic!("{:?}", sample.classes) };
    assert_eq!((held.holds, held.waits), (1, 0));
    assert!(held.hold_ns > 0 && held.hold_max == held.hold_ns);
    assert_eq!((waited.holds, waited.waits), (0, 1));
    assert_eq!(waited.place.place, held.place.place + 1);
    assert!(sample.classes.iter().any(|class| class.counts.hold_max >= held.hold_max));
    assert!(sample.waiters.is_empty());

    // A hold ends where its release begins, not where the thread runs again after it.
    let waited = || callers(&reader.sample()).iter().map(|caller| caller.wait_ns).sum::<u64>();
    let held = || callers(&reader.sample()).iter().map(|caller| caller.hold_ns).sum::<u64>();
    let (held_before, waited_before) = (held(), waited());
    let begun = Linux::now();
    segment::acquired_past_others(holds, OTHER);
    segment::releasing(OTHER);
    let released = Linux::now();
    while Linux::now() < released + A_WHILE_NS {}
    segment::released(OTHER);
    assert!(held() - held_before <= released - begun);

    // A thread that was moved into a lock's queue.
    let moved = Linux::now();
    segment::acquired(holds, OTHER);
    let waiter = || reader.sample().waiters.into_iter().find_map(|thread| thread.waits);
    let (sleeps, slept) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let sleeper = thread::spawn(move || {
        segment::idle(waits, OTHER);
        sleeps.send(Linux::current().expect("a record").id()).expect("the other listens");
        left.recv().expect("the other tells");
        segment::awake();
        segment::acquired_after(waits, OTHER, moved, false);
        segment::released(OTHER);
    });
    let asleep = slept.recv().expect("it sleeps");
    assert_eq!(waiter(), None, "at its condition variable");
    segment::awaited(Moved { mutex: OTHER, waiter: asleep.raw() });
    let wait = waiter().expect("it waits for the mutex");
    assert_eq!((wait.lock, wait.holder), (OTHER as u64, threads::kernel_id_of_caller()));
    let marked = Linux::now();
    while Linux::now() < marked + A_WHILE_NS {}
    segment::releasing(OTHER);
    segment::released(OTHER);
    assert_eq!(waiter(), None, "nobody holds it");
    Linux::notify(Linux::thread(asleep), || 0);
    let late = Linux::now() - moved;
    segment::acquired(holds, OTHER);
    let wait = waiter().expect("it had to wait");
    assert!(wait.ns <= late, "it is on its way to a CPU");
    segment::released(OTHER);
    leave.send(()).expect("it listens");
    sleeper.join().expect("it ends");
    assert!(waited() - waited_before >= A_WHILE_NS);

    // A thread ends with a lock for which it has waited, another thread gets its page.
    for _ in 0..2 {
        let ends = || {
            // Nobody holds what the one before it left: it is no longer there to release it.
            let holder = Holder::Record(Linux::current().expect("a record").id().raw());
            let waiting = segment::contended_by(waits, LOCK, holder);
            let waiters = Reader::open(std::process::id()).expect("this process").sample().waiters;
            let wait = waiters.iter().find_map(|thread| thread.waits.as_ref()).expect("it waits");
            assert_eq!(wait.holder, 0);
            waiting.got();
        };
        thread::scope(|scope| scope.spawn(ends).join()).expect("it ends");
    }
    let sample = reader.sample();
    let [_, waited] = callers(&sample)[..] else { panic!("{:?}", sample.classes) };
    assert_eq!(waited.waits, 4);

    // Nor what one that ended left, when another thread has its record, and goes on.
    let (say, said) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let innocent = thread::spawn(move || {
        segment::acquired(holds, OTHER);
        segment::released(OTHER);
        say.send(Linux::current().expect("a record").id().raw()).expect("the other listens");
        left.recv().expect("the other tells");
    });
    let innocent_record = said.recv().expect("it has a record");
    let waiting = segment::contended_by(waits, LOCK, Holder::Record(innocent_record));
    assert_eq!(waiter().expect("it waits").holder, 0);
    waiting.gave_up();
    leave.send(()).expect("it listens");
    innocent.join().expect("it ends");
    // That of one that holds more locks than it has notes for is known.
    let locks = || (0x1000..0x1000 + 64 * 40usize).step_by(64);
    locks().for_each(|lock| segment::acquired(holds, lock));
    let me = Holder::Record(Linux::current().expect("a record").id().raw());
    let waits_for = || {
        let waiting = segment::contended_by(waits, 0x1000, me);
        let waiters = Reader::open(std::process::id()).expect("this process").sample().waiters;
        let found = waiters.iter().find_map(|thread| thread.waits.as_ref()).expect("it waits").holder;
        waiting.gave_up();
        found
    };
    let found = thread::scope(|scope| scope.spawn(waits_for).join()).expect("it ends");
    assert_eq!(found, threads::kernel_id_of_caller());
    locks().for_each(|lock| {
        segment::releasing(lock);
        segment::released(lock);
    });

    let since = sample.since(&sample);
    assert!(callers(&since).iter().all(|caller| caller.waits == 0 && caller.holds == 0));
    let reset = Reader::open_to_reset(std::process::id()).expect("this process");
    reset.reset().expect("there is memory");
    assert!(callers(&reader.sample()).iter().all(|caller| caller.holds == 0));
    segment::close();
}
