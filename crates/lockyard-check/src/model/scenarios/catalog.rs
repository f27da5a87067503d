//! The list of scenarios. A new lock is one line in [`all`].

use lockyard::event::Event;
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::qrwlock::{RawQRwLock, policy as qrw};
use lockyard::rtmutex::RawRtMutex;
use lockyard::rwsem::{RawRwSem, policy as sem};
use lockyard::semaphore::{DirectHandoff, Opportunistic2008, OpportunisticSafe, RawSemaphore};
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
use super::exclusive::Of;
use super::inheriting::chain;
use super::signalling::{arrival, late_arrival};
use crate::adapters::{Binary, EagerHq};
use crate::cases::parking::HashedMutex;
use crate::embedded::{Monitor, Spinning};
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
        exclusive::<RawCnaSpinLock<Loom>>("cna", NODES, &[]),
        vec![shuffled()],
        exclusive::<EagerHq<Loom>>("hq-spinlock", EXACT_NODES, &[]),
        exclusive::<RawMcsLock<Loom>>("mcs", PLAIN, &[Event::PvWaitNode]),
        exclusive::<RawTicketLock<Loom>>("ticket", SPIN, &[]),
        exclusive::<RawTtasLock<Loom>>("ttas", SPIN, &[]),
        exclusive::<RawMutex<Loom>>("mutex", TURNS, &[Event::MutexSleep]),
        timed::<RawMutex<Loom>>("mutex"),
        rwsem::<sem::Today>(TURNS),
        rwsem::<sem::TodayKernel>(KERNEL),
        rwsem::<sem::V5_10>(KERNEL),
        rwsem::<sem::XaddBaseline>(PLAIN),
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
        qrwlock::<qrw::Today>(),
        qrwlock::<qrw::FetchAdd>(),
        qrwlock::<qrw::ByteCas>(),
        qrwlock::<qrw::WordCas>(),
        semaphore(),
        exclusive::<LockRef<Loom>>("lockref", SPIN, &[]),
        references(),
        exclusive::<HashedMutex<Loom, RawTicketLock<Loom>>>("futex-hash", PLAIN, &[]),
        condvar(),
        exclusive::<RawRtMutex<Loom>>("rtmutex-tree", PLAIN, &[Event::RtmutexSlowSleep]),
        timed::<RawRtMutex<Loom>>("rtmutex-tree"),
        chains(),
    ]
    .concat()
}

const fn two_nodes(machine: Machine) -> Machine {
    Machine { nodes: 2, ..machine }
}

/// Two, three and four threads in each mode; tries; two threads twice. The first mode with three threads must count `reaches`.
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

fn rwsem<Y: sem::Policy>(modes: Modes) -> Vec<Scenario> {
    let lock = format!("rwsem:{}", Y::NAME);
    let mut list = shared::<RawRwSem<Loom, Y>>(&lock, modes);
    let of = Of { lock: &lock, machine: SLEEPS, mode: "sleeps" };
    list.extend([
        of.timeout::<RawRwSem<Loom, Y>>(&[W, W, R]),
        of.timeout::<RawRwSem<Loom, Y>>(&[W, R, W]),
        of.cancel::<RawRwSem<Loom, Y>>(&[R, W, R]),
    ]);
    list
}

/// Of a policy that differs from the others in a knob or two: the least that has all kinds of waiters.
fn rwsem_brief<Y: sem::Policy>() -> Vec<Scenario> {
    let lock = format!("rwsem:{}", Y::NAME);
    let mut list = Vec::new();
    for &(mode, machine) in PLAIN {
        let of = Of { lock: &lock, machine, mode };
        list.extend([
            of.contend::<RawRwSem<Loom, Y>>(&[W, R]),
            of.contend::<RawRwSem<Loom, Y>>(&[W, R, R]),
            of.contend::<RawRwSem<Loom, Y>>(&[W, W, R]),
        ]);
    }
    list
}

fn condvar() -> Vec<Scenario> {
    let mut list = Vec::new();
    for &(mode, machine) in PLAIN {
        let of = Of { lock: "condvar", machine, mode };
        list.extend([arrival(&of, 1, false), arrival(&of, 2, false), arrival(&of, 2, true), late_arrival(&of)]);
    }
    let of = Of { lock: "condvar", machine: UNTIMED, mode: "untimed" };
    list.push(arrival(&of, 1, false));
    let spinning = Of { lock: "condvar-spinning", machine: SLEEPS, mode: "sleeps" };
    list.push(spinning.contend::<Monitor<Loom, Spinning<Loom>>>(&[W, W]));
    list
}

fn chains() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "rtmutex-tree", machine, mode };
    vec![chain(&of("sleeps", SLEEPS)), chain(&of("spins", SPINS))]
}

fn qrwlock<Y: qrw::Policy>() -> Vec<Scenario> {
    shared::<RawQRwLock<Loom, Y>>(&format!("qrwlock:{}", Y::NAME), BOTH)
}

fn semaphore() -> Vec<Scenario> {
    let mut list = Vec::new();
    for &(mode, machine) in TURNS {
        let of = Of { lock: "semaphore:opportunistic-safe", machine, mode };
        list.push(of.contend::<Binary<Loom, OpportunisticSafe>>(&[W, W]));
        if mode != "untimed" {
            list.push(of.contend::<Binary<Loom, OpportunisticSafe>>(&[W, W, W]));
            list.push(units::<RawSemaphore<Loom, OpportunisticSafe>>(&of));
        }
    }
    list.extend(timed::<Binary<Loom, OpportunisticSafe>>("semaphore:opportunistic-safe"));
    let of = Of { lock: "semaphore:direct-handoff", machine: SLEEPS, mode: "sleeps" };
    list.extend([
        of.contend::<Binary<Loom, DirectHandoff>>(&[W, W]),
        of.contend::<Binary<Loom, DirectHandoff>>(&[W, W, W]).reaching(&[Event::SemHandoff]),
        units::<RawSemaphore<Loom, DirectHandoff>>(&of),
    ]);
    list.extend(timed::<Binary<Loom, DirectHandoff>>("semaphore:direct-handoff"));
    // Its lost wake-up needs two quick ups (they are not tried here).
    let of = Of { lock: "semaphore:opportunistic-2008", machine: SLEEPS, mode: "sleeps" };
    list.extend([
        of.contend::<Binary<Loom, Opportunistic2008>>(&[W, W]),
        of.contend::<Binary<Loom, Opportunistic2008>>(&[W, W, W]),
    ]);
    list
}

fn references() -> Vec<Scenario> {
    let of = Of { lock: "lockref", machine: SPINS, mode: "spins" };
    vec![last_reference::<LockRef<Loom>>(&of, 2), last_reference::<LockRef<Loom>>(&of, 3)]
}

/// CNA begins a circle once in [`SHUFFLE_ONE_IN`] times, which the head's turn decides: a beginning of time that makes the first head do so.
fn shuffled() -> Scenario {
    let draws =
        |start: &u64| ((start + TURN_NS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SHUFFLE_ONE_IN);
    let start = (0..).find(draws).unwrap_or(0);
    let machine = Machine { start, ..two_nodes(SPINS) };
    let of = Of { lock: "cna", machine, mode: "shuffles" };
    of.contend::<RawCnaSpinLock<Loom>>(&[W, W, W, W])
}
