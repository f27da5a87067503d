//! The suite on simulated machines: every lock, every policy that is not known to be defective,
//! under random schedules.

use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::qrwlock::RawQRwLock;
use lockyard::read_mostly::{Always, RawReadMostlyRwSem};
use lockyard::rtmutex_tree::{RawTreeRtMutex, policy as rt};
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::cases::parking::{HashedMutex, deadlines_and_wakes_agree};
use lockyard_check::conformance;
use lockyard_check::embedded::{Detached, Monitor, Spinning};
use lockyard_check::simulated::perform_seed;
use lockyard_sim::Sim;

conformance!(spinlock: RawQSpinLock<Sim>, [exclusive]);
conformance!(cna: RawCnaSpinLock<Sim>, [exclusive]);
conformance!(hq_spinlock: RawHqSpinLock<Sim>, [exclusive]);
conformance!(hq_spinlock_eager: EagerHq<Sim>, [exclusive]);
conformance!(mcs: RawMcsLock<Sim>, [exclusive]);
conformance!(ticket: RawTicketLock<Sim>, [exclusive]);
conformance!(ttas: RawTtasLock<Sim>, [exclusive]);
conformance!(mutex: RawMutex<Sim>, [exclusive, timed]);
conformance!(rtmutex_tree: RawTreeRtMutex<Sim>, [exclusive, timed]);
conformance!(rtmutex_2016: RawTreeRtMutex<Sim, rt::Published2016>, [exclusive]);
conformance!(rwsem: RawRwSem<Sim>, [exclusive, timed, shared]);
conformance!(rwsem_kernel: KernelRwSem<Sim, policy::TodayKernel>, [exclusive, timed, shared]);
conformance!(rwsem_v5_10: KernelRwSem<Sim, policy::V5_10>, [exclusive, timed, shared]);
conformance!(rwsem_handoff_4ms: KernelRwSem<Sim, policy::Handoff4ms>, [exclusive, timed, shared]);
conformance!(mutex_detached: Detached<RawMutex<Sim>>, [exclusive, timed]);
conformance!(rwsem_detached: Detached<RawRwSem<Sim>>, [exclusive, timed]);
conformance!(rwsem_kernel_detached: Detached<KernelRwSem<Sim, policy::TodayKernel>>, [exclusive, timed]);
conformance!(condvar: Monitor<Sim, RawMutex<Sim>>, [exclusive, timed]);
conformance!(condvar_spinning: Monitor<Sim, Spinning<Sim>>, [exclusive, timed]);
conformance!(read_mostly: RawReadMostlyRwSem<Sim>, [exclusive, timed, shared]);
conformance!(per_cpu: RawReadMostlyRwSem<Sim, Always>, [exclusive, timed, shared]);
conformance!(qrwlock: RawQRwLock<Sim>, [exclusive, timed, shared]);
conformance!(qrwlock_kernel: KernelQRwLock<Sim, qrw::TodayKernel>, [exclusive, shared]);
conformance!(qrwlock_fetch_add: KernelQRwLock<Sim, qrw::FetchAdd>, [exclusive, shared]);
conformance!(qrwlock_byte_cas: KernelQRwLock<Sim, qrw::ByteCas>, [exclusive, shared]);
conformance!(qrwlock_word_cas: KernelQRwLock<Sim, qrw::WordCas>, [exclusive, shared]);
conformance!(lockref: LockRef<Sim>, [exclusive, references]);
conformance!(lockref_mcs: LockRef<Sim, RawMcsLock<Sim>>, [references]);
conformance!(lockref_ticket: LockRef<Sim, RawTicketLock<Sim>>, [references]);
conformance!(lockref_ttas: LockRef<Sim, RawTtasLock<Sim>>, [references]);
conformance!(futex_hash: HashedMutex<Sim, RawQSpinLock<Sim>>, [exclusive, parking]);
conformance!(futex_hash_ticket: HashedMutex<Sim, RawTicketLock<Sim>>, [parking]);
conformance!(semaphore: RawSemaphore<Sim>, [counting, quick_ups]);
conformance!(semaphore_direct_handoff: KernelSemaphore<Sim, DirectHandoff>, [counting, quick_ups]);
conformance!(binary_semaphore: Binary<RawSemaphore<Sim>>, [exclusive, timed]);

/// The waker of this case once woke inside the closure of its own wait. Where it had to queue for
/// the bucket's lock in the kernel, it watched the lines of that wait afterwards, and slept for
/// ever.
#[test]
fn a_waker_that_queues_in_the_kernel_goes_on() {
    perform_seed(1559, deadlines_and_wakes_agree::<HashedMutex<Sim, RawQSpinLock<Sim>>>).unwrap();
    perform_seed(1257, deadlines_and_wakes_agree::<HashedMutex<Sim, RawHqSpinLock<Sim>>>).unwrap();
}
