//! `lockyard run` and `lockyard stat` on other processes. The other process is this test itself, or
//! this test again in a role.
//!
//! No test asserts a time or a rate.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use assert_cmd::cargo::cargo_bin;
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard_segment::{self as segment, Class};
use rustix::process::{Pid, Signal, kill_process};

/// `lockyard` with `arguments`, without a preload library.
fn lockyard(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(arguments).env("LOCKYARD_PRELOAD", "");
    command
}

fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// Refused: exit code 2, one line on stderr that contains `part`, nothing on stdout.
#[track_caller]
fn refused(command: &mut Command, part: &str) {
    let (code, out, line) = output(command);
    assert_eq!((code, line.lines().count(), out.as_str()), (Some(2), 1, ""), "{line}");
    assert!(line.starts_with("lockyard: ") && line.contains(part), "{line}");
}

fn turn(lock: &RawMutex<Linux>, class: Class) {
    let address = core::ptr::from_ref(lock).addr();
    if lock.try_acquire() {
        segment::acquired(class, address);
    } else {
        let waiting = segment::contended(class, address);
        lock.acquire();
        waiting.got();
    }
    (0..200).for_each(|_| core::hint::spin_loop());
    // SAFETY: taken above.
    unsafe { lock.release() };
    segment::released(address);
}

fn class<'a>(document: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let classes = document["classes"].as_array().expect("a list");
    classes.iter().find(|class| class["name"] == name).expect("the class is there")
}

#[test]
fn a_running_process_is_shown_in_every_form() {
    static LOCK: RawMutex<Linux> = RawMutex::new();
    segment::open(b"mutex=mutex").expect("a segment");
    let wanted = segment::class(b"mutex", b"wanted", 0);
    let me = std::process::id().to_string();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (code, out, err) = output(&mut lockyard(&[&["stat", "--pid", &me, "--json"], arguments].concat()));
        assert_eq!((code, err.as_str()), (Some(0), ""));
        serde_json::from_str(&out).expect("JSON")
    };
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while !stop.load(Relaxed) {
                    turn(&LOCK, wanted)
                }
            });
        }
        // Under load: it grows from look to look, and somebody waits in the end.
        let count = |document: &serde_json::Value| class(document, "wanted")["acquired"].as_u64().expect("a number");
        let first = json(&[]);
        let mut last = json(&[]);
        while count(&last) <= count(&first) || class(&last, "wanted")["contended"] == 0 {
            last = json(&[]);
        }

        let mut child = lockyard(&["stat", "--pid", &me, "--interval", "20ms", "--json"]);
        let mut child = child.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        for line in lines.take(3) {
            let document: serde_json::Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            assert!(document["events"].as_array().is_some_and(|events| !events.is_empty()));
        }
        kill_process(Pid::from_child(&child), Signal::INT).expect("it is there");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
        stop.store(true, Relaxed);
    });

    let (code, text, _) = output(&mut lockyard(&["stat", "--pid", &me, "--events", "--wide"]));
    assert_eq!(code, Some(0));
    for part in
        [format!("(process {me})"), "mutex=mutex".to_owned(), "mutex_slowpath".to_owned(), "mutex wanted".to_owned()]
    {
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b') && text.lines().all(|line| line == line.trim_end()), "{text}");
    let (_, metrics, _) = output(&mut lockyard(&["stat", "--pid", &me, "--openmetrics"]));
    let acquired = "lockyard_acquired_total{kind=\"mutex\",lock=\"mutex wanted\",class=\"wanted\"}";
    assert!(metrics.contains(acquired) && metrics.ends_with("# EOF\n"));

    // At rest: what is shown with --reset is shown for the last time.
    let before = json(&["--reset"]);
    assert!(class(&before, "wanted")["acquired"].as_u64() > Some(0));
    assert_eq!(json(&[])["classes"].as_array().map(Vec::len), Some(0));
    segment::close();
}

