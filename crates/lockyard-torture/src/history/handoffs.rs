//! State that two parties change, and permission that goes astray.

use lockyard_sim::scheduler::class::Class;

use super::{Behind, Bug, Model, Shown, W, add, bugs, cas, explore, get, pause, set, sleep, sub, swap, until, wake};

pub(super) const BUGS: &[Bug] = bugs! {
    11 rwsem_handoff_bit_subtracted_twice Check Subtracted<true>, Subtracted<false>: "rwsem: two parties subtract one handoff bit";
    12 rwsem_first_waiter_leaves_silently Hang Silent<true>, Silent<false>: "rwsem: a first waiter leaves by a signal and wakes nobody";
    13 rwsem_second_waiter_spins_on_handoff Hang Second<true>, Second<false>: "rwsem: a waiter that is not first spins on the handoff and keeps the first from running";
    15 mutex_handoff_stolen Check Stolen<true>, Stolen<false>: "mutex: a handoff request is cleared by whoever steals the lock";
    17 futex_pi_stale_owner_after_timeout Hang Stale<true>, Stale<false>: "futex PI: a waiter times out although it has been made the owner";
    18 futex_pi_two_lists_disagree Hang Lists<true>, Lists<false>: "futex PI: the unlock finds a waiter in one list and not in the other";
    20 osq_unqueue_with_a_stale_next Hang Unqueue<true>, Unqueue<false>: "osq: a leaver links its predecessor to a successor it looked at too early";
};

/// Bit 4: handoff. Cleared when the first waiter is served, and when it leaves.
#[derive(Default)]
struct Subtracted<const BUG: bool> {
    word: W,
    begun: W,
}

impl<const BUG: bool> Model for Subtracted<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        const HANDOFF: u32 = 16;
        if me == 0 {
            add(&self.word, HANDOFF);
            set(&self.begun, 1);
            pause();
        } else {
            until(|| get(&self.begun) == 1);
        }
        if BUG {
            if get(&self.word) & HANDOFF != 0 {
                pause();
                sub(&self.word, HANDOFF);
            }
        } else {
            use lockyard::platform::{Ordering::AcqRel, Word};
            self.word.fetch_and(!HANDOFF, AcqRel);
        }
    }

    fn finish(&self) {
        assert_eq!(get(&self.word), 0);
    }
}

/// A writer is first behind readers, readers behind it; the writer gives up.
#[derive(Default)]
struct Silent<const BUG: bool> {
    queue: Behind<Vec<usize>>,
    granted: [W; 3],
}

impl<const BUG: bool> Model for Silent<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            self.queue.with(|queue| queue.insert(0, 0));
            until(|| self.queue.with(|queue| queue.contains(&1)));
            // Killed.
            let next = self.queue.with(|queue| {
                queue.retain(|&thread| thread != 0);
                queue.first().copied()
            });
            if let (Some(next), false) = (next, BUG) {
                set(&self.granted[next], 1);
                wake(&self.granted[next]);
            }
        } else {
            until(|| self.queue.with(|queue| queue.contains(&0)));
            self.queue.with(|queue| queue.push(1));
            // A reader holds the lock: this one waits for nothing but its place in the queue.
            while get(&self.granted[1]) == 0 {
                sleep(&self.granted[1], 0);
            }
        }
    }
}

/// First waiter: an ordinary thread. Second: one with real-time priority, on the same CPU.
#[derive(Default)]
struct Second<const BUG: bool> {
    handoff: W,
    taken: W,
    ready: W,
}

impl<const BUG: bool> Model for Second<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        lockyard_sim::pin_here(0);
        if me == 0 {
            until(|| get(&self.ready) == 1);
            set(&self.handoff, 1);
            lockyard_sim::compute(300_000);
            // Only now does it look.
            set(&self.taken, 1);
            wake(&self.taken);
        } else {
            lockyard_sim::set_class(Class::Fifo(50));
            set(&self.ready, 1);
            until(|| get(&self.handoff) == 1);
            while get(&self.taken) == 0 {
                if BUG {
                    pause();
                } else {
                    sleep(&self.taken, 0);
                }
            }
        }
    }
}

/// Bit 0: held; bit 1: kept for the first waiter. Two others take the lock again and again.
#[derive(Default)]
struct Stolen<const BUG: bool> {
    word: W,
    asked: W,
    passed: W,
    done: W,
}

