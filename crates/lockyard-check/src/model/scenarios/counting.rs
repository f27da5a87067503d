//! Scenarios of what is more than a lock: units of a semaphore, references beside a lock.

use super::super::machine::execute;
use super::super::weak::{Loom, Weak};
use super::exclusive::Of;
use super::{Protected, Scenario, barred};
use crate::lock::{Count, Last, References, Way, Weigh};

/// A semaphore and what its units stand for.
#[derive(Debug)]
struct Store<C> {
    semaphore: C,
    goods: [Protected; 2],
}

/// Two threads take a unit each, a third returns two: each unit is what was done before one of the
/// ups.
pub(super) fn units<C: Count<P = Loom> + 'static>(of: &Of<'_>) -> Scenario {
    of.scenario("units", 3, barred(of.machine, 3), |machine| {
        execute::<Weak, _>(
            machine,
            3,
            || Store { semaphore: C::with_units(0), goods: Default::default() },
            |store, me| {
                if me < 2 {
                    store.semaphore.down();
                    // The first up was before either unit.
                    store.goods[0].section(Way::Read);
                } else {
                    store.goods[0].section(Way::Write);
                    assert!(store.semaphore.up());
                    store.goods[1].section(Way::Write);
                    assert!(store.semaphore.up());
                }
            },
            |store| assert_eq!(store.semaphore.units(), 0),
        );
    })
}

/// A thread takes two units in one step, two others return one each: it sees what both have done.
pub(super) fn bundle<C: Weigh<P = Loom> + 'static>(of: &Of<'_>) -> Scenario {
    of.scenario("bundle", 3, barred(of.machine, 3), |machine| {
        execute::<Weak, _>(
            machine,
            3,
            || Store { semaphore: C::with_units(0), goods: Default::default() },
            |store, me| match me.checked_sub(1) {
                None => {
                    store.semaphore.down_many(2);
                    store.goods.iter().for_each(|goods| goods.section(Way::Read));
                }
                Some(other) => {
                    store.goods[other].section(Way::Write);
                    assert!(store.semaphore.up_many(1));
                }
            },
            |store| assert_eq!(store.semaphore.units(), 0),
        );
    })
}

/// An object with references.
#[derive(Debug, Default)]
struct Object<R> {
    references: R,
    data: Protected,
}

/// Each thread has a reference, uses the object and gives the reference up; the thread that has the
/// last takes the object apart.
pub(super) fn last_reference<R: References<P = Loom> + 'static>(of: &Of<'_>, threads: usize) -> Scenario {
    of.scenario(&format!("last-of-{threads}"), threads, barred(of.machine, threads), move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            || {
                let object = Object::<R>::default();
                (0..threads).for_each(|_| assert!(object.references.get_not_dead()));
                object
            },
            |object, _| {
                object.data.section(Way::Read);
                object.references.put_or(|_| {
                    object.data.section(Way::Write);
                    Last::Put
                });
            },
            |object| {
                assert_eq!(object.data.turns(), 1, "so many had the last reference");
                assert!(object.references.at_rest());
            },
        );
    })
}
