//! The theatre itself: what a script may rely on. And the suite, played in it: a second platform
//! for the same cases.

use lockyard::event::Event;
use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::qrwlock::RawQRwLock;
use lockyard::read_mostly::{Always, RawReadMostlyRwSem};
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::cases::parking::HashedMutex;
use lockyard_check::conformance;
use lockyard_check::lock::{Lock, Way};
use lockyard_check::scripted::{Scene, Scripted, every_stop};
use lockyard_check::stage::{Seats, Steps};

conformance!(spinlock: RawQSpinLock<Scripted>, [exclusive]);
conformance!(cna: RawCnaSpinLock<Scripted>, [exclusive]);
conformance!(hq_spinlock: RawHqSpinLock<Scripted>, [exclusive]);
conformance!(hq_spinlock_eager: EagerHq<Scripted>, [exclusive]);
conformance!(mcs: RawMcsLock<Scripted>, [exclusive]);
conformance!(ticket: RawTicketLock<Scripted>, [exclusive]);
conformance!(ttas: RawTtasLock<Scripted>, [exclusive]);
conformance!(mutex: RawMutex<Scripted>, [exclusive, timed]);
conformance!(rtmutex_tree: RawTreeRtMutex<Scripted>, [exclusive, timed]);
conformance!(rwsem: RawRwSem<Scripted>, [exclusive, timed, shared]);
conformance!(read_mostly: RawReadMostlyRwSem<Scripted>, [exclusive, timed, shared]);
conformance!(per_cpu: RawReadMostlyRwSem<Scripted, Always>, [exclusive, timed, shared]);
conformance!(qrwlock: RawQRwLock<Scripted>, [exclusive, timed, shared]);
conformance!(qrwlock_kernel: KernelQRwLock<Scripted, qrw::TodayKernel>, [exclusive, shared]);
conformance!(qrwlock_fetch_add: KernelQRwLock<Scripted, qrw::FetchAdd>, [exclusive, shared]);
conformance!(qrwlock_byte_cas: KernelQRwLock<Scripted, qrw::ByteCas>, [exclusive, shared]);
conformance!(qrwlock_word_cas: KernelQRwLock<Scripted, qrw::WordCas>, [exclusive, shared]);
conformance!(lockref: LockRef<Scripted>, [exclusive, references]);
conformance!(lockref_mcs: LockRef<Scripted, RawMcsLock<Scripted>>, [references]);
conformance!(lockref_ticket: LockRef<Scripted, RawTicketLock<Scripted>>, [references]);
conformance!(lockref_ttas: LockRef<Scripted, RawTtasLock<Scripted>>, [references]);
conformance!(futex_hash: HashedMutex<Scripted, RawQSpinLock<Scripted>>, [exclusive, parking]);
conformance!(futex_hash_ticket: HashedMutex<Scripted, RawTicketLock<Scripted>>, [parking]);
conformance!(semaphore: RawSemaphore<Scripted>, [counting, quick_ups]);
conformance!(semaphore_direct_handoff: KernelSemaphore<Scripted, DirectHandoff>, [counting, quick_ups]);
conformance!(binary_semaphore: Binary<RawSemaphore<Scripted>>, [exclusive, timed]);

#[test]
fn waiting_is_a_fact() {
    let mutex = RawMutex::<Scripted>::default();
    Scene::play(|scene, [holder, waiter]| {
        holder.does(|| mutex.lock(Way::Write));
        let got = waiter.starts(|| mutex.lock(Way::Write));
        assert!(waiter.waits() && !got.is_done());
        // SAFETY: locked above.
        holder.does(|| unsafe { mutex.unlock(Way::Write) });
        scene.settle();
        assert!(got.is_done());
        assert_eq!(scene.events(Event::MutexWake), 1);
        // SAFETY: the waiter has it.
        waiter.does(|| unsafe { mutex.unlock(Way::Write) });
    });
    assert!(mutex.at_rest());
}

#[test]
fn a_step_is_an_operation_on_a_word() {
    let mutex = RawMutex::<Scripted>::default();
    Scene::play(|_, [actor]| {
        // Its first lock gives it its name; later ones are one compare-exchange.
        actor.does(|| mutex.lock(Way::Write));
        // SAFETY: locked above.
        actor.does(|| unsafe { mutex.unlock(Way::Write) });
        actor.does(|| mutex.lock(Way::Write));
        assert_eq!(actor.steps(), 1);
        // SAFETY: locked above.
        actor.does(|| unsafe { mutex.unlock(Way::Write) });
        assert_eq!(actor.steps(), 1);
    });
}

#[test]
fn a_stopped_actor_has_not_made_its_step() {
    let mutex = RawMutex::<Scripted>::default();
    let stops = every_stop(|stop| {
        let mut stopped = false;
        Scene::play(|scene, [actor]| {
            actor.starts_until(stop, || mutex.lock(Way::Write));
            stopped = actor.is_stopped();
            assert_eq!(mutex.is_locked(), !stopped);
            actor.resumes();
            scene.finish();
            // SAFETY: locked above.
            actor.does(|| unsafe { mutex.unlock(Way::Write) });
        });
        stopped
    });
    assert!(stops >= 1);
}

#[test]
fn the_clock_is_the_scripts() {
    let mutex = &RawMutex::<Scripted>::default();
    Scene::play(|scene, [holder, waiter]| {
        holder.does(|| mutex.lock(Way::Write));
        let end = scene.now() + 5_000;
        let result = waiter.starts(move || mutex.acquire_until(lockyard::cancel::Until::deadline(end)));
        scene.advance(4_999);
        assert!(waiter.waits());
        scene.advance(1);
        assert_eq!(result.expect("its deadline has come"), Err(lockyard::GaveUp::TimedOut));
        // SAFETY: locked above.
        holder.does(|| unsafe { mutex.unlock(Way::Write) });
    });
}

#[test]
fn a_handler_runs_on_the_actors_own_thread() {
    let mutex = RawMutex::<Scripted>::default();
    let handled = Steps::<Scripted>::default();
    let seats = Seats::<Scripted>::new(2);
    Scene::play(|_, [actor]| {
        let handler = || {
            seats.sit(0);
            handled.advance();
        };
        let task = || {
            seats.sit(1);
            mutex.lock(Way::Write);
        };
        let done = actor.interrupted(1, handler, task);
        assert_eq!((actor.is_stopped(), handled.count()), (true, 0));
        actor.resumes();
        done.expect("nobody else is here");
        assert_eq!((handled.count(), seats.occupant(0)), (1, seats.occupant(1)));
        // SAFETY: locked above.
        actor.does(|| unsafe { mutex.unlock(Way::Write) });
    });
}
