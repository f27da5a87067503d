//! The list of scenarios. A new lock is one line in [`all`].

use lockyard::event::Event;
use lockyard::history::qrwlock::{KernelQRwLock, policy as qrw};
use lockyard::history::rwsem::KernelRwSem;
use lockyard::history::rwsem::policy::{self as sem, Policy as _};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::{RawCnaSpinLock, SHUFFLE_ONE_IN};
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard::wait::turn::TURN_NS;

use super::super::setting::{Clock, Machine, Patience};
use super::super::weak::Loom;
use super::Scenario;
use super::counting::{last_reference, units};
use super::embedding::{orphan, reading_again, urgent};
use super::exclusive::Of;
use super::inheriting::{chain, late_again, letter};
use super::parking::{late_parcel, parcel};
use super::queueing::{aside, lanes, reuse, spinners, turning};
use super::scripts::{folding, handing_over, spun_in_vain, turning_late};
use super::signalling::{arrival, late_arrival, left_while_moved, moved_while_held};
use crate::adapters::{Binary, EagerHq, Opened};
use crate::cases::parking::HashedMutex;
use crate::embedded::{Detached, Inlined, Monitor, Spinning};
use crate::lock::Way::{Read as R, Write as W};
use crate::lock::{Lock, Shared, Timed};

const SLEEPS: Machine = Machine::SLEEPS;
const SPINS: Machine = Machine::SPINS;
const EXACT: Machine = Machine { patience: Patience::Exact, ..SLEEPS };
/// Every turn is over: handoff.
const LATE: Machine = Machine { clock: Clock::Hurried, ..SLEEPS };
/// No sleep ends by its timer: a wake-up that is lost is a hang.
const UNTIMED: Machine = Machine { clock: Clock::Stopped, ..SLEEPS };

/// How a lock is waited for.
type Modes = &'static [(&'static str, Machine)];

/// Locks whose waiters sleep by timers as well.
const TURNS: Modes = &[("sleeps", SLEEPS), ("untimed", UNTIMED), ("spins", SPINS), ("late", LATE)];
const QUEUED: Modes = &[("sleeps", SLEEPS), ("untimed", UNTIMED), ("spins", SPINS), ("exact", EXACT), ("late", LATE)];
/// Those that only spin, or sleep without timers.
const PLAIN: Modes = &[("sleeps", SLEEPS), ("spins", SPINS)];
const SPIN: Modes = &[("spins", SPINS)];
const NODES: Modes = &[("spins", two_nodes(SPINS))];
const EXACT_NODES: Modes = &[("spins", two_nodes(SPINS)), ("exact", two_nodes(EXACT))];
const BOTH: Modes = &[("spins", SPINS), ("sleeps", SLEEPS)];
const KERNEL: Modes = &[("sleeps", SLEEPS), ("spins", SPINS), ("late", LATE)];

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [
        exclusive::<RawQSpinLock<Loom>>("qspinlock", QUEUED, &[]),
        urgent_spins(),
        exclusive::<RawCnaSpinLock<Loom>>("cna", NODES, &[]),
        shuffled(),
        exclusive::<EagerHq<Loom>>("hq-spinlock", EXACT_NODES, &[]),
        hierarchical(),
        spin_queue(),
        exclusive::<RawMcsLock<Loom>>("mcs", PLAIN, &[Event::PvWaitNode]),
        exclusive::<RawTicketLock<Loom>>("ticket", SPIN, &[]),
        exclusive::<RawTtasLock<Loom>>("ttas", SPIN, &[]),
        exclusive::<RawMutex<Loom>>("mutex", TURNS, &[Event::MutexSleep]),
        timed::<RawMutex<Loom>>("mutex"),
        embedded(),
        strangers(),
        rwsem::<RawRwSem<Loom>>("today", TURNS),
        rwsem::<KernelRwSem<Loom, sem::TodayKernel>>(sem::TodayKernel::NAME, KERNEL),
        rwsem::<KernelRwSem<Loom, sem::V5_10>>(sem::V5_10::NAME, KERNEL),
        rwsem::<KernelRwSem<Loom, sem::XaddBaseline>>(sem::XaddBaseline::NAME, PLAIN),
        biased_queue(),
        rwsem_brief::<sem::HandoffNone>(),
        rwsem_brief::<sem::Handoff4ms>(),
        rwsem_brief::<sem::HandoffImmediate>(),
        rwsem_brief::<sem::WakeAllReaders>(),
        rwsem_brief::<sem::ReaderSpinOnWriter>(),
        rwsem_brief::<sem::TimedWriterSpin>(),
        rwsem_brief::<sem::AdaptiveRspin>(),
        rwsem_brief::<sem::StarvationGuard>(),
        rwsem_brief::<sem::ReaderSteal>(),
        rwsem_brief::<sem::ReaderStealV2>(),
        rwsem_brief::<sem::LimitRspin>(),
        rwsem_brief::<sem::NoRspin>(),
        read_mostly(),
        qrwlock(),
        kernel_qrwlock::<qrw::TodayKernel>(),
        kernel_qrwlock::<qrw::FetchAdd>(),
        kernel_qrwlock::<qrw::ByteCas>(),
        kernel_qrwlock::<qrw::WordCas>(),
        semaphore(),
        exclusive::<LockRef<Loom>>("lockref", SPIN, &[]),
        references(),
        exclusive::<HashedMutex<Loom, RawTicketLock<Loom>>>("futex-hash", PLAIN, &[]),
        parcels(),
        condvar(),
        exclusive::<RawTreeRtMutex<Loom>>("rtmutex-tree", PLAIN, &[Event::RtmutexSlowSleep]),
        timed::<RawTreeRtMutex<Loom>>("rtmutex-tree"),
        chains(),
        rt_condvar(),
    ]
    .concat()
}

