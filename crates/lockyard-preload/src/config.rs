//! Which lock serves which kind of pthread object: read once, from the environment, when the first
//! lock asks.
//!
//! | variable | values | default |
//! |---|---|---|
//! | `LOCKYARD_MUTEX` | `mutex`, `spin`, `hq`, `rt`, `glibc` | `mutex` |
//! | `LOCKYARD_RWLOCK` | `rwsem[:NAME]`, `read-mostly`, `percpu-rwsem`, `qrw`, `glibc` | `rwsem` |
//! | `LOCKYARD_SPIN` | `spin`, `hq`, `glibc` | `spin` |
//! | `LOCKYARD_SEM` | `lockyard`, `glibc` | `lockyard` |
//!
//! (And `LOCKYARD_DEEPBIND=keep`: see `deepbind`.) `rt` is `mutex`, and the priority-inheritance
//! mutex for objects with `PTHREAD_PRIO_INHERIT`, which are glibc's otherwise.
//!
//! A value that is none of these: one line on standard error, and every object is glibc's. Programs
//! that change their own environment do not change the choice.

use core::sync::atomic::{AtomicU32, Ordering::*};

use crate::counters::{self, Fallback};
use crate::environment::{Complaint, variable};
use crate::policies::{self, RwlockKind, is_name};

/// What `pthread_mutex_t` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum MutexKind {
    Glibc,
    Mutex,
    Spin,
    Hq,
    /// The choice: [`MutexKind::Mutex`], and this for mutexes with priority inheritance.
    Rt,
}

/// What `pthread_spinlock_t` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum SpinKind {
    Glibc,
    Spin,
    Hq,
}

const MUTEXES: [(&str, MutexKind); 5] = [
    ("mutex", MutexKind::Mutex),
    ("spin", MutexKind::Spin),
    ("hq", MutexKind::Hq),
    ("rt", MutexKind::Rt),
    ("glibc", MutexKind::Glibc),
];
const SPINS: [(&str, SpinKind); 3] = [("spin", SpinKind::Spin), ("hq", SpinKind::Hq), ("glibc", SpinKind::Glibc)];

/// Names that locks have in Rust and in the other tools, and theirs here.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("spinlock", "spin"),
    ("qspinlock", "spin"),
    ("hqspinlock", "hq"),
    ("hq-spinlock", "hq"),
    ("rtmutex", "rt"),
    ("pi-mutex", "rt"),
    ("qrwlock", "qrw"),
    ("rwsem", "rwsem"),
];

/// The choice, packed: bit 31 decided; bits 0–7 mutex, 8–15 rwlock (0 glibc, 1 qrw, 2 + policy, and
/// those named below), 16–23 spin, 24 semaphores, 25 locks are told of one by one, 26 some
/// spinlocks are glibc's, 27 all is glibc's because a variable names no lock.
static CHOICE: AtomicU32 = AtomicU32::new(0);
const DECIDED: u32 = 1 << 31;
const WATCHED: u32 = 1 << 25;
const SPINS_SHARED: u32 = 1 << 26;
const MISTAKEN: u32 = 1 << 27;

#[inline(always)]
fn choice() -> u32 {
    match CHOICE.load(Relaxed) {
        0 => decide(),
        choice => choice,
    }
}

/// Reads what the chosen locks will want to know of the machine.
pub(crate) fn read_ahead() {
    let apart = matches!(rwlock(), RwlockKind::ReadMostly | RwlockKind::PerCpu);
    if mutex() == MutexKind::Hq || spin() == SpinKind::Hq || apart {
        lockyard::platform::linux::topology::read_ahead();
    }
}

/// What `pthread_mutex_t` is, without priority inheritance.
#[inline(always)]
pub(crate) fn mutex() -> MutexKind {
    match choice() & 0xff {
        1 | INHERITING => MutexKind::Mutex,
        2 => MutexKind::Spin,
        3 => MutexKind::Hq,
        _ => MutexKind::Glibc,
    }
}

const INHERITING: u32 = MutexKind::Rt as u32;

/// Whether mutexes with priority inheritance are ours.
pub(crate) fn inheriting() -> bool {
    choice() & 0xff == INHERITING
}

const READ_MOSTLY: u32 = 0xff;
const PER_CPU: u32 = 0xfe;

