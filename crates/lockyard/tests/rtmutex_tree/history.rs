//! The bugs that the kernel's rt-mutex had, by their numbers in `spec/rtmutex.md` section 14.
//!
//! Each script here and each check named in the table must also fail when its bug is planted in the
//! mutex: `cargo xtask models planted` does it, from `crates/lockyard/planted-bugs.txt`.
//!
//! | no. | fault | here |
//! |---|---|---|
//! | 1 | the spin's test for the first place was inverted | simulated: `spinning::spins_pay` (a script's spins end at once) |
//! | 2 | a spinner followed the first waiter's record | cannot be written: spinners compare names, and records are never unmapped |
//! | 3 | the walk woke the requeued waiter instead of the new first | `b3_…` |
//! | 4 | no acquire when taking in the slow path | a model: `lockyard-torture`, `history`, `rtmutex_slow_path_without_acquire` |
//! | 5 | the wait lock held while the refused thread sleeps | `b5_…` |
//! | 6 | one copy of the priority for both lists | `b6_…` |
//! | 7 | clean-up of the caller's record instead of the sleeper's | `b7_…` |
//! | 8 | removal of what was never queued, or is owned | `b8_…` |
//! | 9 | the mutex touched after the releasing store | `b9_…` |
//! | 10 | the bit cleared blindly | `b10_…`; simulated: `property::what_is_released_is_not_resurrected` |
//! | 11 | lateral steals without limit | `b11_…` |
//! | 12 | after a steal, word and books name different lenders | simulated: `property` (there it was a page fault that parted them) |
//! | 13 | a mutex without owner for a moment | `b13_…` |
//! | 14, 15, 17 | exit, misuse of requeueing, robust lists | cannot be written: see `planted-bugs.txt` |
//! | 16 | told that it failed, and owns | `order::an_acquisition_wins_over_a_timeout` |

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lockyard::cancel::Until;
use lockyard::event::Event;
use lockyard::rtmutex_tree::condvar::RawTreeRtCondvar;
use lockyard::rtmutex_tree::effective_priority;
use lockyard::rtmutex_tree::policy::{NoSpin, Strict};
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{Mutex, acquire, acquire_until, at_rest, have_priorities, priorities, release, scripts, set_priority};