const fn two_nodes(machine: Machine) -> Machine {
    Machine { nodes: 2, ..machine }
}

/// Two, three and four threads in each mode; tries; two threads twice. The first mode with three
/// threads must count `reaches`.
fn exclusive<L: Lock<P = Loom> + 'static>(lock: &str, modes: Modes, reaches: &[Event]) -> Vec<Scenario> {
    let mut list = Vec::new();
    for (number, &(mode, machine)) in modes.iter().enumerate() {
        let of = Of { lock, machine, mode };
        let three = of.contend::<L>(&[W, W, W]);
        let three = if number == 0 { three.reaching(reaches) } else { three };
        list.push(of.contend::<L>(&[W, W]));
        // With three a sleeper may doze rightly, and only its timer ends that.
        if mode != "untimed" {
            list.extend([three, of.contend::<L>(&[W, W, W, W])]);
        }
    }
    let (mode, machine) = modes[0];
    let of = Of { lock, machine, mode };
    list.extend([of.attempt::<L>(&[W, W]), of.twice::<L>(&[W, W])]);
    list
}

fn timed<L: Timed<P = Loom> + 'static>(lock: &str) -> Vec<Scenario> {
    let of = Of { lock, machine: SLEEPS, mode: "sleeps" };
    let spins = Of { lock, machine: SPINS, mode: "spins" };
    vec![
        of.timeout::<L>(&[W, W]),
        of.timeout::<L>(&[W, W, W]),
        spins.timeout::<L>(&[W, W, W]),
        of.cancel::<L>(&[W, W]),
        of.cancel::<L>(&[W, W, W]),
    ]
}

fn shared<L: Shared<P = Loom> + 'static>(lock: &str, modes: Modes) -> Vec<Scenario> {
    let mut list = Vec::new();
    for &(mode, machine) in modes {
        let of = Of { lock, machine, mode };
        list.extend([of.contend::<L>(&[W, R]), of.contend::<L>(&[W, W])]);
        // A downgrade is a release, and another follows: who was woken by the first may doze.
        if mode != "untimed" {
            list.extend([
                of.downgrade::<L>(&[W]),
                of.contend::<L>(&[W, R, R]),
                of.contend::<L>(&[W, W, R]),
                of.contend::<L>(&[W, R, W, R]),
                of.downgrade::<L>(&[R, W]),
            ]);
        }
    }
    let (mode, machine) = modes[0];
    let of = Of { lock, machine, mode };
    list.extend([of.attempt::<L>(&[W, W]), of.attempt::<L>(&[W, R]), of.attempt::<L>(&[R, W])]);
    list
}

fn rwsem<L: Shared<P = Loom> + Timed + 'static>(policy: &str, modes: Modes) -> Vec<Scenario> {
    let lock = format!("rwsem:{policy}");
    let mut list = shared::<L>(&lock, modes);
    let of = Of { lock: &lock, machine: SLEEPS, mode: "sleeps" };
    list.extend([of.timeout::<L>(&[W, W, R]), of.timeout::<L>(&[W, R, W]), of.cancel::<L>(&[R, W, R])]);
    list
}

