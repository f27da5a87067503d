//! Who gets it.

use lockyard::cancel::{CancelToken, Until};
use lockyard::event::Event;
use lockyard::rtmutex_tree::Refused;
use lockyard::rtmutex_tree::policy::{NoSpin, Strict};
use lockyard_check::scripted::{Scene, every_stop};

use super::{Mutex, acquire, acquire_until, at_rest, have_priorities, release, scripts, set_priority};

/// Releases from actor to actor: who had it, in order.
macro_rules! served {
    ($mutex:expr, $scene:expr, $($name:ident = $outcome:expr),* $(,)?) => {{
        let mut order = Vec::new();
        while order.len() < [$(stringify!($name)),*].len() {
            $scene.settle();
            let before = order.len();
            $(if !order.contains(&stringify!($name)) && $outcome.is_done() {
                order.push(stringify!($name));
                $name.does(move || release(&$mutex));
                $scene.settle();
            })*
            assert!(order.len() > before, "nobody was let in after {order:?}");
        }
        order
    }};
}

scripts! {
    /// Highest priority first, and among equals who came first.
    fn priority_then_arrival() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|scene, [holder, a, b, c, d, e]| {
            have_priorities(&[a, b, c, d, e], &[10, 30, 10, 0, 30]);
            holder.does(move || acquire(mutex));
            let [a1, b1, c1, d1, e1] = [a, b, c, d, e].map(|actor| actor.starts(move || acquire(mutex)));
            holder.does(move || release(mutex));
            // `served!` looks in the order of its list; the mutex lets in one at a time, so what it
            // finds is the mutex's order.
            let order = served!(mutex, scene, d = d1, c = c1, a = a1, e = e1, b = b1);
            assert_eq!(order, ["b", "e", "a", "c", "d"]);
        });
        assert!(at_rest(mutex));
    }

    /// A waiter whose priority is raised passes others; one whose priority falls lets them pass.
    fn a_change_of_priority_changes_the_order() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|scene, [holder, a, b, c]| {
            have_priorities(&[a, b, c], &[10, 20, 30]);
            holder.does(move || acquire(mutex));
            let [a1, b1, c1] = [a, b, c].map(|actor| actor.starts(move || acquire(mutex)));
            let names = [a.id(), c.id()];
            holder.does(move || {
                set_priority(names[0], 40);
                set_priority(names[1], 5);
            });
            assert_eq!(holder.priority(), 40);
            holder.does(move || release(mutex));
            assert_eq!(served!(mutex, scene, c = c1, b = b1, a = a1), ["a", "b", "c"]);
        });
        assert!(at_rest(mutex));
    }

    /// Free and promised: a strictly more urgent newcomer takes it, an equal one does not, and the
    /// waiter is served next.
    fn only_the_more_urgent_steal_from_realtime_waiters() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|scene, [holder, waiter, equal, better]| {
            have_priorities(&[waiter, equal, better], &[20, 20, 21]);
            holder.does(move || acquire(mutex));
            let got = waiter.starts(move || acquire(mutex));
            waiter.freeze();
            holder.does(move || release(mutex));
            assert!(!mutex.is_locked() && mutex.is_contended());
            assert!(!equal.does(move || mutex.try_acquire()));
            assert!(better.does(move || mutex.try_acquire()));
            assert_eq!(scene.events(Event::RtmutexSteal), 1);
            waiter.thaw();
            assert!(!got.is_done() && waiter.waits());
            better.does(move || release(mutex));
            assert!(got.is_done());
            waiter.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// Time-sharing threads pass a time-sharing waiter, under the policy that lets them; under the
    /// other they do not.
    fn lateral_steal_is_a_policy() {
        let (lateral, strict): (Mutex, Mutex<Strict>) = Default::default();
        let (lateral, strict) = (&lateral, &strict);
        Scene::play(|_, [holder, waiter, newcomer]| {
            holder.does(move || acquire(lateral));
            let got = waiter.starts(move || acquire(lateral));
            waiter.freeze();
            holder.does(move || release(lateral));
            assert!(newcomer.does(move || lateral.try_acquire()));
            newcomer.does(move || release(lateral));
            waiter.thaw();
            got.expect("served");
            waiter.does(move || release(lateral));
        });
        Scene::play(|_, [holder, waiter, newcomer]| {
            holder.does(move || acquire(strict));
            let got = waiter.starts(move || acquire(strict));
            waiter.freeze();
            holder.does(move || release(strict));
            assert!(!newcomer.does(move || strict.try_acquire()));
            waiter.thaw();
            got.expect("served");
            waiter.does(move || release(strict));
        });
        assert!(at_rest(lateral) && at_rest(strict));
    }

    /// A timeout and a release choose the same moment: a waiter that leaves takes what was promised
    /// to it, or the next gets it. At every stop.
    fn a_timeout_against_a_release() {
        every_stop(|stop| {
            let mutex: &Mutex = &Mutex::default();
            let mut stopped = false;
            Scene::play(|scene, [holder, leaver, next]| {
                have_priorities(&[leaver, next], &[20, 10]);
                holder.does(move || acquire(mutex));
                let end = scene.now() + 1_000;
                let left = leaver.starts_until(stop, move || {
                    let result = acquire_until(mutex, end);
                    if result.is_ok() {
                        release(mutex);
                    }
                    result
                });
                let got = next.starts(move || {
                    acquire(mutex);
                    release(mutex);
                });
                scene.advance(2_000);
                holder.starts(move || release(mutex));
                stopped = leaver.is_stopped();
                leaver.resumes();
                scene.finish();
                got.expect("nobody holds it");
                assert!(matches!(left.expect("ended"), Ok(()) | Err(Refused::TimedOut)));
            });
            assert!(at_rest(mutex));
            stopped
        });
    }

    /// What is had before the deadline is looked at is had, whatever the time.
    fn an_acquisition_wins_over_a_timeout() {
        let mutex: &Mutex<NoSpin> = &Mutex::default();
        Scene::play(|scene, [holder, waiter]| {
            holder.does(move || acquire(mutex));
            let end = scene.now() + 1_000;
            let got = waiter.starts(move || acquire_until(mutex, end));
            waiter.freeze();
            holder.does(move || release(mutex));
            scene.advance(5_000);
            waiter.thaw();
            assert_eq!(got.expect("woken"), Ok(()));
            waiter.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// A cancelled wait ends; the mutex is as if it had never been.
    fn cancelled() {
        let mutex: &Mutex = &Mutex::default();
        let token = &CancelToken::default();
        Scene::play(|_, [holder, waiter]| {
            have_priorities(&[waiter], &[7]);
            holder.does(move || acquire(mutex));
            let got = waiter.starts(move || mutex.acquire_until(Until::cancelled(token)));
            assert_eq!(holder.priority(), 7);
            holder.does(move || token.cancel());
            assert_eq!(got.expect("cancelled"), Err(Refused::Cancelled));
            assert_eq!(holder.priority(), 0);
            holder.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }

    /// Only the owner unlocks; a foreign try is an error and changes nothing.
    fn unlock_by_another() {
        let mutex: &Mutex = &Mutex::default();
        Scene::play(|_, [holder, stranger, waiter]| {
            // SAFETY: nobody relies on what it protects.
            stranger.does(move || assert!(unsafe { mutex.release() }.is_err()));
            holder.does(move || acquire(mutex));
            // SAFETY: as above.
            stranger.does(move || assert!(unsafe { mutex.release() }.is_err()));
            let got = waiter.starts(move || acquire(mutex));
            // SAFETY: as above.
            stranger.does(move || assert!(unsafe { mutex.release() }.is_err()));
            assert!(mutex.owner() == Some(holder.id()) && !got.is_done());
            holder.does(move || release(mutex));
            got.expect("released");
            waiter.does(move || release(mutex));
        });
        assert!(at_rest(mutex));
    }
}
