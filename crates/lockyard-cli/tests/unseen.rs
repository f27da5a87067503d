//! Programs under `lockyard stat` and `lockyard record` of which not all is seen, or nothing: no
//! all-clear, and the true reason.
//!
//! No test asserts a time or a rate.

mod preloaded;

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use assert_cmd::cargo::cargo_bin;
use preloaded::{library, program, source};

fn lockyard(arguments: &[&str], what: &str) -> Command {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(arguments).arg("--").arg(program("unseen", "")).arg(what);
    command.env("LOCKYARD_PRELOAD", library()).env_remove("COLUMNS");
    command
}

/// Exit code 1, and the one line, which holds all `parts`.
#[track_caller]
fn unseen(what: &str, parts: &[&str]) -> String {
    let Output { status, stderr, .. } = lockyard(&["stat"], what).output().expect("the binary runs");
    let line = String::from_utf8(stderr).expect("UTF-8");
    assert_eq!((status.code(), line.lines().count()), (Some(1), 1), "{line}");
    for part in ["lockyard: saw no lock of this process ("].iter().chain(parts) {
        assert!(line.contains(part), "{part}: {line}");
    }
    line
}

#[test]
fn semaphores_alone_are_no_all_clear() {
    let not_timed = "it took no mutex, rwlock or spinlock; \
                     semaphores, barriers and condition variables are not timed";
    unseen("units", &[not_timed]);
}

/// Its wait has the operation of a join.
#[test]
fn the_wait_for_a_shared_mutex_is_seen_in_the_time_of_futex_calls() {
    unseen("shared", &["(1 shared)", " % of their time in futex calls"]);
}

#[test]
fn a_program_without_the_library_is_told_from_one_that_took_no_lock() {
    let line = unseen("bare", &["the preload library was not in '", "unseen', which it became"]);
    assert!(!line.contains("it took no"), "{line}");
}

/// The kernel ended the program: a file of statistics seems to be longer than its limit.
#[test]
fn a_limit_of_file_sizes_ends_no_program() {
    for (command, code, said) in [("run", 0, None), ("stat", 1, Some("(ulimit -f)"))] {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 100; exec \"$@\"", "sh"]).arg(cargo_bin!("lockyard")).arg(command).arg("--");
        let limited = limited.arg(program("unseen", "")).arg("units").env("LOCKYARD_PRELOAD", library());
        let Output { status, stderr, .. } = limited.output().expect("the shell runs");
        let line = String::from_utf8(stderr).expect("UTF-8");
        assert_eq!(status.code(), Some(code), "{command}: {line}");
        assert!(said.is_none_or(|said| line.contains(said)), "{command}: {line}");
    }
}

/// Its main ran, or another program before it told of itself.
#[test]
fn a_limit_is_the_reason_wherever_it_was_set_and_however_the_program_ended() {
    let (command, program) = (cargo_bin!("lockyard"), program("unseen", ""));
    let limited = |limit: &str, words: &[&Path]| {
        let script = format!("ulimit {limit}; exec \"$@\"");
        let sh = ["sh", "-c", &script, "sh"].map(PathBuf::from);
        sh.into_iter().chain(words.iter().map(|word| word.to_path_buf())).collect::<Vec<_>>()
    };
    let stat = [command, Path::new("stat"), Path::new("--")];
    // "nothing" ends with exit code 2.
    for (limit, what) in [("-v 100000", "nothing"), ("-v 100000", "convoy"), ("-f 100", "convoy")] {
        let run = [program.as_path(), Path::new(what)];
        let inside = [stat.map(PathBuf::from).to_vec(), limited(limit, &run)].concat();
        let around = limited(limit, &[&stat[..], &run].concat());
        // The command itself sees that files are limited, and starts nothing.
        for words in [Some(inside), Some(around).filter(|_| limit.starts_with("-v"))].into_iter().flatten() {
            let mut limited = Command::new(&words[0]);
            let limited = limited.args(&words[1..]).env("LOCKYARD_PRELOAD", library());
            let Output { status, stderr, .. } = limited.output().expect("the shell runs");
            let line = String::from_utf8(stderr).expect("UTF-8");
            assert_eq!((status.code(), line.lines().count()), (Some(1), 1), "{words:?}: {line}");
            let rest = line.split_once("registered): process ").map_or("", |(_, rest)| rest);
            let (process, why) = rest.split_once(' ').unwrap_or_else(|| panic!("{words:?}: {line}"));
            let flag = format!("(ulimit {})", &limit[..2]);
            assert!(why.starts_with("could not make its statistics: ") && why.contains(&flag), "{words:?}: {line}");
            assert!(!Path::new("/dev/shm").join(format!("lockyard.{process}")).exists(), "{words:?}: it stays");
        }
    }
}

