//! What a thread does next: drawn from a seed, so that a run's operations can be repeated.
//!
//! The shares follow the suites that found bugs with them: most operations block; deadlines lie in
//! the past, now, and shortly after; sections are mostly tiny and rarely long; think times
//! likewise. Of several locks the first is used most (Zipf).

use lockyard_catalog::lock::Way;
use lockyard_check::stage::Dice;

/// How a lock is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Waits for as long as it takes.
    Block,
    /// Does not wait.
    Try,
    /// Waits until so many nanoseconds from now; `None` is a deadline in the past.
    Deadline(Option<u64>),
    /// Waits until somebody cancels.
    Token,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The lock.
    pub lock: usize,
    /// How it is held.
    pub way: Way,
    /// How it is asked for.
    pub entry: Entry,
    /// Time in the section, ns.
    pub section: u64,
    /// The section is slept away, not computed.
    pub sleeps: bool,
    /// Turns a write lock into a read lock in between.
    pub downgrades: bool,
    /// A second lock is taken inside: the distance to it.
    pub nested: Option<usize>,
    /// A reference is taken and given back first, if the lock has a count.
    pub aside: bool,
    /// Another thread's wait is cancelled: before the release (`Some(false)`), after it
    /// (`Some(true)`), or not.
    pub cancels: Option<bool>,
    /// Time until the next operation, ns.
    pub think: u64,
}

/// How long things take on this kind of machine.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The longest sleep with a lock held, ns.
    pub nap: u64,
    /// One in so many sections is slept.
    pub naps_one_in: u32,
}

impl Operation {
    /// Draws one for a run with `locks` locks.
    pub fn draw(dice: &mut Dice, locks: usize, pace: Pace) -> Self {
        let entry = match dice.roll(100) {
            0..50 => Entry::Block,
            50..65 => Entry::Try,
            65..85 => Entry::Deadline(match dice.roll(8) {
                0 => None,
                1 => Some(0),
                2 | 3 => Some(1_000),
                4 | 5 => Some(50_000),
                6 => Some(1 + u64::from(dice.roll(500_000))),
                _ => Some(10_000_000),
            }),
            _ => Entry::Token,
        };
        let sleeps = dice.roll(pace.naps_one_in) == 0;
        Self {
            lock: zipf(dice, locks),
            way: if dice.roll(2) == 0 { Way::Read } else { Way::Write },
            entry,
            section: if sleeps { pace.nap } else { length(dice) },
            sleeps,
            downgrades: dice.roll(4) == 0,
            nested: (dice.roll(8) == 0).then(|| 1 + dice.roll(3) as usize),
            aside: dice.roll(4) == 0,
            cancels: match dice.roll(6) {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            think: length(dice),
        }
    }
}

/// Lengths of sections and of the time between: mostly nothing, rarely long.
fn length(dice: &mut Dice) -> u64 {
    match dice.roll(100) {
        0..40 => 0,
        40..65 => 50,
        65..88 => 2_000,
        88..97 => 20_000,
        _ => 100_000,
    }
}

/// Lock i with a share proportional to 1 / (i + 1).
fn zipf(dice: &mut Dice, locks: usize) -> usize {
    const UNIT: u32 = 2_520;
    let share = |lock: usize| UNIT / (lock as u32 + 1);
    let mut rest = dice.roll((0..locks).map(share).sum::<u32>().max(1));
    for lock in 0..locks {
        match rest.checked_sub(share(lock)) {
            Some(left) => rest = left,
            None => return lock,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lock_is_used_most_and_every_entry_occurs() {
        let mut dice = Dice::new(5);
        let pace = Pace { nap: 1_000, naps_one_in: 50 };
        let drawn: Vec<Operation> = (0..10_000).map(|_| Operation::draw(&mut dice, 3, pace)).collect();
        let uses = |lock| drawn.iter().filter(|operation| operation.lock == lock).count();
        assert!(uses(0) > uses(1) && uses(1) > uses(2) && uses(2) > 1_000, "{} {} {}", uses(0), uses(1), uses(2));
        for entry in [Entry::Block, Entry::Try, Entry::Token, Entry::Deadline(None), Entry::Deadline(Some(0))] {
            assert!(drawn.iter().any(|operation| operation.entry == entry), "{entry:?}");
        }
        assert!(drawn.iter().any(|operation| operation.sleeps && operation.section == 1_000));
    }
}
