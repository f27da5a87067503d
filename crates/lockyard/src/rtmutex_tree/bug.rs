//! Bugs that rt-mutexes have had, by their numbers in `spec/rtmutex.md` section 14, to be made
//! again on purpose.
//!
//! A check that has never failed proves little. So each place where history went wrong asks the
//! platform whether it shall go wrong ([`Platform::errs`](crate::platform::Platform::errs)).
//! Machines that programs run on say no at compile time, and nothing of it is left; machines that
//! checks run on are told by the check. Each must notice its bug, and find nothing without it.
//!
//! | no. | not here, because |
//! |---|---|
//! | 2 | spinners compare names and follow nothing, and a record is never unmapped |
//! | 4 | an ordering that is missing has its model in `lockyard-torture`, `history` (`rtmutex_slow_path_without_acquire`) |
//! | 14 | an owner's exit is no state of the algorithm: whoever acts for it calls `release_for_owner`, once |
//! | 15 | a condition variable and a mutex are different types |
//! | 17 | no pointer to the mutex outlives its release: there is no robust list |

/// A bug of section 14, as it looks in this algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The first waiter stops spinning, and who is not first goes on.
    SpinTestInverted = 1,
    /// A walk that changes who is first wakes the one it has requeued.
    WalkWakesRequeued = 3,
    /// Who is refused for a deadlock keeps the wait lock.
    RefusedKeepsWaitLock = 5,
    /// A change of priority among the waiters changes the donors' copy as well.
    OneKeyForBothLists = 6,
    /// A failed proxy lock cleans up the caller's record.
    CleansUpCaller = 7,
    /// What was never queued, or already owns, is taken out of the queue.
    RemovesUnqueued = 8,
    /// The mutex becomes free before the wait lock is dropped.
    ReleasesUnderWaitLock = 9,
    /// The bit is cleared by a store, whether it is set or not.
    ClearsBitBlindly = 10,
    /// Equals steal as often as they like.
    StealsWithoutLimit = 11,
    /// After a steal the books name the wrong lender: the waiter that remains first does not lend
    /// to the new owner.
    StealForgetsDonor = 12,
    /// A mutex that is without owner for a moment is taken for part of a deadlock.
    OwnerlessIsDeadlock = 13,
    /// Who got the mutex when the time was up is told that it has not.
    TimeoutBeatsOwnership = 16,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::SpinTestInverted,
        Self::WalkWakesRequeued,
        Self::RefusedKeepsWaitLock,
        Self::OneKeyForBothLists,
        Self::CleansUpCaller,
        Self::RemovesUnqueued,
        Self::ReleasesUnderWaitLock,
        Self::ClearsBitBlindly,
        Self::StealsWithoutLimit,
        Self::StealForgetsDonor,
        Self::OwnerlessIsDeadlock,
        Self::TimeoutBeatsOwnership,
    ];

    /// Its number in section 14.
    pub const fn number(self) -> u8 {
        self as u8
    }
}
