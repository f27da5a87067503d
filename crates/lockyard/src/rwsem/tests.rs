//! Every policy on the real machine: the state table, exclusion, giving up, handoff, grants.
//!
//! Schedules are driven by what the lock's words say, never by sleeping; nothing is asserted about time.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the tests' threads are the machine's

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread::{scope, yield_now};
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::grant::Mode;
use super::owner::{RD_NONSPINNABLE, READER_OWNED, WR_NONSPINNABLE, identity};
use super::policy::*;
use super::*;
use crate::cancel::CancelToken;
use crate::platform::linux::Linux;

type Lock<Y> = RawRwSem<Linux, Y>;

const US: u64 = 1_000;

fn waiting<Y: Policy>(lock: &Lock<Y>) -> usize {
    lock.locked(|| {
        let mut number = 0;
        let mut next = lock.queue.first();
        while let Some(thread) = next {
            number += 1;
            next = lock.queue.after(thread);
        }
        number
    })
}

/// Lets others run until `condition`. The limit only turns a hang into a failure.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
        yield_now();
    }
}

fn count<Y: Policy>(lock: &Lock<Y>) -> u64 {
    lock.count.load(SeqCst)
}

fn assert_at_rest<Y: Policy>(lock: &Lock<Y>) {
    assert_eq!(count(lock), 0, "{}: count at rest", Y::NAME);
    assert!(lock.queue.is_empty() && !lock.osq.is_locked() && !lock.wait_lock.is_locked(), "{}", Y::NAME);
    assert_eq!(lock.reader_spinners.load(SeqCst), 0, "{}", Y::NAME);
    assert_eq!(lock.embedder.load(SeqCst), 0, "{}", Y::NAME);
}

/// Invariant 2, for a lock nobody is operating on: `held` is what its holders contribute.
fn assert_waiters<Y: Policy>(lock: &Lock<Y>, held: u64, some: bool) {
    let waiters = if some { Y::COUNT.waiters() } else { 0 };
    let flags = if Y::COUNT == CountScheme::Bits { HANDOFF | LISTENING } else { 0 };
    assert_eq!(count(lock) & !flags, held.wrapping_add(waiters), "{}: {:#x}", Y::NAME, count(lock));
    assert!(some || flags == 0 || count(lock) & flags == 0, "{}: {:#x}", Y::NAME, count(lock));
}

const fn writer<Y: Policy>() -> u64 {
    match Y::COUNT {
        CountScheme::Biased => biased::W,
        CountScheme::Bits => WRITER,
    }
}

/// The rows of the state table that one thread can see.
fn table<Y: Policy>() {
    let lock = Lock::<Y>::new();
    let (unit, writer) = (Y::COUNT.unit(), writer::<Y>());

    lock.read_acquire();
    assert_eq!(count(&lock), unit);
    let word = lock.owner.load(SeqCst);
    assert_eq!((word & READER_OWNED, identity(word)), (READER_OWNED, Linux::id()));
    assert!(lock.is_locked() && !lock.is_write_locked() && !lock.is_contended());
    assert!(lock.try_read_acquire() && !lock.try_write_acquire());
    assert!(lock.read_acquire_until(Until::after(0)).is_ok());
    assert_eq!(count(&lock), 3 * unit);
    assert_eq!(lock.write_acquire_until(Until::after(200 * US)), Err(GaveUp::TimedOut));
    assert_eq!(count(&lock), 3 * unit);
    // SAFETY: read three times above.
    (0..3).for_each(|_| unsafe { lock.read_release() });
    assert_at_rest(&lock);

    lock.write_acquire();
    assert_eq!(count(&lock), writer);
    assert_eq!((lock.write_owner(), lock.is_write_locked()), (Linux::id(), true));
    assert!(!lock.try_read_acquire() && !lock.try_write_acquire());
    assert_eq!(lock.read_acquire_until(Until::after(200 * US)), Err(GaveUp::TimedOut));
    assert_eq!(lock.write_acquire_until(Until::after(200 * US)), Err(GaveUp::TimedOut));
    let token = CancelToken::new();
    token.cancel();
    assert_eq!(lock.read_acquire_until(Until::cancelled(&token)), Err(GaveUp::Cancelled));
    assert_eq!(lock.write_acquire_until(Until::cancelled(&token)), Err(GaveUp::Cancelled));
    assert_eq!(count(&lock), writer);
    // SAFETY: written above.
    unsafe { lock.downgrade() };
    assert_eq!(count(&lock), unit);
    assert!(lock.owner.load(SeqCst) & READER_OWNED != 0 && !lock.is_write_locked());
    assert!(lock.try_read_acquire());
    // SAFETY: read twice above.
    (0..2).for_each(|_| unsafe { lock.read_release() });
    assert!(lock.write_acquire_until(Until::cancelled(&token)).is_ok());
    // SAFETY: written above.
    unsafe { lock.write_release() };
    assert_eq!(lock.owner.load(SeqCst), 0);
    assert_at_rest(&lock);

    assert!(lock.try_write_acquire());
    // SAFETY: written above.
    unsafe { lock.write_release() };
    assert_at_rest(&lock);
    tries_on_every_state::<Y>();
    marks::<Y>();
}

