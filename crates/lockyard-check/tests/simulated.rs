//! The suite on simulated machines: every lock, every policy that is not known to be defective, under random schedules.

use lockyard::mutex::RawMutex;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::semaphore::{DirectHandoff, OpportunisticSafe, RawSemaphore};
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::conformance;
use lockyard_sim::Sim;

conformance!(spinlock: RawQSpinLock<Sim>, [exclusive]);
conformance!(cna: RawCnaSpinLock<Sim>, [exclusive]);
conformance!(hq_spinlock: RawHqSpinLock<Sim>, [exclusive]);
conformance!(hq_spinlock_eager: EagerHq<Sim>, [exclusive]);
conformance!(mutex: RawMutex<Sim>, [exclusive, timed]);
conformance!(rwsem: RawRwSem<Sim, policy::Today>, [exclusive, timed, shared]);
conformance!(rwsem_kernel: RawRwSem<Sim, policy::TodayKernel>, [exclusive, timed, shared]);
conformance!(rwsem_v5_10: RawRwSem<Sim, policy::V5_10>, [exclusive, timed, shared]);
conformance!(rwsem_handoff_4ms: RawRwSem<Sim, policy::Handoff4ms>, [exclusive, timed, shared]);
conformance!(semaphore: RawSemaphore<Sim, OpportunisticSafe>, [counting, quick_ups]);
conformance!(semaphore_direct_handoff: RawSemaphore<Sim, DirectHandoff>, [counting, quick_ups]);
conformance!(binary_semaphore: Binary<Sim, OpportunisticSafe>, [exclusive, timed]);
