//! The C types, and the locks they hold.
//!
//! C gets integers, never an atomic: what an atomic looks like in C depends on the compiler and the
//! language. The integers are as large and as aligned as the lock, and zero when it is unlocked;
//! only the functions of this library may touch them.

use lockyard::condvar::RawCondvar;
use lockyard::lockref::LockRef;
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rtmutex::RawRtMutex;
use lockyard::rwsem::RawRwSem;
use lockyard::rwsem::apart::RawApartRwSem;
use lockyard::semaphore::{MAX_UNITS, RawSemaphore};
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;

/// A C type that holds a lock.
pub(crate) trait Holds: Sized {
    /// The lock.
    type Lock: 'static;

    /// Where in the C type at `at` the lock is.
    #[inline(always)]
    fn place(at: *mut Self) -> *const Self::Lock {
        at.cast()
    }

    /// The lock at `at`.
    ///
    /// # Safety
    /// `at` points to a lock that stays there for `'a`: the C caller's promise.
    #[inline(always)]
    unsafe fn lock<'a>(at: *mut Self) -> &'a Self::Lock {
        // SAFETY: the caller's promise; the lock fits the C type, asserted below, and every bit
        // pattern a C caller can have made without breaking the header's rules is one that the lock
        // itself wrote, or zero.
        unsafe { &*Self::place(at) }
    }
}

macro_rules! holds {
    ($($name:ident = $lock:ty;)*) => { $(
        impl Holds for $name {
            type Lock = $lock;
        }

        const _: () = assert!(size_of::<$name>() == size_of::<$lock>() && align_of::<$name>() == align_of::<$lock>());
    )* };
}

holds! {
    ly_mutex_t = RawMutex<Linux>;
    ly_cond_t = RawCondvar<Linux>;
    ly_rtmutex_t = RawRtMutex<Linux>;
    ly_rwsem_t = RawRwSem<Linux>;
    ly_sem_t = RawSemaphore<Linux>;
    ly_spinlock_t = RawQSpinLock<Linux>;
    ly_hq_spinlock_t = RawHqSpinLock<Linux>;
    ly_qrwlock_t = RawQRwLock<Linux>;
    ly_lockref_t = LockRef<Linux>;
}

impl Holds for ly_read_mostly_t {
    type Lock = RawApartRwSem<Linux>;

    /// On the first whole line: memory from malloc is not aligned to lines.
    #[inline(always)]
    fn place(at: *mut Self) -> *const Self::Lock {
        at.map_addr(|at| at.next_multiple_of(align_of::<Self::Lock>())).cast()
    }
}

const _: () = {
    type Lock = RawApartRwSem<Linux>;
    assert!(size_of::<Lock>() + align_of::<Lock>() == size_of::<ly_read_mostly_t>());
};

// The header's `LY_LOCKREF_INIT` puts the count into the upper half of one integer.
const _: () = assert!(cfg!(target_endian = "little"));

/// The header's `LY_SEM_MAX`.
const _: () = assert!(MAX_UNITS == 2_147_483_647);

/// A mutex: spins while the owner runs, sleeps otherwise. 32 bytes.
///
/// Bound on bypass: one turn, and one more per waiter ahead. The thread that locked it must unlock
/// it. Uncontended: one compare-exchange each way.
#[derive(Debug)]
#[repr(C)]
pub struct ly_mutex_t {
    word: [u32; 8],
}

/// The condition variable of ly_mutex_t. 8 bytes.
///
/// The thread that has waited longest is woken first. It is moved, asleep, into the queue of the
/// mutex, and wakes when that is free. The memory may go as soon as all waiters were woken by a
/// signal, and the calls that timed out have returned.
#[derive(Debug)]
#[repr(C)]
pub struct ly_cond_t {
    word: [u32; 2],
}

/// A mutex with priority inheritance: its owner runs at the priority of the most urgent
/// thread that waits for it. 24 bytes.
///
/// Order: by priority; among time-sharing threads as the mutex, one turn, and one more per waiter
/// ahead. It is checked: calls that could only hang, and unlocking what another thread has locked,
/// return errors. Needs no privilege. Uncontended: one compare-exchange each way.
#[derive(Debug)]
#[repr(C)]
pub struct ly_rtmutex_t {
    word: [u64; 3],
}

/// A reader-writer lock that spins and sleeps as the mutex does. 32 bytes.
///
/// Bound on bypass, for readers and for writers: one turn, and one more per waiter ahead. Reading
/// is not recursive: a thread that reads and asks again may wait for a writer that waits for it.
#[derive(Debug)]
#[repr(C)]
pub struct ly_rwsem_t {
    word: [u64; 4],
}

/// A reader-writer lock whose readers write no shared cache line while writers are rare. 192 bytes.
///
/// For locks that many threads read all the time: a reader counts itself near its CPU. A writer
/// reads all those counters, microseconds on a machine with hundreds of CPUs. Until some reads have
/// met, or with many writers, it is as ly_rwsem_t, with the same bound for both. Reading is not
/// recursive. Destroy it before its memory goes: see ly_read_mostly_destroy.
#[derive(Debug)]
#[repr(C)]
pub struct ly_read_mostly_t {
    word: [u64; 24],
}

/// A counting semaphore. 24 bytes.
///
/// Bound on bypass: one turn, and one more per waiter ahead. Any thread may post.
#[derive(Debug)]
#[repr(C)]
pub struct ly_sem_t {
    word: [u64; 3],
}

/// A queued spinlock that sleeps when spinning does not pay. 4 bytes.
///
/// For sections of a microsecond and less. Bound on bypass: one turn, and one more per waiter
/// ahead. Any thread may unlock it.
#[derive(Debug)]
#[repr(C)]
pub struct ly_spinlock_t {
    word: u32,
}

/// A queued spinlock whose waiters queue by NUMA node while it is contended from several nodes. 4
/// bytes.
///
/// Bound on bypass: one turn, and one more per waiter ahead in the own node, times the nodes. Any
/// thread may unlock it.
#[derive(Debug)]
#[repr(C)]
pub struct ly_hq_spinlock_t {
    word: u32,
}

/// A queued reader-writer spinlock for short sections with many readers. 16 bytes.
///
/// Bound on bypass: one turn, and one more per waiter ahead, readers and writers alike. Reading is
/// not recursive.
#[derive(Debug)]
#[repr(C)]
pub struct ly_qrwlock_t {
    word: [u32; 4],
}

/// A reference count and a spinlock in 8 bytes: references come and go without the lock, as long as
/// nobody holds it.
///
/// The count is negative once the object is dead.
#[derive(Debug)]
#[repr(C)]
pub struct ly_lockref_t {
    word: u64,
}
