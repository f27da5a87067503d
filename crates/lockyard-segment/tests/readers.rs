//! A writer waits for one lock of many threads that hold it together: the hold of each is timed.
//!
//! A test program of its own: a process has one segment.

use std::sync::Barrier;
use std::thread;

use lockyard_segment::{self as segment, Caller, Class, Holder, Reader};

const LOCK: usize = 8;
/// More than a waiter looks at each time.
const READERS: usize = 150;

fn here() -> usize {
    here as fn() -> usize as usize
}

/// The thread holds more than a few locks, and this is not the last.
fn hold(class: Class, read: Caller) {
    for other in 100..110 {
        segment::acquired(class, other);
    }
    segment::acquired(read, LOCK);
    for other in 110..120 {
        segment::acquired(class, other);
    }
    // The last note takes the place of the first, and so LOCK's becomes the last.
    for other in 100..110 {
        segment::released(other);
    }
}

#[test]
fn all_of_many_readers_are_timed_when_a_writer_waits() {
    segment::open(b"test").expect("a segment");
    let class = segment::class(b"rwlock", b"one", 0);
    let (read, write) = (Caller::new(class, here() + 1), Caller::new(class, here() + 2));
    let reader = Reader::open(std::process::id()).expect("this process");
    let (held, end) = (Barrier::new(READERS + 1), Barrier::new(READERS + 1));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                hold(class, read);
                held.wait();
                end.wait();
                segment::released(LOCK);
            });
        }
        held.wait();
        let waiting = segment::contended_by(write, LOCK, Holder::Readers);
        let sample = reader.sample();
        let holds = sample.waiters.iter().flat_map(|thread| &thread.holds).filter(|hold| hold.lock == LOCK as u64);
        let (timed, not): (Vec<_>, Vec<_>) = holds.partition(|hold| hold.ns > 0);
        assert_eq!((timed.len(), not.len()), (READERS, 0));
        let waiter = sample.waiters.iter().find_map(|thread| thread.waits.as_ref()).expect("it waits");
        assert_ne!(waiter.holder, 0);
        end.wait();
        waiting.got_last();
    });
    segment::released(LOCK);
}
