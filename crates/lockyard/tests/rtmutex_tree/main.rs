//! The own-tree rt-mutex, played step by step.
//!
//! | file | what |
//! |---|---|
//! | `order` | who gets it: priority, then arrival; stealing; timeouts and last tries |
//! | `lending` | boosting and giving back, through chains, on every way of waiting and leaving |
//! | `deadlock` | cycles are named, and nothing else is called one |
//! | `condvar` | proxy locking: signals that move sleepers |
//! | `history` | the bugs that the kernel had, by their numbers in `spec/rtmutex.md` section 14 |
//! | `stopped` | a waiter that never runs again keeps a free mutex from nobody |
//! | `native` | the real machine: panics of the guarded form, real priorities where the test may set them |
//!
//! Schedules are scripts (`lockyard_check::scripted`): nothing depends on time or luck.

mod condvar;
mod deadlock;
mod history;
mod lending;
mod native;
mod order;
mod stopped;

use lockyard::cancel::Until;
use lockyard::platform::thread::ThreadId;
use lockyard::rtmutex_tree::RawTreeRtMutex;
use lockyard::rtmutex_tree::policy::{Policy, Today};
use lockyard::rtmutex_tree::{self, Refused};
use lockyard_check::scripted::{Actor, Scripted};
pub(crate) use lockyard_check::scripts;

type Mutex<Y = Today> = RawTreeRtMutex<Scripted, Y>;

/// Releases what the calling actor holds.
fn release<Y: Policy>(mutex: &Mutex<Y>) {
    // SAFETY: each script releases what its actor has taken; a mistake is an error here.
    unsafe { mutex.release() }.expect("the actor owns it");
}

fn acquire<Y: Policy>(mutex: &Mutex<Y>) {
    mutex.acquire().unwrap_or_else(|cycle| panic!("{cycle}"));
}

fn acquire_until<Y: Policy>(mutex: &Mutex<Y>, deadline: u64) -> Result<(), Refused> {
    mutex.acquire_until(Until::deadline(deadline))
}

/// As a program changes the priority of one of its threads.
fn set_priority(thread: ThreadId, priority: u32) {
    assert!(rtmutex_tree::set_priority::<Scripted>(thread, priority));
}

fn have_priorities(actors: &[&Actor<'_>], priorities: &[u32]) {
    actors.iter().zip(priorities).for_each(|(actor, &priority)| actor.has_priority(priority));
}

fn priorities<const N: usize>(actors: [&Actor<'_>; N]) -> [u32; N] {
    actors.map(Actor::priority)
}

/// Nobody holds it, nobody waits, nothing is left.
fn at_rest<Y: Policy>(mutex: &Mutex<Y>) -> bool {
    format!("{mutex:?}") == format!("{:?}", Mutex::<Y>::default())
}
