//! Records of threads: type-stable, reused when their threads have gone.
//!
//! | word | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `CHUNKS[n]` | the records n·64 to n·64 + 63 | the first thread that claims one of them | nobody |
//! | `HIGH` | the highest name that was ever claimed | the thread that claims it | nobody |
//! | `claimed` | the record has a thread: 1 | that thread, 0 → 1 by compare-exchange | that thread, at its end |
//! | `SELF` | the thread's name; 0: it has none yet | the thread | – |
//! | `END` | the same, with a destructor | the thread | – |
//!
//! **Ordering.** `claimed`: the end of a thread is a Release store and a claim an Acquire exchange,
//! so the next thread finds the record as the last one left it. `HIGH` is counted Relaxed: a chunk
//! is in place before a name in it is counted, and its `OnceLock` orders that for other threads.
//!
//! **Names.** All are short ([`ThreadId::MAX_QUEUED`]): a thread that has a record can queue for
//! every lock. A thread beyond them is anonymous for its life, and looks at locks between naps. So
//! is one that runs its thread-local destructors and has given its record back.
//!
//! **The end of a thread.** The destructor of `END` gives the record back, unless a lock has the
//! thread's name as its owner's: then the thread keeps it, for a later destructor that releases the
//! lock, and it is not used again. A record that is still in a queue is passed over by claims.
//! Where the target has no native thread-locals, both words lie in memory that the standard library
//! allocates, and `SELF` may be freed first: the next use of `SELF` finds 0, and `END` tells the
//! name.

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU32, Ordering::*};
use std::boxed::Box;
use std::sync::OnceLock;
use std::thread_local;

use super::Portable;
use crate::event::{COUNT, Event, Snapshot};
use crate::platform::atomics::AtomicU64;
use crate::platform::thread::{Thread, ThreadId};

/// Records that are allocated together.
const CHUNK: usize = 64;

/// The highest name.
const LAST: u32 = ThreadId::MAX_QUEUED;

/// How many records a new thread looks at for one without a thread, before it takes a fresh one.
const TRIES: u32 = 8;

const EVENTS: usize = if cfg!(feature = "events") { COUNT } else { 0 };

#[repr(C, align(128))]
struct Slot {
    claimed: AtomicU32,
    thread: Thread<Portable>,
    events: [AtomicU64; EVENTS],
}

impl Slot {
    const fn new() -> Self {
        Self { claimed: AtomicU32::new(0), thread: Thread::new(), events: [const { AtomicU64::new(0) }; EVENTS] }
    }
}

/// Its place 0 has no thread: threads without a record count events there.
static FIRST: [Slot; CHUNK] = [const { Slot::new() }; CHUNK];

static CHUNKS: [OnceLock<Box<[Slot]>>; LAST as usize / CHUNK + 1] =
    [const { OnceLock::new() }; LAST as usize / CHUNK + 1];

static HIGH: AtomicU32 = AtomicU32::new(0);

/// Where the next search for a record without a thread begins.
static CURSOR: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SELF: Cell<u32> = const { Cell::new(0) };
    static END: End = const { End(Cell::new(0)) };
}

/// The thread's name; gives its record back when it is dropped.
struct End(Cell<u32>);

impl Drop for End {
    fn drop(&mut self) {
        let Some(slot) = at(self.0.get()).filter(|_| self.0.get() != 0) else { return };
        // A lock that the thread holds by name is released by a later destructor, or never.
        if slot.thread.pi.is_idle() {
            // From here on the thread has none, should it lock once more.
            SELF.set(ThreadId::ANONYMOUS.raw());
            slot.claimed.store(0, Release);
        }
    }
}

/// A number that no other live thread has.
#[inline]
pub fn number() -> NonZeroUsize {
    SELF.with(|own| core::ptr::NonNull::from(own).addr())
}

/// The caller's name, if it has one.
#[inline(always)]
pub(super) fn id() -> Option<ThreadId> {
    ThreadId::from_raw(SELF.get())
}

/// The caller's record, claimed on first use.
#[inline]
pub(super) fn current() -> Option<&'static Thread<Portable>> {
    let id = id().unwrap_or_else(register);
    (!id.is_anonymous()).then(|| record(id))
}

/// The record of `id`; of a name that was never given: record 0. There is no panic on lock paths.
#[inline]
pub(super) fn record(id: ThreadId) -> &'static Thread<Portable> {
    &at(id.raw()).unwrap_or(&FIRST[0]).thread
}

/// The slot `index`, if it is there.
#[inline]
fn at(index: u32) -> Option<&'static Slot> {
    let index = index as usize;
    FIRST.get(index).or_else(|| CHUNKS.get(index / CHUNK)?.get()?.get(index % CHUNK))
}

