//! What locks promise whose waiters sleep, beside exclusion: whom a release wakes and whom not, who
//! is kept waiting, what is left behind. Played step by step.
//!
//! | file | what |
//! |---|---|
//! | `condvar` | signals that move sleepers; waiting for those who give up before the memory goes |
//! | `futex_hash` | how many are woken; tables that grow under a wait at each of its steps; waits of signal handlers |
//! | `guards` | signalled threads beside stopped ones; a waiter behind a stopped one |
//! | `mutex` | one wake-up per request; a mutex that is kept |
//! | `qrwlock` | the same for readers and writers; a lock that is not kept for a stopped waiter |
//! | `semaphore` | the same for units |
//!
//! Schedules are scripts (`lockyard_check::scripted`): nothing depends on time or luck.

mod condvar;
mod futex_hash;
mod guards;
mod mutex;
mod osq;
mod qrwlock;
mod rwsem;
mod semaphore;

use lockyard::cancel::Until;
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore};
use lockyard_check::scripted::{Actor, Scene, Scripted};
pub(crate) use lockyard_check::scripts;

/// Spends a wake-up that has come to the actor's thread too late, in an earlier scene: this scene's
/// first sleep would end at once.
fn rests(scene: &Scene, actor: &Actor<'_>) {
    let deadline = scene.now() + 1;
    let rested = actor.starts(move || {
        KernelSemaphore::<Scripted, DirectHandoff>::with_units(0).down_until(Until::deadline(deadline))
    });
    scene.advance(1);
    rested.expect("its deadline has come").expect_err("there are no units");
}
