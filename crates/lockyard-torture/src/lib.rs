//! Torture: random operations on a lock, faults at every step, detectors that notice, and a replay
//! of whatever they find.
//!
//! | file | what |
//! |---|---|
//! | [`catalog`] | the locks: Lockyard's, and some that are broken on purpose |
//! | [`subject`] | a lock as torture sees it, whatever it can do |
//! | [`ground`] | what torture needs of a machine beyond the seam |
//! | [`operation`] | what threads do next, from a seed |
//! | [`world`] | the locks and the threads |
//! | `life` | a thread's life among them |
//! | `places` | locks with what they protect, the threads' seats, what a child inherits |
//! | `inherit` | the child of a fork, and locks that are kept for threads that do not come |
//! | [`ring`] | the last events of each thread |
//! | [`schedule`] | everything that a seed decides about one simulated run |
//! | [`simulated`] | thousands of simulated runs; a failure is made smaller and told step by step |
//! | [`history`] | the bugs of others, as models that must be found wanting |
//! | [`native`] | the real machine, with more threads than CPUs, under a watchdog |
//! | `failure` | a failure, with everything that is known about it |
//! | [`report`] | verdicts as text |
//!
//! # What is noticed
//!
//! | detector | how | simulated | native |
//! |---|---|---|---|
//! | mutual exclusion, readers beside writers | [`Data`](lockyard_check::data::Data): owner, two-word invariant, torn patterns, hash chain, activity | yes | yes |
//! | missing orderings | vector clocks over the orderings asked for: two threads at protected data that nothing orders | yes | no |
//! | lost wake-up | every thread waits and nothing is due; natively a watchdog | yes | yes |
//! | starvation | a blocking wait outlasts the bound while others got the lock many times | yes | yes |
//! | a free lock kept for a waiter that does not come | one is stopped for long: when it goes on, no lock has been free for seconds beside a thread that waits for it | yes | yes |
//! | a child of a fork that cannot use what it holds | the forking thread and new ones release, take and try it; the waiters of the parent are ghosts | yes | yes |
//! | early or unfounded end of a wait | deadline not reached, token not cancelled | yes | yes |
//! | something left behind | the lock at rest when everybody has gone, every write section counted | yes | yes |
//! | use after free | a freed lock's words are watched | yes | no |
//! | use of a frame that has returned | words of other threads' stacks are watched | yes | no |
//! | spinning for a thread that does not run | a holder sleeps: what CPU time do its waiters use? | yes | no |

pub mod catalog;
pub mod ground;
pub mod history;
pub mod native;
pub mod operation;
pub mod report;
pub mod ring;
pub mod schedule;
pub mod simulated;
pub mod subject;
pub mod world;

mod child;
mod failure;
mod handler;
mod inherit;
mod life;
mod places;
mod quiet;
