//! Which code asked for locks that a call initialises: the caller of the function with that call.
//!
//! Kept from the initialisation until it is known whether that function only passes locks on. So
//! few are kept at a time, and where there is no room one in the way goes: its lock keeps the name
//! of that function, or gets that of the code that holds it.

use core::sync::atomic::{AtomicUsize, Ordering::*, fence};

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

/// In place of a lock's address, which is a multiple of more: the entry changes hands.
const CHANGES: usize = 1;

/// `call` initialises the lock at `lock`. The place of the code that does.
#[cold]
pub fn note(lock: usize, call: Call) -> usize {
    let place = call.place();
    let mut above = call.frames().skip_while(|frame| frame.at != place).skip(1);
    let Some(caller) = above.next().map(|frame| frame.at) else {
        // That of a lock which lay there before, and was not destroyed.
        forget(lock);
        return place;
    };
    frames::called(place, caller);
    put(lock, caller);
    place
}

fn put(lock: usize, caller: usize) {
    let taken = |is_it: &dyn Fn(usize) -> bool| {
        probes(lock).find(|origin| {
            let before = origin.lock.load(Relaxed);
            let is_free = before != CHANGES && is_it(before);
            is_free && origin.lock.compare_exchange(before, CHANGES, Relaxed, Relaxed).is_ok()
        })
    };
    let own = || taken(&|before| before == lock);
    let free = || taken(&|before| before == 0);
    if let Some(origin) = own().or_else(free).or_else(|| taken(&|_| true)) {
        // A thread that finds this caller finds that the entry has changed hands.
        fence(Release);
        origin.caller.store(caller, Relaxed);
        origin.lock.store(lock, Release);
    }
}

fn of(lock: usize) -> Option<&'static Origin> {
    probes(lock).find(|origin| origin.lock.load(Acquire) == lock)
}

/// The caller of the code that initialised the lock at `lock`, if a call did. The calling thread
/// holds the lock, so it is not initialised again meanwhile.
pub(crate) fn caller(lock: usize) -> Option<usize> {
    let origin = of(lock)?;
    let caller = origin.caller.load(Relaxed);
    fence(Acquire);
    (origin.lock.load(Relaxed) == lock).then_some(caller)
}

/// Nothing more is to be learnt of the lock at `lock`, or it is destroyed, or it is another one.
pub fn forget(lock: usize) {
    if let Some(origin) = of(lock) {
        let _ = origin.lock.compare_exchange(lock, 0, Relaxed, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that put locks into one entry at a time left one's lock with the other's caller.
    #[test]
    fn a_lock_has_its_own_caller_or_none() {
        const LOCKS: usize = 64;
        // Of one entry: where there is no other, each takes the first.
        let first = core::ptr::from_ref(probes(64).next().expect("eight")).addr();
        let is_there = |lock: &usize| core::ptr::from_ref(probes(*lock).next().expect("eight")).addr() == first;
        let locks: Vec<usize> = (1..).map(|number| 64 * number).filter(is_there).take(LOCKS).collect();
        std::thread::scope(|scope| {
            for mine in locks.chunks(LOCKS / 4) {
                scope.spawn(move || {
                    for &lock in mine.iter().cycle().take(200_000) {
                        put(lock, !lock);
                        assert!(caller(lock).is_none_or(|caller| caller == !lock));
                    }
                });
            }
        });
        let left = locks.iter().filter_map(|&lock| Some((lock, caller(lock)?)));
        assert_eq!(left.map(|(lock, caller)| assert_eq!(caller, !lock)).count(), PROBES);
        locks.iter().for_each(|lock| forget(*lock));
        assert_eq!(locks.iter().filter(|lock| caller(**lock).is_some()).count(), 0);
    }
}
