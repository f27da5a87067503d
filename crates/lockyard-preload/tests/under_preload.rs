//! C and C++ programs, each run on glibc's locks and, preloaded, on ours; what they print must be
//! the same, line by line.
//!
//! The programs are in `tests/programs`, one theme each, and print the result of every call. What
//! depends on timing or on identity they check themselves (`MUST`). They are compiled with the
//! machine's `cc` and `c++`, warnings as errors.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

mod running;

use running::{Run, compile, compiler, library, run};

/// How long a program may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(100);

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Runs `source` without the library and with it, under each of `choices`, and compares what was
/// printed.
fn same(source: &str, words: &[&str], choices: &[&[(&str, &str)]]) {
    let path = compile(&program(source));
    let expected = run(Command::new(&path).args(words), LIMIT);
    assert!(expected.ok, "{source} on glibc:\n{}{}", expected.out, expected.err);
    for choice in choices {
        let mut command = Command::new(&path);
        command.args(words).env("LD_PRELOAD", library()).envs(choice.iter().copied());
        let found = run(&mut command, LIMIT);
        let difference = difference(&expected.out, &found.out);
        assert!(
            found.ok && difference.is_none(),
            "{source} {choice:?}: {}\n{}{}",
            difference.unwrap_or_default(),
            found.out,
            found.err
        );
    }
}

/// The first line that differs.
fn difference(expected: &str, found: &str) -> Option<String> {
    let mut lines = expected.lines().zip(found.lines().chain(std::iter::repeat("(nothing)")));
    let differs = lines.find(|(expected, found)| expected != found);
    let line = differs.map(|(expected, found)| format!("expected {expected:?}, found {found:?}"));
    line.or_else(|| (found.lines().count() > expected.lines().count()).then(|| "more lines than expected".to_owned()))
}

const DEFAULT: &[(&str, &str)] = &[];
const SPIN: &[(&str, &str)] = &[("LOCKYARD_MUTEX", "spin"), ("LOCKYARD_RWLOCK", "qrw")];
const HQ: &[(&str, &str)] =
    &[("LOCKYARD_MUTEX", "hq"), ("LOCKYARD_SPIN", "hq"), ("LOCKYARD_RWLOCK", "rwsem:today-kernel")];
const RT: &[(&str, &str)] = &[("LOCKYARD_MUTEX", "rt")];
const OLD: &[(&str, &str)] = &[("LOCKYARD_RWLOCK", "rwsem:v5.10")];
const QRW: &[(&str, &str)] = &[("LOCKYARD_RWLOCK", "qrw")];
const TOLD: &[(&str, &str)] = &[("LOCKYARD_STAT", "1")];
const MOSTLY: &[(&str, &str)] = &[("LOCKYARD_RWLOCK", "read-mostly")];
const PER_CPU: &[(&str, &str)] = &[("LOCKYARD_RWLOCK", "percpu-rwsem")];
const ALL: &[&[(&str, &str)]] = &[DEFAULT, SPIN, HQ, MOSTLY, PER_CPU];

#[test]
fn before_main_and_after_it_without_allocation() {
    same("before_main.c", &[], ALL);
}

#[test]
fn every_call_on_every_kind() {
    same("kinds.c", &[], ALL);
    same("kinds.c", &[], &[RT]);
}

#[test]
fn priority_inheritance_is_ours_when_asked_for() {
    same("inherit.c", &[], &[DEFAULT, RT]);
    same("relock.c", &[], &[DEFAULT, RT]);
    let path = compile(&program("inherit.c"));
    for (choice, left) in [(DEFAULT, "6\n"), (RT, "0\n")] {
        let found = run(Command::new(&path).env("LD_PRELOAD", library()).envs(choice.iter().copied()), LIMIT);
        assert_eq!(found.err, left, "{choice:?}: left to glibc");
    }
}

/// A word of glibc's is glibc's in every process, however it got there.
#[test]
fn process_shared_spinlocks_in_any_process_and_any_number() {
    same("shared_spins.c", &[], ALL);
}

/// A wait on the real-time clock ends when that clock is set past its time.
#[test]
fn timed_waits_sleep_on_their_own_clock_or_look_at_it() {
    same("clocks.c", &[], &[DEFAULT, SPIN, HQ, RT]);
}

