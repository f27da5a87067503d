//! Lockyard's locks behind the traits, each once.

mod bundle;
pub mod embedded;
pub mod hashed;
mod lockref;

use core::any::Any;

use lockyard::GaveUp;
use lockyard::cancel::Until;
use lockyard::history::{self, KernelQRwLock, KernelRwSem, KernelSemaphore};
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::pi::PiPlatform;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex::{self, PiError, RawRtMutex};
use lockyard::rtmutex_tree::{self, RawTreeRtMutex, Refused};
use lockyard::rwsem::RawRwSem;
use lockyard::rwsem::apart::{self, RawApartRwSem};
use lockyard::semaphore::{self, RawSemaphore};
use lockyard::spin::hq::{RawHqSpinLock, Tunable};
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::queued::{Kind, RawQueuedSpinLock};
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;

pub use bundle::Bundle;

use crate::lock::{Count, Lock, Shared, Timed, Way};

macro_rules! exclusive {
    ($lock:ident $(<$kind:ident: $bound:ident>)? $(, $more:item)*) => {
        impl<P: Platform $(, $kind: $bound<P>)?> Lock for $lock<P $(, $kind)?> {
            type P = P;

            #[inline(always)]
            fn lock(&self, _way: Way) {
                self.acquire();
            }

            fn try_lock(&self, _way: Way) -> bool {
                self.try_acquire()
            }

            #[inline(always)]
            unsafe fn unlock(&self, _way: Way) {
                // SAFETY: the caller's promise.
                unsafe { self.release() };
            }

            $($more)*
        }
    };
}

exclusive!(
    RawMutex,
    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    }
);
// The type bit stays.
exclusive!(
    RawQueuedSpinLock<K: Kind>,
    // Its locked byte. (`is_locked` counts waiters, too.)
    fn is_open(&self, _way: Way) -> bool {
        self.raw() & 0xff == 0
    },
    fn at_rest(&self) -> bool {
        self.raw() & !u32::from(K::REST) == 0
    },
    // Of the hierarchical kind: hand-overs, while it is in hierarchical mode.
    fn statistics(&self) -> Vec<(&'static str, u64)> {
        let lock: &dyn Any = self;
        let counted = lock.downcast_ref::<RawHqSpinLock<P>>().and_then(RawHqSpinLock::statistics);
        counted.map_or_else(Vec::new, |found| vec![("local", found.local.into()), ("remote", found.remote.into())])
    }
);
exclusive!(
    RawMcsLock,
    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    }
);
exclusive!(
    RawTtasLock,
    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    }
);
// Its numbers go on: free is not all-zero once it has been used.
exclusive!(
    RawTicketLock,
    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    },
    fn at_rest(&self) -> bool {
        !self.is_locked()
    }
);

/// Lets hierarchical spinlocks queue by node with hardly any contention, and leave a node soon;
/// where there is one node only, with so many `lanes`.
pub fn turn_early<P: Platform>(lanes: u32) {
    let tunables = P::commons().pool.tunables();
    for (tunable, value) in [
        (Tunable::FairnessThreshold, 2),
        (Tunable::GeneralHandoffsTurnNuma, 0),
        (Tunable::RemoteHandoffsTurnNuma, 0),
        (Tunable::WaitersPerLaneTurnNuma, 1),
        (Tunable::WaitBeforeLook, 0),
        (Tunable::LocalHandoffsToIncreaseRemotes, 0),
        (Tunable::Lanes, if P::nodes() > 1 { 0 } else { lanes }),
    ] {
        tunables.set(tunable, value).expect("in range");
    }
}

/// A hierarchical spinlock that [turns early](turn_early); with `LANES` 0 it queues by node
/// whatever the machine. It begins in memory that nobody has initialised: the thread that takes it
/// first has more to do, and what it does after that is what a lock made by its constructor does.
#[derive(Debug)]
pub struct EagerHq<P: Platform, const LANES: u32 = 3>(pub RawHqSpinLock<P>);

impl<P: Platform, const LANES: u32> Default for EagerHq<P, LANES> {
    fn default() -> Self {
        turn_early::<P>(LANES);
        Self(RawHqSpinLock::zeroed())
    }
}

impl<P: Platform, const LANES: u32> Lock for EagerHq<P, LANES> {
    type P = P;

    fn lock(&self, way: Way) {
        self.0.lock(way);
    }

