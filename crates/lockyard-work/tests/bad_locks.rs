//! The measurement watches the lock: one that does not exclude is an error, one that starves is
//! seen.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lockyard::platform::linux::Linux;
use lockyard_work::{Error, Exclusive, Family, Label, Shared, Spec, Workload, measure_exclusive, measure_shared};

const BAD: Label = Label::peer("bad", Family::Mutex);

fn brief(workload: Workload) -> Spec {
    Spec {
        threads: 4,
        // The section sleeps, so that threads are inside at the same time even on one CPU.
        cs_sleep: Duration::from_micros(20),
        duration: Duration::from_millis(40),
        warmup: Duration::from_millis(5),
        ..Spec::new(workload)
    }
}

fn is_caught<S: Exclusive + 'static>(spec: &Spec) {
    match measure_exclusive::<Linux, S>(&BAD, spec) {
        Err(Error::Exclusion { torn, lost }) => assert!(torn > 0 || lost != 0),
        other => panic!("{} is not caught on {}: {other:?}", std::any::type_name::<S>(), spec.workload),
    }
}

/// Does nothing at all.
struct Open;

impl Exclusive for Open {
    fn new() -> Self {
        Self
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

#[test]
fn a_lock_that_does_nothing_is_caught() {
    for workload in [Workload::Contend, Workload::TortureSpin] {
        is_caught::<Open>(&brief(workload));
    }
    is_caught::<Open>(&Spec { lines: 8, ..brief(Workload::Contend) });
}

/// Excludes, but lets one acquisition in ten through.
struct Leaky {
    inner: Mutex<()>,
    calls: AtomicU32,
}

impl Exclusive for Leaky {
    fn new() -> Self {
        Self { inner: Mutex::new(()), calls: AtomicU32::new(0) }
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
            return section();
        }
        let _guard = self.inner.lock().unwrap();
        section()
    }
}

#[test]
fn a_lock_that_leaks_now_and_then_is_caught() {
    is_caught::<Leaky>(&brief(Workload::Contend));
}

/// Writers exclude each other; readers come and go as they please.
struct ReadersIgnored(Mutex<()>);

impl Exclusive for ReadersIgnored {
    fn new() -> Self {
        Self(Mutex::new(()))
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().unwrap();
        section()
    }
}

impl Shared for ReadersIgnored {
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

#[test]
fn readers_beside_a_writer_are_caught() {
    let spec = Spec { read_pct: 50.0, ..brief(Workload::Contend) };
    assert!(matches!(
        measure_shared::<Linux, ReadersIgnored>(&BAD, &spec),
        Err(Error::Exclusion { torn: 1.., lost: 0 })
    ));
    let spec = brief(Workload::StarveReaders);
    assert!(matches!(measure_shared::<Linux, ReadersIgnored>(&BAD, &spec), Err(Error::Exclusion { torn: 1.., .. })));
}

/// Serves the first thread that comes, and the others only after that one is gone.
struct Favourite {
    inner: Mutex<()>,
    claimed: AtomicBool,
    gone: Arc<AtomicBool>,
}

thread_local! {
    static FAVOUR: RefCell<Option<Favour>> = const { RefCell::new(None) };
}

/// Kept by the favourite; says when it is gone.
struct Favour(Arc<AtomicBool>);

impl Drop for Favour {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Exclusive for Favourite {
    fn new() -> Self {
        Self { inner: Mutex::new(()), claimed: AtomicBool::new(false), gone: Arc::default() }
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        FAVOUR.with(|favour| {
            let mut favour = favour.borrow_mut();
            if favour.is_none() && !self.claimed.swap(true, Ordering::Relaxed) {
                *favour = Some(Favour(Arc::clone(&self.gone)));
            }
            while favour.is_none() && !self.gone.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        let _guard = self.inner.lock().unwrap();
        section()
    }
}

#[test]
fn starved_threads_are_counted_with_the_wait_they_still_had() {
    let record = measure_exclusive::<Linux, Favourite>(&BAD, &brief(Workload::Contend)).unwrap();
    assert_eq!(record.idle_threads, 3);
    assert_eq!(record.fairness, 1.0);
    assert_eq!(record.per_thread.min, 0);
    assert_eq!(record.counts.iter().filter(|&&count| count > 0).count(), 1);
    // They called during the warm-up, so they waited the whole window and more.
    assert!(record.wait.max >= record.duration_ns, "{} of {}", record.wait.max, record.duration_ns);
}