#[test]
fn a_process_that_a_limit_kept_from_telling_is_named_beside_what_others_told() {
    let mut command = Command::new(cargo_bin!("lockyard"));
    let script = "\"$0\" convoy; ulimit -v 100000; exec \"$0\" convoy";
    command.args(["stat", "--", "sh", "-c", script]).arg(program("unseen", "")).env("LOCKYARD_PRELOAD", library());
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    let report = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.success() && report.starts_with("Not all: process "), "{report}");
    let sentence = report.lines().next().unwrap_or_default();
    assert!(sentence.contains(" could not make its statistics: they take ") && sentence.contains("convoy"), "{report}");
}

/// `stat` refused it as one that is linked statically.
#[test]
fn a_program_started_by_its_loader_is_seen() {
    let listed = Command::new("readelf").args(["-l", "-W"]).arg(program("unseen", "")).output().expect("binutils");
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    let loader = listed.split("interpreter: ").nth(1).and_then(|rest| rest.split(']').next()).expect("a loader");
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["stat", "--", loader]).arg(program("unseen", "")).arg("convoy").env("LOCKYARD_PRELOAD", library());
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    let report = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.success() && report.contains("asked for in convoy (unseen.c:"), "{report}");
}

/// `/proc/self/maps` is empty then.
#[test]
fn places_have_names_when_the_first_thread_has_ended() {
    let Output { status, stdout, stderr } = lockyard(&["stat"], "first ends").output().expect("the binary runs");
    let report = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.success() && stdout == b"done\n", "{status}: {report}");
    let source = std::fs::read_to_string(source("unseen")).expect("the source");
    let line = source.lines().position(|line| line.ends_with("// MARK convoy")).expect("the mark") + 1;
    let asked = format!("asked for in convoy (unseen.c:{line})");
    assert!(report.lines().next().is_some_and(|sentence| sentence.contains(&asked)), "{report}");
}

/// What `command` says on stderr while a daemon that its program has left goes on.
#[track_caller]
fn said_of_daemon(command: &mut Command) -> (Option<i32>, String) {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    // The daemon goes on until this is dropped.
    let input = child.stdin.take().expect("a pipe");
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    let status = child.wait().expect("it ends");
    drop(input);
    (status.code(), said)
}

#[test]
fn a_daemon_that_goes_on_is_named_and_nothing_is_cleared() {
    let (code, report) = said_of_daemon(&mut lockyard(&["stat"], "left"));
    assert!(code == Some(0) && report.starts_with("Not all: process "), "{report}");
    let number = report.split_whitespace().nth(3).unwrap_or_default().trim_end_matches(',');
    assert!(report.contains(&format!(", which it started, still runs: `lockyard stat --pid {number}`. ")), "{report}");
    // One whose threads have taken no lock yet has no statistics, and may have some later.
    let (code, report) = said_of_daemon(&mut lockyard(&["stat"], "left quietly"));
    assert!(code == Some(0) && report.starts_with("Not all: process "), "{report}");
    let sentence = report.lines().next().unwrap_or_default();
    assert!(sentence.contains("still runs, without a lock so far: ") && sentence.contains("` later. "), "{report}");
    assert!(sentence.contains("The locks that were seen are not this program's problem"), "{report}");
}

#[test]
fn a_daemon_that_is_recorded_no_longer_is_named() {
    let out: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("left-{}.lyr", std::process::id()));
    let path = out.to_string_lossy().into_owned();
    let (code, said) = said_of_daemon(&mut lockyard(&["record", "--out", &path], "left"));
    assert!(code == Some(0) && said.contains("still runs: `lockyard stat --pid "), "{said}");
    assert!(said.lines().last().is_some_and(|line| line.ends_with("not recorded from here on")), "{said}");
    std::fs::remove_file(out).expect("it is there");
}

/// The report on a shell that runs a calm program, and then `other` with `what`.
fn said_beside(other: &Path, what: &str) -> String {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["stat", "--", "sh", "-c", "\"$0\" calm; \"$1\" \"$2\"; exit 0"]);
    command.arg(program("processes", "")).arg(other).arg(what).env("LOCKYARD_PRELOAD", library());
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    let report = String::from_utf8(stderr).expect("UTF-8");
    assert!(status.success(), "{status}: {report}");
    assert!(report.starts_with("The locks that were seen are not this program's problem"), "{report}");
    report.lines().next().unwrap_or_default().to_owned()
}