#[cold]
fn register() -> ThreadId {
    // A thread whose `END` is gone gets no record: nobody would give it back.
    let named = END.try_with(|end| {
        // Without native thread-locals `SELF` may have gone before `END`, and begun anew.
        let id = ThreadId::from_raw(end.0.get()).or_else(|| reused(TRIES).or_else(fresh).or_else(|| reused(LAST)));
        end.0.set(id.map_or(0, ThreadId::raw));
        id
    });
    let id = named.ok().flatten().unwrap_or(ThreadId::ANONYMOUS);
    SELF.set(id.raw());
    id
}

/// A record whose thread has gone, of `tries`.
fn reused(tries: u32) -> Option<ThreadId> {
    let high = HIGH.load(Relaxed);
    (0..tries.min(high)).find_map(|_| claim(CURSOR.fetch_add(1, Relaxed) % high + 1))
}

/// A record that never had a thread.
fn fresh() -> Option<ThreadId> {
    loop {
        let next = HIGH.load(Relaxed) + 1;
        if next > LAST {
            return None;
        }
        let chunk = next as usize / CHUNK;
        if chunk > 0 {
            CHUNKS[chunk].get_or_init(|| (0..CHUNK).map(|_| Slot::new()).collect());
        }
        // One that a search has found in between is not fresh any more.
        let _ = HIGH.compare_exchange(next - 1, next, Relaxed, Relaxed);
        if let Some(id) = claim(next) {
            return Some(id);
        }
    }
}

/// The record `index` is the calling thread's, if it has no other.
fn claim(index: u32) -> Option<ThreadId> {
    let (slot, id) = (at(index)?, ThreadId::from_raw(index)?);
    if slot.claimed.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        return None;
    }
    if !slot.thread.is_unused() {
        slot.claimed.store(0, Release);
        return None;
    }
    slot.thread.set_id(id);
    Some(id)
}

/// Counts an event for the calling thread.
#[inline]
pub(super) fn count(event: Event, amount: i64) {
    let index = SELF.get();
    let slot = at(index).unwrap_or(&FIRST[0]);
    let Some(word) = slot.events.get(event as usize) else { return };
    if core::ptr::eq(slot, &FIRST[0]) {
        word.fetch_add(amount as u64, Relaxed);
    } else {
        word.store(word.load(Relaxed).wrapping_add(amount as u64), Relaxed);
    }
}

/// The sums over all threads, living and gone.
pub fn snapshot() -> Snapshot {
    let mut counts = [0u64; COUNT];
    for slot in (0..=HIGH.load(Relaxed)).filter_map(at) {
        for (sum, word) in counts.iter_mut().zip(&slot.events) {
            *sum = sum.wrapping_add(word.load(Relaxed));
        }
    }
    Snapshot::from_counts(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtmutex_tree::RawTreeRtMutex;

    #[test]
    fn threads_that_live_at_once_have_different_records() {
        let threads = CHUNK + 10;
        let together = std::sync::Barrier::new(threads);
        let mut names: std::vec::Vec<u32> = std::thread::scope(|scope| {
            let running: std::vec::Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let me = current().unwrap();
                        together.wait();
                        assert!(core::ptr::eq(me, record(me.id())) && core::ptr::eq(me, current().unwrap()));
                        me.id().raw()
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), threads);
    }

    #[test]
    fn records_of_threads_that_have_gone_are_used_again() {
        let before = HIGH.load(Relaxed);
        for _ in 0..1_000 {
            std::thread::spawn(|| assert!(current().is_some())).join().unwrap();
        }
        // Other tests run beside this one.
        assert!(HIGH.load(Relaxed) < before + 500);
    }

    #[test]
    fn a_thread_that_ends_gives_its_record_back_and_waits_without_one() {
        thread_local! {
            static LATE: Late = const { Late };
        }
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                // Before or after ours: it has its record still, or none.
                assert!(current().is_none_or(|me| Some(me.id()) == id()));
            }
        }
        std::thread::spawn(|| {
            LATE.with(|_| ());
            current().unwrap();
        })
        .join()
        .unwrap();
    }

    /// Destructors run in the reverse of the order in which they were first used.
    #[test]
    fn a_mutex_that_knows_its_owner_is_released_by_a_later_destructor() {
        static MUTEX: RawTreeRtMutex<Portable> = RawTreeRtMutex::new();
        thread_local! {
            static HELD: Held = const { Held };
        }
        struct Held;
        impl Drop for Held {
            fn drop(&mut self) {
                // SAFETY: acquired below, by this thread.
                let _ = unsafe { MUTEX.release() };
            }
        }
        std::thread::spawn(|| {
            HELD.with(|_| ());
            MUTEX.acquire().unwrap();
        })
        .join()
        .unwrap();
        assert!(!MUTEX.is_locked());
    }

    #[test]
    fn events_of_threads_that_have_gone_are_kept() {
        let before = snapshot();
        std::thread::spawn(|| {
            current();
            count(Event::PvWaitAgain, 7);
        })
        .join()
        .unwrap();
        assert!(!cfg!(feature = "events") || snapshot().since(&before).get(Event::PvWaitAgain) >= 7);
    }
}
