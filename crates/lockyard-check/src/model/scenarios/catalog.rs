//! The list of scenarios: of each lock that the [list](lockyard_catalog::list) has for models what
//! its trait asks for, and those of one lock.

use lockyard::event::Event;
use lockyard::history::rwsem::{KernelRwSem, policy as sem};
use lockyard::mutex::RawMutex;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::cna::{RawCnaSpinLock, SHUFFLE_ONE_IN};
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::wait::turn::TURN_NS;
use lockyard_catalog::entry::Waits;
use lockyard_catalog::{Entry, entries, types};

use super::super::setting::{Clock, Machine, Patience};
use super::super::weak::Loom;
use super::Scenario;
use super::counting::{bundle, last_reference, units};
use super::embedding::{orphan, reading_again, urgent};
use super::exclusive::Of;
use super::inheriting::{chain, late_again, letter};
use super::parking::{late_parcel, parcel};
use super::queueing::{aside, lanes, reuse, spinners, turning};
use super::scripts::{folding, handing_over, spun_in_vain, turning_late};
use super::signalling::{arrival, late_arrival, left_while_moved, moved_while_held};
use crate::adapters::hashed::HashedMutex;
use crate::adapters::{Binary, EagerHq};
use crate::embedded::{Detached, Inlined, Monitor, Spinning};
use crate::lock::Way::{Read as R, Write as W};
use crate::lock::{Count, Hashed, Lock, References, Shared, Timed, Weigh};

const SLEEPS: Machine = Machine::SLEEPS;
const SPINS: Machine = Machine::SPINS;
const EXACT: Machine = Machine { patience: Patience::Exact, ..SLEEPS };
/// Every turn is over: handoff.
const LATE: Machine = Machine { clock: Clock::Hurried, ..SLEEPS };
/// No sleep ends by its timer: a wake-up that is lost is a hang.
const UNTIMED: Machine = Machine { clock: Clock::Stopped, ..SLEEPS };

/// How a lock is waited for.
type Modes = &'static [(&'static str, Machine)];

fn modes(entry: &Entry) -> Modes {
    match entry.waits {
        Waits::Spin => &[("spins", SPINS)],
        Waits::SpinByNode => const { &[("spins", two_nodes(SPINS))] },
        Waits::QueueByNode => const { &[("spins", two_nodes(SPINS)), ("exact", two_nodes(EXACT))] },
        Waits::Sleep => &[("sleeps", SLEEPS)],
        Waits::SpinOrSleep => &[("spins", SPINS), ("sleeps", SLEEPS)],
        Waits::SleepOrSpin => PLAIN,
        Waits::Handoff => &[("sleeps", SLEEPS), ("spins", SPINS), ("late", LATE)],
        Waits::Turns => &[("sleeps", SLEEPS), ("untimed", UNTIMED), ("spins", SPINS), ("late", LATE)],
        Waits::Queue => &[("sleeps", SLEEPS), ("untimed", UNTIMED), ("spins", SPINS), ("exact", EXACT), ("late", LATE)],
    }
}

const PLAIN: Modes = &[("sleeps", SLEEPS), ("spins", SPINS)];

/// The path that the first mode of a lock with three threads must take.
const REACHED: [(&str, &[Event]); 4] = [
    ("mcs", &[Event::PvWaitNode]),
    ("mutex", &[Event::MutexSleep]),
    ("rtmutex-tree:today", &[Event::RtmutexSlowSleep]),
    ("semaphore:direct-handoff", &[Event::SemHandoff]),
];

fn reached(label: &str) -> &'static [Event] {
    REACHED.iter().find(|(name, _)| *name == label).map_or(&[], |(_, events)| events)
}

/// More than loom explores to any of its bounds.
const LEFT_OUT: [&str; 2] = ["qrwlock:today/wrwr/late", "qrwlock:today/cancel-rwr/sleeps"];