/// Locks were said not to be its problem, and no word of it.
#[test]
fn a_static_child_is_named() {
    let child = program("processes", "-static");
    let line = said_beside(&child, "hold");
    let named = format!("'{}', which it started, is linked statically: LD_PRELOAD has no effect", child.display());
    assert!(line.contains(&named), "{named}: {line}");
}

/// `program("processes", "")`, as another user's that gives its rights; `None`: only root can.
fn setuid() -> Option<PathBuf> {
    static MADE: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MADE.lock();
    let (plain, path) = (program("processes", ""), program("processes", "").with_extension("setuid"));
    if !path.exists() {
        std::fs::copy(plain, &path).expect("a copy");
        chown(&path, Some(65534), None).ok()?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o4755)).expect("it is there");
    }
    Some(path)
}

/// "LD_PRELOAD was taken out of its environment" was said of it.
#[test]
fn a_setuid_child_is_named() {
    let Some(child) = setuid() else { return };
    let line = said_beside(&child, "hold");
    let named = format!("'{}', which it started, is setuid: LD_PRELOAD has no effect", child.display());
    assert!(line.contains(&named) && line.contains("start a copy of it"), "{named}: {line}");
}

/// It was to be linked dynamically, as it is.
#[test]
fn the_way_into_a_setuid_program_is_a_copy() {
    let Some(path) = setuid() else { return };
    let mut command = Command::new(cargo_bin!("lockyard"));
    let command = command.args(["stat", "--"]).arg(path).arg("hold").env("LOCKYARD_PRELOAD", library());
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    let line = String::from_utf8(stderr).expect("UTF-8");
    assert_eq!((status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.contains("is setuid: LD_PRELOAD has no effect on it; start a copy of it"), "{line}");
    assert!(!line.contains("dynamically"), "{line}");
}

/// Only `LOCKYARD_MUTEX` was named; others left "1 other" behind.
#[test]
fn locks_that_are_glibcs_by_choice_are_named() {
    let stat = |what: &str, variable: &str| {
        let mut command = Command::new(cargo_bin!("lockyard"));
        command.args(["stat", "--"]).arg(program("processes", "")).arg(what).env(variable, "glibc");
        let Output { stderr, .. } = command.env("LOCKYARD_PRELOAD", library()).output().expect("the binary runs");
        String::from_utf8(stderr).expect("UTF-8")
    };
    for (variable, kind) in [("LOCKYARD_RWLOCK", "rwlocks"), ("LOCKYARD_SPIN", "spinlocks")] {
        let said = format!("{variable}=glibc leaves its {kind} to glibc");
        let none = stat("nothing", variable);
        assert!(none.contains("saw no lock") && none.contains(&said) && !none.contains("other"), "{none}");
        let some = stat("calm", variable);
        assert!(some.starts_with("The locks that were seen") && some.contains(&format!("Not seen: {said}.")), "{some}");
    }
}

/// All kinds of locks were said to be glibc's by choice, of which nobody had made any.
#[test]
fn a_variable_that_names_no_lock_is_no_choice() {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["stat", "--"]).arg(program("processes", "")).arg("calm").env("LOCKYARD_RWLOCK", "percpu");
    let output = command.env("LOCKYARD_PRELOAD", library()).output().expect("the binary runs");
    let report = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(report.contains("LOCKYARD_RWLOCK") && !report.contains("=glibc"), "{report}");
}

/// Locks were said not to be its problem, from what four acquisitions had waited.
#[test]
fn few_acquisitions_beside_much_work_are_no_all_clear() {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["stat", "--"]).arg(program("processes", "")).arg("spin").env("LOCKYARD_PRELOAD", library());
    let report = String::from_utf8(command.output().expect("the binary runs").stderr).expect("UTF-8");
    assert!(report.starts_with("The locks that were seen are not this program's problem"), "{report}");
    assert!(report.contains(" Beside 4 acquisitions it used "), "{report}");
    assert!(report.contains(" of CPU time: spinning at locks of its own is not seen."), "{report}");
}

/// The program was said to have failed.
#[test]
fn a_load_that_fails_is_named_as_the_load() {
    let mut command = Command::new(cargo_bin!("lockyard"));
    command.args(["compare", "--load", "exit 3", "--ready", "true", "--lock", "mutex", "--", "sleep", "600"]);
    let Output { status, stderr, .. } = command.env("LOCKYARD_PRELOAD", library()).output().expect("the binary runs");
    let line = String::from_utf8(stderr).expect("UTF-8");
    assert_eq!(status.code(), Some(1), "{line}");
    assert!(line.contains("the load failed on glibc (exit status: 3)"), "{line}");
}
