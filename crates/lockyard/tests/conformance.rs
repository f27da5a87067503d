//! The conformance suite on the real machine: every lock, every form of it. One line per lock; the cases are in `lockyard-check`.

use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::semaphore::{DirectHandoff, Opportunistic2008, OpportunisticSafe, RawSemaphore};
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::conformance;

conformance!(spinlock: RawQSpinLock<Linux>, [exclusive, churn, fair]);
conformance!(cna: RawCnaSpinLock<Linux>, [exclusive, churn, fair]);
conformance!(hq_spinlock: EagerHq<Linux>, [exclusive, churn, fair]);
conformance!(mutex: RawMutex<Linux>, [exclusive, churn, timed, fair]);
conformance!(rwsem: RawRwSem<Linux, policy::Today>, [exclusive, churn, timed, fair, shared, fair_shared]);

conformance!(semaphore: RawSemaphore<Linux, OpportunisticSafe>, [counting, quick_ups]);
conformance!(semaphore_direct_handoff: RawSemaphore<Linux, DirectHandoff>, [counting, quick_ups]);
// Loses wake-ups when more than one unit is about: no `quick_ups` here, and see `history_semaphore`.
conformance!(binary_semaphore: Binary<Linux, OpportunisticSafe>, [exclusive, churn, timed, fair]);
conformance!(binary_semaphore_direct_handoff: Binary<Linux, DirectHandoff>, [exclusive, timed, fair]);
conformance!(binary_semaphore_2008: Binary<Linux, Opportunistic2008>, [exclusive, timed]);
