//! The spin queue: a spinner that is stopped between two of its steps keeps no neighbour.

use lockyard::platform::{Patience, Platform};
use lockyard::wait::osq::Osq;
use lockyard_check::scripted::{Actor, Outcome, Scene, Scripted, every_stop};

use super::scripts;

type Queue = Osq<Scripted>;

/// Spins for so long, and leaves as head if it comes to that. Whether it did.
fn spin(queue: &Queue, ns: u32) -> bool {
    let me = Scripted::current().unwrap();
    let head = queue.join(me, Patience::ns(ns));
    if head {
        queue.leave(me);
    }
    head
}

/// Turns the clock until `task` has ended.
fn ends<R>(scene: &Scene, task: &Outcome<R>) {
    for _ in 0..100 {
        scene.settle();
        if task.is_done() {
            return;
        }
        scene.advance(100_000);
    }
    panic!("kept by a spinner that is stopped");
}

/// The second of four spinners is stopped before each of its steps; the others spin for `ns`.
fn second_is_stopped([victims, others]: [u32; 2], leaves_first: bool) {
    every_stop(|stop| {
        let queue = Queue::default();
        let mut stopped = false;
        Scene::play(|scene, [head, victim, behind, last]: [&Actor<'_>; 4]| {
            assert!(head.does(|| queue.join(Scripted::current().unwrap(), Patience::ns(0))));
            let spins = victim.starts_until(stop, || spin(&queue, victims));
            let follows = behind.starts(|| spin(&queue, others));
            stopped = victim.is_stopped();
            let leave = || head.starts(|| queue.leave(Scripted::current().unwrap()));
            if leaves_first {
                ends(scene, &leave());
                ends(scene, &follows);
            } else {
                scene.advance(30_000);
                ends(scene, &follows);
                ends(scene, &leave());
            }
            ends(scene, &last.starts(|| spin(&queue, others)));
            victim.resumes();
            ends(scene, &spins);
            scene.finish();
            // No node is left behind, and everybody may be head again.
            for actor in [head, victim, behind, last] {
                assert!(actor.does(|| spin(&queue, 0)), "stop {stop}: its node is still in the queue");
            }
            assert!(!queue.is_locked());
        });
        stopped
    });
}

scripts! {
    fn a_spinner_that_is_stopped_keeps_no_neighbour() {
        for ns in [[0, 0], [0, 20_000], [20_000, 0], [20_000, 20_000]] {
            second_is_stopped(ns, true);
            second_is_stopped(ns, false);
        }
    }

    /// A head leaves its node behind, and is stopped before it settles it. A spinner that would
    /// settle it as well is stopped when it has seen the mark. The head settles, and is head again,
    /// when the spinner goes on: nobody else becomes head beside it.
    fn a_settler_that_is_late_opens_no_second_place() {
        let mut met = 0;
        every_stop(|gives_up| {
            let mut stopped = false;
            every_stop(|leaves| {
                let mut stands = false;
                every_stop(|settles| {
                    let queue = Queue::default();
                    let mut late = false;
                    Scene::play(|scene, [head, victim, last]: [&Actor<'_>; 3]| {
                        let join = || queue.join(Scripted::current().unwrap(), Patience::ns(0));
                        let leave = || queue.leave(Scripted::current().unwrap());
                        assert!(head.does(join));
                        let spins = victim.starts_until(gives_up, || spin(&queue, 0));
                        stopped = victim.is_stopped();
                        let left = head.starts_until(leaves, leave);
                        (0..40).for_each(|_| scene.advance(100_000));
                        stands = head.is_stopped();
                        if stopped && stands {
                            victim.resumes_until(settles + 1);
                            scene.settle();
                            late = victim.is_stopped();
                        }
                        head.resumes();
                        ends(scene, &left);
                        let again = head.does(join);
                        met += u32::from(again && late);
                        victim.resumes();
                        ends(scene, &spins);
                        if again {
                            assert!(!last.does(|| spin(&queue, 0)), "stops {gives_up}, {leaves}, {settles}: two heads");
                            ends(scene, &head.starts(leave));
                        }
                        scene.finish();
                        assert!(!queue.is_locked());
                    });
                    late
                });
                stands
            });
            stopped
        });
        assert!(met > 0, "the head never came back before the spinner went on");
    }
}