/// What `pthread_rwlock_t` is.
#[inline(always)]
pub(crate) fn rwlock() -> RwlockKind {
    match choice() >> 8 & 0xff {
        0 => RwlockKind::Glibc,
        1 => RwlockKind::Qrw,
        READ_MOSTLY => RwlockKind::ReadMostly,
        PER_CPU => RwlockKind::PerCpu,
        policy => RwlockKind::Rwsem(policy as u8 - 2),
    }
}

/// Whether `pthread_rwlock_t` is known to be the rwsem with its default policy, of which nobody
/// wants to be told: what the fast paths are for.
#[inline(always)]
pub(crate) fn rwlock_is_default() -> bool {
    CHOICE.load(Relaxed) & (DECIDED | WATCHED | 0xff << 8) == DECIDED | (2 + policies::DEFAULT as u32) << 8
}

/// What `pthread_rwlock_t` is, if it is a lock that moves, and nobody wants to be told.
#[inline(always)]
pub(crate) fn rwlock_moves() -> Option<RwlockKind> {
    match CHOICE.load(Relaxed) & (DECIDED | WATCHED | 0xff << 8) {
        MOSTLY_MOVES => Some(RwlockKind::ReadMostly),
        PER_CPU_MOVES => Some(RwlockKind::PerCpu),
        _ => None,
    }
}

const MOSTLY_MOVES: u32 = DECIDED | READ_MOSTLY << 8;
const PER_CPU_MOVES: u32 = DECIDED | PER_CPU << 8;

/// As [`rwlock_is_default`], where somebody wants to be told.
#[inline(always)]
pub(crate) fn rwlock_is_default_and_told() -> bool {
    const { assert!(DECIDED & WATCHED == 0) };
    CHOICE.load(Relaxed) & (DECIDED | WATCHED | 0xff << 8) == DECIDED | WATCHED | (2 + policies::DEFAULT as u32) << 8
}

/// What `pthread_spinlock_t` is.
#[inline(always)]
pub(crate) fn spin() -> SpinKind {
    match choice() >> 16 & 0xff {
        1 => SpinKind::Spin,
        2 => SpinKind::Hq,
        _ => SpinKind::Glibc,
    }
}

/// Whether every `pthread_spinlock_t` seen so far is the plain queued spinlock, and nobody wants to
/// be told: what the fast paths are for.
#[inline(always)]
pub(crate) fn spin_is_default() -> bool {
    let asked = DECIDED | WATCHED | SPINS_SHARED | 0xff << 16;
    CHOICE.load(Relaxed) & asked == DECIDED | (SpinKind::Spin as u32) << 16
}

/// From now on there are spinlocks of glibc's, whatever the choice.
pub(crate) fn share_spins() {
    if choice() & SPINS_SHARED == 0 {
        CHOICE.fetch_or(SPINS_SHARED, AcqRel);
    }
}

/// Whether `sem_t` is ours.
#[inline(always)]
pub(crate) fn semaphores() -> bool {
    choice() >> 24 & 1 != 0
}

/// Whether any kind of object is ours.
pub(crate) fn anything_ours() -> bool {
    choice() & 0x01ff_ffff != 0
}

/// From now on locks are told of one by one, and which kinds of objects are glibc's.
pub(crate) fn watch() {
    use lockyard_segment::Fallback::{ChosenMutex, ChosenRwlock, ChosenSem, ChosenSpin};
    choice();
    CHOICE.fetch_or(WATCHED, Relaxed);
    for (is_glibcs, chosen) in [
        (mutex() == MutexKind::Glibc, ChosenMutex),
        (rwlock() == RwlockKind::Glibc, ChosenRwlock),
        (spin() == SpinKind::Glibc, ChosenSpin),
        (!semaphores(), ChosenSem),
    ] {
        // A mistake has been complained of.
        if is_glibcs && choice() & MISTAKEN == 0 {
            lockyard_segment::fell_back(chosen);
        }
    }
}

