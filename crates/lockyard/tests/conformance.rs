//! The conformance suite on the real machine: every lock, every form of it. One line per lock; the
//! cases are in `lockyard-check`. With the feature `portable` the machine is that of other systems.

use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::platform::Native;
use lockyard::qrwlock::RawQRwLock;
use lockyard::read_mostly::RawReadMostlyRwSem;
use lockyard::rtmutex_tree::{RawTreeRtMutex, policy as rt};
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::adapters::{Binary, EagerHq, Opened};
use lockyard_check::cases::parking::HashedMutex;
use lockyard_check::conformance;
use lockyard_check::embedded::{Detached, Monitor, Spinning};

conformance!(spinlock: RawQSpinLock<Native>, [exclusive, churn, fair]);
conformance!(cna: RawCnaSpinLock<Native>, [exclusive, churn, fair]);
conformance!(hq_spinlock: EagerHq<Native>, [exclusive, churn, fair]);
conformance!(mcs: RawMcsLock<Native>, [exclusive, churn, fair]);
conformance!(ticket: RawTicketLock<Native>, [exclusive, churn, fair]);
// Promises nothing to anybody: whoever naps while two others pass the lock around may nap for long.
conformance!(ttas: RawTtasLock<Native>, [exclusive]);
conformance!(mutex: RawMutex<Native>, [exclusive, churn, timed, fair]);
conformance!(rwsem: RawRwSem<Native>, [exclusive, churn, timed, fair, shared, fair_shared]);
conformance!(read_mostly: RawReadMostlyRwSem<Native>, [exclusive, churn, timed, fair, shared, fair_shared]);
conformance!(read_mostly_opened: Opened<Native>, [exclusive, churn, timed, fair, shared, fair_shared]);
conformance!(rtmutex_tree: RawTreeRtMutex<Native>, [exclusive, churn, timed, fair]);
conformance!(rtmutex_2016: RawTreeRtMutex<Native, rt::Published2016>, [exclusive, timed, fair]);
conformance!(rtmutex_no_spin: RawTreeRtMutex<Native, rt::NoSpin>, [exclusive]);
conformance!(mutex_detached: Detached<RawMutex<Native>>, [exclusive, timed, fair]);
conformance!(rwsem_detached: Detached<RawRwSem<Native>>, [exclusive, timed, fair]);
conformance!(rwsem_kernel_detached: Detached<KernelRwSem<Native, policy::TodayKernel>>, [exclusive, timed]);

/// They need PI futexes.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod inheriting {
    use lockyard::platform::linux::Linux;
    use lockyard::rtmutex::{RawRtMutex, policy};
    use lockyard_check::conformance;

    conformance!(rtmutex: RawRtMutex<Linux>, [exclusive, churn, timed, fair]);
    conformance!(rtmutex_published: RawRtMutex<Linux, policy::Published>, [exclusive, timed]);
    conformance!(rtmutex_off: RawRtMutex<Linux, policy::Off>, [exclusive, timed, fair]);
}

conformance!(condvar: Monitor<Native, RawMutex<Native>>, [exclusive, timed]);
conformance!(condvar_spinning: Monitor<Native, Spinning<Native>>, [exclusive, timed]);

conformance!(qrwlock: RawQRwLock<Native>, [exclusive, churn, timed, fair, shared, fair_shared]);
conformance!(qrwlock_kernel: KernelQRwLock<Native, qrw::TodayKernel>, [exclusive, churn, fair, shared, fair_shared]);
conformance!(qrwlock_fetch_add: KernelQRwLock<Native, qrw::FetchAdd>, [exclusive, churn, fair, shared, fair_shared]);
conformance!(qrwlock_byte_cas: KernelQRwLock<Native, qrw::ByteCas>, [exclusive, churn, shared]);
conformance!(qrwlock_word_cas: KernelQRwLock<Native, qrw::WordCas>, [exclusive, churn, shared]);
conformance!(lockref: LockRef<Native>, [exclusive, churn, fair, references]);
conformance!(lockref_mcs: LockRef<Native, RawMcsLock<Native>>, [references]);
conformance!(lockref_ticket: LockRef<Native, RawTicketLock<Native>>, [references]);
conformance!(lockref_ttas: LockRef<Native, RawTtasLock<Native>>, [references]);
conformance!(futex_hash: HashedMutex<Native, RawQSpinLock<Native>>, [exclusive, parking]);
conformance!(futex_hash_ticket: HashedMutex<Native, RawTicketLock<Native>>, [parking]);
conformance!(semaphore: RawSemaphore<Native>, [counting, quick_ups]);
conformance!(semaphore_direct_handoff: KernelSemaphore<Native, DirectHandoff>, [counting, quick_ups]);
// Loses wake-ups when more than one unit is about: no `quick_ups` here, and see
// `history_semaphore`.
conformance!(binary_semaphore: Binary<RawSemaphore<Native>>, [exclusive, churn, timed, fair]);
conformance!(binary_semaphore_direct_handoff: Binary<KernelSemaphore<Native, DirectHandoff>>, [exclusive, timed, fair]);
conformance!(binary_semaphore_2008: Binary<KernelSemaphore<Native, Opportunistic2008>>, [exclusive, timed]);
