//! Scenarios of the condition variable: a signal or a broadcast against those who begin to wait,
//! and against one whose time is up.

use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::mutex::RawMutex;

use super::super::machine::{execute, ring};
use super::super::setting::DEADLINE;
use super::super::weak::{Loom, Weak};
use super::exclusive::Of;
use super::{Protected, Scenario, barred, rung};
use crate::lock::Way;

/// A condition, the mutex that guards it, and what is there once it holds.
#[derive(Debug, Default)]
struct Post {
    mutex: RawMutex<Loom>,
    arrival: RawCondvar<Loom>,
    /// How many letters there are: under the mutex.
    letters: Protected,
}

impl Post {
    fn guarded(&self, act: impl FnOnce()) {
        self.mutex.acquire();
        act();
        // SAFETY: acquired above.
        unsafe { self.mutex.release_detached() };
    }

    /// Waits until there is a letter, and takes note of it; or until `until`. Whether there is one.
    fn receive(&self, until: Until<'_, Loom>) -> bool {
        let mut there = false;
        self.guarded(|| {
            loop {
                self.letters.section(Way::Read);
                there = self.letters.turns() > 0;
                // SAFETY: `guarded` holds the mutex.
                if there || unsafe { self.arrival.wait(&self.mutex, until) }.is_err() {
                    break;
                }
            }
        });
        there
    }

    fn send(&self) {
        self.guarded(|| self.letters.section(Way::Write));
    }

    fn finish(&self) {
        assert!(!self.arrival.has_waiters(), "somebody still waits");
        assert!(!self.mutex.is_locked() && !self.mutex.is_contended(), "something is left in a mutex that nobody uses");
    }
}

/// `waiters` threads wait for a letter; one more sends it and tells them: `all`, or one for each of
/// them.
pub(super) fn arrival(of: &Of<'_>, waiters: usize, all: bool) -> Scenario {
    let threads = waiters + 1;
    let what = if all { "broadcast" } else { "signal" };
    of.scenario(&format!("{what}-to-{waiters}"), threads, barred(of.machine, threads), move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            Post::default,
            |post, me| {
                if me < waiters {
                    assert!(post.receive(Until::FOREVER), "a wait without end has ended");
                } else {
                    post.send();
                    match all {
                        true => {
                            post.arrival.broadcast();
                        }
                        false => (0..waiters).for_each(|_| {
                            post.arrival.signal();
                        }),
                    }
                }
            },
            Post::finish,
        );
    })
}

/// One waits for a letter; another sends it, releases the mutex the short way, and signals. A third
/// signals whenever it likes, also while the mutex is held: then the waiter is put asleep into the
/// mutex's queue, without a timer, and nobody but that release can wake it.
pub(super) fn moved_while_held(of: &Of<'_>) -> Scenario {
    of.scenario("signal-while-held", 3, barred(of.machine, 3), |machine| {
        execute::<Weak, _>(
            machine,
            3,
            Post::default,
            |post, me| match me {
                0 => assert!(post.receive(Until::FOREVER), "a wait without end has ended"),
                1 => {
                    post.mutex.acquire();
                    post.letters.section(Way::Write);
                    // SAFETY: acquired above; the post stays until all threads have ended.
                    unsafe { post.mutex.release() };
                    post.arrival.signal();
                }
                _ => {
                    post.arrival.signal();
                }
            },
            Post::finish,
        );
    })
}

/// One waits for a letter, another for the mutex until the clock rings. The third rings, and
/// releases the mutex in the detached form; the fourth signals meanwhile, which puts the first
/// asleep into the mutex's queue. The release may have read the name of the one that leaves.
pub(super) fn left_while_moved(of: &Of<'_>) -> Scenario {
    of.scenario("timeout-and-signal-while-held", 4, rung(barred(of.machine, 4)), |machine| {
        execute::<Weak, _>(
            machine,
            4,
            Post::default,
            |post, me| match me {
                0 => assert!(post.receive(Until::FOREVER), "a wait without end has ended"),
                1 => {
                    if post.mutex.acquire_until(Until::deadline(DEADLINE)).is_ok() {
                        post.letters.section(Way::Read);
                        // SAFETY: acquired above.
                        unsafe { post.mutex.release_detached() };
                    }
                }
                2 => {
                    post.guarded(|| {
                        post.letters.section(Way::Write);
                        ring::<Weak>();
                    });
                    post.arrival.signal();
                }
                _ => {
                    post.arrival.signal();
                }
            },
            Post::finish,
        );
    })
}

/// One waits until the clock rings, and is told at the same time.
pub(super) fn late_arrival(of: &Of<'_>) -> Scenario {
    let machine = rung(barred(of.machine, 3));
    let mut scenario = of.scenario("signal-or-timeout", 3, machine, |machine| {
        execute::<Weak, _>(
            machine,
            3,
            Post::default,
            |post, me| match me {
                0 => _ = post.receive(Until::deadline(DEADLINE)),
                1 => ring::<Weak>(),
                _ => {
                    post.send();
                    post.arrival.signal();
                }
            },
            Post::finish,
        );
    });
    scenario.preemptions = Some(2);
    scenario
}
