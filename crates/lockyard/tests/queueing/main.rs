//! What the theory pages of queued locks and of their queues promise, step by step and to the
//! nanosecond: who may pass whom, when, and how the word says so.
//!
//! | file | what |
//! |---|---|
//! | `word` | the word of a queued spinlock, and what questions about it answer |
//! | `turns` | when waiters of a queued spinlock sleep, until when, and who wakes them |
//! | `urgent` | threads of fixed priority, which wait beside the queue |
//! | `exact` | the same on a machine that says when a CPU is needed |
//! | `lanes` | when a hierarchical spinlock begins to queue by node |
//! | `visits` | how a hierarchical spinlock serves its lanes |
//! | `sleepers` | turns of a sleeping lock's waiters |
//!
//! Schedules are scripts (`lockyard_check::scripted`): the clock stands still until the script
//! turns it.

mod exact;
mod lanes;
mod machine;
mod sleepers;
mod turns;
mod urgent;
mod visits;
mod word;

pub(crate) use lockyard_check::scripts;