scripts! {
    /// The mutex is promised to a; a's priority falls, so b is first: the walk must wake b, who
    /// sleeps, not a.
    fn b3_a_walk_wakes_the_new_first_waiter() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|_, [holder, a, b]| {
            have_priorities(&[a, b], &[20, 10]);
            holder.does(move || acquire(mutex));
            let a1 = a.starts(move || acquire(mutex));
            let b1 = b.starts(move || acquire(mutex));
            a.freeze();
            holder.does(move || release(mutex));
            assert!(!mutex.is_locked() && !b1.is_done());
            let name = a.id();
            holder.does(move || set_priority(name, 5));
            b1.expect("first now, and the mutex is free");
            a.thaw();
            assert!(!a1.is_done());
            b.does(move || release(mutex));
            a1.expect("released");
            a.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// Whoever is refused holds nothing of the mutex: others come and go.
    fn b5_a_refused_thread_keeps_nothing() {
        let (m, n): (Mutex, Mutex) = Default::default();
        let (m, n) = (&m, &n);
        Scene::play(|_, [a, b, c]| {
            a.does(move || acquire(m));
            b.does(move || acquire(n));
            let a1 = a.starts(move || acquire(n));
            b.does(move || assert!(m.acquire().is_err()));
            // b stands still here for as long as it likes.
            let c1 = c.starts(move || acquire(m));
            b.does(move || release(n));
            a1.expect("released");
            a.does(move || release(m));
            c1.expect("the wait lock is free");
            c.does(move || release(m));
            a.does(move || release(n));
        });
        assert!(at_rest(m) && at_rest(n));
    }

    /// A donor's priority changes while it stands in two lists: each list keeps its order.
    fn b6_each_list_has_its_own_priorities() {
        let (m, n): (Mutex, Mutex) = Default::default();
        let (m, n) = (&m, &n);
        Scene::play(|scene, [owner, a, b, c]| {
            have_priorities(&[owner, a, b, c], &[1, 10, 20, 15]);
            owner.does(move || {
                acquire(m);
                acquire(n);
            });
            let end = scene.now() + 1_000;
            let a1 = a.starts(move || acquire_until(m, end));
            let b1 = b.starts(move || acquire(n));
            let c1 = c.starts(move || acquire(n));
            assert_eq!(owner.priority(), 20);
            let [a_id, b_id] = [a.id(), b.id()];
            owner.does(move || set_priority(a_id, 30));
            assert_eq!(owner.priority(), 30);
            // b falls behind c among n's waiters: the owner's donor for n changes, a's place does
            // not.
            owner.does(move || set_priority(b_id, 5));
            assert_eq!(owner.priority(), 30);
            scene.advance(1_000);
            assert!(a1.expect("its time is up").is_err());
            assert_eq!(owner.priority(), 15);
            owner.does(move || release(n));
            c1.expect("before b");
            assert_eq!(priorities([owner, c]), [1, 15]);
            c.does(move || release(n));
            b1.expect("released");
            b.does(move || release(n));
            owner.does(move || release(m));
        });
        assert!(at_rest(m) && at_rest(n));
    }

    /// A signaller moves a sleeper into a deadlock: the sleeper's record is cleaned up, and the
    /// signaller's is as it was.
    fn b7_a_failed_proxy_cleans_up_the_sleepers_record() {
        let (m, n): (Mutex, Mutex) = Default::default();
        let (m, n) = (&m, &n);
        let condvar = &RawTreeRtCondvar::<Scripted>::default();
        Scene::play(|_, [sleeper, holder, signaller]| {
            have_priorities(&[sleeper, holder, signaller], &[10, 1, 5]);
            let asleep = sleeper.starts(move || {
                acquire(n);
                acquire(m);
                // SAFETY: m is held.
                unsafe { condvar.wait(m, Until::FOREVER) }
            });
            holder.does(move || acquire(m));
            let held_up = holder.starts(move || acquire(n));
            // The sleeper owns n, holder of m waits for n: to queue the sleeper for m would close
            // the cycle.
            sleeper.freeze();
            signaller.does(move || condvar.notify_one(m));
            // Nothing of it is left before the sleeper has done anything itself.
            assert!(!m.is_contended(), "still queued");
            assert_eq!(holder.priority(), 1, "still lends");
            sleeper.thaw();
            assert!(asleep.expect("told").is_err());
            // The signaller can wait like anybody else, and lends: nothing of the sleeper's is left
            // in its record, nor the other way round.
            assert_eq!(holder.priority(), 1);
            let waits = signaller.starts(move || acquire(m));
            assert_eq!(priorities([holder, sleeper]), [5, 10]);
            sleeper.does(move || release(n));
            held_up.expect("released");
            holder.does(move || {
                release(m);
                release(n);
            });
            waits.expect("released");
            signaller.does(move || release(m));
            assert_eq!(priorities([sleeper, holder, signaller]), [10, 1, 5]);
        });
        assert!(at_rest(m) && at_rest(n));
    }

    /// A refusal before queueing takes nothing out: not the first waiter, not what the caller lends
    /// elsewhere; and what a sleeper was given is not taken away.
    fn b8_what_was_never_queued_is_not_removed() {
        let mutex: &Mutex = &Mutex::default();
        let condvar = &RawTreeRtCondvar::<Scripted>::default();
        Scene::play(|_, [waiter, second, owner]| {
            have_priorities(&[waiter, second, owner], &[9, 9, 1]);
            // The first record is the waiter's: a name of nothing stands for it, and what is not
            // linked has such names.
            waiter.does(move || _ = mutex.try_acquire().then(|| release(mutex)));
            owner.does(move || acquire(mutex));
            let got = waiter.starts(move || acquire(mutex));
            let next = second.starts(move || acquire(mutex));
            for _ in 0..3 {
                owner.does(move || assert!(mutex.acquire().is_err()));
                assert_eq!(owner.priority(), 9);
            }
            owner.does(move || release(mutex));
            got.expect("still queued");
            waiter.does(move || release(mutex));
            next.expect("still queued");
            second.does(move || release(mutex));
        });
        // The proxy start succeeds at once: the sleeper owns the mutex, with its deadline long
        // past.
        Scene::play(|scene, [sleeper, signaller]| {
            let end = scene.now() + 1_000;
            let asleep = sleeper.starts(move || {
                acquire(mutex);
                // SAFETY: it is held.
                unsafe { condvar.wait(mutex, Until::deadline(end)) }
            });
            sleeper.freeze();
            signaller.does(move || condvar.notify_one(mutex));
            assert_eq!(mutex.owner(), Some(sleeper.id()));
            scene.advance(5_000);
            sleeper.thaw();
            assert_eq!(asleep.expect("owns it"), Ok(true));
            sleeper.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// The next owner frees the mutex as soon as it has unlocked it, with the last releaser stopped
    /// anywhere: no touch of the memory afterwards.
    fn b9_nothing_of_the_mutex_is_touched_after_the_release() {
        for waiting in [false, true] {
            let stops = every_stop(|stop| {
                let mut place = Box::new(MaybeUninit::<Mutex>::new(Mutex::default()));
                let memory: *mut Mutex = place.as_mut_ptr();
                // SAFETY: initialised above; overwritten below when the last who may use it has
                // unlocked it, which is the point.
                let mutex = unsafe { &*memory };
                let mut stopped = false;
                Scene::play(|scene, [releaser, heir]| {
                    releaser.does(move || acquire(mutex));
                    let take = move || {
                        acquire(mutex);
                        release(mutex);
                    };
                    let waits = waiting.then(|| heir.starts(take));
                    releaser.starts_until(stop, move || release(mutex));
                    stopped = releaser.is_stopped();
                    let waits = waits.unwrap_or_else(|| heir.starts(take));
                    if waits.is_done() {
                        // SAFETY: both have unlocked it, the releaser up to the point where it
                        // stands: the memory is somebody else's.
                        unsafe { memory.write_bytes(0xa5, 1) };
                        releaser.resumes();
                        scene.finish();
                        // SAFETY: plain bytes.
                        let bytes = unsafe { std::slice::from_raw_parts(memory.cast::<u8>(), size_of::<Mutex>()) };
                        assert!(bytes.iter().all(|&byte| byte == 0xa5), "touched after release: {bytes:x?}");
                    } else {
                        releaser.resumes();
                        scene.finish();
                    }
                });
                stopped
            });
            assert!(stops > 0);
        }
    }

    /// The same for a releaser that found the bit set by somebody who left: it frees the mutex in
    /// its slow path, and must have dropped the wait lock before.
    fn b9_nor_of_one_that_a_waiter_has_left() {
        let mut met = false;
        // The leaver stands in its slow path, wherever that is, when the release begins.
        every_stop(|left_at| {
            let mut leaves = false;
            every_stop(|stop| {
                let mut place = Box::new(MaybeUninit::<Mutex>::new(Mutex::default()));
                let memory: *mut Mutex = place.as_mut_ptr();
                // SAFETY: initialised above; overwritten below when everybody has unlocked it or
                // left.
                let mutex = unsafe { &*memory };
                let mut stopped = false;
                Scene::play(|scene, [releaser, leaver, heir]| {
                    releaser.does(move || acquire(mutex));
                    let end = scene.now();
                    let left = leaver.starts_until(left_at, move || acquire_until(mutex, end).map(|()| release(mutex)));
                    leaves = leaver.is_stopped();
                    releaser.starts_until(stop, move || release(mutex));
                    leaver.resumes();
                    stopped = releaser.is_stopped();
                    if left.is_done() && !mutex.is_locked() {
                        heir.does(move || {
                            acquire(mutex);
                            release(mutex);
                        });
                        met |= stopped;
                        // SAFETY: the releaser has given it up, the leaver has left, the heir has
                        // unlocked it.
                        unsafe { memory.write_bytes(0xa5, 1) };
                        releaser.resumes();
                        scene.finish();
                        // SAFETY: plain bytes.
                        let bytes = unsafe { std::slice::from_raw_parts(memory.cast::<u8>(), size_of::<Mutex>()) };
                        assert!(bytes.iter().all(|&byte| byte == 0xa5), "touched after release: {bytes:x?}");
                    } else {
                        releaser.resumes();
                        scene.finish();
                    }
                });
                stopped
            });
            leaves
        });
        assert!(met);
    }

    /// Two waiters time out one after the other while the owner releases, with a stop everywhere:
    /// the mutex is free afterwards, and stays so.
    fn b10_a_released_mutex_is_not_resurrected() {
        for victim in 0..3 {
            every_stop(|stop| {
                let mutex: &Mutex = &Mutex::default();
                let mut stopped = false;
                Scene::play(|scene, [owner, a, b]| {
                    owner.does(move || acquire(mutex));
                    let end = scene.now() + 1_000;
                    let leaves = move |mutex: &Mutex| {
                        if acquire_until(mutex, end).is_ok() {
                            release(mutex);
                        }
                    };
                    for (number, actor) in [a, b].into_iter().enumerate() {
                        if victim == number {
                            actor.starts_until(stop, move || leaves(mutex));
                        } else {
                            actor.starts(move || leaves(mutex));
                        }
                    }
                    scene.advance(1_000);
                    if victim == 2 {
                        owner.starts_until(stop, move || release(mutex));
                    } else {
                        owner.starts(move || release(mutex));
                    }
                    stopped = [owner, a, b].into_iter().any(|actor| actor.is_stopped());
                    [owner, a, b].into_iter().for_each(|actor| actor.resumes());
                    scene.finish();
                    assert!(!mutex.is_locked(), "resurrected");
                    owner.does(move || {
                        acquire(mutex);
                        release(mutex);
                    });
                });
                assert!(at_rest(mutex));
                stopped
            });
        }
    }

    /// A time-sharing waiter is passed so many times by its equals, and then no more.
    fn b11_lateral_steals_have_a_limit() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|scene, [barger, waiter]| {
            barger.does(move || acquire(mutex));
            let got = waiter.starts(move || acquire(mutex));
            let mut passed = 0;
            loop {
                waiter.freeze();
                barger.does(move || release(mutex));
                let again = barger.does(move || mutex.try_acquire());
                waiter.thaw();
                if !again {
                    break;
                }
                passed += 1;
                assert!(passed <= 32, "passed {passed} times");
            }
            assert_eq!(passed, 32);
            assert_eq!(scene.events(Event::RtmutexStealLateral), 32);
            got.expect("its turn");
            waiter.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// A deadlock was seen; by the time its finder looks again, the one it waited for has given up
    /// and left the mutex to it. So there is none, and the finder is served.
    fn b13_what_became_free_is_no_deadlock() {
        let mut found = false;
        let stops = every_stop(|stop| {
            let (m, n): (Mutex, Mutex) = Default::default();
            let (m, n) = (&m, &n);
            let (mut stopped, mut left) = (false, false);
            let refused = AtomicBool::new(false);
            Scene::play(|scene, [finder, holder, behind]| {
                let refused = &refused;
                have_priorities(&[finder, holder, behind], &[9, 5, 1]);
                finder.does(move || acquire(n));
                holder.does(move || acquire(m));
                let end = scene.now() + 1_000;
                let gives_up = holder.starts(move || {
                    let taken = acquire_until(n, end).is_ok();
                    release(m);
                    if taken {
                        release(n);
                    }
                });
                let last = behind.starts(move || {
                    acquire(m);
                    release(m);
                });
                let finds = finder.starts_until(stop, move || {
                    match m.acquire() {
                        Ok(()) => release(m),
                        Err(_) => refused.store(true, Relaxed),
                    }
                    release(n);
                });
                stopped = finder.is_stopped();
                // It waits, since it lends its priority.
                let waits = effective_priority::<Scripted>(holder.id()) == 9;
                scene.advance(1_000);
                left = stopped && waits && gives_up.is_done();
                finder.resumes();
                scene.finish();
                gives_up.expect("its time was up");
                finds.expect("refused, or served");
                last.expect("served");
            });
            assert!(at_rest(m) && at_rest(n));
            assert!(!(left && refused.load(Relaxed)), "refused, though the mutex was free: stop {stop}");
            found |= left;
            stopped
        });
        assert!(stops > 0 && found);
    }

    /// The merged form sleeps, the unspinning one too, when the owner is not running: none of them
    /// burns.
    fn nobody_spins_for_an_owner_that_does_not_run() {
        fn play<Y: lockyard::rtmutex_tree::policy::Policy>(spins: bool) {
            for on_cpu in [false, true] {
                let mutex: &Mutex<Y> = &Mutex::default();
                Scene::play(|scene, [owner, waiter]| {
                    owner.is_on_cpu(on_cpu);
                    owner.does(move || acquire(mutex));
                    let got = waiter.starts(move || acquire(mutex));
                    assert_eq!(scene.events(Event::RtmutexSpin), i64::from(on_cpu && spins));
                    owner.does(move || release(mutex));
                    got.expect("released");
                    waiter.does(move || release(mutex));
                });
            }
        }
        play::<Strict>(true);
        play::<NoSpin>(false);
    }
}
