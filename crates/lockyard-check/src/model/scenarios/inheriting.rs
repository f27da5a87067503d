//! Scenarios of the rt-mutex with its own tree: chains of owners, on a machine with priorities; its
//! condition variable.

use lockyard::cancel::Until;
use lockyard::platform::Platform;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rtmutex_tree::condvar::RawTreeRtCondvar;

use super::super::machine::{execute, ring};
use super::super::setting::{DEADLINE, Machine};
use super::super::weak::{Loom, Weak};
use super::exclusive::Of;
use super::{Protected, Scenario, barred, rung};
use crate::lock::{Held, Lock, Timed, Way};

/// Two mutexes and their data.
#[derive(Debug, Default)]
struct Chain {
    locks: [RawTreeRtMutex<Loom>; 2],
    data: [Protected; 2],
}

impl Chain {
    /// A section of the first mutex, of the second, or of the second inside the first.
    fn hold(&self, which: &[usize]) {
        let mut held = Vec::new();
        for &number in which {
            held.push(Held::new(&self.locks[number], Way::Write));
            self.data[number].section(Way::Write);
        }
    }

    fn finish(&self, turns: [u64; 2]) {
        for ((lock, data), turns) in self.locks.iter().zip(&self.data).zip(turns) {
            assert_eq!(data.turns(), turns);
            assert!(lock.at_rest(), "something is left in a lock that nobody uses: {}", lock.state());
        }
    }
}

/// One takes both, the others one each: a thread that waits for the first lends to its owner, which
/// may wait for the second.
pub(super) fn chain(of: &Of<'_>) -> Scenario {
    let machine = Machine { ranked: true, ..barred(of.machine, 3) };
    of.scenario("chain", 3, machine, |machine| {
        execute::<Weak, _>(
            machine,
            3,
            Chain::default,
            |chain, me| chain.hold([&[0, 1][..], &[1], &[0]][me]),
            |chain| chain.finish([2, 2]),
        );
    })
}

/// A mutex and its data.
#[derive(Debug, Default)]
struct Single {
    mutex: RawTreeRtMutex<Loom>,
    data: Protected,
}

impl Single {
    /// A section of the mutex, unless `until` comes first.
    fn hold(&self, until: Until<'_, Loom>) {
        if self.mutex.lock_until(Way::Write, until).is_ok() {
            self.data.section(Way::Write);
            // SAFETY: held.
            unsafe { self.mutex.unlock(Way::Write) };
        }
    }
}

/// One holds the mutex. The other has no time to wait for it, and takes it once it is free: then
/// nobody waits, and it does not ask the wait lock.
pub(super) fn late_again(of: &Of<'_>) -> Scenario {
    let machine = Machine { start: 2 * DEADLINE, budget: Some(8), ..of.machine };
    let mut scenario = of.scenario("late-again", 2, machine, |machine| {
        execute::<Weak, _>(
            machine,
            2,
            Single::default,
            |single, me| {
                if me == 1 {
                    single.hold(Until::deadline(DEADLINE));
                    // A look that orders nothing.
                    Loom::wait_window(|| (!single.mutex.is_locked()).then_some(()));
                }
                single.hold(Until::FOREVER);
            },
            |single| {
                assert!((2..=3).contains(&single.data.turns()));
                assert!(single.mutex.at_rest(), "something is left in a lock that nobody uses");
            },
        );
    });
    scenario.preemptions = Some(3);
    scenario
}

/// A condition of an rt-mutex, and what is there once it holds.
#[derive(Debug, Default)]
struct Post {
    mutex: RawTreeRtMutex<Loom>,
    arrival: RawTreeRtCondvar<Loom>,
    /// How many letters there are: under the mutex.
    letters: Protected,
}

impl Post {
    /// Waits until there is a letter, or until `until`.
    fn receive(&self, until: Until<'_, Loom>) {
        self.mutex.lock(Way::Write);
        loop {
            self.letters.section(Way::Read);
            // SAFETY: held, and this thread waits for nothing else.
            if self.letters.turns() > 0 || !unsafe { self.arrival.wait(&self.mutex, until) }.expect("no deadlock") {
                break;
            }
        }
        // SAFETY: held.
        unsafe { self.mutex.unlock(Way::Write) };
    }

    fn send(&self) {
        self.mutex.lock(Way::Write);
        self.letters.section(Way::Write);
        // SAFETY: held.
        unsafe { self.mutex.unlock(Way::Write) };
        self.arrival.notify_one(&self.mutex);
    }

    fn finish(&self) {
        assert!(!self.arrival.has_sleepers(), "somebody still sleeps");
        assert!(self.mutex.at_rest(), "something is left in a mutex that nobody uses");
    }
}

/// One waits for a letter, one sends it; with `late` the first one's time is up meanwhile.
pub(super) fn letter(of: &Of<'_>, late: bool) -> Scenario {
    let threads = if late { 3 } else { 2 };
    let machine = barred(of.machine, threads);
    let machine = if late { rung(machine) } else { machine };
    of.scenario(if late { "letter-or-timeout" } else { "letter" }, threads, machine, move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            Post::default,
            |post, me| match me {
                0 => post.receive(if late { Until::deadline(DEADLINE) } else { Until::FOREVER }),
                1 => post.send(),
                _ => ring::<Weak>(),
            },
            Post::finish,
        );
    })
}
