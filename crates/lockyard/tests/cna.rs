//! The compact NUMA-aware spinlock's own states: waiters are moved aside, go first after a while, or become the queue.

use lockyard::event::Event;
use lockyard::spin::cna::{ASIDE_NS, RawCnaSpinLock};
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};
use lockyard_check::stage::{Stage, Steps};

/// Plays a full queue at one time of the day: whether a head begins a circle is drawn from the clock. `pause` passes while somebody is aside, or not.
/// Returns whether the second waiter was stopped, and how often somebody was moved aside, flushed, spliced.
fn play(time: u64, stop: Option<u64>, pause: u64) -> (bool, [i64; 3]) {
    let mut sums = [0; 3];
    let mut stopped = false;
    let lock = RawCnaSpinLock::<Scripted>::default();
    let served = Steps::<Scripted>::default();
    let inside = Steps::<Scripted>::default();
    let section = || {
        assert_eq!(inside.advance(), 1, "two owners");
        served.advance();
        inside.retreat();
    };
    let cycle = || {
        lock.acquire();
        section();
        // SAFETY: acquired above.
        unsafe { lock.release() };
    };
    let hold = || {
        lock.acquire();
        section();
    };
    Scene::play(|scene, [holder, a, b, c, d, e]| {
        scene.advance(time);
        holder.does(|| lock.acquire());
        // Nodes 1, 2, 0, 1, 2. The first holds the lock for a while: the second orders the queue meanwhile.
        a.starts(hold);
        match stop {
            Some(stop) => drop(b.starts_until(stop, cycle)),
            None => drop(b.starts(cycle)),
        }
        [c, d, e].into_iter().for_each(|actor| drop(actor.starts(cycle)));
        // SAFETY: acquired above.
        holder.starts(|| unsafe { lock.release() });
        scene.settle();
        // The second is head now, but asleep until its turn ends; then it orders the queue, as the first still holds the lock.
        scene.advance(2_000_000);
        stopped |= b.is_stopped();
        scene.advance(pause);
        // SAFETY: acquired by its first task.
        let release = || unsafe { lock.release() };
        let released = a.starts_if_idle(release).is_some();
        b.resumes();
        scene.settle();
        if !released {
            // It was waiting for the stopped one to link itself.
            drop(a.starts(release));
        }
        scene.finish_all();
        for (sum, event) in sums.iter_mut().zip([Event::CnaAside, Event::CnaFlush, Event::CnaSplice]) {
            *sum += scene.events(event);
        }
    });
    assert_eq!(served.count(), 5);
    assert!(lock.at_rest());
    (stopped, sums)
}

/// A time at which the second waiter begins a circle.
fn shuffling_time() -> u64 {
    (0..10_000).find(|&time| play(time, None, 0).1[0] > 0).expect("one in 128")
}

#[test]
fn waiters_are_moved_aside_and_served() {
    Scripted::perform("cna: moved aside", || {
        let time = shuffling_time();
        assert_eq!(play(time, None, 0).1, [2, 0, 1]);
        assert_eq!(play(time, None, 2 * ASIDE_NS).1, [2, 1, 0]);
    });
}

#[test]
fn a_head_that_orders_is_preempted_everywhere() {
    Scripted::perform("cna: preempted", || {
        let time = shuffling_time();
        let stops = every_stop(|stop| play(time, Some(stop), 0).0);
        assert!(stops > 10, "{stops}");
    });
}