    fn try_lock(&self, way: Way) -> bool {
        self.0.try_lock(way)
    }

    unsafe fn unlock(&self, way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock(way) };
    }

    fn is_open(&self, way: Way) -> bool {
        self.0.is_open(way)
    }

    fn at_rest(&self) -> bool {
        self.0.at_rest()
    }
}

/// Readers that go apart with the first read, and come together with each write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Restless;

impl apart::Policy for Restless {
    const ENOUGH: u32 = 1;
    const AT_ONCE: bool = true;
    const FEW: u32 = u32::MAX;
    const POOR: u32 = 1;
}

impl<P: Platform> Timed for RawMutex<P> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.acquire_until(until)
    }
}

/// No case makes a deadlock, so one that is reported is a defect.
impl<P: Platform, Y: rtmutex_tree::policy::Policy> Lock for RawTreeRtMutex<P, Y> {
    type P = P;

    #[inline(always)]
    fn lock(&self, _way: Way) {
        self.acquire().unwrap_or_else(|cycle| panic!("{cycle}"));
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.try_acquire()
    }

    #[inline(always)]
    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise: it is the owner, or acts for one that has gone.
        unsafe {
            if self.release().is_err() {
                self.release_for_owner();
            }
        }
    }

    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    }
}

impl<P: Platform, Y: rtmutex_tree::policy::Policy> Timed for RawTreeRtMutex<P, Y> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.acquire_until(until).map_err(|refused| match refused {
            Refused::TimedOut => GaveUp::TimedOut,
            Refused::Cancelled => GaveUp::Cancelled,
            Refused::Deadlock(cycle) => panic!("{cycle}"),
        })
    }
}

impl<P: Platform + PiPlatform, S: rtmutex::Policy> Lock for RawRtMutex<P, S> {
    type P = P;
    const RELEASED_BY_OTHERS: bool = false;