#[test]
fn processes_that_tell_nothing_are_refused() {
    let mut sleeper = Command::new("sleep").arg("600").spawn().expect("sleep");
    let id = sleeper.id().to_string();
    refused(&mut lockyard(&["stat", "--pid", &id]), "has no lock statistics; start it with `lockyard run -- PROGRAM`");
    sleeper.kill().expect("it is there");
    sleeper.wait().expect("it ends");
    refused(&mut lockyard(&["stat", "--pid", &id]), &format!("--pid: there is no process {id}"));
    refused(&mut lockyard(&["stat", "--pid", "me"]), "--pid: 'me' is not a whole number");
    refused(&mut lockyard(&["stat", "--pid", "0"]), "--pid: 0 is out of bounds (1 to 2147483647)");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    refused(&mut lockyard(&["stat", "--interval", "1s"]), "not provided");
    refused(&mut lockyard(&["stat", "--reset"]), "not provided");
    refused(&mut lockyard(&["stat", "--pid", "1", "--lock", "hq-spinlock"]), "unexpected argument '--lock'");
    refused(&mut lockyard(&["stat", "--pid", "1", "--", "true"]), "cannot be used with");
    refused(&mut lockyard(&["stat", "--pid", "1", "--interval", "0"]), "--interval: '0' is out of bounds");
    refused(&mut lockyard(&["run"]), "no program is named");
    refused(&mut lockyard(&["stat", "99999999"]), "a running process is named by --pid 99999999");
    let (code, out, help) = output(&mut lockyard(&["stat"]));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(help.contains("lockyard stat --pid 1234 ") && help.contains("Usage: lockyard stat"), "{help}");
    refused(&mut lockyard(&["run", "--lock", "mutx=hq", "--", "true"]), "did you mean 'mutex'?");
    refused(&mut lockyard(&["run", "--", "/no/such/program"]), "cannot start '/no/such/program': no such file");
    let preload = |library: &str| {
        let mut command = lockyard(&["run", "--", "true"]);
        command.env("LOCKYARD_PRELOAD", library);
        command
    };
    refused(&mut preload("/no/such/library.so"), "LOCKYARD_PRELOAD: '/no/such/library.so' is no file");
}

/// Any library will do to see that it is preloaded: the C library, of which this test has one.
fn some_library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let path = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libc.so")));
    path.expect("a C library").to_owned()
}

#[test]
fn run_becomes_the_program() {
    let library = some_library();
    let run = |arguments: &[&str]| {
        let mut command = lockyard(&[&["run"], arguments].concat());
        command.env("LOCKYARD_PRELOAD", &library).env("LD_PRELOAD", "");
        command
    };
    let script = "echo $LD_PRELOAD $LOCKYARD_MUTEX $LOCKYARD_RWLOCK $LOCKYARD_STAT $#; exit 7";
    let (code, out, _) = output(&mut run(&["--lock", "hq,rwlock=qrw", "--", "sh", "-c", script, "sh", "--lock", "x"]));
    assert_eq!((code, out.trim()), (Some(7), format!("{library} hq qrw 1 2").as_str()));
    // What follows the program is the program's, with or without two dashes before it.
    for arguments in [
        &["sh", "-c", "echo $#", "sh", "--lock", "--", "x"][..],
        &["--", "sh", "-c", "echo $#", "sh", "--lock", "--", "x"],
    ] {
        assert_eq!(output(&mut run(arguments)).1.trim(), "3", "{arguments:?}");
    }
    // What is preloaded already comes first.
    let (_, out, _) = output(run(&["--", "sh", "-c", "echo $LD_PRELOAD"]).env("LD_PRELOAD", &library));
    assert_eq!(out.trim(), format!("{library}:{library}"));
}

