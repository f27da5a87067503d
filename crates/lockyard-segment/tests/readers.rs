//! A writer waits for one lock of many threads that hold it together: the hold of each is timed.
//!
//! A test program of its own: a process has one segment.

use std::sync::mpsc;
use std::thread;

use lockyard::platform::linux::threads;
use lockyard_segment::{self as segment, Caller, Class, Holder, Reader};

const LOCK: usize = 0x80;
/// More than a waiter looks at each time.
const READERS: usize = 150;

fn here() -> usize {
    here as fn() -> usize as usize
}

/// The thread holds more than a few locks, and this is not the last.
fn hold(class: Class, read: Caller) {
    let others = |from: usize| (from..from + 10).map(|other| other << 8);
    others(10).for_each(|other| segment::acquired(class, other));
    segment::acquired(read, LOCK);
    others(20).for_each(|other| segment::acquired(class, other));
    // The last note takes the place of each that goes.
    others(10).for_each(segment::released);
}

#[test]
fn all_of_many_readers_are_timed_when_a_writer_waits() {
    segment::open(b"test").expect("a segment");
    let class = segment::class(b"rwlock", b"one", 0);
    let (read, write) = (Caller::new(class, here() + 1).shared(), Caller::new(class, here() + 2));
    let reader = Reader::open(std::process::id()).expect("this process");
    thread::scope(|scope| {
        let (holds, held) = mpsc::channel();
        // Dropped where a check fails: the readers end then.
        let mut ends = Vec::new();
        for _ in 0..READERS {
            let (end, ended) = mpsc::channel::<()>();
            let holds = holds.clone();
            scope.spawn(move || {
                hold(class, read);
                holds.send(threads::kernel_id_of_caller()).expect("the writer listens");
                // Nothing is sent: the other end is dropped.
                let _ = ended.recv();
                segment::released(LOCK);
            });
            ends.push(end);
        }
        let readers: Vec<u32> = (0..READERS).map(|_| held.recv().expect("a reader tells")).collect();
        let waiting = segment::contended_by(write, LOCK, Holder::Readers);
        let sample = reader.sample();
        let holds = sample.waiters.iter().flat_map(|thread| &thread.holds).filter(|hold| hold.lock == LOCK as u64);
        let (timed, not): (Vec<_>, Vec<_>) = holds.partition(|hold| hold.ns > 0);
        assert_eq!((timed.len(), not.len()), (READERS, 0));
        let waiter = sample.waiters.iter().find_map(|thread| thread.waits.as_ref()).expect("it waits");
        assert!(readers.contains(&waiter.holder), "{waiter:?}");
        waiting.gave_up();
    });
    segment::close();
}
