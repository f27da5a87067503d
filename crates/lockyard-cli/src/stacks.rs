//! `stat --stacks`: where the holder of a lock and its first waiter are, call by call.
//!
//! elfutils' `eu-stack` unwinds them. It stops the process for as long as that takes, some
//! milliseconds. The locks were looked at a moment before: a thread that has gone on since is shown
//! where it is. Calls inside the locks themselves are left out, and those of Rust's runtime before
//! a thread's own function.

use std::fmt::Write;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockyard_segment::Sample;
use lockyard_segment::sample::{Place, ThreadSample};
use rustix::process::{Pid, Signal, kill_process};

use crate::deadlock;
use crate::failure::Failure;
use crate::interrupt;
use crate::report::facts::called;
use crate::symbols::{Symbols, demangled, is_wrapper, is_wrappers, last_part, short};

/// Calls that people read, of each thread.
const MOST: usize = 20;
/// Calls that are asked for: recursion may be deep.
const ASKED: &str = "200";
/// What Rust's runtime calls a thread's function by, in name and purpose.
const RUNTIME: &str = "__rust_begin_short_backtrace";
/// Reading the debug information of a large program takes seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// A call on a stack.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    name: String,
    module: String,
    /// `store.c:88`; empty: not known.
    at: String,
    /// Where the module begins, and the place of the call there.
    within: (u64, u64),
    /// Whether it is a call inside a lock.
    inside: bool,
}

/// The stacks of the thread that has waited longest, and of the thread that holds what it waits
/// for, both of `process`; a line instead where nobody waits, or where a stack is not to be had.
///
/// # Errors
/// `eu-stack` is missing, or the look was interrupted.
pub(crate) fn told(sample: &Sample, process: u32, symbols: &Symbols) -> Result<String, Failure> {
    let waiting = sample.waiters.iter().filter_map(|thread| Some((thread, thread.waits.as_ref()?)));
    let Some((waiter, wait)) = waiting.max_by_key(|(_, wait)| wait.ns) else {
        return Ok("\n  Stacks: no thread waits now.\n".to_owned());
    };
    let holder = deadlock::holders(&sample.waiters, waiter, wait).first().map(|holder| &sample.waiters[holder.thread]);
    let mut text = match holder {
        Some(holder) => stack(process, holder, "the holder, ", symbols)?,
        None => "\n  Stacks: the holder is not known.\n".to_owned(),
    };
    text += &stack(process, waiter, "has waited longest, ", symbols)?;
    Ok(text)
}

fn stack(process: u32, thread: &ThreadSample, what: &str, symbols: &Symbols) -> Result<String, Failure> {
    let mut text = format!("\n  Stack of {}, {what}innermost call first:\n", called(thread.thread, &thread.name));
    let calls = match outer_name(process, thread.thread) {
        Some(outer) => of_thread(process, outer)?,
        None => Err("the thread has ended".to_owned()),
    };
    let calls = match calls {
        Ok(calls) => calls,
        Err(why) => return Ok(text + &format!("    not to be had: {why}\n")),
    };
    let calls = outside(&calls, thread.waits.as_ref().map(|wait| &wait.place), symbols);
    for call in calls.iter().take(MOST) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {call}");
    }
    let more = calls.len().saturating_sub(MOST);
    if more > 0 {
        let _ = writeln!(text, "    and {more} more");
    }
    Ok(text)
}

/// The `calls` of a thread that are not inside a lock, as people read them; `asks`: the place where
/// it asks for the lock that it waits for.
fn outside(calls: &[Call], asks: Option<&Place>, symbols: &Symbols) -> Vec<String> {
    let line = |call: &Call| {
        let at = if call.at.is_empty() { last_part(&call.module) } else { &call.at };
        format!("{} ({at})", call.name)
    };
    let asking = |call: &Call| asks.is_some_and(|place| call.is_at(place, symbols));
    let own = calls.iter().take_while(|call| !call.name.ends_with(RUNTIME));
    match (asks, calls.iter().position(asking)) {
        (Some(place), Some(first)) => {
            let (at, outer): (Vec<_>, Vec<_>) = own.skip(first).partition(|call| asking(call));
            let mut lines: Vec<_> = at.into_iter().filter(|call| !call.inside).map(line).collect();
            // With little debug information all that is inlined there is one call.
            if lines.is_empty() {
                lines.push(symbols.line(place));
            }
            lines.extend(outer.into_iter().map(line));
            lines
        }
        // It waits no more, or it is not known where.
        _ => own.skip_while(|call| call.inside).map(line).collect(),
    }
}

