//! A machine with other hints than Linux: a spin may last for ever, every thread is thought to run,
//! and some have real-time priority. What must end there ends by the lock's own doing. And its
//! threads lose their CPU anywhere: every access to a word may yield.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::boxed::Box;
use std::thread::yield_now;
use std::thread_local;

use crate::event::Event;
use crate::platform::linux::{LaneWord, Linux, U32, U64};
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{
    Commons, ConstPlatform, ConstZero, Lanes, Ordering, ParkedHeads, Patience, Platform, Pool, Word,
};

const SLOTS: usize = 256;

/// The machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tireless;

static RECORDS: [Thread<Tireless>; SLOTS] = [const { Thread::new() }; SLOTS];
static TAKEN: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];
static REALTIME: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];
static HEADS: ParkedHeads<Tireless> = ParkedHeads::new();
static UNUSED: AtomicU32 = AtomicU32::new(0);

/// A word whose accesses may be preceded by the loss of the CPU.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Shaken<W>(W);

fn shake() {
    let random = RANDOM.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    RANDOM.set(random);
    if random >> 60 == 0 {
        yield_now();
    }
}

impl<V, W: Word<V>> Word<V> for Shaken<W> {
    fn load(&self, order: Ordering) -> V {
        shake();
        self.0.load(order)
    }
    fn store(&self, value: V, order: Ordering) {
        shake();
        self.0.store(value, order);
    }
    fn swap(&self, value: V, order: Ordering) -> V {
        shake();
        self.0.swap(value, order)
    }
    fn compare_exchange(&self, current: V, new: V, ok: Ordering, no: Ordering) -> Result<V, V> {
        shake();
        self.0.compare_exchange(current, new, ok, no)
    }
    fn compare_exchange_weak(&self, current: V, new: V, ok: Ordering, no: Ordering) -> Result<V, V> {
        shake();
        self.0.compare_exchange_weak(current, new, ok, no)
    }
    fn fetch_add(&self, value: V, order: Ordering) -> V {
        shake();
        self.0.fetch_add(value, order)
    }
    fn fetch_sub(&self, value: V, order: Ordering) -> V {
        shake();
        self.0.fetch_sub(value, order)
    }
    fn fetch_or(&self, value: V, order: Ordering) -> V {
        shake();
        self.0.fetch_or(value, order)
    }
    fn fetch_and(&self, value: V, order: Ordering) -> V {
        shake();
        self.0.fetch_and(value, order)
    }
}

impl Lanes for Shaken<LaneWord> {}

impl<W: ConstZero> ConstZero for Shaken<W> {
    const ZERO: Self = Self(W::ZERO);
}

/// A thread's slot, given back when the thread ends.
struct Slot(usize);

impl Drop for Slot {
    fn drop(&mut self) {
        REALTIME[self.0].store(false, SeqCst);
        TAKEN[self.0].store(false, SeqCst);
    }
}

