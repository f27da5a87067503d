//! A waiter that is stopped for ever, before each of its steps in turn: everybody else gets the
//! lock, again and again, and when it goes on all is in order.

use lockyard::spin::cna::Cna;
use lockyard::spin::hq::{Hq, RawHqSpinLock};
use lockyard::spin::qspinlock::Plain;
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};
use lockyard_check::scripted::{Actor, Scene, Scripted, every_stop};
use lockyard_check::scripts;

type Lock<K> = RawQueuedSpinLock<Scripted, K>;

/// Longer than any turn of so few.
const LONG_NS: u64 = 5_000_000;

fn cycle<K: Kind<Scripted>>(lock: &Lock<K>) {
    lock.acquire();
    release(lock);
}

fn release<K: Kind<Scripted>>(lock: &Lock<K>) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { lock.release() };
}

/// Turns the clock until it `is_so`, for three seconds at most: a queued waiter looks once a second
/// at least, and a stop may fall on each look.
fn soon(scene: &Scene, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        scene.settle();
        if is_so() {
            return;
        }
        scene.advance(1_000_000);
    }
}

/// Takes the lock five times by waiting and five times by trying, however long that takes, with
/// somebody stopped.
fn is_open<'e, K: Kind<Scripted>>(scene: &Scene, lock: &'e Lock<K>, [one, other]: [&Actor<'e>; 2]) {
    for _ in 0..5 {
        let got = one.starts(|| lock.acquire());
        // One that waits for it meanwhile, behind whoever is stopped.
        let next = other.starts(|| cycle(lock));
        soon(scene, || got.is_done());
        got.expect("it is free");
        one.does(|| release(lock));
        soon(scene, || next.is_done());
        next.expect("it is free");
    }
    for _ in 0..5 {
        let mut times = 0;
        while !one.does(|| lock.try_acquire()) {
            times += 1;
            assert!(times < 5, "free, and kept for one that does not come");
            scene.advance(1_000_000);
        }
        one.does(|| release(lock));
    }
}

/// In lanes, if the lock has them and it is wished.
fn begin<K: Kind<Scripted>>(lock: &Lock<K>, in_lanes: impl Fn(&Lock<K>)) {
    in_lanes(lock);
}

/// The victim queues alone, and is stopped before any of its steps; as head, sooner or later.
fn head_is_stopped<K: Kind<Scripted>>(in_lanes: impl Fn(&Lock<K>), wait_ns: u64) {
    first_is_stopped(in_lanes, wait_ns, [0, 0]);
}

/// The same; the victim, and the one that comes after it, may be of fixed priority.
fn first_is_stopped<K: Kind<Scripted>>(in_lanes: impl Fn(&Lock<K>), wait_ns: u64, priorities: [u32; 2]) {
    every_stop(|stop| {
        let lock = Lock::<K>::default();
        let mut stopped = false;
        Scene::play(|scene, [holder, victim, behind, one, other]| {
            victim.has_priority(priorities[0]);
            behind.has_priority(priorities[1]);
            holder.does(|| lock.acquire());
            begin(&lock, &in_lanes);
            victim.starts_until(stop, || cycle(&lock));
            for _ in 0..4 {
                scene.advance(wait_ns / 4);
            }
            let waits = behind.starts(|| cycle(&lock));
            holder.does(|| release(&lock));
            scene.settle();
            stopped = victim.is_stopped();
            // As owner it keeps everybody out.
            if !stopped || lock.raw() & 0xff == 0 {
                soon(scene, || waits.is_done());
                waits.expect("it is free");
                is_open(scene, &lock, [one, other]);
            }
            victim.resumes();
            scene.finish();
        });
        assert_eq!(lock.raw(), u32::from(K::REST), "stop {stop}");
        stopped
    });
}

