//! What threads tell that sleep at a condition variable: others put them into the queue of the
//! mutex, asleep.

use core::sync::atomic::Ordering::*;

use lockyard::condvar::Moved;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::WAKING;

use crate::callers::{self, Caller};
use crate::holds::{AWAITED, held_so_far, mark_noted, note, timed};
use crate::layout::{ASLEEP, ThreadPage, UNSEEN};
use crate::told::{begins, pends, settle};
use crate::writer::{self, mine, mine_so_far};
use crate::{search, tape};

/// The calling thread has released the lock at `lock`, and sleeps at a condition variable until it
/// is moved into the queue of that lock ([`awaited`]) or takes it itself. When it runs again it is
/// [`awake`].
#[cold]
pub fn idle(caller: impl Into<Caller>, lock: usize) {
    if let Some(page) = mine() {
        let caller = caller.into();
        callers::record(caller);
        page.waking.store(page.events[WAKING].load(Relaxed), Relaxed);
        begins(page, caller, lock, (0, 0));
    }
}

/// A thread that is [`idle`] waits from now on for its mutex: of those that hold it, as a rule
/// the calling thread.
#[inline]
pub fn awaited(moved: Moved) {
    if writer::watched()
        && let Some(page) = mine_so_far()
    {
        moves(page, moved);
    }
}

#[cold]
fn moves(page: &ThreadPage, Moved { mutex, waiter }: Moved) {
    let holder = if mark_noted(page, mutex) { Ok(page) } else { search::holder(mutex) };
    let held_by = match holder {
        Ok(page) => page.thread.load(Relaxed),
        Err(others) => {
            if others {
                UNSEEN
            } else {
                0
            }
        }
    };
    // The waiter sleeps: the words are this thread's until it has moved it. In a handler of a
    // signal the waiter may wait for another lock meanwhile.
    let is_idle = |page: &&ThreadPage| {
        let (lock, since) = (page.waiting_lock.load(Relaxed), page.waiting_since.load(Relaxed));
        lock == mutex as u64 && since == 0
    };
    let Some(waiter) = writer::known_page(waiter).filter(is_idle) else { return };
    waiter.waiting_for.store(held_by | ASLEEP, Relaxed);
    waiter.held_before.store(held_so_far(mutex).load(Relaxed), Relaxed);
    waiter.waiting_since.store(Linux::now(), Release);
}

/// The calling thread, which was [`idle`], runs again: it takes the lock next, or waits in its
/// queue.
#[cold]
pub fn awake() {
    let Some(page) = mine_so_far().filter(|page| page.waiting.load(Relaxed) != 0) else { return };
    match page.waiting_since.load(Relaxed) {
        0 => page.waiting.store(0, Relaxed),
        _ => page.waiting_for.store(page.waiting_for.load(Relaxed) & !ASLEEP, Relaxed),
    }
}

/// A wait this short is not worth its count: the thread that ended it was about to release the
/// lock, as a thread that signals does.
const BRIEF_NS: u64 = 5_000;

/// The calling thread has taken the lock at `lock`, into whose queue another had put it at `since`,
/// asleep, and is [awake]. It has waited for the lock as long as that was held meanwhile. The rest
/// was the way to a CPU: its own, or that of a thread before it in the queue. `others` still wait.
#[cold]
pub fn acquired_after(caller: impl Into<Caller>, lock: usize, since: u64, others: bool) {
    let Some(page) = mine() else { return };
    let (caller, now) = (caller.into(), Linux::now());
    page.waiting.store(0, Relaxed);
    tape::asked(page, caller, lock);
    let waking = page.events[WAKING].load(Relaxed).saturating_sub(page.waking.load(Relaxed));
    let held = match page.waiting_for.load(Relaxed) & UNSEEN {
        0 => held_so_far(lock).load(Relaxed).saturating_sub(page.held_before.load(Relaxed)),
        _ => u64::MAX,
    };
    let ns = now.saturating_sub(since).saturating_sub(waking).min(held);
    let waited = ns >= BRIEF_NS;
    if waited {
        if page.waited.load(Relaxed) != 0 {
            settle(page);
        }
        callers::record(caller);
        pends(page, caller, (ns, now), (1, 0));
    }
    let awaited = if others { AWAITED } else { 0 };
    note(page, caller, lock, (others || waited).then_some(timed(now) | awaited));
}
