//! The notes of read holds, whose tests stand beside them: the library itself cannot be linked into
//! a test, since what it exports is the C library's.

#[path = "../src/holds.rs"]
mod holds;