impl<const BUG: bool> Model for Stolen<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        const HELD: u32 = 1;
        const KEPT: u32 = 2;
        if me == 0 {
            // Asks for the lock to be kept, then takes it when it is free.
            until(|| {
                let word = get(&self.word);
                word & HELD != 0 && cas(&self.word, word, word | KEPT)
            });
            set(&self.asked, 1);
            until(|| {
                let word = get(&self.word);
                word & HELD == 0 && cas(&self.word, word, HELD)
            });
            set(&self.done, 1);
            assert!(get(&self.passed) <= 8, "passed {} times after it had asked", get(&self.passed));
            sub(&self.word, HELD);
            return;
        }
        let mut rounds = 0;
        while get(&self.done) == 0 && rounds < 2_000 || get(&self.asked) == 0 && rounds < 20_000 {
            rounds += 1;
            let word = get(&self.word);
            let open = word & HELD == 0 && (BUG || word & KEPT == 0);
            if open && cas(&self.word, word, HELD) {
                if get(&self.asked) == 1 && get(&self.done) == 0 {
                    add(&self.passed, 1);
                }
                pause();
                sub(&self.word, HELD);
            }
            pause();
        }
    }
}

/// An unlock hands the lock to a waiter whose time is over just now.
#[derive(Default)]
struct Stale<const BUG: bool> {
    /// The owner, and who waits.
    state: Behind<(u32, Vec<u32>)>,
    come: W,
}

impl<const BUG: bool> Model for Stale<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        match me {
            0 => {
                self.state.with(|state| state.0 = 1);
                set(&self.come, 1);
                until(|| get(&self.come) == 2);
                self.state.with(|state| state.0 = state.1.pop().unwrap_or(0));
            }
            1 => {
                until(|| get(&self.come) == 1);
                self.state.with(|state| state.1.push(2));
                set(&self.come, 2);
                pause();
                // Its time is over.
                self.state.with(|state| {
                    state.1.clear();
                    if state.0 == 2 && !BUG {
                        // It owns the lock: it does not say that it timed out, and releases in due
                        // course.
                        state.0 = 0;
                    }
                });
            }
            _ => {
                until(|| get(&self.come) == 2);
                until(|| {
                    self.state.with(|state| {
                        let free = state.0 == 0;
                        state.0 = if free { 3 } else { state.0 };
                        free
                    })
                });
            }
        }
    }
}

/// A waiter enters one list, then the other; an unlock sees it in the first only.
#[derive(Default)]
struct Lists<const BUG: bool> {
    first: W,
    second: W,
    granted: W,
}

impl<const BUG: bool> Model for Lists<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            set(&self.first, 1);
            pause();
            set(&self.second, 1);
            while get(&self.granted) == 0 {
                sleep(&self.granted, 0);
            }
            return;
        }
        until(|| get(&self.first) == 1);
        if !BUG {
            until(|| get(&self.second) == 1);
        }
        if get(&self.second) == 1 {
            set(&self.granted, 1);
            wake(&self.granted);
        }
    }
}

/// A queue of three: the middle one leaves while the last one arrives.
#[derive(Default)]
struct Unqueue<const BUG: bool> {
    tail: W,
    next: [W; 4],
    go: [W; 4],
    stage: W,
}

impl<const BUG: bool> Model for Unqueue<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        let own = me + 1;
        match me {
            // The head: leaves when the middle one has gone, and lets its successor go on.
            0 => {
                set(&self.tail, 1);
                set(&self.stage, 1);
                until(|| get(&self.stage) == 2);
                if !cas(&self.tail, 1, 0) {
                    until(|| get(&self.next[1]) != 0);
                    set(&self.go[get(&self.next[1]) as usize], 1);
                }
            }
            1 => {
                until(|| get(&self.stage) == 1);
                let before = swap(&self.tail, 2);
                set(&self.next[before as usize], 2);
                pause();
                let early = get(&self.next[own]);
                // Leaves: unlinks itself, then joins its neighbours.
                set(&self.next[before as usize], 0);
                if BUG {
                    pause();
                    if early != 0 {
                        set(&self.next[before as usize], early);
                    } else {
                        // Nobody behind, it thinks.
                        cas(&self.tail, 2, before);
                    }
                } else if !cas(&self.tail, 2, before) {
                    until(|| get(&self.next[own]) != 0);
                    set(&self.next[before as usize], get(&self.next[own]));
                }
                set(&self.stage, 2);
            }
            _ => {
                until(|| get(&self.stage) != 0);
                let before = swap(&self.tail, 3);
                if before != 0 {
                    set(&self.next[before as usize], 3);
                    until(|| get(&self.go[3]) == 1);
                }
            }
        }
    }
}
