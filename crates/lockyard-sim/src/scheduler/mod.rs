//! The scheduler: who runs where, and what it costs to sleep and to wake (`spec/simulation.md`
//! section 5).
//!
//! | file | what |
//! |---|---|
//! | `class` | scheduling classes and the parameters of the fair one |
//! | `cpu` | a CPU: its task, its queue, its idle states, its store buffer |
//! | `queue` | run queues: fair by virtual time, real-time by priority |
//! | `idle` | idle states and the governor that chooses among them |
//! | `priority` | changing the class of a task that may be anywhere |
//! | `realtime`, `shared` | what real-time tasks cost all CPUs |
//! | `interrupt` | the timer's interrupt |
//! | `switch` | leaving and taking a CPU: blocking, preemption, ticks, slices, pulling |
//! | `wake` | where a woken task goes, and when it arrives there; timers |
//! | `notify` | what a kernel touches of a thread that it looks at or wakes |
//! | `lock`, `locking` | the queued spinlock of the simulated kernel |
//! | `futex`, `buckets` | sleeping on a word: hash buckets with a lock that is itself simulated |

pub(crate) mod buckets;
pub mod class;
pub(crate) mod cpu;
mod futex;
pub(crate) mod idle;
mod interrupt;
mod lock;
mod locking;
mod notify;
mod priority;
pub(crate) mod queue;
mod realtime;
pub(crate) mod shared;
mod switch;
mod wake;
