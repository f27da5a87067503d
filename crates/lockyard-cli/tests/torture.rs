//! `lockyard torture` as a user meets it: what is refused, what a failure says, and that its replay
//! is the same run.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;

/// Exit code, standard output, standard error.
fn lockyard(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(cargo_bin!("lockyard")).args(arguments).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Refused with one line that contains `part`. (Those that are found out as they run have said that
/// their detectors work.)
#[track_caller]
fn refused(arguments: &[&str], part: &str) {
    let (code, _, line) = lockyard(arguments);
    assert_eq!((code, line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.starts_with("lockyard: ") && line.contains(part), "{line}");
}

/// Fails with `finding`, and the command that is printed does the same, step for step.
#[track_caller]
fn fails_and_repeats(arguments: &[&str], finding: &str) {
    let (code, told, line) = lockyard(arguments);
    assert!(code == Some(1) && told.contains(finding) && told.contains("its last"), "{told}{line}");
    let replay = told.lines().find_map(|line| line.trim().strip_prefix("lockyard ")).expect("a replay");
    let (code, again, _) = lockyard(&replay.split(' ').collect::<Vec<_>>());
    let from_finding = |text: &str| text[text.find(finding).expect("the finding")..].to_owned();
    assert_eq!((code, from_finding(&again)), (Some(1), from_finding(&told)));
}

#[test]
fn what_cannot_be_done_is_refused() {
    refused(&["torture", "--lock", "mutx"], "did you mean 'mutex'?");
    refused(&["torture", "--lock", "rwsem:v5.100"], "did you mean 'v5.10'?");
    refused(&["torture", "--lock", "broken-release"], "add --machine");
    refused(&["torture", "--lock", "mutex", "--fault", "preempt"], "needs a simulated machine");
    refused(&["torture", "--lock", "mutex", "--fault", "preemt"], "did you mean 'preempt'?");
    refused(&["torture", "--lock", "mutex", "--schedules", "5"], "only simulated runs are counted, sized or weakened");
    refused(&["torture", "--lock", "mutex", "--machine", "quad2007"], "did you mean 'quad2008'?");
    refused(&["torture", "--lock", "mutex", "--machine", "quad2008", "--threads", "2,4"], "give one");
    refused(&["torture", "--lock", "mutex", "--secs", "0"], "--secs: '0' is out of bounds");
}

#[test]
fn orderings_that_cannot_be_weakened_are_refused() {
    let ttas = |site| ["torture", "--lock", "ttas", "--machine", "quad2008", "--schedules", "9", "--weaken", site];
    refused(&ttas("spin/ttas.rs"), "FILE:LINE=ORDERING");
    refused(&ttas("spin/ttas.rs:1=Weak"), "is no ordering");
    refused(&ttas("spin/ttas.rs:1=Relaxed"), "no thread of ttas came to an ordering there");
    refused(&["torture", "--lock", "ttas", "--weaken", "spin/ttas.rs:1=Relaxed"], "add --machine");
}

#[test]
fn a_lock_that_loses_wake_ups_is_found_and_replayed() {
    let run = ["torture", "--lock", "broken-wakeups", "--machine", "quad2008", "--schedules", "3000"];
    fails_and_repeats(&run, "broken-wakeups: FAILED: hang");
}

#[test]
fn an_ordering_that_counts_for_less_is_noticed_and_replayed() {
    let source = include_str!("../../lockyard/src/spin/ttas.rs");
    let line = 1 + source.lines().position(|line| line.contains("store(0, Release)")).expect("a release");
    let site = format!("spin/ttas.rs:{line}=Relaxed");
    let run = ["torture", "--lock", "ttas", "--machine", "quad2008", "--schedules", "50"];
    assert_eq!(lockyard(&run).0, Some(0));
    let (_, help, _) = lockyard(&["torture", "--help"]);
    assert!(help.contains(&site), "the example of the help text is {site} now");
    assert!(
        include_str!("../../../docs/design/verification.md").contains(&site),
        "the example of the documentation is {site} now"
    );
    fails_and_repeats(&[&run[..], &["--weaken", &site]].concat(), "ttas: FAILED: an ordering is missing");
}

#[test]
fn a_sound_lock_passes_after_the_detectors_were_tried() {
    let (code, said, line) = lockyard(&["torture", "--lock", "mutex", "--machine", "quad2008", "--schedules", "20"]);
    assert_eq!(code, Some(0), "{line}");
    assert!(said.starts_with("detectors: broken-nothing, ") && said.ends_with("1 of 1 locks passed\n"), "{said}");
}