/// Of a policy that differs from the others in a knob or two: the least that has all kinds of
/// waiters.
fn rwsem_brief<Y: sem::Policy>() -> Vec<Scenario> {
    let lock = format!("rwsem:{}", Y::NAME);
    let mut list = Vec::new();
    for &(mode, machine) in PLAIN {
        let of = Of { lock: &lock, machine, mode };
        list.extend([
            of.contend::<KernelRwSem<Loom, Y>>(&[W, R]),
            of.contend::<KernelRwSem<Loom, Y>>(&[W, R, R]),
            of.contend::<KernelRwSem<Loom, Y>>(&[W, W, R]),
        ]);
    }
    list
}

/// In the biased count a second writer that queues must touch the count as well.
fn biased_queue() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "rwsem:xadd-baseline", machine, mode };
    let (sleeps, spins) = (of("sleeps", SLEEPS), of("spins", SPINS));
    vec![sleeps.contend::<KernelRwSem<Loom, sem::XaddBaseline>>(&[W, W, W]), spun_in_vain(&spins)]
}

fn condvar() -> Vec<Scenario> {
    let mut list = Vec::new();
    for &(mode, machine) in PLAIN {
        let of = Of { lock: "condvar", machine, mode };
        list.extend([arrival(&of, 1, false), arrival(&of, 2, false), arrival(&of, 2, true)]);
        list.extend([late_arrival(&of), moved_while_held(&of), left_while_moved(&of)]);
    }
    let of = Of { lock: "condvar", machine: UNTIMED, mode: "untimed" };
    list.push(arrival(&of, 1, false));
    let spinning = Of { lock: "condvar-spinning", machine: SLEEPS, mode: "sleeps" };
    list.push(spinning.contend::<Monitor<Loom, Spinning<Loom>>>(&[W, W]));
    list
}

fn parcels() -> Vec<Scenario> {
    let of = Of { lock: "futex-hash", machine: SLEEPS, mode: "sleeps" };
    vec![parcel(&of, false), parcel(&of, true), late_parcel(&of, false), late_parcel(&of, true)]
}

fn chains() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "rtmutex-tree", machine, mode };
    vec![chain(&of("sleeps", SLEEPS)), chain(&of("spins", SPINS)), late_again(&of("spins", SPINS))]
}

/// Readers in seats from the start. (Without a stint the lock is an rwsem.)
fn read_mostly() -> Vec<Scenario> {
    let mut list = Vec::new();
    for &(mode, machine) in BOTH {
        let of = Of { lock: "read-mostly", machine, mode };
        list.extend([
            of.contend::<Opened<Loom>>(&[W, R]),
            of.contend::<Opened<Loom>>(&[W, R, R]),
            of.contend::<Opened<Loom>>(&[W, W, R]),
            of.downgrade::<Opened<Loom>>(&[R, W]),
        ]);
    }
    let of = Of { lock: "read-mostly", machine: SLEEPS, mode: "sleeps" };
    list.extend([
        of.twice::<Opened<Loom>>(&[W, R]),
        of.attempt::<Opened<Loom>>(&[W, R]),
        of.attempt::<Opened<Loom>>(&[R, W]),
        of.timeout::<Opened<Loom>>(&[R, W, R]),
    ]);
    list
}

fn qrwlock() -> Vec<Scenario> {
    let lock = "qrwlock:today";
    let mut list = shared::<RawQRwLock<Loom>>(lock, TURNS);
    // Four late threads are more than loom explores to any of its bounds.
    list.retain(|scenario| !scenario.name.ends_with("/wrwr/late"));
    let of = Of { lock, machine: SLEEPS, mode: "sleeps" };
    list.extend([of.timeout::<RawQRwLock<Loom>>(&[W, W, R]), of.timeout::<RawQRwLock<Loom>>(&[W, R, W])]);
    list
}

fn kernel_qrwlock<Y: qrw::Policy>() -> Vec<Scenario> {
    shared::<KernelQRwLock<Loom, Y>>(&format!("qrwlock:{}", Y::NAME), BOTH)
}

