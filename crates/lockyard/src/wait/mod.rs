//! What locks share when they wait: the thread record and its parking token, the FIFO of sleeping
//! waiters, the queue of spinners, and the table of sleeping spinlock heads.

pub mod heads;
pub mod osq;
pub mod queue;
pub(crate) mod section;
pub mod thread;
pub mod turn;

#[cfg(all(test, feature = "std", target_os = "linux"))]
pub(crate) mod tests;
