//! Priorities of this process's threads: read and lent by system calls.
//!
//! What is lent is `SCHED_FIFO` with the lender's priority; the class that the thread had before is
//! kept in its slot and comes back with its own priority. (A time-sharing thread keeps its nice
//! value through both.) It takes `CAP_SYS_NICE`, or an `RLIMIT_RTPRIO` that is high enough.

use core::sync::atomic::Ordering::Relaxed;

use super::syscall::{self, set_scheduler as set};
use super::threads::{self, Lent};
use crate::platform::thread::ThreadId;

const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_DEADLINE: u32 = 6;
/// Or-ed to a class: children do not inherit it.
const RESET_ON_FORK: u32 = 0x4000_0000;

/// The priority of `id`: 0 if it is of a time-sharing class, or of another process.
pub(super) fn priority(id: ThreadId) -> u32 {
    threads::kernel_thread(id).and_then(|(tid, _)| attributes(tid)).map_or(0, |(class, priority)| match class {
        SCHED_FIFO | SCHED_RR => priority.min(99),
        SCHED_DEADLINE => 99,
        _ => 0,
    })
}

/// Lets `id` run with `effective`, of which `base` is its own.
pub(super) fn set_priority(id: ThreadId, base: u32, effective: u32) -> bool {
    let Some((tid, Lent(lent))) = threads::kernel_thread(id) else { return false };
    let before = lent.load(Relaxed);
    let own = match before.checked_sub(1) {
        Some(class) => Some((class, 0)),
        None => attributes(tid),
    };
    let Some((class, _)) = own else { return false };
    if class & !RESET_ON_FORK == SCHED_DEADLINE {
        return false; // nothing is more urgent, and it could not be given back
    }
    if effective > base {
        let done = set(tid, SCHED_FIFO | class & RESET_ON_FORK, effective);
        if done {
            lent.store(class + 1, Relaxed);
        }
        return done;
    }
    lent.store(0, Relaxed);
    let realtime = matches!(class & !RESET_ON_FORK, SCHED_FIFO | SCHED_RR);
    match (base, realtime) {
        (0, false) | (1.., true) => set(tid, class, base),
        (0, true) => set(tid, class & RESET_ON_FORK, 0),
        (1.., false) => set(tid, SCHED_FIFO | class & RESET_ON_FORK, base),
    }
}

/// Whether this program may lend priorities to its threads: tries it on the calling thread.
pub fn can_lend_priorities() -> bool {
    let Some((class, priority)) = attributes(0) else { return false };
    if matches!(class, SCHED_FIFO | SCHED_RR) {
        return true;
    }
    set(0, SCHED_FIFO, 1) && set(0, class, priority)
}

/// The class (with [`RESET_ON_FORK`]) and real-time priority of a thread.
fn attributes(tid: u32) -> Option<(u32, u32)> {
    let words = syscall::scheduling(tid)?;
    let reset = if words[2] & 1 != 0 { RESET_ON_FORK } else { 0 };
    Some((words[1] | reset, words[5]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;
    use crate::platform::linux::Linux;

    #[test]
    fn a_thread_gets_back_what_it_had() {
        if !can_lend_priorities() {
            std::eprintln!("skipped: no right to set priorities (CAP_SYS_NICE or RLIMIT_RTPRIO)");
            return;
        }
        std::thread::spawn(|| {
            let me = Linux::current().unwrap().id();
            assert_eq!(priority(me), 0);
            assert!(set_priority(me, 0, 7));
            assert_eq!((priority(me), attributes(0)), (7, Some((SCHED_FIFO, 7))));
            assert!(set_priority(me, 0, 9) && priority(me) == 9);
            assert!(set_priority(me, 0, 0));
            assert_eq!(attributes(0), Some((0, 0)));
            // Its own class: round robin.
            assert!(set(0, SCHED_RR, 3));
            assert!(set_priority(me, 3, 8) && attributes(0) == Some((SCHED_FIFO, 8)));
            assert!(set_priority(me, 3, 3));
            assert_eq!(attributes(0), Some((SCHED_RR, 3)));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_thread_is_lent_to() {
        if !can_lend_priorities() {
            std::eprintln!("skipped: no right to set priorities (CAP_SYS_NICE or RLIMIT_RTPRIO)");
            return;
        }
        let me = Linux::current().unwrap().id();
        let tid = rustix::thread::gettid().as_raw_pid() as u32;
        std::thread::spawn(move || {
            assert!(set_priority(me, 0, 5));
            assert_eq!((priority(me), attributes(tid).map(|found| found.1)), (5, Some(5)));
            assert!(set_priority(me, 0, 0) && priority(me) == 0);
        })
        .join()
        .unwrap();
    }
}
