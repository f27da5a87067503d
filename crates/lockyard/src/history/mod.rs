//! The museum: the kernel's locks of other years, complete, for measurements and fault injection.
//!
//! A lock here is not the one to use: each was replaced for a reason, and some are known to hang or
//! to lose wake-ups. They pass the same conformance suite as the others, as far as they can, and
//! the `lockyard` command knows each by its policy's name. Feature `history`; nothing outside of
//! this module needs it.

pub mod qrwlock;
pub mod rwsem;
pub mod semaphore;

pub use qrwlock::KernelQRwLock;
pub use rwsem::KernelRwSem;
pub use semaphore::KernelSemaphore;

/// A [`KernelQRwLock`] behind `lock_api`'s guards, on the real machine.
#[cfg(feature = "std")]
pub type QRwLockWith<Y, T> = lock_api::RwLock<KernelQRwLock<crate::platform::Native, Y>, T>;

/// A [`KernelRwSem`] behind `lock_api`'s guards, on the real machine.
#[cfg(feature = "std")]
pub type RwSemWith<Y, T> = lock_api::RwLock<KernelRwSem<crate::platform::Native, Y>, T>;