/// What a try, or a spinner's try, makes of each value, whether or not it can be reached by one thread.
fn tries_on_every_state<Y: Policy>() {
    let (unit, wait, writer) = (Y::COUNT.unit(), Y::COUNT.waiters(), writer::<Y>());
    let me = me::<Linux>();
    let bits = Y::COUNT == CountScheme::Bits;
    let sum = |parts: &[u64]| parts.iter().fold(0u64, |sum, part| sum.wrapping_add(*part));
    // value, a reader's try, a writer's try, a spinning writer's try, a spinning reader's try
    let mut rows = std::vec![
        (0, true, true, true, true),
        (unit, true, false, false, true),
        (5 * unit, true, false, false, true),
        (writer, false, false, false, false),
        (wait, false, false, true, true),
        (sum(&[wait, unit + unit]), false, false, false, true),
        (sum(&[wait, writer]), false, false, false, false),
    ];
    if bits {
        rows.push((WAITERS | HANDOFF, false, false, false, false));
        rows.push((WAITERS | HANDOFF | BIAS, false, false, false, false));
        rows.push((READFAIL, !Y::OVERFLOW_GUARD, false, false, true));
    }
    for (value, read, write, spin_write, spin_read) in rows {
        let check = |what: &str, expected: bool, add: u64, act: &dyn Fn(&Lock<Y>) -> bool| {
            let lock = Lock::<Y>::new();
            lock.count.store(value, SeqCst);
            assert_eq!(act(&lock), expected, "{}: {what} on {value:#x}", Y::NAME);
            let after = if expected { value.wrapping_add(add) } else { value };
            assert_eq!(count(&lock), after, "{}: {what} on {value:#x}", Y::NAME);
            assert_eq!(lock.owner.load(SeqCst) != 0, expected, "{}: {what} on {value:#x}", Y::NAME);
        };
        check("read", read, unit, &Lock::try_read_acquire);
        check("write", write, writer, &Lock::try_write_acquire);
        check("spinning write", spin_write, writer, &|lock| lock.write_past_waiters(me));
        if bits {
            check("spinning read", spin_read, unit, &|lock| lock.spinner_read_try(me));
        }
    }
    if bits && !Y::TURNS {
        // The queue is empty although WAITERS is set: the slow path stays, by stealing, spinning or finding the queue empty.
        let lock = Lock::<Y>::new();
        lock.count.store(WAITERS, SeqCst);
        lock.read_acquire();
        assert_eq!(count(&lock), WAITERS + BIAS, "{}", Y::NAME);
    }
}

/// The life of the marks in the owner word.
fn marks<Y: Policy>() {
    let lock = Lock::<Y>::new();
    let marks = || lock.owner.load(SeqCst) & (RD_NONSPINNABLE | WR_NONSPINNABLE);
    let (fresh, set, kept) = match (Y::NONSPIN, Y::NONSPIN_KEEP) {
        (Nonspin::WithReader, _) => (RD_NONSPINNABLE, RD_NONSPINNABLE, RD_NONSPINNABLE),
        (Nonspin::Split, Keep::Nothing) => (0, RD_NONSPINNABLE | WR_NONSPINNABLE, 0),
        (Nonspin::Split, _) => (0, RD_NONSPINNABLE | WR_NONSPINNABLE, RD_NONSPINNABLE),
        (Nonspin::Single, _) => (0, RD_NONSPINNABLE, RD_NONSPINNABLE),
    };
    lock.set_nonspinnable();
    assert_eq!(marks(), 0, "only readers are marked");
    lock.own_as_reader();
    assert_eq!(marks(), fresh, "{}", Y::NAME);
    lock.set_nonspinnable();
    assert_eq!(marks(), set, "{}", Y::NAME);
    lock.own_as_reader();
    assert_eq!(marks(), kept, "{}", Y::NAME);
    lock.own_as_writer();
    assert_eq!(marks(), 0, "{}", Y::NAME);
}

