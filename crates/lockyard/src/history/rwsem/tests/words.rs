//! The words themselves: where the bits are, what the fast paths do without a word to anybody, and
//! what a release sees.

use super::queued::{queued, was_woken};
use crate::event::Event;
use crate::history::rwsem::owner::{OwnerState, identity, me};
use crate::history::rwsem::policy::*;
use crate::history::rwsem::*;
use crate::platform::{Ordering::SeqCst, Word};
use crate::wait::tests::clockwork::{Clockwork, as_thread, at_poll, cues_left, events, record};

/// The table in the module text, and Linux's documentation of `count`.
#[test]
fn the_bits_are_where_the_tables_say() {
    assert_eq!((WRITER, WAITERS, HANDOFF, BIAS), (0x1, 0x2, 0x4, 0x100));
    assert_eq!((READFAIL, READERS), (0x8000_0000_0000_0000, 0xffff_ffff_ffff_ff00));
    assert_eq!((LOCKED, READ_BLOCK), (0xffff_ffff_ffff_ff01, 0x8000_0000_0000_0007));
    assert_eq!((CountScheme::Bits.unit(), CountScheme::Biased.unit()), (BIAS, biased::A));
    assert_eq!(
        (biased::FULL, biased::A, biased::WAIT, biased::W),
        (0x8000_0000, 1, 0xffff_ffff_0000_0000, 0xffff_ffff_0000_0001)
    );
    assert_eq!(Handoff4ms::HANDOFF, Handoff::After(4_000_000));
    assert_eq!(HandoffImmediate::HANDOFF, Handoff::After(0));
}

struct Quiet;

impl Visitor for Quiet {
    type Output = ();

    fn policy<Y: Policy>(self) {
        let lock = KernelRwSem::<Clockwork, Y>::new();
        assert!(!lock.is_locked() && !lock.is_write_locked() && !lock.is_contended(), "{}", Y::NAME);
        events();
        lock.wait_lock.acquire(); // which nobody needs here
        for _ in 0..2 {
            lock.read_acquire();
            assert!(lock.is_locked() && !lock.is_write_locked(), "{}", Y::NAME);
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
            assert!(!lock.is_locked(), "{}", Y::NAME);
            lock.write_acquire();
            assert!(lock.is_locked() && lock.is_write_locked(), "{}", Y::NAME);
            // SAFETY: acquired above.
            unsafe { lock.downgrade() };
            assert!(lock.is_locked() && !lock.is_write_locked(), "{}", Y::NAME);
            // SAFETY: acquired above.
            unsafe { lock.read_release() };
        }
        // SAFETY: acquired above.
        unsafe { lock.wait_lock.release() };
        assert_eq!(events(), [], "{}: the uncontended path counts nothing", Y::NAME);
        let tries = if Y::COUNT == CountScheme::Biased { &TRIES[..] } else { &[] };
        assert!(lock.try_read_acquire());
        // SAFETY: acquired above.
        unsafe { lock.read_release() };
        assert!(lock.try_write_acquire());
        // SAFETY: acquired above.
        unsafe { lock.write_release() };
        assert_eq!(events(), tries, "{}: but for the tries of 2019", Y::NAME);
        assert!(!lock.is_locked());
    }
}

const TRIES: [(Event, i64); 2] = [(Event::RwsemRtrylock, 1), (Event::RwsemWtrylock, 1)];

#[test]
fn uncontended_locks_and_unlocks_count_nothing() {
    for name in NAMES {
        visit(name, Quiet).unwrap();
    }
}

/// Whether a release wakes the first waiter, and what is left in the count. One that does not
/// leaves the queue alone.
#[track_caller]
fn released<Y: Policy>(before: u64, act: fn(&KernelRwSem<Clockwork, Y>), after: u64, wakes: bool) {
    let lock = queued::<Y>(before, "w");
    events();
    if !wakes {
        lock.wait_lock.acquire();
    }
    act(lock);
    assert_eq!(lock.count.load(SeqCst), after, "{}: {before:#x}", Y::NAME);
    assert_eq!(was_woken(2), wakes, "{}: {before:#x}", Y::NAME);
    let counted: &[_] = if wakes { &[(Event::RwsemWakeWriter, 1)] } else { &[] };
    assert_eq!(events(), counted, "{}: {before:#x}", Y::NAME);
}

