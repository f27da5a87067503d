//! The rwsem's policies that may be under a `pthread_rwlock_t`.

/// The number of the default policy, `today`.
pub(crate) const DEFAULT: u8 = 0;

/// The policies by the number that `config` stores.
macro_rules! policies {
    ($($number:literal $name:literal $policy:ident,)*) => {
        /// What `LOCKYARD_RWLOCK` may be.
        pub(crate) const CHOICES: &str = concat!("rwsem, qrw, glibc", $(", rwsem:", $name),*);

        /// The number of the policy called `name`.
        pub(crate) fn named(name: &[u8]) -> Option<u8> {
            $(if name == $name.as_bytes() { return Some($number); })*
            None
        }

        /// Runs `$body` with `$lock` as the lock under `$object`.
        macro_rules! with_lock {
            ($object:expr, $lock:ident => $body:expr) => {
                match $crate::config::rwlock() {
                    $crate::config::RwlockKind::Glibc => None,
                    $crate::config::RwlockKind::Qrw => {
                        let $lock = $object.under::<lockyard::qrwlock::RawQRwLock<lockyard::platform::linux::Linux>>();
                        Some($body)
                    }
                    $($crate::config::RwlockKind::Rwsem($number) => {
                        let $lock = $object.under::<lockyard::rwsem::RawRwSem<lockyard::platform::linux::Linux, lockyard::rwsem::policy::$policy>>();
                        Some($body)
                    })*
                    $crate::config::RwlockKind::Rwsem(_) => None,
                }
            };
        }
        pub(crate) use with_lock;
    };
}

// Not the biased ones: a release of theirs touches the lock when the next owner may have freed it.
policies! {
    0 "today" Today,
    1 "today-kernel" TodayKernel,
    2 "v5.16" V5_16,
    3 "no-rspin" NoRspin,
    4 "reader-steal" ReaderSteal,
    5 "v5.10" V5_10,
    6 "adaptive-rspin" AdaptiveRspin,
    7 "timed-writer-spin" TimedWriterSpin,
    8 "handoff-4ms" Handoff4ms,
}
