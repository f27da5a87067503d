//! The preload library and programs of C, built here with the machine's C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Where cargo builds: this test lies in `debug/deps` or the like inside it.
fn target() -> PathBuf {
    std::env::current_exe().expect("a path").ancestors().nth(3).expect("a target directory").to_owned()
}

/// The library as users get it, built when it is not up to date.
pub(crate) fn library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--release", "-p", "lockyard-preload", "--target-dir"]).arg(target());
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("cargo").success(), "{build:?}");
        target().join("release/liblockyard_preload.so")
    })
}

/// The source of the program `name`.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c")
}

/// The program `name`, linked in the usual way or with `flag`.
pub(crate) fn program(name: &str, flag: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{flag}-{}", std::process::id()));
    static LOCK: Mutex<()> = Mutex::new(());
    let _one_at_a_time = LOCK.lock();
    if !path.exists() {
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        compiler.args(Some(flag).filter(|flag| !flag.is_empty())).arg("-o").arg(&path).arg(source(name));
        assert!(compiler.status().expect("a C compiler").success(), "{compiler:?}");
    }
    path
}
