//! Locks whose slow paths are cut off anywhere, against waiters that leave, sleepers that a
//! signaller adopts, waiters that are stopped for ever, and children of a fork: see
//! `lockyard_check::scripted::rivals`.

use lockyard::mutex::RawMutex;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::{Binary, Bundle};
use lockyard_check::embedded::Detached;
use lockyard_check::rivalled;
use lockyard_check::scripted::Scripted;

rivalled!(mutex: RawMutex<Scripted>, [lock, timed, condvar]);
rivalled!(mutex_detached: Detached<RawMutex<Scripted>>, [lock, timed]);
rivalled!(rwsem: RawRwSem<Scripted>, [lock, timed]);
rivalled!(semaphore: Binary<RawSemaphore<Scripted>>, [lock, timed]);
rivalled!(semaphore_bundles: Binary<Bundle<RawSemaphore<Scripted>>>, [lock, timed]);
rivalled!(spinlock: RawQSpinLock<Scripted>, [lock]);
rivalled!(cna: RawCnaSpinLock<Scripted>, [lock]);
rivalled!(hq: RawHqSpinLock<Scripted>, [lock]);
rivalled!(rtmutex_tree: RawTreeRtMutex<Scripted>, [lock, timed]);
