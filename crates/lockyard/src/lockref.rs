//! A reference count and a spinlock in one word: references come and go without the lock, as long
//! as nobody holds it.
//!
//! For objects with a lock of their own that many threads look up at once (directory entries, cache
//! entries): a lookup takes a reference, a change takes the lock, and the last reference is given
//! up under the lock. Not for counts without a lock: an atomic is half the size and cheaper.
//!
//! # The word
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–31 | lock | a spinlock of any [kind](WordLock) | the lock's own operations; copied unchanged by an exchange of the whole |
//! | 32–63 | count | above 0: references; 0: unreferenced; −128: dead; −2³¹: saturated | an exchange of the whole, while the lock half is unlocked; else the lock's owner, by plain stores |
//!
//! | operation | needs | count | if the lock half is taken, or 100 exchanges failed |
//! |---|---|---|---|
//! | [`get`](LockRef::get) | – | + 1; dead, saturated: none; 2³¹ − 1: saturated | takes the lock |
//! | [`get_not_zero`](LockRef::get_not_zero) | 0 < count < 2³¹ − 1 | + 1 | takes the lock |
//! | [`get_not_dead`](LockRef::get_not_dead) | 0 ≤ count < 2³¹ − 1 | + 1 | takes the lock |
//! | [`put_return`](LockRef::put_return) | count > 0 | − 1; saturated: none | fails |
//! | [`put_or_lock`](LockRef::put_or_lock) | count > 1 | − 1; saturated: none | takes the lock, and keeps it if the count is 1 or less |
//! | [`mark_dead`](LockRefGuard::mark_dead) | the lock | −128 | |
//!
//! Which values of the lock half mean "unlocked" (service bits, numbers that go round) is the
//! kind's to say: [`WordLock::is_unlocked`].
//!
//! # Invariants
//!
//! 1. The count changes only by an exchange of the whole word that finds the lock half unlocked, or
//!    by the lock's owner. So the owner may read and write it plainly: an exchange that began
//!    before it took the lock fails.
//! 2. A dead count stays dead: no reference is counted any more, and none is given back.
//! 3. [`put_or_lock`](LockRef::put_or_lock) leaves no count of 0 without the lock.
//! 4. The count never passes 2³¹ − 1. The operations that may refuse a reference do so there.
//!    [`get`](LockRef::get) cannot: it makes the count *saturated*, which nothing but
//!    [`mark_dead`](LockRefGuard::mark_dead) ends. Such an object is never given up; its memory is
//!    lost, but nobody uses it after its end.
//!
//! # Waiting
//!
//! At most [`RETRIES`] exchanges, each of which fails because another thread's succeeded or the
//! lock was taken; then the spinlock's own waiting and its **bound on bypass**. There is no pause
//! between two exchanges: the one that failed has just fetched the line. Once one thread queues for
//! the lock all others must, and the load stays on the lock until the queue has drained: that
//! convoy is what NUMA-aware locks are good for.
//!
//! Where the machine has no exchange of both halves ([`Platform::PAIRS`]) every operation takes the
//! lock.
//!
//! # Memory ordering
//!
//! * Taking a reference is Relaxed: a thread that takes one has another, or reaches the object
//!   under a lock or an epoch that orders it.
//! * Giving one up is Release, so that the thread that gives up the last sees what was done with
//!   all others: `put_or_lock` takes the lock for that, whose Acquire reads from the release
//!   sequence of exchanges (one of the whole is a read-modify-write of the lock half);
//!   `put_return` is AcqRel.
//! * Under the lock the count is Relaxed: the lock orders it.
//!
//! **Destruction.** By the thread that gave up the last reference or marked it dead, once no other
//! can look the object up: the user's to know, as with any count. Unlocking does not touch the word
//! after the kind's release. **fork.** As the kind.
//!
//! Sources: lockref (Linux 2013); its limit of 100 tries came later, and the pause between them
//! went.

use core::fmt;
use core::marker::PhantomData;

use crate::event::Event;
use crate::platform::{ConstPlatform, Ordering, Ordering::*, Pair, Platform, Word};
use crate::spin::WordLock;
use crate::spin::qspinlock::RawQSpinLock;

/// How many exchanges may fail before the lock is taken.
pub const RETRIES: u32 = 100;
/// The count of a dead object.
const DEAD: i32 = -128;
/// The count after more references than it can tell apart: one more than the most.
const SATURATED: i32 = i32::MIN;
const COUNT_SHIFT: u32 = 32;
/// One reference, in the word.
const ONE: u64 = 1 << COUNT_SHIFT;

/// A reference count and a spinlock of kind `K` in 8 bytes.
///
/// A reference is taken or given up by one exchange of the word while nobody holds the lock, and
/// under the lock otherwise. A dead object gets no references. The count stops at 2³¹ − 1: such an
/// object is never given up. Fairness and waiting are the kind's. Theory: `src/lockref.rs`.
///
/// ```
/// static ENTRY: lockyard::LockRef = lockyard::LockRef::new();
/// assert!(ENTRY.get_not_dead()); // a lookup
/// ENTRY.get(); // a copy of the reference
/// assert!(ENTRY.put_or_lock().is_none());
/// let last = ENTRY.put_or_lock().expect("the last reference is given up under the lock");
/// last.mark_dead();
/// drop(last);
/// assert!(!ENTRY.get_not_dead());
/// ```
#[repr(transparent)]
pub struct LockRef<P: Platform, K: WordLock<P> = RawQSpinLock<P>> {
    pair: Pair<P>,
    kind: PhantomData<K>,
}

