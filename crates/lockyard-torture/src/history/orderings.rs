//! Orderings that were missing. Loads see the newest value here; what is watched is whether
//! anything ordered the accesses to what a lock protects.

use lockyard::platform::Ordering::{self, *};
use lockyard::platform::Word;

use super::{Bug, Model, Shown, W, bugs, explore, get, set, swap, touch, until};

pub(super) const BUGS: &[Bug] = bugs! {
    1 qspinlock_node_initialised_too_late Hang Late<true>, Late<false>: "qspinlock: a node is initialised after it can be reached";
    2 dpdk_mcs_link_without_release Race Link<true>, Link<false>: "DPDK MCS: the link to the predecessor lacks a release";
    3 qrwlock_writer_slow_path_without_acquire Race Rw<3>, Rw<0>: "qrwlock: the writer's slow path lacks an acquire";
    4 rwbase_reader_fast_path_unordered Race Rw<4>, Rw<0>: "rwbase: the reader's fast path is not ordered after the writer's release";
    5 rtmutex_slow_path_without_acquire Race Rw<5>, Rw<0>: "rtmutex: taking it in the slow path lacks an acquire";
    6 word_lock_release_for_acquire Race Rw<6>, Rw<0>: "parking_lot WordLock: a release where an acquire was needed";
    7 parking_lot_rwlock_reader_release Race Rw<7>, Rw<0>: "parking_lot RwLock: readers leave without a release";
    8 std_queue_rwlock_relaxed_first_load Race Deref<true>, Deref<false>: "std queue RwLock: nodes are reached through a relaxed load";
};

/// Three threads in a queue lock; a node's fields are set before it becomes the tail, or (the bug)
/// after.
#[derive(Default)]
struct Late<const BUG: bool> {
    tail: W,
    next: [W; 4],
    ready: [W; 4],
}

impl<const BUG: bool> Model for Late<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        for _ in 0..3 {
            let own = me + 1;
            let initialise = || {
                set(&self.next[own], 0);
                set(&self.ready[own], 0);
            };
            if !BUG {
                initialise();
            }
            let before = swap(&self.tail, own as u32) as usize;
            if BUG {
                initialise();
            }
            if before != 0 {
                set(&self.next[before], own as u32);
                until(|| get(&self.ready[own]) == 1);
            }
            if self.tail.compare_exchange(own as u32, 0, AcqRel, Acquire).is_err() {
                until(|| get(&self.next[own]) != 0);
                set(&self.ready[get(&self.next[own]) as usize], 1);
            }
        }
    }
}

/// A waiter prepares its node and links it behind its predecessor, who reads the node through the
/// link.
#[derive(Default)]
struct Link<const BUG: bool> {
    link: W,
    node: W,
}

impl<const BUG: bool> Model for Link<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            touch(&self.node);
            self.link.store(1, if BUG { Relaxed } else { Release });
        } else {
            until(|| get(&self.link) == 1);
            touch(&self.node);
        }
    }

    fn protected(&self) -> Vec<&W> {
        vec![&self.node]
    }
}

/// A reader-writer lock by polling (bit 31: writer), with one of its orderings missing.
#[derive(Default)]
struct Rw<const SITE: u32> {
    word: W,
    data: W,
}

const WRITER: u32 = 1 << 31;

impl<const SITE: u32> Rw<SITE> {
    fn order(site: u32, instead: Ordering, right: Ordering) -> Ordering {
        if SITE == site { instead } else { right }
    }

    fn write(&self, slow: bool) {
        let order = if slow {
            Self::order(3, Relaxed, Self::order(5, Release, Acquire))
        } else {
            Self::order(6, Release, Acquire)
        };
        until(|| self.word.compare_exchange(0, WRITER, order, Relaxed).is_ok());
        touch(&self.data);
        self.word.fetch_sub(WRITER, Release);
    }

    fn read(&self) {
        let order = Self::order(4, Relaxed, Acquire);
        until(|| {
            let word = self.word.load(Relaxed);
            word & WRITER == 0 && self.word.compare_exchange(word, word + 1, order, Relaxed).is_ok()
        });
        let _ = self.data.load(Relaxed);
        self.word.fetch_sub(1, Self::order(7, Relaxed, Release));
    }
}

impl<const SITE: u32> Model for Rw<SITE> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        for round in 0..3 {
            match me {
                0 => self.read(),
                _ => self.write((me + round).is_multiple_of(2)),
            }
        }
    }

    fn protected(&self) -> Vec<&W> {
        vec![&self.data]
    }
}

/// A node is filled and pushed; somebody finds it through the state word.
#[derive(Default)]
struct Deref<const BUG: bool> {
    state: W,
    node: W,
}

impl<const BUG: bool> Model for Deref<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            touch(&self.node);
            self.state.store(7, Release);
        } else {
            let order = if BUG { Relaxed } else { Acquire };
            until(|| self.state.load(order) == 7);
            let _ = self.node.load(Relaxed);
        }
    }

    fn protected(&self) -> Vec<&W> {
        vec![&self.node]
    }
}