/// Waiters give up one by one, whichever is first: flags follow the queue (historical bugs B9, B17).
fn aborts<Y: Policy>() {
    for number in 1..=3usize {
        for kinds in 0..1usize << number {
            for victim in 0..number {
                abort::<Y>(number, |who| kinds >> who & 1 != 0, victim);
            }
        }
    }
}

fn abort<Y: Policy>(number: usize, writes: impl Fn(usize) -> bool, victim: usize) {
    let lock = &Lock::<Y>::new();
    let tokens: Vec<CancelToken<Linux>> = (0..number).map(|_| CancelToken::new()).collect();
    lock.write_acquire();
    scope(|scope| {
        let mut waiters = Vec::new();
        for (who, token) in tokens.iter().enumerate() {
            let writes = writes(who);
            waiters.push(scope.spawn(move || {
                let result = if writes {
                    lock.write_acquire_until(Until::cancelled(token))
                } else {
                    lock.read_acquire_until(Until::cancelled(token))
                };
                match (result, writes) {
                    // SAFETY: acquired.
                    (Ok(()), true) => unsafe { lock.write_release() },
                    // SAFETY: acquired.
                    (Ok(()), false) => unsafe { lock.read_release() },
                    (Err(_), _) => {}
                }
                result
            }));
            eventually("a waiter queues", || waiting(lock) == who + 1);
        }
        assert_waiters(lock, writer::<Y>(), true);
        tokens[victim].cancel();
        let gone = waiters.remove(victim);
        assert_eq!(gone.join().unwrap(), Err(GaveUp::Cancelled));
        assert_eq!(waiting(lock), number - 1);
        assert_waiters(lock, writer::<Y>(), number > 1);
        // SAFETY: held since the start.
        unsafe { lock.write_release() };
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(()));
        }
    });
    assert_at_rest(lock);
}

/// A first waiter that gives up wakes those it kept waiting (historical bug B10).
fn first_abort_wakes_next<Y: Policy>() {
    let lock = &Lock::<Y>::new();
    let token = &CancelToken::new();
    lock.read_acquire();
    scope(|scope| {
        let writing = scope.spawn(|| lock.write_acquire_until(Until::cancelled(token)));
        eventually("the writer queues", || waiting(lock) == 1);
        let reading = scope.spawn(|| lock.read_acquire());
        eventually("the reader queues or is let in", || waiting(lock) == 2 || reading.is_finished());
        token.cancel();
        assert_eq!(writing.join().unwrap(), Err(GaveUp::Cancelled));
        // We still hold it for reading: the only reason to wait is gone.
        reading.join().unwrap();
    });
    assert_eq!(count(lock), 2 * Y::COUNT.unit(), "{}", Y::NAME);
    // SAFETY: acquired here, and by the reader's thread.
    (0..2).for_each(|_| unsafe { lock.read_release() });
    assert_at_rest(lock);
}

/// A writer past its deadline gets the lock, whoever else tries.
fn handoff_to_writer<Y: Policy>() {
    if !Y::HANDOFF.exists() {
        return;
    }
    let lock = &Lock::<Y>::new();
    let (got, go) = (&AtomicBool::new(false), &AtomicBool::new(false));
    lock.write_acquire();
    scope(|scope| {
        scope.spawn(|| {
            lock.write_acquire();
            got.store(true, SeqCst);
            eventually("go", || go.load(SeqCst));
            // SAFETY: acquired above.
            unsafe { lock.write_release() };
        });
        eventually("handoff is requested", || {
            // Its deadline is looked at when it is woken.
            if let Some(first) = lock.queue.first() {
                first.unpark();
            }
            count(lock) & HANDOFF != 0
        });
        // SAFETY: held since the start.
        unsafe { lock.write_release() };
        eventually("the heir", || {
            assert!(!lock.try_write_acquire() && !lock.try_read_acquire(), "{}: the heir was passed", Y::NAME);
            assert!(!lock.write_past_waiters(me::<Linux>()), "{}: a spinner passed the heir", Y::NAME);
            got.load(SeqCst)
        });
        go.store(true, SeqCst);
    });
    assert_at_rest(lock);
}

