//! `stat --stacks`: where the holder of a lock and its first waiter are, call by call.
//!
//! elfutils' `eu-stack` unwinds them. It stops the process for as long as that takes, some
//! milliseconds. The locks were looked at a moment before: a thread that has gone on since is shown
//! where it is. Calls inside the locks themselves are left out.

use std::fmt::Write;
use std::process::{Command, Stdio};

use lockyard_segment::Sample;
use lockyard_segment::sample::ThreadSample;

use crate::deadlock;
use crate::failure::Failure;
use crate::report::verdict::called;
use crate::symbols::{is_wrapper, is_wrappers, last_part, short};

/// Calls that people read, of each thread.
const MOST: usize = 12;
/// Calls that are asked for: recursion may be deep.
const ASKED: &str = "200";

/// A call on a stack.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    name: String,
    module: String,
    /// `store.c:88`; empty: not known.
    at: String,
    /// Whether it is a call inside a lock.
    inside: bool,
}

/// The stacks of the thread that has waited longest, and of the thread that holds what it waits
/// for; a line instead where nobody waits.
///
/// # Errors
/// `eu-stack` is missing, or may not look.
pub(crate) fn told(sample: &Sample) -> Result<String, Failure> {
    let waiting = sample.waiters.iter().filter_map(|thread| Some((thread, thread.waits.as_ref()?)));
    let Some((waiter, wait)) = waiting.max_by_key(|(_, wait)| wait.ns) else {
        return Ok("\n  Stacks: no thread waits now.\n".to_owned());
    };
    let holder = deadlock::holders(&sample.waiters, waiter, wait).first().map(|&(index, _)| &sample.waiters[index]);
    let mut text = String::new();
    match holder {
        Some(holder) => text += &stack(holder, "the holder, ")?,
        None => text += "\n  Stacks: the holder is not known.\n",
    }
    text += &stack(waiter, "has waited longest, ")?;
    Ok(text)
}

fn stack(thread: &ThreadSample, what: &str) -> Result<String, Failure> {
    let mut text = format!("\n  Stack of {}, {what}innermost call first:\n", called(thread.thread, &thread.name));
    let calls = of_thread(thread.thread)?;
    let outside = calls.iter().position(|call| !call.inside).unwrap_or(0);
    for call in calls.iter().skip(outside).take(MOST) {
        let at = if call.at.is_empty() { last_part(&call.module) } else { &call.at };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {} ({at})", call.name);
    }
    let more = calls.len().saturating_sub(outside + MOST);
    if more > 0 {
        let _ = writeln!(text, "    and {more} more");
    }
    Ok(text)
}

/// The calls of the thread, the innermost first.
fn of_thread(thread: u32) -> Result<Vec<Call>, Failure> {
    let mut command = Command::new("eu-stack");
    // One thread; source lines, inlined calls, modules.
    command.args(["-1", "-s", "-i", "-m", "-n", ASKED, "-p", &thread.to_string()]);
    let output = command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::usage("--stacks: eu-stack is missing; install elfutils (apt-get install elfutils)")
        }
        _ => Failure::run(format!("--stacks: eu-stack: {error}")),
    })?;
    let calls = parsed(&String::from_utf8_lossy(&output.stdout));
    if calls.is_empty() {
        // It says more on lines behind, and ends with an error for very deep stacks as well.
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().next().unwrap_or("eu-stack says nothing").to_owned();
        let hint = "the thread has ended, or this user may not trace it (see ptrace(2))";
        return Err(Failure::run(format!("--stacks: thread {thread}: {why}; {hint}")));
    }
    Ok(calls)
}

/// What `eu-stack` prints: `#1  0x000055c5f640a1cc inner - /tmp/hold`, below it a line of source.
fn parsed(text: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            let rest = line.split_once(" 0x").and_then(|(_, rest)| rest.split_once(' ')).map_or("", |(_, rest)| rest);
            let (name, module) = rest.rsplit_once(" - ").unwrap_or((rest, ""));
            let name = without_hash(name.trim());
            let inside = last_part(module).starts_with("liblockyard") || is_wrapper(&name);
            let name = if name.is_empty() { "?".to_owned() } else { short(&name) };
            calls.push(Call { name, module: module.to_owned(), at: String::new(), inside });
        } else if let (Some(call), Some(place)) = (calls.last_mut(), line.strip_prefix("    ")) {
            let mut parts = place.split(':');
            let (file, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            call.inside |= is_wrappers(file) || is_ours(file);
            call.at = format!("{}:{number}", last_part(file));
        }
    }
    calls
}

/// A Rust name without the hash at its end.
fn without_hash(name: &str) -> String {
    let hash =
        name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    hash.map_or(name, |(name, _)| name).to_owned()
}

/// Whether the file is of a package of ours.
fn is_ours(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    let ours = |part: &str| part == "lockyard" || part.starts_with("lockyard-");
    parts.windows(2).any(|two| ours(two[0]) && two[1] == "src")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "PID 7 - process\nTID 9:\n\
#0  0x00007fd60feb5d44 park - /opt/locks.so\n    crates/lockyard/src/platform/linux/mod.rs:222:6\n\
#1  0x00007fd60fe4ec05 lockyard::internals::wait::turn::queued::wait::hecb5478a730ef090 - /opt/app\n\
#2  0x0000558553f471a3 get - /tmp/hold\n    /tmp/hold.c:6:24\n\
#3  0x0000558553f471a3 - 1 - /tmp/hold\n\
#4  0x00007fd60fd2b8ec\n";

    #[test]
    fn frames_are_read_and_those_of_locks_are_marked() {
        let calls = parsed(SAID);
        let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.at.as_str(), call.inside)).collect();
        let expected = [
            ("park", "mod.rs:222", true),
            ("lockyard::internals::wait::turn::queued::wait", "", true),
            ("get", "hold.c:6", false),
            ("- 1", "", false),
            ("?", "", false),
        ];
        assert_eq!(seen, expected);
        assert_eq!(parsed("nothing\n"), []);
    }

    #[test]
    fn where_nobody_waits_nothing_is_asked() {
        assert!(told(&Sample::default()).is_ok_and(|text| text.contains("no thread waits now")));
    }

    #[test]
    fn a_thread_that_is_not_there_is_a_line() {
        // Whether or not elfutils are installed.
        let failure = format!("{:?}", of_thread(u32::MAX >> 1));
        assert!(failure.contains("--stacks: "), "{failure}");
    }
}
