//! `cargo xtask explore emulated`: the tests on processors that the machine is not, by QEMU's
//! emulation of a user's program.
//!
//! AArch64 has lanes, pairs of words, and the preload library, written for it; s390x has the bytes
//! of a word the other way round. What the emulation itself cannot do is left out by name, below.
//! It tells nothing about speed, nor about weak memory: the emulator keeps the host's order.

use crate::tools::{self, Outcome, cargo_with};

/// A processor.
struct Arch {
    name: &'static str,
    compilers: &'static [(&'static str, &'static str)],
    /// Tests of the library that the emulation cannot run.
    left_out: &'static [&'static str],
    /// Whether the preload library is for it.
    preloads: bool,
}

/// Tens of thousands of threads take minutes each.
const THREADS: &str = "many_short_threads";

const ARCHS: [Arch; 2] = [
    Arch {
        name: "aarch64",
        compilers: &[
            ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
            ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
        ],
        // Pages are not wiped for a child that no handler is told of; a moment is not short enough.
        left_out: &[THREADS, "every_child_has_an_epoch_of_its_own", "nobody_takes_a_free_mutex"],
        preloads: true,
    },
    Arch {
        name: "s390x",
        compilers: &[("s390x-linux-gnu-gcc", "gcc-s390x-linux-gnu libc6-dev-s390x-cross")],
        // The host's kernel writes an owner into a futex in its own order of bytes.
        left_out: &[THREADS, "every_child_has_an_epoch_of_its_own", "rtmutex::", "inheriting::"],
        preloads: false,
    },
];

/// Programs of the preload library's tests that fail on the emulated machine's own glibc, or end
/// the emulator: children of a fork that start threads, seccomp, futexes of robust mutexes and of
/// mutexes with priority inheritance, as of others' processes.
const NOT_EMULATED: [&str; 7] = [
    "fork",
    "what_is_held_over_a_fork",
    "in_a_sandbox",
    "priority_inheritance",
    "roots_segment",
    "process_shared_spinlocks",
    "what_stays_glibcs",
];

/// Carries out the command with `words`, the names of processors: its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let known = |word: &&str| ARCHS.iter().any(|arch| arch.name == *word);
    if !words.iter().all(known) {
        return tools::misunderstood("explore emulated", words);
    }
    let chosen = ARCHS.iter().filter(|arch| words.is_empty() || words.contains(&arch.name));
    tools::report(chosen.into_iter().try_for_each(run))
}

fn run(arch: &Arch) -> Outcome {
    let name = arch.name;
    tools::need(&format!("qemu-{name}"), "qemu-user")?;
    for (compiler, package) in arch.compilers {
        tools::need(compiler, package)?;
    }
    let target = format!("{name}-unknown-linux-gnu");
    tools::capture(std::process::Command::new("rustup").args(["target", "add", &target]))?;
    println!("\n=== {name} ===");
    let upper = name.to_uppercase();
    let linker = (format!("CARGO_TARGET_{upper}_UNKNOWN_LINUX_GNU_LINKER"), format!("{name}-linux-gnu-gcc"));
    let runner =
        (format!("CARGO_TARGET_{upper}_UNKNOWN_LINUX_GNU_RUNNER"), format!("qemu-{name} -L /usr/{name}-linux-gnu"));
    let here = [(&*linker.0, &*linker.1), (&*runner.0, &*runner.1), ("LOCKYARD_WATCHDOG", "1200")];
    let skipped = |names: &[&str]| names.iter().map(|name| format!(" --skip {name}")).collect::<String>();
    cargo_with(
        &here,
        &format!("test -p lockyard --target {target} --lib --test conformance --{}", skipped(arch.left_out)),
    )?;
    if !arch.preloads {
        return Ok(());
    }
    // The lanes once more, by the instructions of its later versions.
    let later = [here.as_slice(), &[("RUSTFLAGS", "-C target-feature=+lse")]].concat();
    cargo_with(
        &later,
        &format!(
            "test -p lockyard --target {target} --target-dir target/{name}-lse --lib -- platform:: spin:: lockref:: rtmutex:: qrwlock::{}",
            skipped(arch.left_out)
        ),
    )?;
    let emulating = [&here[..1], &[("LOCKYARD_EMULATE", name)]].concat();
    cargo_with(
        &emulating,
        &format!("test -p lockyard-preload --test oracle --test under_preload --{}", skipped(&NOT_EMULATED)),
    )
}
