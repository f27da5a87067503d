//! The rwsem's historical bugs, for every policy that is not literally one of them; its races are
//! in `races`.

use lockyard::GaveUp;
use lockyard::cancel::{CancelToken, Until};
use lockyard::history::rwsem::KernelRwSem;
use lockyard::history::rwsem::policy::{self, Policy, StarvationGuard, TodayKernel, Visitor};
use lockyard::rwsem::RawRwSem;
use lockyard_check::lock::{Held, Lock, Shared, Timed, Way};
use lockyard_check::scripted::{Actor, Scene, Scripted, every_stop};
use lockyard_check::stage::Steps;

use super::scripts;

/// An rwsem: the one that people use, or one of the kernel's.
trait RwSem: Lock<P = Scripted> + Timed + Shared + Default {
    const NAME: &'static str;
    /// A reader that lets others in also lets in those behind a first writer.
    const PAST_WRITER: bool;

    fn is_contended(&self) -> bool;
}

impl RwSem for RawRwSem<Scripted> {
    const NAME: &'static str = "today";
    const PAST_WRITER: bool = false;

    fn is_contended(&self) -> bool {
        self.is_contended()
    }
}

impl<Y: Policy> RwSem for KernelRwSem<Scripted, Y> {
    const NAME: &'static str = Y::NAME;
    const PAST_WRITER: bool = Y::PAST_WRITER;

    fn is_contended(&self) -> bool {
        self.is_contended()
    }
}

const MS: u64 = 1_000_000;

/// Literal forms of bugs, kept for experiments: they need not pass.
const LITERAL: &[&str] = &["xadd-baseline-literal", "v5.16"];

/// Runs a block for every rwsem that should pass.
macro_rules! every_policy {
    ($lock:ident => $body:block) => {{
        fn each<$lock: RwSem>() $body
        struct Each;
        impl Visitor for Each {
            type Output = ();
            fn policy<Y: Policy>(self) {
                each::<KernelRwSem<Scripted, Y>>();
            }
        }
        each::<RawRwSem<Scripted>>();
        for name in policy::NAMES.iter().filter(|name| !LITERAL.contains(name)) {
            policy::visit(name, Each).expect("a name of the list");
        }
    }};
}

mod races;

fn release<L: RwSem>(lock: &L, way: Way) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { lock.unlock(way) };
}

fn cycle<L: RwSem>(lock: &L, way: Way) {
    drop(Held::new(lock, way));
}

/// `actor` waits that way, unless `token` is cancelled.
fn waits<'e, L: RwSem>(
    actor: &Actor<'e>,
    lock: &'e L,
    way: Way,
    token: &'e CancelToken<Scripted>,
) -> lockyard_check::scripted::Outcome<Result<(), GaveUp>> {
    actor.starts(move || Held::until(lock, way, Until::cancelled(token)).map(drop))
}

/// B0: an abandoned wait left the mark of waiters, or forgot to wake those behind.
fn abandoned_alone<L: RwSem>() {
    for waiting in [Way::Write, Way::Read] {
        let lock = L::default();
        let token = CancelToken::default();
        Scene::play(|_, [holder, waiter, canceller, passer]| {
            holder.does(|| lock.lock(Way::Write));
            let held = lock.state();
            let result = waits(waiter, &lock, waiting, &token);
            canceller.does(|| token.cancel());
            assert_eq!(result.expect("cancelled"), Err(GaveUp::Cancelled));
            assert_eq!(lock.state(), held, "{}: a mark was left", L::NAME);
            holder.does(|| release(&lock, Way::Write));
            passer.does(|| cycle(&lock, Way::Read));
            passer.does(|| cycle(&lock, Way::Write));
        });
        assert!(lock.at_rest(), "{}", L::NAME);
    }
}

/// B17: waiters, one of which (each in turn) gives up; the mark of waiters is there as long as one
/// is left.
fn abandoned_among<L: RwSem>(number: usize, leaver: usize, writes: impl Fn(usize) -> bool) {
    let lock = L::default();
    let token = CancelToken::default();
    let never = CancelToken::default();
    Scene::play_with(number + 2, |scene, actors| {
        let (waiting, [holder, canceller]) = actors.split_at(number) else { unreachable!("two are left") };
        holder.does(|| lock.lock(Way::Write));
        let mut results: Vec<_> = waiting
            .iter()
            .enumerate()
            .map(|(place, waiter)| {
                let way = if writes(place) { Way::Write } else { Way::Read };
                waits(waiter, &lock, way, if place == leaver { &token } else { &never })
            })
            .collect();
        assert!(lock.is_contended());
        canceller.does(|| token.cancel());
        assert_eq!(results.remove(leaver).expect("cancelled"), Err(GaveUp::Cancelled));
        assert_eq!(lock.is_contended(), number > 1, "{}", L::NAME);
        assert!(!canceller.does(|| lock.try_lock(Way::Read) || lock.try_lock(Way::Write)));
        assert!(waiting.iter().enumerate().all(|(place, waiter)| waiter.waits() == (place != leaver)));
        holder.does(|| release(&lock, Way::Write));
        scene.finish();
        assert!(results.into_iter().all(|result| result.expect("served") == Ok(())));
    });
    assert!(lock.at_rest(), "{}: {lock:?}", L::NAME);
}

