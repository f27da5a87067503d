//! `cargo xtask explore qemu`: the locks on a machine with NUMA nodes, which the host need not
//! have.
//!
//! A stock Debian kernel starts under QEMU's software emulation, with a static build of the command
//! in an initramfs: eight CPUs in four nodes, then sixteen in four. The guest reads its topology by
//! the product's own code, queues by node with both NUMA locks, and is tortured; with more virtual
//! CPUs than real ones, any of them is preempted anywhere. It tells nothing about the price of a
//! distance, nor about weak memory.
//!
//! Nothing is installed but QEMU: kernel and busybox are unpacked from their packages into the
//! build's folder.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::tools::{self, Outcome, cargo_with};

/// What is asked of the guests.
struct Options {
    /// Torture of each lock, seconds.
    secs: u32,
    /// CPUs and nodes.
    shapes: Vec<(u32, u32)>,
    /// What is tortured.
    locks: String,
}

impl Options {
    fn parse(words: &[&str]) -> Outcome<Self> {
        let mut options = Self { secs: 2, shapes: vec![(8, 4), (16, 4)], locks: LOCKS.to_owned() };
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(format!("qemu: {} needs a value", pair[0])) };
            let number = |text: &str, least: u32, most: u32| {
                let number = text.parse::<u32>().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| format!("qemu: {option}: '{value}': numbers from {least} to {most} are needed"))
            };
            match *option {
                "--secs" => options.secs = number(value, 1, 600)?,
                "--lock" => options.locks = (*value).to_owned(),
                "--shape" => {
                    let (cpus, nodes) =
                        value.split_once('x').ok_or("qemu: --shape: CPUs and nodes are needed, as in 8x4")?;
                    let shape = (number(cpus, 2, 64)?, number(nodes, 2, 8)?);
                    if !shape.0.is_multiple_of(shape.1) {
                        return Err(format!("qemu: --shape: {} CPUs are not to be divided by {}", shape.0, shape.1));
                    }
                    options.shapes = vec![shape];
                }
                _ => return Err(format!("qemu: no such option: {option}; there are --secs, --lock, --shape")),
            }
        }
        Ok(options)
    }
}

/// One of each kind.
const LOCKS: &str = "hq-spinlock,cna,qspinlock,mutex,rtmutex-tree,rwsem,qrwlock,semaphore,lockref:hq-spinlock";

/// How long a guest may take besides its torture.
const PATIENCE: Duration = Duration::from_secs(300);

/// Carries out `cargo xtask explore qemu` with `words`: its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    let options = match Options::parse(words) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("xtask: {why}");
            return 2;
        }
    };
    match run(&options) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("xtask: {why}");
            1
        }
    }
}

fn run(options: &Options) -> Outcome {
    let begun = Instant::now();
    tools::need("qemu-system-x86_64", "qemu-system-x86")?;
    let folder = tools::target().join("qemu");
    let kernel = kernel(&folder)?;
    let busybox = unpacked(&folder, "busybox-static")?.join("bin/busybox");
    let lockyard = static_build()?;
    println!("kernel {}, ready after {} s", kernel.display(), begun.elapsed().as_secs());
    let mut verdicts = Vec::new();
    let mut well = true;
    for &(cpus, nodes) in &options.shapes {
        let start = Instant::now();
        let archive = folder.join(format!("initramfs-{cpus}x{nodes}"));
        let write = |error: std::io::Error| format!("{}: {error}", archive.display());
        fs::write(&archive, initramfs(&busybox, &lockyard, &script(options, cpus))?).map_err(write)?;
        println!("\n=== {cpus} CPUs, {nodes} nodes ===");
        let locks = options.locks.split(',').count() as u64;
        let limit = PATIENCE + Duration::from_secs(4 * locks * u64::from(options.secs));
        let said = start_guest(&kernel, &archive, cpus, nodes, limit)?;
        let verdict = judge(&said, nodes);
        well &= verdict.is_ok();
        let verdict = verdict.unwrap_or_else(|why| format!("FAILED: {why}"));
        verdicts.push(format!("{cpus:>2} CPUs in {nodes} nodes {:>5} s  {verdict}", start.elapsed().as_secs()));
    }
    println!("\n=== summary ===\n{}\nall {:>20} s", verdicts.join("\n"), begun.elapsed().as_secs());
    if well { Ok(()) } else { Err("a guest failed; rerun: cargo xtask explore qemu".to_owned()) }
}

