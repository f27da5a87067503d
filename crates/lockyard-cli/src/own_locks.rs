//! What the file of a program says about the locks that the program brings along.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lockyard_segment as segment;

/// How much of a file is searched.
const MOST: u64 = 256 << 20;
/// The lock families that a program can bring along: a text that it has in its file, what its locks
/// are, and the way in.
const OWN_LOCKS: [(&[u8], &str, &str); 11] = [
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
    (b"Java_java_lang", JAVA.0, JAVA.1),
    // The launcher has none of it inside: it loads the machine. So does a program that makes one.
    (b"JLI_Launch", JAVA.0, JAVA.1),
    (b"JNI_CreateJavaVM", JAVA.0, JAVA.1),
    (b"libgomp.so.", OPENMP.0, OPENMP.1),
    (b"libomp.so", OPENMP.0, OPENMP.1),
    (b"libiomp5.so", OPENMP.0, OPENMP.1),
];
const JAVA: (&str, &str) =
    ("is a Java virtual machine, whose monitors are its own", "use Java Flight Recorder (jdk.JavaMonitorEnter)");
const OPENMP: (&str, &str) = (
    "is an OpenMP program, whose locks, critical sections and barriers are those of its runtime",
    "`perf record -g` shows the time in calls such as GOMP_critical_start or __kmpc_critical",
);

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

    /// They were said to take no lock.
    #[test]
    fn launchers_of_java_and_programs_of_openmp_are_known_by_what_they_load() {
        let file = std::env::temp_dir().join(format!("lockyard-own-locks.{}", std::process::id()));
        for (text, what) in [
            ("\0JLI_Launch\0libjli.so\0", " is a Java virtual machine, "),
            ("\0JNI_CreateJavaVM\0", " is a Java virtual machine, "),
            ("\0libgomp.so.1\0", " is an OpenMP program, "),
            ("\0libomp.so.5\0", " is an OpenMP program, "),
        ] {
            std::fs::write(&file, text).expect("a file");
            let said = own_locks(&file);
            assert!(said.as_ref().is_some_and(|said| said.contains(what)), "{text:?}: {said:?}");
        }
        std::fs::remove_file(&file).expect("it is there");
    }
}
