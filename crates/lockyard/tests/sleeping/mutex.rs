//! Whom a release of the mutex wakes, and for whom it is kept.

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::TURN_NS;
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;

/// The two forms of a release.
const RELEASES: [fn(&RawMutex<Scripted>); 2] = [
    // SAFETY: each script releases what its actor holds.
    |mutex| unsafe { mutex.release() },
    // SAFETY: as above.
    |mutex| unsafe { mutex.release_detached() },
];

scripts! {
    /// The release that obeys a request clears it: those that follow wake nobody.
    fn a_request_to_be_woken_is_obeyed_once() {
        for release in RELEASES {
            let mutex = RawMutex::default();
            Scene::play(|scene, [holder, waiter]| {
                holder.does(|| mutex.acquire());
                assert!(!mutex.is_contended());
                let got = waiter.starts(|| mutex.acquire());
                assert!(mutex.is_contended());
                // Slow to wake up.
                waiter.freeze();
                for _ in 0..3 {
                    holder.does(|| release(&mutex));
                    assert_eq!(scene.events(Event::MutexWake), 1);
                    assert!(holder.does(|| mutex.try_acquire()));
                }
                holder.does(|| release(&mutex));
                waiter.thaw();
                got.expect("woken");
                assert!(!mutex.is_contended());
                waiter.does(|| release(&mutex));
                assert_eq!(scene.events(Event::MutexWake), 1);
            });
            assert!(mutex.at_rest());
        }
    }

    /// The mutex is free before its releaser has looked who is to be woken. Whoever takes and releases it meanwhile may have woken the waiter already.
    fn of_two_releases_one_wakes_the_waiter() {
        for release in RELEASES {
            let mut between = 0;
            every_stop(|stop| {
                let mutex = RawMutex::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, waiter, passer]| {
                    holder.does(|| mutex.acquire());
                    let got = waiter.starts(|| mutex.acquire());
                    waiter.freeze();
                    holder.starts_until(stop, || release(&mutex));
                    stopped = holder.is_stopped();
                    if passer.does(|| mutex.try_acquire()) {
                        between += u32::from(stopped);
                        passer.does(|| release(&mutex));
                    }
                    holder.resumes();
                    assert_eq!(scene.events(Event::MutexWake), 1);
                    waiter.thaw();
                    got.expect("woken");
                    waiter.does(|| release(&mutex));
                });
                assert!(mutex.at_rest());
                stopped
            });
            assert!(between > 0);
        }
    }

    /// Who comes by asks in the name of a first waiter that is late, once, and wakes it. The release need not, and the mutex is kept in either form.
    fn a_release_wakes_nobody_who_has_not_asked() {
        for release in RELEASES {
            let mutex = RawMutex::default();
            Scene::play(|scene, [holder, passed, late, newcomer, another]| {
                holder.does(|| mutex.acquire());
                let before = passed.starts(|| mutex.acquire());
                let got = late.starts(|| mutex.acquire());
                scene.advance(TURN_NS);
                holder.does(|| release(&mutex));
                scene.settle();
                before.expect("its turn was over");
                late.freeze();
                passed.does(|| release(&mutex));
                scene.advance(4 * TURN_NS);
                assert!(holder.does(|| mutex.try_acquire()));
                let (asked, woken) = (scene.events(Event::MutexHandoff), scene.events(Event::MutexWake));
                let last = [newcomer, another].map(|newcomer| {
                    let turn = newcomer.starts(|| {
                        mutex.acquire();
                        release(&mutex);
                    });
                    assert_eq!(scene.events(Event::MutexHandoff), asked + 1);
                    turn
                });
                holder.does(|| release(&mutex));
                assert_eq!(scene.events(Event::MutexWake), woken);
                assert!(!holder.does(|| mutex.try_acquire()), "kept");
                late.thaw();
                scene.settle();
                got.expect("kept for it");
                late.does(|| release(&mutex));
                scene.finish();
                last.into_iter().for_each(|turn| turn.expect("open"));
            });
            assert!(mutex.at_rest());
        }
    }
}