/// A reader past its deadline that is passed by a writer once more asks for handoff.
fn handoff_to_reader<Y: Policy>() {
    if !Y::HANDOFF.exists() || Y::TURNS {
        return;
    }
    let lock = &Lock::<Y>::new();
    let (got, go) = (&AtomicBool::new(false), &AtomicBool::new(false));
    lock.write_acquire();
    scope(|scope| {
        scope.spawn(|| {
            lock.read_acquire();
            got.store(true, SeqCst);
            eventually("go", || go.load(SeqCst));
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
        });
        eventually("the reader queues", || waiting(lock) == 1);
        eventually("handoff is requested", || {
            // As after a release and a steal: the pass finds a writer.
            lock.wake(Mode::Any);
            assert_eq!(count(lock) & READERS, 0, "{}: a probe was left behind", Y::NAME);
            count(lock) & HANDOFF != 0
        });
        // SAFETY: held since the start.
        unsafe { lock.write_release() };
        eventually("the heir", || {
            assert!(!lock.try_write_acquire() && !lock.write_past_waiters(me::<Linux>()), "{}: passed", Y::NAME);
            got.load(SeqCst)
        });
        assert_eq!(count(lock), BIAS, "{}", Y::NAME);
        go.store(true, SeqCst);
    });
    assert_at_rest(lock);
}

/// A thread that is already waiting (a signal handler in it) gets in past waiters, and leaves no bias behind when it fails.
fn no_place_in_the_queue<Y: Policy>() {
    let lock = &Lock::<Y>::new();
    let record = Linux::current().unwrap();
    lock.read_acquire();
    scope(|scope| {
        scope.spawn(|| {
            lock.write_acquire();
            // SAFETY: acquired above.
            unsafe { lock.write_release() };
        });
        eventually("the writer queues", || waiting(lock) == 1);
        record.waiter.busy.store(1, SeqCst);
        if Y::TURNS && count(lock) & HANDOFF != 0 {
            assert!(lock.read_acquire_until(Until::after(200 * US)).is_err());
        } else if lock.read_acquire_until(Until::after(100_000 * US)).is_ok() {
            // SAFETY: acquired.
            unsafe { lock.read_release() };
        } else {
            assert!(Y::TURNS, "{}: not let in", Y::NAME);
        }
        assert_eq!(lock.write_acquire_until(Until::after(200 * US)), Err(GaveUp::TimedOut));
        record.waiter.busy.store(0, SeqCst);
        assert_waiters(lock, Y::COUNT.unit(), true);
        // SAFETY: held since the start.
        unsafe { lock.read_release() };
    });
    assert_at_rest(lock);
}

/// More readers than one pass serves.
fn many_readers<Y: Policy>(readers: usize) {
    let lock = &Lock::<Y>::new();
    let (inside, go) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    lock.write_acquire();
    scope(|scope| {
        for _ in 0..readers {
            let small = std::thread::Builder::new().stack_size(64 << 10);
            let read = || {
                lock.read_acquire();
                inside.fetch_add(1, SeqCst);
                eventually("go", || go.load(SeqCst));
                // SAFETY: acquired above.
                unsafe { lock.read_release() };
            };
            small.spawn_scoped(scope, read).unwrap();
        }
        eventually("all queue", || waiting(lock) == readers);
        // SAFETY: held since the start.
        unsafe { lock.downgrade() };
        let served = if Y::WAKE_READERS == WakeReaders::All { readers.min(MAX_GRANTS) } else { readers };
        eventually("one pass is served", || inside.load(SeqCst) == served);
        assert_eq!(waiting(lock), readers - served);
        assert_waiters(lock, (served as u64 + 1) * Y::COUNT.unit(), served < readers);
        // SAFETY: held for reading since the downgrade.
        unsafe { lock.read_release() };
        go.store(true, SeqCst);
    });
    assert_eq!(inside.load(SeqCst), readers);
    assert_at_rest(lock);
}

/// What the lock protects, and how its rules would be seen broken.
struct Protected<Y: Policy> {
    lock: Lock<Y>,
    readers: AtomicU32,
    writers: AtomicU32,
    value: UnsafeCell<[u64; 2]>,
}

// SAFETY: `value` is written only under the write lock, read only under the lock.
unsafe impl<Y: Policy> Sync for Protected<Y> {}

