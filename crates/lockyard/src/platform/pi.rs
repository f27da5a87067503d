//! The seam of priority inheritance: what a lock asks of a machine whose own scheduler lends
//! priorities along PI words.
//!
//! Not every machine has that, so it is a trait of its own. Linux implements it with PI futexes; a
//! machine that offers nothing but "set that thread's priority" runs the generic algorithm instead,
//! with its own tree of waiters.
//!
//! # The PI word
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0–29 | [`OWNER`] | the owner's kernel thread id ([`Known::tid`]); 0: free |
//! | 30 | [`OWNER_DIED`] | the owner exited while it held the word |
//! | 31 | [`WAITERS`] | threads wait in the machine: it alone changes the word now |
//!
//! A lock may exchange 0 for its own thread id, and exactly its own thread id for 0. Everything
//! else is the machine's.

use crate::platform::{Platform, ThreadId};

/// The owner's bits of a PI word.
pub const OWNER: u32 = 0x3fff_ffff;
/// The owner exited while it held the word.
pub const OWNER_DIED: u32 = 1 << 30;
/// Threads wait in the machine.
pub const WAITERS: u32 = 1 << 31;

/// How urgent a thread is by itself, without what others lend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Shares the time that is left: the lowest class. All its members count as equally urgent,
    /// whatever their nice values.
    TimeSharing,
    /// Has a fixed priority (`SCHED_FIFO`, `SCHED_RR`), or one that the machine will not tell.
    RealTime,
    /// Has deadlines (`SCHED_DEADLINE`).
    Deadline,
}

/// A time, in nanoseconds of one of the two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Of [`Platform::now`].
    Monotonic(u64),
    /// Of [`Platform::realtime`]: a setting of that clock moves it.
    Realtime(u64),
}

/// Why the machine did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The deadline passed. The caller does not own the word.
    TimedOut,
    /// The caller owns the word already, or its owner waits, through others, for something that the
    /// caller owns.
    Deadlock,
    /// The word names no living thread of this process.
    NoOwner,
    /// The caller does not own the word.
    NotOwner,
    /// The word waited on has another value, or the wait ended for no reason. The caller does not
    /// own the PI word.
    Changed,
    /// The machine has no memory for the wait just now.
    NoMemory,
    /// The machine cannot do this, now or ever.
    Unsupported,
    /// The word is not what the machine made of it.
    Corrupt,
}

/// The kernel thread id of a thread that was never known: no thread's, and what no PI word ever is.
pub const NOBODY: u32 = u32::MAX;

/// The calling thread, as far as a fast path needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its kernel id.
    pub tid: u32,
    /// How many PI words it holds.
    pub holds: u32,
}

/// A machine that lends priorities along PI words.
///
/// # Safety
///
/// Locks build mutual exclusion on an implementation, which must guarantee that
/// * [`PiPlatform::known`] and [`PiPlatform::register`] give the calling thread's own kernel id,
///   also in the child of a fork, and no two living threads have the same;
/// * `Ok` from [`PiPlatform::lock_pi`] and [`PiPlatform::wait_requeue_pi`] means that the caller
///   owns the word, and what its last owner did before it released the word happened before;
/// * [`PiPlatform::unlock_pi`] gives the word to the most urgent of its waiters, or makes it 0.
pub unsafe trait PiPlatform: Platform {
    /// The calling thread if its id is known: the fast path's question. `None` does not mean that
    /// it has none.
    fn known() -> Option<Known>;

    /// The calling thread as it was last known, for a release: in the child of a fork, until the
    /// thread's id is known again, as it was known in the parent. A word with that id is one that
    /// this very thread took before the fork. If it was never known, its id is [`NOBODY`].
    fn last_known() -> Known;

    /// The calling thread's kernel id. Makes it known to [`PiPlatform::known`] where that is
    /// possible, and its record, if it has one, to [`PiPlatform::thread_of`].
    fn register() -> u32;

    /// Whether the calling thread had the kernel id `tid` before a fork. (It keeps what it held;
    /// the id is the parent's.)
    fn had(tid: u32) -> bool {
        let _ = tid;
        false
    }

    /// The record of the thread with kernel id `tid`. A hint.
    fn thread_of(tid: u32) -> Option<ThreadId>;

    /// Notes how many PI words the calling thread holds. It may note one that it is about to take:
    /// then it goes the way of threads that hold one, for a moment.
    fn set_holds(holds: u32);

    /// How many PI words the calling thread holds.
    fn holds() -> u32;

    /// The calling thread's own class.
    fn class() -> Class;

    /// Waits in the machine until the caller owns `word`, or until `deadline`. Waiters are served
    /// by priority, equals in the order of their arrival; the owner, and the thread it waits for,
    /// is lent the highest of their priorities. A free word is taken at once.
    ///
    /// # Errors
    /// Why the caller does not own the word.
    fn lock_pi(word: &Self::Lanes, deadline: Option<At>) -> Result<(), Refused>;

    /// Releases `word` through the machine.
    ///
    /// # Errors
    /// Why it is not released.
    fn unlock_pi(word: &Self::Lanes) -> Result<(), Refused>;

    /// Sleeps while `*word == expected`; a call of [`PiPlatform::requeue_pi`] moves the sleeper to
    /// `pi`, where it waits as in [`PiPlatform::lock_pi`].
    ///
    /// # Errors
    /// Why the caller does not own `pi`.
    fn wait_requeue_pi(word: &Self::U32, expected: u32, deadline: Option<At>, pi: &Self::Lanes) -> Result<(), Refused>;

    /// If `*word == expected`: lets the most urgent sleeper on `word` (`all`: every one) go on to
    /// own `pi`, or to wait for it.
    ///
    /// `pi` is an address, because its memory may be gone if nobody sleeps any more.
    ///
    /// # Errors
    /// [`Refused::Changed`] if `*word` is another value; otherwise why not.
    fn requeue_pi(word: &Self::U32, expected: u32, all: bool, pi: *const Self::Lanes) -> Result<(), Refused>;

    /// Wakes every thread that sleeps on `word` in [`Platform::park`].
    fn unpark_all(word: &Self::U32);
}
