//! `futex-hash`: perf's benchmark of the futex hash, on a hash of this program whose buckets have
//! the lock under test. (`spec/futex-hash.md` section 8)
//!
//! Each thread has 64 words of its own and waits on one after the other for a value that it does
//! not have: hash, count, lock, compare, unlock, and no sleep. One wait is one operation, and its
//! wait is all the time it took. Buckets as the kernel's private hash has them: four per thread, at
//! least 16. (The original has 1,024 words per thread; what is measured is buckets, not the
//! threads' caches.)

use lockyard::futex_hash::{Bucket, BucketLock, FutexHash, Waited};

use crate::driver::drive;
use crate::error::Error;
use crate::invariant::Object;
use crate::machine::Machine;
use crate::spec::Spec;
use crate::subject::Exclusive;
use crate::tally::Run;

const WORDS: usize = 64;
const BUCKETS_PER_THREAD: usize = 4;
const FEWEST_BUCKETS: usize = 16;

/// The lock under test as a bucket's.
struct OfBucket<L>(L);

impl<L: Exclusive> Default for OfBucket<L> {
    fn default() -> Self {
        Self(L::new())
    }
}

// SAFETY: the locks under test exclude, which `compare` and the conformance suite look at; a broken
// one is not measured here.
unsafe impl<M: Machine, L: Exclusive> BucketLock<M> for OfBucket<L> {
    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.with(section)
    }
}

pub(crate) fn run<M: Machine, L: Exclusive>(spec: &Spec) -> Result<Run, Error> {
    let buckets = (BUCKETS_PER_THREAD * spec.threads).next_power_of_two().max(FEWEST_BUCKETS);
    let buckets: Vec<Bucket<M, OfBucket<L>>> = (0..buckets).map(|_| Bucket::default()).collect();
    for bucket in &buckets {
        M::name("bucket", bucket);
    }
    let hash = FutexHash::with_table(&buckets);
    let words: Vec<[M::U32; WORDS]> = (0..spec.threads).map(|_| core::array::from_fn(|_| M::U32::default())).collect();
    let no_others: &[Object<L>] = &[];
    drive::<M, L>(spec, no_others, |worker| {
        let own = &words[worker.index];
        while worker.on() {
            for word in own {
                worker.operate(|| {
                    let waited = hash.wait(word, 1, None);
                    debug_assert_eq!(waited, Waited::Differs);
                });
                M::pause(spec.think);
            }
        }
    })
}
