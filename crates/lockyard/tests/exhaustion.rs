//! More threads alive at once than there are records: the rest are anonymous, and every lock still works for everybody.

// This test is about the system's threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::ffi::c_void;
use std::fs::read_to_string;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex as StdMutex};

use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::RECORDS;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::{RawRwSem, policy};
use lockyard::semaphore::OpportunisticSafe;
use lockyard::spin::cna::RawCnaSpinLock;
use lockyard::spin::mcs::RawMcsLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard::spin::ticket::RawTicketLock;
use lockyard::spin::ttas::RawTtasLock;
use lockyard::wait::thread::ThreadId;
use lockyard::{CancelToken, GaveUp};
use lockyard_check::adapters::{Binary, EagerHq};
use lockyard_check::cases::parking::HashedMutex;
use lockyard_check::data::Data;
use lockyard_check::lock::{Held, Lock, Timed, Way};
use lockyard_check::native::guarded;
use lockyard_check::stage::{Stage, Steps};

/// Threads that take a record and stay.
const CROWD: u32 = ThreadId::MAX_INDEX;

static REGISTERED: AtomicU32 = AtomicU32::new(0);
static GONE: AtomicU32 = AtomicU32::new(0);
static LEAVE: StdMutex<bool> = StdMutex::new(false);
static LEAVING: Condvar = Condvar::new();

extern "C" fn stay(_: *mut c_void) -> *mut c_void {
    Linux::current();
    REGISTERED.fetch_add(1, SeqCst);
    let mut leave = LEAVE.lock().unwrap();
    while !*leave {
        leave = LEAVING.wait(leave).unwrap();
    }
    drop(leave);
    GONE.fetch_add(1, SeqCst);
    null_mut()
}

fn limit(path: &str) -> u64 {
    read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX)
}

/// Why this machine cannot have so many threads, if it says so.
fn too_small() -> Option<String> {
    let needed = u64::from(CROWD) + 500;
    // SAFETY: fills the structure given.
    let user = unsafe {
        let mut user = MaybeUninit::<libc::rlimit>::zeroed().assume_init();
        libc::getrlimit(libc::RLIMIT_NPROC, &mut user);
        user.rlim_cur
    };
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let available =
        memory.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok());
    [
        ("ulimit -u", user, needed),
        ("/proc/sys/kernel/threads-max", limit("/proc/sys/kernel/threads-max"), needed),
        ("/proc/sys/kernel/pid_max", limit("/proc/sys/kernel/pid_max"), needed),
        // A stack and its guard each.
        ("/proc/sys/vm/max_map_count", limit("/proc/sys/vm/max_map_count"), 2 * needed),
        ("pids.max", limit("/sys/fs/cgroup/pids.max"), needed),
        ("available memory (kB)", available.unwrap_or(u64::MAX), 2_000_000),
    ]
    .into_iter()
    .find_map(|(what, has, needs)| (has < needs).then(|| format!("{what} is {has}, {needs} are needed")))
}

/// Starts the crowd, with small stacks and without what `std` adds to a thread. `Err`: how many there are.
fn start_crowd() -> Result<(), u32> {
    // SAFETY: attributes are initialised before use; the function stays until it is told to leave, and uses only statics.
    unsafe {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed().assume_init();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, 64 * 1024);
        libc::pthread_attr_setguardsize(&mut attributes, 0);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        for started in 0..CROWD {
            let mut thread = 0;
            if libc::pthread_create(&mut thread, &attributes, stay, null_mut()) != 0 {
                return Err(started);
            }
        }
    }
    Ok(())
}

fn end_crowd(started: u32) {
    *LEAVE.lock().unwrap() = true;
    LEAVING.notify_all();
    wait_for(&GONE, started);
}

fn wait_for(counter: &AtomicU32, count: u32) {
    let mut round = 0;
    while counter.load(SeqCst) < count {
        Linux::nap(round);
        round += 1;
    }
}