/// The kernel's image, from Debian's own package for this architecture.
fn kernel(folder: &Path) -> Outcome<PathBuf> {
    let depends = || tools::capture(Command::new("apt-cache").args(["depends", "--important", "linux-image-amd64"]));
    let named = |text: String| {
        let name = text.lines().find_map(|line| Some(line.trim().strip_prefix("Depends: ")?.to_owned()));
        name.filter(|name| name.starts_with("linux-image-"))
    };
    let mut name = depends().ok().and_then(named);
    if name.is_none() {
        tools::capture(Command::new("apt-get").args(["update", "-qq"]))?;
        name = named(depends()?);
    }
    let package = name.ok_or("no package of a kernel is known here: linux-image-amd64 of Debian is needed")?;
    let boot = unpacked(folder, &package)?.join("boot");
    let files = fs::read_dir(&boot).map_err(|error| format!("{}: {error}", boot.display()))?;
    let mut files = files.flatten().map(|entry| entry.path());
    let image = files.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz")));
    image.ok_or_else(|| format!("{package} has no vmlinuz"))
}

/// The files of a Debian package, unpacked once.
fn unpacked(folder: &Path, package: &str) -> Outcome<PathBuf> {
    let place = folder.join(package);
    if place.join("done").exists() {
        return Ok(place);
    }
    let told = |error: std::io::Error| format!("{}: {error}", place.display());
    // What an interrupted run has left.
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(told)?;
    let download = || {
        let mut command = Command::new("apt-get");
        tools::capture(command.args(["download", "-qq", package]).current_dir(&place))
    };
    println!("$ apt-get download {package}");
    if download().is_err() {
        tools::capture(Command::new("apt-get").args(["update", "-qq"]))?;
        download()?;
    }
    let mut files = fs::read_dir(&place).map_err(told)?.flatten().map(|entry| entry.path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let file = file.ok_or_else(|| format!("apt-get has not brought {package}"))?;
    tools::capture(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&place))?;
    fs::remove_file(file).map_err(told)?;
    fs::write(place.join("done"), "").map_err(told)?;
    Ok(place)
}