/// Every scenario: those of each lock of the list, then those of one lock each.
pub fn all() -> Vec<Scenario> {
    let mut list = Vec::new();
    macro_rules! model {
        (() $lock:ident $trait:ident $promises:tt) => {
            list.extend($trait::<types::$lock<Loom>>(&entries::$lock));
        };
        (brief $lock:ident $trait:ident $promises:tt) => {
            list.extend(brief::$trait::<types::$lock<Loom>>(&entries::$lock));
        };
    }
    lockyard_catalog::locks!(models => model ());
    lockyard_catalog::locks!(brief => model brief);
    let is_there = |start: &str| list.iter().any(|scenario| scenario.name.starts_with(start));
    assert!(LEFT_OUT.iter().all(|name| is_there(name)), "{LEFT_OUT:?}");
    assert!(REACHED.iter().all(|(label, _)| is_there(&format!("{label}/"))), "{REACHED:?}");
    list.retain(|scenario| !LEFT_OUT.contains(&scenario.name.as_str()));
    let special = [
        urgent_spins(),
        parted_spins(),
        parted_readers(),
        shuffled(),
        hierarchical(),
        spin_queue(),
        embedded(),
        strangers(),
        biased_queue(),
        parcels(),
        condvar(),
        chains(),
        rt_condvar(),
    ];
    list.extend(special.concat());
    list
}

const fn two_nodes(machine: Machine) -> Machine {
    Machine { nodes: 2, ..machine }
}

/// Two, three and four threads in each mode; tries; two threads twice.
fn lock<L: Lock<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    let label = &entry.label();
    let mut list = Vec::new();
    for (number, &(mode, machine)) in modes(entry).iter().enumerate() {
        let of = Of { lock: label, machine, mode };
        let three = of.contend::<L>(&[W, W, W]);
        let three = if number == 0 { three.reaching(reached(label)) } else { three };
        list.push(of.contend::<L>(&[W, W]));
        // With three a sleeper may doze rightly, and only its timer ends that.
        if mode != "untimed" {
            list.extend([three, of.contend::<L>(&[W, W, W, W])]);
        }
    }
    let (mode, machine) = modes(entry)[0];
    let of = Of { lock: label, machine, mode };
    list.extend([of.attempt::<L>(&[W, W]), of.twice::<L>(&[W, W])]);
    list
}

fn timed<L: Timed<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    [lock::<L>(entry), early_ends::<L>(entry)].concat()
}

fn early_ends<L: Timed<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    let lock = &entry.label();
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

fn shared<L: Shared<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    let lock = &entry.label();
    let mut list = Vec::new();
    for &(mode, machine) in modes(entry) {
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
    let (mode, machine) = modes(entry)[0];
    let of = Of { lock, machine, mode };
    list.extend([of.attempt::<L>(&[W, W]), of.attempt::<L>(&[W, R]), of.attempt::<L>(&[R, W])]);
    list
}

fn shared_timed<L: Shared<P = Loom> + Timed + 'static>(entry: &Entry) -> Vec<Scenario> {
    let mut list = shared::<L>(entry);
    let of = Of { lock: &entry.label(), machine: SLEEPS, mode: "sleeps" };
    list.extend([of.timeout::<L>(&[W, W, R]), of.timeout::<L>(&[W, R, W]), of.cancel::<L>(&[R, W, R])]);
    list
}

fn references<L: References<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    let mut list = lock::<L>(entry);
    let of = Of { lock: &entry.label(), machine: SPINS, mode: "spins" };
    list.extend([last_reference::<L>(&of, 2), last_reference::<L>(&of, 3)]);
    list
}

fn hashed<L: Hashed<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    lock::<L>(entry)
}

/// With one unit a lock, with several units what [`units`] says.
fn count<S: Count<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    let lock = &entry.label();
    let mut list = Vec::new();
    for &(mode, machine) in modes(entry) {
        let of = Of { lock, machine, mode };
        list.push(of.contend::<Binary<S>>(&[W, W]));
        if mode != "untimed" {
            let three = of.contend::<Binary<S>>(&[W, W, W]);
            list.extend([three.reaching(reached(lock)), units::<S>(&of)]);
        }
    }
    list.extend(early_ends::<Binary<S>>(entry));
    list
}

/// Also units of which a thread takes two in one step.
fn weigh<S: Weigh<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
    let mut list = count::<S>(entry);
    let lock = &entry.label();
    list.extend(modes(entry).iter().map(|&(mode, machine)| bundle::<S>(&Of { lock, machine, mode })));
    list
}

/// Of a policy that differs from the others in a knob or two: the least that has all kinds of
/// waiters.
mod brief {
    use super::*;

