//! What locks tell, as the reader sees it.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use lockyard::lock_api::{self, RawMutex, RawRwLock};
use lockyard::{
    Condvar, FairMutex, HqSpinLock, Mutex, QRwLock, RecursiveRwLock, RtMutex, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard, RwSem, SpinLock, TreeRtMutex,
};
use lockyard_segment::sample::{ClassSample, ThreadSample};
use lockyard_segment::{Reader, Sample};
use lockyard_stat::Named;

fn sample() -> Sample {
    lockyard_stat::open().expect("/dev/shm can be written");
    Reader::open(std::process::id()).expect("opened").sample()
}

/// The class of that name; nothing of other tests'.
fn class(name: &str) -> ClassSample {
    let found = sample().classes.into_iter().find(|class| class.name == name);
    found.unwrap_or_else(|| panic!("no class {name}"))
}

#[test]
fn acquisitions_waits_and_tries_are_counted_under_the_name() {
    sample();
    let accounts = Mutex::named("accounts", 0);
    for _ in 0..3 {
        *accounts.lock() += 1;
    }
    let held = accounts.lock();
    thread::scope(|scope| {
        let tried = scope.spawn(|| accounts.try_lock().is_none());
        assert!(tried.join().unwrap());
        assert!(accounts.try_lock_for(Duration::from_millis(1)).is_none());
        scope.spawn(|| *accounts.lock() += 1);
        // The holder is found by what it has noted.
        let mut looks = 0;
        let seen = loop {
            looks += 1;
            assert!(looks < 100_000, "the waiter is not seen");
            let sample = sample();
            let waits = |thread: &&ThreadSample| {
                thread.waits.as_ref().is_some_and(|wait| sample.classes[wait.class].name == "accounts")
            };
            if let Some(thread) = sample.waiters.iter().find(waits) {
                break thread.waits.clone().expect("it waits");
            }
            thread::yield_now();
        };
        assert_eq!(seen.holder, own_id());
        assert!(!seen.has_deadline && seen.place.place != 0);
        drop(held);
    });
    assert_eq!(*accounts.lock(), 4);
    let class = class("accounts");
    let counts = &class.counts;
    assert_eq!((class.kind.as_str(), counts.acquired, counts.contended), ("Mutex", 6, 2));
    assert_eq!((counts.refused, counts.gave_up), (1, 1));
    let waits: u64 = class.callers.iter().map(|caller| caller.waits).sum();
    let holds: u64 = class.callers.iter().map(|caller| caller.holds).sum();
    assert_eq!((waits, holds), (2, 1), "one hold had others wait: {:?}", class.callers);
    assert!(class.callers.iter().all(|caller| caller.place.place != 0));
}

/// How many locks the calling thread is seen to hold, while it waits for one.
fn held_while_waiting() -> usize {
    let (other, is_held, me) = (Mutex::new(()), AtomicBool::new(false), own_id());
    thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let _held = other.lock();
            is_held.store(true, SeqCst);
            for _ in 0..100_000 {
                let waits = |thread: &&ThreadSample| thread.thread == me && thread.waits.is_some();
                if let Some(thread) = sample().waiters.iter().find(waits) {
                    // It is this thread's first lock.
                    let wait = thread.waits.as_ref().expect("it waits");
                    assert_eq!(wait.holder, own_id());
                    return thread.holds.len();
                }
                thread::yield_now();
            }
            panic!("the waiter is not seen");
        });
        while !is_held.load(SeqCst) {
            thread::yield_now();
        }
        drop(other.lock());
        holder.join().unwrap()
    })
}

#[test]
fn nothing_stays_held_that_was_released() {
    sample();
    let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
    drop(mutex.lock());
    let read = lock.upgradable_read();
    let Ok(write) = RwLockUpgradableReadGuard::try_upgrade(read) else { panic!("nobody else is there") };
    drop(RwLockWriteGuard::downgrade(write));
    let read = lock.upgradable_read();
    let other = lock.read();
    let Err(read) = RwLockUpgradableReadGuard::try_upgrade_for(read, Duration::from_millis(1)) else {
        panic!("another reads")
    };
    drop((read, other));
    assert_eq!(held_while_waiting(), 0);
    // Guards that go to another thread.
    let (spin, queued) = (SpinLock::new(0), QRwLock::new(0));
    let guards = (spin.lock(), queued.write());
    thread::scope(|scope| scope.spawn(move || drop(guards)).join().unwrap());
    assert_eq!(held_while_waiting(), 0);
    let _held = lock.read();
    assert_eq!(held_while_waiting(), 1);
}

/// The calling thread as the kernel calls it.
fn own_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").expect("Linux");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
}

fn takes<R: RawMutex>(lock: lock_api::Mutex<R, u32>)
where
    lock_api::Mutex<R, u32>: Named,
{
    lock.set_name("each");
    *lock.lock() += 1;
    assert!(lock.try_lock().is_some());
}

