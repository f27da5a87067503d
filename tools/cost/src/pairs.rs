//! Loops of uncontended lock + unlock pairs, one per fast path, and the same loop around nothing.

use std::hint::black_box;

use lockyard::{Mutex, QRwLock, RtMutex, RwSem, Semaphore, SpinLock};

/// Runs so many pairs on a fresh lock.
pub(crate) type Run = fn(u32);

/// Every loop by the name that `cargo xtask cost counts` uses; its symbol has `cost_` before it.
pub(crate) const PAIRS: [(&str, Run); 9] = [
    ("empty_loop", |pairs| cost_empty_loop(&(), pairs)),
    ("mutex_lock_unlock", |pairs| cost_mutex_lock_unlock(&Mutex::new(()), pairs)),
    ("rt_mutex_lock_unlock", |pairs| cost_rt_mutex_lock_unlock(&RtMutex::new(()), pairs)),
    ("spin_lock_unlock", |pairs| cost_spin_lock_unlock(&SpinLock::new(()), pairs)),
    ("rwsem_read", |pairs| cost_rwsem_read(&RwSem::new(()), pairs)),
    ("rwsem_write", |pairs| cost_rwsem_write(&RwSem::new(()), pairs)),
    ("qrwlock_read", |pairs| cost_qrwlock_read(&QRwLock::new(()), pairs)),
    ("qrwlock_write", |pairs| cost_qrwlock_write(&QRwLock::new(()), pairs)),
    ("semaphore", |pairs| cost_semaphore(&Semaphore::new(1), pairs)),
];

macro_rules! loops {
    ($($symbol:ident($lock:ident: $type:ty) $pair:expr;)*) => {$(
        // SAFETY: no other symbol of this program or of the C library has this name.
        #[unsafe(no_mangle)]
        #[inline(never)]
        fn $symbol($lock: &$type, pairs: u32) {
            // Two loops with the same code must not be merged into one.
            black_box(stringify!($symbol));
            for _ in 0..pairs {
                let $lock = black_box($lock);
                $pair;
            }
        }
    )*};
}

loops! {
    cost_empty_loop(_lock: ()) {};
    cost_mutex_lock_unlock(lock: Mutex<()>) drop(lock.lock());
    cost_rt_mutex_lock_unlock(lock: RtMutex<()>) drop(lock.lock());
    cost_spin_lock_unlock(lock: SpinLock<()>) drop(lock.lock());
    cost_rwsem_read(lock: RwSem<()>) drop(lock.read());
    cost_rwsem_write(lock: RwSem<()>) drop(lock.write());
    cost_qrwlock_read(lock: QRwLock<()>) drop(lock.read());
    cost_qrwlock_write(lock: QRwLock<()>) drop(lock.write());
    cost_semaphore(lock: Semaphore) drop(lock.acquire());
}
