//! A futex hash wakes as many as it should, also while it grows.

use lockyard::futex_hash::{Bucket, FutexHash, Waited};
use lockyard::platform::{Ordering::Relaxed, Word};
use lockyard_check::scripted::{Scene, Scripted, U32, every_stop};

use super::scripts;

fn table<const N: usize>() -> [Bucket<Scripted>; N] {
    std::array::from_fn(|_| Bucket::default())
}

/// How many stand in each bucket's books.
fn waiters(table: &[Bucket<Scripted>]) -> Vec<String> {
    let number = |bucket: &Bucket<Scripted>| {
        let text = format!("{bucket:?}");
        text.trim_start_matches("Bucket { waiters: ").trim_end_matches(", .. }").to_owned()
    };
    table.iter().map(number).collect()
}

scripts! {
    /// More than are woken at one go.
    fn as_many_are_woken_as_asked_for() {
        const SLEEPERS: usize = 40;
        let (table, word) = (table::<1>(), U32::default());
        let hash = FutexHash::with_table(&table);
        Scene::play_with(SLEEPERS + 1, |scene, actors| {
            let (waker, sleepers) = actors.split_last().expect("there is one at least");
            let slept: Vec<_> = sleepers.iter().map(|sleeper| sleeper.starts(|| hash.wait(&word, 0, None))).collect();
            let mut woken = 0;
            for (most, some) in [(0, 0), (1, 1), (17, 17), (16, 16), (usize::MAX, 6), (1, 0)] {
                let (hash, word) = (&hash, &word);
                assert_eq!(waker.does(move || hash.wake(word, most)), some);
                scene.settle();
                woken += some;
                let done: Vec<bool> = slept.iter().map(|slept| slept.is_done()).collect();
                let first_come = (0..SLEEPERS).map(|place| place < woken).collect::<Vec<bool>>();
                assert_eq!(done, first_come, "after a wake of {most}");
            }
            slept.into_iter().for_each(|slept| assert_eq!(slept.expect("woken"), Waited::Woken));
        });
        assert_eq!(waiters(&table), ["0x0"]);
    }

    fn sleepers_move_to_the_larger_table() {
        let (small, large, words) = (table::<1>(), table::<4>(), [U32::default(), U32::default()]);
        let hash = FutexHash::with_table(&small);
        Scene::play(|scene, [grower, first, second, third]| {
            let slept = [(first, 0), (second, 1), (third, 0)].map(|(sleeper, word)| {
                let (hash, word) = (&hash, &words[word]);
                sleeper.starts(move || hash.wait(word, 0, None))
            });
            assert_eq!((hash.buckets(), waiters(&small)), (1, vec!["0x3".to_owned()]));
            assert!(grower.does(|| hash.grow(&large)));
            // The old bucket says where to look, and nobody is in it.
            assert_eq!((hash.buckets(), waiters(&small)), (4, vec!["0x80000000".to_owned()]));
            assert!(!grower.does(|| hash.grow(&small)), "not larger");
            assert_eq!(hash.buckets(), 4);
            assert_eq!(grower.does(|| [2, 2].map(|most| hash.wake(&words[0], most))), [2, 0]);
            scene.settle();
            assert_eq!(slept.each_ref().map(|slept| slept.is_done()), [true, false, true]);
            assert_eq!(grower.does(|| hash.wake(&words[1], 1)), 1);
            scene.finish();
        });
        assert_eq!(waiters(&large), ["0x0"; 4]);
    }

    /// The table grows, twice, at each step of a wait that is woken, of one whose word has changed,
    /// and of one that is late.
    fn a_table_grows_under_a_wait() {
        for (late, changed) in [(false, false), (true, false), (false, true), (true, true)] {
            let stops = every_stop(|stop| {
                let (tables, word) = ((table::<1>(), table::<2>(), table::<4>()), U32::default());
                let hash = FutexHash::with_table(&tables.0);
                let mut stopped = false;
                Scene::play(|scene, [sleeper, grower, waker]| {
                    let deadline = scene.now() + 1_000;
                    let (hash, word) = (&hash, &word);
                    let slept = sleeper.starts_until(stop, move || hash.wait(word, 0, Some(deadline)));
                    if late {
                        scene.advance(1_000);
                    }
                    stopped = sleeper.is_stopped();
                    let grown = grower.starts(|| hash.grow(&tables.1) && hash.grow(&tables.2));
                    if changed {
                        word.store(1, Relaxed);
                    }
                    sleeper.resumes();
                    let woken = waker.starts(|| hash.wake(word, 2));
                    scene.finish();
                    assert!(grown.expect("nobody is in the way any more"));
                    match (slept.expect("woken, or late"), woken.expect("a wake does not wait")) {
                        (Waited::Woken, 1) | (Waited::TimedOut, 0) => {}
                        (Waited::Differs, 0) => assert!(changed),
                        ends => panic!("{ends:?}"),
                    }
                    assert_eq!(waker.does(|| hash.wake(word, 1)), 0, "somebody is still queued");
                });
                assert_eq!(waiters(&tables.0), ["0x80000000"]);
                assert_eq!(waiters(&tables.1), ["0x80000000"; 2]);
                assert_eq!(waiters(&tables.2), ["0x0"; 4]);
                stopped
            });
            assert!(stops > 5);
        }
    }

    /// The handler of a signal that comes while its thread waits does not queue: it looks at the
    /// word, for so long.
    fn a_handler_polls_on_top_of_a_wait() {
        let mut polled = 0;
        every_stop(|stop| {
            let tables = [table::<1>(), table::<1>()];
            let [hash, handlers] = tables.each_ref().map(|table| FutexHash::with_table(table));
            let (word, other) = (U32::default(), U32::default());
            let mut ends = None;
            let mut stopped = false;
            Scene::play(|scene, [sleeper, waker]| {
                let now = scene.now();
                let (handlers, other, ends) = (&handlers, &other, &mut ends);
                let handler = move || {
                    let wait = |expected, deadline| handlers.wait(other, expected, Some(deadline));
                    *ends = Some([wait(1, now), wait(0, now), wait(0, now + 1_000_000_000_000)]);
                };
                let slept = sleeper.interrupted(stop, handler, || hash.wait(&word, 0, None));
                stopped = sleeper.is_stopped();
                sleeper.resumes();
                waker.starts(|| {
                    word.store(1, Relaxed);
                    hash.wake(&word, 1)
                });
                scene.finish();
                slept.expect("woken");
            });
            match ends {
                None => assert!(!stopped),
                Some([Waited::Differs, Waited::TimedOut, Waited::Woken]) => polled += 1,
                // Not in a wait yet, or no more.
                Some(ends) => assert_eq!(ends, [Waited::Differs, Waited::TimedOut, Waited::TimedOut]),
            }
            stopped
        });
        assert!(polled > 3, "{polled} handlers on top of a wait");
    }
}
