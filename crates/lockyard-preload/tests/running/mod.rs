//! Compiling test programs and running them, with a limit on their time.
//!
//! With `LOCKYARD_EMULATE=aarch64` library and programs are that processor's, cross-compiled, and
//! QEMU's emulation of a user's program runs them. (`cargo xtask explore emulated` does so.)

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a program left behind.
pub(crate) struct Run {
    /// It ended by itself, with code 0.
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Where cargo builds: this test lies in `debug/deps` or the like inside it.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// The processor that is emulated, if one is.
fn emulated() -> Option<String> {
    std::env::var("LOCKYARD_EMULATE").ok()
}

/// The folder of the programs.
fn programs() -> PathBuf {
    target().join(emulated().map_or("preload-programs".to_owned(), |arch| format!("preload-programs-{arch}")))
}

/// The machine's C or C++ compiler, or the one that compiles for the emulated processor.
pub(crate) fn compiler(cpp: bool) -> Command {
    Command::new(match emulated() {
        None => if cpp { "c++" } else { "cc" }.to_owned(),
        Some(arch) => format!("{arch}-linux-gnu-{}", if cpp { "g++" } else { "gcc" }),
    })
}

/// `command`, by the emulator if there is one: what it sets is set in the program alone.
fn emulate(command: &mut Command) {
    let Some(arch) = emulated() else { return };
    let mut by = Command::new(format!("qemu-{arch}"));
    by.arg("-L").arg(format!("/usr/{arch}-linux-gnu"));
    for (name, value) in command.get_envs() {
        let value = value.expect("a test sets variables");
        let mut set = name.to_owned();
        set.push("=");
        set.push(value);
        by.arg("-E").arg(set);
    }
    by.arg(command.get_program()).args(command.get_args());
    *command = by;
}

/// The library as users get it, built when it is not up to date.
pub(crate) fn library() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "-p", "lockyard-preload", "--target-dir"]).arg(target());
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        let triple = emulated().map(|arch| format!("{arch}-unknown-linux-gnu"));
        build.args(triple.iter().flat_map(|triple| ["--target", triple]));
        assert!(build.status().unwrap().success(), "{build:?}");
        target().join(triple.unwrap_or_default()).join("release/liblockyard_preload.so")
    })
}

/// Compiles a C or C++ program (`plugin.c`: a library) and returns where it is.
pub(crate) fn compile(source: &Path) -> PathBuf {
    compile_with(source, "-O1")
}

/// The same, optimised so far.
pub(crate) fn compile_with(source: &Path, optimised: &str) -> PathBuf {
    let folder = programs();
    std::fs::create_dir_all(&folder).unwrap();
    let stem = source.file_stem().unwrap().to_str().unwrap();
    // Tests run at the same time, and in several processes: each compiles its own, and moves it
    // into place.
    let made = folder.join(format!("{stem}-{}-{:?}", std::process::id(), std::thread::current().id()));
    let path = folder.join(stem);
    let cpp = source.extension().is_some_and(|extension| extension == "cc");
    let mut compiler = compiler(cpp);
    compiler
        .args([optimised, "-g0", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&made)
        .arg(source)
        .arg("-ldl");
    if stem == "plugin" {
        compiler.args(["-shared", "-fPIC"]);
    }
    assert!(compiler.status().expect("a C compiler").success(), "{compiler:?}");
    std::fs::rename(&made, &path).unwrap();
    path
}

/// Runs `command`; kills it after `limit`.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Run {
    run_with(command, Stdio::null(), limit)
}

/// The same with something to read.
pub(crate) fn run_with(command: &mut Command, input: impl Into<Stdio>, limit: Duration) -> Run {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let place = |what: &str| programs().join(format!("{}-{number}.{what}", std::process::id()));
    let (out, err) = (place("out"), place("err"));
    emulate(command);
    command.stdin(input).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if start.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let read = |path: &Path| {
        let mut text = String::new();
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
        std::fs::remove_file(path).unwrap();
        text
    };
    let mut run = Run { ok: status.is_some_and(|status| status.success()), out: read(&out), err: read(&err) };
    match status {
        None => run.err += &format!("stopped after {} s\n", limit.as_secs()),
        Some(status) if !status.success() => run.err += &format!("{status}\n"),
        Some(_) => {}
    }
    run
}