/// Anonymous threads, and one that has a record, use a lock in every way it has.
fn everybody<L: Timed<P = Linux>>() {
    let (lock, data, writes) = (L::default(), Data::<Linux>::default(), Steps::<Linux>::default());
    let token = CancelToken::new();
    Linux::run(6, |me| {
        assert!(Linux::current().is_none(), "a record was left");
        assert_eq!(Linux::id(), Some(ThreadId::ANONYMOUS));
        for round in 0..300 {
            let way = L::WAYS[(round + me) % L::WAYS.len()];
            let until = match round % 4 {
                0 => Until::after(30_000),
                1 => Until::cancelled(&token),
                _ => Until::FOREVER,
            };
            let Ok(_held) = Held::until(&lock, way, until) else { continue };
            match way {
                Way::Write => {
                    data.write(me);
                    writes.advance();
                }
                Way::Read => data.read(),
            }
            if round % 32 == 0 {
                Linux::nap(4);
            }
        }
    });
    token.cancel();
    data.finish(u64::from(writes.count()));
    assert!(lock.at_rest());
    // What they cannot do, they say.
    let held = Held::new(&lock, Way::Write);
    Linux::run(1, |_| {
        for &way in L::WAYS {
            assert!(!lock.try_lock(way));
            assert_eq!(lock.lock_until(way, Until::after(100_000)), Err(GaveUp::TimedOut));
            assert_eq!(lock.lock_until(way, Until::cancelled(&token)), Err(GaveUp::Cancelled));
        }
    });
    drop(held);
    assert!(lock.at_rest());
}

/// The same for a lock without timed forms: named and anonymous waiters behind each other.
fn a_mixed_queue<L: Lock<P = Linux>>() {
    let (lock, data) = (L::default(), Data::<Linux>::default());
    Linux::run(8, |me| {
        for _ in 0..300 {
            let _held = Held::new(&lock, Way::Write);
            data.write(me);
        }
    });
    data.finish(2_400);
    assert!(lock.at_rest());
}

/// A wait of anonymous threads for a condition: it may end for no reason, and does with the lock.
fn a_condition() {
    let (mutex, condvar, turn) = (RawMutex::<Linux>::default(), RawCondvar::<Linux>::default(), AtomicU32::new(0));
    Linux::run(4, |me| {
        mutex.acquire();
        while turn.load(SeqCst) as usize != me {
            // SAFETY: acquired above, and after each wait.
            let waited = unsafe { condvar.wait(&mutex, Until::FOREVER) };
            assert_eq!(waited, Ok(()));
        }
        turn.fetch_add(1, SeqCst);
        condvar.broadcast();
        // SAFETY: as above.
        unsafe { mutex.release() };
    });
    assert!(mutex.at_rest() && !condvar.has_waiters());
}

#[test]
fn more_than_16_383_threads_at_once() {
    if let Some(why) = too_small() {
        println!("SKIPPED: exhaustion of the registry cannot be tested here: {why}");
        return;
    }
    guarded("exhaustion", || {
        // The main thread keeps its record, the crowd takes the others.
        let first = Linux::current().map(|thread| thread.id());
        assert!(first.is_some());
        if let Err(started) = start_crowd() {
            println!(
                "SKIPPED: exhaustion of the registry cannot be tested here: thread {started} could not be started"
            );
            return end_crowd(started);
        }
        wait_for(&REGISTERED, CROWD);
        assert_eq!(lockyard::platform::linux::threads::records_used(), RECORDS);
        assert_eq!(Linux::current().map(|thread| thread.id()), first);

        everybody::<RawMutex<Linux>>();
        everybody::<RawRwSem<Linux, policy::Today>>();
        everybody::<RawRwSem<Linux, policy::TodayKernel>>();
        everybody::<RawRwSem<Linux, policy::XaddBaseline>>();
        everybody::<Binary<Linux, OpportunisticSafe>>();
        a_mixed_queue::<RawQSpinLock<Linux>>();
        a_mixed_queue::<RawCnaSpinLock<Linux>>();
        a_mixed_queue::<EagerHq<Linux>>();
        a_mixed_queue::<RawMutex<Linux>>();
        a_mixed_queue::<RawMcsLock<Linux>>();
        a_mixed_queue::<RawTicketLock<Linux>>();
        a_mixed_queue::<RawTtasLock<Linux>>();
        a_mixed_queue::<RawQRwLock<Linux>>();
        a_mixed_queue::<HashedMutex<Linux, RawQSpinLock<Linux>>>();
        a_condition();

        // Their records are free again when they have left.
        end_crowd(CROWD);
        let mut named = false;
        for _ in 0..200 {
            let found = std::thread::spawn(|| Linux::current().is_some()).join().unwrap();
            named |= found;
            if named {
                break;
            }
            Linux::nap(8);
        }
        assert!(named, "no record was reused");
        a_mixed_queue::<RawMutex<Linux>>();
    });
}