fn read_release<Y: Policy>(lock: &KernelRwSem<Clockwork, Y>) {
    // SAFETY: as one of the readers that the count says there are.
    unsafe { lock.read_release() };
}

fn read_release_detached<Y: Policy>(lock: &KernelRwSem<Clockwork, Y>) {
    // SAFETY: as above.
    unsafe { lock.read_release_detached() };
}

fn write_release<Y: Policy>(lock: &KernelRwSem<Clockwork, Y>) {
    // SAFETY: as the writer that the count says there is.
    unsafe { lock.write_release() };
}

fn write_release_detached<Y: Policy>(lock: &KernelRwSem<Clockwork, Y>) {
    // SAFETY: as above.
    unsafe { lock.write_release_detached() };
}

fn downgrade<Y: Policy>(lock: &KernelRwSem<Clockwork, Y>) {
    // SAFETY: as above.
    unsafe { lock.downgrade() };
}

#[test]
fn a_release_with_waiters_looks_after_the_first() {
    for release in [read_release::<TodayKernel>, read_release_detached::<TodayKernel>] {
        released(BIAS | WAITERS, release, WAITERS, true);
        released(BIAS | WAITERS | HANDOFF, release, WAITERS | HANDOFF, true);
        released((2 * BIAS) | WAITERS, release, BIAS | WAITERS, false);
        released(WRITER | BIAS | WAITERS, release, WRITER | WAITERS, false);
        released(BIAS, release, 0, false);
    }
    for release in [write_release::<TodayKernel>, write_release_detached::<TodayKernel>] {
        released(WRITER | WAITERS, release, WAITERS, true);
        released(WRITER | WAITERS | BIAS, release, WAITERS | BIAS, true);
        released(WRITER, release, 0, false);
    }
    released(WRITER, downgrade::<TodayKernel>, BIAS, false);
}

#[test]
fn a_biased_release_looks_after_the_first_when_nobody_is_active() {
    use biased::{A, W, WAIT};
    let w = |count: u64| WAIT.wrapping_add(count);
    released(w(A), read_release::<XaddBaseline>, WAIT, true);
    released(w(2 * A), read_release::<XaddBaseline>, w(A), false);
    released(A, read_release::<XaddBaseline>, 0, false);
    released(W.wrapping_add(A), read_release::<XaddBaseline>, W, false);
    released(w(W), write_release::<XaddBaseline>, WAIT, true);
    released(W, write_release::<XaddBaseline>, 0, false);
    released(w(W).wrapping_add(W), write_release::<XaddBaseline>, w(W), true);
    released(W.wrapping_add(A), write_release::<XaddBaseline>, A, false);
    released(W, downgrade::<XaddBaseline>, A, false);
}

#[test]
fn what_the_count_says_by_its_scheme() {
    use CountScheme::{Biased, Bits};
    assert_eq!((Bits.unit(), Bits.waiters()), (BIAS, WAITERS));
    assert_eq!((Biased.unit(), Biased.waiters()), (biased::A, biased::WAIT));
    let rows = [(0, false, false), (WAITERS | HANDOFF, false, false), (WRITER, true, true), (BIAS, true, false)];
    for (count, held, written) in rows {
        assert_eq!((Bits.held(count), Bits.written(count)), (held, written), "{count:#x}");
    }
    use biased::{A, W, WAIT};
    // With a queue that is not empty.
    let rows = [(WAIT, false, false), (WAIT.wrapping_add(A), true, false), (WAIT.wrapping_add(W), true, true)];
    for (count, held, written) in rows {
        assert_eq!((Biased.held(count), Biased.written(count)), (held, written), "{count:#x}");
    }
    assert!(ReaderSpinOnWriter::READER_SPIN.exists() && LimitRspin::READER_SPIN.exists());
    assert!(!TodayKernel::READER_SPIN.exists() && !HandoffNone::HANDOFF.exists() && V5_10::HANDOFF.exists());
}

