//! The word of a queued spinlock.

use lockyard::platform::Platform;
use lockyard::spin::cna::Cna;
use lockyard::spin::hq::Hq;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::Plain;
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::scripted::{Scene, Scripted};

use super::scripts;

pub(crate) const LOCKED: u32 = 1;
pub(crate) const PENDING: u32 = 1 << 8;
pub(crate) const ASLEEP: u32 = 1 << 10;
pub(crate) const URGENT: u32 = 1 << 11;

/// The word without tail and type.
pub(crate) fn state<P: Platform, K: Kind<P>>(lock: &RawQueuedSpinLock<P, K>) -> u32 {
    lock.raw() & 0xffff & !u32::from(K::REST)
}

/// Held or not, waited for or not: what a lock says, and whether it lets somebody in who tries. A
/// lock that was made, and memory that nobody has initialised.
fn questions<K: Kind<Scripted>>() {
    let made = RawQueuedSpinLock::<Scripted, K>::default();
    answers_well(&made, K::REST.into());
    answers_well(&RawQueuedSpinLock::<Scripted, K>::zeroed(), 0);
}

/// As long as nobody has taken it its word is `new`.
fn answers_well<K: Kind<Scripted>>(lock: &RawQueuedSpinLock<Scripted, K>, new: u32) {
    let rest = u32::from(K::REST);
    let answers = || (lock.is_locked(), lock.is_contended());
    // SAFETY: each is told to a thread that holds the lock.
    let release = || unsafe { lock.release() };
    Scene::play(|scene, [holder, waiter, other]| {
        assert_eq!((answers(), lock.raw()), ((false, false), new));
        assert!(holder.does(|| lock.try_acquire()));
        assert_eq!((answers(), lock.raw()), ((true, false), rest | LOCKED));
        assert!(!holder.does(|| lock.try_acquire()));
        let got = waiter.starts(|| lock.acquire());
        assert_eq!((answers(), state(lock)), ((true, true), LOCKED));
        waiter.freeze();
        holder.does(release);
        // Free, but not for one that only tries: somebody waits. A thread that really wants it may
        // pass a waiter whose turn is not over.
        assert_eq!((answers(), state(lock)), ((true, true), 0));
        assert!(!other.does(|| lock.try_acquire()));
        other.does(|| lock.acquire());
        assert_eq!((answers(), state(lock)), ((true, true), LOCKED));
        other.does(release);
        waiter.thaw();
        scene.settle();
        got.expect("woken, and the lock is free");
        assert_eq!((answers(), lock.raw()), ((true, false), rest | LOCKED));
        waiter.does(release);
        assert_eq!((answers(), lock.raw()), ((false, false), rest));
        assert!(other.does(|| lock.try_acquire()));
        assert_eq!(lock.raw(), rest | LOCKED);
        other.does(release);
    });
}

scripts! {
    /// In the plain queue.
    fn a_lock_says_whether_it_is_held_and_waited_for() {
        questions::<Plain>();
    }

    /// The same with those who may be moved aside.
    fn a_cna_lock_says_whether_it_is_held_and_waited_for() {
        questions::<Cna>();
    }

    /// The same beside the type bit.
    fn a_hierarchical_lock_says_whether_it_is_held_and_waited_for() {
        questions::<Hq>();
    }

    /// The queue lock of the books: nobody passes, so the waiter has it from the moment it is
    /// released.
    fn an_mcs_lock_says_whether_it_is_held_and_waited_for() {
        let lock = RawMcsLock::<Scripted>::default();
        let answers = || (lock.is_locked(), lock.is_contended());
        // SAFETY: each is told to a thread that holds the lock.
        let release = || unsafe { lock.release() };
        Scene::play(|_, [holder, waiter, last]| {
            assert_eq!(answers(), (false, false));
            assert!(holder.does(|| lock.try_acquire()));
            assert_eq!(answers(), (true, false));
            assert!(!waiter.does(|| lock.try_acquire()));
            let got = waiter.starts(|| lock.acquire());
            assert_eq!(answers(), (true, true));
            waiter.freeze();
            holder.does(release);
            assert_eq!(answers(), (true, true));
            assert!(!holder.does(|| lock.try_acquire()));
            waiter.thaw();
            got.expect("handed over");
            assert_eq!(answers(), (true, false));
            let got = last.starts(|| lock.acquire());
            assert_eq!(answers(), (true, true));
            waiter.does(release);
            got.expect("handed over");
            last.does(release);
            assert_eq!(answers(), (false, false));
            assert!(holder.does(|| lock.try_acquire()));
            holder.does(release);
        });
    }

    /// A waiter has drawn a number, and looks ever less often while the numbers stand still: a
    /// scene with such a waiter settles.
    fn a_ticket_lock_says_whether_it_is_held_and_waited_for() {
        let lock = RawTicketLock::<Scripted>::default();
        let answers = || (lock.is_locked(), lock.is_contended());
        // SAFETY: each is told to a thread that holds the lock.
        let release = || unsafe { lock.release() };
        Scene::play(|_, [holder, waiter]| {
            // Free is not zero: the numbers go on.
            for _ in 0..3 {
                assert_eq!(answers(), (false, false));
                assert!(holder.does(|| lock.try_acquire()));
                assert_eq!(answers(), (true, false));
                let got = waiter.starts(|| lock.acquire());
                assert!(waiter.waits());
                assert_eq!(answers(), (true, true));
                holder.does(release);
                got.expect("its number is called");
                assert_eq!(answers(), (true, false));
                assert!(!holder.does(|| lock.try_acquire()));
                waiter.does(release);
            }
            assert_eq!(answers(), (false, false));
        });
    }

    /// One bit: of those who wait it knows nothing.
    fn a_ttas_lock_says_whether_it_is_held() {
        let lock = RawTtasLock::<Scripted>::default();
        // SAFETY: each is told to a thread that holds the lock.
        let release = || unsafe { lock.release() };
        Scene::play(|_, [holder, waiter]| {
            assert!(!lock.is_locked());
            assert!(holder.does(|| lock.try_acquire()));
            assert!(lock.is_locked());
            let got = waiter.starts(|| lock.acquire());
            assert!(waiter.waits());
            holder.does(release);
            got.expect("it is free");
            assert!(lock.is_locked() && !holder.does(|| lock.try_acquire()));
            waiter.does(release);
            assert!(!lock.is_locked());
        });
    }
}