#[cold]
fn decide() -> u32 {
    let outcome = read();
    let choice = outcome.unwrap_or(MISTAKEN) | DECIDED;
    let won = CHOICE.compare_exchange(0, choice, AcqRel, Acquire);
    if won.is_ok() {
        if let Err(complaint) = outcome {
            complaint.say();
        }
        if choice & 0xff == 0 || choice & 0xff00 == 0 || choice & 0xff_0000 == 0 || choice & 1 << 24 == 0 {
            // Objects that are never initialised by a call are not counted one by one.
            counters::count(Fallback::Chosen);
        }
    }
    won.err().unwrap_or(choice)
}

fn read() -> Result<u32, Complaint> {
    let mutex = match variable(c"LOCKYARD_MUTEX") {
        None => MutexKind::Mutex,
        Some(value) => {
            named(&MUTEXES, value).ok_or(Complaint::new("LOCKYARD_MUTEX", value, "mutex, spin, hq, rt, glibc"))?
        }
    };
    let rwlock = match variable(c"LOCKYARD_RWLOCK") {
        None => 2 + policies::DEFAULT,
        Some(value) => rwlock_named(value).ok_or(Complaint::new("LOCKYARD_RWLOCK", value, policies::CHOICES))?,
    };
    let spin = match variable(c"LOCKYARD_SPIN") {
        None => SpinKind::Spin,
        Some(value) => named(&SPINS, value).ok_or(Complaint::new("LOCKYARD_SPIN", value, "spin, hq, glibc"))?,
    };
    let semaphores = match variable(c"LOCKYARD_SEM") {
        None | Some(b"lockyard") => 1,
        Some(b"glibc") => 0,
        Some(value) => return Err(Complaint::new("LOCKYARD_SEM", value, "lockyard, glibc")),
    };
    Ok(mutex as u32 | u32::from(rwlock) << 8 | (spin as u32) << 16 | semaphores << 24)
}

fn named<T: Copy>(table: &[(&str, T)], value: &[u8]) -> Option<T> {
    table.iter().find(|(name, _)| is_name(name, short(value))).map(|(_, kind)| *kind)
}

/// The choice of a rwlock, as it is packed.
fn rwlock_named(value: &[u8]) -> Option<u8> {
    const OTHERS: [(&str, u8); 5] = [
        ("rwsem", 2 + policies::DEFAULT),
        ("glibc", 0),
        ("qrw", 1),
        ("read-mostly", READ_MOSTLY as u8),
        ("percpu-rwsem", PER_CPU as u8),
    ];
    named(&OTHERS, value).or_else(|| {
        let (lock, policy) = value.split_at_checked(value.iter().position(|byte| *byte == b':')?)?;
        let policy = policies::named(&policy[1..]).filter(|_| is_name("rwsem", short(lock)))?;
        Some(2 + policy)
    })
}

/// The lock that is called `value`, by its name here.
fn short(value: &[u8]) -> &[u8] {
    OTHER_NAMES.iter().find(|(other, _)| is_name(other, value)).map_or(value, |(_, name)| name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_have_the_names_of_the_other_tools() {
        for (name, kind) in [
            (&b"spin"[..], Some(MutexKind::Spin)),
            (b"SpinLock", Some(MutexKind::Spin)),
            (b"HqSpinLock", Some(MutexKind::Hq)),
            (b"pi-mutex", Some(MutexKind::Rt)),
            (b"mutex", Some(MutexKind::Mutex)),
            (b"Mutex", Some(MutexKind::Mutex)),
            (b"HQ", Some(MutexKind::Hq)),
            (b"pi_mutex", Some(MutexKind::Rt)),
            (b"Glibc", Some(MutexKind::Glibc)),
            (b"qrw", None),
            (b"spins", None),
            (b"", None),
        ] {
            assert_eq!(named(&MUTEXES, name), kind);
        }
        for (name, choice) in [
            (&b"QRwLock"[..], Some(1)),
            (b"QRW", Some(1)),
            (b"Glibc", Some(0)),
            (b"RwSem", Some(2 + policies::DEFAULT)),
            (b"RwSem:V5.10", policies::named(b"v5.10").map(|policy| 2 + policy)),
            (b"rwsem:no_rspin", policies::named(b"no-rspin").map(|policy| 2 + policy)),
            (b"rwsem:", None),
            (b"qrw:v5.10", None),
            (b":today", None),
            (b"HqSpinLock", None),
        ] {
            assert_eq!(rwlock_named(name), choice);
        }
    }
}
