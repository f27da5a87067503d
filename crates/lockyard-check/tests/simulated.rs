//! The suite on simulated machines: every lock, every policy that is not known to be defective,
//! under random schedules.

use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::hashed::HashedMutex;
use lockyard_check::cases::parking::deadlines_and_wakes_agree;
use lockyard_check::conformance_of;
use lockyard_check::simulated::perform_seed;
use lockyard_sim::Sim;

conformance_of!(simulated, Sim);

/// The waker of this case once woke inside the closure of its own wait. Where it had to queue for
/// the bucket's lock in the kernel, it watched the lines of that wait afterwards, and slept for
/// ever.
#[test]
fn a_waker_that_queues_in_the_kernel_goes_on() {
    perform_seed(1559, deadlines_and_wakes_agree::<HashedMutex<Sim, RawQSpinLock<Sim>>>).unwrap();
    perform_seed(1257, deadlines_and_wakes_agree::<HashedMutex<Sim, RawHqSpinLock<Sim>>>).unwrap();
}
