//! The operations in every state, and at the ends of the count.

use super::*;
use crate::platform::linux::Linux;
use crate::spin::mcs::RawMcsLock;
use crate::spin::ticket::RawTicketLock;
use crate::spin::ttas::RawTtasLock;

/// Every row of the table of operations.
fn table<K: WordLock<Linux>>() {
    let object = LockRef::<Linux, K>::default();
    assert!(!object.get_not_zero() && object.put_return().is_none());
    assert!(object.get_not_dead() && object.get_not_zero());
    object.get();
    assert_eq!(object.count(), 3);
    assert!(object.put_or_lock().is_none());
    if Linux::PAIRS {
        assert_eq!(object.put_return(), Some(1));
    } else {
        assert_eq!(object.lock().put(), 1);
    }
    let last = object.put_or_lock().expect("the last is given up under the lock");
    assert!(object.is_locked() && object.try_lock().is_none());
    assert!(object.put_return().is_none(), "the lock is in the way");
    assert_eq!((last.count(), last.put(), last.count()), (1, 0, 0));
    last.mark_dead();
    drop(last);
    assert!(!object.is_locked());
    assert!(!object.get_not_dead() && !object.get_not_zero() && object.put_return().is_none());
    assert!(object.put_or_lock().is_some_and(|guard| guard.count() < 0));
}

/// With `count` references, whatever that says.
fn counting<K: WordLock<Linux>>(count: i32) -> LockRef<Linux, K> {
    let object = LockRef::default();
    object.lock().set(count);
    object
}

/// Every operation on a dead object, so often that a count which moved would be alive at last.
fn dead_stays_dead<K: WordLock<Linux>>() {
    let object = LockRef::<Linux, K>::with_count(200);
    object.lock().mark_dead();
    for _ in 0..2 * DEAD.unsigned_abs() {
        object.get();
        object.lock().get();
        assert!(!object.get_not_dead() && !object.get_not_zero());
        assert_eq!((object.put_return(), object.lock().put()), (None, 0));
        assert!(object.put_or_lock().is_some());
        assert_eq!(object.count(), DEAD);
    }
    object.lock().mark_dead();
    assert_eq!(object.count(), DEAD);
}

/// Every operation at the end of the count, and one before it.
fn ends_of_the_count<K: WordLock<Linux>>() {
    let object = counting::<K>(i32::MAX - 1);
    assert!(object.get_not_dead());
    assert!(!object.get_not_dead() && !object.get_not_zero(), "there is no number for it");
    assert_eq!((object.count(), object.lock().put()), (i32::MAX, i32::MAX.unsigned_abs() - 1));
    assert!(object.get_not_zero() && !object.get_not_zero());
    assert!(object.put_or_lock().is_none());
    assert_eq!(object.count(), i32::MAX - 1, "so far all are counted");
    for too_many in [|object: &LockRef<Linux, K>| object.get(), |object: &LockRef<Linux, K>| object.lock().get()] {
        let object = counting::<K>(i32::MAX);
        for _ in 0..3 {
            too_many(&object);
            assert_eq!((object.count(), object.lock().count()), (i32::MAX, i32::MAX));
            assert!(!object.get_not_dead() && !object.get_not_zero() && object.put_or_lock().is_none());
            let left = object.put_return();
            assert_eq!((left.is_some(), left.unwrap_or(1)), (Linux::PAIRS, if Linux::PAIRS { 0x7fff_ffff } else { 1 }));
            assert_eq!(object.lock().put(), 0x7fff_ffff, "never the last");
        }
        object.lock().mark_dead();
        assert_eq!(object.count(), DEAD);
    }
}

/// A case, for every kind of lock.
macro_rules! every_kind {
    ($($(#[$doc:meta])* $name:ident: $case:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $case::<RawQSpinLock<Linux>>();
            $case::<RawMcsLock<Linux>>();
            $case::<RawTicketLock<Linux>>();
            $case::<RawTtasLock<Linux>>();
        }
    )*};
}

every_kind! {
    every_operation_in_every_state_for_every_kind: table;
    a_dead_object_stays_dead_whatever_is_called: dead_stays_dead;
    more_references_than_can_be_counted_never_give_an_object_up: ends_of_the_count;
}

#[test]
fn the_lock_half_is_copied_whatever_it_says_when_unlocked() {
    // A ticket lock that has been used is unlocked with other values than zero.
    let object = LockRef::<Linux, RawTicketLock<Linux>>::new();
    (0..3).for_each(|_| drop(object.lock()));
    assert!(object.get_not_dead());
    // Without pairs the reference takes the lock once more.
    assert_eq!(object.pair.low.load(Relaxed), if Linux::PAIRS { 0x0003_0003 } else { 0x0004_0004 });
    assert!(!object.is_locked());
}
