//! Epochs, windows, and children of all kinds.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::super::epoch::{after, epoch, is_exact, known_epoch, noted_thread_id, thread_id};
use super::*;

#[test]
fn epochs_go_on_and_pass_by_the_two_that_mean_something_else() {
    assert_eq!([0, 1, u32::MAX - 2, u32::MAX - 1, u32::MAX].map(after), [1, 2, u32::MAX - 1, 1, 1]);
}

#[test]
fn the_epoch_is_opened_at_the_start() {
    assert!(known_epoch() != 0 && epoch() == known_epoch());
}

#[test]
fn a_thread_knows_its_kernel_id_without_asking_the_kernel() {
    let ids = || (noted_thread_id(), thread_id(), rustix::thread::gettid().as_raw_pid() as u32);
    for (noted, told, real) in [ids(), std::thread::spawn(ids).join().unwrap()] {
        assert!(noted == Some(real) && told == real);
    }
}

/// One fork at a time, and no window of another test: the gate is everybody's.
static ALONE: Mutex<()> = Mutex::new(());

fn open_gate() {
    FORKS.fetch_sub(1, Relaxed);
}

/// Another thread, in a window (or several, one in the other), that ends one of them whenever it is
/// told to.
fn in_windows(depth: u32, test: impl FnOnce(&dyn Fn())) {
    let (tell, told) = channel();
    let (done, until_done) = channel();
    let other = std::thread::spawn(move || {
        Linux::current();
        (0..depth).for_each(|_| Linux::begin_window());
        done.send(()).unwrap();
        while let Ok(()) = told.recv() {
            Linux::end_window();
            done.send(()).unwrap();
        }
        // Those that are left.
        (0..depth).for_each(|_| Linux::end_window());
    });
    until_done.recv().unwrap();
    test(&|| {
        tell.send(()).unwrap();
        until_done.recv().unwrap();
    });
    drop(tell);
    other.join().unwrap();
}

#[test]
fn a_fork_waits_for_the_outermost_window_of_another_thread() {
    let _alone = ALONE.lock();
    in_windows(2, |end_one| {
        let mut rounds = 0;
        let closed = shut(|round| {
            rounds += 1;
            match rounds {
                3 | 5 => end_one(),
                _ => crate::platform::linux::doze(round),
            }
        });
        open_gate();
        assert!(
            closed && rounds >= 5, // windows of other tests may take some
            "{rounds} naps: the first is no look at windows, the last ended the second of two"
        );
    });
}

#[test]
fn a_thread_that_is_stopped_in_a_window_does_not_stop_a_fork() {
    let _alone = ALONE.lock();
    in_windows(1, |_| {
        let mut rounds = 0;
        assert!(!shut(|_| rounds += 1));
        open_gate();
        assert_eq!(rounds, 1 + FORK_ROUNDS);
    });
}

#[test]
fn the_forking_threads_own_window_is_no_reason_to_wait() {
    let _alone = ALONE.lock();
    Linux::current();
    Linux::begin_window();
    let closed = shut(crate::platform::linux::doze);
    Linux::end_window();
    open_gate();
    assert!(closed);
}

#[test]
fn no_window_begins_while_a_fork_is_about_to_happen() {
    let _alone = ALONE.lock();
    assert!(shut(crate::platform::linux::doze));
    let window = AtomicU32::new(1);
    let mut rounds = 0;
    wait_for_forks(&window, |_| {
        assert_eq!(window.load(Relaxed), 0, "it naps outside");
        rounds += 1;
        if rounds == 3 {
            open_gate();
        }
    });
    assert_eq!((rounds, window.load(Relaxed)), (3, 1));
}

#[test]
fn a_fork_that_never_happens_is_waited_for_once() {
    let _alone = ALONE.lock();
    assert!(shut(crate::platform::linux::doze));
    let window = AtomicU32::new(1);
    let mut rounds = 0;
    wait_for_forks(&window, |_| rounds += 1);
    assert_eq!((rounds, window.load(Relaxed)), (GATE_ROUNDS, 1));
    wait_for_forks(&window, |_| rounds += 1);
    assert_eq!(rounds, GATE_ROUNDS);
    open_gate();
}

