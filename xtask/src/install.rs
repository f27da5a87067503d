//! `cargo xtask install`: what a C or C++ program, or a person, needs of Lockyard, under one
//! prefix.
//!
//! | place | what |
//! |---|---|
//! | `bin/lockyard` | the command |
//! | `include/lockyard.h`, `lockyard.hpp` | the headers |
//! | `lib/liblockyard.so.VERSION` | the shared library, with the two customary links: for the loader and for the linker |
//! | `lib/liblockyard.a` | the static library |
//! | `lib/liblockyard_preload.so` | for programs that are not recompiled: `lockyard run` |
//! | `lib/pkgconfig/lockyard.pc` | how to compile and link |
//!
//! The libraries are what cargo builds, under the names of the platform: cargo knows no SONAME.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{self, Outcome, cargo};

const CAPI: &str = "crates/lockyard-capi";

/// Carries out `cargo xtask install` with `options`.
pub(crate) fn run(options: &[&str]) -> Outcome {
    let prefix = match options {
        [] => "/usr/local",
        ["--prefix", prefix] => prefix,
        [option] => option.strip_prefix("--prefix=").ok_or("install: only --prefix DIR is understood")?,
        _ => return Err("install: only --prefix DIR is understood".to_owned()),
    };
    if !Path::new(prefix).is_absolute() {
        return Err(format!("install: --prefix: '{prefix}' is not an absolute path; name one that begins with /"));
    }
    let destination = std::env::var_os("DESTDIR").unwrap_or_default();
    install(Path::new(prefix), Path::new(&destination))
}

/// Installs into a folder of the build's own and uses that as a C programmer would: pkg-config,
/// compile, link, run, both libraries.
pub(crate) fn check() -> Outcome {
    tools::need("pkg-config", "pkg-config")?;
    let destination = tools::target().join("installed");
    // A missing folder is what is wanted.
    let _ = fs::remove_dir_all(&destination);
    install(Path::new("/opt/lockyard"), &destination)?;
    let program = destination.join("results");
    let ask = |what: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(what).arg("lockyard").env("PKG_CONFIG_PATH", destination.join("opt/lockyard/lib/pkgconfig"));
        tools::capture(command.env("PKG_CONFIG_SYSROOT_DIR", &destination))
    };
    for form in [&["--cflags", "--libs"][..], &["--cflags", "--libs", "--static"]] {
        let words = ask(form)?;
        let mut compile = Command::new("gcc");
        compile.arg("-o").arg(&program).arg(format!("{CAPI}/tests/programs/results.c"));
        if form.contains(&"--static") {
            compile.arg("-static-pie");
        }
        tools::capture(compile.args(words.split_whitespace()))?;
        let libraries = destination.join("opt/lockyard/lib");
        println!(
            "{}: {}",
            words.trim(),
            tools::capture(Command::new(&program).env("LD_LIBRARY_PATH", libraries))?.trim()
        );
    }
    let version = tools::capture(Command::new(destination.join("opt/lockyard/bin/lockyard")).arg("--version"))?;
    println!("{}", version.trim());
    Ok(())
}

fn install(prefix: &Path, destination: &Path) -> Outcome {
    cargo("build --release -p lockyard-capi -p lockyard-cli -p lockyard-preload")?;
    let built = tools::target().join("release");
    // DESTDIR goes before the prefix as it stands.
    let root = match prefix.strip_prefix("/") {
        Ok(below) if !destination.as_os_str().is_empty() => destination.join(below),
        _ => prefix.to_owned(),
    };
    let version = version()?;
    let major = version.split('.').next().unwrap_or("0");
    let lib = root.join("lib");
    put(&built.join("lockyard"), root.join("bin/lockyard"), 0o755)?;
    for header in ["lockyard.h", "lockyard.hpp"] {
        put(&Path::new(CAPI).join("include").join(header), root.join("include").join(header), 0o644)?;
    }
    put(&built.join("liblockyard_capi.so"), lib.join(format!("liblockyard.so.{version}")), 0o755)?;
    put(&built.join("liblockyard_preload.so"), lib.join("liblockyard_preload.so"), 0o755)?;
    put(&built.join("liblockyard_capi.a"), lib.join("liblockyard.a"), 0o644)?;
    link(&format!("liblockyard.so.{version}"), lib.join(format!("liblockyard.so.{major}")))?;
    link(&format!("liblockyard.so.{major}"), lib.join("liblockyard.so"))?;
    let template = fs::read_to_string(format!("{CAPI}/lockyard.pc.in")).map_err(|error| error.to_string())?;
    let filled = template.replace("@PREFIX@", &prefix.display().to_string()).replace("@VERSION@", &version);
    write(lib.join("pkgconfig/lockyard.pc"), filled.as_bytes(), 0o644)
}

/// The workspace's version.
fn version() -> Outcome<String> {
    let manifest = fs::read_to_string("Cargo.toml").map_err(|error| format!("Cargo.toml: {error}"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    line.map(|rest| rest.trim_end_matches('"').to_owned()).ok_or_else(|| "Cargo.toml: no version".to_owned())
}

fn put(from: &Path, to: PathBuf, mode: u32) -> Outcome {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    write(to, &bytes, mode)
}

/// Beside it first, then renamed: a program that uses the old file goes on with that.
fn write(to: PathBuf, bytes: &[u8], mode: u32) -> Outcome {
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/"))).map_err(told)?;
    let new = to.with_added_extension("new");
    fs::write(&new, bytes).map_err(told)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(mode)).map_err(told)?;
    fs::rename(&new, &to).map_err(told)?;
    println!("{}", to.display());
    Ok(())
}

fn link(target: &str, place: PathBuf) -> Outcome {
    let told = |error: std::io::Error| format!("{}: {error}", place.display());
    if place.symlink_metadata().is_ok() {
        fs::remove_file(&place).map_err(told)?;
    }
    symlink(target, &place).map_err(told)?;
    println!("{} -> {target}", place.display());
    Ok(())
}
