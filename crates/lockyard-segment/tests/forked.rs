//! What the segment of a child of a fork costs, and says of the child.

use std::fs::File;
use std::io::{Read, Write, pipe};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;

use lockyard_segment::layout::Header;
use lockyard_segment::{self as segment, Class, Reader};

/// Runs `act` in a child, which ends with its answer. It may not allocate: other tests' threads
/// may have been at it.
fn forked(act: impl FnOnce() -> u8) -> libc::pid_t {
    // SAFETY: see above.
    match unsafe { libc::fork() } {
        0 => {
            segment::after_fork_in_child();
            let answer = act();
            // SAFETY: no destructors, no handlers.
            unsafe { libc::_exit(answer.into()) }
        }
        child => child,
    }
}

/// What the child answers.
fn answer(child: libc::pid_t) -> Option<i32> {
    let mut status = 0;
    // SAFETY: our child, our variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    std::process::ExitStatus::from_raw(status).code()
}

/// Takes a lock for the first time, and says whether there is a segment.
fn first_lock() -> bool {
    segment::acquired(Class::NONE, 64);
    segment::watched()
}

/// A child once opened the folder beside its file, and then files of `/proc`, which took it longer
/// than the rest: its segment takes one file, and it has a place for one.
#[test]
fn the_first_lock_of_a_child_opens_one_file() {
    segment::open(b"test").expect("a segment");
    let (mut said, mut say) = pipe().expect("a pipe");
    let (mut heard, mut tell) = pipe().expect("a pipe");
    let child = forked(|| {
        // SAFETY: a number, and a limit of this process. Other tests' pipes may lie above it.
        let is_limited = unsafe {
            let free = libc::dup(0);
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            let known = libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0;
            limit.rlim_cur = free as u64 + 1;
            known && libc::close(free) == 0 && libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
        };
        let _ = say.write(&[u8::from(is_limited && first_lock())]);
        let _ = heard.read(&mut [0]);
        0
    });
    let mut opened = [0];
    said.read_exact(&mut opened).expect("it says something");
    let found = Reader::open(child as u32).map(|reader| reader.sample().acquired());
    tell.write_all(b"x").expect("it listens");
    assert_eq!(answer(child), Some(0));
    // It has ended without a word.
    let _ = std::fs::remove_file(format!("/dev/shm/lockyard.{child}"));
    assert_eq!((opened, found), ([1], Ok(1)));
}

/// A signal handler may fork within a call, which goes on in the child to write where the parent
/// counts: the child was ended.
#[test]
fn a_call_that_a_fork_interrupts_ends_in_the_child() {
    segment::open(b"test").expect("a segment");
    segment::acquired(Class::NONE, 64);
    let page = segment::page().expect("a page");
    let child = forked(|| {
        segment::acquired_on(page, Class::NONE.into(), 128);
        segment::releasing_on(page, 128);
        segment::released_on(page, 128);
        // As often as the child has children of its own.
        let child = forked(|| first_lock().into());
        (answer(child) == Some(1) && first_lock()).into()
    });
    let found = answer(child);
    let _ = std::fs::remove_file(format!("/dev/shm/lockyard.{child}"));
    assert_eq!(found, Some(1));
}

/// What the segment of this process says of its namespace, and the kernel. `None`: one of them
/// cannot be had.
fn namespaces() -> Option<[u64; 2]> {
    let mut path = [0u8; 32];
    let mut rest = &mut path[..];
    write!(rest, "/dev/shm/lockyard.{}", std::process::id()).ok()?;
    let length = 32 - rest.len();
    let file = File::open(std::str::from_utf8(&path[..length]).ok()?).ok()?;
    let mut namespace = [0; 8];
    file.read_exact_at(&mut namespace, offset_of!(Header, namespace) as u64).ok()?;
    std::fs::remove_file(std::str::from_utf8(&path[..length]).ok()?).ok()?;
    let of_kernel = rustix::fs::stat("/proc/thread-self/ns/pid").ok()?.st_ino;
    Some([u64::from_le_bytes(namespace), of_kernel])
}

/// Children have their parents' namespace without a look at it, but where it is another.
#[test]
fn a_child_in_a_new_namespace_of_processes_says_so() {
    const NOT_PERMITTED: u8 = 77;
    segment::open(b"test").expect("a segment");
    let is_right = || first_lock() && namespaces().is_some_and(|[said, is]| said == is);
    let ends_well = |act: &dyn Fn() -> bool| answer(forked(|| act().into())) == Some(1);
    let child = forked(|| {
        let right = is_right();
        // SAFETY: children of this process alone are concerned.
        if right && unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            return NOT_PERMITTED;
        }
        // The first has the id 1 there, as the parent of those that come after it.
        let inside = ends_well(&|| is_right() && ends_well(&|| is_right() && ends_well(&is_right)));
        (right && inside).into()
    });
    let outer = answer(child);
    // The one between has taken no lock, and did not look.
    let child = forked(|| {
        // SAFETY: as above.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            return NOT_PERMITTED;
        }
        ends_well(&|| ends_well(&is_right)).into()
    });
    let inner = answer(child);
    assert!([outer, inner].iter().all(|code| matches!(code, Some(1 | 77))), "{outer:?} {inner:?}");
}
