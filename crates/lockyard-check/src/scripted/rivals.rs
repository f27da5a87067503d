//! Exhaustive single preemption against a rival: one actor is stopped before each of its steps in
//! turn, and meanwhile another makes its whole step.
//!
//! | rival | its step |
//! |---|---|
//! | a timed leaver | the first waiter's deadline passes: it leaves the queue |
//! | a signaller | it puts a waiter of a condition variable asleep into the mutex's queue |
//! | an adopted sleeper | it is there already, without a timer of its own |
//! | a stopped waiter | the stopped actor itself, which stays so until all others are served |
//! | a forked child | the stopped actor, and a waiter behind it, are ghosts: the holder goes on |
//! | a writer beside a stopped reader | releases, and takes the lock again at once |
//! | readers beside a stopped writer | one comes, and one more after some steps of the writer's |
//!
//! In the end nobody sleeps on a free lock: everybody is served, however late.

use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::mutex::RawMutex;
use lockyard::wait::turn::{GRACE_NS, TURN_NS};

use super::play::place;
use super::{Actor, Scene, Scripted, every_stop};
use crate::cases::patterns;
use crate::lock::{Held, Lock, Timed, Way};

/// When the timed leaver leaves.
const SOON_NS: u64 = 1_000;

/// Turns the clock until it `is_so`, for four seconds at most: a queued waiter looks once a second
/// at least, and a lock that is kept for one stopped waiter after the other takes two looks.
fn soon(scene: &Scene, is_so: impl Fn() -> bool) -> bool {
    (0..4_000).any(|_| {
        scene.settle();
        let now = is_so();
        if !now {
            scene.advance(1_000_000);
        }
        now
    })
}

fn cycle<L: Lock<P = Scripted>>(lock: &L, way: Way) {
    drop(Held::new(lock, way));
}

fn unlock<L: Lock<P = Scripted>>(lock: &L, way: Way) {
    // SAFETY: each script releases what one of its actors has taken.
    unsafe { lock.unlock(way) };
}

/// `script` at every stop, for every pattern of `N` ways; it returns whether the stop took place.
fn sweep<L: Lock<P = Scripted>, const N: usize>(
    script: impl for<'e> Fn(&'e L, &Scene, [&Actor<'e>; N], &'e [Way], u64) -> bool,
) {
    for ways in patterns::<L>(N) {
        every_stop(|stop| {
            let lock = L::default();
            let mut stopped = false;
            place(format!("stop {stop}, ways {ways:?}"));
            Scene::play(|scene, actors| stopped = script(&lock, scene, actors, &ways, stop));
            stopped
        });
    }
}

/// A waiter is stopped for ever; one that waits behind it, and one that comes later, are served.
pub fn a_waiter_is_stopped_for_ever<L: Lock<P = Scripted>>() {
    for waits_ns in [0, 5_000_000] {
        sweep::<L, 4>(|lock, scene, [holder, victim, behind, passer], ways, stop| {
            holder.does(|| lock.lock(ways[0]));
            victim.starts_until(stop, || cycle(lock, ways[1]));
            behind.starts(|| cycle(lock, ways[2]));
            scene.advance(waits_ns);
            holder.starts(|| unlock(lock, ways[0]));
            scene.settle();
            let stopped = victim.is_stopped();
            // As owner, or with the wait lock, it keeps others out.
            let keeps = |way| stopped && (victim.is_in_window() || !lock.is_open(way));
            if !keeps(ways[2]) {
                assert!(soon(scene, || behind.is_idle()), "{behind:?} waits for a free lock");
            }
            if !keeps(ways[3]) && behind.is_idle() {
                passer.starts(|| cycle(lock, ways[3]));
                assert!(soon(scene, || passer.is_idle()), "{passer:?} waits for a free lock");
            }
            victim.resumes();
            scene.finish();
            assert!(lock.at_rest(), "left as {}", lock.state());
            stopped
        });
    }
}

/// A reader, by `read`, is stopped anywhere beside a writer, which releases: the lock does not show
/// that reader. (In the child of a fork it would show it for ever.)
pub fn a_reader_that_waits_is_not_counted<L: Lock<P = Scripted>>(read: fn(&L)) {
    every_stop(|stop| {
        let lock = L::default();
        let mut stopped = false;
        place(format!("stop {stop}"));
        Scene::play(|_, [writer, victim]| {
            writer.does(|| lock.lock(Way::Write));
            victim.starts_until(stop, || read(&lock));
            stopped = victim.is_stopped();
            writer.does(|| unlock(&lock, Way::Write));
            if stopped {
                assert!(writer.does(|| lock.try_lock(Way::Write)), "left as {}", lock.state());
                writer.does(|| unlock(&lock, Way::Write));
            }
            victim.resumes();
        });
        stopped
    });
}

