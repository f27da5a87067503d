//! The invariants, as a check: for tests that can look at all words at one moment, such as a
//! simulator between two steps.
//!
//! | no. | invariant | when |
//! |---|---|---|
//! | I2, I3 | a thread waits ⇒ `WAITERS` is set | the wait lock is free |
//! | I4 | a thread is among the waiters of exactly the mutex that its record names | that wait lock is free |
//! | I5 | the first waiter of an owned mutex, and no other waiter of it, is among the owner's donors, with the priority it waits with | that wait lock and the owner's lock are free |
//! | I6 | effective priority = the higher of the base and of the first donor's; higher only while the one released to is being woken | the thread's lock is free |
//! | I8 | waiters and donors are in order of priority | the lock that protects the list is free |
//! | transitive | a waiter's priority in the list is its effective priority; so an owner's is the maximum over all that wait for it, at any distance | nobody is inside a lock call but asleep |
//!
//! I1 (one owner) and I10 (at rest afterwards) need no look inside: [`RawTreeRtMutex::owner`], and
//! all-zero bytes.
//!
//! Called while other threads run, it may report what is only in the making.

use super::plist::{DONATING, PriorityList, WAITING};
use super::policy::Policy;
use super::waiter::Inheritance;
use super::{Core, RawTreeRtMutex, WAITERS};
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Platform, Word};

/// An invariant that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Which, in words.
    pub invariant: &'static str,
    /// The thread concerned, if one is.
    pub thread: Option<ThreadId>,
    /// What is found.
    pub found: u32,
    /// What should be.
    pub expected: u32,
}

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: found {}, expected {}", self.invariant, self.found, self.expected)?;
        match self.thread {
            Some(thread) => write!(f, " (thread {})", thread.raw()),
            None => Ok(()),
        }
    }
}

fn ensure(
    holds: bool,
    invariant: &'static str,
    thread: Option<ThreadId>,
    found: u32,
    expected: u32,
) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, thread, found, expected }) }
}

/// Checks what must hold at every step, for these mutexes and threads: all there are.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check<P: Platform, Y: Policy>(
    mutexes: &[&RawTreeRtMutex<P, Y>],
    threads: impl Iterator<Item = ThreadId> + Clone,
) -> Result<(), Broken> {
    for mutex in mutexes {
        let core = &mutex.core;
        if core.wait_lock.is_locked() {
            continue;
        }
        let set = core.word.load(Relaxed) & WAITERS != 0;
        ensure(set || core.waiters.first().is_none(), "I3: waiters without the bit", core.waiters.first(), 0, 1)?;
        sorted(&core.waiters)?;
        for thread in threads.clone() {
            let listed = contains(&core.waiters, thread);
            let named = P::thread(thread).pi.blocked_on.load(Relaxed) == Inheritance::address(core);
            ensure(listed == named, "I4: waits where its record says", Some(thread), listed.into(), named.into())?;
        }
        donors(core)?;
    }
    for thread in threads {
        let pi = &P::thread(thread).pi;
        if pi.lock().is_locked() {
            continue;
        }
        sorted(&pi.donors)?;
        let (base, effective, keeps) = pi.priorities();
        let wanted = base.max(pi.donors.top_priority().unwrap_or(0));
        let holds = effective == wanted || keeps && effective > wanted;
        ensure(holds, "I6: effective priority", Some(thread), effective, wanted)?;
    }
    Ok(())
}

/// Checks in addition what holds while nobody is inside a call of these mutexes, but for those that
/// sleep there.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_settled<P: Platform, Y: Policy>(
    mutexes: &[&RawTreeRtMutex<P, Y>],
    threads: impl Iterator<Item = ThreadId> + Clone,
) -> Result<(), Broken> {
    check(mutexes, threads.clone())?;
    for thread in threads {
        let record = P::thread(thread);
        let (base, effective, _) = record.pi.priorities();
        if record.pi.blocked_on.load(Relaxed) != 0 {
            let queued = record.pi.queued_priority();
            ensure(queued == effective, "queued with its effective priority", Some(thread), queued, effective)?;
        }
        let mut most = base;
        for mutex in mutexes.iter().filter(|mutex| mutex.owner() == Some(thread)) {
            each(&mutex.core.waiters, |waiter| most = most.max(P::thread(waiter).pi.priorities().1));
        }
        ensure(effective == most, "effective is the maximum over all waiters", Some(thread), effective, most)?;
    }
    Ok(())
}

