//! Priority inheritance on Linux: PI futexes, and kernel thread ids that survive a fork.
//!
//! # Thread ids and fork
//!
//! A PI word holds the kernel's thread id, so the fast path must know it without asking. A
//! thread-local keeps it; but the child of a fork has a copy of the thread-local and another id. So
//! a thread's id counts only together with the `epoch` of the process in which it
//! was learnt. Where a child may be made unnoticed (the kernel cannot wipe the epoch's page), no id
//! is kept and every lock asks for it.
//!
//! A thread that was never known has an epoch that is nobody's and the id [`NOBODY`], which no word
//! has: so one comparison answers for the acquirer whether the thread is known and where, and for
//! the releaser the exchange itself does. All a thread knows of itself is in one place, because the
//! address of a thread-local costs two instructions, and in a shared library a call.
//!
//! A child made by `vfork`, or otherwise sharing this memory, must not lock.

use core::cell::Cell;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};
use std::thread_local;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

use super::{LaneWord, Linux, U32, clock, epoch, syscall, threads};
use crate::platform::pi::{At, Class, Known, NOBODY, PiPlatform, Refused};
use crate::platform::thread::ThreadId;

/// Which record a kernel thread id belongs to, by its low bits. Ids are given out in sequence: few
/// share a place, and a thread that shares one is not known for a while.
static RECORDS: [AtomicU16; 1 << 15] = [const { AtomicU16::new(0) }; 1 << 15];

fn place(tid: u32) -> &'static AtomicU16 {
    &RECORDS[tid as usize % RECORDS.len()]
}

/// What a thread knows about itself.
struct Me {
    tid: Cell<u32>,
    /// In which `tid` was learnt.
    epoch: Cell<u32>,
    /// PI words held.
    held: Cell<u32>,
    former: Former,
}

/// The ids that a thread had before the last forks, the youngest first.
struct Former([Cell<u32>; 4]);

impl Former {
    fn rotate(&self, tid: u32) {
        self.0.iter().fold(tid, |tid, former| former.replace(tid));
    }
}

thread_local! {
    // Const-initialised and without a destructor: an access is one load, at any time of the
    // thread's life.
    static ME: Me = const { Me { tid: Cell::new(NOBODY), epoch: Cell::new(epoch::NEVER), held: Cell::new(0), former: Former([const { Cell::new(NOBODY) }; 4]) } };
}

// SAFETY: ids come from the kernel and count only in the process where they were asked for; the
// futex operations are the kernel's, whose system calls order memory on both sides.
unsafe impl PiPlatform for Linux {
    #[inline(always)]
    fn known() -> Option<Known> {
        ME.with(|me| {
            let known = Known { tid: me.tid.get(), holds: me.held.get() };
            (me.epoch.get() == epoch::known_epoch()).then_some(known)
        })
    }

    #[inline(always)]
    fn last_known() -> Known {
        ME.with(|me| Known { tid: me.tid.get(), holds: me.held.get() })
    }

    #[cold]
    fn register() -> u32 {
        // Before the id: it may be another process by now.
        let epoch = epoch::epoch();
        let tid = epoch::thread_id();
        if epoch::is_exact() {
            ME.with(|me| {
                let before = (me.tid.replace(tid), me.epoch.replace(epoch));
                if before != (tid, epoch) {
                    // A new thread, or the child of a fork: what it held it holds, but not in the
                    // kernel.
                    me.former.rotate(before.0);
                    me.held.set(0);
                }
            });
        }
        if let Some(id) = threads::id().filter(|id| !id.is_anonymous()) {
            place(tid).store(id.raw() as u16, Relaxed);
        }
        tid
    }

    fn had(tid: u32) -> bool {
        tid != NOBODY && ME.with(|me| me.former.0.iter().any(|former| former.get() == tid))
    }

    fn thread_of(tid: u32) -> Option<ThreadId> {
        let id = ThreadId::from_raw(u32::from(place(tid).load(Relaxed)))?;
        (threads::kernel_id(id) == tid).then_some(id)
    }

    #[inline(always)]
    fn set_holds(holds: u32) {
        ME.with(|me| me.held.set(holds));
    }

    #[inline(always)]
    fn holds() -> u32 {
        ME.with(|me| me.held.get())
    }

    fn class() -> Class {
        const RESET_ON_FORK: isize = 0x4000_0000;
        match syscall::scheduler() & !RESET_ON_FORK {
            0 | 3 | 5 | 7 => Class::TimeSharing, // SCHED_OTHER, BATCH, IDLE, EXT
            6 => Class::Deadline,
            _ => Class::RealTime,
        }
    }

