//! When a hierarchical lock leaves its plain queue: what each head counts, and tells the next.
//!
//! **Hand-overs.** A head counts one as it leaves, unless the waiter behind it is the one that was
//! before it: of two waiters that alternate none is counted.
//!
//! **Changes of node.** A head counts one if its lane is not that of the last head that knew its
//! own. A head does not know its lane if it found nobody queued, or was made head within
//! [`Tunable::WaitBeforeLook`]. It does not look then: it would look while it holds the lock or
//! the lock is free.
//!
//! **Test.** At the first change of node, and at each that makes their number a multiple of
//! [`LOOK`], the head reads the tunables. It goes on to count waiters if both numbers are above
//! [`Tunable::GeneralHandoffsTurnNuma`] and [`Tunable::RemoteHandoffsTurnNuma`], each times 2 to
//! the power of `vain`; or, with `vain` 0, if the last stay in hierarchical mode paid.
//!
//! **Waiters.** The head reads the nodes behind it. It turns if it finds
//! [`Tunable::WaitersPerLaneTurnNuma`] waiters for each lane that occurs among them. On an exact
//! machine a waiter that sleeps, because its CPU is needed, does not count.
//!
//! **In vain.** With too few waiters, no free record, or no linked waiter as the head leaves, both
//! numbers begin anew, and `vain` grows by 1: the count reads a line of every waiter, and each must
//! fetch its line back. After a stay that a head has ended early, `vain` is [`AFTER_VAIN_STAY`].
//! A head that finds nobody queued begins with `vain` 0.

use crate::platform::thread::NodeName;
use crate::platform::{Ordering::*, Platform, Word};
use crate::spin::node::{Place, QueueNode, TOLD};

use super::RawHqSpinLock;
use super::pool::{Pool, lane_count};
use super::tunables::Tunable;

/// From 50 hand-overs to 25,600.
pub(super) const MOST_VAIN: u8 = 9;
/// After a stay that did not pay: 1,600. It takes a hundred to find that out, and so few in so many
/// are not felt.
pub(super) const AFTER_VAIN_STAY: u8 = 5;
/// The bit that says so in what a head is told; 48 and 49 have a `Visit`'s mark.
pub(super) const RIPE: u32 = 50;
const _: () = assert!(RIPE < TOLD);
/// So many changes of the node from one look at the tunables to the next.
const LOOK: u16 = 4;

/// What a head in plain mode knows of this busy period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub(super) handoffs: u16,
    /// Those that changed the node.
    pub(super) remote: u16,
    /// The lane of the last head, + 1; 0: it found nobody queued, and has not looked where it is.
    pub(super) lane: u8,
    /// How often there were too few waiters to turn: each time it takes twice as many hand-overs to
    /// the next count, which reads a line of every waiter's.
    pub(super) vain: u8,
    /// It is time to turn.
    pub(super) ripe: bool,
}

impl Past {
    pub(super) fn unpack(word: u64) -> Self {
        Self {
            handoffs: word as u16,
            remote: (word >> 16) as u16,
            lane: (word >> 32) as u8,
            vain: (word >> 40) as u8,
            ripe: word >> RIPE & 1 != 0,
        }
    }

    pub(super) fn pack(self) -> u64 {
        u64::from(self.handoffs)
            | u64::from(self.remote) << 16
            | u64::from(self.lane) << 32
            | u64::from(self.vain) << 40
            | u64::from(self.ripe) << RIPE
    }

    /// What the new head `place` makes of what it was told.
    pub(super) fn account<P: Platform>(self, lock: &RawHqSpinLock<P>, place: &Place<P>) -> Self {
        let lane = place.lane as u8;
        let moved = self.lane != 0 && self.lane != lane;
        let past = Self { remote: self.remote.saturating_add(moved.into()), lane, ..self };
        if !moved {
            // Nothing more to do in a queue of one node.
            return past;
        }
        if !(past.remote == 1 || past.remote.is_multiple_of(LOOK)) {
            return past;
        }
        let pool = P::commons().pool;
        let more = |count: u16, than: Tunable| u32::from(count) > pool.tunables().get(than) << past.vain;
        let contended =
            more(past.handoffs, Tunable::GeneralHandoffsTurnNuma) && more(past.remote, Tunable::RemoteHandoffsTurnNuma);
        let warm = past.vain == 0 && pool.is_warm(P::key(lock));
        if !(contended || warm) || lane_count(pool) == 1 {
            return past;
        }
        if is_crowded(place.node, pool) { Self { ripe: true, ..past } } else { past.afresh() }
    }

    /// From the beginning, for twice as many hand-overs.
    pub(super) fn afresh(self) -> Self {
        Self { handoffs: 0, remote: 0, vain: (self.vain + 1).min(MOST_VAIN), ripe: false, ..self }
    }
}

/// Whether there are enough waiters behind the head for each lane that occurs. Lanes of one waiter
/// would make every hand-over a remote one; and to wake a waiter costs more than any distance, so
/// that waiters that sleep for want of a CPU do not count.
fn is_crowded<P: Platform>(head: &'static QueueNode<P>, pool: &Pool<P>) -> bool {
    let crowd = pool.tunables().get(Tunable::WaitersPerLaneTurnNuma);
    let (mut node, mut seen, mut waiters) = (head, 0u64, 0);
    for _ in 0..crowd * lane_count(pool) {
        let Some(next) = NodeName::from_raw(node.next.load(Acquire)).and_then(NodeName::node) else { break };
        node = next;
        if !node.gives_way() {
            seen |= 1 << (node.lane.load(Relaxed) % 64);
            waiters += 1;
        }
    }
    waiters > 0 && waiters >= crowd * seen.count_ones()
}
