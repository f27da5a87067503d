//! Sleepers that were forgotten.

use lockyard::platform::Platform;
use lockyard_sim::Sim;

use super::{Behind, Bug, Model, Shown, W, add, bugs, cas, explore, get, pause, set, sleep, sub, swap, until, wake};

pub(super) const BUGS: &[Bug] = bugs! {
    14 rwsem_woken_before_cleared Hang Cleared<true>, Cleared<false>: "rwsem: a waiter is woken before its field is cleared, and sleeps again";
    16 rtmutex_waiters_bit_overwritten Hang Fixup<true>, Fixup<false>: "rtmutex: a leaver that tidies the word up overwrites an unlock";
    19 pvqspinlock_double_hash_entry Check Hashed<true>, Hashed<false>: "pvqspinlock: the lock is put into the hash table twice";
    21 six_lock_waiter_flag_checked_too_early Hang Early<true>, Early<false>: "six locks: a reader's try makes a writer fail, and looks for waiters before it has undone it";
    24 glibc_robust_waiters_flag_lost Hang Robust<true>, Robust<false>: "glibc robust mutex: whoever takes it after its owner's death forgets that others wait";
    25 musl_condvar_aba Hang Aba<true>, Aba<false>: "musl condition variable: the word on which a waiter sleeps returns to its old value";
    26 musl_maybe_waiters_not_restored Hang MayWait<true>, MayWait<false>: "musl file lock: a woken waiter takes the lock as if nobody else waited";
    28 go_cond_broadcast_consumed Hang Broadcast<true>, Broadcast<false>: "Go sync.Cond: a broadcast's wake-up is consumed by a later waiter";
};

/// A waiter sleeps until its field is cleared; the thread that clears it also wakes it.
#[derive(Default)]
struct Cleared<const BUG: bool> {
    waiting: W,
    queued: W,
    token: W,
}

impl<const BUG: bool> Model for Cleared<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            set(&self.waiting, 1);
            set(&self.queued, 1);
            while get(&self.waiting) == 1 {
                sleep(&self.token, 0);
                set(&self.token, 0);
            }
            return;
        }
        until(|| get(&self.queued) >= 1);
        let rouse = || {
            set(&self.token, 1);
            wake(&self.token);
        };
        if BUG {
            rouse();
            pause();
            set(&self.waiting, 0);
        } else {
            set(&self.waiting, 0);
            rouse();
        }
    }
}

/// Owner in the low bits, bit 8: waiters. The last waiter leaves and clears the bit, by a store or
/// by an exchange.
#[derive(Default)]
struct Fixup<const BUG: bool> {
    word: W,
    queued: W,
}

const WAITERS: u32 = 1 << 8;

impl<const BUG: bool> Model for Fixup<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        match me {
            0 => {
                until(|| cas(&self.word, 0, 1));
                until(|| get(&self.queued) >= 1);
                // Unlocks; with the waiters bit it would look at the queue, which is empty by now.
                until(|| {
                    let word = get(&self.word);
                    cas(&self.word, word, 0)
                });
            }
            1 => {
                until(|| cas(&self.word, 1, 1 | WAITERS));
                set(&self.queued, 1);
                pause();
                // Timed out: nobody waits any more.
                loop {
                    let word = get(&self.word);
                    if word & WAITERS == 0 {
                        break;
                    }
                    if BUG {
                        pause();
                        set(&self.word, word & !WAITERS);
                        break;
                    }
                    if cas(&self.word, word, word & !WAITERS) {
                        break;
                    }
                }
                set(&self.queued, 2);
            }
            _ => {
                until(|| get(&self.queued) == 2);
                until(|| cas(&self.word, 0, 3));
            }
        }
    }
}

/// A halting head and the holder's kick both enter the lock in the table, from which an unlock
/// takes it once.
#[derive(Default)]
struct Hashed<const BUG: bool> {
    state: W,
    entries: W,
}

impl<const BUG: bool> Model for Hashed<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        const HALTED: u32 = 1;
        const HASHED: u32 = 2;
        if me == 0 {
            set(&self.state, HALTED);
            pause();
            // Becomes the head: hashes itself, unless the kick has.
            if BUG || cas(&self.state, HALTED, HASHED) {
                add(&self.entries, 1);
            }
        } else {
            until(|| get(&self.state) != 0);
            if BUG && get(&self.state) == HALTED || !BUG && cas(&self.state, HALTED, HASHED) {
                add(&self.entries, 1);
            }
        }
    }

    fn finish(&self) {
        assert_eq!(get(&self.entries), 1, "entries of one lock");
    }
}

/// A reader's try counts itself in and out again; a writer that failed meanwhile sleeps until
/// somebody looks for it.
#[derive(Default)]
struct Early<const BUG: bool> {
    readers: W,
    waiting: W,
}

