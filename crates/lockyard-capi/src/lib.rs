//! Lockyard's locks for C and C++.
//!
//! | file | what |
//! |---|---|
//! | `layout` | the C types: plain integers, as large and as aligned as the locks they hold |
//! | `watch` | what `lockyard stat` is told |
//! | `site` | from which code it is told |
//! | `deadline` | a `struct timespec` on a clock, as the end of a wait |
//! | `calls` | the bodies of functions that take and release |
//! | `mutex`, `cond`, `rtmutex`, `semaphore`, `spin`, `lockref` | the functions, one file per lock |
//! | `rwsem`, `read_mostly`, `qrwlock` | the same, of reader-writer locks |
//!
//! `include/lockyard.h` is made from these files by `cargo xtask lint --fix` (cbindgen) and checked
//! in; its doc comments are those of the functions here, and its promises to users are in
//! `cbindgen.toml`. `include/lockyard.hpp` is written by hand.
//!
//! # Across the boundary
//!
//! Nothing unwinds: lock paths do not panic, and an `extern "C"` function that did would abort. The
//! shared library exports the functions named `ly_…` and nothing else (a test looks). A symbol once
//! released keeps its meaning for as long as the library's major version, which is in its SONAME.
//!
//! # Adding a lock
//!
//! Its type in `layout`, its functions in a file of its own, its `LY_…_INIT` in `cbindgen.toml`;
//! `cargo xtask lint --fix`; its class in `lockyard.hpp`; a block in `tests/programs/results.c` and
//! one in `tests/programs/contend.c`.

// C spells its types like this, and a C caller cannot be asked for less than valid pointers: the
// header says so once for all.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

pub mod calls;
pub mod cond;
pub mod deadline;
pub mod layout;
pub mod lockref;
pub mod mutex;
pub mod qrwlock;
pub mod read_mostly;
pub mod rtmutex;
pub mod rwsem;
pub mod semaphore;
pub mod site;
pub mod spin;
pub mod watch;

use core::ffi::c_char;

/// Lockyard's version, such as "0.1.0": of the library that runs, which may be newer than the
/// header.
#[unsafe(no_mangle)]
pub extern "C" fn ly_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
