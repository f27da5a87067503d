//! What a test needs of a machine beyond what a lock needs: threads to run, and a way to see that
//! one of them waits.
//!
//! A [`Stage`] is a [`Platform`] on which the suite can be performed. The real machine is one
//! (`native`), the scripted theatre another (`scripted`); a simulator or a model checker becomes
//! one by implementing the trait. Everything else that a case uses is built here, from the seam
//! alone: [`until`] waits for a condition, [`Steps`] orders threads, [`Seats`] tells which threads
//! are queued for a lock.

use lockyard::platform::thread::ThreadId;
use lockyard::platform::{Ordering::*, Platform, Word};

/// How big the cases are. A model checker sets everything to its smallest value.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Acquisitions per thread in cases that hammer a lock.
    pub rounds: u32,
    /// Acquisitions per thread in cases where each is expected to sleep.
    pub sleeps: u32,
    /// Threads in cases that hammer a lock.
    pub threads: usize,
    /// Threads in the cases of oversubscription.
    pub crowd: usize,
    /// Threads in the case of threads that live for one acquisition.
    pub short_lived: usize,
    /// Waiters in the longest queue that a case builds.
    pub queue: usize,
    /// A timeout that should not pass before its waiter has queued. Too short costs coverage, never
    /// correctness.
    pub timeout_ns: u64,
}

/// A platform on which the suite can be performed.
pub trait Stage: Platform {
    /// How big the cases are here.
    const SCALE: Scale;

    /// Performs one case. The stage decides how often and under what supervision: natively once,
    /// with a watchdog; under a model checker once for every interleaving.
    fn perform(name: &'static str, case: fn());

    /// Runs `act(0)` to `act(threads - 1)` at the same time and returns when all have; panics if
    /// one did.
    fn run(threads: usize, act: impl Fn(usize) + Sync);

    /// Whether a thread of the current [`Stage::run`] has panicked: waiting for it would be in
    /// vain.
    fn failed() -> bool {
        false
    }
}

/// Waits until `condition` holds. Panics if another thread of the case has, so that one failed
/// check does not become a hang.
pub fn until<P: Stage>(mut condition: impl FnMut() -> bool) {
    let failed = P::wait_window(|| if condition() { Some(false) } else { P::failed().then_some(true) });
    assert!(!failed, "waited for a thread whose own check had failed");
}

/// Acts until `act` says that it is enough, and lets others run in between. For what is more than
/// looking: [`until`] must neither wait nor wake. Panics as that does.
pub fn act_until<P: Stage>(mut act: impl FnMut() -> bool) {
    while !act() {
        assert!(!P::failed(), "acted for a thread whose own check had failed");
        P::nap(0);
    }
}

/// A counter that threads advance and wait for: what happened before an advance is visible after
/// the wait.
#[derive(Debug)]
pub struct Steps<P: Platform>(P::U32);

impl<P: Stage> Default for Steps<P> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Stage> Steps<P> {
    /// One step further. Returns how many there are now.
    pub fn advance(&self) -> u32 {
        self.0.fetch_add(1, AcqRel) + 1
    }

    /// Takes an advance back.
    pub fn retreat(&self) {
        self.0.fetch_sub(1, AcqRel);
    }

    /// How many steps were made.
    pub fn count(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Waits until there are at least `count`.
    pub fn wait_for(&self, count: usize) {
        until::<P>(|| self.count() as usize >= count);
    }
}

/// Who sits where: lets one thread see whether another waits in a lock.
#[derive(Debug)]
pub struct Seats<P: Platform>(Vec<P::U32>);

impl<P: Stage> Seats<P> {
    /// `count` empty seats.
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| P::U32::default()).collect())
    }

    /// The calling thread takes `seat`. Anonymous threads (registry exhausted) cannot be watched.
    pub fn sit(&self, seat: usize) {
        let me = P::current().expect("a test thread has a record");
        self.0[seat].store(me.id().raw(), Release);
    }

    /// The thread on `seat`, if somebody sits there.
    pub fn occupant(&self, seat: usize) -> Option<ThreadId> {
        ThreadId::from_raw(self.0[seat].load(Acquire))
    }

    /// Whether the thread on `seat` is in a lock's queue now, or about to enter one or leave it. A
    /// thread is in no queue outside lock calls.
    pub fn queued(&self, seat: usize) -> bool {
        self.occupant(seat).is_some_and(|id| !P::thread(id).is_idle())
    }

    /// Waits until the thread on `seat` is in a lock's queue.
    pub fn wait_queued(&self, seat: usize) {
        until::<P>(|| self.queued(seat));
    }
}

/// A small generator of pseudo-random numbers (xorshift64*): the same on every stage.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % u64::from(sides)) as u32
    }
}
