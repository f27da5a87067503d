//! A mutex on a futex hash.

use core::fmt::Debug;

use lockyard::futex_hash::{Bucket, BucketLock, FutexHash, Waited};
use lockyard::platform::{Ordering::*, Platform, Word};

use crate::lock::{Hashed, Lock, Way};

/// The three-state futex mutex of the books (0 free, 1 held, 2 held and somebody may sleep) on a
/// hash of its own with buckets of lock `L`.
#[derive(Debug)]
pub struct HashedMutex<P: Platform, L: BucketLock<P> + Debug + 'static> {
    word: P::U32,
    hash: FutexHash<'static, P, L>,
}

/// Tables are never given back, and neither are these.
fn table<P: Platform, L: BucketLock<P> + Debug + 'static>(buckets: usize) -> &'static [Bucket<P, L>] {
    Box::leak((0..buckets).map(|_| Bucket::default()).collect::<Vec<_>>().into_boxed_slice())
}

impl<P: Platform, L: BucketLock<P> + Debug + 'static> Default for HashedMutex<P, L> {
    fn default() -> Self {
        Self { word: P::U32::default(), hash: FutexHash::with_table(table(2)) }
    }
}

impl<P: Platform, L: BucketLock<P> + Debug + 'static> Lock for HashedMutex<P, L> {
    type P = P;

    fn lock(&self, _way: Way) {
        if self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return;
        }
        while self.word.swap(2, Acquire) != 0 {
            self.hash.wait(&self.word, 2, None);
        }
    }

    fn try_lock(&self, _way: Way) -> bool {
        self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock(&self, _way: Way) {
        if self.word.swap(0, Release) == 2 {
            self.hash.wake(&self.word, 1);
        }
    }

    fn is_open(&self, _way: Way) -> bool {
        self.word.load(Relaxed) == 0
    }

    fn at_rest(&self) -> bool {
        self.word.load(Relaxed) == 0
    }
}

impl<P: Platform, L: BucketLock<P> + Debug + 'static> Hashed for HashedMutex<P, L> {
    fn grow(&self, buckets: usize) -> bool {
        self.hash.grow(table(buckets))
    }

    fn wait(&self, word: &P::U32, deadline: Option<u64>) -> Waited {
        self.hash.wait(word, 0, deadline)
    }

    fn wake(&self, word: &P::U32, most: usize) -> usize {
        self.hash.wake(word, most)
    }
}