    #[inline(never)]
    fn lock_pi(word: &LaneWord, deadline: Option<At>) -> Result<(), Refused> {
        /// Set where the kernel is older than 5.14.
        static WITHOUT_LOCK_PI2: AtomicU32 = AtomicU32::new(0);
        loop {
            let done = if WITHOUT_LOCK_PI2.load(Relaxed) == 0 {
                let (clock, end) = on_clock(deadline);
                let done = threads::off_cpu(|| futex::lock_pi2(&word.0, clock, end.as_ref()));
                if done == Err(Errno::NOSYS) {
                    WITHOUT_LOCK_PI2.store(1, Relaxed);
                    continue;
                }
                done
            } else {
                // Knows the real-time clock only. If that is set, a wait on the other ends early or
                // late; an early one goes on.
                let left = |end: At| match end {
                    At::Monotonic(end) => end.saturating_sub(clock::now()),
                    At::Realtime(end) => end.saturating_sub(clock::realtime()),
                };
                let wall = deadline.map(|end| match end {
                    At::Monotonic(_) => timespec(clock::realtime().saturating_add(left(end))),
                    At::Realtime(end) => timespec(end),
                });
                let done = threads::off_cpu(|| futex::lock_pi(&word.0, Flags::PRIVATE, wall.as_ref()));
                if done == Err(Errno::TIMEDOUT) && deadline.is_some_and(|end| left(end) > 0) {
                    continue;
                }
                done
            };
            match done {
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done.map_err(refused),
            }
        }
    }

    #[inline(never)]
    fn unlock_pi(word: &LaneWord) -> Result<(), Refused> {
        loop {
            match futex::unlock_pi(&word.0, Flags::PRIVATE) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::PERM) => return Err(Refused::NotOwner),
                done => return done.map_err(refused),
            }
        }
    }

    #[inline(never)]
    fn wait_requeue_pi(word: &U32, expected: u32, deadline: Option<At>, pi: &LaneWord) -> Result<(), Refused> {
        if !syscall::KNOWN {
            return Err(Refused::Unsupported); // nobody could be moved
        }
        let (clock, end) = on_clock(deadline);
        threads::off_cpu(|| futex::wait_requeue_pi(&word.0, clock, expected, end.as_ref(), &pi.0)).map_err(refused)
    }

    #[inline(never)]
    fn requeue_pi(word: &U32, expected: u32, all: bool, pi: *const LaneWord) -> Result<(), Refused> {
        let more = if all { i32::MAX as u32 } else { 0 };
        let word = (&raw const word.0).expose_provenance();
        // SAFETY: `word` is a reference.
        match unsafe { syscall::cmp_requeue_pi(word, expected, more, pi.addr()) } {
            0.. => Ok(()),
            error => Err(refused(Errno::from_raw_os_error(-error as i32))),
        }
    }

    #[inline(never)]
    fn unpark_all(word: &U32) {
        let _ = futex::wake(&word.0, Flags::PRIVATE, i32::MAX as u32);
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// The clock of a deadline, and its time.
fn on_clock(deadline: Option<At>) -> (Flags, Option<Timespec>) {
    match deadline {
        None => (Flags::PRIVATE, None),
        Some(At::Monotonic(end)) => (Flags::PRIVATE, Some(timespec(end))),
        Some(At::Realtime(end)) => (Flags::PRIVATE | Flags::CLOCK_REALTIME, Some(timespec(end))),
    }
}

fn refused(error: Errno) -> Refused {
    match error {
        Errno::TIMEDOUT => Refused::TimedOut,
        Errno::DEADLK => Refused::Deadlock,
        // A dead thread, and one of another process or the kernel's own.
        Errno::SRCH | Errno::PERM => Refused::NoOwner,
        Errno::AGAIN | Errno::INTR => Refused::Changed,
        Errno::NOMEM => Refused::NoMemory,
        Errno::NOSYS => Refused::Unsupported,
        _ => Refused::Corrupt,
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::gettid;

    use super::*;

    #[test]
    fn every_thread_knows_its_own_id() {
        let mine = Linux::register();
        let tid = || Linux::known().map(|me| me.tid);
        assert_eq!(tid(), Some(mine));
        assert_eq!(mine, gettid().as_raw_nonzero().get().unsigned_abs());
        let other = std::thread::spawn(move || (tid(), Linux::register(), tid())).join().unwrap();
        assert_eq!((other.0, other.2), (None, Some(other.1)));
        assert_ne!(other.1, mine);
    }

    #[test]
    fn a_record_is_found_by_its_kernel_id() {
        let found = || {
            let id = threads::current().map(|thread| thread.id());
            let tid = Linux::register();
            (Linux::thread_of(tid) == id, tid)
        };
        let (mine, _) = found();
        let (other, gone) = std::thread::spawn(found).join().unwrap();
        assert!(mine && other);
        assert_eq!(Linux::thread_of(gone + (1 << 15)), None, "another id in the same place");
    }

    #[test]
    fn a_thread_is_time_sharing_by_default() {
        // Without an answer it might be urgent.
        let default = if syscall::KNOWN { Class::TimeSharing } else { Class::RealTime };
        assert_eq!(Linux::class(), default);
    }

    #[test]
    fn what_is_held_is_known() {
        let unknown = || (Linux::known(), Linux::last_known());
        let nobody = Known { tid: NOBODY, holds: 0 };
        assert_eq!(std::thread::spawn(unknown).join().unwrap(), (None, nobody), "no lock so far");
        Linux::register();
        let before = Linux::holds();
        Linux::set_holds(before + 1);
        assert_eq!(Linux::known().map(|me| me.holds), Some(before + 1));
        assert_eq!(Some(Linux::last_known()), Linux::known());
        Linux::set_holds(before);
        assert_eq!(Linux::holds(), before);
    }
}