fn semaphore() -> Vec<Scenario> {
    let mut list = Vec::new();
    for &(mode, machine) in TURNS {
        let of = Of { lock: "semaphore:opportunistic-safe", machine, mode };
        list.push(of.contend::<Binary<RawSemaphore<Loom>>>(&[W, W]));
        if mode != "untimed" {
            list.push(of.contend::<Binary<RawSemaphore<Loom>>>(&[W, W, W]));
            list.push(units::<RawSemaphore<Loom>>(&of));
        }
    }
    list.extend(timed::<Binary<RawSemaphore<Loom>>>("semaphore:opportunistic-safe"));
    let of = Of { lock: "semaphore:direct-handoff", machine: SLEEPS, mode: "sleeps" };
    list.extend([
        of.contend::<Binary<KernelSemaphore<Loom, DirectHandoff>>>(&[W, W]),
        of.contend::<Binary<KernelSemaphore<Loom, DirectHandoff>>>(&[W, W, W]).reaching(&[Event::SemHandoff]),
        units::<KernelSemaphore<Loom, DirectHandoff>>(&of),
    ]);
    list.extend(timed::<Binary<KernelSemaphore<Loom, DirectHandoff>>>("semaphore:direct-handoff"));
    // Its lost wake-up needs two quick ups (they are not tried here).
    let of = Of { lock: "semaphore:opportunistic-2008", machine: SLEEPS, mode: "sleeps" };
    list.extend([
        of.contend::<Binary<KernelSemaphore<Loom, Opportunistic2008>>>(&[W, W]),
        of.contend::<Binary<KernelSemaphore<Loom, Opportunistic2008>>>(&[W, W, W]),
    ]);
    list
}

fn references() -> Vec<Scenario> {
    let of = Of { lock: "lockref", machine: SPINS, mode: "spins" };
    vec![last_reference::<LockRef<Loom>>(&of, 2), last_reference::<LockRef<Loom>>(&of, 3)]
}

/// CNA begins a circle once in [`SHUFFLE_ONE_IN`] times, which the end of the head's turn decides:
/// a beginning of time that makes the head do so that was first in the queue, or second.
fn shuffled() -> Vec<Scenario> {
    let start = |turns: u64| {
        let draws = |start: &u64| {
            ((start + turns * TURN_NS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SHUFFLE_ONE_IN)
        };
        (0..).find(draws).unwrap_or(0)
    };
    let of = |mode, machine| Of { lock: "cna", machine, mode };
    let first = Machine { start: start(1), ..two_nodes(SPINS) };
    // Exact: nobody passes those who queue.
    let second = Machine { start: start(2), ..two_nodes(EXACT) };
    vec![
        of("shuffles", first).contend::<RawCnaSpinLock<Loom>>(&[W, W, W, W]),
        aside(&of("shuffles", second)),
        aside(&of("urgent", Machine { ranked: true, ..second })),
    ]
}

/// Threads of fixed priority beside one of none. With two threads that hold the lock once, no sleep
/// need end by its timer.
fn urgent_spins() -> Vec<Scenario> {
    let of = |lock, mode, machine| Of { lock, machine: Machine { ranked: true, ..machine }, mode };
    let untimed = of("qspinlock", "urgent-untimed", UNTIMED);
    let sleeps = of("qspinlock", "urgent", SLEEPS);
    vec![
        untimed.contend::<RawQSpinLock<Loom>>(&[W, W]).reaching(&[Event::PvUrgent]),
        sleeps.twice::<RawQSpinLock<Loom>>(&[W, W]),
        sleeps.contend::<RawQSpinLock<Loom>>(&[W, W, W]).reaching(&[Event::PvUrgent]),
        of("hq-spinlock", "urgent-untimed", two_nodes(UNTIMED)).contend::<EagerHq<Loom>>(&[W, W]),
    ]
}

/// The hierarchical spinlock from within hierarchical mode, and on its way there.
fn hierarchical() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "hq-spinlock", machine: two_nodes(machine), mode };
    let (exact, sleeps) = (of("exact", EXACT), of("sleeps", SLEEPS));
    vec![
        lanes(&exact, &[1, 1], 2, 0),
        lanes(&exact, &[2, 1], 2, 0),
        lanes(&exact, &[1, 1, 1], 2, 0),
        lanes(&exact, &[1, 1, 1], 0, 0),
        lanes(&exact, &[1, 1, 1], 2, 1),
        lanes(&exact, &[1, 1, 1, 1], 2, 1),
        lanes(&sleeps, &[1, 1], 2, 0),
        lanes(&sleeps, &[1, 1, 1], 0, 0),
        lanes(&sleeps, &[1, 1, 1], 2, 1),
        turning(&exact, 3),
        turning(&exact, 4),
        turning(&exact, 5),
        reuse(&exact, 1),
        reuse(&exact, 2),
        turning_late(&exact),
        folding(&exact),
        handing_over(&of("spins", SPINS)),
    ]
}

/// The queue of spinners alone: everybody gives up at once, or the second one does.
fn spin_queue() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "osq", machine, mode };
    let (hasty, second) = (of("hasty", SLEEPS), of("second-hasty", Machine { hasty: Some(1), ..SPINS }));
    vec![
        spinners(&hasty, &[1, 1]),
        spinners(&hasty, &[2, 2]),
        spinners(&hasty, &[1, 1, 1]),
        spinners(&hasty, &[2, 1, 1]),
        spinners(&hasty, &[1, 1, 1, 1]),
        spinners(&second, &[1, 1, 1]),
        spinners(&second, &[1, 2, 1]),
        spinners(&second, &[2, 1, 2]),
    ]
}