/// The command, linked with everything it needs: an initramfs has no libraries.
fn static_build() -> Outcome<PathBuf> {
    let environment = [
        ("RUSTFLAGS", "-C target-feature=+crt-static"),
        ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
        ("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
    ];
    cargo_with(&environment, &format!("build --release -p lockyard-cli --target {TARGET}"))?;
    Ok(tools::target().join(TARGET).join("release/lockyard"))
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What the guest's first process does. Each step's exit code is told in a line of its own. Virtual
/// CPUs are slow and often away: a hierarchical lock is set to queue by node at the first hand-over
/// between nodes.
fn script(options: &Options, cpus: u32) -> String {
    let Options { secs, locks, .. } = options;
    let threads = [cpus, 4 * cpus, 16 * cpus].map(|threads| threads.to_string()).join(",");
    let crowd = 2 * cpus;
    format!(
        "#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t sysfs none /sys
/bin/busybox mount -t devtmpfs none /dev
export NO_COLOR=1
echo guest: up $(/bin/busybox cut -d ' ' -f 1 /proc/uptime) s after its start
export LOCKYARD_HQ_GENERAL_HANDOFFS_TURN_NUMA=0 LOCKYARD_HQ_REMOTE_HANDOFFS_TURN_NUMA=0 LOCKYARD_HQ_WAITERS_PER_LANE_TURN_NUMA=1 LOCKYARD_HQ_WAIT_BEFORE_LOOK_NS=0
lockyard bench --lock hq-spinlock,cna --peer none --threads {crowd} --cs 50 --secs 10 --rounds 1 --json 2>/tmp/told
echo guest: bench ended with $?
lockyard torture --lock {locks} --secs {secs} --threads {threads} --patience 60 2>/tmp/told
echo guest: torture ended with $?
/bin/busybox tail -n 3 /tmp/told
/bin/busybox poweroff -f
"
    )
}

/// An archive as the kernel unpacks it (cpio, `newc`).
fn initramfs(busybox: &Path, lockyard: &Path, script: &str) -> Outcome<Vec<u8>> {
    const FOLDER: u32 = 0o040_755;
    const PROGRAM: u32 = 0o100_755;
    const DEVICE: u32 = 0o020_600;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut archive = Vec::new();
    let mut entry = |name: &str, mode: u32, device: (u32, u32), bytes: &[u8]| {
        let fields = [1, mode, 0, 0, 1, 0, bytes.len() as u32, 0, 0, device.0, device.1, name.len() as u32 + 1, 0];
        archive.extend_from_slice(b"070701");
        fields.iter().for_each(|field| archive.extend_from_slice(format!("{field:08X}").as_bytes()));
        archive.extend_from_slice(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(4), 0);
    };
    for folder in ["bin", "dev", "proc", "sys", "tmp"] {
        entry(folder, FOLDER, (0, 0), &[]);
    }
    entry("dev/console", DEVICE, (5, 1), &[]);
    entry("bin/busybox", PROGRAM, (0, 0), &read(busybox)?);
    entry("bin/lockyard", PROGRAM, (0, 0), &read(lockyard)?);
    entry("init", PROGRAM, (0, 0), script.as_bytes());
    entry("TRAILER!!!", 0, (0, 0), &[]);
    Ok(archive)
}

/// Starts a guest, shows what it says without the records, and returns all of it.
fn start_guest(kernel: &Path, archive: &Path, cpus: u32, nodes: u32, limit: Duration) -> Outcome<String> {
    let mut command = Command::new("qemu-system-x86_64");
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-nographic", "-no-reboot"]);
    command.args(["-m", &format!("{}M", nodes * 512), "-smp", &cpus.to_string(), "-nic", "none"]);
    let of_each = cpus / nodes;
    for node in 0..nodes {
        let first = node * of_each;
        command.args(["-object", &format!("memory-backend-ram,id=m{node},size=512M")]);
        command.args(["-numa", &format!("node,nodeid={node},cpus={first}-{},memdev=m{node}", first + of_each - 1)]);
    }
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
        // Two sockets of two nodes: near, beside, across.
        let distance = if from == to {
            10
        } else if from / 2 == to / 2 {
            16
        } else {
            28
        };
        command.args(["-numa", &format!("dist,src={from},dst={to},val={distance}")]);
    }
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(archive);
    command.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
    let mut guest = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("qemu-system-x86_64: {error}"))?;
    let Some(output) = guest.stdout.take() else { return Err("qemu-system-x86_64 has no output".to_owned()) };
    let listener = std::thread::spawn(move || {
        let mut said = String::new();
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = plain(&String::from_utf8_lossy(&line));
            if !line.starts_with('{') {
                println!("  {line}");
                let _ = std::io::stdout().flush();
            }
            said += &line;
            said.push('\n');
        }
        said
    });
    if tools::wait(&mut guest, limit)?.is_none() {
        eprintln!("xtask: the guest did not end within {} s and was stopped", limit.as_secs());
    }
    listener.join().map_err(|_| "the guest's words were lost".to_owned())
}

/// A line without what moves a terminal's cursor and clears its screen: the firmware does both.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Escape and a letter, or escape, `[`, parameters and a letter.
        let sequence = part.strip_prefix('[').unwrap_or(part);
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).map_or(sequence.len(), |at| at + 1);
        text += &sequence[end..];
    }
    text.trim_end().to_owned()
}

