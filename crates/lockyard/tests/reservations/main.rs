//! No reservation without an end: a spinlock that is free is kept for a waiter only as long as that
//! one can be expected to come.
//!
//! | file | what |
//! |---|---|
//! | `scripted` | a waiter that is stopped for ever, before each of its steps in turn |
//! | `native` | waiters that a signal handler keeps, on the real machine |

mod native;
mod scripted;
