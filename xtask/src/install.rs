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
//! | `lib/pkgconfig/lockyard.pc`, `lib/cmake/lockyard` | how to compile and link: for pkg-config, and CMake's `find_package(lockyard)` |
//! | `share` | manual pages; completions for bash, zsh and fish |
//!
//! The libraries are what cargo builds, under the names of the platform: cargo knows no SONAME.
//! What only a debugger reads is left out.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{self, Outcome, cargo};

const CAPI: &str = "crates/lockyard-capi";

/// Carries out `cargo xtask install` with `options`.
pub(crate) fn run(options: &[&str]) -> Outcome {
    const UNDERSTOOD: &str = "install: only --prefix DIR or --deb FILE is understood";
    let prefix = match options {
        [] => "/usr/local",
        ["--prefix", prefix] => prefix,
        ["--deb", file] => return package(Path::new(file)),
        [option] => option.strip_prefix("--prefix=").ok_or(UNDERSTOOD)?,
        _ => return Err(UNDERSTOOD.to_owned()),
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
    check_cmake(&destination.join("opt/lockyard"))?;
    check_package()
}

/// A CMake project made of the guide's lines finds the library below `root`, and its programs run.
fn check_cmake(root: &Path) -> Outcome {
    tools::need("cmake", "cmake")?;
    let project = tools::target().join("cmake-project");
    let _ = fs::remove_dir_all(&project);
    let source = fs::canonicalize(format!("{CAPI}/tests/programs/results.c")).map_err(|error| error.to_string())?;
    let guide = fs::read_to_string("docs/guide/src/c.md").map_err(|error| error.to_string())?;
    let lines = guide.split("\n```cmake\n").nth(1).and_then(|rest| rest.split("```").next());
    let text = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\nadd_executable(app {source})\n{}\
         add_executable(static {source})\ntarget_link_libraries(static lockyard::static)\n",
        lines.ok_or("docs/guide/src/c.md: no block of CMake")?,
        source = source.display(),
    );
    write(project.join("CMakeLists.txt"), text.as_bytes(), 0o644)?;
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(project.join("build"));
    tools::capture(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", root.display())))?;
    tools::capture(Command::new("cmake").arg("--build").arg(project.join("build")))?;
    for program in ["app", "static"] {
        println!("{program}: {}", tools::capture(&mut Command::new(project.join("build").join(program)))?.trim());
    }
    Ok(())
}

/// A Debian package is made, and what is in it runs from a root of its own.
fn check_package() -> Outcome {
    tools::need("dpkg-deb", "dpkg")?;
    let (file, root) = (tools::target().join("lockyard.deb"), tools::target().join("unpacked"));
    package(&file)?;
    let _ = fs::remove_dir_all(&root);
    tools::capture(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root))?;
    let said = tools::capture(Command::new(root.join("usr/bin/lockyard")).arg("--version"))?;
    println!("{}: {}", file.display(), said.trim());
    Ok(())
}

