//! A reference count and a spinlock in one word: references come and go without the lock, as long as nobody holds it.
//!
//! For objects with a lock of their own that many threads look up at once (directory entries, cache entries): a lookup takes a reference, a
//! change takes the lock, and the last reference is given up under the lock. Not for counts without a lock: an atomic is half the size and cheaper.
//!
//! # The word
//!
//! | bits | name | meaning | written by |
//! |---|---|---|---|
//! | 0–31 | lock | a spinlock of any [kind](WordLock) | the lock's own operations; copied unchanged by an exchange of the whole |
//! | 32–63 | count | above 0: references; 0: unreferenced; below: dead | an exchange of the whole, while the lock half is unlocked; else the lock's owner, by plain stores |
//!
//! | operation | needs | count | if the lock half is taken, or 100 exchanges failed |
//! |---|---|---|---|
//! | [`get`](LockRef::get) | – | + 1 | takes the lock |
//! | [`get_not_zero`](LockRef::get_not_zero) | count > 0 | + 1 | takes the lock |
//! | [`get_not_dead`](LockRef::get_not_dead) | count ≥ 0 | + 1 | takes the lock |
//! | [`put_return`](LockRef::put_return) | count > 0 | − 1 | fails |
//! | [`put_or_lock`](LockRef::put_or_lock) | count > 1 | − 1 | takes the lock, and keeps it if the count is 1 or less |
//! | [`mark_dead`](LockRefGuard::mark_dead) | the lock | −128 | |
//!
//! Which values of the lock half mean "unlocked" (service bits, numbers that go round) is the kind's to say: [`WordLock::is_unlocked`].
//!
//! # Invariants
//!
//! 1. The count changes only by an exchange of the whole word that finds the lock half unlocked, or by the lock's owner. So the owner may read and
//!    write it plainly: an exchange that began before it took the lock fails.
//! 2. A dead count stays dead.
//! 3. [`put_or_lock`](LockRef::put_or_lock) leaves no count of 0 without the lock.
//!
//! # Waiting
//!
//! At most [`RETRIES`] exchanges, each of which fails because another thread's succeeded or the lock was taken; then the spinlock's own waiting and
//! its **bound on bypass**. There is no pause between two exchanges: the one that failed has just fetched the line. Once one thread queues for the
//! lock all others must, and the load stays on the lock until the queue has drained: that convoy is what NUMA-aware locks are good for.
//!
//! Where the machine has no exchange of both halves ([`Platform::PAIRS`]) every operation takes the lock.
//!
//! # Memory ordering
//!
//! * Taking a reference is Relaxed: whoever takes one has another, or reaches the object under a lock or an epoch that orders it.
//! * Giving one up is Release, so that whoever gives up the last sees what was done with all others: `put_or_lock` takes the lock for that, whose
//!   Acquire reads from the release sequence of exchanges (one of the whole is a read-modify-write of the lock half); `put_return` is AcqRel.
//! * Under the lock the count is Relaxed: the lock orders it.
//!
//! **Destruction.** By whoever gave up the last reference or marked it dead, once nobody can look the object up any more: the user's to know, as with any
//! count. Unlocking does not touch the word after the kind's release. **fork.** As the kind.
//!
//! Sources: lockref (Linux 2013); its limit of 100 tries came later, and the pause between them went.

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
const COUNT_SHIFT: u32 = 32;