impl<P: Platform, K: WordLock<P>> fmt::Debug for LockRef<P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRef").field("lock", self.raw()).field("count", &self.count()).finish()
    }
}

/// Unlocked and unreferenced.
impl<P: Platform, K: WordLock<P>> Default for LockRef<P, K> {
    fn default() -> Self {
        Self::with_count(0)
    }
}

impl<P: ConstPlatform, K: WordLock<P>> LockRef<P, K> {
    /// Unlocked and unreferenced, in constants. For kinds whose unlocked word is zero.
    pub const fn new() -> Self {
        const { assert!(K::UNLOCKED == 0, "this kind of lock is not unlocked when it is zero: use with_count") };
        Self { pair: Pair::new(), kind: PhantomData }
    }
}

/// What came of an attempt without the lock.
enum Lockless {
    /// The word is this now.
    Done(u64),
    /// The count is not what the operation needs.
    Refused,
    /// The lock must be taken.
    Locked,
}

/// The count in a word.
#[inline(always)]
const fn count_of(word: u64) -> i32 {
    (word >> COUNT_SHIFT) as i32
}

/// The word with one reference more. Below zero, if the count is dead, saturated, or at its end:
/// one sign tells all three.
#[inline(always)]
const fn one_more(word: u64) -> i64 {
    word.wrapping_add(ONE) as i64
}

impl<P: Platform, K: WordLock<P>> LockRef<P, K> {
    /// Unlocked, with `count` references.
    pub fn with_count(count: u16) -> Self {
        let pair = Pair::<P>::default();
        pair.low.store(K::UNLOCKED, Relaxed);
        pair.high.store(u32::from(count), Relaxed);
        Self { pair, kind: PhantomData }
    }

    /// Takes one more reference: the caller has one.
    ///
    /// Of a dead object no reference is counted. More than 2³¹ − 1 are not told apart: the object
    /// is never given up then.
    #[inline]
    pub fn get(&self) {
        match self.lockless(Relaxed, |word| (one_more(word) >= 0).then_some(one_more(word) as u64)) {
            Lockless::Done(_) => {}
            Lockless::Refused | Lockless::Locked => self.lock().get(),
        }
    }

    /// Takes a reference if there is one already. `false`: there is none, the object is dead, or
    /// there are 2³¹ − 1.
    #[inline]
    pub fn get_not_zero(&self) -> bool {
        self.get_if(|word| one_more(word) >> COUNT_SHIFT > 1)
    }

    /// Takes a reference unless the object is dead. `false`: it is, or there are 2³¹ − 1
    /// references.
    #[inline]
    pub fn get_not_dead(&self) -> bool {
        self.get_if(|word| one_more(word) >= 0)
    }

    #[inline]
    fn get_if(&self, may: impl Fn(u64) -> bool) -> bool {
        match self.lockless(Relaxed, |word| may(word).then_some(one_more(word) as u64)) {
            Lockless::Done(_) => true,
            Lockless::Refused => false,
            Lockless::Locked => {
                let guard = self.lock();
                let may = may(u64::from(guard.raw_count() as u32) << COUNT_SHIFT);
                if may {
                    guard.get();
                }
                may
            }
        }
    }

    /// Gives a reference up, without ever taking the lock: how many are left, or `None` if there
    /// was none, or the lock was in the way.
    #[inline]
    #[must_use = "if it is None the reference is still the caller's"]
    pub fn put_return(&self) -> Option<u32> {
        match self.lockless(AcqRel, |word| (count_of(word) > 0).then(|| word - ONE)) {
            Lockless::Done(word) => Some(count_of(word).unsigned_abs()),
            Lockless::Refused => self.left_of_too_many(),
            Lockless::Locked => None,
        }
    }

    /// What a reference leaves behind that is given up when nobody counts them any more.
    #[cold]
    fn left_of_too_many(&self) -> Option<u32> {
        (self.raw_count() == SATURATED).then_some(i32::MAX.unsigned_abs())
    }

    /// Gives a reference up, unless it is the last: then nothing is given up, and the caller gets
    /// the lock.
    #[inline]
    #[must_use = "if there is a guard the reference is still the caller's"]
    pub fn put_or_lock(&self) -> Option<LockRefGuard<'_, P, K>> {
        if let Lockless::Done(_) = self.lockless(Release, |word| (count_of(word) > 1).then(|| word - ONE)) {
            return None;
        }
        let guard = self.lock();
        match guard.raw_count() {
            SATURATED => None,
            count if count <= 1 => Some(guard),
            count => {
                guard.set(count - 1);
                None
            }
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> LockRefGuard<'_, P, K> {
        self.raw().acquire();
        LockRefGuard { lockref: self }
    }