/// Programs that the loader would run without the library.
#[test]
fn programs_without_the_library_are_refused() {
    let folder = scratch("programs");
    let exe = fs::read(std::env::current_exe().expect("a path")).expect("this test");
    let write = |name: &str, bytes: &[u8], mode: u32| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permissions");
        path.to_string_lossy().into_owned()
    };
    let refuse = |program: &str, part: &str| {
        let mut command = lockyard(&["run", "--", program]);
        command.env("LOCKYARD_PRELOAD", some_library()).env("PATH", &folder);
        refused(&mut command, &format!("{part}: LD_PRELOAD has no effect on it"));
    };
    // A program without an interpreter: this test's head, no table.
    let mut head = exe[..64].to_vec();
    head[56..58].fill(0);
    let fixed = write("static", &head, 0o755);
    refuse(&fixed, "static' is linked statically");
    // What runs a script counts, by whatever way.
    refuse(&write("script", format!("#! {fixed} -x\n").as_bytes(), 0o755), "static' is linked statically");
    refuse(
        &write("deep", format!("#!{}/script\n", folder.display()).as_bytes(), 0o755),
        "static' is linked statically",
    );
    refuse(&write("by-env", b"#!/usr/bin/env -S A=1 static -x\n", 0o755), "static' is linked statically");
    refuse("script", "static' is linked statically");
    // Another processor; another word size.
    head[18] ^= 0xff;
    refuse(&write("foreign", &head, 0o755), "foreign' is a program for another processor than the library");
    head[4] = 1;
    refuse(&write("narrow", &head, 0o755), "narrow' is a program of another word size than the library");
    let place = exe.windows(4).position(|part| part == b"/ld-").expect("a loader");
    let mut musl = exe.clone();
    musl[place..place + 8].copy_from_slice(b"/ld-musl");
    refuse(&write("musl", &musl, 0o755), "musl' is linked with musl, and the library with glibc");
}

/// Of a path with a space or a colon the loader would take a part; of a relative one, another file.
#[test]
fn a_library_that_the_loader_would_not_find_is_refused_or_named_in_full() {
    let folder = scratch("library");
    for name in ["with space", "with:colon", "with$dollar"] {
        let path = folder.join(name).join("lib.so");
        fs::create_dir(folder.join(name)).expect("a folder");
        fs::copy(some_library(), &path).expect("a copy");
        let mut command = lockyard(&["run", "--", "true"]);
        command.env("LOCKYARD_PRELOAD", &path);
        refused(&mut command, &format!("{}' has a space, colon or dollar sign in its path", path.display()));
    }
    std::os::unix::fs::symlink(folder.join("with space/lib.so"), folder.join("lib.so")).expect("a link");
    let mut command = lockyard(&["run", "--", "sh", "-c", "cd / && echo $LD_PRELOAD"]);
    command.current_dir(&folder).env("LOCKYARD_PRELOAD", "lib.so").env("LD_PRELOAD", "");
    let (code, out, _) = output(&mut command);
    assert_eq!((code, out.trim()), (Some(0), folder.join("lib.so").to_str().expect("UTF-8")));
    fs::write(folder.join("text.so"), "text").expect("a file");
    command.env("LOCKYARD_PRELOAD", "text.so");
    refused(&mut command, "text.so' is no shared library of this machine");
}

fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("observe-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a scratch directory");
    path
}

/// Not a test of its own: a program that takes a lock a hundred times, and so does its child.
#[test]
fn role() {
    if std::env::var_os("OBSERVE_ROLE").is_none() {
        return;
    }
    static LOCK: RawMutex<Linux> = RawMutex::new();
    assert_eq!(std::env::var("LOCKYARD_STAT").as_deref(), Ok("1"));
    segment::open(b"").expect("a segment");
    let class = segment::class(b"mutex", b"hundred", 0);
    (0..100).for_each(|_| turn(&LOCK, class));
    if std::env::var("OBSERVE_ROLE").as_deref() == Ok("other version") {
        // The word behind the magic.
        let name = format!("/dev/shm/lockyard.{}", std::process::id());
        let file = fs::File::options().write(true).open(name).expect("its segment");
        file.write_all_at(&u32::MAX.to_le_bytes(), 8).expect("room");
        std::process::exit(5);
    }
    if std::env::var("OBSERVE_ROLE").as_deref() == Ok("parent") {
        let mut child = Command::new(std::env::current_exe().expect("a file"));
        child.args(["--exact", "role"]).env("OBSERVE_ROLE", "child").stdout(Stdio::null());
        assert_eq!(child.status().expect("it starts").code(), Some(5));
    }
    segment::close();
    std::process::exit(5);
}