/// Makes `first`, the first waiter of a held lock, ask for handoff if the policy has it: its time
/// has come, and it looks.
fn asks(scene: &Scene, first: &Actor<'_>) {
    scene.advance(5 * MS);
    for _ in 0..3 {
        first.wakes_spuriously();
        scene.advance(MS);
    }
}

/// B2, R1: a reader in the middle of a release's grant, or of its own coming and going. `true`:
/// somewhere a writer got in beside a reader.
fn a_granted_reader_leaves_early<L: RwSem>() -> bool {
    let mut together = false;
    every_stop(|stop| {
        let lock = L::default();
        let mut stopped = false;
        let inside = Steps::<Scripted>::default();
        let leave = Steps::<Scripted>::default();
        Scene::play(|scene, [granter, early, late, writer]| {
            granter.does(|| lock.lock(Way::Write));
            early.starts(|| cycle(&lock, Way::Read));
            late.starts(|| {
                lock.lock(Way::Read);
                inside.advance();
                leave.wait_for(1);
                inside.retreat();
                release(&lock, Way::Read);
            });
            granter.starts_until(stop, || release(&lock, Way::Write));
            stopped = granter.is_stopped();
            // The early one may be in and out by now, the late one may be inside.
            let wrote = writer.does(|| lock.try_lock(Way::Write));
            together |= wrote && inside.count() > 0;
            granter.resumes();
            together |= wrote && inside.count() > 0;
            leave.advance();
            if wrote {
                writer.starts(|| release(&lock, Way::Write));
            }
            scene.finish();
        });
        stopped && !together
    });
    together
}

/// A writer waits while two readers hold the lock by turns, overlapping. How many entries of
/// readers it had to see, with 1 ms between them.
fn overlapping_readers<L: RwSem>() -> Option<u32> {
    let lock = L::default();
    let mut served = None;
    Scene::play(|scene, [one, other, writer]| {
        one.does(|| lock.lock(Way::Read));
        let got = writer.starts(|| cycle(&lock, Way::Write));
        let (mut inside, mut outside) = (one, other);
        for entries in 0..50 {
            let entered = outside.starts(|| lock.lock(Way::Read));
            if !entered.is_done() {
                // It is made to wait: the lock becomes free for the writer.
                inside.does(|| release(&lock, Way::Read));
                scene.advance(10 * MS);
                assert!(got.is_done(), "{}: readers wait and the writer does not get the lock", L::NAME);
                served = Some(entries);
                break;
            }
            inside.does(|| release(&lock, Way::Read));
            (inside, outside) = (outside, inside);
            scene.advance(MS);
        }
        let holder = if served.is_some() { outside } else { inside };
        holder.does(|| release(&lock, Way::Read));
        scene.finish();
    });
    served
}

