//! Exhaustive single preemption of every lock, and of the rwsem policies whose code differs most:
//! see `lockyard_check::scripted::sweeps`.

use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::mutex::RawMutex;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::{Binary, Opened};
use lockyard_check::embedded::{Detached, Monitor};
use lockyard_check::preempted;
use lockyard_check::scripted::Scripted;

preempted!(spinlock: RawQSpinLock<Scripted>, [exclusive]);
preempted!(cna: RawCnaSpinLock<Scripted>, [exclusive]);
preempted!(mutex: RawMutex<Scripted>, [exclusive, timed]);
preempted!(read_mostly: Opened<Scripted>, [exclusive, timed, shared]);
preempted!(rtmutex_tree: RawTreeRtMutex<Scripted>, [exclusive, timed]);
preempted!(mutex_detached: Detached<RawMutex<Scripted>>, [exclusive, timed]);
preempted!(condvar: Monitor<Scripted, RawMutex<Scripted>>, [exclusive, timed]);
preempted!(semaphore: RawSemaphore<Scripted>, [counting]);
preempted!(semaphore_direct_handoff: KernelSemaphore<Scripted, DirectHandoff>, [counting]);
preempted!(binary_semaphore: Binary<RawSemaphore<Scripted>>, [exclusive, timed]);
preempted!(binary_semaphore_direct_handoff: Binary<KernelSemaphore<Scripted, DirectHandoff>>, [exclusive, timed]);
preempted!(binary_semaphore_2008: Binary<KernelSemaphore<Scripted, Opportunistic2008>>, [exclusive, timed]);

/// The rwsem: both waiting disciplines, both kinds of handoff tracking, both schemes of counting.
mod rwsem {
    use super::{KernelRwSem, RawRwSem, Scripted, policy, preempted};

    preempted!(today: RawRwSem<Scripted>, [exclusive, timed, shared]);
    preempted!(today_kernel: KernelRwSem<Scripted, policy::TodayKernel>, [exclusive, timed, shared]);
    preempted!(xadd_baseline: KernelRwSem<Scripted, policy::XaddBaseline>, [exclusive, timed, shared]);
    preempted!(v5_10: KernelRwSem<Scripted, policy::V5_10>, [exclusive, timed, shared]);
}
