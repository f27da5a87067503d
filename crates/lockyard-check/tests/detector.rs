//! The suite must fail on broken locks: each runs in a child process that has to die with the right
//! diagnosis. A suite that passes everything proves nothing.

// Child processes are the system's.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::process::{Command, Stdio};

use lockyard::platform::linux::Linux;
use lockyard_check::broken::{
    BargersFirst, DeafToTokens, Impatient, KeepsOnTimeout, LeakyReaders, LosesUnits, LosesWakeups, Nothing,
    ReadersFirst, Sound, TryTraces,
};
use lockyard_check::{group, native};

type Case = (&'static str, fn());

/// The broken locks and the cases for each.
fn cases(lock: &str) -> Vec<Case> {
    let lists: &[&[Case]] = match lock {
        "Nothing" => &[group!(exclusive => listed(Nothing<Linux>))],
        "LosesWakeups" => &[group!(exclusive => listed(LosesWakeups<Linux>))],
        "TryTraces" => &[group!(exclusive => listed(TryTraces<Linux>))],
        "Impatient" => &[group!(timed => listed(Impatient<Linux>))],
        "KeepsOnTimeout" => &[group!(timed => listed(KeepsOnTimeout<Linux>))],
        "DeafToTokens" => &[group!(timed => listed(DeafToTokens<Linux>))],
        "Sound" => &[
            group!(exclusive => listed(Sound<Linux>)),
            group!(timed => listed(Sound<Linux>)),
            group!(fair => listed(Sound<Linux>)),
        ],
        "LeakyReaders" => &[group!(shared => listed(LeakyReaders<Linux>))],
        "ReadersFirst" => {
            &[group!(shared => listed(ReadersFirst<Linux>)), group!(fair_shared => listed(ReadersFirst<Linux>))]
        }
        "BargersFirst" => {
            &[group!(exclusive => listed(BargersFirst<Linux>)), group!(fair => listed(BargersFirst<Linux>))]
        }
        "LosesUnits" => &[group!(counting => listed(LosesUnits<Linux>))],
        _ => unreachable!("no broken lock is called {lock}"),
    };
    lists.concat()
}

const LOCK: &str = "LOCKYARD_BROKEN_LOCK";
const CASE: &str = "LOCKYARD_BROKEN_CASE";

/// What a child process does; in the parent, nothing.
#[test]
fn child() {
    let (Ok(lock), Ok(name)) = (std::env::var(LOCK), std::env::var(CASE)) else { return };
    let (name, case) = cases(&lock).into_iter().find(|(case, _)| *case == name).expect("a case of the list");
    native::guarded(name, case);
}

/// Runs one case in a child. `Err`: what it said before it died.
fn run(lock: &str, case: &str) -> Result<(), String> {
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .envs([(LOCK, lock), (CASE, case), ("LOCKYARD_WATCHDOG", "4"), ("RUST_BACKTRACE", "0")])
        .stdin(Stdio::null())
        .output()
        .expect("starts");
    if child.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&[child.stdout, child.stderr].concat()).into_owned())
}

/// `case` must fail on `lock`, and say so with `words`.
fn fails(lock: &str, case: &str, words: &str) {
    fails_within(1, lock, case, words);
}

/// As [`fails`], in one of so many attempts: on a busy machine two threads may take turns for so
/// long that they never meet, or nobody sleeps when a wake-up is lost.
fn fails_within(attempts: usize, lock: &str, case: &str, words: &str) {
    let said = (0..attempts).find_map(|_| run(lock, case).err());
    let Some(said) = said else { panic!("{case} passes {lock}") };
    assert!(said.contains(words), "{case} fails on {lock}, but not with {words:?}:\n{said}");
}

/// The watchdog must find that `case` hangs, and name it.
fn hangs(lock: &str, case: &str) {
    fails(lock, case, &format!("WATCHDOG: {case}"));
}

#[test]
fn a_lock_that_does_nothing() {
    fails_within(20, "Nothing", "exclusion::sections_exclude_each_other", "panicked");
    fails_within(20, "Nothing", "exclusion::two_threads", "panicked");
    fails_within(20, "Nothing", "exclusion::mixed_operations", "panicked");
    fails("Nothing", "trying::try_succeeds_exactly_when_compatible", "while held by");
    fails("Nothing", "trying::own_try_fails", "panicked");
    fails("Nothing", "lives::exit_of_a_holder", "panicked");
}

#[test]
fn a_lock_that_loses_wakeups() {
    fails_within(20, "LosesWakeups", "wakeups::ping_pong", "WATCHDOG: wakeups::ping_pong");
    fails_within(20, "LosesWakeups", "wakeups::chase_of_four", "WATCHDOG: wakeups::chase_of_four");
}

#[test]
fn a_lock_with_traces_of_failed_tries() {
    fails("TryTraces", "trying::try_succeeds_exactly_when_compatible", "left a trace");
}

#[test]
fn a_lock_that_gives_up_early() {
    fails("Impatient", "timeouts::never_early", "gave up before its deadline");
    fails("Impatient", "timeouts::the_patient_get_through", "gave up without a reason");
}

#[test]
fn a_lock_that_keeps_what_it_did_not_give() {
    hangs("KeepsOnTimeout", "timeouts::a_leaver_in_every_place");
}

#[test]
fn a_lock_that_is_deaf_to_tokens() {
    hangs("DeafToTokens", "cancelling::cancelled_during_the_wait");
}

#[test]
fn a_lock_with_a_leak_for_writers() {
    fails("LeakyReaders", "sharing::readers_and_writers", "panicked");
}

#[test]
fn a_lock_that_prefers_readers_for_ever() {
    hangs("ReadersFirst", "fairness::a_writer_gets_past_overlapping_readers");
}

#[test]
fn a_semaphore_that_loses_units() {
    hangs("LosesUnits", "counting::bursts_of_events");
}

/// The control: the same harness, the same cases, a sound lock.
#[test]
fn the_sound_lock_passes_what_the_others_fail() {
    for case in [
        "exclusion::sections_exclude_each_other",
        "trying::try_succeeds_exactly_when_compatible",
        "wakeups::ping_pong",
        "timeouts::never_early",
        "timeouts::a_leaver_in_every_place",
        "cancelling::cancelled_during_the_wait",
        "fairness::a_waiter_gets_past_a_barger",
    ] {
        assert_eq!(run("Sound", case), Ok(()), "{case}");
    }
}

/// Correct but unfair locks pass everything else.
#[test]
fn unfair_locks_exclude() {
    for case in ["exclusion::sections_exclude_each_other", "trying::own_try_fails"] {
        assert_eq!(run("BargersFirst", case), Ok(()), "{case}");
    }
    for case in ["sharing::readers_and_writers", "sharing::readers_overlap"] {
        assert_eq!(run("ReadersFirst", case), Ok(()), "{case}");
    }
}
