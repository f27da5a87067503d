//! Whom a release of the reader-writer spinlock wakes, and for whom it is kept.

use lockyard::cancel::Until;
use lockyard::event::Event;
use lockyard::qrwlock::RawQRwLock;
use lockyard::wait::turn::{RESERVED_NS, TURN_NS};
use lockyard_check::lock::{Lock, Way};
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{rests, scripts};

const WAYS: [Way; 2] = [Way::Write, Way::Read];

fn release(lock: &RawQRwLock<Scripted>, way: Way) {
    // SAFETY: each script releases what its actor holds.
    unsafe { lock.unlock(way) };
}

fn cycle(lock: &RawQRwLock<Scripted>, way: Way) {
    lock.lock(way);
    release(lock, way);
}

scripts! {
    /// The first waiter is stopped in its sleep, after its turn or before. Others get the free
    /// lock, the one behind it included; it gets the lock when it goes on.
    fn a_qrwlock_is_not_kept_for_a_waiter_that_is_stopped() {
        for (stopped_way, other_way) in WAYS.into_iter().flat_map(|one| WAYS.map(|other| (one, other))) {
            for turns in [0, 1, 5] {
                let lock = RawQRwLock::<Scripted>::default();
                Scene::play(|scene, [holder, stopped, behind, passer]| {
                    [holder, stopped, behind, passer].into_iter().for_each(|actor| rests(scene, actor));
                    holder.does(|| lock.lock(Way::Write));
                    let late = stopped.starts(|| cycle(&lock, stopped_way));
                    for _ in 0..turns {
                        scene.advance(TURN_NS);
                    }
                    stopped.freeze();
                    let waits = behind.starts(|| cycle(&lock, other_way));
                    holder.does(|| release(&lock, Way::Write));
                    scene.settle();
                    let mut tries = 0;
                    while !passer.does(|| lock.try_lock(other_way)) {
                        tries += 1;
                        assert!(tries < 5, "free, and kept for one that does not come");
                        scene.advance(RESERVED_NS);
                    }
                    passer.does(|| release(&lock, other_way));
                    (0..5).for_each(|_| scene.advance(TURN_NS));
                    waits.expect("free");
                    assert!(!late.is_done());
                    stopped.thaw();
                    scene.finish();
                    late.expect("it goes on");
                });
                assert!(lock.at_rest());
            }
        }
    }

    /// The first waiter is about to sleep, and the lock is released before any of its steps: no
    /// sleep outlasts that.
    fn a_release_before_any_step_of_a_waiter_is_not_overlooked() {
        for (held, wanted) in [(Way::Write, Way::Write), (Way::Write, Way::Read), (Way::Read, Way::Write)] {
            every_stop(|stop| {
                let lock = RawQRwLock::<Scripted>::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, waiter]| {
                    [holder, waiter].into_iter().for_each(|actor| rests(scene, actor));
                    holder.does(|| lock.lock(held));
                    let got = waiter.starts_until(stop, || cycle(&lock, wanted));
                    stopped = waiter.is_stopped();
                    holder.does(|| release(&lock, held));
                    waiter.resumes();
                    scene.settle();
                    // Without the clock: its timer has not ended its sleep.
                    got.expect("released");
                });
                assert!(lock.at_rest());
                stopped
            });
        }
    }

    /// The release takes the waiter's entry out: those that follow wake nobody.
    fn a_waiter_of_a_qrwlock_is_woken_once() {
        let lock = RawQRwLock::<Scripted>::default();
        Scene::play(|scene, [holder, waiter]| {
            [holder, waiter].into_iter().for_each(|actor| rests(scene, actor));
            holder.does(|| lock.lock(Way::Write));
            let got = waiter.starts(|| cycle(&lock, Way::Write));
            waiter.freeze();
            for _ in 0..3 {
                holder.does(|| release(&lock, Way::Write));
                assert_eq!(scene.events(Event::PvKickUnlock), 1);
                assert!(holder.does(|| lock.try_lock(Way::Write)));
            }
            holder.does(|| release(&lock, Way::Write));
            waiter.thaw();
            scene.finish();
            got.expect("woken");
        });
        assert!(lock.at_rest());
    }

    /// A writer's wait that ends keeps no reader out. (While it lasts, its turn over, it does.)
    fn a_writer_that_gives_up_keeps_no_reader_out() {
        let lock = RawQRwLock::<Scripted>::default();
        Scene::play(|scene, [holder, writer, reader]| {
            [holder, writer, reader].into_iter().for_each(|actor| rests(scene, actor));
            holder.does(|| lock.lock(Way::Read));
            let (lock, end) = (&lock, scene.now() + 5 * TURN_NS);
            let gave_up = writer.starts(move || lock.write_acquire_until(Until::deadline(end)));
            assert!(reader.does(|| lock.try_lock(Way::Read)), "its turn is not over");
            reader.does(|| release(lock, Way::Read));
            (0..3).for_each(|_| scene.advance(TURN_NS));
            assert!(!reader.does(|| lock.try_lock(Way::Read)));
            (0..3).for_each(|_| scene.advance(TURN_NS));
            gave_up.expect("its time is over").expect_err("a reader holds the lock");
            assert!(reader.does(|| lock.try_lock(Way::Read)));
            reader.does(|| release(lock, Way::Read));
            holder.does(|| release(lock, Way::Read));
        });
        assert!(lock.at_rest());
    }
}