impl<const BUG: bool> Model for Early<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            for _ in 0..3 {
                add(&self.readers, 1);
                let before = get(&self.waiting);
                pause();
                sub(&self.readers, 1);
                let waits = if BUG { before } else { get(&self.waiting) };
                if waits == 1 {
                    set(&self.waiting, 0);
                    wake(&self.waiting);
                }
            }
        } else {
            loop {
                swap(&self.waiting, 1);
                if get(&self.readers) == 0 {
                    return;
                }
                sleep(&self.waiting, 1);
            }
        }
    }
}

/// A mutex whose owner died: 2 = held and somebody may wait, 4 = its owner is dead.
#[derive(Default)]
struct Robust<const BUG: bool> {
    word: W,
    sleeping: W,
}

impl<const BUG: bool> Robust<BUG> {
    fn lock(&self) {
        add(&self.sleeping, 1);
        loop {
            let word = get(&self.word);
            if word == 4 {
                if cas(&self.word, 4, if BUG { 1 } else { 2 }) {
                    return;
                }
            } else if word == 0 {
                if cas(&self.word, 0, 2) {
                    return;
                }
            } else if word == 2 || cas(&self.word, 1, 2) {
                sleep(&self.word, 2);
            }
        }
    }
}

impl<const BUG: bool> Model for Robust<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        if me == 0 {
            set(&self.word, 1);
            until(|| get(&self.sleeping) == 2 && get(&self.word) == 2);
            lockyard_sim::compute(200_000);
            // Dies. The system marks the word and wakes one.
            set(&self.word, 4);
            wake(&self.word);
        } else {
            until(|| get(&self.word) != 0);
            self.lock();
            pause();
            if swap(&self.word, 0) == 2 {
                wake(&self.word);
            }
        }
    }
}

/// Waiters sleep while the word is as they saw it; a signal changes it: to the next number, or to
/// the other of two.
#[derive(Default)]
struct Aba<const BUG: bool> {
    word: W,
    signals: W,
    looked: W,
}

impl<const BUG: bool> Model for Aba<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            let seen = get(&self.word);
            let before = get(&self.signals);
            set(&self.looked, 1);
            pause();
            while get(&self.signals) == before && get(&self.word) == seen || get(&self.word) == seen && BUG {
                sleep(&self.word, seen);
            }
        } else {
            until(|| get(&self.looked) == 1);
            for _ in 0..2 {
                add(&self.signals, 1);
                let word = get(&self.word);
                set(&self.word, if BUG { word ^ 1 } else { word + 1 });
                wake(&self.word);
            }
        }
    }
}

/// The mutex of three states: 0 free, 1 held, 2 held and somebody may wait.
#[derive(Default)]
struct MayWait<const BUG: bool> {
    word: W,
}

impl<const BUG: bool> Model for MayWait<BUG> {
    const THREADS: usize = 3;

    fn act(&self, _me: usize) {
        for _ in 0..4 {
            if !cas(&self.word, 0, 1) {
                loop {
                    if BUG {
                        if cas(&self.word, 0, 1) {
                            break;
                        }
                        cas(&self.word, 1, 2);
                    } else if swap(&self.word, 2) == 0 {
                        break;
                    }
                    sleep(&self.word, 2);
                }
            }
            pause();
            if swap(&self.word, 0) == 2 {
                wake(&self.word);
            }
        }
    }
}

/// A broadcast releases as many wake-ups as there are waiters; who takes them?
#[derive(Default)]
struct Broadcast<const BUG: bool> {
    state: Behind<(u32, u32, u32)>,
    released: W,
    waiting: W,
    done: W,
}

impl<const BUG: bool> Broadcast<BUG> {
    fn wait(&self) {
        // Tickets, as many as were released, and (the bug) any that are left.
        let ticket = self.state.with(|state| {
            state.0 += 1;
            state.0
        });
        add(&self.waiting, 1);
        loop {
            let seen = get(&self.released);
            let mine = self.state.with(|state| {
                if BUG {
                    let left = state.2 > 0;
                    state.2 -= u32::from(left);
                    left
                } else {
                    ticket <= state.1
                }
            });
            if mine {
                return;
            }
            sleep(&self.released, seen);
        }
    }
}

impl<const BUG: bool> Model for Broadcast<BUG> {
    const THREADS: usize = 4;

    fn act(&self, me: usize) {
        match me {
            0 | 1 => {
                self.wait();
                add(&self.done, 1);
            }
            2 => {
                until(|| get(&self.waiting) == 2);
                self.state.with(|state| {
                    state.2 += 2;
                    state.1 = state.0;
                });
                add(&self.released, 1);
                (0..2).for_each(|_| Sim::unpark(&self.released));
                // The next broadcast comes when those of the first have gone on.
                until(|| get(&self.done) == 2);
                until(|| get(&self.waiting) == 3);
                self.state.with(|state| {
                    state.2 += 1;
                    state.1 = state.0;
                });
                add(&self.released, 1);
                (0..3).for_each(|_| Sim::unpark(&self.released));
            }
            _ => {
                until(|| get(&self.released) >= 1);
                self.wait();
            }
        }
    }
}
