//! The locks people use today, each used as its own users use it.
//!
//! Rust locks through their guards, C locks through two calls. All of them live on cache lines of
//! their own; objects of the C library are boxed, since they must not move, and the box's address
//! is loop-invariant.

use crate::candidate::Candidate;
use crate::machine::Machine;

mod parking_lot;
pub(crate) mod pthread;
mod spin;
mod standard;
mod usync;

/// How many there are.
pub(crate) const COUNT: usize = 15;

/// All peers, by family.
pub(crate) const fn candidates<M: Machine>() -> [Candidate; COUNT] {
    [
        Candidate::exclusive::<M, standard::Mutex>(),
        Candidate::exclusive::<M, parking_lot::Mutex>(),
        Candidate::exclusive::<M, usync::Mutex>(),
        Candidate::exclusive::<M, pthread::mutex::Mutex<pthread::mutex::Normal>>(),
        Candidate::exclusive::<M, pthread::mutex::Mutex<pthread::mutex::Adaptive>>(),
        Candidate::exclusive::<M, pthread::mutex::Mutex<pthread::mutex::Inherit>>(),
        Candidate::exclusive::<M, pthread::spin::Spin>(),
        Candidate::exclusive::<M, spin::Ttas>(),
        Candidate::exclusive::<M, spin::Ticket>(),
        Candidate::shared::<M, standard::RwLock>(),
        Candidate::shared::<M, parking_lot::RwLock>(),
        Candidate::shared::<M, usync::RwLock>(),
        Candidate::shared::<M, pthread::rwlock::RwLock<pthread::rwlock::PreferReader>>(),
        Candidate::shared::<M, pthread::rwlock::RwLock<pthread::rwlock::PreferWriter>>(),
        Candidate::exclusive::<M, pthread::semaphore::Semaphore>(),
    ]
}