#[test]
fn waiters_of_fixed_priorities_are_served_by_them() {
    let found = run(&mut Command::new(compile(&program("priorities.c"))), LIMIT);
    if found.out.starts_with("skipped") {
        eprint!("{}", found.out);
    } else {
        let others = [("LOCKYARD_MUTEX", "spin"), ("LOCKYARD_MUTEX", "hq"), ("LOCKYARD_RWLOCK", "qrw")];
        same("priorities.c", &[], &[DEFAULT, &others[..1], &others[1..2], &others[2..]]);
        // Each way by itself: the first fixed priority of a process.
        (0..7).for_each(|way| same("priorities.c", &[&way.to_string()], &[DEFAULT]));
    }
}

/// `rt_order.c`, kind "spin": they were served in the order of arrival.
#[test]
fn waiters_of_fixed_priorities_are_served_by_them_at_spinlocks() {
    let path = compile(&program("urgent_spins.c"));
    let expected = format!("1800 rounds\n{}1800 rounds\n", "9 5 1 0\n".repeat(10));
    for kind in ["spin", "hq"] {
        let mut command = Command::new(&path);
        let found = run(command.env("LD_PRELOAD", library()).env("LOCKYARD_SPIN", kind), LIMIT);
        if found.out.starts_with("skipped") {
            return eprint!("{}", found.out);
        }
        assert!(found.ok && found.out == expected, "{kind}:\n{}{}", found.out, found.err);
    }
}

#[test]
fn condition_variables() {
    same("condvar.c", &[], ALL);
}

#[test]
fn times_that_are_none_and_clocks_that_are_not_known() {
    same("odd_times.c", &[], ALL);
    same("odd_times.c", &[], &[RT]);
}

/// The statistics that the sleep has begun with are the parent's.
#[test]
fn a_child_that_is_made_in_a_sleep_sleeps_on() {
    same("forked_asleep.c", &[], ALL);
    same("forked_asleep.c", &[], &[TOLD]);
}

#[test]
fn cancellation_in_every_point() {
    same("cancel.c", &[], ALL);
    // What is told of the locks must not be a point either.
    same("cancel.c", &[], &[TOLD]);
}

#[test]
fn signal_handlers() {
    same("signals.c", &[], ALL);
}

#[test]
fn freed_by_the_next_owner() {
    same("destroy_race.c", &[], &[DEFAULT, SPIN, HQ, OLD, MOSTLY, PER_CPU]);
}

#[test]
fn recursive_readers() {
    same("readers.c", &[], &[DEFAULT, SPIN, HQ, OLD, MOSTLY, PER_CPU]);
}

/// A, a reader, waits for B, a reader, whom a lock without this keeps out for a writer that waits
/// for A.
#[test]
fn readers_that_wait_for_each_other_with_a_writer_waiting() {
    same("dependent_readers.c", &[], &[DEFAULT, SPIN, HQ, MOSTLY, PER_CPU]);
    // A spinning reader of 2020's kernel may pass a waiting writer of any kind.
    same("dependent_readers.c", &["default"], &[OLD]);
}

/// What lets such readers in must not let all readers in for ever.
#[test]
fn overlapping_readers_do_not_starve_writers() {
    let path = compile(&program("overlapping_readers.c"));
    for choice in [DEFAULT, SPIN, HQ, MOSTLY, PER_CPU] {
        for words in [["6", "2", "300"], ["12", "4", "1000"]] {
            let mut command = Command::new(&path);
            let found = run(command.args(words).env("LD_PRELOAD", library()).envs(choice.iter().copied()), LIMIT);
            assert!(found.ok && found.out == "both\n", "{choice:?} {words:?}: {}{}", found.out, found.err);
        }
    }
}

/// A lock is not kept for a waiter that does not come. (The kernel's policies of rwsem give the
/// lock to a sleeping waiter, as the kernel does: not here.)
#[test]
fn a_stopped_waiter_keeps_nobody_out() {
    let hq = [("LOCKYARD_MUTEX", "hq"), ("LOCKYARD_SPIN", "hq")];
    same("stopped.c", &[], &[DEFAULT, RT, &hq, SPIN, PER_CPU]);
}

/// (glibc's rwlocks count readers that waited in the parent, and hang.)
#[test]
fn what_is_held_over_a_fork_is_the_childs() {
    let path = compile(&program("fork_held.c"));
    // The kernel's rwsems count a reader of the parent that was not in yet.
    let choices = [
        (DEFAULT, "readers"),
        (QRW, "readers"),
        (SPIN, "readers"),
        (HQ, "writers"),
        (RT, "readers"),
        (MOSTLY, "readers"),
        (PER_CPU, "writers"),
    ];
    for (choice, who) in choices {
        let mut command = Command::new(&path);
        let found = run(command.arg(who).env("LD_PRELOAD", library()).envs(choice.iter().copied()), LIMIT);
        assert!(found.ok && found.out.lines().count() == 4, "{choice:?}: {}{}", found.out, found.err);
    }
}