scripts! {
    fn b0_an_abandoned_wait_leaves_no_mark() {
        every_policy!(L => { abandoned_alone::<L>() });
    }

    /// B17: "queue now empty" was inverted. One, two and three waiters of every kind, the leaver in
    /// every place.
    fn b17_abort_with_1_2_3_waiters() {
        every_policy!(L => {
            for number in 1..=3 {
                for leaver in 0..number {
                    for kinds in 0..1u32 << number {
                        abandoned_among::<L>(number, leaver, |place| kinds >> place & 1 == 1);
                    }
                }
            }
        });
    }

    /// B2: a granted reader released the lock before it had been counted, and a writer came in
    /// beside the next reader.
    fn b2_a_granted_reader_is_counted_before_it_is_told() {
        every_policy!(L => {
            assert!(!a_granted_reader_leaves_early::<L>(), "{}: a writer beside a reader", L::NAME);
        });
    }

    /// B8: a stream of overlapping readers kept a writer out.
    fn b8_overlapping_readers_do_not_starve_a_writer() {
        assert!(overlapping_readers::<RawRwSem<Scripted>>().is_some_and(|entries| entries <= 2));
        assert!(overlapping_readers::<KernelRwSem<Scripted, TodayKernel>>().is_some_and(|entries| entries <= 8));
        assert!(overlapping_readers::<KernelRwSem<Scripted, StarvationGuard>>().is_some_and(|entries| entries <= 8));
    }

    /// B9: a request for handoff outlived the queue.
    fn b9_no_request_outlives_the_queue() {
        every_policy!(L => {
            for (holding, waiting) in [(Way::Read, Way::Write), (Way::Write, Way::Write), (Way::Write, Way::Read)] {
                let lock = L::default();
                let token = CancelToken::default();
                Scene::play(|scene, [holder, waiter, passer]| {
                    holder.does(|| lock.lock(holding));
                    let held = lock.state();
                    let result = waits(waiter, &lock, waiting, &token);
                    asks(scene, waiter);
                    passer.does(|| token.cancel());
                    assert!(result.expect("cancelled").is_err());
                    assert_eq!(lock.state(), held, "{}: a mark was left", L::NAME);
                    assert_eq!(passer.does(|| lock.try_lock(Way::Read)), holding == Way::Read, "{}", L::NAME);
                    if holding == Way::Read {
                        passer.does(|| release(&lock, Way::Read));
                    }
                    holder.does(|| release(&lock, holding));
                });
                assert!(lock.at_rest(), "{}", L::NAME);
            }
        });
    }

    /// B10: an interrupted first waiter left readers behind it asleep, though readers held the
    /// lock.
    fn b10_an_interrupted_first_writer_lets_the_readers_behind_it_in() {
        every_policy!(L => {
            let lock = L::default();
            let token = CancelToken::default();
            Scene::play(|scene, [holder, first, reader, canceller]| {
                holder.does(|| lock.lock(Way::Read));
                let left = waits(first, &lock, Way::Write, &token);
                asks(scene, first);
                let got = reader.starts(|| cycle(&lock, Way::Read));
                canceller.does(|| token.cancel());
                scene.advance(MS);
                assert_eq!(left.expect("cancelled"), Err(GaveUp::Cancelled));
                assert!(got.is_done(), "{}: readers hold the lock, yet a reader waits for nobody", L::NAME);
                holder.does(|| release(&lock, Way::Read));
            });
            assert!(lock.at_rest(), "{}", L::NAME);
        });
    }

    /// B10, the other half: the wake-up went to one that left.
    fn b10_a_wakeup_is_not_lost_with_its_receiver() {
        every_policy!(L => {
            for behind in [Way::Write, Way::Read] {
                let lock = L::default();
                let token = CancelToken::default();
                Scene::play(|scene, [holder, first, second, canceller]| {
                    holder.does(|| lock.lock(Way::Write));
                    waits(first, &lock, Way::Write, &token);
                    let got = second.starts(|| cycle(&lock, behind));
                    first.freeze();
                    holder.does(|| release(&lock, Way::Write));
                    canceller.does(|| token.cancel());
                    first.thaw();
                    scene.finish();
                    got.expect("nobody is before it");
                });
                assert!(lock.at_rest(), "{}", L::NAME);
            }
        });
    }

    /// B12: an interrupted writer left its request behind; the others respected it and nobody took
    /// the free lock.
    fn b12_a_request_left_behind_does_not_close_the_lock() {
        every_policy!(L => {
            for (second_way, third_way) in
                [(Way::Write, Way::Write), (Way::Write, Way::Read), (Way::Read, Way::Write), (Way::Read, Way::Read)]
            {
                let lock = L::default();
                let token = CancelToken::default();
                Scene::play(|scene, [holder, first, second, third, canceller]| {
                    holder.does(|| lock.lock(Way::Write));
                    let left = waits(first, &lock, Way::Write, &token);
                    let got = second.starts(|| cycle(&lock, second_way));
                    asks(scene, first);
                    canceller.does(|| token.cancel());
                    assert!(left.expect("cancelled").is_err());
                    let last = third.starts(|| cycle(&lock, third_way));
                    holder.does(|| release(&lock, Way::Write));
                    scene.finish();
                    got.expect("the lock is free");
                    last.expect("the lock is free");
                });
                assert!(lock.at_rest(), "{}", L::NAME);
            }
        });
    }

    /// B13: a real-time waiter that was not first got the handoff, and spun for it while the first
    /// could not run.
    fn b13_only_the_first_waiter_gets_the_handoff() {
        every_policy!(L => {
            let lock = L::default();
            let order = Steps::<Scripted>::default();
            Scene::play(|scene, [holder, first, realtime]| {
                realtime.is_realtime(true);
                holder.does(|| lock.lock(Way::Write));
                let one = first.starts(|| { lock.lock(Way::Write); let place = order.advance(); release(&lock, Way::Write); place });
                let two = realtime.starts(|| { lock.lock(Way::Write); let place = order.advance(); release(&lock, Way::Write); place });
                for _ in 0..3 {
                    realtime.wakes_spuriously();
                }
                assert!(realtime.waits() && first.waits());
                holder.does(|| release(&lock, Way::Write));
                scene.finish();
                assert_eq!((one.expect("served"), two.expect("served")), (1, 2), "{}", L::NAME);
            });
            assert!(lock.at_rest(), "{}", L::NAME);
        });
    }
}
