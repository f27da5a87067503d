//! Cycles are named, and nothing else is called one.

use lockyard::event::Event;
use lockyard::rtmutex_tree::{Refused, audit};
use lockyard_check::scripted::{Scene, every_stop};

use super::{Mutex, acquire, acquire_until, at_rest, have_priorities, release, scripts};

scripts! {
    /// Locking what one owns is a cycle of one, and does no harm to those who wait.
    fn relock_by_the_owner() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|scene, [owner, waiter]| {
            owner.does(move || acquire(mutex));
            let alone = owner.does(move || mutex.acquire()).expect_err("its own");
            let got = waiter.starts(move || acquire(mutex));
            let cycle = owner.does(move || mutex.acquire()).expect_err("its own");
            assert_eq!(alone, cycle);
            assert_eq!((cycle.length(), cycle.links().count(), cycle.is_unproven()), (1, 1, false));
            assert!(cycle.to_string().contains("locked by the thread that asks for it"), "{cycle}");
            assert!(!owner.does(move || mutex.try_acquire()));
            assert!(!got.is_done());
            assert_eq!(scene.events(Event::RtmutexDeadlock), 2);
            owner.does(move || release(mutex));
            got.expect("released");
            waiter.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// Cycles of 2 to 8: the one who would close it is told, with the names of all; nobody else is.
    fn cycles_of_2_to_8() {
        for length in 2..=8 {
            let mutexes: &Vec<Mutex> = &(0..length).map(|_| Mutex::default()).collect();
            Scene::play_with(length, |_, actors| {
                for (actor, mutex) in actors.iter().zip(mutexes) {
                    actor.does(move || acquire(mutex));
                }
                // Each asks for the next one's; the last for the first's.
                let got: Vec<_> = (0..length - 1)
                    .map(|number| actors[number].starts(move || acquire_and_release_both(&mutexes[number + 1], &mutexes[number])))
                    .collect();
                let last = length - 1;
                let cycle = actors[last].does(move || mutexes[0].acquire()).expect_err("a cycle");
                assert_eq!(cycle.length() as usize, length);
                let names: Vec<_> = cycle.links().map(|link| link.0).collect();
                let mut expected = vec![actors[last].id()];
                expected.extend(actors[..last].iter().map(|actor| actor.id()));
                assert_eq!(names, expected);
                assert!(got.iter().all(|wait| !wait.is_done()));
                actors[last].does(move || release(&mutexes[last]));
                got.into_iter().for_each(|wait| wait.expect("the chain is open again"));
            });
            assert!(mutexes.iter().all(at_rest));
        }
    }

    /// One who waits for the victims of a deadlock, without being part of it, is told as well, and
    /// that it is not.
    fn behind_a_cycle() {
        let (m, n): (Mutex, Mutex) = Default::default();
        let (m, n) = (&m, &n);
        Scene::play(|scene, [a, b, c]| {
            a.does(move || acquire(m));
            b.does(move || acquire(n));
            let a1 = a.starts(move || acquire(n));
            // b insists, behind the back of its own check: a chain as two racing closers would
            // leave it, if both were deaf.
            let end = scene.now() + 1_000;
            let b1 = b.starts(move || acquire_until(m, end));
            assert!(matches!(b1.expect("refused"), Err(Refused::Deadlock(cycle)) if cycle.length() == 2));
            let c1 = c.starts(move || acquire(m));
            assert!(!c1.is_done() && c.waits(), "waits for a, which waits for b, which runs");
            b.does(move || release(n));
            a1.expect("released");
            a.does(move || {
                release(n);
                release(m);
            });
            c1.expect("released");
            c.does(move || release(m));
        });
        assert!(at_rest(m) && at_rest(n));
    }

    /// Two threads close a cycle at the same moment: at least one is told, whoever is preempted and
    /// wherever.
    fn closed_by_two_at_once() {
        every_stop(|stop| {
            let (m, n): (Mutex, Mutex) = Default::default();
            let (m, n) = (&m, &n);
            let mut stopped = false;
            Scene::play(|scene, [a, b]| {
                have_priorities(&[a, b], &[3, 4]);
                a.does(move || acquire(m));
                b.does(move || acquire(n));
                let try_both = |own: &Mutex, other: &Mutex| {
                    let result = other.acquire();
                    if result.is_ok() {
                        release(other);
                    }
                    release(own);
                    result
                };
                let a1 = a.starts_until(stop, move || try_both(m, n));
                let b1 = b.starts(move || try_both(n, m));
                stopped = a.is_stopped();
                a.resumes();
                scene.finish();
                let refused = [a1.expect("ended"), b1.expect("ended")].iter().filter(|result| result.is_err()).count();
                assert!(refused >= 1);
                assert_eq!((a.priority(), b.priority()), (3, 4));
            });
            assert!(at_rest(m) && at_rest(n));
            stopped
        });
    }

    /// A cycle is opened by a timeout while the one who closed it looks: he stays queued, with the
    /// priority that is his now and not the one that was lent to him. (Case 1903 of the property:
    /// the walk of the one who left ended at the mutex that he owned himself.)
    fn opened_by_a_timeout_as_it_is_closed() {
        let mut stayed = false;
        every_stop(|stop| {
            let (m, n): (Mutex, Mutex) = Default::default();
            let (m, n) = (&m, &n);
            let mut stopped = false;
            Scene::play(|scene, [leaver, closer]| {
                have_priorities(&[leaver, closer], &[21, 7]);
                leaver.does(move || acquire(m));
                closer.does(move || acquire(n));
                let end = scene.now() + 1_000;
                let left = leaver.starts(move || acquire_until(n, end).map(|()| release(n)));
                assert_eq!(closer.priority(), 21);
                let closes = closer.starts_until(stop, move || {
                    let result = m.acquire();
                    if result.is_ok() {
                        release(m);
                    }
                    release(n);
                    result
                });
                stopped = closer.is_stopped();
                scene.advance(1_000);
                closer.resumes();
                // Whoever found the wait lock passed around dozes for a turn.
                scene.run_dry();
                if left.is_done() && !closes.is_done() {
                    stayed = true;
                    let names = [leaver.id(), closer.id()];
                    let settled = audit::check_settled(&[m, n], names.into_iter());
                    assert!(settled.is_ok(), "stop {stop}: {}", settled.unwrap_err());
                    assert_eq!((leaver.priority(), closer.priority()), (21, 7));
                }
                leaver.starts(move || release(m));
                scene.finish();
                let _ = closes.expect("refused, or served");
            });
            assert!(at_rest(m) && at_rest(n));
            stopped
        });
        assert!(stayed);
    }

    /// A chain that merges is no cycle.
    fn a_tree_is_not_a_cycle() {
        let (m, n, o): (Mutex, Mutex, Mutex) = Default::default();
        let (m, n, o) = (&m, &n, &o);
        Scene::play(|scene, [root, a, b, c]| {
            root.does(move || acquire(m));
            a.does(move || acquire(n));
            b.does(move || acquire(o));
            let a1 = a.starts(move || acquire_and_release_both(m, n));
            let b1 = b.starts(move || acquire_and_release_both(m, o));
            let c1 = c.starts(move || {
                acquire(n);
                acquire_and_release_both(o, n);
            });
            assert_eq!(scene.events(Event::RtmutexDeadlock), 0);
            root.does(move || release(m));
            scene.finish();
            [a1, b1, c1].into_iter().for_each(|wait| wait.expect("served"));
        });
        assert!([m, n, o].into_iter().all(at_rest));
    }
}

/// Waits for `other`, then gives up both.
fn acquire_and_release_both(other: &Mutex, own: &Mutex) {
    acquire(other);
    release(other);
    release(own);
}