#[test]
fn exclusion_under_contention() {
    same("exclusion.c", &[], &[DEFAULT, SPIN, HQ, OLD, MOSTLY, PER_CPU]);
}

#[test]
fn ten_thousand_threads() {
    same("threads.c", &[], &[DEFAULT]);
}

#[test]
fn a_new_thread_is_not_an_owner_that_has_exited() {
    same("owners.c", &[], &[DEFAULT, SPIN, HQ, OLD, RT, PER_CPU]);
}

#[test]
fn in_a_sandbox_that_kills_for_calls_of_ours() {
    same("sandbox.c", &[], ALL);
}

/// A child was ended at its first wait, when it opened its statistics, and the parent as it closed
/// its own.
#[test]
fn the_child_of_a_process_in_a_sandbox_opens_no_file() {
    same("forked_sandbox.c", &[], &[DEFAULT, TOLD]);
}

#[test]
fn c11() {
    same("c11.c", &[], &[DEFAULT]);
}

#[test]
fn cpp() {
    same("cpp.cc", &[], ALL);
}

#[test]
fn libraries_that_come_and_go() {
    let plugin = compile(&program("plugin.c"));
    same("dlopen.c", &[plugin.to_str().unwrap()], &[DEFAULT]);
}

/// Of two implementations on one mutex, both would believe that they hold it.
#[test]
fn a_library_bound_deeply_shares_the_programs_mutex() {
    let plugin = compile(&program("plugin.c"));
    same("deepbind.c", &[plugin.to_str().unwrap()], &[DEFAULT, SPIN]);
    let path = compile(&program("deepbind.c"));
    let glibcs = ["LOCKYARD_MUTEX", "LOCKYARD_RWLOCK", "LOCKYARD_SPIN", "LOCKYARD_SEM"].map(|name| (name, "glibc"));
    for (choice, lines) in [(DEFAULT, 1), (&glibcs[..1], 1), (&glibcs, 0)] {
        let mut command = Command::new(&path);
        command.arg(&plugin).env("LD_PRELOAD", library()).envs(choice.iter().copied());
        let found = run(&mut command, LIMIT);
        let said = found.err.matches("lockyard: dlopen without RTLD_DEEPBIND").count();
        assert!(found.ok && found.err.lines().count() == lines && said == lines, "{choice:?}: {}", found.err);
    }
}