/// What the preload library and the C interface call: fast paths without the slow ones, releases
/// that do not touch the lock afterwards, reads that recur.
fn embedded() -> Vec<Scenario> {
    let of = |lock, mode, machine| Of { lock, machine, mode };
    let mut list = Vec::new();
    for (mode, machine) in [("sleeps", SLEEPS), ("spins", SPINS)] {
        let mutex = of("mutex-inlined", mode, machine);
        list.extend([
            mutex.contend::<Inlined<RawMutex<Loom>>>(&[W, W]),
            mutex.contend::<Inlined<RawMutex<Loom>>>(&[W, W, W]),
        ]);
        let today = of("rwsem-detached:today", mode, machine);
        list.extend([
            today.contend::<Detached<RawRwSem<Loom>>>(&[W, W]),
            today.contend::<Detached<RawRwSem<Loom>>>(&[W, R]),
            today.contend::<Detached<RawRwSem<Loom>>>(&[W, R, W]),
            reading_again(&today, 1),
            reading_again(&today, 2),
        ]);
        let kernel = of("rwsem-detached:today-kernel", mode, machine);
        list.extend([
            kernel.contend::<Detached<KernelRwSem<Loom, sem::TodayKernel>>>(&[W, W]),
            kernel.contend::<Detached<KernelRwSem<Loom, sem::TodayKernel>>>(&[W, R]),
            kernel.contend::<Detached<KernelRwSem<Loom, sem::TodayKernel>>>(&[W, R, W]),
            kernel.contend::<Detached<KernelRwSem<Loom, sem::TodayKernel>>>(&[W, W, W]),
        ]);
    }
    let (mutex, today) = (of("mutex-inlined", "untimed", UNTIMED), of("rwsem-detached:today", "untimed", UNTIMED));
    list.extend([
        mutex.contend::<Inlined<RawMutex<Loom>>>(&[W, W]),
        today.contend::<Detached<RawRwSem<Loom>>>(&[W, W]),
        today.contend::<Detached<RawRwSem<Loom>>>(&[W, R]),
        urgent(&of("qrwlock:today", "spins", SPINS)),
        urgent(&of("qrwlock:today", "sleeps", SLEEPS)),
    ]);
    list
}

/// One of two threads has no record: the registry is exhausted.
fn strangers() -> Vec<Scenario> {
    let machine = Machine { registered: 1, ..SLEEPS };
    let of = |lock| Of { lock, machine, mode: "stranger" };
    vec![
        of("qspinlock").contend::<RawQSpinLock<Loom>>(&[W, W]),
        of("mcs").contend::<RawMcsLock<Loom>>(&[W, W]),
        of("mutex").contend::<RawMutex<Loom>>(&[W, W]),
        of("rtmutex-tree").contend::<RawTreeRtMutex<Loom>>(&[W, W]),
        of("rtmutex-tree").attempt::<RawTreeRtMutex<Loom>>(&[W, W]),
        of("rwsem:today").contend::<RawRwSem<Loom>>(&[W, W]),
        of("rwsem:today").contend::<RawRwSem<Loom>>(&[W, R]),
        of("rwsem:today-kernel").contend::<KernelRwSem<Loom, sem::TodayKernel>>(&[W, W]),
        of("rwsem:today-kernel").contend::<KernelRwSem<Loom, sem::TodayKernel>>(&[W, R]),
        of("rwsem:xadd-baseline").contend::<KernelRwSem<Loom, sem::XaddBaseline>>(&[W, R]),
        of("semaphore:opportunistic-safe").contend::<Binary<RawSemaphore<Loom>>>(&[W, W]),
        of("futex-hash").contend::<HashedMutex<Loom, RawTicketLock<Loom>>>(&[W, W]),
    ]
}

fn rt_condvar() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "rtmutex-tree-condvar", machine, mode };
    let late = Of { lock: "rtmutex-tree", machine: SLEEPS, mode: "sleeps" };
    vec![
        letter(&of("sleeps", SLEEPS), false),
        letter(&of("spins", SPINS), false),
        letter(&of("sleeps", SLEEPS), true),
        late.late::<RawTreeRtMutex<Loom>>(&[W, W, W]),
        orphan(&late, 2),
        orphan(&late, 3),
    ]
}