/// The queue is somebody else's for the moment: a biased release leaves the waking to a spinner, if
/// there is one.
#[test]
fn a_biased_release_trusts_in_a_spinner() {
    for spinner in [false, true] {
        let lock = queued::<XaddBaseline>(biased::WAIT.wrapping_add(biased::W), "w");
        if spinner {
            assert!(lock.osq.join(record(5), crate::platform::Patience::ns(0)));
        }
        lock.wait_lock.acquire();
        if !spinner {
            // SAFETY: acquired above.
            at_poll(|| unsafe { lock.wait_lock.release() });
        }
        write_release(lock);
        assert_eq!((was_woken(2), cues_left()), (!spinner, 0));
        if spinner {
            // SAFETY: acquired above.
            unsafe { lock.wait_lock.release() };
            lock.count.store(biased::WAIT.wrapping_add(biased::W), SeqCst);
            write_release(lock);
            assert!(was_woken(2), "the queue is free");
            lock.osq.leave(record(5));
        }
        assert!(!lock.wait_lock.is_locked());
    }
}

/// What has changed by the time a detached release has the queue.
#[test]
fn a_detached_release_looks_again_under_the_wait_lock() {
    let late = |cue: fn(&KernelRwSem<Clockwork, TodayKernel>)| {
        let lock = queued::<TodayKernel>(BIAS | WAITERS, "w");
        lock.wait_lock.acquire();
        at_poll(move || {
            cue(lock);
            // SAFETY: acquired above.
            unsafe { lock.wait_lock.release() };
        });
        read_release_detached(lock);
        assert_eq!(cues_left(), 0);
        (lock.count.load(SeqCst), was_woken(2))
    };
    assert_eq!(late(|_| {}), (WAITERS, true));
    let left = late(|lock| {
        lock.queue.remove(record(2));
        lock.count.store(BIAS, SeqCst);
    });
    assert_eq!(left, (0, false));
    assert_eq!(late(|lock| lock.count.store((2 * BIAS) | WAITERS, SeqCst)), (BIAS | WAITERS, false));
}

/// A mark against spinning ends with the last reader that leaves waiters.
#[test]
fn the_last_reader_clears_the_mark_against_writers() {
    fn cleared<Y: Policy>(count: u64, release: fn(&KernelRwSem<Clockwork, Y>)) -> bool {
        let lock = queued::<Y>(count, "w");
        lock.owned_by_reader(record(9).id(), 0);
        lock.set_nonspinnable();
        release(lock);
        !lock.has_marks()
    }
    assert!(cleared::<TodayKernel>(BIAS | WAITERS, read_release));
    assert!(cleared::<TodayKernel>(BIAS | WAITERS, read_release_detached));
    assert!(!cleared::<TodayKernel>((2 * BIAS) | WAITERS, read_release));
    assert!(!cleared::<TodayKernel>((2 * BIAS) | WAITERS, read_release_detached));
    assert!(!cleared::<TodayKernel>(BIAS, read_release));
    assert!(!cleared::<HandoffNone>(BIAS | WAITERS, read_release), "there readers are never spun on");
}

#[test]
fn readers_that_are_in_may_come_in_again_and_go_unasked() {
    // The count, whether a reader may come in once more, and whether one may leave without looking
    // after anybody.
    let rows = [
        (0, false, false),
        (WRITER, false, false),
        (WRITER | BIAS, false, false),
        (BIAS, true, true),
        (3 * BIAS, true, true),
        (BIAS | WAITERS, true, false),
        (BIAS | HANDOFF, true, false),
        (WAITERS, false, false),
        (READFAIL - BIAS, true, true),
        (READFAIL, false, true),
        (READERS, false, true),
    ];
    for (count, again, unasked) in rows {
        let lock = queued::<TodayKernel>(count, "");
        assert_eq!(lock.try_read_again(), again, "{count:#x}");
        assert_eq!(lock.count.load(SeqCst), if again { count + BIAS } else { count });
        let lock = queued::<TodayKernel>(count, "");
        // SAFETY: as one of the readers, if there are any.
        assert_eq!(unsafe { lock.try_read_release_unasked() }, unasked, "{count:#x}");
        assert_eq!(lock.count.load(SeqCst), if unasked { count - BIAS } else { count });
    }
}