/// A writer is stopped anywhere as it takes a free lock, and once more when a reader has come: it
/// is not in beside that reader, and all are served.
pub fn a_writer_waits_for_a_reader_that_comes_with_it<L: Lock<P = Scripted>>() {
    for more in 1..8 {
        every_stop(|stop| {
            let lock = L::default();
            let mut stopped = false;
            place(format!("stop {stop}, then {more}"));
            Scene::play(|scene, [writer, reader, last]| {
                writer.starts_until(stop, || lock.lock(Way::Write));
                stopped = writer.is_stopped();
                reader.starts(|| lock.lock(Way::Read));
                let inside = reader.is_idle();
                writer.resumes_until(more);
                last.starts(|| cycle(&lock, Way::Read));
                writer.resumes();
                assert_ne!(inside, writer.is_idle(), "{reader:?} and {writer:?}");
                if inside {
                    reader.does(|| unlock(&lock, Way::Read));
                }
                assert!(soon(scene, || writer.is_idle()), "{writer:?} waits for a free lock");
                writer.does(|| unlock(&lock, Way::Write));
                let all = || reader.is_idle() && last.is_idle();
                assert!(soon(scene, all), "{reader:?} or {last:?} waits for a free lock");
                if !inside {
                    reader.does(|| unlock(&lock, Way::Read));
                }
                assert!(lock.at_rest(), "left as {}", lock.state());
            });
            stopped
        });
    }
}

/// The holder forks while a waiter is anywhere on its way, and another waits: what is held is the
/// child's, and new threads of the child take it from each other.
pub fn a_holder_forks<L: Lock<P = Scripted>>() {
    // Their turns are over, or not: then they have asked that the lock be handed to them.
    [0, 5_000_000].into_iter().for_each(forks_after::<L>);
}

fn forks_after<L: Lock<P = Scripted>>(waited_ns: u64) {
    sweep::<L, 5>(move |lock, scene, [holder, victim, behind, heir, next], ways, stop| {
        holder.does(|| lock.lock(ways[0]));
        victim.starts_until(stop, || cycle(lock, ways[1]));
        behind.starts(|| cycle(lock, ways[2]));
        for _ in 0..3 {
            scene.advance(waited_ns);
        }
        let stopped = victim.is_stopped();
        let waits = |actor: &Actor<'_>| !actor.is_idle();
        if victim.is_in_window() || behind.is_in_window() {
            // The fork waits for it: see the next stop.
            victim.resumes();
            holder.starts(|| unlock(lock, ways[0]));
            scene.finish();
            return stopped;
        }
        let ghosts: Vec<&Actor<'_>> = [victim, behind].into_iter().filter(|actor| waits(actor)).collect();
        scene.forks(&ghosts);
        holder.does(|| unlock(lock, ways[0]));
        // As a reader, the victim may have it.
        if lock.is_open(ways[3]) && lock.is_open(ways[4]) {
            for _ in 0..2 {
                // At once: a lock is kept for a ghost not even as long as for a stopped waiter.
                heir.does(|| lock.lock(ways[3]));
                next.starts(|| cycle(lock, ways[4]));
                heir.does(|| unlock(lock, ways[3]));
                assert!(soon(scene, || next.is_idle()), "{next:?} waits for a free lock");
                assert!(holder.does(|| lock.try_lock(ways[4])), "a try is refused for ghosts");
                holder.does(|| unlock(lock, ways[4]));
            }
        }
        scene.finish();
        stopped
    });
}

/// A release is cut off anywhere; meanwhile the first waiter's time is up.
pub fn the_first_leaves_a_releaser<L: Timed<P = Scripted>>() {
    sweep::<L, 4>(|lock, scene, [victim, first, second, passer], ways, stop| {
        victim.does(|| lock.lock(ways[0]));
        let until = Until::deadline(scene.now() + SOON_NS);
        first.starts(move || {
            if lock.lock_until(ways[1], until).is_ok() {
                unlock(lock, ways[1]);
            }
        });
        second.starts(|| cycle(lock, ways[2]));
        victim.starts_until(stop, || unlock(lock, ways[0]));
        let stopped = victim.is_stopped();
        scene.advance(SOON_NS);
        passer.starts(|| cycle(lock, ways[3]));
        victim.resumes();
        // By the release, not by its own timer, which may be long. A waiter that is awake, on
        // its way to the wait lock, and was passed there may sleep its turn out.
        // One that did not get the wait lock looks again soon.
        scene.settle();
        scene.advance(GRACE_NS);
        for _ in 0..2 {
            if [first, second, passer].iter().any(|actor| actor.is_in_window()) {
                scene.advance(TURN_NS);
            }
        }
        assert!(second.is_idle(), "{second:?} sleeps beside a free lock");
        scene.finish();
        assert!(lock.at_rest(), "left as {}", lock.state());
        stopped
    });
}

