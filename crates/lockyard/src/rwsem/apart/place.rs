//! Where the readers of a lock are counted: what its word says, and the counters that it borrows.

use crate::event::Event;
#[cfg(feature = "unstable-internals")]
use crate::platform::Pool;
use crate::platform::record::{APART, BY_CACHE, BY_CPU, Drain, ReaderLane};
use crate::platform::thread::ThreadId;
use crate::platform::{Ordering::*, Platform, Word};

/// What a reader adds to a counter: one that has come, and one that holds or tests.
const READER: u64 = 1 << 32 | 1;

/// So many counters are on their way at a time to the thread that sums them.
const AHEAD: u32 = 8;

/// The word of the lock.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | readers are apart, in borrowed counters; else in the count of the rwsem, and all is 0 |
/// | 1 | closed: no reader enters |
/// | 2 | a counter for each CPU; else for each last-level cache |
/// | 3 | held: no reader is inside, and none enters *past* the closed gate: see `embed` |
/// | 8–15 | the number that the lock has borrowed |
/// | 16–31 | how many counters |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(pub(super) u64);

const ON: u64 = 1;
const CLOSED: u64 = 2;
const CPUS: u64 = 4;
const HELD: u64 = 8;
const NUMBER_SHIFT: u32 = 8;
const COUNTERS_SHIFT: u32 = 16;

impl Place {
    /// In the count of the rwsem.
    pub(super) const COUNTED: Self = Self(0);

    #[inline(always)]
    pub(super) const fn is_apart(self) -> bool {
        self.0 & ON != 0
    }

    #[inline(always)]
    pub(super) const fn is_open(self) -> bool {
        self.0 & (ON | CLOSED) == ON
    }

    pub(super) const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    pub(super) const fn is_by_cpu(self) -> bool {
        self.0 & CPUS != 0
    }

    /// How many counters there are, the same for as long as the readers are there.
    #[inline(always)]
    pub(super) const fn counters(self) -> u32 {
        (self.0 >> COUNTERS_SHIFT) as u32 & 0xffff
    }

    #[inline(always)]
    const fn number(self) -> usize {
        (self.0 >> NUMBER_SHIFT) as usize % APART
    }

    /// Closed.
    pub(super) const fn closed(self) -> Self {
        Self(self.0 | CLOSED)
    }

    /// Closed, and held.
    pub(super) const fn held(self) -> Self {
        Self(self.0 | CLOSED | HELD)
    }

    /// Open.
    pub(super) const fn opened(self) -> Self {
        Self(self.0 & !(CLOSED | HELD))
    }

    /// Whether a reader that holds, or need not wait for its turn, may enter, the gate being closed
    /// or not.
    pub(super) const fn is_open_past(self) -> bool {
        self.0 & (ON | HELD) == ON
    }

    /// With a counter for each CPU, or for each cache: open.
    pub(super) fn split<P: Platform>(self, by_cpu: bool) -> Self {
        let (most, bit) = if by_cpu { (BY_CPU, CPUS) } else { (BY_CACHE, 0) };
        let counters = if by_cpu { P::cpu_end() } else { P::caches() }.clamp(1, most as u32);
        let number = self.0 & 0xff << NUMBER_SHIFT;
        Self(number | ON | bit | u64::from(counters) << COUNTERS_SHIFT)
    }

    /// Borrows counters, of those that are free the next from `start` on. `None`: there are none.
    pub(super) fn borrow<P: Platform>(start: usize) -> Option<Self> {
        let lent = &P::commons().pool.readers.lent.numbers;
        (0..APART).map(|at| (start + at) % APART).find_map(|number| {
            let (place, bit) = (Self((number as u64) << NUMBER_SHIFT), 1 << number);
            // A reader of an earlier lock may still test there; one whose guard was forgotten, or
            // that a fork left behind, stays for ever.
            let mut numbers = lent.load(Relaxed);
            while numbers & bit == 0 && place.is_empty::<P>() {
                match lent.compare_exchange_weak(numbers, numbers | bit, Acquire, Relaxed) {
                    Ok(_) if place.is_empty::<P>() => return Some(place),
                    // It was lent and given back in between, with a reader.
                    Ok(_) => {
                        place.give_back::<P>();
                        return None;
                    }
                    Err(found) => numbers = found,
                }
            }
            None
        })
    }

    /// Whether no reader is inside, nor tests, by cache or by CPU.
    fn is_empty<P: Platform>(self) -> bool {
        let readers = &P::commons().pool.readers;
        let inside = |lanes: &[ReaderLane<P>]| {
            let counts = lanes.iter().map(|lane| lane.counts[self.number()].load(Acquire));
            counts.fold(0, u64::wrapping_add) as u32
        };
        inside(&readers.by_cache) == 0 && inside(&readers.by_cpu) == 0
    }

