//! Wake-ups that somebody else consumed.

use super::{Behind, Bug, Model, Shown, W, add, bugs, explore, get, pause, set, sleep, until, wake};

pub(super) const BUGS: &[Bug] = bugs! {
    22 glibc_condvar_signal_stealing Hang Signal<true>, Signal<false>: "glibc condition variable: a later waiter steals a signal";
    23 glibc_timed_waiter_steals_a_wakeup Hang Leaver<true>, Leaver<false>: "glibc: a timed-out waiter takes a wake-up with it";
    27 llvm_rwlock_timed_out_writer Hang TimedWriter<true>, TimedWriter<false>: "LLVM libc rwlock: a timed-out writer swallows the wake-up";
    29 tinygo_writer_behind_readers Hang Mixed<true>, Mixed<false>: "TinyGo RWMutex: the wake-up for a writer goes to a reader that queued before it";
};

/// One waits, a signal is given, another comes and waits. The second signal comes when the first
/// waiter has gone on.
#[derive(Default)]
struct Signal<const BUG: bool> {
    state: Behind<(u32, u32)>,
    word: W,
    stage: W,
    done: W,
}

impl<const BUG: bool> Signal<BUG> {
    fn wait(&self, arrived: u32) {
        // Those that wait, in order; signals that nobody has taken.
        let ticket = self.state.with(|state| {
            state.0 += 1;
            state.0
        });
        set(&self.stage, arrived);
        loop {
            let seen = get(&self.word);
            let mine = self.state.with(|state| {
                if BUG {
                    let left = state.1 > 0;
                    state.1 -= u32::from(left);
                    left
                } else {
                    ticket <= state.1
                }
            });
            if mine {
                return;
            }
            sleep(&self.word, seen);
        }
    }

    fn signal(&self) {
        self.state.with(|state| state.1 += 1);
        add(&self.word, 1);
        wake(&self.word);
        if !BUG {
            // Whoever it is for must be among the woken.
            wake(&self.word);
        }
    }
}

impl<const BUG: bool> Model for Signal<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        match me {
            0 => {
                self.wait(1);
                set(&self.done, 1);
            }
            1 => {
                until(|| get(&self.stage) == 1);
                self.signal();
                set(&self.stage, 2);
                until(|| get(&self.done) == 1);
                self.signal();
            }
            _ => {
                until(|| get(&self.stage) == 2);
                self.wait(3);
            }
        }
    }
}

/// A wake-up meets a waiter that has just timed out, while another waits for good.
#[derive(Default)]
struct Leaver<const BUG: bool> {
    queue: Behind<Vec<usize>>,
    come: W,
    woken: [W; 2],
}

impl<const BUG: bool> Leaver<BUG> {
    fn wake_first(&self) {
        let first = self.queue.with(|queue| if queue.is_empty() { None } else { Some(queue.remove(0)) });
        if let Some(first) = first {
            set(&self.woken[first], 1);
            wake(&self.woken[first]);
        }
    }
}

impl<const BUG: bool> Model for Leaver<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        match me {
            0 => {
                self.queue.with(|queue| queue.push(0));
                set(&self.come, 1);
                lockyard_sim::compute(3_000);
                // Its time is over. If it is not in the queue any more, the wake-up that took it
                // out was meant for somebody who waits.
                let was_queued = self.queue.with(|queue| {
                    let place = queue.iter().position(|&thread| thread == 0);
                    place.map(|place| queue.remove(place)).is_some()
                });
                if !was_queued && !BUG {
                    self.wake_first();
                }
            }
            1 => {
                until(|| get(&self.come) == 1);
                self.queue.with(|queue| queue.push(1));
                while get(&self.woken[1]) == 0 {
                    sleep(&self.woken[1], 0);
                }
            }
            _ => {
                until(|| self.queue.with(|queue| queue.contains(&1)));
                self.wake_first();
            }
        }
    }
}

/// A release wakes a pending writer rather than readers; the writer has timed out.
#[derive(Default)]
struct TimedWriter<const BUG: bool> {
    /// Held; pending writers; pending readers.
    state: Behind<(bool, u32, u32)>,
    readers: W,
}

impl<const BUG: bool> TimedWriter<BUG> {
    fn release(&self) {
        let for_readers = self.state.with(|state| {
            state.0 = false;
            state.1 == 0
        });
        if for_readers {
            add(&self.readers, 1);
            wake(&self.readers);
        }
    }
}

impl<const BUG: bool> Model for TimedWriter<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        match me {
            0 => {
                self.state.with(|state| state.0 = true);
                until(|| self.state.with(|state| state.2 == 1));
                self.release();
            }
            1 => {
                until(|| self.state.with(|state| state.0));
                self.state.with(|state| state.1 += 1);
                until(|| self.state.with(|state| state.2 == 1));
                pause();
                // Its time is over.
                self.state.with(|state| state.1 -= 1);
                if !BUG {
                    // The release may have woken it instead of the readers.
                    add(&self.readers, 1);
                    wake(&self.readers);
                }
            }
            _ => {
                until(|| self.state.with(|state| state.1 == 1));
                let mut first = true;
                loop {
                    let seen = get(&self.readers);
                    let free = self.state.with(|state| {
                        state.2 += u32::from(first);
                        !state.0 && state.1 == 0
                    });
                    first = false;
                    if free {
                        return;
                    }
                    sleep(&self.readers, seen);
                }
            }
        }
    }
}

/// Readers and writers sleep in one queue. The last reader wakes one; if that is a reader, it
/// sleeps again for the writer's sake.
#[derive(Default)]
struct Mixed<const BUG: bool> {
    /// Who sleeps, first come first.
    queue: Behind<Vec<usize>>,
    woken: [W; 2],
    wrote: W,
    read: W,
}

impl<const BUG: bool> Mixed<BUG> {
    fn wake_one(&self) {
        let first = self.queue.with(|queue| if queue.is_empty() { None } else { Some(queue.remove(0)) });
        if let Some(first) = first {
            set(&self.woken[first], 1);
            wake(&self.woken[first]);
        }
    }

    fn sleep(&self, me: usize) {
        self.queue.with(|queue| queue.push(me));
        while get(&self.woken[me]) == 0 {
            sleep(&self.woken[me], 0);
        }
        set(&self.woken[me], 0);
    }
}

impl<const BUG: bool> Model for Mixed<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        match me {
            0 => {
                // The reader, which waits for the writer that it knows of.
                self.sleep(0);
                while get(&self.wrote) == 0 {
                    if !BUG {
                        // Not for me: pass it on.
                        self.wake_one();
                    }
                    self.sleep(0);
                }
                set(&self.read, 1);
            }
            1 => {
                until(|| self.queue.with(|queue| queue.contains(&0)));
                self.sleep(1);
                set(&self.wrote, 1);
                while get(&self.read) == 0 {
                    self.wake_one();
                    pause();
                }
            }
            _ => {
                until(|| self.queue.with(|queue| queue.contains(&1)));
                self.wake_one();
            }
        }
    }
}