    #[inline(always)]
    fn lock(&self, _way: Way) {
        if let Err(refused) = self.acquire() {
            panic!("a mutex that can be locked is refused to {:?}: {refused:?}, {self:?}", P::known());
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.try_acquire()
    }

    #[inline(always)]
    unsafe fn unlock(&self, _way: Way) {
        // SAFETY: the caller's promise.
        unsafe { self.release() }.expect("a mutex that we hold");
    }

    fn is_open(&self, _way: Way) -> bool {
        !self.is_locked()
    }

    /// Without the kernel's mark in the word, which a wait that has timed out leaves to the next
    /// release.
    fn state(&self) -> String {
        format!("owner {} {}", self.owner(), without(&format!("{self:?}"), "low"))
    }

    fn at_rest(&self) -> bool {
        self.state() == Self::default().state() && !self.is_contended()
    }
}

impl<P: Platform + PiPlatform, S: rtmutex::Policy> Timed for RawRtMutex<P, S> {
    fn lock_until(&self, _way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
        self.acquire_until(until).map_err(|error| match error {
            PiError::TimedOut => GaveUp::TimedOut,
            PiError::Cancelled => GaveUp::Cancelled,
            error => panic!("{error}"),
        })
    }
}

macro_rules! shared {
    ($lock:ident $(<$policy:ident: $bound:path>)? $(, $more:item)*) => {
        impl<P: Platform $(, $policy: $bound)?> Lock for $lock<P $(, $policy)?> {
            type P = P;
            const WAYS: &'static [Way] = &[Way::Write, Way::Read];

            #[inline(always)]
            fn lock(&self, way: Way) {
                match way {
                    Way::Write => self.write_acquire(),
                    Way::Read => self.read_acquire(),
                }
            }

            fn try_lock(&self, way: Way) -> bool {
                match way {
                    Way::Write => self.try_write_acquire(),
                    Way::Read => self.try_read_acquire(),
                }
            }

            #[inline(always)]
            unsafe fn unlock(&self, way: Way) {
                // SAFETY: the caller's promise.
                unsafe {
                    match way {
                        Way::Write => self.write_release(),
                        Way::Read => self.read_release(),
                    }
                }
            }

            fn is_open(&self, way: Way) -> bool {
                match way {
                    Way::Write => !self.is_locked(),
                    Way::Read => !self.is_write_locked(),
                }
            }

            $($more)*
        }

        impl<P: Platform $(, $policy: $bound)?> Shared for $lock<P $(, $policy)?> {
            unsafe fn downgrade(&self) {
                // SAFETY: the caller's promise.
                unsafe { self.downgrade() };
            }
        }
    };
}

macro_rules! timed_shared {
    ($lock:ident $(<$policy:ident: $bound:path>)?) => {
        impl<P: Platform $(, $policy: $bound)?> Timed for $lock<P $(, $policy)?> {
            fn lock_until(&self, way: Way, until: Until<'_, P>) -> Result<(), GaveUp> {
                match way {
                    Way::Write => self.write_acquire_until(until),
                    Way::Read => self.read_acquire_until(until),
                }
            }
        }
    };
}

// The time of the last `PENDING` stays.
shared!(
    RawRwSem,
    fn state(&self) -> String {
        without(&format!("{self:?}"), "pressed_at")
    }
);
// How often what was seen stays, and where readers are counted.
shared!(
    RawApartRwSem<Y: apart::Policy>,
    fn state(&self) -> String {
        format!("{} apart, {}", self.readers_apart(), self.inner().state())
    }
);
// So does the owner word: it is a hint that names the last reader and says whether spinning paid.
shared!(
    KernelRwSem<Y: history::rwsem::policy::Policy>,
    fn state(&self) -> String {
        without(&format!("{self:?}"), "owner")
    }
);
shared!(RawQRwLock);
shared!(KernelQRwLock<Y: history::qrwlock::policy::Policy>);
timed_shared!(RawRwSem);
timed_shared!(RawApartRwSem<Y: apart::Policy>);
timed_shared!(KernelRwSem<Y: history::rwsem::policy::Policy>);
timed_shared!(RawQRwLock);

macro_rules! count {
    ($lock:ident $(<$policy:ident: $bound:path>)?) => {
        impl<P: Platform $(, $policy: $bound)?> Count for $lock<P $(, $policy)?> {
            type P = P;
            const MOST: u32 = semaphore::MAX_UNITS;

            fn with_units(units: u32) -> Self {
                Self::with_units(units)
            }

            #[inline(always)]
            fn down(&self) {
                self.down();
            }

            fn try_down(&self) -> bool {
                self.try_down()
            }

            fn down_until(&self, until: Until<'_, P>) -> Result<(), GaveUp> {
                self.down_until(until)
            }

            #[inline(always)]
            fn up(&self) -> bool {
                self.up()
            }

            fn units(&self) -> u32 {
                self.units()
            }
        }
    };
}

count!(RawSemaphore);
count!(KernelSemaphore<Y: history::semaphore::Policy>);

/// A semaphore with `N` units, as a lock that so many may hold.
#[derive(Debug)]
pub struct Units<S, const N: u32>(S);

/// A semaphore with one unit, as a lock.
pub type Binary<S> = Units<S, 1>;

impl<S: Count, const N: u32> Default for Units<S, N> {
    fn default() -> Self {
        Self(S::with_units(N))
    }
}

impl<S: Count, const N: u32> Lock for Units<S, N> {
    type P = S::P;

    #[inline(always)]
    fn lock(&self, _way: Way) {
        self.0.down();
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.0.try_down()
    }

    #[inline(always)]
    unsafe fn unlock(&self, _way: Way) {
        assert!(self.0.up(), "a unit that was taken cannot be given back");
    }

    fn is_open(&self, _way: Way) -> bool {
        self.0.units() > 0
    }
}

impl<S: Count, const N: u32> Timed for Units<S, N> {
    fn lock_until(&self, _way: Way, until: Until<'_, S::P>) -> Result<(), GaveUp> {
        self.0.down_until(until)
    }
}

/// `debug` without the field called `name`.
fn without(debug: &str, name: &str) -> String {
    let Some(start) = debug.find(&format!(" {name}: ")) else { return debug.to_owned() };
    let end = debug[start + 1..].find(", ").map_or(debug.len(), |length| start + 1 + length + 1);
    format!("{}{}", &debug[..start], &debug[end..])
}

#[cfg(test)]
mod tests {
    use super::without;

    #[test]
    fn leaves_a_field_out() {
        assert_eq!(
            without("L { count: U(1), owner: U(2), queue: Q { first: U(3) } }", "owner"),
            "L { count: U(1), queue: Q { first: U(3) } }"
        );
    }
}
