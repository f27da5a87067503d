//! Waits for a mutex at the end of a wait at its condition variable.

use super::{deadlock_of, place_in, preloaded, told_by};

fn at(function: &str, mark: &str) -> String {
    place_in("signalled", function, mark)
}

/// The program that does `what` is told that threads wait in function `waits`, and this of the
/// holder.
#[track_caller]
fn named(what: &str, waits: &str, held: &str) {
    let asked = format!("asked for in {}", at(waits, waits));
    told_by("signalled", what, &["Locks cost this program ".to_owned(), asked, held.to_owned()]);
}

/// What is told of a holder that takes the lock in `function`.
fn held_from(function: &str) -> String {
    format!("held from {} for ", at(function, function))
}

/// Nobody asks for the lock: a signal puts the waiter into its queue.
#[test]
fn a_long_hold_after_a_signal_is_named() {
    named("kept", "listener", &held_from("teller"));
    // It is the usual hold, or a few of many: as the sample has it.
    told_by("signalled", "kept", &[" there ".to_owned()]);
}

/// The program ends while the signalled thread waits.
#[test]
fn a_wait_after_a_signal_that_does_not_end_is_named() {
    let holds = at("leaver", "leaver");
    named("left", "left", &format!("held it since {holds}, and 1 thread waited to the end"));
}

/// Nobody signals: the time of the waiter is up, and it needs the mutex.
#[test]
fn a_long_hold_after_a_timed_wait_is_named() {
    named("polled", "poller", &held_from("keeper"));
}

/// All wait for the mutex since the broadcast, and for each other: not for the thread that signals.
#[test]
fn threads_that_a_broadcast_wakes_wait_for_each_other() {
    named("herd", "herded", &held_from("herded"));
}

/// The signalled thread waits for the one before it in the queue, which nobody has signalled.
#[test]
fn a_thread_before_the_signalled_one_is_named() {
    named("before", "listener", &held_from("before"));
}

/// It was woken, and has lost the mutex on its way to a CPU.
#[test]
fn a_long_hold_that_begins_past_a_signalled_thread_is_named() {
    named("again", "listener", &held_from("again"));
}

/// One of the two was put into the queue of its lock by the other, with a signal.
#[test]
fn a_deadlock_after_a_signal_is_named() {
    let signalled = ["signalled first", "signalled second"].map(|mark| at("signalled", mark));
    let signaller = ["signaller first", "signaller second"].map(|mark| at("signaller", mark));
    deadlock_of(&preloaded::program("signalled", ""), &signalled, &signaller);
    deadlock_of(&preloaded::linked("signalled"), &signalled, &signaller);
}
