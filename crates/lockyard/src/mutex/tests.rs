//! The word, and what it says.

use super::*;
use crate::platform::linux::Linux;

#[test]
fn the_word_says_what_its_table_says() {
    let mutex = RawMutex::<Linux>::new();
    let want = Want(&mutex);
    let says = || mutex.word.load(Relaxed);
    // To a newcomer, and to the first waiter.
    let looks = || [false, true].map(|first| want.look(first));
    assert!(!mutex.ask_owner(0) && says() == 0, "nobody holds it");
    assert_eq!((looks(), want.owner()), ([Look::Open, Look::Open], None));
    mutex.acquire();
    let holder = Linux::id();
    let me = holder.expect("a lock gives its holder a name").raw();
    assert_eq!(says(), me);
    assert_eq!((looks(), want.owner()), ([Look::Closed, Look::Closed], holder));
    // Each time for another waiter.
    for asked in [0x86_0000, 0x8a_0000] {
        assert!(mutex.ask_owner(0));
        assert_eq!(says(), me | asked);
    }
    // The first gives up; the next has its request.
    want.left(Left { served: false, gave_up: true, empty: false, listen: false, handoff: false });
    assert_eq!(says(), me | 0x8e_0000);
    // Asking to hand over twice is asking once.
    for _ in 0..2 {
        want.ask_for_first();
        assert_eq!(says(), me | 0x8f_0000);
    }
    assert_eq!((looks(), want.owner()), ([Look::Kept, Look::Closed], holder));
    // Reserved for a waiter; the request of a queue without one would be void.
    let waiter = Linux::current().unwrap();
    mutex.queue.push(waiter);
    // SAFETY: acquired above.
    unsafe { mutex.release() };
    assert_eq!(says(), 0x1_0000, "the release obeys; the mutex is kept");
    // However long this test takes.
    let since = waiter.waiter.reserved.load(Relaxed);
    assert!(since != 0 && since <= Linux::now(), "the release notes when: {since}");
    waiter.waiter.reserved.store(u64::MAX / 2, Relaxed);
    assert!(!mutex.try_acquire() && !mutex.is_locked());
    assert_eq!((looks(), want.owner()), ([Look::Kept, Look::Open], None));
    assert!(mutex.take(true, None));
    assert_eq!(says(), me | 0x1_0000);
    want.left(Left { served: true, gave_up: false, empty: false, listen: true, handoff: false });
    assert_eq!(says(), me | 0x6_0000);
    mutex.queue.remove(waiter);
    want.left(Left { served: false, gave_up: false, empty: true, listen: false, handoff: false });
    assert_eq!(says(), me);
    // SAFETY: taken above.
    unsafe { mutex.release() };
    assert_eq!(says(), 0);
}

/// A spinner tells a hold that goes on from the next one of the same owner, and leaves no trace.
#[test]
fn a_hold_is_seen_once_and_the_mark_goes_with_it() {
    const SEEN_BIT: u32 = 1 << 24;
    let mutex = RawMutex::<Linux>::new();
    let want = Want(&mutex);
    assert_eq!(want.look_again(), (Look::Open, false));
    assert_eq!(mutex.word.load(Relaxed), 0, "nobody holds it");
    let releases: [fn(&RawMutex<Linux>); 4] = [
        // SAFETY: the holder calls it.
        |mutex| unsafe { mutex.release() },
        // SAFETY: likewise.
        |mutex| unsafe { mutex.release_detached() },
        |mutex| {
            let me = Linux::id().expect("it holds a lock");
            assert!(mutex.try_release_as(me), "the mark is no request");
        },
        // SAFETY: likewise.
        |mutex| unsafe { mutex.release_fair() },
    ];
    for release in releases {
        mutex.acquire();
        let me = Linux::id().expect("a lock gives its holder a name").raw();
        for same in [false, true, true] {
            assert_eq!(want.look_again(), (Look::Closed, same));
            assert_eq!((mutex.word.load(Relaxed), want.owner()), (me | SEEN_BIT, Linux::id()));
        }
        release(&mutex);
        assert_eq!(mutex.word.load(Relaxed), 0);
    }
    // Beside requests, and through the release that obeys them.
    mutex.acquire();
    assert!(mutex.ask_owner(0));
    assert_eq!(want.look_again(), (Look::Closed, false));
    assert_eq!(want.look_again(), (Look::Closed, true));
    want.ask_for_first();
    assert_eq!(want.look_again(), (Look::Kept, true));
    let waiter = Linux::current().unwrap();
    mutex.queue.push(waiter);
    // SAFETY: acquired above.
    unsafe { mutex.release_detached() };
    assert_eq!(mutex.word.load(Relaxed), HANDOFF);
    assert_eq!(want.look_again(), (Look::Kept, false));
    assert_eq!(mutex.word.load(Relaxed), HANDOFF, "a mutex without an owner is not marked");
    mutex.queue.remove(waiter);
    want.left(Left { served: false, gave_up: false, empty: true, listen: false, handoff: false });
    assert_eq!(mutex.word.load(Relaxed), 0);
}
