//! The semaphore's lost wake-up of 2008, and what the other forms make of the same schedule.

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::semaphore::RawSemaphore;
use lockyard_check::lock::Count;
use lockyard_check::scripted::{Scene, Scripted};

use super::scripts;

/// `waiters` wait on a semaphore without units; the first is slow to wake; as many ups come in a
/// row. Returns how many waiters sleep for ever after that, and how many units are there for them.
fn quick_ups<S: Count<P = Scripted>>(waiters: usize) -> (usize, u32) {
    let semaphore = S::with_units(0);
    let token = CancelToken::default();
    let mut found = (0, 0);
    Scene::play_with(waiters + 1, |scene, actors| {
        let (upper, waiting) = actors.split_last().expect("there is one at least");
        for waiter in waiting {
            waiter.starts(|| semaphore.down_until(Until::cancelled(&token)));
        }
        waiting[0].freeze();
        for _ in 0..waiters {
            upper.does(|| assert!(semaphore.up()));
        }
        waiting[0].thaw();
        // Those with a timer are awake in time; the others are not.
        scene.advance(10_000_000);
        let asleep = waiting.iter().filter(|waiter| waiter.sleeps_for_ever()).count();
        found = (asleep, semaphore.units());
        upper.does(|| token.cancel());
        scene.finish();
    });
    found
}

scripts! {
    /// Both ups wake the first waiter, which takes one unit; nobody wakes the second, though there
    /// is a unit for it.
    fn lost_wakeup_of_2008_is_shown() {
        assert_eq!(quick_ups::<KernelSemaphore<Scripted, Opportunistic2008>>(2), (1, 1));
        assert_eq!(quick_ups::<KernelSemaphore<Scripted, Opportunistic2008>>(4), (3, 3));
    }

    /// The same schedule does no harm to the other forms.
    fn lost_wakeup_of_2008_is_repaired() {
        for waiters in 1..=5 {
            assert_eq!(quick_ups::<KernelSemaphore<Scripted, DirectHandoff>>(waiters), (0, 0));
            assert_eq!(quick_ups::<RawSemaphore<Scripted>>(waiters), (0, 0));
        }
        // With one unit at a time the form of 2008 is right, too.
        assert_eq!(quick_ups::<KernelSemaphore<Scripted, Opportunistic2008>>(1), (0, 0));
    }

    /// S2: a unit that was given counts, though the deadline has come before its owner runs.
    fn s2_a_granted_unit_is_not_lost_to_a_deadline() {
        let semaphore = KernelSemaphore::<Scripted, DirectHandoff>::with_units(0);
        Scene::play(|scene, [waiter, upper]| {
            let deadline = scene.now() + 1_000;
            let result = waiter.starts({
                let semaphore = &semaphore;
                move || semaphore.down_until(Until::deadline(deadline))
            });
            waiter.freeze();
            upper.does(|| semaphore.up());
            scene.advance(1_000_000);
            waiter.thaw();
            assert_eq!(result.expect("both have come"), Ok(()));
        });
        assert_eq!(semaphore.units(), 0);
    }

    /// A waiter that gives up as the unit comes either has it or leaves it to the next.
    fn a_cancelled_first_waiter_passes_the_unit_on() {
        let semaphore = RawSemaphore::<Scripted>::with_units(0);
        let token = CancelToken::default();
        Scene::play(|scene, [first, second, upper]| {
            let first_result = first.starts(|| semaphore.down_until(Until::cancelled(&token)));
            let second_result = second.starts(|| semaphore.down());
            first.freeze();
            upper.does(|| semaphore.up());
            upper.does(|| token.cancel());
            first.thaw();
            scene.advance(10_000_000);
            match first_result.expect("cancelled, or served") {
                Ok(()) => {
                    assert!(!second_result.is_done());
                    upper.does(|| semaphore.up());
                }
                Err(end) => assert_eq!(end, GaveUp::Cancelled),
            }
            scene.finish();
            second_result.expect("there was a unit for it");
        });
        assert_eq!(semaphore.units(), 0);
    }
}