impl<Y: Policy> Protected<Y> {
    fn read(&self, linger: bool) {
        self.readers.fetch_add(1, SeqCst);
        if linger {
            yield_now();
        }
        assert_eq!(self.writers.load(SeqCst), 0, "{}: a writer beside a reader", Y::NAME);
        // SAFETY: the lock is held for reading.
        let [a, b] = unsafe { *self.value.get() };
        assert_eq!(a, b, "{}: torn", Y::NAME);
        self.readers.fetch_sub(1, SeqCst);
        // SAFETY: the caller acquired it.
        unsafe { self.lock.read_release() };
    }

    fn write(&self, linger: bool, downgrade: bool) {
        assert_eq!(self.writers.fetch_add(1, SeqCst), 0, "{}: two writers", Y::NAME);
        // SAFETY: the lock is held for writing.
        let value = unsafe { &mut *self.value.get() };
        value[0] += 1;
        if linger {
            yield_now();
        }
        assert_eq!(self.readers.load(SeqCst), 0, "{}: a reader beside a writer", Y::NAME);
        value[1] += 1;
        self.writers.fetch_sub(1, SeqCst);
        if downgrade {
            // SAFETY: the caller acquired it.
            unsafe { self.lock.downgrade() };
            self.read(linger);
        } else {
            // SAFETY: the caller acquired it.
            unsafe { self.lock.write_release() };
        }
    }
}

/// Everything at once: exclusion, and the lock at rest afterwards.
fn torture<Y: Policy>() {
    const THREADS: usize = 4;
    const ROUNDS: usize = if cfg!(debug_assertions) { 1_500 } else { 6_000 };
    if !Y::TWO_PHASE_GRANT {
        return; // broken on purpose
    }
    let shared = &Protected::<Y> {
        lock: Lock::new(),
        readers: AtomicU32::new(0),
        writers: AtomicU32::new(0),
        value: UnsafeCell::new([0; 2]),
    };
    let tokens: &Vec<Vec<CancelToken<Linux>>> =
        &(0..THREADS).map(|_| (0..ROUNDS).map(|_| CancelToken::new()).collect()).collect();
    let rounds: &[AtomicUsize; THREADS] = &core::array::from_fn(|_| AtomicUsize::new(0));
    scope(|scope| {
        for who in 0..THREADS {
            scope.spawn(move || {
                let lock = &shared.lock;
                let record = Linux::current().unwrap();
                let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ (who as u64 + 1) << 32;
                for round in 0..ROUNDS {
                    rounds[who].store(round, SeqCst);
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let linger = random >> 40 & 7 == 0;
                    let soon = Until::after((random >> 44 & 63) * US);
                    let token = Until::cancelled(&tokens[who][round]);
                    let neighbour = (who + 1) % THREADS;
                    if random >> 50 & 3 == 0 {
                        tokens[neighbour][rounds[neighbour].load(SeqCst)].cancel();
                    }
                    // Now and then as a thread that must not queue.
                    record.waiter.busy.store(u32::from(random >> 54 & 15 == 0), SeqCst);
                    let read = |taken: bool| if taken { shared.read(linger) };
                    let write = |taken: bool| if taken { shared.write(linger, random >> 60 & 3 == 0) };
                    match random >> 33 & 15 {
                        0..5 => {
                            lock.read_acquire();
                            read(true);
                        }
                        5..8 => {
                            lock.write_acquire();
                            write(true);
                        }
                        8 => read(lock.try_read_acquire()),
                        9 => write(lock.try_write_acquire()),
                        10 | 11 => read(lock.read_acquire_until(soon).is_ok()),
                        12 | 13 => write(lock.write_acquire_until(soon).is_ok()),
                        14 => read(lock.read_acquire_until(token).is_ok()),
                        _ => write(lock.write_acquire_until(token).is_ok()),
                    }
                    record.waiter.busy.store(0, SeqCst);
                }
            });
        }
    });
    assert_at_rest(&shared.lock);
}

macro_rules! every_policy {
    ($($module:ident: $policy:ident),* $(,)?) => {
        $(mod $module {
            use crate::rwsem::policy::$policy as Y;

            #[test]
            fn table() {
                super::table::<Y>();
            }
            #[test]
            fn aborts() {
                super::aborts::<Y>();
            }
            #[test]
            fn first_abort_wakes_next() {
                super::first_abort_wakes_next::<Y>();
            }
            #[test]
            fn handoff_to_writer() {
                super::handoff_to_writer::<Y>();
            }
            #[test]
            fn handoff_to_reader() {
                super::handoff_to_reader::<Y>();
            }
            #[test]
            fn no_place_in_the_queue() {
                super::no_place_in_the_queue::<Y>();
            }
            #[test]
            fn torture() {
                super::torture::<Y>();
            }
        })*

        #[test]
        fn every_policy_is_tested_and_named() {
            assert_eq!([$($policy::NAME),*], NAMES);
        }
    };
}