/// What this command calls the thread that its own process, perhaps in a container, calls `thread`.
fn outer_name(process: u32, thread: u32) -> Option<u32> {
    let names = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    names.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(|name: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/task/{name}/status")).unwrap_or_default();
        let inner = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        inner.and_then(|names| names.split_whitespace().last()?.parse().ok()).unwrap_or(*name) == thread
    })
}

/// The calls of the thread, the innermost first; else why they are not to be had.
///
/// # Errors
/// As [`told`].
fn of_thread(process: u32, thread: u32) -> Result<Result<Vec<Call>, String>, Failure> {
    let mut command = Command::new("eu-stack");
    // One thread; places in modules, source lines, inlined calls, modules.
    command.args(["-1", "-b", "-s", "-i", "-m", "-n", ASKED, "-p", &thread.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let stood = is_stopped(process);
    let child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::usage("--stacks: eu-stack is missing; install elfutils (apt-get install elfutils)")
        }
        _ => Failure::run(format!("--stacks: eu-stack: {error}")),
    })?;
    let output = within(LIMIT, child);
    if !stood && output.as_ref().is_ok_and(|output| output.status.code().is_none()) {
        // It died while it held the process: that must not stay stopped.
        if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
            let _ = kill_process(process, Signal::CONT);
        }
    }
    if interrupt::asked() {
        return Err(Failure::run("--stacks: interrupted"));
    }
    Ok(output.and_then(|output| {
        let calls = parsed(&String::from_utf8_lossy(&output.stdout));
        // It says more on lines behind, and ends with an error for very deep stacks as well.
        let said = String::from_utf8_lossy(&output.stderr);
        let why = || said.lines().next().unwrap_or("eu-stack says nothing").to_owned();
        if calls.is_empty() { Err(format!("{} (may this user trace it? see ptrace(2))", why())) } else { Ok(calls) }
    }))
}

/// Whether the process is stopped, by a signal or a tracer.
fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    matches!(state, Some("T" | "t"))
}

/// What `child` has said; it is killed if it has not ended within `limit`.
fn within(limit: Duration, child: Child) -> Result<Output, String> {
    let id = Pid::from_child(&child);
    let (told, ended) = mpsc::channel();
    thread::spawn(move || told.send(child.wait_with_output()));
    let mut output = ended.recv_timeout(limit);
    if output.is_err() {
        // It may have ended this moment.
        let _ = kill_process(id, Signal::KILL);
        output = ended.recv_timeout(limit);
    }
    match output {
        Ok(output) => output.map_err(|error| format!("eu-stack cannot be heard: {error}")),
        Err(_) => Err(format!("eu-stack does not end in {} s", 2 * limit.as_secs())),
    }
}

impl Call {
    /// Whether `place` is behind the call, or somewhere else in the same line and function.
    fn is_at(&self, place: &Place, symbols: &Symbols) -> bool {
        if place.file.is_empty() || !last_part(&self.module).starts_with(last_part(&place.file)) {
            return false;
        }
        let (begin, offset) = self.within;
        // A program that is not relocated has addresses for places.
        [offset + 1, begin.saturating_add(offset + 1)].into_iter().any(|behind| {
            let spot = || symbols.call(&Place { place: behind, ..place.clone() });
            behind == place.place || spot().is_some_and(|spot| symbols.call(place) == Some(spot))
        })
    }
}

