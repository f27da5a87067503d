//! The preload library, liblockyard, and programs of C, built here with the machine's C compiler.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Where cargo builds: this test lies in `debug/deps` or the like inside it.
fn target() -> PathBuf {
    std::env::current_exe().expect("a path").ancestors().nth(3).expect("a target directory").to_owned()
}

/// A library as users get it, built when it is not up to date.
fn built(package: &str) -> PathBuf {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--release", "-p", package, "--target-dir"]).arg(target());
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(build.status().expect("cargo").success(), "{build:?}");
    target().join(format!("release/lib{}.so", package.replace('-', "_")))
}

/// The preload library.
pub(crate) fn library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("lockyard-preload"))
}

/// The source of the program `name`.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c")
}

/// The program `name`, linked in the usual way or with `flag`.
pub(crate) fn program(name: &str, flag: &str) -> PathBuf {
    let path = folder().join(format!("{name}{flag}"));
    let flags: Vec<_> = Some(flag).filter(|flag| !flag.is_empty()).into_iter().map(OsString::from).collect();
    compile(name, &path, &flags);
    path
}

/// The program `name`, on liblockyard's locks.
#[allow(dead_code, reason = "not every test has such programs")]
pub(crate) fn linked(name: &str) -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let path = folder().join(format!("{name}-linked"));
    let library = LIBRARY.get_or_init(|| built("lockyard-capi"));
    for link in ["liblockyard.so", "liblockyard.so.0"] {
        let made = symlink(library, folder().join(link));
        assert!(made.is_ok() || folder().join(link).exists(), "{made:?}");
    }
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lockyard-capi/include");
    let mut flags: Vec<OsString> = ["-DLINKED", "-I"].map(OsString::from).to_vec();
    flags.extend([include.into(), "-L".into(), folder().into(), "-Xlinker".into(), "-rpath".into()]);
    flags.extend(["-Xlinker".into(), folder().into(), "-llockyard".into()]);
    compile(name, &path, &flags);
    path
}

/// Where this test's programs are.
fn folder() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        path
    })
}

fn compile(name: &str, path: &Path, flags: &[OsString]) {
    static LOCK: Mutex<()> = Mutex::new(());
    let _one_at_a_time = LOCK.lock();
    if !path.exists() {
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(path);
        // Libraries follow what needs them.
        compiler.arg(source(name)).args(flags);
        assert!(compiler.status().expect("a C compiler").success(), "{compiler:?}");
    }
}
