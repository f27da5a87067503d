//! Locks with what they protect, and the threads' seats.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use lockyard::cancel::CancelToken;
use lockyard::platform::Platform;
use lockyard_catalog::lock::Way;
use lockyard_check::data::Data;

use crate::catalog::Entry;
use crate::ground::Ground;
use crate::ring::Ring;
use crate::subject::Subject;

/// A lock and what it protects.
pub(crate) struct Slot<P: Ground> {
    pub(crate) subject: Box<dyn Subject<P>>,
    pub(crate) data: Box<Data<P>>,
    /// Holders, where several may be inside.
    pub(crate) inside: AtomicU32,
    pub(crate) grants: AtomicU64,
    /// When it was granted or released last.
    pub(crate) moved: AtomicU64,
    pub(crate) writes: AtomicU64,
    /// Threads that have come to a mortal lock, those that have yet to have it, and those that have
    /// yet to return.
    pub(crate) arrived: AtomicU32,
    pub(crate) left: AtomicU32,
    pub(crate) staying: AtomicU32,
}

impl<P: Ground> fmt::Debug for Slot<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("state", &self.subject.state()).finish_non_exhaustive()
    }
}

impl<P: Ground> Slot<P> {
    pub(crate) fn new(entry: &Entry<P>, threads: usize) -> Self {
        Self {
            subject: (entry.make)(),
            data: Box::default(),
            inside: AtomicU32::new(0),
            grants: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            arrived: AtomicU32::new(0),
            left: AtomicU32::new(threads as u32),
            staying: AtomicU32::new(threads as u32),
        }
    }

    /// Addresses and sizes of what the lock protects.
    pub(crate) fn protected(&self) -> Vec<(usize, usize)> {
        if self.subject.units() == 1 { self.data.protected().collect() } else { Vec::new() }
    }

    /// The protected section of thread `me`.
    pub(crate) fn section(&self, me: usize, way: Way) {
        let units = self.subject.units();
        if units > 1 {
            let inside = self.inside.fetch_add(1, Relaxed) + 1;
            assert!(inside <= units, "{inside} threads hold {units} units");
            P::nap(0);
            self.inside.fetch_sub(1, Relaxed);
            return;
        }
        match way {
            Way::Write => {
                self.data.write(me);
                self.writes.fetch_add(1, Relaxed);
            }
            Way::Read => self.data.read(),
        }
    }

    pub(crate) fn finish(&self, number: usize) {
        if self.subject.units() == 1 {
            self.data.finish(self.writes.load(Relaxed));
        }
        let state = self.subject.state();
        assert!(self.subject.at_rest(), "something is left in lock {number}, which nobody uses any more: {state}");
    }
}

/// How many tokens a thread waits with before it does without.
const TOKENS: usize = 24;

#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Token<P: Platform>(pub(crate) CancelToken<P>);

/// A thread's place: what others may know of it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Seat<P: Platform> {
    pub(crate) ring: Ring,
    /// The lock that it waits for without an end of its own, plus one; 0: it does not.
    pub(crate) waits_for: AtomicUsize,
    /// The lock in whose call it may be stopped, plus one; 0: it is in none.
    pub(crate) calls: AtomicUsize,
    /// Since when, and how many grants the lock had seen.
    pub(crate) since: AtomicU64,
    pub(crate) grants_then: AtomicU64,
    /// Operations begun.
    pub(crate) begun: AtomicU64,
    /// Acquisitions.
    pub(crate) taken: AtomicU64,
    /// The longest blocking wait, ns.
    pub(crate) longest: AtomicU64,
    /// Waits that ended without the lock.
    pub(crate) gave_up: AtomicU64,
    pub(crate) done: AtomicBool,
    pub(crate) tokens: Box<[Token<P>]>,
    /// The number of the token it waits with, plus one; 0: none.
    pub(crate) token: AtomicUsize,
    /// When that one had been cancelled; 0: not yet.
    pub(crate) cancelled: AtomicU64,
}

impl<P: Platform> Seat<P> {
    pub(crate) fn new() -> Self {
        Self {
            ring: Ring::default(),
            waits_for: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            grants_then: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            gave_up: AtomicU64::new(0),
            done: AtomicBool::new(false),
            tokens: (0..TOKENS).map(|_| Token(CancelToken::default())).collect(),
            token: AtomicUsize::new(0),
            cancelled: AtomicU64::new(0),
        }
    }
}

/// What the threads of a child may use.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// The number of the lock, plus one, twice; and one more if the forking thread read. 0: this is
    /// no child.
    packed: AtomicUsize,
}

impl Inherited {
    pub(crate) fn get(&self) -> Option<(usize, Way)> {
        let packed = self.packed.load(Relaxed);
        let way = if packed % 2 == 1 { Way::Read } else { Way::Write };
        (packed / 2).checked_sub(1).map(|number| (number, way))
    }

    pub(crate) fn set(&self, number: usize, way: Way) {
        self.packed.store(2 * (number + 1) + usize::from(way == Way::Read), Relaxed);
    }
}
