//! One lock operation per function: `cargo xtask cost counts` reads the machine code of their fast
//! paths.

use std::hint::black_box;

use lockyard::{
    Mutex, MutexGuard, RtMutex, RtMutexGuard, RwSem, RwSemReadGuard, RwSemWriteGuard, Semaphore, SemaphorePermit,
    SpinLock, SpinLockGuard,
};

/// Runs every probe once, so that the linker keeps them.
pub(crate) fn run_all() {
    let (mutex, rt_mutex, spin) = (Mutex::new(()), RtMutex::new(()), SpinLock::new(()));
    let (rwsem, semaphore) = (RwSem::new(()), Semaphore::new(1));
    probe_mutex_unlock(probe_mutex_lock(black_box(&mutex)));
    probe_rt_mutex_unlock(probe_rt_mutex_lock(black_box(&rt_mutex)));
    probe_spin_unlock(probe_spin_lock(black_box(&spin)));
    probe_rwsem_read_unlock(probe_rwsem_read(black_box(&rwsem)));
    probe_rwsem_write_unlock(probe_rwsem_write(black_box(&rwsem)));
    probe_semaphore_release(probe_semaphore_acquire(black_box(&semaphore)));
}

macro_rules! probes {
    ($($name:ident, $un_name:ident: $lock:ty, $take:ident, $guard:ty;)*) => {$(
        // SAFETY: no other symbol of this program or of the C library has this name.
        #[unsafe(no_mangle)]
        #[inline(never)]
        fn $name(lock: &$lock) -> $guard {
            lock.$take()
        }

        // SAFETY: as above.
        #[unsafe(no_mangle)]
        #[inline(never)]
        fn $un_name(guard: $guard) {
            drop(guard);
        }
    )*};
}

probes! {
    probe_mutex_lock, probe_mutex_unlock: Mutex<()>, lock, MutexGuard<'_, ()>;
    probe_rt_mutex_lock, probe_rt_mutex_unlock: RtMutex<()>, lock, RtMutexGuard<'_, ()>;
    probe_spin_lock, probe_spin_unlock: SpinLock<()>, lock, SpinLockGuard<'_, ()>;
    probe_rwsem_read, probe_rwsem_read_unlock: RwSem<()>, read, RwSemReadGuard<'_, ()>;
    probe_rwsem_write, probe_rwsem_write_unlock: RwSem<()>, write, RwSemWriteGuard<'_, ()>;
    probe_semaphore_acquire, probe_semaphore_release: Semaphore, acquire, SemaphorePermit<'_>;
}