    pub(super) fn shared_timed<L: Lock<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
        let lock = &entry.label();
        let mut list = Vec::new();
        for &(mode, machine) in PLAIN {
            let of = Of { lock, machine, mode };
            list.extend([of.contend::<L>(&[W, R]), of.contend::<L>(&[W, R, R]), of.contend::<L>(&[W, W, R])]);
        }
        list
    }

    /// A wake-up that two quick ups lose is not tried.
    pub(super) fn count<S: Count<P = Loom> + 'static>(entry: &Entry) -> Vec<Scenario> {
        let of = Of { lock: &entry.label(), machine: SLEEPS, mode: "sleeps" };
        vec![of.contend::<Binary<S>>(&[W, W]), of.contend::<Binary<S>>(&[W, W, W])]
    }
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
    let of = Of { lock: "futex-hash:ticket", machine: SLEEPS, mode: "sleeps" };
    vec![parcel(&of, false), parcel(&of, true), late_parcel(&of, false), late_parcel(&of, true)]
}

fn chains() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "rtmutex-tree:today", machine, mode };
    vec![chain(&of("sleeps", SLEEPS)), chain(&of("spins", SPINS)), late_again(&of("spins", SPINS))]
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

/// Spinlocks whose takers look before they take the byte.
fn parted_spins() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "qspinlock", machine: Machine { parted: true, ..machine }, mode };
    let late = of("parted-late", LATE);
    vec![
        of("parted-untimed", UNTIMED).contend::<RawQSpinLock<Loom>>(&[W, W]),
        of("parted-urgent", Machine { ranked: true, ..UNTIMED }).contend::<RawQSpinLock<Loom>>(&[W, W]),
        late.contend::<RawQSpinLock<Loom>>(&[W, W]),
        late.contend::<RawQSpinLock<Loom>>(&[W, W, W]),
        late.attempt::<RawQSpinLock<Loom>>(&[W, W]),
    ]
}

/// Writers that claim a lock before they look. Woken in vain by that, a waiter may doze rightly.
fn parted_readers() -> Vec<Scenario> {
    let parted = |machine| Machine { parted: true, ..machine };
    let of = |mode, machine| Of { lock: "qrwlock:today", machine: parted(machine), mode };
    let sleeps = of("parted-sleeps", SLEEPS);
    let spins = of("parted-spins", SPINS);
    vec![
        sleeps.contend::<RawQRwLock<Loom>>(&[W, R]),
        sleeps.downgrade::<RawQRwLock<Loom>>(&[W]),
        sleeps.attempt::<RawQRwLock<Loom>>(&[W, R]),
        spins.contend::<RawQRwLock<Loom>>(&[W, R]),
        spins.contend::<RawQRwLock<Loom>>(&[W, W]),
        spins.contend::<RawQRwLock<Loom>>(&[W, R, R]),
        spins.contend::<RawQRwLock<Loom>>(&[W, W, R]),
        spins.downgrade::<RawQRwLock<Loom>>(&[R, W]),
        urgent(&spins),
        of("parted-late", LATE).contend::<RawQRwLock<Loom>>(&[W, R]),
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
        of("rtmutex-tree:today").contend::<RawTreeRtMutex<Loom>>(&[W, W]),
        of("rtmutex-tree:today").attempt::<RawTreeRtMutex<Loom>>(&[W, W]),
        of("rwsem:today").contend::<RawRwSem<Loom>>(&[W, W]),
        of("rwsem:today").contend::<RawRwSem<Loom>>(&[W, R]),
        of("rwsem:today-kernel").contend::<KernelRwSem<Loom, sem::TodayKernel>>(&[W, W]),
        of("rwsem:today-kernel").contend::<KernelRwSem<Loom, sem::TodayKernel>>(&[W, R]),
        of("rwsem:xadd-baseline").contend::<KernelRwSem<Loom, sem::XaddBaseline>>(&[W, R]),
        of("semaphore:opportunistic-safe").contend::<Binary<RawSemaphore<Loom>>>(&[W, W]),
        of("futex-hash:ticket").contend::<HashedMutex<Loom, RawTicketLock<Loom>>>(&[W, W]),
    ]
}

fn rt_condvar() -> Vec<Scenario> {
    let of = |mode, machine| Of { lock: "rtmutex-tree-condvar", machine, mode };
    let late = Of { lock: "rtmutex-tree:today", machine: SLEEPS, mode: "sleeps" };
    vec![
        letter(&of("sleeps", SLEEPS), false),
        letter(&of("spins", SPINS), false),
        letter(&of("sleeps", SLEEPS), true),
        late.late::<RawTreeRtMutex<Loom>>(&[W, W, W]),
        orphan(&late, 2),
        orphan(&late, 3),
    ]
}
