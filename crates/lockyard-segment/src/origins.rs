//! Which code asked for locks that a call initialises: the caller of the function with that call.
//!
//! Kept from the initialisation until it is known whether that function only passes locks on. So
//! few are kept at a time, and where there is no room one in the way goes: its lock keeps the name
//! of that function, or gets that of the code that holds it.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use crate::frames::{self, Call};

struct Origin {
    /// The lock's address; 0: the entry is free.
    lock: AtomicUsize,
    /// To where the call of the function that initialised it returns.
    caller: AtomicUsize,
}

const ROOM: usize = 1 << 14;
/// Entries that a lock may have.
const PROBES: usize = 8;

static ORIGINS: [Origin; ROOM] = [const { Origin { lock: AtomicUsize::new(0), caller: AtomicUsize::new(0) } }; ROOM];

fn probes(lock: usize) -> impl Iterator<Item = &'static Origin> {
    // Locks lie at regular distances, of which no factor alone makes random ones.
    const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
    let mixed = (lock ^ lock >> 15) as u64;
    let first = (mixed.wrapping_mul(FACTOR) >> (u64::BITS - ROOM.ilog2())) as usize;
    (0..PROBES).map(move |probe| &ORIGINS[(first + probe) % ROOM])
}

/// `call` initialises the lock at `lock`. The place of the code that does.
#[cold]
pub fn note(lock: usize, call: Call) -> usize {
    let place = call.place();
    let mut above = call.frames().skip_while(|frame| frame.at != place).skip(1);
    let Some(caller) = above.next().map(|frame| frame.at) else { return place };
    frames::called(place, caller);
    let free = || probes(lock).find(|origin| origin.lock.load(Relaxed) == 0);
    if let Some(origin) = of(lock).or_else(free).or_else(|| probes(lock).next()) {
        // A thread that finds the one without the other calls the lock by another place.
        origin.lock.store(0, Relaxed);
        origin.caller.store(caller, Release);
        origin.lock.store(lock, Release);
    }
    place
}

fn of(lock: usize) -> Option<&'static Origin> {
    probes(lock).find(|origin| origin.lock.load(Acquire) == lock)
}

/// The caller of the code that initialised the lock at `lock`, if a call did.
pub(crate) fn caller(lock: usize) -> Option<usize> {
    of(lock).map(|origin| origin.caller.load(Acquire))
}

/// Nothing more is to be learnt of the lock at `lock`, or it is destroyed.
pub fn forget(lock: usize) {
    if let Some(origin) = of(lock) {
        let _ = origin.lock.compare_exchange(lock, 0, Relaxed, Relaxed);
    }
}
