//! The museum: the kernel's locks of other years, complete, for measurements and fault injection.
//!
//! A lock here is not the one to use: each was replaced for a reason, and some are known to hang or
//! to lose wake-ups. They pass the same conformance suite as the others, as far as they can, and
//! the `lockyard` command knows each by its policy's name. Feature `history`; nothing outside of
//! this module needs it.

pub mod semaphore;

pub use semaphore::KernelSemaphore;
