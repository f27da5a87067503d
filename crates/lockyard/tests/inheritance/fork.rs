//! The child of a fork has other thread ids. What was free it can use, with new threads and
//! inheritance; what was held belongs to the parent's threads.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::scope;

use lockyard::PiError;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::pi::PiPlatform;
use lockyard::rtmutex::{Lateral, Policy, RawRtMutex, policy};

use crate::child::{crew, in_child};
use crate::scene::alone;

fn check(condition: bool, why: &'static str) -> Result<(), &'static str> {
    condition.then_some(()).ok_or(why)
}

/// What the fast path believes.
fn known() -> Option<u32> {
    Linux::known().map(|me| me.tid)
}

fn tid() -> u32 {
    // SAFETY: asks for the caller's own id.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Threads of the child contend, in the kernel as well, so that a wrong thread id would be noticed.
fn contend<S: Policy>(mutex: &RawRtMutex<Linux, S>) -> Result<(), &'static str> {
    let count = AtomicU32::new(0);
    let failed = AtomicU32::new(0);
    let turn = |round: u32| {
        mutex.acquire()?;
        let seen = count.load(SeqCst);
        Linux::nap(if round.is_multiple_of(16) { 4 } else { 0 });
        count.store(seen + 1, SeqCst);
        // SAFETY: acquired above.
        unsafe { mutex.release() }
    };
    let many = || (0..200).for_each(|round| _ = turn(round).map_err(|_| failed.fetch_add(1, SeqCst)));
    crew(|threads| {
        (0..3).for_each(|_| threads.spawn(many));
        many();
    });
    check(failed.load(SeqCst) == 0, "a lock call of the child failed")?;
    check(count.load(SeqCst) == 800, "the child's threads do not exclude each other")
}

#[test]
fn the_child_has_thread_ids_of_its_own() {
    alone("fork and PI mutexes", || {
        let free = RawRtMutex::<Linux>::default();
        let held = RawRtMutex::<Linux>::default();
        held.acquire().unwrap(); // also makes the id known
        let own = RawRtMutex::<Linux>::default();
        own.acquire().unwrap();
        assert_eq!(known(), Some(tid()));
        in_child(|| {
            check(known().is_none(), "the parent's id is still known")?;
            // A thread of the child asks for its id first: the forking thread's id must not come to
            // life again with that.
            crew(|threads| threads.spawn(|| _ = Linux::register()));
            check(known().is_none(), "the parent's id came back")?;
            // By its old id, until it has the new one; only what it held itself, and once.
            // SAFETY: it held it when it forked, and this is its copy.
            check(unsafe { own.release() } == Ok(()), "the forking thread cannot release what it held")?;
            // SAFETY: refused.
            check(unsafe { own.release() } == Err(PiError::NotOwner), "a free mutex was released")?;
            check(free.try_acquire(), "a free mutex is not free in the child")?;
            check(known() == Some(tid()), "the child does not know its id")?;
            // SAFETY: acquired above.
            check(unsafe { free.release() } == Ok(()), "the child cannot release what it took")?;
            contend(&free)?;
            contend(&RawRtMutex::<Linux, policy::Off>::default())?;
            // Also when it knows its new id; once. Then it is a mutex like any other.
            check(!held.try_acquire(), "what the forking thread holds is free in the child")?;
            // SAFETY: held since before the fork.
            check(unsafe { held.release() } == Ok(()), "the forking thread cannot release what it held")?;
            // SAFETY: refused.
            check(unsafe { held.release() } == Err(PiError::NotOwner), "a free mutex was released")?;
            contend(&held)?;
            in_child(|| contend(&RawRtMutex::<Linux, Lateral>::default()));
            contend(&free)
        });
        // SAFETY: acquired above.
        unsafe { held.release() }.unwrap();
        // SAFETY: as above; the child has released another copy.
        unsafe { own.release() }.unwrap();
        contend(&held).unwrap();
    });
}

/// Waiters of the parent, in the kernel and in user space, are not the child's.
#[test]
fn a_mutex_with_the_parents_waiters_is_released_in_the_child() {
    fn released<S: Policy>() {
        let mutex = RawRtMutex::<Linux, S>::default();
        mutex.acquire().unwrap();
        scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    mutex.acquire().unwrap();
                    // SAFETY: acquired above.
                    unsafe { mutex.release() }.unwrap();
                });
            }
            while !mutex.is_contended() {
                Linux::nap(4);
            }
            for later in [0, 3_000_000] {
                let end = Linux::now() + later;
                while Linux::now() < end {
                    Linux::nap(8);
                }
                in_child(|| {
                    // SAFETY: held since before the fork.
                    check(unsafe { mutex.release() } == Ok(()), "cannot be released in the child")?;
                    contend(&mutex)?;
                    mutex.acquire().map_err(|_| "refused")?;
                    in_child(|| {
                        // SAFETY: held since before the fork.
                        check(unsafe { mutex.release() } == Ok(()), "cannot be released in the grandchild")?;
                        contend(&mutex)
                    });
                    Ok(())
                });
            }
            // SAFETY: acquired above.
            unsafe { mutex.release() }.unwrap();
        });
    }
    alone("fork and PI mutexes with waiters", || {
        released::<Lateral>();
        released::<policy::Off>();
    });
}
