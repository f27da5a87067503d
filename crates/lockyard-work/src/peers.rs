//! The locks people use today, each used as its own users use it.
//!
//! Rust locks through their guards, C locks through two calls. All of them live on cache lines of
//! their own; objects of the C library are boxed, since they must not move, and the box's address
//! is loop-invariant.

use crate::candidate::Candidate;
use crate::machine::Machine;
use crate::subject::Family;

mod parking_lot;
pub(crate) mod pthread;
mod spin;
mod standard;
mod usync;

/// All peers, by family.
pub(crate) fn candidates<M: Machine>() -> [Candidate; 16] {
    use Family::{Mutex, Semaphore, Spin};
    use pthread::{mutex, rwlock};
    [
        Candidate::peer::<M, standard::Mutex>(Mutex, "std-mutex", "std::sync::Mutex"),
        Candidate::peer::<M, parking_lot::Mutex>(Mutex, "parking_lot-mutex", "parking_lot 0.13 Mutex"),
        Candidate::peer::<M, usync::Mutex>(Mutex, "usync-mutex", "usync 0.2 Mutex"),
        Candidate::peer::<M, mutex::Mutex<mutex::Normal>>(Mutex, "pthread-mutex", "pthread_mutex_t, default kind"),
        Candidate::peer::<M, mutex::Mutex<mutex::Adaptive>>(
            Mutex,
            "pthread-mutex-adaptive",
            "pthread_mutex_t, PTHREAD_MUTEX_ADAPTIVE_NP: spins first",
        ),
        Candidate::peer::<M, mutex::Mutex<mutex::Inherit>>(
            Mutex,
            "pthread-mutex-pi",
            "pthread_mutex_t, PTHREAD_PRIO_INHERIT",
        ),
        Candidate::peer::<M, pthread::spin::Spin>(Spin, "pthread-spin", "pthread_spinlock_t").spinning(),
        Candidate::peer::<M, spin::Ttas>(Spin, "spin-ttas", "spin 0.12 Mutex: test and test-and-set").spinning(),
        Candidate::peer::<M, spin::Ticket>(Spin, "spin-ticket", "spin 0.12 TicketMutex: strict order").spinning(),
        Candidate::rw_peer::<M, standard::RwLock>("std-rwlock", "std::sync::RwLock"),
        Candidate::rw_peer::<M, parking_lot::RwLock>("parking_lot-rwlock", "parking_lot 0.13 RwLock"),
        Candidate::rw_peer::<M, usync::RwLock>("usync-rwlock", "usync 0.2 RwLock"),
        Candidate::rw_peer::<M, rwlock::RwLock<rwlock::PreferReader>>(
            "pthread-rwlock",
            "pthread_rwlock_t, default kind: prefers readers",
        ),
        Candidate::rw_peer::<M, rwlock::RwLock<rwlock::PreferWriter>>(
            "pthread-rwlock-writer",
            "pthread_rwlock_t, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP",
        ),
        Candidate::rw_peer::<M, spin::RwLock>("spin-rwlock", "spin 0.12 RwLock: prefers readers, never sleeps")
            .spinning(),
        Candidate::peer::<M, pthread::semaphore::Semaphore>(Semaphore, "sem_t", "POSIX semaphore of the C library"),
    ]
}
