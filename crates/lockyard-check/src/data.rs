//! What the locks under test protect: words that a broken lock spoils, and the checks that notice.
//!
//! The words are relaxed atomics of the platform, not plain memory: on every real machine they
//! compile to the same loads and stores, a model checker sees each access and gives stale values
//! where orderings allow them, and a broken lock makes a check fail, not the behaviour undefined.
//! Related words lie on different cache lines.

use lockyard::platform::{Ordering::Relaxed, Platform, Word};

use crate::stage::Stage;

#[derive(Debug)]
#[repr(align(128))]
struct Cell<P: Platform>(P::U64);

impl<P: Platform> Default for Cell<P> {
    fn default() -> Self {
        Self(P::U64::default())
    }
}

impl<P: Platform> Cell<P> {
    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// Readers count 1 in [`Data`]'s activity, writers this much.
const WRITER: u32 = 10_000;

/// The protected words.
#[derive(Debug)]
pub struct Data<P: Platform> {
    /// Who is in a write section: 0, or the thread's number + 1.
    owner: Cell<P>,
    /// x and −x.
    balance: [Cell<P>; 2],
    /// How many write sections there were, in every cell the same.
    turns: [Cell<P>; 4],
    /// A hash chain over all write sections: each must see the last one's.
    chain: Cell<P>,
    /// Outside the lock's protection: who is inside now.
    activity: P::U32,
}

impl<P: Platform> Default for Data<P> {
    fn default() -> Self {
        Self {
            owner: Cell::default(),
            balance: Default::default(),
            turns: Default::default(),
            chain: Cell::default(),
            activity: P::U32::default(),
        }
    }
}

/// The next link of the chain.
fn link(chain: u64, turn: u64) -> u64 {
    (chain ^ turn).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

impl<P: Stage> Data<P> {
    /// A write section of thread `me`: call it with the lock held alone.
    pub fn write(&self, me: usize) {
        let active = self.activity.fetch_add(WRITER, Relaxed) + WRITER;
        assert_eq!(active, WRITER, "a writer is not alone");
        let me = me as u64 + 1;
        assert_eq!(self.owner.get(), 0, "the lock was free, yet its data has an owner");
        self.owner.set(me);

        let turn = self.whole();
        self.balance[0].set(self.balance[0].get().wrapping_add(1));
        // Sometimes another thread runs here: on a machine with few CPUs the section would seldom
        // be cut otherwise.
        if turn.is_multiple_of(32) {
            P::nap(0);
        }
        self.balance[1].set(self.balance[1].get().wrapping_sub(1));
        self.chain.set(link(self.chain.get(), turn));
        for cell in &self.turns {
            cell.set(turn + 1);
        }

        assert_eq!(self.owner.get(), me, "somebody else was in the section");
        self.owner.set(0);
        assert_eq!(self.activity.fetch_sub(WRITER, Relaxed), WRITER, "somebody came in during a write section");
    }

    /// A read section: call it with the lock held.
    pub fn read(&self) {
        let active = self.activity.fetch_add(1, Relaxed) + 1;
        assert!(active < WRITER, "a reader meets a writer");
        assert_eq!(self.owner.get(), 0, "a reader meets an owner");
        let turn = self.whole();
        if turn.is_multiple_of(32) {
            P::nap(0);
        }
        assert_eq!(self.whole(), turn, "something was written during a read section");
        let active = self.activity.fetch_sub(1, Relaxed);
        assert!((1..WRITER).contains(&active), "a writer came in during a read section");
    }

    /// Addresses and sizes of the words that the lock protects.
    pub fn protected(&self) -> impl Iterator<Item = (usize, usize)> {
        let cells = [&self.owner, &self.balance[0], &self.balance[1], &self.chain].into_iter().chain(&self.turns);
        cells.map(|cell| (std::ptr::from_ref(cell).addr(), size_of::<Cell<P>>()))
    }

    /// The number of write sections, if everything is as between two of them.
    fn whole(&self) -> u64 {
        let turn = self.turns[0].get();
        assert!(self.turns.iter().all(|cell| cell.get() == turn), "a half-written pattern");
        assert_eq!(self.balance[0].get(), turn, "a lost update");
        assert_eq!(self.balance[1].get(), turn.wrapping_neg(), "a lost update, or half of one");
        turn
    }

    /// After all threads are done: `turns` write sections happened, each after the last.
    pub fn finish(&self, turns: u64) {
        assert_eq!(self.whole(), turns, "as many write sections as acquisitions");
        assert_eq!(self.chain.get(), (0..turns).fold(0, link), "each section saw what the last one wrote");
        assert_eq!(self.activity.load(Relaxed), 0);
    }
}