/// A Debian package of everything, at `file`.
fn package(file: &Path) -> Outcome {
    let root = tools::target().join("package");
    let _ = fs::remove_dir_all(&root);
    install(Path::new("/usr"), &root)?;
    let machine = tools::capture(Command::new("dpkg").arg("--print-architecture"))?;
    let control = format!(
        "Package: lockyard\nVersion: {}\nArchitecture: {}\nMaintainer: The Lockyard authors\n\
         Depends: libc6 (>= {}), libgcc-s1\nSection: devel\nPriority: optional\n\
         Description: adaptive locks: library, preload library, measuring tools\n\
         \x20The Linux kernel's adaptive locks, written anew for programs: a C and C++ library,\n\
         \x20a preload library for programs that cannot be recompiled, and the lockyard command.\n",
        version()?,
        machine.trim(),
        needed(&root)?,
    );
    write(root.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    tools::capture(Command::new("dpkg-deb").arg("--root-owner-group").arg("-b").arg(&root).arg(file))?;
    println!("{}", file.display());
    Ok(())
}

/// The newest glibc that the installed programs ask for, as their texts name it: "2.35".
fn needed(root: &Path) -> Outcome<String> {
    let mut newest = (2, 31);
    for file in ["bin/lockyard", "lib/liblockyard.so", "lib/liblockyard_preload.so"] {
        let path = root.join("usr").join(file);
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        newest = versions(&bytes).fold(newest, Ord::max);
    }
    Ok(format!("{}.{}", newest.0, newest.1))
}

/// The versions in the texts `GLIBC_2.35` of a file.
fn versions(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    const NAME: &[u8] = b"GLIBC_";
    bytes.windows(NAME.len()).enumerate().filter(|(_, text)| *text == NAME).filter_map(|(at, _)| {
        let rest = bytes[at + NAME.len()..].split(|byte| !(byte.is_ascii_digit() || *byte == b'.')).next()?;
        let (major, minor) = core::str::from_utf8(rest).ok()?.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    })
}

/// Manual pages and completions, as the command itself prints them.
fn pages(command: &Path, share: &Path) -> Outcome {
    let say = |words: &[&str]| tools::capture(Command::new(command).args(words));
    write(share.join("man/man1/lockyard.1"), say(&["man"])?.as_bytes(), 0o644)?;
    let help = say(&["--help"])?;
    for name in commands(&help) {
        let page = share.join(format!("man/man1/lockyard-{name}.1"));
        write(page, say(&["man", name])?.as_bytes(), 0o644)?;
    }
    let shells = [
        ("bash", "bash-completion/completions/lockyard"),
        ("zsh", "zsh/site-functions/_lockyard"),
        ("fish", "fish/vendor_completions.d/lockyard.fish"),
    ];
    for (shell, place) in shells {
        write(share.join(place), say(&["completions", shell])?.as_bytes(), 0o644)?;
    }
    Ok(())
}

/// The commands of which `help` tells, one a line below "Commands:".
fn commands(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = list.take_while(|line| line.starts_with("  "));
    let named = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    named.filter(|name| *name != "help").collect()
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
    pages(&root.join("bin/lockyard"), &root.join("share"))?;
    link(&format!("liblockyard.so.{version}"), lib.join(format!("liblockyard.so.{major}")))?;
    link(&format!("liblockyard.so.{major}"), lib.join("liblockyard.so"))?;
    let template = fs::read_to_string(format!("{CAPI}/lockyard.pc.in")).map_err(|error| error.to_string())?;
    let filled = template.replace("@PREFIX@", &prefix.display().to_string()).replace("@VERSION@", &version);
    write(lib.join("pkgconfig/lockyard.pc"), filled.as_bytes(), 0o644)?;
    for name in ["lockyardConfig.cmake", "lockyardConfigVersion.cmake"] {
        let template = fs::read_to_string(format!("{CAPI}/{name}.in")).map_err(|error| error.to_string())?;
        write(lib.join("cmake/lockyard").join(name), template.replace("@VERSION@", &version).as_bytes(), 0o644)?;
    }
    Ok(())
}

/// The workspace's version.
fn version() -> Outcome<String> {
    let manifest = fs::read_to_string("Cargo.toml").map_err(|error| format!("Cargo.toml: {error}"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    line.map(|rest| rest.trim_end_matches('"').to_owned()).ok_or_else(|| "Cargo.toml: no version".to_owned())
}

fn put(from: &Path, to: PathBuf, mode: u32) -> Outcome {
    let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let text = to.extension().is_some_and(|end| end == "h" || end == "hpp");
    place(to, &bytes, mode, |new| {
        // Without the tool the file is as useful, and several times as large.
        if !text && let Err(why) = tools::capture(Command::new("strip").arg("--strip-debug").arg(new)) {
            println!("{}: not stripped: {why}", new.display());
        }
    })
}

fn write(to: PathBuf, bytes: &[u8], mode: u32) -> Outcome {
    place(to, bytes, mode, |_| ())
}

/// Beside it first, where it is made `ready`, then renamed: a program that uses the old file goes
/// on with that.
fn place(to: PathBuf, bytes: &[u8], mode: u32, ready: impl FnOnce(&Path)) -> Outcome {
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to.parent().unwrap_or(Path::new("/"))).map_err(told)?;
    let new = to.with_added_extension("new");
    fs::write(&new, bytes).map_err(told)?;
    ready(&new);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_that_help_names() {
        let help = "Usage: x\n\nCommands:\n  run   runs a\n          program\n  help  this\n\nOptions:\n  -h\n";
        assert_eq!(commands(help), ["run"]);
    }

    #[test]
    fn the_newest_library_is_found() {
        let found: Vec<(u32, u32)> = versions(b"\0GLIBC_2.2.5\0GLIBC_2.35\0GLIBC_PRIVATE\0GLIBC_2.").collect();
        assert_eq!(found, [(2, 2), (2, 35)]);
    }
}
