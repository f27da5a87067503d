//! Whether children of a fork, and programs, are recorded from their first lock on in a session
//! that records.
//!
//! A test program of its own: whether there is such a session is asked once.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::Ordering::Relaxed;

use lockyard_segment::layout::state;
use lockyard_segment::{self as segment, Class, Recorder};

/// What the program answers that is recorded, and the child.
const YES: i32 = 17;

fn is_recorded() -> bool {
    segment::acquired(Class::NONE, 64);
    segment::page().is_some_and(|page| page.tape.load(Relaxed) != state::OFF)
}

/// Whether a child of a fork is.
fn is_child_recorded() -> bool {
    // SAFETY: the child allocates nothing, and ends here.
    let child = match unsafe { libc::fork() } {
        0 => {
            segment::after_fork_in_child();
            // SAFETY: no destructors, no handlers.
            unsafe { libc::_exit(if is_recorded() { YES } else { 0 }) }
        }
        child => child,
    };
    let mut status = 0;
    // SAFETY: our child, our variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    is_yes(child as u32, ExitStatus::from_raw(status))
}

/// Whether a program is that this one starts: this one, which finds the session.
fn is_program_recorded() -> bool {
    let mut program = Command::new(std::env::current_exe().expect("a path")).spawn().expect("it starts");
    let status = program.wait().expect("it ends");
    is_yes(program.id(), status)
}

/// The child has left its segment.
fn is_yes(child: u32, status: ExitStatus) -> bool {
    let _ = std::fs::remove_file(format!("/dev/shm/lockyard.{child}"));
    assert!(matches!(status.code(), Some(0 | YES)), "{status}");
    status.code() == Some(YES)
}

/// They were recorded after the end, until their rings were full or they were found.
#[test]
fn what_begins_is_recorded_while_its_parent_is() {
    const SESSION: &str = "LOCKYARD_SESSION";
    if std::env::var_os(SESSION).is_some() {
        segment::open(b"test").expect("a segment");
        std::process::exit(if is_recorded() { YES } else { 0 });
    }
    // SAFETY: no other thread of this program reads or writes the environment.
    unsafe {
        std::env::set_var(SESSION, std::process::id().to_string());
        std::env::set_var("LOCKYARD_RECORD", "1");
    }
    assert!(is_program_recorded(), "nothing is known of this one");
    segment::open(b"test").expect("a segment");
    let mut recorder = Recorder::open(std::process::id()).expect("its segment");
    for is_on in [false, true, false] {
        // It is on for a while at a time.
        for is_recorded in [is_child_recorded, is_program_recorded] {
            if is_on {
                recorder.record();
            } else {
                recorder.pause();
            }
            assert_eq!(is_recorded(), is_on);
        }
    }
    let _ = std::fs::remove_file(format!("/dev/shm/lockyard.{}", std::process::id()));
}
