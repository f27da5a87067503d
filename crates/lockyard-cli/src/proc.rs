//! What `/proc` tells of a process that runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::elf;

/// Ticks of a second in `/proc`: the kernel's promise to programs.
pub(crate) const TICKS: f64 = 100.0;

/// Where the file system of `process` begins, if it is not ours: in a container.
pub(crate) fn other_root(process: u32) -> Option<PathBuf> {
    let namespace = |whose: &str| fs::read_link(format!("/proc/{whose}/ns/mnt")).ok();
    let (its, ours) = (namespace(&process.to_string())?, namespace("self")?);
    (its != ours).then(|| PathBuf::from(format!("/proc/{process}/root")))
}

/// The file that `process` runs.
pub(crate) fn file_of(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok().or_else(|| command(process))
}

/// What `process` was started as, if it gains privileges by that: its file may not be asked for.
pub(crate) fn command(process: u32) -> Option<PathBuf> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let file = elf::file_of(OsStr::from_bytes(line.split(|byte| *byte == 0).next()?))?;
    elf::gains_privileges(&file).map(|_| file)
}

/// The last process or thread that began anywhere.
pub(crate) fn last_begun() -> Option<u64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

/// The file that a process calls `path`, whose file system begins at `root`.
pub(crate) fn inside(root: Option<&Path>, path: &Path) -> PathBuf {
    root.map_or_else(|| path.to_owned(), |root| root.join(path.strip_prefix("/").unwrap_or(path)))
}

/// The time that CPUs gave to `process`, or, with `of_children`, to the children that it has waited
/// for, and theirs.
pub(crate) fn cpu_time(process: u32, of_children: bool) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let first = if of_children { 13 } else { 11 };
    let fields = stat.rsplit(')').next()?.split_whitespace().skip(first).take(2);
    let ticks = fields.map(|field| field.parse::<u32>().ok()).sum::<Option<u32>>()?;
    Some(Duration::from_secs_f64(f64::from(ticks) / TICKS))
}

/// The time that CPUs gave to a thread of `process`, ns. Of one that runs up to its last tick.
pub(crate) fn cpu_time_of_thread(process: u32, thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// The name of a thread of `process`: the kernel's, of at most 15 bytes.
pub(crate) fn name_of_thread(process: u32, thread: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{process}/task/{thread}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The address of the word for which a thread of `process` sleeps in the system call `futex`.
pub(crate) fn futex_of(process: u32, thread: u32) -> Option<u64> {
    let call = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).ok()?;
    let mut words = call.split_whitespace();
    let address = words.next().filter(|word| *word == FUTEX).and(words.next())?;
    u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()
}

/// Whether `thread` is a number of a thread of `process`. In another namespace of process ids its
/// numbers are others there: then every number may be one.
pub(crate) fn is_thread(process: u32, thread: u64) -> bool {
    let namespace = |whose: &str| fs::read_link(format!("/proc/{whose}/ns/pid")).ok();
    Path::new(&format!("/proc/{process}/task/{thread}")).exists()
        || namespace(&process.to_string()).is_some_and(|its| Some(its) != namespace("self"))
}

/// The number of the system call `futex`.
const FUTEX: &str = if cfg!(target_arch = "x86_64") { "202" } else { "98" };
/// Its operation where a thread is joined: not private, since the kernel itself wakes it. Objects
/// that processes share have it as well.
const JOIN: &str = "0x109";

/// Whether `call`, the text of a thread's `syscall`, is a futex call that joins no thread: a join
/// waits while the word is the number of one.
pub(crate) fn waits_in_futex(call: &str, is_thread: &dyn Fn(u64) -> bool) -> bool {
    let mut words = call.split_whitespace();
    if words.next() != Some(FUTEX) {
        return false;
    }
    if words.nth(1) != Some(JOIN) {
        return true;
    }
    let expected = words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    !expected.is_some_and(is_thread)
}

/// Whether `call` sleeps for a time, gives the CPU away, or waits for a lock of a file or a
/// semaphore of System V: what locks of a program's own making wait with.
pub(crate) fn sleeps(call: &str) -> bool {
    const IS_X86: bool = cfg!(target_arch = "x86_64");
    // nanosleep, clock_nanosleep, sched_yield, flock, semop, semtimedop.
    const CALLS: [&str; 6] =
        if IS_X86 { ["35", "230", "24", "73", "65", "220"] } else { ["101", "115", "124", "32", "193", "192"] };
    // With F_SETLKW, F_OFD_SETLKW.
    const FCNTL: &str = if IS_X86 { "72" } else { "25" };
    // Of no file: select, pselect; poll, ppoll. (AArch64 has neither the first nor the third.)
    const SELECT: [&str; 2] = if IS_X86 { ["23", "270"] } else { ["72"; 2] };
    const POLL: [&str; 2] = if IS_X86 { ["7", "271"] } else { ["73"; 2] };
    let mut words = call.split_whitespace();
    let Some(number) = words.next() else { return false };
    match number {
        FCNTL => matches!(words.nth(1), Some("0x7" | "0x26")),
        number if SELECT.contains(&number) => words.next() == Some("0x0"),
        number if POLL.contains(&number) => words.nth(1) == Some("0x0"),
        number => CALLS.contains(&number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_is_no_wait_for_a_lock() {
        let call = |operation: &str, word: &str| format!("{FUTEX} 0x7f00 {operation} {word} 0x0 0x0 0xffffffff 0x7ffc");
        let waits = |call: &str| waits_in_futex(call, &|thread| thread == 0x1f);
        assert!(waits(&call("0x189", "0x1f")) && waits(&call("0x80", "0x1f")) && !waits(&call(JOIN, "0x1f")));
        assert!(!waits("running") && !waits("0 0x0 0x189 0x2") && !waits(&format!("{FUTEX}0 0x0 0x189 0x2")));
        assert!(!sleeps(&call("0x80", "0x0")) && !sleeps("running") && !sleeps("1 0x3"));
        if cfg!(target_arch = "x86_64") {
            assert!(sleeps("35 0x7ffc 0x0") && sleeps("72 0x3 0x7 0x7ffc") && !sleeps("72 0x3 0x1 0x0"));
            assert!(sleeps("23 0x0 0x0") && !sleeps("23 0x4 0x0") && sleeps("7 0x0 0x0") && !sleeps("7 0x7f 0x1"));
        }
        // A mutex that processes share, with a deadline.
        assert!(waits(&call(JOIN, "0x2")) && waits(&call(JOIN, "")));
        let own = std::process::id();
        assert!(is_thread(own, own.into()) && !is_thread(own, u64::MAX));
    }
}
