//! A lock as torture sees it: one interface for all, which says what it cannot do.

use std::fmt::Debug;

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard_catalog::adapters::Units;
use lockyard_catalog::lock::{Count, Hashed, Last, Lock, References, Shared, Timed, Way};

use crate::ground::Ground;

/// A lock under torture.
pub trait Subject<P: Ground>: Send + Sync + Debug {
    /// The ways in which it can be held.
    fn ways(&self) -> &'static [Way];

    /// How many may hold it at once for writing: 1, or a semaphore's units.
    fn units(&self) -> u32;

    /// Takes it.
    fn lock(&self, way: Way);

    /// Takes it if that is possible now.
    fn try_lock(&self, way: Way) -> bool;

    /// Takes it unless `until` comes first. `None`: it has no such waits, and nothing has happened.
    fn lock_until(&self, way: Way, until: Until<'_, P>) -> Option<Result<(), GaveUp>>;

    /// Releases it.
    ///
    /// # Safety
    /// The caller holds it that way.
    unsafe fn unlock(&self, way: Way);

    /// From writing to reading. `false`: it cannot, and nothing has happened.
    ///
    /// # Safety
    /// The caller holds it for writing.
    unsafe fn downgrade(&self) -> bool;

    /// Whatever else it does that must not disturb: a reference taken and given back.
    fn aside(&self) {}

    /// Whether nobody holds it in a way that excludes `way`, whoever waits.
    fn is_open(&self, way: Way) -> bool;

    /// Whether nothing is left of anybody.
    fn at_rest(&self) -> bool;

    /// Its state as text.
    fn state(&self) -> String;

    /// Nobody may touch it from now on.
    fn freed(&self);

    /// Gives its memory a name in reports.
    fn name(&self, register: &mut dyn FnMut(usize, usize));
}

type WaitUntil<L> = fn(&L, Way, Until<'_, <L as Lock>::P>) -> Result<(), GaveUp>;

/// A lock with what it can do. On lines of its own, so that simulated lines do not depend on where
/// the host put it.
#[derive(Debug)]
#[repr(align(128))]
struct Rigged<L: Lock> {
    lock: L,
    units: u32,
    until: Option<WaitUntil<L>>,
    downgrade: Option<unsafe fn(&L)>,
    aside: Option<fn(&L)>,
}

impl<L: Lock> Rigged<L> {
    fn new() -> Self {
        Self { lock: L::default(), units: 1, until: None, downgrade: None, aside: None }
    }
}

/// A lock that can do nothing else. The names of this and the next are those of the
/// [list](lockyard_catalog::list)'s traits.
pub fn lock<P: Ground, L: Lock<P = P> + 'static>() -> Box<dyn Subject<P>> {
    Box::new(Rigged::<L>::new())
}

/// A lock whose waits can end early.
pub fn timed<P: Ground, L: Timed<P = P> + 'static>() -> Box<dyn Subject<P>> {
    Box::new(Rigged::<L> { until: Some(L::lock_until), ..Rigged::new() })
}

/// A lock with readers.
pub fn shared<P: Ground, L: Shared<P = P> + 'static>() -> Box<dyn Subject<P>> {
    Box::new(Rigged::<L> { downgrade: Some(L::downgrade), ..Rigged::new() })
}

/// A lock with readers whose waits can end early.
pub fn shared_timed<P: Ground, L: Shared<P = P> + Timed + 'static>() -> Box<dyn Subject<P>> {
    Box::new(Rigged::<L> { downgrade: Some(L::downgrade), until: Some(L::lock_until), ..Rigged::new() })
}

/// A lock with a reference count, which is taken and given back beside it.
pub fn references<P: Ground, L: References<P = P> + 'static>() -> Box<dyn Subject<P>> {
    fn reference<L: References>(lock: &L) {
        lock.get();
        if lock.put_return().is_none() {
            lock.put_or(|_| Last::Put);
        }
    }
    Box::new(Rigged::<L> { aside: Some(reference::<L>), ..Rigged::new() })
}

/// A lock on a futex hash.
pub fn hashed<P: Ground, L: Hashed<P = P> + 'static>() -> Box<dyn Subject<P>> {
    lock::<P, L>()
}

/// A semaphore of several units.
pub fn count<P: Ground, S: Count<P = P> + 'static>() -> Box<dyn Subject<P>> {
    Box::new(Rigged::<Units<S, UNITS>> { units: UNITS, until: Some(Timed::lock_until), ..Rigged::new() })
}

/// The same: torture takes one unit at a time.
pub fn weigh<P: Ground, S: Count<P = P> + 'static>() -> Box<dyn Subject<P>> {
    count::<P, S>()
}

const UNITS: u32 = 3;

impl<P: Ground, L: Lock<P = P>> Subject<P> for Rigged<L> {
    fn ways(&self) -> &'static [Way] {
        L::WAYS
    }

    fn units(&self) -> u32 {
        self.units
    }

    fn lock(&self, way: Way) {
        self.lock.lock(way);
    }

    fn try_lock(&self, way: Way) -> bool {
        self.lock.try_lock(way)
    }

    fn lock_until(&self, way: Way, until: Until<'_, P>) -> Option<Result<(), GaveUp>> {
        self.until.map(|wait| wait(&self.lock, way, until))
    }

    unsafe fn unlock(&self, way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock(way) };
    }

    unsafe fn downgrade(&self) -> bool {
        // SAFETY: the caller's promise.
        self.downgrade.map(|downgrade| unsafe { downgrade(&self.lock) }).is_some()
    }

    fn aside(&self) {
        if let Some(aside) = self.aside {
            aside(&self.lock);
        }
    }

    fn is_open(&self, way: Way) -> bool {
        self.lock.is_open(way)
    }

    fn at_rest(&self) -> bool {
        self.lock.at_rest()
    }

    fn state(&self) -> String {
        self.lock.state()
    }

    fn freed(&self) {
        P::freed(&self.lock);
    }

    fn name(&self, register: &mut dyn FnMut(usize, usize)) {
        register(std::ptr::from_ref(&self.lock).addr(), size_of::<L>());
    }
}
