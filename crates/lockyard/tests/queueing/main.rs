//! What the theory pages of queued locks and of their queues promise, step by step and to the nanosecond: who may pass whom, when, and how the word says so.
//!
//! | file | what |
//! |---|---|
//! | `word` | the word of a queued spinlock, and what questions about it answer |
//! | `turns` | when waiters of a queued spinlock sleep, until when, and who wakes them |
//! | `exact` | the same on a machine that says when a CPU is needed |
//! | `lanes` | when a hierarchical spinlock begins to queue by node |
//! | `sleepers` | turns of a sleeping lock's waiters |
//!
//! Schedules are scripts (`lockyard_check::scripted`): the clock stands still until the script turns it.

mod exact;
mod lanes;
mod machine;
mod sleepers;
mod turns;
mod word;

use lockyard_check::scripted::Scripted;
use lockyard_check::stage::Stage;

/// Every script runs under the watchdog, in case the theatre itself hangs.
fn watched(name: &'static str, script: fn()) {
    Scripted::perform(name, script);
}

/// Tests of the functions named.
macro_rules! scripts {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        $($(#[$attribute])*
        #[test]
        fn $name() {
            fn script() $body
            $crate::watched(concat!(module_path!(), "::", stringify!($name)), script);
        })*
    };
}
pub(crate) use scripts;
