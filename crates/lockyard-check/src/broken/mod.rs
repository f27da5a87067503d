//! Locks that are broken on purpose. A suite that does not fail on each of them proves nothing.
//!
//! | lock | is broken in that it | must be caught by |
//! |---|---|---|
//! | [`Nothing`] | does nothing | exclusion, trying |
//! | [`LosesWakeups`] | forgets one wake-up in 64 | a hang, which the watchdog names |
//! | [`TryTraces`] | leaves a trace of a failed try | trying |
//! | [`Impatient`] | gives up before its deadline | "never early" |
//! | [`KeepsOnTimeout`] | says that it timed out, and has the lock | a lock that does not come to rest |
//! | [`DeafToTokens`] | does not notice that its token is cancelled | a hang |
//! | [`LeakyReaders`] | lets a writer in beside the last reader | activity of readers and writers |
//! | [`ReadersFirst`] | is correct, but lets readers starve writers | a hang of the fairness cases |
//! | [`BargersFirst`] | is correct, but serves a waiter only when nobody else has come meanwhile | the same |
//! | [`LosesUnits`] | loses the unit of one `up` in 64 | counting |
//!
//! And those that only a machine notices which sees every access, or stops threads:
//!
//! | lock | is broken in that it | must be caught by |
//! |---|---|---|
//! | [`LateTouch`] | looks at its word again after it has released it | use after free |
//! | [`StaleWaiter`] | leaves the address of a waiter's stack word behind when the wait times out | use of a frame that has returned |
//! | [`RelaxedLock`], [`RelaxedUnlock`] | lacks an ordering | races on protected data |
//! | [`Keeps`] | keeps itself for the waiter that it was promised to, whether or not that one comes | a free lock kept for a waiter that does not come; in the child of a fork, a hang |
//! | [`SpinsForEver`] | spins until it gets the lock, whether or not the holder runs | spinning for a thread that does not run |

mod exclusive;
mod readers;
mod spoiled;

use lockyard::platform::Platform;

use crate::lock::{Lock, Way};
use crate::stage::Stage;

pub use exclusive::{
    BargersFirst, Keeps, LateTouch, LosesWakeups, RelaxedLock, RelaxedUnlock, SpinsForEver, StaleWaiter, TestAndSet,
};
pub use readers::{LeakyReaders, Polled, ReadersFirst};
pub use spoiled::{DeafToTokens, Impatient, KeepsOnTimeout, LosesUnits, Sound, Spoiled, TryTraces};

/// Does nothing.
#[derive(Debug)]
pub struct Nothing<P: Platform>(P::U32);

impl<P: Platform> Default for Nothing<P> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Stage> Lock for Nothing<P> {
    type P = P;

    fn lock(&self, _way: Way) {}

    fn try_lock(&self, _way: Way) -> bool {
        true
    }

    unsafe fn unlock(&self, _way: Way) {}
}
