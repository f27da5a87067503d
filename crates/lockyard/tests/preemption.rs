//! Exhaustive single preemption of every lock and every policy: see `lockyard_check::scripted::sweeps`.

use lockyard::mutex::RawMutex;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::semaphore::{DirectHandoff, Opportunistic2008, OpportunisticSafe, RawSemaphore};
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::Binary;
use lockyard_check::preempted;
use lockyard_check::scripted::Scripted;

preempted!(spinlock: RawQSpinLock<Scripted>, [exclusive]);
preempted!(mutex: RawMutex<Scripted>, [exclusive, timed]);
preempted!(semaphore: RawSemaphore<Scripted, OpportunisticSafe>, [counting]);
preempted!(semaphore_direct_handoff: RawSemaphore<Scripted, DirectHandoff>, [counting]);
preempted!(binary_semaphore: Binary<Scripted, OpportunisticSafe>, [exclusive, timed]);
preempted!(binary_semaphore_direct_handoff: Binary<Scripted, DirectHandoff>, [exclusive, timed]);
preempted!(binary_semaphore_2008: Binary<Scripted, Opportunistic2008>, [exclusive, timed]);

/// The rwsem with each policy.
mod rwsem {
    use super::{RawRwSem, Scripted, policy, preempted};

    preempted!(today: RawRwSem<Scripted, policy::Today>, [exclusive, timed, shared]);
    preempted!(today_kernel: RawRwSem<Scripted, policy::TodayKernel>, [exclusive, timed, shared]);
    preempted!(xadd_baseline: RawRwSem<Scripted, policy::XaddBaseline>, [exclusive, timed, shared]);
    preempted!(handoff_none: RawRwSem<Scripted, policy::HandoffNone>, [exclusive, timed, shared]);
    preempted!(handoff_4ms: RawRwSem<Scripted, policy::Handoff4ms>, [exclusive, timed, shared]);
    preempted!(handoff_immediate: RawRwSem<Scripted, policy::HandoffImmediate>, [exclusive, timed, shared]);
    preempted!(wake_all_readers: RawRwSem<Scripted, policy::WakeAllReaders>, [exclusive, timed, shared]);
    preempted!(reader_spin_on_writer: RawRwSem<Scripted, policy::ReaderSpinOnWriter>, [exclusive, timed, shared]);
    preempted!(timed_writer_spin: RawRwSem<Scripted, policy::TimedWriterSpin>, [exclusive, timed, shared]);
    preempted!(adaptive_rspin: RawRwSem<Scripted, policy::AdaptiveRspin>, [exclusive, timed, shared]);
    preempted!(v5_10: RawRwSem<Scripted, policy::V5_10>, [exclusive, timed, shared]);
    preempted!(starvation_guard: RawRwSem<Scripted, policy::StarvationGuard>, [exclusive, timed, shared]);
    preempted!(reader_steal: RawRwSem<Scripted, policy::ReaderSteal>, [exclusive, timed, shared]);
    preempted!(reader_steal_v2: RawRwSem<Scripted, policy::ReaderStealV2>, [exclusive, timed, shared]);
    preempted!(limit_rspin: RawRwSem<Scripted, policy::LimitRspin>, [exclusive, timed, shared]);
    preempted!(no_rspin: RawRwSem<Scripted, policy::NoRspin>, [exclusive, timed, shared]);
}