#[test]
fn a_program_is_watched_to_its_end_with_its_children() {
    let exe = std::env::current_exe().expect("a file").to_string_lossy().into_owned();
    let file = scratch("report").join("report.json");
    let path = file.to_string_lossy().into_owned();
    let mut command = lockyard(&["stat", "--json", "--out", &path, "--", &exe, "--exact", "role"]);
    let (code, _, _) = output(command.env("OBSERVE_ROLE", "only"));
    assert_eq!(code, Some(5), "the program's exit code");
    let report = |file: &Path| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(file).expect("a report")).expect("JSON")
    };
    assert_eq!(class(&report(&file), "hundred")["acquired"], 100);
    let process = report(&file)["process"].as_u64().expect("a number");
    assert!(!Path::new(&format!("/dev/shm/lockyard.{process}")).exists());

    let mut command = lockyard(&["stat", "--json", "--out", &path, "--", &exe, "--exact", "role"]);
    output(command.env("OBSERVE_ROLE", "parent"));
    assert_eq!(class(&report(&file), "hundred")["acquired"], 200, "with its child");

    // On stderr, because stdout is the program's.
    let mut command = lockyard(&["stat", "--", &exe, "--exact", "role", "--nocapture"]);
    let (_, out, err) = output(command.env("OBSERVE_ROLE", "only"));
    assert!(err.contains("mutex hundred") && !out.contains("mutex hundred"), "{err}");
}

/// Exit code 1, and one line that says that nothing was seen, and `part`.
#[track_caller]
fn unseen(command: &mut Command, part: &str) {
    let (code, _, err) = output(command);
    assert_eq!((code, err.lines().count()), (Some(1), 1), "{err}");
    let first = "lockyard: saw no lock of this process (0 threads registered): ";
    assert!(err.starts_with(first) && err.contains(part), "{part}: {err}");
}

/// As a preload library of another version does.
#[test]
fn statistics_of_another_version_are_said_to_be_that() {
    let exe = std::env::current_exe().expect("a file").to_string_lossy().into_owned();
    let mut command = lockyard(&["stat", "--", &exe, "--exact", "role"]);
    unseen(
        command.env("OBSERVE_ROLE", "other version").stdout(Stdio::null()),
        "writes statistics of version 4294967295, this command reads version ",
    );
}

/// Nothing seen is never good news.
#[test]
fn a_program_that_tells_nothing_is_said_so() {
    unseen(&mut lockyard(&["stat", "--", "true"]), "no preload library was asked for");
    let exe = std::env::current_exe().expect("a file").to_string_lossy().into_owned();
    unseen(&mut lockyard(&["stat", "--", &exe, "--list"]), "is a Rust program, whose std and parking_lot locks");
    let preloaded = |arguments: &[&str]| {
        let mut command = lockyard(&[&["stat", "--"], arguments].concat());
        command.env("LOCKYARD_PRELOAD", some_library());
        command
    };
    unseen(&mut preloaded(&["sh", "-c", "exit 127"]), "it ended with exit code 127: before main, which its ");
    unseen(preloaded(&["true"]).env("LOCKYARD_MUTEX", "glibc"), "LOCKYARD_MUTEX=glibc leaves its mutexes to glibc");
    // One that the loader would not give the library to: it is not even started.
    let fixed = scratch("unseen").join("fixed");
    let mut head = fs::read(&exe).expect("this test")[..64].to_vec();
    head[56..58].fill(0);
    let write = |bytes: &[u8]| {
        fs::write(&fixed, bytes).expect("a file");
        fs::set_permissions(&fixed, fs::Permissions::from_mode(0o755)).expect("permissions");
        fixed.to_string_lossy().into_owned()
    };
    unseen(&mut preloaded(&[&write(&head)]), "fixed' is linked statically: LD_PRELOAD has no effect on it");
    unseen(&mut preloaded(&[&write(&[&head[..], b"\xff Go buildinf:"].concat())]), "is a Go program");
    // With liblockyard in it, it may tell by itself.
    // Put together here, lest this test's own file has it.
    let mut tells = b"lockyard: this program tells of its locks by itself".to_vec();
    tells.extend([1, 0xfe, 3, 0xfc, 5, 0xfa, 7, 0xf8]);
    let (_, _, err) = output(&mut preloaded(&[&write(&[&head[..], &tells[..]].concat())]));
    assert!(err.contains("cannot start"), "{err}");
    let program = fs::read("/bin/true").expect("a program");
    let by_itself = write(&[&program[..], &tells[..]].concat());
    unseen(
        &mut preloaded(&[&by_itself]),
        "it tells of its Lockyard locks by itself, and has not: it ended before main",
    );
}
