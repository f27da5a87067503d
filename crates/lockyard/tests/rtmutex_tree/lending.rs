//! Boosting and giving back.

use lockyard::rtmutex_tree::policy::{NoSpin, Published2016};
use lockyard_check::scripted::{Actor, Scene, every_stop};

use super::{Mutex, acquire, acquire_until, at_rest, have_priorities, priorities, release, scripts, set_priority};

scripts! {
    /// The owner runs with the priority of its most urgent waiter, and with its own again as they
    /// go.
    fn the_owner_is_boosted_and_deboosted() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|scene, [low, middle, high]| {
            have_priorities(&[low, middle, high], &[10, 20, 30]);
            low.does(move || acquire(mutex));
            let first = middle.starts(move || acquire(mutex));
            assert_eq!(low.priority(), 20);
            let end = scene.now() + 1_000;
            let second = high.starts(move || acquire_until(mutex, end));
            assert_eq!(low.priority(), 30);
            scene.advance(1_000);
            assert!(second.expect("its time is up").is_err());
            assert_eq!(low.priority(), 20);
            low.does(move || release(mutex));
            first.expect("released");
            assert_eq!(priorities([low, middle, high]), [10, 20, 30]);
            middle.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// What one mutex's waiters lend stays when another mutex is released.
    fn two_mutexes_of_one_owner() {
        let (m, n): (Mutex, Mutex<NoSpin>) = Default::default();
        let (m, n) = (&m, &n);
        Scene::play(|_, [owner, a, b]| {
            have_priorities(&[owner, a, b], &[5, 20, 30]);
            owner.does(move || {
                acquire(m);
                acquire(n);
            });
            let got_m = a.starts(move || acquire(m));
            let got_n = b.starts(move || acquire(n));
            assert_eq!(owner.priority(), 30);
            owner.does(move || release(n));
            assert_eq!(owner.priority(), 20);
            owner.does(move || release(m));
            assert_eq!(owner.priority(), 5);
            got_m.expect("released");
            got_n.expect("released");
            a.does(move || release(m));
            b.does(move || release(n));
        });
        assert!(at_rest(m) && at_rest(n));
    }

    /// Chains of depth 1 to 8, with mutexes of different policies: everybody is boosted, and gets
    /// its own priority back, link by link.
    fn chains_of_depth_1_to_8() {
        for depth in 1..=8 {
            let mutexes: &Vec<Mutex> = &(0..depth).map(|_| Mutex::default()).collect();
            Scene::play_with(depth + 1, |_, actors| {
                for (number, actor) in actors.iter().enumerate() {
                    actor.has_priority(number as u32 + 1);
                }
                // Actor i owns mutex i, and waits for i − 1.
                for number in 0..depth {
                    actors[number].does(move || acquire(&mutexes[number]));
                }
                let mut got: Vec<_> = (1..depth).map(|number| actors[number].starts(move || acquire(&mutexes[number - 1]))).collect();
                actors[depth].has_priority(50);
                got.push(actors[depth].starts(move || acquire(&mutexes[depth - 1])));
                assert!(actors.iter().all(|actor| actor.priority() == 50), "{actors:?}");
                for number in 0..depth {
                    assert!(got.iter().skip(number).all(|wait| !wait.is_done()));
                    actors[number].does(move || release(&mutexes[number]));
                    assert!(got[number].is_done());
                    assert_eq!(actors[number].priority(), number as u32 + 1);
                    actors[number + 1].does(move || release(&mutexes[number]));
                }
            });
            assert!(mutexes.iter().all(at_rest));
        }
    }

    /// A priority that changes in the middle of a chain is carried to its end, up and down.
    fn a_change_in_the_middle_of_a_chain() {
        let (m, n): (Mutex, Mutex<Published2016>) = Default::default();
        let (m, n) = (&m, &n);
        Scene::play(|_, [end, middle, start]| {
            have_priorities(&[end, middle, start], &[1, 2, 3]);
            end.does(move || acquire(m));
            middle.does(move || acquire(n));
            let m1 = middle.starts(move || acquire(m));
            let n1 = start.starts(move || acquire(n));
            assert_eq!(priorities([end, middle, start]), [3, 3, 3]);
            let [middle_id, start_id] = [middle.id(), start.id()];
            end.does(move || set_priority(start_id, 9));
            assert_eq!(priorities([end, middle, start]), [9, 9, 9]);
            end.does(move || set_priority(middle_id, 12));
            assert_eq!(priorities([end, middle, start]), [12, 12, 9]);
            end.does(move || set_priority(middle_id, 2));
            assert_eq!(priorities([end, middle, start]), [9, 9, 9]);
            end.does(move || set_priority(start_id, 0));
            assert_eq!(priorities([end, middle, start]), [2, 2, 0]);
            end.does(move || release(m));
            m1.expect("released");
            middle.does(move || release(n));
            n1.expect("released");
            assert_eq!(priorities([end, middle, start]), [1, 2, 0]);
            middle.does(move || release(m));
            start.does(move || release(n));
        });
        assert!(at_rest(m) && at_rest(n));
    }

    /// A thread that was given a priority of its own while one was lent to it has that in the end.
    fn a_change_of_a_boosted_owner() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|_, [owner, waiter]| {
            have_priorities(&[owner, waiter], &[1, 20]);
            owner.does(move || acquire(mutex));
            let got = waiter.starts(move || acquire(mutex));
            let name = owner.id();
            owner.does(move || set_priority(name, 8));
            assert_eq!(owner.priority(), 20);
            owner.does(move || release(mutex));
            assert_eq!(owner.priority(), 8);
            got.expect("released");
            waiter.does(move || release(mutex));
            owner.does(move || set_priority(name, 0));
        });
        assert!(at_rest(mutex));
    }

    /// The releaser keeps what was lent until the one it came from is awake.
    fn woken_first_deboosted_second() {
        let mut seen = false;
        every_stop(|stop| {
            let mutex: &Mutex = &Mutex::default();
            let mut stopped = false;
            Scene::play(|scene, [low, high]| {
                have_priorities(&[low, high], &[1, 30]);
                low.does(move || acquire(mutex));
                let got = high.starts(move || acquire(mutex));
                low.starts_until(stop, move || release(mutex));
                stopped = low.is_stopped();
                assert!(got.is_done() || low.priority() == 30, "deboosted before its waiter was awake");
                seen |= stopped && got.is_done() && low.priority() == 30;
                low.resumes();
                scene.finish();
                assert_eq!(low.priority(), 1);
                high.does(move || release(mutex));
            });
            assert!(at_rest(mutex));
            stopped
        });
        assert!(seen, "there is a step between the two");
    }

    /// Everybody is preempted everywhere: a chain of two, with a waiter that comes and one that
    /// leaves.
    fn a_chain_with_stops_everywhere() {
        for victim in 0..3 {
            every_stop(|stop| {
                let (m, n): (Mutex, Mutex) = Default::default();
                let (m, n) = (&m, &n);
                let mut stopped = false;
                Scene::play(|scene, [end, middle, start, leaver]| {
                    have_priorities(&[end, middle, start, leaver], &[1, 2, 30, 40]);
                    end.does(move || acquire(m));
                    middle.does(move || acquire(n));
                    let until = scene.now() + 1_000;
                    let middles = move || {
                        acquire(m);
                        release(n);
                        release(m);
                    };
                    let starts = move || {
                        acquire(n);
                        release(n);
                    };
                    let leaves = move || acquire_until(n, until).is_ok().then(|| release(n));
                    let starts_at = |actor: &Actor<'_>| actor.is_stopped();
                    if victim == 0 { middle.starts_until(stop, middles); } else { middle.starts(middles); }
                    if victim == 1 { start.starts_until(stop, starts); } else { start.starts(starts); }
                    if victim == 2 { leaver.starts_until(stop, leaves); } else { leaver.starts(leaves); }
                    scene.advance(1_000);
                    stopped = [middle, start, leaver].into_iter().any(starts_at);
                    end.starts(move || release(m));
                    [middle, start, leaver].into_iter().for_each(Actor::resumes);
                    scene.finish();
                    assert_eq!(priorities([end, middle, start, leaver]), [1, 2, 30, 40]);
                });
                assert!(at_rest(m) && at_rest(n));
                stopped
            });
        }
    }
}