/// What `eu-stack` prints: `#1  0x000055c5f640a1cc inner - /tmp/hold`, below it its place in the
/// module, `[build id]@0x55c5f63fe000+0xc1cb`, and a line of source.
fn parsed(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            // What comes after the address, with the space before it.
            let rest = line.split_once(" 0x").and_then(|(_, rest)| Some(&rest[rest.find(' ')?..])).unwrap_or_default();
            let (name, path) = rest.split_once(" - /").unwrap_or((rest, ""));
            let module = if path.is_empty() { String::new() } else { format!("/{path}") };
            let name = plain(name.trim());
            let inside =
                last_part(&module).starts_with("liblockyard") || is_wrapper(&name) || name.starts_with("rustix::");
            let name = if name.is_empty() { "?".to_owned() } else { short(&name) };
            calls.push(Call { name, module, inside, ..Call::default() });
        } else if let (Some(call), Some(place)) = (calls.last_mut(), line.strip_prefix("    ")) {
            if place.starts_with('[') {
                call.within = within_module(place).unwrap_or_default();
                continue;
            }
            let mut parts = place.split(':');
            let (file, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            call.inside |= is_wrappers(file) || is_ours(file);
            call.at = format!("{}:{number}", last_part(file));
        }
    }
    calls
}

/// What `[build id]@0x55c5f63fe000+0xc1cb` says.
fn within_module(text: &str) -> Option<(u64, u64)> {
    let (_, numbers) = text.rsplit_once("]@0x")?;
    let (begin, offset) = numbers.split_once("+0x")?;
    Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(offset, 16).ok()?))
}

/// A name as its compiler's users know it. `eu-stack` knows no mangled names of Rust, and makes of
/// its older ones what they would be in C++.
fn plain(name: &str) -> String {
    let hash =
        name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    let name = demangled(hash.map_or(name, |(name, _)| name));
    if !name.contains('$') {
        return name;
    }
    const LETTERS: [(&str, &str); 12] = [
        ("_$", "$"),
        ("..", "::"),
        ("$LT$", "<"),
        ("$GT$", ">"),
        ("$RF$", "&"),
        ("$BP$", "*"),
        ("$LP$", "("),
        ("$RP$", ")"),
        ("$C$", ","),
        ("$u20$", " "),
        ("$u7b$", "{"),
        ("$u7d$", "}"),
    ];
    LETTERS.iter().fold(name, |name, (mangled, letter)| name.replace(mangled, letter))
}