    /// Gives the counters back: no reader of the lock holds.
    pub(super) fn give_back<P: Platform>(self) {
        P::commons().pool.readers.lent.numbers.fetch_and(!(1 << self.number()), Release);
    }

    /// The counter of the CPU that the caller runs on.
    #[inline(always)]
    pub(super) fn near<P: Platform>(self) -> &'static P::U64 {
        let at = if self.is_by_cpu() { P::cpu() } else { P::cache() };
        let counters = self.counters();
        self.counter::<P>(if at < counters { at } else { at % counters.max(1) })
    }

    #[inline(always)]
    fn counter<P: Platform>(self, at: u32) -> &'static P::U64 {
        let readers = &P::commons().pool.readers;
        let lane = if self.is_by_cpu() {
            &readers.by_cpu[at as usize % BY_CPU]
        } else {
            &readers.by_cache[at as usize % BY_CACHE]
        };
        &lane.counts[self.number()]
    }

    /// How many readers hold or test, and how many have come, mod 2³².
    pub(super) fn total<P: Platform>(self) -> (u32, u32) {
        // Acquire: what a reader that has left did comes before what the caller does.
        let ahead = |from: u32, end: u32| (from..end).for_each(|at| self.counter::<P>(at).prefetch());
        let counters = self.counters();
        ahead(0, AHEAD.min(counters));
        let total = (0..counters).fold(0, |sum: u64, at| {
            ahead(at + AHEAD, (at + AHEAD + 1).min(counters));
            sum.wrapping_add(self.counter::<P>(at).load(Acquire))
        });
        (total as u32, (total >> 32) as u32)
    }

    /// How many readers hold or test, while they come and go; at least 1 if some hold throughout.
    ///
    /// A reader may come behind the sum and leave before it. If two sums say that as many have
    /// come, none has come between them, and what they say was so in between.
    pub(super) fn inside<P: Platform>(self) -> u32 {
        let mut before = self.total::<P>();
        for _ in 0..8 {
            let now = self.total::<P>();
            if now == before {
                return now.0;
            }
            before = now;
        }
        before.0.cast_signed().max(1).cast_unsigned()
    }

    /// A reader comes. Returns its counter, and how many came there before.
    #[inline(always)]
    pub(super) fn enter<P: Platform>(self) -> (&'static P::U64, u32) {
        let counter = self.near::<P>();
        (counter, (counter.fetch_add(READER, Acquire) >> 32) as u32)
    }

    /// A reader leaves, from where it came or from another counter.
    #[inline(always)]
    pub(super) fn leave<P: Platform>(self, counter: &P::U64) {
        if self.take_out::<P>(counter) {
            self.wake::<P>();
        }
    }

    /// A reader leaves. `true`: a writer sleeps until readers have left, and is to be woken.
    #[inline(always)]
    pub(super) fn take_out<P: Platform>(self, counter: &P::U64) -> bool {
        counter.fetch_sub(1, Release);
        // {counter; fence; read `waiter`} against {`waiter`; fence; read counters} of a writer that
        // is about to sleep.
        P::fence_after_exchange();
        self.drain::<P>().waiter.load(Relaxed) != 0
    }

    /// Wakes the writer that sleeps until readers have left.
    #[cold]
    pub(super) fn wake<P: Platform>(self) {
        if let Some(writer) = ThreadId::from_raw(self.drain::<P>().waiter.swap(0, Acquire)) {
            P::count(Event::RwsemWakeWriter, 1);
            P::thread(writer).unpark();
        }
    }

    #[inline(always)]
    pub(super) fn drain<P: Platform>(self) -> &'static Drain<P> {
        &P::commons().pool.readers.drains[self.number()]
    }
}

/// For a program that goes on with its locks on another machine.
#[cfg(feature = "unstable-internals")]
impl<P: Platform> Pool<P> {
    /// Takes over which counters are lent, and what they count.
    pub fn take_readers_of(&self, other: &Self) {
        let (mine, theirs) = (&self.readers, &other.readers);
        let lent = theirs.lent.numbers.load(Relaxed);
        mine.lent.numbers.store(lent, Relaxed);
        let lanes = mine.by_cache.iter().chain(&mine.by_cpu).zip(theirs.by_cache.iter().chain(&theirs.by_cpu));
        for (mine, theirs) in lanes {
            for number in (0..APART).filter(|number| lent >> number & 1 != 0) {
                mine.counts[number].store(theirs.counts[number].load(Relaxed), Relaxed);
            }
        }
    }

    /// Nothing is lent.
    pub fn forget_readers(&self) {
        let readers = &self.readers;
        readers.lent.numbers.store(0, Relaxed);
        let lanes = readers.by_cache.iter().chain(&readers.by_cpu);
        lanes.flat_map(|lane| &lane.counts).for_each(|count| count.store(0, Relaxed));
    }
}
