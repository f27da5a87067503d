//! Scenarios of what only embedders of a lock call.

use lockyard::platform::{Ordering::*, Platform, Word};
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;

use super::super::machine::execute;
use super::super::weak::{Loom, Weak};
use super::exclusive::Of;
use super::{Protected, Scenario, barred};
use crate::lock::{Lock, Way};

#[derive(Debug, Default)]
struct Shelf {
    lock: RawRwSem<Loom>,
    data: Protected,
}

/// The first thread writes; the others read once more, past everybody who waits, if they can.
pub(super) fn reading_again(of: &Of<'_>, readers: usize) -> Scenario {
    let threads = readers + 1;
    of.scenario(&format!("again-{readers}"), threads, barred(of.machine, threads), move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            Shelf::default,
            |shelf, me| {
                if me == 0 {
                    shelf.lock.lock(Way::Write);
                    shelf.data.section(Way::Write);
                    // SAFETY: held to write.
                    return unsafe { shelf.lock.write_release_detached() };
                }
                // Also a thread that holds nothing, if somebody else reads.
                let before = shelf.lock.try_read_again();
                if !before {
                    shelf.lock.lock(Way::Read);
                }
                let again = shelf.lock.try_read_again();
                shelf.data.section(Way::Read);
                // SAFETY: held to read, once or twice.
                unsafe {
                    if !shelf.lock.try_read_release_unasked() {
                        shelf.lock.read_release_detached();
                    }
                    if again {
                        shelf.lock.read_release_detached();
                    }
                }
            },
            |shelf| {
                assert_eq!(shelf.data.turns(), 1);
                assert!(shelf.lock.at_rest(), "left as {}", shelf.lock.state());
            },
        );
    })
}

/// A lock, what it protects, and a word that tells when its owner has gone.
#[derive(Debug, Default)]
struct Left<L> {
    lock: L,
    data: Protected,
    gone: <Loom as Platform>::U32,
}

impl<L: Lock<P = Loom>> Left<L> {
    fn hold(&self) {
        self.lock.lock(Way::Write);
        self.data.section(Way::Write);
        // SAFETY: held to write.
        unsafe { self.lock.unlock(Way::Write) };
    }
}

/// One writes, one reads past all who wait, as a signal handler on top of a reader must.
pub(super) fn urgent(of: &Of<'_>) -> Scenario {
    of.scenario("urgent", 2, of.machine, |machine| {
        execute::<Weak, _>(
            machine,
            2,
            Left::<RawQRwLock<Loom>>::default,
            |left, me| {
                if me == 0 {
                    return left.hold();
                }
                left.lock.read_acquire_urgent();
                left.data.section(Way::Read);
                // SAFETY: held to read.
                unsafe { left.lock.read_release() };
            },
            |left| assert!(left.lock.at_rest(), "left as {}", left.lock.state()),
        );
    })
}

/// The first leaves a mutex held, the second releases it in its name, others hold it.
pub(super) fn orphan(of: &Of<'_>, threads: usize) -> Scenario {
    of.scenario(&format!("orphan-{threads}"), threads, barred(of.machine, threads), move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            Left::<RawTreeRtMutex<Loom>>::default,
            |left, me| match me {
                0 => {
                    left.lock.lock(Way::Write);
                    left.data.section(Way::Write);
                    left.gone.store(1, Release);
                }
                1 => {
                    Loom::wait_window(|| (left.gone.load(Acquire) != 0).then_some(()));
                    // SAFETY: held by the first thread, which does nothing any more.
                    unsafe { left.lock.release_for_owner() };
                }
                _ => left.hold(),
            },
            move |left| {
                assert_eq!(left.data.turns(), threads as u64 - 1);
                assert!(left.lock.at_rest(), "left as {}", left.lock.state());
            },
        );
    })
}
