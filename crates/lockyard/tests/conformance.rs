//! The conformance suite on the real machine: every lock, every form of it. One line per lock; the
//! cases are in `lockyard-check`.

use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex::{RawRtMutex, policy as pi};
use lockyard::rtmutex_tree::{RawTreeRtMutex, policy as rt};
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::cases::parking::HashedMutex;
use lockyard_check::conformance;
use lockyard_check::embedded::{Detached, Monitor, Spinning};

conformance!(spinlock: RawQSpinLock<Linux>, [exclusive, churn, fair]);
conformance!(cna: RawCnaSpinLock<Linux>, [exclusive, churn, fair]);
conformance!(hq_spinlock: EagerHq<Linux>, [exclusive, churn, fair]);
conformance!(mcs: RawMcsLock<Linux>, [exclusive, churn, fair]);
conformance!(ticket: RawTicketLock<Linux>, [exclusive, churn, fair]);
// Promises nothing to anybody: whoever naps while two others pass the lock around may nap for long.
conformance!(ttas: RawTtasLock<Linux>, [exclusive]);
conformance!(mutex: RawMutex<Linux>, [exclusive, churn, timed, fair]);
conformance!(rtmutex: RawRtMutex<Linux>, [exclusive, churn, timed, fair]);
conformance!(rtmutex_published: RawRtMutex<Linux, pi::Published>, [exclusive, timed]);
conformance!(rtmutex_off: RawRtMutex<Linux, pi::Off>, [exclusive, timed, fair]);
conformance!(rwsem: RawRwSem<Linux>, [exclusive, churn, timed, fair, shared, fair_shared]);
conformance!(rtmutex_tree: RawTreeRtMutex<Linux>, [exclusive, churn, timed, fair]);
conformance!(rtmutex_2016: RawTreeRtMutex<Linux, rt::Published2016>, [exclusive, timed, fair]);
conformance!(rtmutex_no_spin: RawTreeRtMutex<Linux, rt::NoSpin>, [exclusive]);
conformance!(mutex_detached: Detached<RawMutex<Linux>>, [exclusive, timed, fair]);
conformance!(rwsem_detached: Detached<RawRwSem<Linux>>, [exclusive, timed, fair]);
conformance!(rwsem_kernel_detached: Detached<KernelRwSem<Linux, policy::TodayKernel>>, [exclusive, timed]);
conformance!(condvar: Monitor<Linux, RawMutex<Linux>>, [exclusive, timed]);
conformance!(condvar_spinning: Monitor<Linux, Spinning<Linux>>, [exclusive, timed]);

conformance!(qrwlock: RawQRwLock<Linux>, [exclusive, churn, timed, fair, shared, fair_shared]);
conformance!(qrwlock_kernel: KernelQRwLock<Linux, qrw::TodayKernel>, [exclusive, churn, fair, shared, fair_shared]);
conformance!(qrwlock_fetch_add: KernelQRwLock<Linux, qrw::FetchAdd>, [exclusive, churn, fair, shared, fair_shared]);
conformance!(qrwlock_byte_cas: KernelQRwLock<Linux, qrw::ByteCas>, [exclusive, churn, shared]);
conformance!(qrwlock_word_cas: KernelQRwLock<Linux, qrw::WordCas>, [exclusive, churn, shared]);
conformance!(lockref: LockRef<Linux>, [exclusive, churn, fair, references]);
conformance!(lockref_mcs: LockRef<Linux, RawMcsLock<Linux>>, [references]);
conformance!(lockref_ticket: LockRef<Linux, RawTicketLock<Linux>>, [references]);
conformance!(lockref_ttas: LockRef<Linux, RawTtasLock<Linux>>, [references]);
conformance!(futex_hash: HashedMutex<Linux, RawQSpinLock<Linux>>, [exclusive, parking]);
conformance!(futex_hash_ticket: HashedMutex<Linux, RawTicketLock<Linux>>, [parking]);
conformance!(semaphore: RawSemaphore<Linux>, [counting, quick_ups]);
conformance!(semaphore_direct_handoff: KernelSemaphore<Linux, DirectHandoff>, [counting, quick_ups]);
// Loses wake-ups when more than one unit is about: no `quick_ups` here, and see
// `history_semaphore`.
conformance!(binary_semaphore: Binary<RawSemaphore<Linux>>, [exclusive, churn, timed, fair]);
conformance!(binary_semaphore_direct_handoff: Binary<KernelSemaphore<Linux, DirectHandoff>>, [exclusive, timed, fair]);
conformance!(binary_semaphore_2008: Binary<KernelSemaphore<Linux, Opportunistic2008>>, [exclusive, timed]);
