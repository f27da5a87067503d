//! What locks share when they wait: the FIFO of sleeping waiters, the queue of spinners, and the
//! table of sleeping heads.

pub mod heads;
pub mod osq;
pub mod queue;
pub(crate) mod section;
pub mod turn;

#[cfg(all(test, feature = "std", target_os = "linux"))]
pub(crate) mod tests;
