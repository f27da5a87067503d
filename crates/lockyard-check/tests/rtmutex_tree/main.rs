//! The own-tree rt-mutex on simulated machines.
//!
//! | file | what |
//! |---|---|
//! | `property` | every invariant before every step, on random cases; `cargo xtask explore priorities` runs a hundred thousand |
//! | `inversion` | how long the high wait, with threads of middle priority that never stop |
//! | `spinning` | the first waiter's spin pays, stops when it should, and is the only one |
//!
//! That these checks notice the bugs of history: `cargo xtask models planted`.

mod inversion;
mod property;
mod spinning;
