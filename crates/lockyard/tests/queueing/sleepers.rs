//! Turns of a sleeping lock's waiters: when they look, and whom they wake.

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::wait::turn::{GRACE_NS, TURN_NS};
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Outcome, Scene, Scripted};

use super::scripts;

type Mutex = RawMutex<Scripted>;
type RwSem = RawRwSem<Scripted>;

fn release(mutex: &Mutex) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { mutex.release() };
}

/// Turns the clock to `ns` after `begin`: until then nobody wakes up, and then there have been
/// `sleeps` wake-ups in all.
fn wakes_at(scene: &Scene, begin: u64, ns: u64, sleeps: i64) {
    let before = scene.events(Event::MutexSleep);
    scene.advance(begin + ns - 1 - scene.now());
    assert_eq!(scene.events(Event::MutexSleep), before, "before {ns}");
    scene.advance(1);
    assert_eq!(scene.events(Event::MutexSleep), sleeps, "at {ns}");
}

/// Turns the clock until a waiter has got the mutex.
fn gets_it(scene: &Scene, got: &Outcome<()>) {
    for _ in 0..100 {
        if got.is_done() {
            return;
        }
        scene.advance(TURN_NS);
    }
    panic!("not served in a hundred turns");
}

scripts! {
    /// Each waiter has a turn after the one before it, and looks again a turn later for each one
    /// that is still before it.
    fn waiters_look_when_their_turns_end() {
        let mutex = Mutex::default();
        Scene::play(|scene, [holder, first, second, third]| {
            holder.does(|| mutex.acquire());
            let begin = scene.now();
            let waits = [first, second, third].map(|waiter| waiter.starts(|| mutex.acquire()));
            for (turns, sleeps) in (1..).zip([1, 3, 6, 8, 11]) {
                wakes_at(scene, begin, turns * TURN_NS, sleeps);
            }
            holder.does(|| release(&mutex));
            for (waiter, got) in [first, second, third].into_iter().zip(&waits) {
                gets_it(scene, got);
                waiter.does(|| release(&mutex));
            }
        });
        assert!(mutex.at_rest());
    }

    /// From the tenth time on it doubles the time, up to 256 turns.
    fn a_waiter_becomes_patient() {
        let mutex = Mutex::default();
        Scene::play(|scene, [holder, waiter]| {
            holder.does(|| mutex.acquire());
            let begin = scene.now();
            waiter.starts(|| mutex.acquire());
            let turns = (1..=10).chain([12, 16, 24, 40, 72, 136, 264, 520, 776, 1032]);
            for (sleeps, turns) in (1..).zip(turns) {
                wakes_at(scene, begin, turns * TURN_NS, sleeps);
            }
            holder.does(|| release(&mutex));
            waiter.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }

    /// At a mutex that is fought over, whoever queues asks for a first waiter that is late: from
    /// the grace after its turn on, not before.
    fn a_first_waiter_has_a_grace() {
        for late_by in [0, 1] {
            let mutex = Mutex::default();
            Scene::play(|scene, [holder, passed, late, newcomer]| {
                holder.does(|| mutex.acquire());
                let begin = scene.now();
                let before = passed.starts(|| mutex.acquire());
                let got = late.starts(|| mutex.acquire());
                scene.advance(TURN_NS);
                holder.does(|| release(&mutex));
                scene.settle();
                before.expect("its turn was over");
                late.freeze();
                passed.does(|| release(&mutex));
                scene.advance(begin + 2 * TURN_NS + GRACE_NS + late_by - scene.now());
                assert!(holder.does(|| mutex.try_acquire()));
                let last = newcomer.starts(|| mutex.acquire());
                holder.does(|| release(&mutex));
                let open = holder.does(|| mutex.try_acquire());
                assert_eq!(open, late_by == 0);
                if open {
                    holder.does(|| release(&mutex));
                }
                late.thaw();
                gets_it(scene, &got);
                late.does(|| release(&mutex));
                gets_it(scene, &last);
                newcomer.does(|| release(&mutex));
            });
            assert!(mutex.at_rest());
        }
    }

    /// One that was not passed also wakes those whose timers are more than two turns away: of a
    /// lock for several.
    fn those_who_sleep_long_are_woken() {
        for (now, woken) in [(TURN_NS - 1, 3), (TURN_NS, 2)] {
            let sem = RwSem::default();
            Scene::play(|scene, [holder, first, second, third, fourth]| {
                holder.does(|| sem.write_acquire());
                let waiters = [first, second, third, fourth];
                let got = waiters.map(|waiter| waiter.starts(|| sem.read_acquire()));
                waiters.into_iter().for_each(|waiter| waiter.freeze());
                // SAFETY: the holder has it.
                holder.does(|| unsafe { sem.write_release() });
                scene.advance(now);
                let before = scene.events(Event::ParkWake);
                first.thaw();
                assert!(got[0].is_done());
                assert_eq!(scene.events(Event::ParkWake) - before, woken, "the next, and those who sleep long");
                waiters.into_iter().for_each(|waiter| waiter.thaw());
                for (waiter, got) in waiters.into_iter().zip(got) {
                    gets_it(scene, &got);
                    // SAFETY: it has it.
                    waiter.does(|| unsafe { sem.read_release() });
                }
            });
            assert!(sem.at_rest());
        }
    }

    /// A waiter that was passed asks for the next to be woken only if that one's timer is more than
    /// two turns away.
    fn a_next_that_sleeps_long_is_asked_for() {
        // The second has looked after thirteen turns, and will again after seventeen.
        for (turns, less, woken) in [(15, 1, true), (15, 0, false)] {
            let mutex = Mutex::default();
            Scene::play(|scene, [holder, first, second]| {
                holder.does(|| mutex.acquire());
                let begin = scene.now();
                let one = first.starts(|| mutex.acquire());
                let other = second.starts(|| mutex.acquire());
                for turn in 1..=13 {
                    scene.advance(begin + turn * TURN_NS - scene.now());
                }
                scene.advance(begin + turns * TURN_NS - less - scene.now());
                holder.does(|| release(&mutex));
                one.expect("asked for");
                assert!(!other.is_done());
                first.does(|| release(&mutex));
                assert_eq!(other.is_done(), woken);
                if !woken {
                    scene.advance(begin + 17 * TURN_NS - 1 - scene.now());
                    assert!(!other.is_done());
                    scene.advance(1);
                }
                other.expect("at its time");
                second.does(|| release(&mutex));
            });
            assert!(mutex.at_rest());
        }
    }
}
