//! Exhaustive single preemption: one actor is stopped before each of its steps in turn, everybody
//! else runs until nothing more happens, then it goes on. In the end all must have been served,
//! with the data whole and the lock at rest.
//!
//! For a path of n operations that is n schedules; they have found most of the classical lock bugs.
//! The sweeps run for every pattern of ways (who reads, who writes), with everybody believed to be
//! on a CPU (so that others spin) and not.

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};

use super::play::place;
use super::{Actor, Scene, Scripted, every_stop};
use crate::cases::{Guarded, patterns};
use crate::lock::{Count, Held, Lock, Shared, Timed, Way};
use crate::stage::Steps;

/// A lock, its data, and how many write sections there were.
struct Stand<L: Lock<P = Scripted>> {
    guarded: Guarded<L>,
    writes: Steps<Scripted>,
    token: CancelToken<Scripted>,
}

impl<L: Lock<P = Scripted>> Stand<L> {
    fn lock(&self) -> &L {
        &self.guarded.lock
    }

    fn section(&self, me: usize, way: Way) {
        if self.guarded.section(me, way) == 1 {
            self.writes.advance();
        }
    }

    /// Takes the lock, uses it, releases it.
    fn cycle(&self, me: usize, way: Way) {
        let _held = Held::new(self.lock(), way);
        self.section(me, way);
    }

