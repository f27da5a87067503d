//! When the readers of a lock go apart, and when they come together again.
//!
//! Numbers of reads, not times: nobody reads a clock. A closing costs the writer a read of each
//! counter; a read in `sem` costs two transfers of its line. So a closing pays if there is about a
//! read for each counter between two of them.

use core::fmt::Debug;
use core::marker::PhantomData;

/// When the readers of a lock go apart, and when they come together again.
pub trait Policy: Copy + Debug + Default + Send + Sync + 'static {
    /// Reads beside other reads, without a write, after which readers go apart. It doubles when
    /// they have come together because of writers.
    const ENOUGH: u32;
    /// With the first read.
    const AT_ONCE: bool = false;
    /// Fewer reads than this between two closings are too few; and fewer than half the counters.
    const FEW: u32;
    /// Too few so often more than enough: readers come together again.
    const POOR: u32;
    /// Readers may enter past a closed gate: see `embed`.
    const PAST: bool = false;
}

/// As the reads and writes come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Learned;

impl Policy for Learned {
    const ENOUGH: u32 = 64;
    const FEW: u32 = 32;
    const POOR: u32 = 8;
}

/// From the first read, and for ever: the kernel's percpu-rwsem.
#[derive(Debug, Clone, Copy, Default)]
pub struct Always;

impl Policy for Always {
    const ENOUGH: u32 = 1;
    const AT_ONCE: bool = true;
    const FEW: u32 = 0;
    const POOR: u32 = u32::MAX;
}

/// As `Y`, where readers recur.
#[derive(Debug, Clone, Copy, Default)]
pub struct Embedded<Y>(PhantomData<Y>);

impl<Y: Policy> Policy for Embedded<Y> {
    const ENOUGH: u32 = Y::ENOUGH;
    const AT_ONCE: bool = Y::AT_ONCE;
    const FEW: u32 = Y::FEW;
    const POOR: u32 = Y::POOR;
    const PAST: bool = true;
}

/// If no writer comes: after so many times as many reads a reader changes the place itself.
pub(super) const WITHOUT_A_WRITER: u32 = 4;
/// How often that doubles, once for each reader that could not.
pub(super) const FAILED_MOST: u32 = 6;
/// So many times as many reads as CPUs between two closings: a counter for each CPU pays.
pub(super) const MANY_FOR_EACH_CPU: u32 = 32;
/// With fewer last-level caches than this there is always a counter for each CPU.
pub(super) const FEW_CACHES: u32 = 4;
/// So many readers that come by one counter, and one of them looks how many are inside.
pub(super) const LOOK_EVERY: u32 = 1 << 12;
/// So many readers inside, and no writer enters any more.
pub(super) const FULL: i32 = 1 << 30;
/// The most that [`Policy::ENOUGH`] doubles to.
pub(super) const ENOUGH_MOST: u32 = 1 << 20;
/// After so many times [`Policy::FEW`] reads between two closings, [`Policy::ENOUGH`] is what it
/// was.
pub(super) const ENOUGH_AGAIN: u32 = 8;
/// A reader that would have a counter for each CPU waits so long for those inside, in nanoseconds.
pub(super) const SHIFT_NS: u64 = 20_000;
/// So often a lock that is destroyed looks whether a writer has ended its release.
pub(super) const RETIRE_LOOKS: u32 = 100;
/// Between two looks, in nanoseconds.
pub(super) const RETIRE_NS: u64 = 100_000;