#[test]
fn a_child_forgets_every_request() {
    let lock = queued::<TodayKernel>(WRITER | WAITERS | HANDOFF, "w");
    lock.reader_spinners.store(1, SeqCst);
    // SAFETY: nobody but this thread knows it.
    unsafe { lock.forget_waiters() };
    assert_eq!(lock.count.load(SeqCst), WRITER);
    assert!(lock.queue.is_empty() && lock.reader_spinners.load(SeqCst) == 0);
}

#[test]
fn the_owner_word_names_its_writer_and_says_what_it_is_to_a_spinner() {
    use owner::{Kind, RD_NONSPINNABLE, READER_OWNED, WR_NONSPINNABLE, state};
    let me = me::<Clockwork>();
    assert_eq!((identity(me.raw() << 8), identity(0xff)), (Some(me), None));
    assert!(OwnerState::Writer(me).is_writer() && !OwnerState::Reader.is_writer());
    let rows = [
        (0, OwnerState::Null, OwnerState::Null),
        (me.raw() << 8, OwnerState::Writer(me), OwnerState::Writer(me)),
        (me.raw() << 8 | READER_OWNED, OwnerState::Reader, OwnerState::Reader),
        (READER_OWNED | RD_NONSPINNABLE, OwnerState::Nonspinnable, OwnerState::Reader),
        (READER_OWNED | WR_NONSPINNABLE, OwnerState::Reader, OwnerState::Nonspinnable),
        (me.raw() << 8 | RD_NONSPINNABLE, OwnerState::Nonspinnable, OwnerState::Writer(me)),
    ];
    for (word, read, write) in rows {
        assert_eq!((state::<V5_10>(word, Kind::Read), state::<V5_10>(word, Kind::Write)), (read, write), "{word:#x}");
        let lock = queued::<V5_10>(WRITER, "");
        lock.owner.store(word, SeqCst);
        assert_eq!(lock.has_marks(), word & (RD_NONSPINNABLE | WR_NONSPINNABLE) != 0);
        assert_eq!(lock.write_owner(), if word & READER_OWNED == 0 { identity(word) } else { None });
        // What a reader remembers: who read, or the mark that a writer left.
        let note = if word & READER_OWNED != 0 { word } else { word & RD_NONSPINNABLE };
        assert_eq!(lock.owner_note(), note, "{word:#x}");
        // Marks are set once, and only on readers; that against writers is taken off alone.
        lock.set_nonspinnable();
        let both = RD_NONSPINNABLE | WR_NONSPINNABLE;
        let marked = if word & READER_OWNED != 0 && word & both == 0 { word | both } else { word };
        assert_eq!(lock.owner.load(SeqCst), marked, "{word:#x}");
        lock.clear_nonspinnable();
        assert_eq!(lock.owner.load(SeqCst), marked & !WR_NONSPINNABLE, "{word:#x}");
    }
    assert_eq!(state::<WakeAllReaders>(READER_OWNED, Kind::Write), OwnerState::Nonspinnable);
    assert_eq!(state::<ReaderSpinOnWriter>(READER_OWNED, Kind::Read), OwnerState::Reader);
    let lock = queued::<TodayKernel>(BIAS, "");
    lock.owner.store(READER_OWNED | RD_NONSPINNABLE, SeqCst);
    assert_eq!(lock.owner_note(), 0, "nobody asks for it there");
}

#[test]
fn a_biased_lock_knows_its_writer_by_the_owner_word() {
    let lock = queued::<XaddBaseline>(biased::W, "");
    assert!(!lock.is_write_locked(), "it has not said so yet");
    lock.own_as_writer();
    assert!(lock.is_write_locked());
    lock.count.store(0, SeqCst);
    assert!(!lock.is_write_locked(), "nobody is active");
    lock.count.store(biased::A, SeqCst);
    lock.own_as_reader();
    assert!(!lock.is_write_locked());
}

#[test]
fn a_thread_without_a_record_is_anonymous() {
    as_thread(0, || {
        assert!(me::<Clockwork>().is_anonymous());
        let lock = queued::<TodayKernel>(0, "");
        lock.write_acquire();
        assert_eq!(lock.write_owner(), Some(crate::platform::thread::ThreadId::ANONYMOUS));
        write_release(lock);
        assert_eq!(lock.count.load(SeqCst), 0);
    });
}
