//! What may be under a `pthread_rwlock_t`: the rwsem with one of its policies, or another lock.

use lockyard::history::rwsem::KernelRwSem;
pub(crate) use lockyard::history::rwsem::policy;
use lockyard::platform::linux::Linux;
use lockyard::rwsem::RawRwSem;

pub(crate) type Today = RawRwSem<Linux>;
pub(crate) type Kernel<Y> = KernelRwSem<Linux, Y>;

/// What `pthread_rwlock_t` is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum RwlockKind {
    Glibc,
    Qrw,
    /// The rwsem that moves: see `rwlock::moving`.
    ReadMostly,
    /// The one that has moved.
    PerCpu,
    /// The rwsem with the policy of this number, see `policies!`.
    Rwsem(u8),
}

/// The number of the default policy, `today`.
pub(crate) const DEFAULT: u8 = 0;

/// Whether `value` is `name`, in capitals or not, with `_` for `-` or not.
pub(crate) fn is_name(name: &str, value: &[u8]) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == value.len() && name.bytes().zip(value).all(|(a, b)| plain(a) == plain(*b))
}

/// The policies by the number that `config` stores.
macro_rules! policies {
    ($($number:literal $name:literal $under:ty,)*) => {
        /// What `LOCKYARD_RWLOCK` may be.
        pub(crate) const CHOICES: &str = concat!("rwsem, read-mostly, percpu-rwsem, qrw, glibc", $(", rwsem:", $name),*);

        /// The number of the policy called `name`.
        pub(crate) fn named(name: &[u8]) -> Option<u8> {
            $(if is_name($name, name) { return Some($number); })*
            None
        }

        /// Runs `$body` with `$lock` as the lock of `$kind` under `$object`, where `ReadMostly` and
        /// `PerCpu` are locks that move.
        macro_rules! with_lock {
            ($kind:expr, $object:expr, $lock:ident => $body:expr) => {
                match $kind {
                    $crate::policies::RwlockKind::Glibc => None,
                    $crate::policies::RwlockKind::Qrw => {
                        let $lock = $object.under::<lockyard::qrwlock::RawQRwLock<lockyard::platform::linux::Linux>>();
                        Some($body)
                    }
                    $crate::policies::RwlockKind::ReadMostly => {
                        let $lock = $object.under::<ReadMostly>();
                        Some($body)
                    }
                    $crate::policies::RwlockKind::PerCpu => {
                        let $lock = $object.under::<PerCpu>();
                        Some($body)
                    }
                    $($crate::policies::RwlockKind::Rwsem($number) => {
                        let $lock = $object.under::<$under>();
                        Some($body)
                    })*
                    $crate::policies::RwlockKind::Rwsem(_) => None,
                }
            };
        }
        pub(crate) use with_lock;
    };
}

// Expanded elsewhere, hence whole paths. Not the biased ones: a release of theirs touches the lock
// when the next owner may have freed it.
policies! {
    0 "today" crate::policies::Today,
    1 "today-kernel" crate::policies::Kernel<crate::policies::policy::TodayKernel>,
    2 "v5.16" crate::policies::Kernel<crate::policies::policy::V5_16>,
    3 "no-rspin" crate::policies::Kernel<crate::policies::policy::NoRspin>,
    4 "reader-steal" crate::policies::Kernel<crate::policies::policy::ReaderSteal>,
    5 "v5.10" crate::policies::Kernel<crate::policies::policy::V5_10>,
    6 "adaptive-rspin" crate::policies::Kernel<crate::policies::policy::AdaptiveRspin>,
    7 "timed-writer-spin" crate::policies::Kernel<crate::policies::policy::TimedWriterSpin>,
    8 "handoff-4ms" crate::policies::Kernel<crate::policies::policy::Handoff4ms>,
}