/// The victim queues between two others.
fn waiter_is_stopped<K: Kind<Scripted>>(in_lanes: impl Fn(&Lock<K>), wait_ns: u64) {
    every_stop(|stop| {
        let lock = Lock::<K>::default();
        let mut stopped = false;
        Scene::play(|scene, [holder, first, victim, behind, one, other]| {
            // All of a node.
            [first, victim, behind].iter().for_each(|actor| actor.is_on_node(0));
            holder.does(|| lock.acquire());
            begin(&lock, &in_lanes);
            let before = first.starts(|| cycle(&lock));
            victim.starts_until(stop, || cycle(&lock));
            let waits = behind.starts(|| cycle(&lock));
            for _ in 0..4 {
                scene.advance(wait_ns / 4);
            }
            holder.does(|| release(&lock));
            scene.settle();
            stopped = victim.is_stopped();
            if !stopped || lock.raw() & 0xff == 0 {
                soon(scene, || before.is_done() && waits.is_done());
                before.expect("it is free");
                waits.expect("it is free");
                is_open(scene, &lock, [one, other]);
            }
            victim.resumes();
            scene.finish();
        });
        assert_eq!(lock.raw(), u32::from(K::REST), "stop {stop}");
        stopped
    });
}

/// The victim, head and alone, is stopped before any of its steps, and the lock becomes free. Some
/// steps later a try is refused, and notes it. When the victim goes on nobody will wake it.
fn head_meets_a_note<K: Kind<Scripted>>(later: u64) {
    every_stop(|stop| {
        let lock = Lock::<K>::default();
        let mut stopped = false;
        Scene::play(|scene, [holder, victim, other]| {
            holder.does(|| lock.acquire());
            let got = victim.starts_until(stop, || cycle(&lock));
            let mut held = true;
            for _ in 0..4 {
                scene.advance(LONG_NS);
                let again = holder.starts(|| {
                    release(&lock);
                    lock.acquire();
                });
                soon(scene, || again.is_done() || victim.is_stopped());
                held = again.is_done();
                if !held || victim.is_stopped() {
                    break;
                }
            }
            stopped = victim.is_stopped();
            if held {
                holder.does(|| release(&lock));
                victim.resumes_until(later);
                scene.settle();
                if other.does(|| lock.try_acquire()) {
                    other.does(|| release(&lock));
                }
            }
            victim.resumes();
            soon(scene, || got.is_done());
            got.expect("it is free");
            scene.finish();
        });
        stopped
    });
}

fn plain<K: Kind<Scripted>>(_: &Lock<K>) {}

fn by_node(lock: &RawHqSpinLock<Scripted>) {
    assert!(lock.begin_in_lanes(0));
}

scripts! {
    /// Its exchange fails for the note alone: it slept on, without a timer, beside a free lock.
    fn a_head_that_meets_a_note_does_not_sleep_beside_a_free_lock() {
        for later in 0..8 {
            head_meets_a_note::<Plain>(later);
            head_meets_a_note::<Cna>(later);
            head_meets_a_note::<Hq>(later);
        }
    }

    /// In one queue.
    fn a_head_that_is_stopped_keeps_nobody_out() {
        for wait_ns in [0, LONG_NS] {
            head_is_stopped::<Plain>(plain, wait_ns);
            head_is_stopped::<Cna>(plain, wait_ns);
            head_is_stopped::<Hq>(plain, wait_ns);
        }
    }

    /// By node.
    fn a_head_that_is_stopped_in_its_lane_keeps_nobody_out() {
        for wait_ns in [0, LONG_NS] {
            head_is_stopped::<Hq>(by_node, wait_ns);
        }
    }

    /// Beside the queue.
    fn an_urgent_waiter_that_is_stopped_keeps_nobody_out() {
        for (wait_ns, priority) in [(0, 0), (0, 1), (0, 9), (LONG_NS, 0), (LONG_NS, 1), (LONG_NS, 9)] {
            first_is_stopped::<Plain>(plain, wait_ns, [5, priority]);
            first_is_stopped::<Cna>(plain, wait_ns, [5, priority]);
            first_is_stopped::<Hq>(plain, wait_ns, [5, priority]);
        }
    }

    /// In one queue.
    fn a_waiter_that_is_stopped_keeps_nobody_out() {
        for wait_ns in [0, LONG_NS] {
            waiter_is_stopped::<Plain>(plain, wait_ns);
            waiter_is_stopped::<Cna>(plain, wait_ns);
            waiter_is_stopped::<Hq>(plain, wait_ns);
        }
    }

    /// By node.
    fn a_waiter_that_is_stopped_in_its_lane_keeps_nobody_out() {
        for wait_ns in [0, LONG_NS] {
            waiter_is_stopped::<Hq>(by_node, wait_ns);
        }
    }
}