    /// The same with a wait that may end.
    fn cycle_until(&self, me: usize, way: Way, until: Until<'_, Scripted>) -> Result<(), GaveUp>
    where
        L: Timed,
    {
        let _held = Held::until(self.lock(), way, until)?;
        self.section(me, way);
        Ok(())
    }

    fn try_cycle(&self, me: usize, way: Way) {
        if let Some(_held) = Held::try_new(self.lock(), way) {
            self.section(me, way);
        }
    }

    fn release(&self, way: Way) {
        // SAFETY: each script releases what one of its actors has taken.
        unsafe { self.lock().unlock(way) };
    }

    fn downgrade(&self)
    where
        L: Shared,
    {
        // SAFETY: as above.
        unsafe { self.lock().downgrade() };
    }
}

/// For every pattern of `N` ways, with and without a belief that everybody is on a CPU: `script` at
/// every stop. It returns whether the stop took place.
fn sweep<L, const N: usize>(script: impl for<'e> Fn(&'e Stand<L>, &Scene, [&Actor<'e>; N], &'e [Way], u64) -> bool)
where
    L: Lock<P = Scripted>,
{
    for ways in patterns::<L>(N) {
        for on_cpu in [false, true] {
            every_stop(|stop| {
                let stand =
                    Stand::<L> { guarded: Guarded::default(), writes: Steps::default(), token: CancelToken::default() };
                let mut stopped = false;
                place(format!("stop {stop}, ways {ways:?}, on CPU: {on_cpu}"));
                Scene::play(|scene, actors| {
                    actors.iter().for_each(|actor| actor.is_on_cpu(on_cpu));
                    stopped = script(&stand, scene, actors, &ways, stop);
                    scene.finish();
                    stand.guarded.finish(u64::from(stand.writes.count()));
                });
                stopped
            });
        }
    }
}

/// A thread anywhere on its way through lock, section and unlock, against a release, a waiter, and
/// a thread that comes and goes.
pub fn a_locker_is_preempted<L: Lock<P = Scripted>>() {
    sweep::<L, 4>(|stand, _, [holder, victim, waiter, passer], ways, stop| {
        holder.does(|| stand.lock().lock(ways[0]));
        victim.starts_until(stop, || stand.cycle(1, ways[1]));
        let stopped = victim.is_stopped();
        waiter.starts(|| stand.cycle(2, ways[2]));
        holder.starts(|| stand.release(ways[0]));
        passer.starts(|| stand.cycle(3, ways[3]));
        victim.resumes();
        stopped
    });
}

/// The same, woken from its sleep: the stop comes after the release, when the victim has queued
/// before.
pub fn a_woken_waiter_is_preempted<L: Lock<P = Scripted>>() {
    sweep::<L, 4>(|stand, _, [holder, victim, waiter, passer], ways, stop| {
        holder.does(|| stand.lock().lock(ways[0]));
        victim.starts_until(stop, || stand.cycle(1, ways[1]));
        holder.starts(|| stand.release(ways[0]));
        let stopped = victim.is_stopped();
        passer.starts(|| stand.try_cycle(3, ways[3]));
        waiter.starts(|| stand.cycle(2, ways[2]));
        passer.starts_if_idle(|| stand.cycle(3, ways[3]));
        victim.resumes();
        stopped
    });
}

/// A release is cut off at every step, with one waiter before it, one that comes meanwhile, and one
/// that tries.
pub fn a_releaser_is_preempted<L: Lock<P = Scripted>>() {
    sweep::<L, 4>(|stand, _, [victim, first, second, passer], ways, stop| {
        victim.does(|| stand.lock().lock(ways[0]));
        first.starts(|| stand.cycle(1, ways[1]));
        victim.starts_until(stop, || stand.release(ways[0]));
        let stopped = victim.is_stopped();
        passer.starts(|| stand.try_cycle(3, ways[3]));
        second.starts(|| stand.cycle(2, ways[2]));
        victim.resumes();
        stopped
    });
}

/// The first waiter's turn has passed, so that it asks for the lock; it is stopped anywhere, while
/// others take and release.
pub fn an_asking_waiter_is_preempted<L: Lock<P = Scripted>>() {
    sweep::<L, 4>(|stand, scene, [holder, victim, waiter, passer], ways, stop| {
        holder.does(|| stand.lock().lock(ways[0]));
        victim.starts_until(stop, || stand.cycle(1, ways[1]));
        waiter.starts(|| stand.cycle(2, ways[2]));
        for _ in 0..3 {
            scene.advance(5_000_000);
        }
        let stopped = victim.is_stopped();
        holder.starts(|| stand.release(ways[0]));
        passer.starts(|| stand.cycle(3, ways[3]));
        scene.advance(5_000_000);
        victim.resumes();
        stopped
    });
}

/// A waiter gives up by its token, at every step, before the release, with another waiter behind.
pub fn a_leaver_is_preempted<L: Timed<P = Scripted>>() {
    sweep::<L, 4>(|stand, scene, [holder, victim, behind, passer], ways, stop| {
        holder.does(|| stand.lock().lock(ways[0]));
        victim.starts_until(stop, || stand.cycle_until(1, ways[1], Until::cancelled(&stand.token)));
        behind.starts(|| stand.cycle(2, ways[2]));
        scene.advance(5_000_000);
        passer.starts(|| stand.token.cancel());
        let stopped = victim.is_stopped();
        holder.starts(|| stand.release(ways[0]));
        passer.starts_if_idle(|| stand.try_cycle(3, ways[3]));
        victim.resumes();
        stopped
    });
}

/// The same, but the release comes first: it may have chosen the one that leaves.
pub fn a_chosen_leaver_is_preempted<L: Timed<P = Scripted>>() {
    sweep::<L, 4>(|stand, scene, [holder, victim, behind, passer], ways, stop| {
        holder.does(|| stand.lock().lock(ways[0]));
        victim.starts_until(stop, || stand.cycle_until(1, ways[1], Until::cancelled(&stand.token)));
        behind.starts(|| stand.cycle(2, ways[2]));
        scene.advance(5_000_000);
        victim.freeze();
        holder.starts(|| stand.release(ways[0]));
        passer.starts(|| stand.token.cancel());
        let stopped = victim.is_stopped();
        passer.starts_if_idle(|| stand.try_cycle(3, ways[3]));
        victim.thaw();
        let stopped = stopped || victim.is_stopped();
        victim.resumes();
        stopped
    });
}

/// A waiter whose deadline comes while it is stopped, or asleep, between two others.
pub fn a_late_waiter_is_preempted<L: Timed<P = Scripted>>() {
    sweep::<L, 4>(|stand, scene, [holder, before, victim, behind], ways, stop| {
        let deadline = scene.now() + 1_000;
        holder.does(|| stand.lock().lock(ways[0]));
        before.starts(|| stand.cycle(1, ways[1]));
        victim.starts_until(stop, move || stand.cycle_until(2, ways[2], Until::deadline(deadline)));
        behind.starts(|| stand.cycle(3, ways[3]));
        scene.advance(1_000);
        let stopped = victim.is_stopped();
        holder.starts(|| stand.release(ways[0]));
        victim.resumes();
        stopped
    });
}

/// The canceller is cut off at every step, while the waiters it wakes leave, and the lock is
/// released.
pub fn a_canceller_is_preempted<L: Timed<P = Scripted>>() {
    sweep::<L, 4>(|stand, _, [holder, first, second, victim], ways, stop| {
        holder.does(|| stand.lock().lock(ways[0]));
        first.starts(|| stand.cycle_until(1, ways[1], Until::cancelled(&stand.token)));
        second.starts(|| stand.cycle_until(2, ways[2], Until::cancelled(&stand.token)));
        victim.starts_until(stop, || stand.token.cancel());
        let stopped = victim.is_stopped();
        holder.starts(|| stand.release(ways[0]));
        holder.starts_if_idle(|| stand.cycle_until(0, ways[3], Until::cancelled(&stand.token)));
        victim.resumes();
        stopped
    });
}

/// A downgrade is cut off at every step, with a reader and a writer waiting, in both orders, and
/// one that comes.
pub fn a_downgrader_is_preempted<L: Shared<P = Scripted>>() {
    sweep::<L, 4>(|stand, _, [victim, first, second, passer], ways, stop| {
        victim.does(|| stand.lock().lock(Way::Write));
        first.starts(|| stand.cycle(1, ways[1]));
        second.starts(|| stand.cycle(2, ways[2]));
        victim.starts_until(stop, || {
            stand.section(0, Way::Write);
            stand.downgrade();
            stand.section(0, Way::Read);
            stand.release(Way::Read);
        });
        let stopped = victim.is_stopped();
        passer.starts(|| stand.cycle(3, ways[3]));
        victim.resumes();
        stopped
    });
}

/// A semaphore at every stop of one actor.
fn units<S: Count<P = Scripted>, const N: usize>(
    start: u32,
    end: u32,
    script: impl for<'e> Fn(&'e (S, CancelToken<Scripted>), &Scene, [&Actor<'e>; N], u64) -> bool,
) {
    every_stop(|stop| {
        let stand = (S::with_units(start), CancelToken::default());
        let mut stopped = false;
        place(format!("stop {stop}"));
        Scene::play(|scene, actors| {
            stopped = script(&stand, scene, actors, stop);
            scene.finish();
            assert_eq!(stand.0.units(), end, "units were lost or made");
        });
        stopped
    });
}

/// A down anywhere on its way, against two quick ups, with another waiter.
pub fn a_downer_is_preempted<S: Count<P = Scripted>>() {
    units::<S, 3>(0, 0, |(semaphore, _), _, [victim, waiter, upper], stop| {
        victim.starts_until(stop, || semaphore.down());
        let stopped = victim.is_stopped();
        waiter.starts(|| semaphore.down());
        upper.starts(|| (semaphore.up(), semaphore.up()));
        victim.resumes();
        stopped || victim.is_stopped()
    });
    units::<S, 3>(0, 0, |(semaphore, _), _, [waiter, victim, upper], stop| {
        waiter.starts(|| semaphore.down());
        victim.starts_until(stop, || semaphore.down());
        upper.starts(|| (semaphore.up(), semaphore.up()));
        let stopped = victim.is_stopped();
        victim.resumes();
        stopped
    });
}

/// An up anywhere on its way, against another up, with two waiters.
pub fn an_upper_is_preempted<S: Count<P = Scripted>>() {
    units::<S, 4>(0, 0, |(semaphore, _), _, [victim, upper, first, second], stop| {
        first.starts(|| semaphore.down());
        second.starts(|| semaphore.down());
        victim.starts_until(stop, || semaphore.up());
        let stopped = victim.is_stopped();
        upper.starts(|| semaphore.up());
        victim.resumes();
        stopped
    });
}

/// A waiter gives up at every step against an up: the unit is taken by it, or by the other, never
/// by nobody.
pub fn a_leaving_downer_is_preempted<S: Count<P = Scripted>>() {
    units::<S, 3>(0, 0, |(semaphore, token), scene, [victim, waiter, upper], stop| {
        let given_up = victim.starts_until(stop, || semaphore.down_until(Until::cancelled(token)));
        let stopped = victim.is_stopped();
        waiter.starts(|| semaphore.down());
        upper.starts(|| semaphore.up());
        scene.advance(5_000_000);
        upper.starts_if_idle(|| token.cancel());
        let stopped = stopped || victim.is_stopped();
        victim.resumes();
        scene.advance(5_000_000);
        upper.starts_if_idle(|| token.cancel());
        scene.advance(5_000_000);
        // The one of the two that has no unit yet gets one now.
        if given_up.expect("granted, or cancelled").is_ok() {
            upper.does(|| semaphore.up());
        }
        stopped
    });
}

/// One `#[test]` for each sweep of the groups, as [`conformance!`](crate::conformance).
///
/// Groups: `exclusive`, `timed`, `shared`, `counting`.
#[macro_export]
macro_rules! preempted {
    ($name:ident: $lock:ty, [$($group:ident),* $(,)?]) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            type Subject = $lock;
            $($crate::preempted!(@$group);)*
        }
    };
    (@exclusive) => {
        $crate::preempted!(@tests
            a_locker_is_preempted a_woken_waiter_is_preempted a_releaser_is_preempted an_asking_waiter_is_preempted);
    };
    (@timed) => {
        $crate::preempted!(@tests
            a_leaver_is_preempted a_chosen_leaver_is_preempted a_late_waiter_is_preempted a_canceller_is_preempted);
    };
    (@shared) => {
        $crate::preempted!(@tests a_downgrader_is_preempted);
    };
    (@counting) => {
        $crate::preempted!(@tests a_downer_is_preempted an_upper_is_preempted a_leaving_downer_is_preempted);
    };
    (@tests $($sweep:ident)*) => {
        $(#[test]
        fn $sweep() {
            <$crate::scripted::Scripted as $crate::stage::Stage>::perform(
                concat!(module_path!(), "::", stringify!($sweep)),
                $crate::scripted::sweeps::$sweep::<Subject>,
            );
        })*
    };
}