/// Its fork handlers run before others': one of those may wait for a lock whose owner needs a
/// window.
#[test]
fn a_forking_thread_that_sleeps_lets_others_begin_windows() {
    let _alone = ALONE.lock();
    prepare();
    let shut = FORKS.load(Relaxed);
    let mut open = shut;
    aside(|| open = FORKS.load(Relaxed));
    assert_eq!((open, FORKS.load(Relaxed)), (shut - 1, shut));
    parent();
    assert_eq!(FORKS.load(Relaxed), shut - 1);
}

#[test]
fn a_window_that_began_before_its_thread_had_a_record_ends_as_none() {
    std::thread::spawn(|| {
        Linux::begin_window();
        Linux::current();
        Linux::end_window();
        Linux::begin_window();
        Linux::end_window();
    })
    .join()
    .unwrap();
    let _alone = ALONE.lock();
    // Those of other tests end.
    let none = (0..1_000).any(|_| {
        crate::platform::linux::doze(8);
        !threads::any_window_elsewhere()
    });
    assert!(none, "a window has stayed");
}

/// Runs `child` in a process made by `make`, which returns 0 in it; what it returns must be true.
fn in_child(make: impl FnOnce() -> i32, child: impl FnOnce() -> bool) {
    match make() {
        // SAFETY: ends the child without the parent's exit handlers.
        0 => unsafe { libc::_exit(if child() { 0 } else { 1 }) },
        pid => {
            let mut status = 0;
            // SAFETY: our own child.
            assert!(pid > 0 && unsafe { libc::waitpid(pid, &mut status, 0) } == pid);
            assert_eq!(status, 0, "in the child");
        }
    }
}

/// The kernel's call alone: no handler is told.
fn clone() -> i32 {
    // SAFETY: as fork. The child uses nothing but this module's words and system calls.
    unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 }
}

fn fork() -> i32 {
    // SAFETY: the child uses nothing but this module's words and system calls.
    unsafe { libc::fork() }
}

#[test]
fn every_child_has_an_epoch_of_its_own_also_one_that_no_handler_is_told_of() {
    let _alone = ALONE.lock();
    let me = Linux::current().unwrap().id();
    let other = std::thread::spawn(|| Linux::current().unwrap().id()).join().unwrap();
    let (mine, exact) = (epoch(), is_exact());
    let check = move || {
        let known = rustix::thread::gettid().as_raw_pid() as u32;
        let same = Linux::current().is_some_and(|record| record.id() == me);
        let new = epoch() != mine && FORKS.load(Relaxed) == 0 && !threads::is_forking();
        same && new && threads::is_here(me) && !threads::is_here(other) && threads::kernel_id(me) == known
    };
    in_child(fork, check);
    if exact {
        in_child(clone, check);
        // While another thread is about to fork.
        FORKS.fetch_add(1, Relaxed);
        in_child(clone, check);
        open_gate();
    }
}

/// A thread without a record forks: the child's gate was shut for ever.
#[test]
fn the_child_of_a_thread_without_a_record_has_an_open_gate() {
    let _alone = ALONE.lock();
    std::thread::spawn(|| {
        in_child(fork, || threads::id().is_none() && FORKS.load(Relaxed) == 0 && !threads::is_forking());
    })
    .join()
    .unwrap();
}

/// Each has a number that none of its ancestors had.
#[test]
fn a_chain_of_children() {
    fn chain(depth: u32, above: &mut std::vec::Vec<u32>) -> bool {
        let mine = epoch();
        if above.contains(&mine) || depth == 0 {
            return !above.contains(&mine);
        }
        above.push(mine);
        // The first by fork: a child that the C library does not know of would have its locks as
        // other tests' threads held them, and fork takes these.
        let make = if depth.is_multiple_of(2) || !is_exact() { fork } else { clone };
        in_child(make, || chain(depth - 1, above));
        true
    }
    let _alone = ALONE.lock();
    assert!(chain(6, &mut std::vec::Vec::with_capacity(8)));
}
