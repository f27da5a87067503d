//! std's own tests of its mutexes, reader-writer locks and condition variables, on Lockyard.
//!
//! They are taken from the component `rust-src` of the toolchain; nothing of them is in the
//! repository. Most exist twice, for locks with and without poisoning: the latter run here, with
//! Lockyard behind the names and results of `std::sync::nonpoison`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{self, Outcome};

/// The files.
const FILES: [&str; 3] = ["mutex", "condvar", "rwlock"];

/// A test that lock_api's guards do not compile: they are invariant in what they guard.
const LEFT_OUT: &str = "name: test_read_guard_covariance,";

/// Their macro for two tests at a time, which makes one here, and what they need of the crate root.
const ROOT: &str = r#"
#![feature(macro_metavar_expr_concat, mapped_lock_guards, lock_value_accessors, sync_nonpoison)]
#![feature(nonpoison_condvar, nonpoison_mutex, nonpoison_rwlock)]
#![allow(unused)]
mod common;
mod locks;

#[track_caller]
fn result_unwrap<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    result.unwrap()
}

macro_rules! nonpoison_and_poison_unwrap_test {
    (name: $name:ident, test_body: {$($body:tt)*}) => {
        #[test]
        fn ${concat(nonpoison_, $name)}() {
            use crate::locks;
            use std::convert::identity as maybe_unwrap;
            $($body)*
        }
    };
}
use nonpoison_and_poison_unwrap_test;
"#;

/// Lockyard, as `std::sync::nonpoison` has it.
const LOCKS: &str = r#"
use std::time::Duration;

pub use lockyard::{MappedMutexGuard, MappedRwLockReadGuard, MappedRwLockWriteGuard};
pub use lockyard::{MutexGuard, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};

#[derive(Debug)]
pub struct WouldBlock;

macro_rules! lock {
    ($lock:ident, $write:ident) => {
        #[derive(Debug, Default)]
        pub struct $lock<T: ?Sized>(lockyard::$lock<T>);

        impl<T> $lock<T> {
            pub const fn new(value: T) -> Self {
                Self(lockyard::$lock::new(value))
            }
            pub fn into_inner(self) -> T {
                self.0.into_inner()
            }
            pub fn set(&self, value: T) {
                *self.0.$write() = value;
            }
            pub fn replace(&self, value: T) -> T {
                std::mem::replace(&mut self.0.$write(), value)
            }
            pub fn get_cloned(&self) -> T where T: Clone {
                self.0.$write().clone()
            }
        }

        impl<T: ?Sized> $lock<T> {
            pub fn get_mut(&mut self) -> &mut T {
                self.0.get_mut()
            }
            pub fn with_mut<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
                act(&mut self.0.$write())
            }
        }
    };
}
lock!(Mutex, lock);
lock!(RwLock, write);

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, WouldBlock> {
        self.0.try_lock().ok_or(WouldBlock)
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read()
    }
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write()
    }
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, WouldBlock> {
        self.0.try_read().ok_or(WouldBlock)
    }
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, WouldBlock> {
        self.0.try_write().ok_or(WouldBlock)
    }
    pub fn with<R>(&self, act: impl FnOnce(&T) -> R) -> R {
        act(&self.0.read())
    }
}

#[derive(Default)]
pub struct Condvar(lockyard::Condvar);

impl Condvar {
    pub const fn new() -> Self {
        Self(lockyard::Condvar::new())
    }
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(guard);
    }
    pub fn wait_while<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, until: impl FnMut(&mut T) -> bool) {
        self.0.wait_while(guard, until);
    }
    pub fn wait_timeout<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        self.0.wait_for(guard, time)
    }
    pub fn wait_timeout_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
        until: impl FnMut(&mut T) -> bool,
    ) -> WaitTimeoutResult {
        self.0.wait_while_for(guard, until, time)
    }
}
"#;

/// Makes the package in `folder`: what `cargo test` runs there.
pub(super) fn package(folder: &Path) -> Outcome<&'static str> {
    let sources = sources()?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(folder.join("src")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let lockyard = tools::root().join("crates/lockyard");
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"of-std\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
             lockyard = {{ path = {lockyard:?} }}\n[dev-dependencies]\nrand = \"0.9\"\nrand_xorshift = \"0.4\"\n[workspace]\n"
        ),
    )?;
    let read = |path: PathBuf| fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    let modules: String = FILES.iter().map(|file| format!("mod {file};\n")).collect();
    write("src/lib.rs", &format!("#![cfg(test)]\n{ROOT}{modules}"))?;
    write("src/locks.rs", LOCKS)?;
    write("src/common.rs", &read(sources.join("common/mod.rs"))?)?;
    for file in FILES {
        let text = without(&read(sources.join(format!("sync/{file}.rs")))?, LEFT_OUT);
        let text = text.replace("std::sync::nonpoison", "crate::locks").replace("std::sync::poison::", "std::sync::");
        write(&format!("src/{file}.rs"), &text)?;
    }
    Ok("--lib -- nonpoison")
}

/// Where the toolchain has std's tests.
fn sources() -> Outcome<PathBuf> {
    let root = tools::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let sources = Path::new(root.trim()).join("lib/rustlib/src/rust/library/std/tests");
    if !sources.exists() {
        tools::capture(Command::new("rustup").args(["component", "add", "rust-src"]))?;
    }
    Ok(sources)
}

/// `text` without the test that has `mark` in it.
fn without(text: &str, mark: &str) -> String {
    const BEGIN: &str = "nonpoison_and_poison_unwrap_test!(";
    const END: &str = "\n);\n";
    let mut parts = text.split(BEGIN);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(END) {
            Some((test, rest)) if test.contains(mark) => kept += rest,
            _ => kept = kept + BEGIN + part,
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_test_is_left_out() {
        let test = |name| format!("nonpoison_and_poison_unwrap_test!(\n    name: {name},\n    test_body: {{}}\n);\n");
        let text = format!("use x;\n{}{}fn y() {{}}\n", test("a"), test("b"));
        assert_eq!(super::without(&text, "name: a,"), format!("use x;\n{}fn y() {{}}\n", test("b")));
        assert_eq!(super::without(&text, "name: c,"), text);
    }
}