thread_local! {
    static SELF: RefCell<Option<Slot>> = const { RefCell::new(None) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread is stopped behind its next exchange that is followed by a fence …
pub(crate) const BEHIND_AN_EXCHANGE: usize = 0;
/// … or where it asks for its CPU …
pub(crate) const BEFORE_ITS_CPU: usize = 1;
/// … or where it goes to sleep.
pub(crate) const BEFORE_A_SLEEP: usize = 2;

type Deed = Box<dyn FnOnce()>;

thread_local! {
    static MEANWHILE: [Cell<Option<Deed>>; 3] = const { [const { Cell::new(None) }; 3] };
}

/// While the calling thread is stopped at `place`, others do this.
pub(crate) fn meanwhile(place: usize, act: impl FnOnce() + Send + 'static) {
    let act = move || std::thread::spawn(act).join().expect("what happens meanwhile");
    MEANWHILE.with(|meanwhile| meanwhile[place].set(Some(Box::new(act))));
}

/// Gives the calling thread real-time priority.
pub(crate) fn become_realtime() {
    let id = Tireless::current().unwrap().id();
    REALTIME[id.raw() as usize].store(true, SeqCst);
}

// SAFETY: words, sleeping and fences are Linux's; `current` claims a slot that no living thread
// has.
unsafe impl Platform for Tireless {
    type U32 = Shaken<U32>;
    type U64 = Shaken<U64>;
    type Lanes = Shaken<LaneWord>;

    fn relax() {
        yield_now();
    }

    fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let limit = match patience.ns {
            u32::MAX => None,
            ns => Some(Self::now() + u64::from(ns)),
        };
        loop {
            if let Some(value) = ready() {
                return Some(value);
            }
            let now = Self::now();
            if [limit, patience.deadline].into_iter().flatten().any(|end| now >= end) {
                return None;
            }
            yield_now();
        }
    }

    fn nap(round: u32) {
        Linux::nap(round);
    }

    fn park(word: &Shaken<U32>, expected: u32, deadline: Option<u64>) {
        MEANWHILE.with(|meanwhile| meanwhile[BEFORE_A_SLEEP].take()).into_iter().for_each(|act| act());
        Linux::park(&word.0, expected, deadline);
    }

    fn unpark(word: &Shaken<U32>) {
        Linux::unpark(&word.0);
    }

    fn fence() {
        Linux::fence();
    }

    fn fence_after_exchange() {
        MEANWHILE.with(|meanwhile| meanwhile[BEHIND_AN_EXCHANGE].take()).into_iter().for_each(|act| act());
        Linux::fence();
    }

    fn cpu() -> u32 {
        MEANWHILE.with(|meanwhile| meanwhile[BEFORE_ITS_CPU].take()).into_iter().for_each(|act| act());
        0
    }

    fn fence_light() {
        Linux::fence_light();
    }

    fn fence_heavy() -> bool {
        Linux::fence_heavy()
    }

    fn now() -> u64 {
        Linux::now()
    }

    fn tick() -> u64 {
        Linux::tick()
    }

    fn id() -> Option<ThreadId> {
        SELF.with_borrow(|slot| slot.as_ref().and_then(|slot| ThreadId::from_raw(slot.0 as u32)))
    }

    fn current() -> Option<&'static Thread<Self>> {
        let index = SELF.with_borrow_mut(|slot| {
            slot.get_or_insert_with(|| {
                RANDOM.set(UNUSED.load(SeqCst).into());
                // Slot 0 is nobody's. Start elsewhere each time: names are not reused at once.
                let start = UNUSED.fetch_add(1, SeqCst) as usize;
                let free = |index: &usize| !TAKEN[*index].swap(true, SeqCst);
                let index = (0..SLOTS - 1).map(|step| 1 + (start + step) % (SLOTS - 1)).find(free).unwrap();
                RECORDS[index].set_id(ThreadId::from_raw(index as u32).unwrap());
                Slot(index)
            })
            .0
        });
        Some(&RECORDS[index])
    }

    fn thread(id: ThreadId) -> &'static Thread<Self> {
        &RECORDS[id.raw() as usize % SLOTS]
    }

    fn is_running(id: ThreadId) -> bool {
        !id.is_anonymous()
    }

    fn should_yield() -> bool {
        false
    }

    fn spin_budget() -> u32 {
        u32::MAX
    }

    fn is_realtime(id: ThreadId) -> bool {
        REALTIME[id.raw() as usize % SLOTS].load(SeqCst)
    }

    fn cpus() -> u32 {
        4
    }

    fn node() -> u32 {
        0
    }

    fn nodes() -> u32 {
        1
    }

    fn commons() -> Commons<Self> {
        static POOL: Pool<Tireless> = Pool::new();
        Commons { heads: &HEADS, pool: &POOL }
    }

    fn key<T>(lock: *const T) -> u64 {
        lock.addr() as u64
    }

    fn count(_event: Event, _amount: i64) {}
}

// SAFETY: its lanes are Linux's, in a transparent wrapper.
unsafe impl ConstPlatform for Tireless {}