/// A reference count and a spinlock of kind `K` in 8 bytes. See the [module text](self).
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
    /// The count is this now.
    Done(i32),
    /// The count is not what the operation needs.
    Refused,
    /// The lock must be taken.
    Locked,
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
    #[inline]
    pub fn get(&self) {
        if let Lockless::Locked = self.lockless(Relaxed, |count| Some(count.wrapping_add(1))) {
            self.lock().get();
        }
    }

    /// Takes a reference if there is one already.
    #[inline]
    pub fn get_not_zero(&self) -> bool {
        self.get_if(|count| count > 0)
    }

    /// Takes a reference unless the object is dead.
    #[inline]
    pub fn get_not_dead(&self) -> bool {
        self.get_if(|count| count >= 0)
    }

    #[inline]
    fn get_if(&self, alive: impl Fn(i32) -> bool) -> bool {
        match self.lockless(Relaxed, |count| alive(count).then(|| count.wrapping_add(1))) {
            Lockless::Done(_) => true,
            Lockless::Refused => false,
            Lockless::Locked => {
                let guard = self.lock();
                let alive = alive(self.count());
                if alive {
                    guard.get();
                }
                alive
            }
        }
    }

    /// Gives a reference up, without ever taking the lock: how many are left, or `None` if there was none, or the lock was in the way.
    #[inline]
    #[must_use = "if it is None the reference is still the caller's"]
    pub fn put_return(&self) -> Option<u32> {
        match self.lockless(AcqRel, |count| (count > 0).then(|| count - 1)) {
            Lockless::Done(left) => Some(left.unsigned_abs()),
            Lockless::Refused | Lockless::Locked => None,
        }
    }

    /// Gives a reference up, unless it is the last: then nothing is given up, and the caller gets the lock.
    #[inline]
    #[must_use = "if there is a guard the reference is still the caller's"]
    pub fn put_or_lock(&self) -> Option<LockRefGuard<'_, P, K>> {
        if let Lockless::Done(_) = self.lockless(Release, |count| (count > 1).then(|| count - 1)) {
            return None;
        }
        let guard = self.lock();
        if self.count() <= 1 {
            return Some(guard);
        }
        guard.set(self.count() - 1);
        None
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

    /// The references: negative if the object is dead. A hint, unless the caller holds the lock.
    #[inline]
    pub fn count(&self) -> i32 {
        self.pair.high.load(Relaxed) as i32
    }

    /// Whether somebody holds the lock or waits for it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        !K::is_unlocked(self.pair.low.load(Relaxed))
    }

    #[inline]
    fn raw(&self) -> &K {
        K::of_word(&self.pair.low)
    }

    /// Changes the count while the lock half is unlocked.
    #[inline]
    fn lockless(&self, order: Ordering, change: impl Fn(i32) -> Option<i32>) -> Lockless {
        if !P::PAIRS {
            return Lockless::Locked;
        }
        let mut pair = P::pair_load(&self.pair);
        for _ in 0..RETRIES {
            if !K::is_unlocked(pair as u32) {
                P::count(Event::LockrefLocked, 1);
                return Lockless::Locked;
            }
            let Some(count) = change((pair >> COUNT_SHIFT) as i32) else { return Lockless::Refused };
            let new = pair & u64::from(u32::MAX) | u64::from(count as u32) << COUNT_SHIFT;
            match P::pair_exchange(&self.pair, pair, new, order) {
                Ok(_) => return Lockless::Done(count),
                Err(found) => pair = found,
            }
            P::count(Event::LockrefRetry, 1);
        }
        P::count(Event::LockrefLimit, 1);
        Lockless::Locked
    }
}

/// The lock of a [`LockRef`], held: dropping it unlocks.
#[derive(Debug)]
#[must_use = "dropping it unlocks"]
pub struct LockRefGuard<'a, P: Platform, K: WordLock<P>> {
    lockref: &'a LockRef<P, K>,
}

impl<P: Platform, K: WordLock<P>> LockRefGuard<'_, P, K> {
    /// The references: negative if the object is dead. Exact.
    #[inline]
    pub fn count(&self) -> i32 {
        self.lockref.count()
    }

    /// Takes a reference.
    #[inline]
    pub fn get(&self) {
        self.set(self.count().wrapping_add(1));
    }

    /// Gives a reference up, the last one too. Returns how many are left; nothing happens if there is none.
    #[inline]
    pub fn put(&self) -> u32 {
        let left = (self.count() - 1).max(0);
        if self.count() > 0 {
            self.set(left);
        }
        left.unsigned_abs()
    }

    /// Nobody gets a reference any more, except by [`LockRef::get`].
    #[inline]
    pub fn mark_dead(&self) {
        self.set(DEAD);
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
mod tests {
    use super::*;
    use crate::platform::linux::Linux;
    use crate::spin::mcs::RawMcsLock;
    use crate::spin::ticket::RawTicketLock;
    use crate::spin::ttas::RawTtasLock;

    /// Every row of the table of operations.
    fn table<K: WordLock<Linux>>() {
        let object = LockRef::<Linux, K>::default();
        assert!(!object.get_not_zero() && object.put_return().is_none());
        assert!(object.get_not_dead() && object.get_not_zero());
        object.get();
        assert_eq!(object.count(), 3);
        assert!(object.put_or_lock().is_none());
        if Linux::PAIRS {
            assert_eq!(object.put_return(), Some(1));
        } else {
            assert_eq!(object.lock().put(), 1);
        }
        let last = object.put_or_lock().expect("the last is given up under the lock");
        assert!(object.is_locked() && object.try_lock().is_none());
        assert!(object.put_return().is_none(), "the lock is in the way");
        assert_eq!((last.count(), last.put(), last.count()), (1, 0, 0));
        last.mark_dead();
        drop(last);
        assert!(!object.is_locked());
        assert!(!object.get_not_dead() && !object.get_not_zero() && object.put_return().is_none());
        assert!(object.put_or_lock().is_some_and(|guard| guard.count() < 0));
    }

    #[test]
    fn every_operation_in_every_state_for_every_kind() {
        table::<RawQSpinLock<Linux>>();
        table::<RawMcsLock<Linux>>();
        table::<RawTicketLock<Linux>>();
        table::<RawTtasLock<Linux>>();
    }

    #[test]
    fn the_lock_half_is_copied_whatever_it_says_when_unlocked() {
        // A ticket lock that has been used is unlocked with other values than zero.
        let object = LockRef::<Linux, RawTicketLock<Linux>>::new();
        (0..3).for_each(|_| drop(object.lock()));
        assert!(object.get_not_dead());
        assert_eq!(object.pair.low.load(Relaxed), 0x0003_0003);
        assert!(!object.is_locked());
    }
}
