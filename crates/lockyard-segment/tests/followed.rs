//! Whether the child of a fork is recorded from its first lock on, in a session that records.
//!
//! A test program of its own: whether there is such a session is asked once.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering::Relaxed;

use lockyard_segment::layout::state;
use lockyard_segment::{self as segment, Class, Recorder};

/// Whether a child is, which ends without a word.
fn is_child_recorded() -> bool {
    // SAFETY: the child allocates nothing, and ends here.
    let child = match unsafe { libc::fork() } {
        0 => {
            drop(segment::after_fork_in_child());
            segment::acquired(Class::NONE, 64);
            let is_recorded = segment::page().is_some_and(|page| page.tape.load(Relaxed) != state::OFF);
            // SAFETY: no destructors, no handlers.
            unsafe { libc::_exit(is_recorded.into()) }
        }
        child => child,
    };
    let mut status = 0;
    // SAFETY: our child, our variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let _ = std::fs::remove_file(format!("/dev/shm/lockyard.{child}"));
    std::process::ExitStatus::from_raw(status).code() == Some(1)
}

/// Children were recorded after the end, until their rings were full.
#[test]
fn a_child_is_recorded_while_its_parent_is() {
    // SAFETY: no other thread of this program reads or writes the environment.
    unsafe { std::env::set_var("LOCKYARD_RECORD", "1") };
    segment::open(b"test").expect("a segment");
    let mut recorder = Recorder::open(std::process::id()).expect("its segment");
    assert!(!is_child_recorded());
    recorder.record();
    assert!(is_child_recorded());
    recorder.pause();
    assert!(!is_child_recorded());
}