/// A mutex with a condition variable.
#[derive(Debug, Default)]
struct Post {
    mutex: RawMutex<Scripted>,
    arrival: RawCondvar<Scripted>,
}

impl Post {
    fn receive(&self) {
        self.mutex.acquire();
        // SAFETY: acquired above.
        let told = unsafe { self.arrival.wait(&self.mutex, Until::FOREVER) };
        assert_eq!(told, Ok(()));
        self.release(true);
    }

    fn hold_until(&self, until: Until<'_, Scripted>) {
        if self.mutex.acquire_until(until).is_ok() {
            self.release(true);
        }
    }

    fn release(&self, detached: bool) {
        // SAFETY: each script releases what one of its actors has taken.
        unsafe {
            match detached {
                true => self.mutex.release_detached(),
                false => self.mutex.release(),
            }
        }
    }
}

/// The actor that is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Releaser,
    Leaver,
    Signaller,
    Sleeper,
}

/// An owner, a waiter whose time is up, and a signaller that puts a sleeper into the queue: one of
/// them, or the sleeper, is stopped anywhere, and the steps of the others come in either order.
pub fn a_sleeper_is_adopted() {
    use Victim::{Leaver, Releaser, Signaller, Sleeper};
    for victim in [Releaser, Leaver, Signaller, Sleeper] {
        for (detached, leaves_first) in [(true, true), (true, false), (false, true), (false, false)] {
            every_stop(|stop| {
                place(format!("{victim:?}, stop {stop}, detached {detached}, leaves first {leaves_first}"));
                let post = Post::default();
                let mut stopped = false;
                Scene::play(|scene, [holder, leaver, signaller, sleeper]| {
                    let at = |who: Victim| if who == victim { stop } else { u64::MAX >> 1 };
                    sleeper.starts_until(at(Sleeper), || post.receive());
                    // One that is stopped with the mutex, or on its way to it, is not to be
                    // signalled yet.
                    if sleeper.is_stopped() {
                        stopped = true;
                        sleeper.resumes();
                    }
                    holder.does(|| post.mutex.acquire());
                    let until = Until::deadline(scene.now() + SOON_NS);
                    {
                        let post = &post;
                        leaver.starts_until(at(Leaver), move || post.hold_until(until));
                    }
                    let releases = || _ = holder.starts_until(at(Releaser), || post.release(detached));
                    let signals = || _ = signaller.starts_until(at(Signaller), || post.arrival.signal());
                    let others: [&dyn Fn(); 3] = match (victim, leaves_first) {
                        (Releaser, true) => [&releases, &|| scene.advance(SOON_NS), &signals],
                        (Releaser, false) => [&releases, &signals, &|| scene.advance(SOON_NS)],
                        (Signaller, true) => [&signals, &|| scene.advance(SOON_NS), &releases],
                        (Signaller, false) => [&signals, &releases, &|| scene.advance(SOON_NS)],
                        (_, true) => [&|| scene.advance(SOON_NS), &signals, &releases],
                        (_, false) => [&signals, &|| scene.advance(SOON_NS), &releases],
                    };
                    others.iter().for_each(|act| act());
                    for actor in [holder, leaver, signaller, sleeper] {
                        stopped |= actor.is_stopped();
                        actor.resumes();
                    }
                    scene.finish();
                    assert!(post.mutex.at_rest(), "left as {}", post.mutex.state());
                });
                stopped
            });
        }
    }
}

/// One `#[test]` for each sweep of the groups, as [`preempted!`](crate::preempted).
///
/// Groups: `lock`, `timed`, `condvar`.
#[macro_export]
macro_rules! rivalled {
    ($name:ident: $lock:ty, [$($group:ident),* $(,)?]) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            type Subject = $lock;
            $($crate::rivalled!(@$group);)*
        }
    };
    (@lock) => {
        $crate::rivalled!(@tests a_waiter_is_stopped_for_ever::<Subject>, a_holder_forks::<Subject>);
    };
    (@shared) => {
        $crate::rivalled!(@tests a_writer_waits_for_a_reader_that_comes_with_it::<Subject>);
    };
    (@timed) => {
        $crate::rivalled!(@tests the_first_leaves_a_releaser::<Subject>);
    };
    (@condvar) => {
        $crate::rivalled!(@tests a_sleeper_is_adopted);
    };
    (@tests $($sweep:ident $(::<$subject:ident>)?),*) => {
        $(#[test]
        fn $sweep() {
            <$crate::scripted::Scripted as $crate::stage::Stage>::perform(
                concat!(module_path!(), "::", stringify!($sweep)),
                $crate::scripted::rivals::$sweep $(::<$subject>)?,
            );
        })*
    };
}