every_policy! {
    xadd_baseline: XaddBaseline,
    xadd_baseline_literal: XaddBaselineLiteral,
    handoff_none: HandoffNone,
    handoff_4ms: Handoff4ms,
    handoff_immediate: HandoffImmediate,
    wake_all_readers: WakeAllReaders,
    reader_spin_on_writer: ReaderSpinOnWriter,
    timed_writer_spin: TimedWriterSpin,
    timed_writer_spin_literal: TimedWriterSpinLiteral,
    adaptive_rspin: AdaptiveRspin,
    v5_10: V5_10,
    starvation_guard: StarvationGuard,
    reader_steal: ReaderSteal,
    reader_steal_v2: ReaderStealV2,
    limit_rspin: LimitRspin,
    no_rspin: NoRspin,
    v5_16: V5_16,
    today_kernel: TodayKernel,
    today: Today,
}

#[test]
fn one_pass_serves_no_more_than_its_list() {
    many_readers::<TodayKernel>(MAX_GRANTS + 40);
    many_readers::<HandoffNone>(MAX_GRANTS + 40);
    many_readers::<XaddBaseline>(MAX_GRANTS + 40);
}

#[test]
fn readers_behind_a_writer_are_let_in_by_a_reader_if_the_policy_says_so() {
    fn waiting_after_downgrade<Y: Policy>() -> usize {
        let lock = &Lock::<Y>::new();
        let (enter, entered) = channel();
        lock.write_acquire();
        scope(|scope| {
            scope.spawn(|| {
                lock.write_acquire();
                // SAFETY: acquired above.
                unsafe { lock.write_release() };
            });
            eventually("the writer queues", || waiting(lock) == 1);
            scope.spawn(move || {
                lock.read_acquire();
                enter.send(()).unwrap();
                // SAFETY: acquired above.
                unsafe { lock.read_release() };
            });
            eventually("the reader queues", || waiting(lock) == 2);
            // SAFETY: held since the start.
            unsafe { lock.downgrade() };
            let left = waiting(lock);
            if left == 1 {
                entered.recv().unwrap();
            }
            // SAFETY: held for reading since the downgrade.
            unsafe { lock.read_release() };
            left
        })
    }
    assert_eq!(waiting_after_downgrade::<ReaderSteal>(), 2);
    assert_eq!(waiting_after_downgrade::<ReaderStealV2>(), 1);
    assert_eq!(waiting_after_downgrade::<TodayKernel>(), 2);
}

#[test]
fn only_so_many_readers_spin() {
    let limited = Lock::<LimitRspin>::new();
    assert!(limited.spin_slot() && !limited.spin_slot());
    limited.leave_spin_slot();
    assert!(limited.spin_slot());
    let free = Lock::<ReaderSteal>::new();
    assert!((0..9).all(|_| free.spin_slot()));
}

#[test]
fn policies_are_found_by_name() {
    struct Name;
    impl Visitor for Name {
        type Output = &'static str;
        fn policy<Y: Policy>(self) -> &'static str {
            Y::NAME
        }
    }
    for &name in NAMES {
        assert_eq!(visit(name, Name), Some(name));
        assert_eq!(NAMES.iter().filter(|other| **other == name).count(), 1);
    }
    assert_eq!(visit("tomorrow", Name), None);
}

#[test]
#[ignore]
fn tmp_events() {
    struct T;
    impl Visitor for T {
        type Output = ();
        fn policy<Y: Policy>(self) {
            let before = crate::event::snapshot();
            let start = Instant::now();
            for _ in 0..10 { torture::<Y>(); }
            let d = crate::event::snapshot().since(&before);
            std::print!("{:28} {:>7.1?}", Y::NAME, start.elapsed());
            for (n, v) in d.iter() { if v != 0 && (n.starts_with("rwsem") || n.starts_with("osq")) { std::print!(" {}={}", n.trim_start_matches("rwsem_"), v as i64); } }
            std::println!();
        }
    }
    for &n in NAMES { visit(n, T); }
}