/// Whether the file is of a package of ours, or of what ours call the kernel by.
fn is_ours(file: &str) -> bool {
    const PACKAGES: [&str; 6] =
        ["lockyard", "lockyard-preload", "lockyard-capi", "lockyard-segment", "lockyard-stat", "rustix"];
    let parts: Vec<&str> = file.split('/').collect();
    let is_package = |part: &str| {
        let rest =
            |package: &&str| part.strip_prefix(*package).map(|rest: &str| rest.strip_prefix('-').unwrap_or(rest));
        let version = |rest: &str| rest.is_empty() || rest.starts_with(|first: char| first.is_ascii_digit());
        PACKAGES.iter().filter_map(rest).any(version)
    };
    parts.windows(2).any(|two| is_package(two[0]) && two[1] == "src")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "PID 7 - process\nTID 9:\n\
#0  0x00007fd60feb5d44 park - /opt/locks.so\n    crates/lockyard/src/platform/linux/mod.rs:222:6\n\
#1  0x00007fd60fe4ec05 lockyard::internals::wait::turn::queued::wait::hecb5478a730ef090 - /opt/app\n\
#2  0x0000558553f471a3 get - /tmp/hold\n    /tmp/hold.c:6:24\n\
#3  0x0000558553f471a3 - /opt/a - b/app\n\
#4  0x00007fd60fd2b8ec\n";

    #[test]
    fn frames_are_read_and_those_of_locks_are_marked() {
        let calls = parsed(SAID);
        let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.at.as_str(), call.inside)).collect();
        let expected = [
            ("park", "mod.rs:222", true),
            ("lockyard::internals::wait::turn::queued::wait", "", true),
            ("get", "hold.c:6", false),
            ("?", "", false),
            ("?", "", false),
        ];
        assert_eq!(seen, expected);
        assert_eq!(calls[3].module, "/opt/a - b/app");
        assert_eq!(parsed("nothing\n"), []);
    }

    /// What eu-stack prints of a call of a program; `at`: its place there.
    fn printed((name, at, line): (&str, u64, &str)) -> String {
        let begin = 0x7fd6_0fe0_0000_u64;
        let line = if line.is_empty() { String::new() } else { format!("    {line}\n") };
        format!("#0  {:#018x} {name} - /a/app\n    [c661]@{begin:#x}+{at:#x}\n{line}", begin + at + 1)
    }

    /// Twelve calls of the lock were shown, and none of the program.
    #[test]
    fn the_stack_of_a_waiting_thread_begins_where_the_program_asks_for_the_lock() {
        let park =
            "_$LT$lockyard..platform..Linux$u20$as$u20$lockyard..platform..Platform$GT$::park::h04c16f968e64e0b3";
        let lock = [
            (park, 0xb5d43, "/rustc/5980/library/std/src/thread/local.rs:513:12"),
            ("{closure#1}<lockyard::Infallible>", 0x4ec04, "/w/crates/lockyard/src/api/calls.rs:271:30"),
            ("take", 0x4ec84, "src/linux.rs:98:17"),
        ];
        let program = [
            ("app::request::h548fa27d1bc5b389", 0x4ed04, "/w/crates/lockyard/src/api/calls.rs:274:5"),
            ("handle", 0x4ed84, "src/app.rs:5:31"),
            ("_RNvNtNtCsjrHSEGnQ3l9_3std6thread9functions5sleep", 0x4ee04, ""),
            ("__rust_begin_short_backtrace<app::main::{closure_env#1}, ()>", 0x4ee84, ""),
            ("start_thread", 0x4ef04, ""),
        ];
        let text: String = lock.into_iter().chain(program).map(printed).collect();
        let shown = |text: &str, place| {
            outside(&parsed(text), Some(&Place { file: "/a/app".to_owned(), place }), &Symbols::default())
        };
        // What is inlined there has no names: they are looked up.
        let lines = shown(&text, 0x4ed05);
        assert_eq!(lines, ["app+0x4ed05", "handle (app.rs:5)", "std::thread::functions::sleep (app)"]);
        assert_eq!(shown(&text, 0x7fd6_0fe4_ed05)[1..], lines[1..], "a program that is not relocated");
        assert_eq!(shown(&text, 0x99)[0], "take (linux.rs:98)", "it has gone on");
        let named = text.replace("handle", "outer").replace("ed84", "ed04");
        assert_eq!(shown(&named, 0x4ed05)[0], "outer (app.rs:5)", "it has names");
    }

    #[test]
    fn packages_are_told_from_others_of_such_names() {
        assert!(
            is_ours("/r/registry/src/x/rustix-1.1.6/src/thread/futex.rs") && is_ours("crates/lockyard/src/mutex.rs")
        );
        assert!(is_ours("/r/lockyard-0.2.0/src/a.rs") && !is_ours("/home/me/lockyard-tool/src/main.rs"));
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let child = Command::new("sleep").arg("1000").stdout(Stdio::piped()).spawn().expect("a program");
        let output = within(Duration::from_secs(1), child).expect("it is killed");
        assert_eq!(output.status.code(), None);
    }

    #[test]
    fn where_nobody_waits_nothing_is_asked() {
        assert!(
            told(&Sample::default(), 1, &Symbols::default()).is_ok_and(|text| text.contains("no thread waits now"))
        );
    }

    #[test]
    fn threads_are_found_by_the_name_that_their_process_has_for_them() {
        let me = std::process::id();
        assert_eq!((outer_name(me, u32::MAX), outer_name(u32::MAX, me)), (None, None));
        let inner = rustix::thread::gettid().as_raw_pid() as u32;
        assert!(outer_name(me, inner).is_some());
    }
}