    /// Takes the lock if it is free and nobody waits.
    #[inline]
    pub fn try_lock(&self) -> Option<LockRefGuard<'_, P, K>> {
        self.raw().try_acquire().then(|| LockRefGuard { lockref: self })
    }

    /// The references: negative if the object is dead. A hint, unless the caller holds the lock.
    #[inline]
    pub fn count(&self) -> i32 {
        match self.raw_count() {
            SATURATED => i32::MAX,
            count => count,
        }
    }

    #[inline]
    fn raw_count(&self) -> i32 {
        self.pair.high.load(Relaxed) as i32
    }

    /// Whether somebody holds the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        !K::is_unlocked(self.pair.low.load(Relaxed))
    }

    #[inline]
    fn raw(&self) -> &K::Word {
        K::of_word(&self.pair.low)
    }

    /// Changes the count while the lock half is unlocked. `change`: what the word becomes, `None`
    /// if it is not what the operation needs.
    #[inline]
    fn lockless(&self, order: Ordering, change: impl Fn(u64) -> Option<u64>) -> Lockless {
        if !P::PAIRS {
            return Lockless::Locked;
        }
        let pair = P::pair_load(&self.pair);
        if !K::is_unlocked(pair as u32) {
            return Self::in_the_way();
        }
        let Some(new) = change(pair) else { return Lockless::Refused };
        match P::pair_exchange(&self.pair, pair, new, order) {
            Ok(_) => Lockless::Done(new),
            Err(found) => self.retry(found, order, change),
        }
    }

    #[cold]
    fn in_the_way() -> Lockless {
        P::count(Event::LockrefLocked, 1);
        Lockless::Locked
    }

    /// After a first exchange that failed on `pair`.
    #[cold]
    fn retry(&self, mut pair: u64, order: Ordering, change: impl Fn(u64) -> Option<u64>) -> Lockless {
        for _ in 1..RETRIES {
            P::count(Event::LockrefRetry, 1);
            if !K::is_unlocked(pair as u32) {
                return Self::in_the_way();
            }
            let Some(new) = change(pair) else { return Lockless::Refused };
            match P::pair_exchange(&self.pair, pair, new, order) {
                Ok(_) => return Lockless::Done(new),
                Err(found) => pair = found,
            }
        }
        P::count(Event::LockrefRetry, 1);
        P::count(Event::LockrefLimit, 1);
        Lockless::Locked
    }
}

/// For embedders, whose callers keep no guard.
#[cfg(feature = "unstable-internals")]
impl<P: Platform, K: WordLock<P>> LockRef<P, K> {
    /// Releases the lock without its guard.
    ///
    /// # Safety
    /// It is locked, and its guard was forgotten.
    #[inline]
    pub unsafe fn force_unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.raw().release() };
    }

    /// A guard for a lock whose guard was forgotten.
    ///
    /// # Safety
    /// It is locked, and no other guard stands for that.
    #[inline]
    pub unsafe fn make_guard_unchecked(&self) -> LockRefGuard<'_, P, K> {
        LockRefGuard { lockref: self }
    }
}

/// The lock of a [`LockRef`], held: dropping it unlocks.
#[derive(Debug)]
#[must_use = "dropping it unlocks"]
pub struct LockRefGuard<'a, P: Platform, K: WordLock<P> = RawQSpinLock<P>> {
    lockref: &'a LockRef<P, K>,
}

impl<P: Platform, K: WordLock<P>> LockRefGuard<'_, P, K> {
    /// The references: negative if the object is dead. Exact.
    #[inline]
    pub fn count(&self) -> i32 {
        self.lockref.count()
    }

    /// Takes a reference. As [`LockRef::get`] where the object is dead, or has too many.
    #[inline]
    pub fn get(&self) {
        let count = self.raw_count();
        if count >= 0 {
            // One more than the most is what saturated is called.
            self.set(count.wrapping_add(1));
        }
    }

    /// Gives a reference up, the last one too. Returns how many are left; nothing happens if there
    /// is none.
    #[inline]
    pub fn put(&self) -> u32 {
        match self.raw_count() {
            SATURATED => i32::MAX.unsigned_abs(),
            count if count <= 0 => 0,
            count => {
                self.set(count - 1);
                (count - 1).unsigned_abs()
            }
        }
    }

    /// Nobody gets a reference any more: the count stays what it is from now on.
    #[inline]
    pub fn mark_dead(&self) {
        self.set(DEAD);
    }

    #[inline]
    fn raw_count(&self) -> i32 {
        self.lockref.raw_count()
    }

    #[inline]
    fn set(&self, count: i32) {
        self.lockref.pair.high.store(count as u32, Relaxed);
    }
}

impl<P: Platform, K: WordLock<P>> Drop for LockRefGuard<'_, P, K> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this guard stands for an acquisition of the lock.
        unsafe { self.lockref.raw().release() };
    }
}

#[cfg(all(feature = "std", target_os = "linux"))]
const _: () = assert!(size_of::<LockRef<crate::platform::linux::Linux>>() == 8);

#[cfg(all(test, feature = "std", target_os = "linux"))]
mod tests;
