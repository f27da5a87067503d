//! Waits for a mutex at the end of a wait at its condition variable.

use super::{deadlock_of, place_in, preloaded, told_by};

fn at(function: &str, mark: &str) -> String {
    place_in("signalled", function, mark)
}

/// Nobody asks for the lock: a signal puts the waiter into its queue.
#[test]
fn a_long_hold_after_a_signal_is_named() {
    let (waits, holds) = (at("listener", "listener"), at("teller", "teller"));
    let parts = [
        "Locks cost this program ".to_owned(),
        format!("asked for in {waits}"),
        format!("held from {holds} for "),
        // It is the usual hold, or a few of many: as the sample has it.
        " there ".to_owned(),
    ];
    told_by("signalled", "kept", &parts);
}

/// The program ends while the signalled thread waits.
#[test]
fn a_wait_after_a_signal_that_does_not_end_is_named() {
    let (waits, holds) = (at("left", "left"), at("leaver", "leaver"));
    let asked = format!("asked for in {waits}");
    let held = format!("held it since {holds}, and 1 thread waited to the end");
    told_by("signalled", "left", &["Locks cost this program ".to_owned(), asked, held]);
}

/// Nobody signals: the time of the waiter is up, and it needs the mutex.
#[test]
fn a_long_hold_after_a_timed_wait_is_named() {
    let (waits, holds) = (at("poller", "poller"), at("keeper", "keeper"));
    let (asked, held) = (format!("asked for in {waits}"), format!("held from {holds} for "));
    told_by("signalled", "polled", &["Locks cost this program ".to_owned(), asked, held]);
}

/// All wait for the mutex since the broadcast, and for each other: not for the thread that signals.
#[test]
fn threads_that_a_broadcast_wakes_wait_for_each_other() {
    let herded = at("herded", "herded");
    let parts = ["Locks cost this program ", &format!("asked for in {herded}"), &format!("held from {herded} for ")];
    told_by("signalled", "herd", &parts.map(str::to_owned));
}

/// The signalled thread waits for the one before it in the queue, which nobody has signalled.
#[test]
fn a_thread_before_the_signalled_one_is_named() {
    let (waits, holds) = (at("listener", "listener"), at("before", "before"));
    let (asked, held) = (format!("asked for in {waits}"), format!("held from {holds} for "));
    told_by("signalled", "before", &["Locks cost this program ".to_owned(), asked, held]);
}

/// It was woken, and has lost the mutex on its way to a CPU.
#[test]
fn a_long_hold_that_begins_past_a_signalled_thread_is_named() {
    let (waits, holds) = (at("listener", "listener"), at("again", "again"));
    let (asked, held) = (format!("asked for in {waits}"), format!("held from {holds} for "));
    told_by("signalled", "again", &["Locks cost this program ".to_owned(), asked, held]);
}

/// One of the two was put into the queue of its lock by the other, with a signal.
#[test]
fn a_deadlock_after_a_signal_is_named() {
    let signalled = ["signalled first", "signalled second"].map(|mark| at("signalled", mark));
    let signaller = ["signaller first", "signaller second"].map(|mark| at("signaller", mark));
    deadlock_of(&preloaded::program("signalled", ""), &signalled, &signaller);
    deadlock_of(&preloaded::linked("signalled"), &signalled, &signaller);
}