fn reads_and_writes<R: RawRwLock>(lock: lock_api::RwLock<R, u32>)
where
    lock_api::RwLock<R, u32>: Named,
{
    lock.set_name("each");
    *lock.write() += 1;
    assert_eq!(*lock.read(), 1);
    assert!(lock.try_write().is_some());
}

#[test]
fn each_lock_tells_by_its_own_kind() {
    sample();
    takes(Mutex::new(0));
    takes(FairMutex::new(0));
    takes(RtMutex::new(0));
    takes(TreeRtMutex::new(0));
    takes(SpinLock::new(0));
    takes(HqSpinLock::new(0));
    reads_and_writes(RwSem::new(0));
    reads_and_writes(RwLock::new(0));
    reads_and_writes(RecursiveRwLock::new(0));
    reads_and_writes(QRwLock::new(0));
    let all = sample();
    let each = all.classes.iter().filter(|class| class.name == "each");
    let found: BTreeSet<_> = each.map(|class| (class.kind.as_str(), class.counts.acquired)).collect();
    let expected = [
        ("FairMutex", 2),
        ("HqSpinLock", 2),
        ("Mutex", 2),
        ("QRwLock", 3),
        ("RecursiveRwLock", 3),
        ("RtMutex", 2),
        ("RwLock", 3),
        ("RwSem", 3),
        ("SpinLock", 2),
        ("TreeRtMutex", 2),
    ];
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn a_thread_that_is_notified_waits_for_the_notifier() {
    sample();
    let (mutex, condvar) = (Mutex::named("notified", false), Condvar::new());
    thread::scope(|scope| {
        let waiter = scope.spawn(|| condvar.wait_while(&mut mutex.lock(), |notified| !*notified));
        loop {
            let mut notified = mutex.lock();
            *notified = true;
            if condvar.notify_one() {
                // Longer than a wait that does not count.
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_micros(100) {}
                break;
            }
            *notified = waiter.is_finished();
            if *notified {
                panic!("nobody was notified");
            }
        }
    });
    let class = class("notified");
    // The threads may meet at the mutex before.
    assert!(class.counts.contended >= 1 && class.counts.gave_up == 0, "{class:?}");
    assert!(class.counts.wait_ns >= 100_000 && class.counts.hold_max >= 100_000, "{class:?}");
    assert!(class.callers.iter().any(|caller| caller.holds > 0), "{class:?}");
}

#[test]
fn a_wait_for_a_condition_and_an_upgrade_give_the_lock_up() {
    sample();
    let (mutex, condvar) = (Mutex::named("condition", ()), Condvar::new());
    let mut guard = mutex.lock();
    assert!(condvar.wait_for(&mut guard, Duration::from_millis(1)).timed_out());
    drop(guard);
    assert_eq!(class("condition").counts.acquired, 2);

    let lock = RwLock::named("upgraded", 0);
    for _ in 0..20 {
        let read = lock.upgradable_read();
        *RwLockUpgradableReadGuard::upgrade(read) += 1;
    }
    let upgraded = class("upgraded").counts;
    assert_eq!((upgraded.acquired, upgraded.contended), (40, 0));
}

#[test]
fn a_wait_that_ends_in_a_panic_is_not_a_wait_for_ever() {
    sample();
    let mutex = RtMutex::named("owned twice", ());
    let _held = mutex.lock();
    let again = catch_unwind(AssertUnwindSafe(|| drop(mutex.lock())));
    assert!(again.is_err());
    let all = sample();
    assert!(all.waiters.iter().all(|thread| thread.thread != own_id() || thread.waits.is_none()));
    assert_eq!(class("owned twice").counts.gave_up, 1);
}

/// Not a test of its own: a program that nobody has changed but by `use lockyard_stat as _`.
#[test]
fn role() {
    if std::env::var_os("STAT_ROLE").is_some() {
        static LOCK: Mutex<u32> = Mutex::new(0);
        *LOCK.lock() += 1;
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a pipe");
    }
}

#[test]
fn a_program_is_seen_from_its_load_on_if_the_environment_asks() {
    for (asks, is_seen) in [("1", true), ("0", false)] {
        let mut command = Command::new(std::env::current_exe().expect("a file"));
        command.args(["--exact", "role", "--nocapture"]).env("STAT_ROLE", "1").env("LOCKYARD_STAT", asks);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(said.any(|line| line.expect("text").contains("ready")));
        let seen = Reader::open(child.id()).ok().map(|reader| reader.sample());
        child.stdin.take().expect("a pipe").write_all(b"go on\n").expect("it listens");
        said.for_each(drop);
        assert!(child.wait().expect("it ends").success());
        assert_eq!(seen.is_some(), is_seen);
        if let Some(sample) = seen {
            assert!(
                sample
                    .classes
                    .iter()
                    .any(|class| class.kind == "Mutex" && class.counts.acquired == 1 && class.site != 0)
            );
        }
    }
}