/// Checks that the scheduler runs each thread with its effective priority: where priorities can be
/// lent, and nobody else sets them.
///
/// # Errors
/// The first thread that runs with another.
pub fn check_scheduler<P: Platform>(threads: impl Iterator<Item = ThreadId>) -> Result<(), Broken> {
    for thread in threads {
        let pi = &P::thread(thread).pi;
        let effective = pi.priorities().1;
        if !pi.lock().is_locked() {
            let found = P::priority(thread);
            ensure(found == effective, "the scheduler's priority", Some(thread), found, effective)?;
        }
    }
    Ok(())
}

/// Checks that `mutex`, which has just been granted, was granted to the most urgent: no waiter is
/// more urgent than what the owner has of its own or through other mutexes. While nobody leaves a
/// queue otherwise and no priority is changed.
///
/// # Errors
/// The waiter that should have had it.
pub fn check_grant<P: Platform, Y: Policy>(
    mutex: &RawTreeRtMutex<P, Y>,
    mutexes: &[&RawTreeRtMutex<P, Y>],
) -> Result<(), Broken> {
    let Some(owner) = mutex.owner() else { return Ok(()) };
    let others = mutexes.iter().filter(|other| !core::ptr::eq(**other, mutex) && other.owner() == Some(owner));
    let lent = others.filter_map(|other| other.core.waiters.top_priority()).max().unwrap_or(0);
    let own = lent.max(P::thread(owner).pi.priorities().0);
    let waits = mutex.core.waiters.top_priority().unwrap_or(0);
    ensure(waits <= own, "granted past somebody more urgent", mutex.core.waiters.first(), own, waits)
}

/// Checks that these threads have nothing lent, wait for nothing and own nothing: I10.
///
/// # Errors
/// The first for which that is not so.
pub fn check_at_rest<P: Platform>(threads: impl Iterator<Item = ThreadId>) -> Result<(), Broken> {
    for thread in threads {
        let pi = &P::thread(thread).pi;
        let (base, effective, keeps) = pi.priorities();
        ensure(effective == base && !keeps, "I10: its own priority again", Some(thread), effective, base)?;
        ensure(pi.donors.first().is_none(), "I10: no donors", Some(thread), 1, 0)?;
        ensure(pi.blocked_on.load(Relaxed) == 0, "I10: waits for nothing", Some(thread), 1, 0)?;
        ensure(pi.is_idle(), "I10: holds nothing", Some(thread), pi.held.load(Relaxed), 0)?;
    }
    Ok(())
}

/// I5.
fn donors<P: Platform>(core: &Core<P>) -> Result<(), Broken> {
    let Some(owner) = core.owner().filter(|owner| !owner.is_anonymous()) else { return Ok(()) };
    let owner: &Thread<P> = P::thread(owner);
    if owner.pi.lock().is_locked() {
        return Ok(());
    }
    let first = core.waiters.first();
    let mut result = Ok(());
    each(&core.waiters, |waiter| {
        let lends = contains(&owner.pi.donors, waiter);
        let should = first == Some(waiter);
        result = result
            .and(ensure(lends == should, "I5: the first waiter lends", Some(waiter), lends.into(), should.into()))
            .and_then(|()| {
                let nodes = &P::thread(waiter).pi.nodes;
                let [waits, lent] = [WAITING, DONATING].map(|place| nodes[place].priority());
                ensure(!lends || waits == lent, "I5: lends the priority it waits with", Some(waiter), lent, waits)
            });
    });
    result
}

/// I8, and that the list ends.
fn sorted<P: Platform, const PLACE: usize>(list: &PriorityList<P, PLACE>) -> Result<(), Broken> {
    let mut before = u32::MAX;
    let mut result = Ok(());
    each(list, |thread| {
        let priority = P::thread(thread).pi.nodes[PLACE].priority();
        result = result.and(ensure(priority <= before, "I8: order of a list", Some(thread), priority, before));
        before = priority;
    });
    result
}

fn contains<P: Platform, const PLACE: usize>(list: &PriorityList<P, PLACE>, thread: ThreadId) -> bool {
    let mut found = false;
    each(list, |other| found |= other == thread);
    found
}

fn each<P: Platform, const PLACE: usize>(list: &PriorityList<P, PLACE>, mut visit: impl FnMut(ThreadId)) {
    let mut next = list.first();
    // A ring that is broken must not hang the check.
    for _ in 0..=ThreadId::MAX_INDEX {
        let Some(thread) = next else { return };
        visit(thread);
        next = list.after(thread);
    }
}