/// What the guest must have said.
fn judge(said: &str, nodes: u32) -> Outcome<String> {
    for step in ["bench", "torture"] {
        let told = format!("guest: {step} ended with ");
        match said.lines().find_map(|line| line.strip_prefix(&told)) {
            Some("0") => {}
            Some(code) => return Err(format!("{step} ended with exit code {code}")),
            None => return Err(format!("{step} did not end")),
        }
    }
    let record = said.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let list = record.split_once("\"nodes\":[").and_then(|(_, rest)| rest.split_once(']'));
    let found = list.map_or(0, |(list, _)| list.matches(": CPUs ").count());
    if found != nodes as usize {
        return Err(format!("{nodes} nodes were expected, the command told of {found}"));
    }
    // A hierarchical lock that entered before the first moment that counts, and stayed, tells of
    // hand-overs only.
    let mut shown = vec![format!("hq_enter {}", counted(said, "hq_enter"))];
    for event in ["hq_local_handoff", "hq_remote_handoff", "cna_aside"] {
        let count = counted(said, event);
        if count == 0 {
            return Err(format!("{event} never happened: nothing was queued by node"));
        }
        shown.push(format!("{event} {count}"));
    }
    let passed = said.lines().filter(|line| line.contains(": passed: ")).count();
    Ok(format!("passed: {passed} tortures; {}", shown.join(", ")))
}

/// The sum of an event's counts in all records.
fn counted(said: &str, event: &str) -> u64 {
    let name = format!("\"{event}\":");
    let counts = said.split(&name).skip(1);
    counts.filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firmware_does_not_clear_the_screen() {
        assert_eq!(plain("\u{1b}c\u{1b}[?7l\u{1b}[2J\u{1b}[0mguest: up 7 s\r"), "guest: up 7 s");
        assert_eq!(plain("plain, with [brackets] "), "plain, with [brackets]");
        assert_eq!(plain("\u{1b}["), "");
    }

    #[test]
    fn a_guest_is_judged_by_what_it_said() {
        let record = r#"{"machine":{"nodes":["node 0: CPUs 0-1","node 1: CPUs 2-3"]},"events":{"hq_enter":2,"hq_local_handoff":5,"hq_remote_handoff":1}}
{"machine":{"nodes":["node 0: CPUs 0-1","node 1: CPUs 2-3"]},"events":{"cna_aside":7}}
"#;
        let ends = "guest: bench ended with 0\nmutex: passed: 8 threads\nguest: torture ended with 0\n";
        let said = format!("{record}{ends}");
        assert_eq!(
            judge(&said, 2).unwrap(),
            "passed: 1 tortures; hq_enter 2, hq_local_handoff 5, hq_remote_handoff 1, cna_aside 7"
        );
        assert!(judge(&said, 4).unwrap_err().contains("4 nodes were expected, the command told of 2"));
        assert!(
            judge(&said.replace("torture ended with 0", "torture ended with 1"), 2).unwrap_err().contains("code 1")
        );
        assert!(judge(record, 2).unwrap_err().contains("bench did not end"));
        for (event, count) in [("hq_local_handoff", 5), ("hq_remote_handoff", 1), ("cna_aside", 7)] {
            let never = said.replace(&format!("{event}\":{count}"), &format!("{event}\":0"));
            assert!(judge(&never, 2).unwrap_err().contains(&format!("{event} never")));
        }
        // It had entered before.
        assert!(
            judge(&said.replace("hq_enter\":2", "hq_enter\":0"), 2).unwrap().contains("hq_enter 0, hq_local_handoff 5")
        );
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(Options::parse(&["--shape", "16x4", "--secs", "5"]).unwrap().shapes, [(16, 4)]);
        for bad in [&["--secs"][..], &["--secs", "0"], &["--shape", "8"], &["--shape", "9x4"], &["--nodes", "2"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }
}