/// The loader looks for a library where the one that calls says: it must see that one through ours.
#[test]
fn the_loader_knows_which_library_calls() {
    let folder = compile(&program("plugin.c")).with_file_name(format!("runpath-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    let build = |name: &str, text: &str, words: &[&str]| {
        let source = folder.join("source.c");
        std::fs::write(&source, text).unwrap();
        let mut compiler = compiler(false);
        compiler.args(["-o", name]).arg(&source).args(words).arg("-ldl").current_dir(&folder);
        assert!(compiler.status().unwrap().success(), "{compiler:?}");
    };
    build("inner/sought.so", "int answer = 42;", &["-shared", "-fPIC"]);
    let outer = "#include <dlfcn.h>\nvoid *seek(int deep) { return dlopen(\"sought.so\", RTLD_NOW | deep); }";
    build("outer.so", outer, &["-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"]);
    let main = "#define _GNU_SOURCE\n#include <dlfcn.h>\nvoid *seek(int);\nint main(void) { return !seek(0) || !seek(RTLD_DEEPBIND); }";
    build("main", main, &["outer.so", "-Wl,-rpath,$ORIGIN"]);
    for preload in [Path::new(""), library()] {
        let found = run(Command::new(folder.join("main")).env("LD_PRELOAD", preload), LIMIT);
        assert!(found.ok, "{preload:?}: {}", found.err);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// glibc itself refuses a child the recursive mutex that its parent took (it goes by the kernel's
/// thread id), so there is nothing to compare with.
#[test]
fn fork() {
    let path = compile(&program("fork.c"));
    for choice in [DEFAULT, OLD, QRW, RT, PER_CPU] {
        let found = run(Command::new(&path).env("LD_PRELOAD", library()).envs(choice.iter().copied()), LIMIT);
        assert!(found.ok && found.out == "grandchild: 4\nall forks went well\n", "{}{}", found.out, found.err);
    }
}

#[test]
fn what_stays_glibcs_works_and_is_counted() {
    same("fallback.c", &[], ALL);
    let path = compile(&program("fallback.c"));
    let counted = run(Command::new(path).env("LD_PRELOAD", library()), LIMIT).err;
    for line in ["fallback_pi 2", "fallback_ceiling 1", "fallback_robust 1", "fallback_unknown 0", "fallback_chosen 0"]
    {
        assert!(counted.lines().any(|found| found == line), "{line}: {counted}");
    }
    let number = |name: &str| -> u32 {
        let line = counted.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse().unwrap()
    };
    // Mutex, condition variable, rwlock, semaphore, spinlock; each wait on the shared condition
    // variable as well.
    assert!(number("fallback_shared") >= 5, "{counted}");
    assert!(number("fallback_mutex") >= 2, "{counted}");
}

#[test]
fn a_lock_that_does_not_exist_is_one_line_and_glibcs_locks() {
    let path = compile(&program("kinds.c"));
    let expected = run(&mut Command::new(&path), LIMIT);
    for (variable, value) in [
        ("LOCKYARD_MUTEX", "fast"),
        ("LOCKYARD_RWLOCK", "rwsem:tomorrow"),
        ("LOCKYARD_SPIN", ""),
        ("LOCKYARD_SEM", "x y"),
    ] {
        let found: Run = run(Command::new(&path).env("LD_PRELOAD", library()).env(variable, value), LIMIT);
        assert!(found.ok && found.out == expected.out, "{}{}", found.out, found.err);
        if value.is_empty() {
            assert_eq!(found.err, "");
        } else {
            assert!(
                found.err.starts_with(&format!("lockyard: {variable}={value}: unknown lock (choose from ")),
                "{}",
                found.err
            );
            assert!(
                found.err.ends_with("); all locks are glibc's\n") && found.err.lines().count() == 1,
                "{}",
                found.err
            );
        }
    }
}

/// A user can make its file shorter, which ends a process that counts there, and can open it again
/// after it was taken back.
#[test]
fn roots_segment_is_given_away_only_with_root() {
    let path = compile(&program("users.c"));
    let told = |how: &str| {
        let mut command = Command::new(&path);
        let found = run(command.arg(how).env("LD_PRELOAD", library()).env("LOCKYARD_STAT", "1"), LIMIT);
        assert!(found.ok, "{how}:\n{}{}", found.out, found.err);
        found.out
    };
    let owners = |how: &str| -> Vec<String> {
        told(how).lines().filter_map(|line| Some(line.rsplit_once(": ")?.1.to_owned())).collect()
    };
    let first = told("");
    if first.starts_with("skipped") {
        return eprint!("{first}");
    }
    assert_eq!(owners("for a time"), ["0"; 16]);
    for call in ["setuid", "setreuid", "setresuid"] {
        assert_eq!(owners(call), ["0", "65534"], "{call}");
    }
    for how in ["keeping rights", "another file", "another name"] {
        assert_eq!(owners(how), ["0", "0"], "{how}");
    }
    assert_eq!(owners("refused"), ["0", "-1"]);
    told(""); // removes what the others could not
}

/// What a program pays at start: nothing but the loader's work for one more library.
#[test]
fn what_older_glibcs_lack_is_referenced_weakly() {
    let path = library().to_str().unwrap();
    let listed = Command::new("readelf").args(["--dyn-syms", "-W", path]).output().expect("readelf (binutils)");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for symbol in ["__rseq_offset", "__rseq_size", "__libc_single_threaded"] {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(symbol)).collect();
        assert!(lines.len() == 1 && lines[0].contains(" WEAK "), "{symbol}: {lines:?}");
    }
}

#[test]
fn the_library_needs_nothing_but_libc() {
    let listed = Command::new("readelf").args(["-d", library().to_str().unwrap()]).stderr(Stdio::null()).output();
    static NEEDED: OnceLock<Vec<String>> = OnceLock::new();
    let needed = NEEDED.get_or_init(|| {
        let text = String::from_utf8_lossy(&listed.as_ref().expect("readelf (binutils)").stdout).into_owned();
        text.lines().filter(|line| line.contains("(NEEDED)")).map(str::to_owned).collect()
    });
    for line in needed {
        assert!(["libc.so", "libgcc_s.so", "ld-linux"].iter().any(|name| line.contains(name)), "{line}");
    }
}
