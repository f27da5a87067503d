//! What the file of a program says about the locks that the program brings along.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lockyard_segment as segment;

/// How much of a file is searched.
const MOST: u64 = 256 << 20;
/// The lock families that a program can bring along: a text that it has in its file, what its locks
/// are, and the way in.
const OWN_LOCKS: [(&[u8], &str, &str); 6] = [
    (
        b"/library/std/src/",
        "is a Rust program, whose std and parking_lot locks are not pthread's",
        "Lockyard's locks with the crate lockyard-stat are seen, and `perf record -e syscalls:sys_enter_futex -g` shows where it waits",
    ),
    (
        b"Py_BytesMain",
        "is a Python interpreter, whose global lock is a condition variable",
        "`py-spy record --gil` shows who holds it",
    ),
    (b"\xff Go buildinf:", "is a Go program, whose locks are Go's", "use Go's mutex and block profiles"),
    (b"N4absl5Mutex", "has abseil's mutexes, which are not pthread's", "link it with liblockyard"),
    (b"N5folly11SharedMutex", "has folly's mutexes, which are not pthread's", "link it with liblockyard"),
    (b"Java_java_lang", "is a Java virtual machine, whose monitors are its own", "use Java Flight Recorder"),
];

/// What the file of `program` says about locks that are not pthread's, and the way in.
pub(crate) fn own_locks(program: &Path) -> Option<String> {
    let bytes = contents(program);
    // liblockyard has Rust's library in it.
    let is_c = has(&bytes, segment::is_of_c);
    let (_, what, way) = OWN_LOCKS.iter().skip(is_c.into()).find(|(text, ..)| holds(&bytes, text))?;
    Some(format!("'{}' {what}; {way}", program.display()))
}

/// Whether lockyard-stat or liblockyard is in the file of `program`, which tells of its locks by
/// itself.
pub(crate) fn tells_by_itself(program: &Path) -> bool {
    has(&contents(program), segment::tells)
}

/// Whether `begins` is so of what follows some byte.
fn has(bytes: &[u8], begins: fn(&[u8]) -> bool) -> bool {
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'l' && begins(&bytes[at..]))
}

fn contents(program: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What cannot be read says nothing.
    let _ = File::open(program).map(|file| file.take(MOST).read_to_end(&mut bytes));
    bytes
}

fn holds(mut bytes: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = text.split_first() else { return true };
    while let Some(at) = bytes.iter().position(|byte| *byte == first) {
        bytes = &bytes[at + 1..];
        if bytes.starts_with(rest) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_wherever_they_are() {
        assert!(holds(b"aab", b"ab") && holds(b"ab", b"ab") && holds(b"x", b""));
        assert!(!holds(b"aa", b"ab") && !holds(b"", b"a"));
    }
}
