//! Records, parking tokens, nested waits.

// Two threads of the system.
#![allow(clippy::disallowed_methods)]

use super::*;
use crate::platform::linux::Linux;

#[test]
fn names_have_their_documented_ranges() {
    assert_eq!((ThreadId::MAX_INDEX, ThreadId::ANONYMOUS.raw(), ThreadId::BITS), (0xfffe, 0xffff, 16));
    let last = ThreadId::from_raw(ThreadId::MAX_INDEX).unwrap();
    assert!(!last.is_anonymous() && ThreadId::ANONYMOUS.is_anonymous() && ThreadId::from_raw(0).is_none());
    // Beside a thread's names of 16 bits there is room for three marks.
    let names = [(1, 0), (1, 3), (0x3fff, 2)].map(|(id, level)| NodeName::new(ThreadId::from_raw(id).unwrap(), level));
    assert_eq!(names.map(|name| (name.raw(), name.level())), [(4, 0), (7, 3), (0xfffe, 2)]);
    assert!(NodeName::from_raw(0).is_none() && NodeName::from_raw(3).unwrap().thread::<Linux>().is_none());
}

#[test]
fn checkers_are_shown_all_words_that_others_write() {
    let record = Thread::<Linux>::new();
    let shown: std::vec::Vec<_> = record.links().map(core::ptr::from_ref).collect();
    let all =
        record.nodes.iter().map(|node| &node.next).chain(record.mcs.iter().flat_map(|node| [&node.next, &node.wait]));
    assert!(shown.into_iter().eq(all.map(core::ptr::from_ref)));
    assert!(
        record.grants().map(core::ptr::from_ref).eq(record.nodes.iter().map(|node| core::ptr::from_ref(&node.wait)))
    );
}

#[test]
fn a_wake_up_can_be_forgotten() {
    let me = Linux::current().unwrap();
    me.unpark();
    assert!(me.is_notified());
    me.forget_wake_up();
    assert!(!me.is_notified());
}

#[test]
fn a_nested_wait_gives_back_what_it_may_have_taken() {
    let me = Linux::current().unwrap();
    let nested = |parks: bool| {
        while_waiting::<Linux, _>(|place| {
            assert!(place.is_some_and(|(record, _)| record.is_same(me)));
            if parks {
                me.unpark();
                me.park(None);
            }
            place.unwrap().1
        })
    };
    // Alone it has taken nobody's.
    assert_eq!((nested(true), me.is_notified()), (0, false));
    // Inside another wait for a spinlock, and inside one for a sleeping lock.
    let outer = || while_waiting::<Linux, _>(|_| (nested(false), me.is_notified(), nested(true), me.is_notified()));
    assert_eq!(outer(), (1, false, 1, true));
    me.park(None);
    me.waiter.enter();
    assert!(!me.is_idle());
    assert_eq!((nested(false), me.is_notified(), nested(true), me.is_notified()), (0, false, 0, true));
    me.waiter.leave();
    me.park(None);
    assert!(me.is_idle() && me.is_unused());
    // Deeper than there are nodes nobody queues.
    let depth = while_waiting::<Linux, _>(|_| {
        while_waiting::<Linux, _>(|_| {
            while_waiting::<Linux, _>(|_| {
                while_waiting::<Linux, _>(|place| {
                    assert!(!me.is_idle());
                    while_waiting::<Linux, _>(|deeper| (place.map(|(_, level)| level), deeper.is_none()))
                })
            })
        })
    });
    assert_eq!((depth, me.is_idle()), ((Some(3), true), true));
}

/// All four nodes are in use: a thread that comes to a spinlock as well does not queue, but tries
/// until it is free.
#[test]
#[cfg(feature = "events")]
fn without_a_node_nobody_queues() {
    use crate::event::Snapshot;
    use crate::spin::qspinlock::RawQSpinLock;

    let lock = RawQSpinLock::<Linux>::new();
    let naps = || Snapshot::now().get(Event::LockNoNode);
    let before = naps();
    lock.acquire();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            fn deeper(levels: usize, then: &dyn Fn()) {
                if levels == 0 { then() } else { while_waiting::<Linux, _>(|_| deeper(levels - 1, then)) }
            }
            deeper(NESTING, &|| lock.acquire());
            // SAFETY: acquired above.
            unsafe { lock.release() };
        });
        while naps() == before && !lock.is_contended() {
            std::thread::yield_now();
        }
        let queued = lock.is_contended();
        // SAFETY: acquired above.
        unsafe { lock.release() };
        assert!(!queued);
    });
}
