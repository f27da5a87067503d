//! Reader-writer locks: downgrades, upgrades, readers inside readers.

use super::{Behind, Bug, Model, Shown, W, add, bugs, cas, explore, get, pause, set, sub, swap, until, wake};

pub(super) const BUGS: &[Bug] = bugs! {
    9 std_rwlock_downgrade_loses_readers Hang Downgrade<true>, Downgrade<false>: "std queue RwLock: a downgrade overwrites readers that queued meanwhile";
    10 windows_srw_readers_only_deadlock Hang ReadersOnly<true>, ReadersOnly<false>: "Windows SRW lock: a reader is let in as if it were a writer";
    30 parking_lot_recursive_read_behind_a_writer Hang Recursive<true>, Recursive<false>: "parking_lot: a recursive read waits behind a writer that waits for its first";
    31 parking_lot_upgrade_twice_underflows Check Upgraded<true>, Upgraded<false>: "parking_lot: the way back from an upgrade does not restore the upgradable count";
    32 shuttle_upgrade_not_atomic Check Upgrade<true>, Upgrade<false>: "shuttle's own RwLock model: another writer comes in during an upgrade";
};

/// Bit 0: writer; above: queued readers in sixteens. A downgrade admits those that it counted.
#[derive(Default)]
struct Downgrade<const BUG: bool> {
    word: W,
    admitted: W,
}

impl<const BUG: bool> Model for Downgrade<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        if me == 0 {
            add(&self.word, 1);
            pause();
            let seen = if BUG {
                let seen = get(&self.word);
                pause();
                set(&self.word, 0);
                seen
            } else {
                swap(&self.word, 0)
            };
            add(&self.admitted, seen >> 4);
            // Those that come now find no writer.
        } else {
            let before = add(&self.word, 16);
            if before & 1 == 1 {
                until(|| {
                    let left = get(&self.admitted);
                    left > 0 && cas(&self.admitted, left, left - 1)
                });
            }
        }
    }
}

/// Readers that are all inside at the same time; the last of them comes while another leaves.
#[derive(Default)]
struct ReadersOnly<const BUG: bool> {
    /// Readers, or writing, or in between: a reader that leaves takes the lock for a moment to wake
    /// others.
    state: Behind<(u32, bool)>,
    asleep: W,
    inside: W,
    granted: [W; 3],
}

impl<const BUG: bool> Model for ReadersOnly<BUG> {
    const THREADS: usize = 3;

    fn act(&self, me: usize) {
        if me == 0 {
            // Is inside, is about to leave, and for that has the lock to itself for a moment.
            self.state.with(|state| state.1 = true);
            until(|| get(&self.asleep) >= 1);
            // Lets the first sleeper in: as a reader, or (the bug) in its own place.
            for granted in &self.granted[1..] {
                let queued = get(granted) == 1;
                if queued && (!BUG || self.state.with(|state| state.1)) {
                    self.state.with(|state| *state = (state.0 + u32::from(!BUG), BUG));
                    set(granted, 2);
                    wake(granted);
                    if BUG {
                        return;
                    }
                }
            }
            self.state.with(|state| state.1 = false);
        } else {
            until(|| self.state.with(|state| state.1) || get(&self.inside) > 0);
            let joined = self.state.with(|state| {
                let open = !state.1;
                state.0 += u32::from(open);
                open
            });
            if !joined {
                set(&self.granted[me], 1);
                add(&self.asleep, 1);
                // Let in by name, or because nobody is in between any more.
                until(|| get(&self.granted[me]) == 2 || self.state.with(|state| !state.1));
            }
            add(&self.inside, 1);
            until(|| get(&self.inside) == 2);
        }
    }
}

/// A reader that reads again inside, with a writer queued in between; the second read waits for its
/// turn, or says that it is recursive.
#[derive(Default)]
struct Recursive<const BUG: bool> {
    /// Readers; a writer waits.
    state: Behind<(u32, bool)>,
}

impl<const BUG: bool> Model for Recursive<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 0 {
            self.state.with(|state| state.0 += 1);
            until(|| self.state.with(|state| state.1));
            until(|| {
                self.state.with(|state| {
                    let open = !state.1 || !BUG;
                    state.0 += u32::from(open);
                    open
                })
            });
            self.state.with(|state| state.0 -= 2);
        } else {
            until(|| self.state.with(|state| state.0 > 0));
            self.state.with(|state| state.1 = true);
            until(|| self.state.with(|state| state.0 == 0));
        }
    }
}

/// Bit 0: writer; above: the upgradable reader in fours.
#[derive(Default)]
struct Upgraded<const BUG: bool> {
    word: W,
}

impl<const BUG: bool> Model for Upgraded<BUG> {
    const THREADS: usize = 1;

    fn act(&self, _me: usize) {
        const WRITER: u32 = 1;
        const UPGRADABLE: u32 = 4;
        add(&self.word, UPGRADABLE);
        for _ in 0..2 {
            assert!(get(&self.word) >= UPGRADABLE, "an upgrade takes away a count that is not there");
            sub(&self.word, UPGRADABLE);
            add(&self.word, WRITER);
            sub(&self.word, WRITER);
            if !BUG {
                add(&self.word, UPGRADABLE);
            }
        }
    }
}

/// Bit 31: writer; below: readers. An upgrade lets go and asks again, or exchanges the one for the
/// other.
#[derive(Default)]
struct Upgrade<const BUG: bool> {
    word: W,
    value: W,
}

const WRITER: u32 = 1 << 31;

impl<const BUG: bool> Model for Upgrade<BUG> {
    const THREADS: usize = 2;

    fn act(&self, me: usize) {
        if me == 1 {
            until(|| cas(&self.word, 0, WRITER));
            add(&self.value, 1);
            sub(&self.word, WRITER);
            return;
        }
        until(|| {
            let word = get(&self.word);
            word & WRITER == 0 && cas(&self.word, word, word + 1)
        });
        let seen = get(&self.value);
        if BUG {
            sub(&self.word, 1);
            pause();
            until(|| cas(&self.word, 0, WRITER));
        } else {
            until(|| cas(&self.word, 1, WRITER));
        }
        let found = get(&self.value);
        sub(&self.word, WRITER);
        assert_eq!(found, seen, "written during an upgrade");
    }
}
