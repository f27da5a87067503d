//! When waiters of a queued spinlock sleep, until when, and who wakes them.

use lockyard::event::Event;
use lockyard::spin::cna::Cna;
use lockyard::spin::hq::Hq;
use lockyard::spin::qspinlock::{Plain, RawQSpinLock};
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};
use lockyard::wait::turn::{TURN_NS, TURNS_NS};
use lockyard_check::scripted::{Actor, Scene, Scripted};

use super::scripts;
use super::word::{LOCKED, PENDING, state};

type Lock = RawQSpinLock<Scripted>;

/// How long a head sleeps that cannot rely on being woken.
const BLIND_NS: u64 = 1_000_000;

fn release(lock: &Lock) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { lock.release() };
}

/// A head that is woken and finds the lock taken again dozes to the end of its turn. Then it is
/// passed for one more sleep, and never after that.
fn passed_once_more<K: Kind<Scripted>>() {
    let lock = RawQueuedSpinLock::<Scripted, K>::default();
    // SAFETY: told to who holds the lock.
    let release = || unsafe { lock.release() };
    // The word without its tail: the type stays in it, whoever is pending.
    let says = |state: u32| assert_eq!(lock.raw() & 0xffff, u32::from(K::REST) | state);
    Scene::play(|scene, [holder, head, passer]| {
        holder.does(|| lock.acquire());
        let got = head.starts(|| lock.acquire());
        // The one hands the lock to the other while the head is slow to wake up.
        let pass = |from: &dyn Fn()| {
            head.freeze();
            from();
            passer.does(|| lock.acquire());
            head.thaw();
        };
        pass(&|| holder.does(release));
        assert_eq!(scene.events(Event::PvWaitHead), 2);
        says(LOCKED);
        // Nobody is asked to wake it.
        passer.does(release);
        passer.does(|| lock.acquire());
        assert_eq!((scene.events(Event::PvKickUnlock), head.sleeps_for_ever()), (1, false));
        scene.advance(TURN_NS - 1);
        assert_eq!(scene.events(Event::PvWaitHead), 2);
        scene.advance(1);
        assert_eq!((scene.events(Event::PvWaitHead), head.sleeps_for_ever()), (3, true));
        says(LOCKED);
        pass(&|| passer.does(release));
        assert_eq!((scene.events(Event::PvWaitAgain), head.sleeps_for_ever()), (1, true));
        says(LOCKED | PENDING);
        scene.advance(1_000_000_000);
        head.freeze();
        passer.does(release);
        let last = passer.starts(|| lock.acquire());
        assert!(!last.is_done());
        head.thaw();
        got.expect("nobody else may have it");
        says(LOCKED);
        head.does(release);
        scene.finish();
        last.expect("the next");
        passer.does(release);
    });
    assert_eq!(lock.raw(), u32::from(K::REST));
}

