//! Records of threads: the child has those of its own threads.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{scope, spawn};

use lockyard::Mutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::thread::ThreadId;

use crate::child::{crew, in_child};
use crate::{Stops, check, test};

/// Of a new thread of the child.
fn name_of_another() -> Option<ThreadId> {
    let mut name = None;
    crew(|threads| threads.spawn(|| name = Linux::current().map(|thread| thread.id())));
    name
}

/// The child's main thread keeps its name; its new threads get other names.
#[test]
fn new_threads_in_the_child_do_not_take_the_forkers_name() {
    test("names after fork", || {
        // Many records whose threads are gone in the parent, and gone in the child all the more.
        for _ in 0..50 {
            spawn(|| Linux::current().is_some()).join().unwrap();
        }
        let mine = Linux::current().map(|thread| thread.id());
        let stop = AtomicBool::new(false);
        scope(|threads| {
            let _stops = Stops(&stop);
            for _ in 0..3 {
                threads.spawn(|| {
                    Linux::current();
                    while !stop.load(SeqCst) {
                        Linux::nap(6);
                    }
                });
            }
            in_child(|| {
                check(Linux::current().map(|thread| thread.id()) == mine, "the forking thread lost its name")?;
                let mutex = Mutex::new(0);
                for _ in 0..200 {
                    let _held = mutex.lock();
                    let other = name_of_another();
                    check(other.is_some() && other != mine, "a new thread took the forking thread's name")?;
                }
                // A grandchild as well.
                in_child(|| {
                    check(Linux::current().map(|thread| thread.id()) == mine, "lost in the grandchild")?;
                    let other = name_of_another();
                    check(other.is_some() && other != mine, "taken in the grandchild")
                });
                Ok(())
            });
        });
    });
}

/// Each child of a chain knows its own threads only, and its new ones get records that no
/// ancestor's thread had.
#[test]
fn a_chain_of_forks() {
    fn link(depth: u32, known: &mut Vec<ThreadId>) -> Result<(), &'static str> {
        let mine = Linux::current().map(|thread| thread.id()).ok_or("no record")?;
        let other = name_of_another().ok_or("no record")?;
        check(known[0] == mine && !known.contains(&other), "a new thread has the record of an ancestor's")?;
        check(known[1..].iter().all(|&id| !Linux::is_here(id)), "an ancestor's thread is thought to be here")?;
        check(Linux::is_here(mine) && Linux::is_here(other), "an own thread is thought to be elsewhere")?;
        known.push(other);
        if depth > 0 {
            in_child(|| link(depth - 1, known));
        }
        Ok(())
    }
    test("a chain of forks", || {
        let mine = Linux::current().unwrap().id();
        in_child(|| link(5, &mut vec![mine]));
    });
}

/// In a new PID namespace a child has the process id of its parent, 1, and its threads have ids
/// that threads of the parent had: a live thread's record was given away.
#[test]
fn a_child_in_another_pid_namespace_keeps_its_record() {
    /// Forks into a new namespace, from a thread that is not the process's first. `false`: not
    /// permitted.
    fn in_namespace(then: impl FnOnce() -> Result<(), &'static str> + Send) -> bool {
        scope(|threads| {
            let forker = threads.spawn(|| {
                Linux::current();
                // SAFETY: changes where children of this thread are counted.
                let permitted = unsafe { libc::unshare(libc::CLONE_NEWPID) } == 0;
                if permitted {
                    in_child(then);
                }
                permitted
            });
            forker.join().unwrap()
        })
    }
    test("fork into another PID namespace", || {
        let permitted = in_namespace(|| {
            check(std::process::id() == 1, "the first of its namespace")?;
            // Some threads, so that the forking one has an id that the child's threads come to.
            (0..4).for_each(|_| _ = name_of_another());
            let nested = in_namespace(|| {
                check(std::process::id() == 1, "the first of its namespace")?;
                let mine = Linux::current().map(|thread| thread.id());
                for _ in 0..16 {
                    let other = name_of_another();
                    check(other.is_some() && other != mine, "a new thread took the forking thread's record")?;
                }
                Ok(())
            });
            check(nested, "a namespace in a namespace")
        });
        if !permitted {
            eprintln!("skipped: no right to make a PID namespace (CAP_SYS_ADMIN)");
        }
    });
}

#[test]
fn a_child_is_alone_until_it_starts_a_thread() {
    test("alone", || {
        assert!(!Linux::is_alone_in_child());
        in_child(|| {
            check(Linux::is_alone_in_child(), "the only thread is not alone")?;
            let stop = AtomicBool::new(false);
            let alone = crew(|threads| {
                threads.spawn(|| {
                    while !stop.load(SeqCst) {
                        Linux::nap(8);
                    }
                });
                let alone = Linux::is_alone_in_child();
                stop.store(true, SeqCst);
                alone
            });
            check(!alone, "one of two threads is alone")
        });
    });
}