scripts! {
    /// Each waiter has a turn after the one before it. A waiter late in the queue looks again a
    /// turn later, or after half as long as it has waited; the head sleeps until it is woken.
    fn turns_end_one_after_the_other() {
        let lock = Lock::default();
        Scene::play(|scene, [holder, first, second, third]| {
            holder.does(|| lock.acquire());
            let begin = scene.now();
            let waiters = [first, second, third].map(|actor| actor.starts(|| lock.acquire()));
            let sleeps = || [Event::PvWaitHead, Event::PvWaitNode, Event::PvSpuriousWakeup].map(|event| scene.events(event));
            let at = |ns: u64, expected: [i64; 3]| {
                let before = sleeps();
                scene.advance(begin + ns - 1 - scene.now());
                assert_eq!(sleeps(), before, "before {ns}");
                scene.advance(1);
                assert_eq!(sleeps(), expected, "at {ns}");
            };
            assert_eq!((sleeps(), first.sleeps_for_ever()), ([1, 2, 0], false));
            at(TURN_NS, [2, 2, 0]);
            assert_eq!((state(&lock), first.sleeps_for_ever()), (LOCKED, true));
            at(2 * TURN_NS, [2, 2, 1]);
            at(3 * TURN_NS, [2, 2, 3]);
            at(4 * TURN_NS + TURN_NS / 2, [2, 2, 5]);
            at(6 * TURN_NS + TURN_NS / 4 * 3, [2, 2, 7]);
            assert!(waiters.iter().all(|got| !got.is_done()));
            holder.does(|| release(&lock));
            for (actor, got) in [first, second, third].into_iter().zip(waiters) {
                while !got.is_done() {
                    scene.advance(TURN_NS);
                }
                actor.does(|| release(&lock));
            }
        });
        assert_eq!(lock.raw(), 0);
    }

    /// In the plain queue.
    fn a_head_is_passed_until_its_turn_ends_and_once_more() {
        passed_once_more::<Plain>();
    }

    /// In locks that queue by node.
    fn a_head_among_nodes_is_passed_until_its_turn_ends_and_once_more() {
        passed_once_more::<Cna>();
        passed_once_more::<Hq>();
    }

    /// A head that was not passed wakes the next by its own unlock. Nothing is left over for the
    /// next time.
    fn who_was_not_passed_wakes_the_next() {
        let lock = Lock::default();
        Scene::play(|scene, [holder, first, second]| {
            let begin = scene.now();
            for _ in 0..3 {
                holder.does(|| lock.acquire());
                let one = first.starts(|| lock.acquire());
                let other = second.starts(|| lock.acquire());
                holder.does(|| release(&lock));
                assert!(one.is_done() && !other.is_done());
                first.does(|| release(&lock));
                assert!(other.is_done());
                second.does(|| release(&lock));
            }
            assert_eq!(scene.now(), begin);
        });
        assert_eq!(lock.raw(), 0);
    }

    /// A waiter that is very late looks again after a second at the latest, and those who queue
    /// behind it a turn later: they do not wait for each other's timers.
    fn nobody_waits_for_a_timer_that_is_far_away() {
        let lock = Lock::default();
        Scene::play(|scene, [holder, first, second, third, fourth]| {
            holder.does(|| lock.acquire());
            let waiters = [first, second].map(|actor| actor.starts(|| lock.acquire()));
            let looks = || scene.events(Event::PvSpuriousWakeup);
            let begin = scene.now();
            let mut seen = looks();
            while scene.now() < begin + 4 * TURNS_NS || looks() == seen {
                seen = looks();
                scene.advance(TURNS_NS / 10);
            }
            let (seen, last) = (looks(), [third, fourth].map(|actor| actor.starts(|| lock.acquire())));
            for (ns, looked) in [(TURNS_NS, 1), (TURN_NS, 3)] {
                let before = looks();
                scene.advance(ns - 1);
                assert_eq!(looks(), before);
                scene.advance(1);
                assert_eq!(looks(), seen + looked);
            }
            holder.does(|| release(&lock));
            for (actor, got) in [first, second, third, fourth].into_iter().zip(waiters.iter().chain(&last)) {
                for _ in 0..100 {
                    if !got.is_done() {
                        scene.advance(TURNS_NS / 10);
                    }
                }
                assert!(got.is_done());
                actor.does(|| release(&lock));
            }
        });
        assert_eq!(lock.raw(), 0);
    }

    /// Its process was stopped for a day, or its clock jumped: that it has waited so long is no
    /// reason to sleep for half a day.
    fn a_waiter_that_is_a_day_late_looks_every_second() {
        const DAY_NS: u64 = 86_400_000_000_000;
        let lock = Lock::default();
        Scene::play(|scene, [holder, first, second]| {
            holder.does(|| lock.acquire());
            let waiters = [first, second].map(|actor| actor.starts(|| lock.acquire()));
            let looks = || scene.events(Event::PvSpuriousWakeup);
            scene.advance(DAY_NS);
            for _ in 0..3 {
                let seen = looks();
                scene.advance(TURNS_NS - 1);
                assert_eq!(looks(), seen);
                scene.advance(1);
                assert_eq!(looks(), seen + 1);
            }
            holder.does(|| release(&lock));
            for (actor, got) in [first, second].into_iter().zip(&waiters) {
                scene.advance(TURNS_NS);
                assert!(got.is_done());
                actor.does(|| release(&lock));
            }
        });
        assert_eq!(lock.raw(), 0);
    }

    /// One that was passed leaves the next to its timer, unless that is set for more than two turns
    /// from now.
    fn who_was_passed_leaves_the_next_to_its_timer() {
        // It has looked last after six turns and three quarters, and is late by then: the next time
        // is three and three eighths later.
        let timer = 10 * TURN_NS + TURN_NS / 8;
        for (at, woken, timer) in
            [(TURN_NS, false, 2 * TURN_NS), (timer - 2 * TURN_NS, false, timer), (timer - 2 * TURN_NS - 1, true, timer)]
        {
            let lock = Lock::default();
            Scene::play(|scene, [holder, first, second]| {
                holder.does(|| lock.acquire());
                let begin = scene.now();
                let one = first.starts(|| lock.acquire());
                let other = second.starts(|| lock.acquire());
                // In steps, so that nobody wakes up later than its timer says.
                while scene.now() < begin + at {
                    scene.advance((begin + at - scene.now()).min(TURN_NS / 8));
                }
                holder.does(|| release(&lock));
                assert!(one.is_done() && !other.is_done());
                first.does(|| release(&lock));
                assert_eq!(other.is_done(), woken, "after {at}");
                if !woken {
                    scene.advance(begin + timer - 1 - scene.now());
                    assert!(!other.is_done());
                    scene.advance(1);
                    assert!(other.is_done());
                }
                second.does(|| release(&lock));
            });
            assert_eq!(lock.raw(), 0);
        }
    }

    /// A waiter that becomes head sooner than expected has one turn from then.
    fn a_quick_queue_makes_turns_begin_earlier() {
        let lock = Lock::default();
        Scene::play(|scene, [holder, first, second, third]| {
            holder.does(|| lock.acquire());
            let waiters = [first, second, third].map(|actor| actor.starts(|| lock.acquire()));
            holder.does(|| release(&lock));
            first.does(|| release(&lock));
            assert!(waiters[1].is_done() && !waiters[2].is_done());
            third.wakes_spuriously();
            assert_eq!(scene.events(Event::PvWaitHead), 2);
            assert!(!third.sleeps_for_ever());
            scene.advance(TURN_NS - 1);
            assert!(!third.sleeps_for_ever());
            scene.advance(1);
            assert!(third.sleeps_for_ever());
            second.does(|| release(&lock));
            assert!(waiters[2].is_done());
            third.does(|| release(&lock));
        });
        assert_eq!(lock.raw(), 0);
    }

    /// A waiter whose turn is over at the moment it becomes head does not sleep before it has been
    /// pending.
    fn a_turn_that_is_over_is_pending_at_once() {
        let lock = Lock::default();
        Scene::play(|scene, [holder, first, second]| {
            holder.does(|| lock.acquire());
            let one = first.starts(|| lock.acquire());
            let other = second.starts(|| lock.acquire());
            second.freeze();
            scene.advance(2 * TURN_NS);
            holder.does(|| release(&lock));
            one.expect("woken");
            let before = scene.events(Event::PvWaitHead);
            second.thaw();
            assert_eq!((scene.events(Event::PvWaitHead), second.sleeps_for_ever()), (before + 1, true));
            first.does(|| release(&lock));
            other.expect("woken");
            second.does(|| release(&lock));
        });
        assert_eq!(lock.raw(), 0);
    }

    /// Seven heads may sleep on locks that share a line of the table. The eighth looks for itself,
    /// and never leaves pending set while it sleeps.
    fn a_head_without_an_entry_looks_for_itself() {
        // Four locks in sixteen bytes have one line, and so have those a kilobyte on.
        #[repr(align(1024))]
        struct Aligned([Lock; 260]);
        let locks = Aligned(std::array::from_fn(|_| Lock::default()));
        let locks: Vec<&Lock> = locks.0[..4].iter().chain(&locks.0[256..]).collect();
        Scene::play_with(17, |scene, actors| {
            let (passer, actors) = actors.split_last().unwrap();
            let (holders, heads) = actors.split_at(8);
            for (holder, lock) in holders.iter().zip(&locks) {
                holder.does(|| lock.acquire());
            }
            let waits: Vec<_> = heads.iter().zip(&locks).map(|(head, lock)| head.starts(|| lock.acquire())).collect();
            let (last, lock) = (&heads[7], locks[7]);
            let sleeps = || scene.events(Event::PvWaitHead);
            assert_eq!(sleeps(), 8);
            // One has looked at one entry, the next at two, and so on.
            assert_eq!(scene.events(Event::PvHashHops), 28);
            scene.advance(TURN_NS - 1);
            assert_eq!(sleeps(), 8);
            // One after the other, the eighth first: it would find the entry of one that is awake.
            heads.iter().for_each(Actor::freeze);
            scene.advance(1);
            heads.iter().rev().for_each(Actor::thaw);
            assert_eq!(sleeps(), 16);
            assert!(heads[..7].iter().all(Actor::sleeps_for_ever) && !last.sleeps_for_ever());
            // Now the eighth only wakes up by itself: and shut out is nobody while it sleeps.
            for round in 1..4 {
                scene.advance(BLIND_NS - 1);
                assert_eq!(sleeps(), 15 + round);
                scene.advance(1);
                assert_eq!((sleeps(), state(lock)), (16 + round, LOCKED));
            }
            holders[7].does(|| release(lock));
            assert!(!waits[7].is_done());
            passer.does(|| lock.acquire());
            passer.does(|| release(lock));
            scene.advance(BLIND_NS);
            assert!(waits[7].is_done());
            last.does(|| release(lock));
            for ((holder, head), (lock, got)) in holders.iter().zip(heads).zip(locks.iter().zip(&waits)).take(7) {
                holder.does(|| release(lock));
                assert!(got.is_done());
                head.does(|| release(lock));
            }
        });
        assert!(locks.iter().all(|lock| lock.raw() == 0));
    }
}
