//! What people read: errors in one line each, all different; settings that are refused say what
//! would do.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::process::Command;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::rtmutex_tree::{NotOwner, Refused};
use lockyard::spin::hq::Tunable;
use lockyard::{GaveUp, PiError};

fn lines<E: Display>(errors: &[E]) {
    let texts: BTreeSet<String> = errors.iter().map(E::to_string).collect();
    assert_eq!(texts.len(), errors.len(), "{texts:?}");
    for text in &texts {
        assert!(text.len() > 20 && !text.contains('\n') && !text.ends_with('.'), "{text:?}");
        assert!(text.starts_with(char::is_lowercase), "{text:?}");
    }
}

#[test]
fn errors_are_one_line_each() {
    lines(&[GaveUp::TimedOut, GaveUp::Cancelled]);
    lines(&[
        PiError::TimedOut,
        PiError::Cancelled,
        PiError::Deadlock,
        PiError::OwnerDied,
        PiError::NotOwner,
        PiError::Corrupt,
    ]);
    lines(&[Refused::from(GaveUp::TimedOut), Refused::from(GaveUp::Cancelled)]);
    lines(&[NotOwner]);
    assert_eq!(PiError::from(GaveUp::TimedOut), PiError::TimedOut);
    assert_eq!(PiError::from(GaveUp::Cancelled), PiError::Cancelled);
}

#[test]
fn a_tunable_out_of_range_is_refused_by_the_name_of_its_variable() {
    let tunables = Linux::commons().pool.tunables();
    let before: Vec<u32> = Tunable::ALL.iter().map(|&tunable| tunables.get(tunable)).collect();
    for &tunable in Tunable::ALL {
        assert!(!tunable.name().is_empty() && tunable.default() <= tunable.most());
        if let Some(more) = tunable.most().checked_add(1) {
            let refused = tunables.set(tunable, more).unwrap_err().to_string();
            let (name, most) = (tunable.variable(), tunable.most());
            assert_eq!(refused, format!("{name}: a number from 0 to {most} is needed"));
        }
    }
    tunables.copy_from(tunables);
    assert_eq!(tunables.set_from_environment(), Ok(()), "no such variables here");
    let after: Vec<u32> = Tunable::ALL.iter().map(|&tunable| tunables.get(tunable)).collect();
    assert_eq!(before, after);
}

/// An environment belongs to a whole process: this program once more for each, which says what it
/// has read.
#[test]
fn settings_come_from_the_environment() {
    const SAYS: &str = "LOCKYARD_TEST_SAYS_ITS_SETTINGS";
    if std::env::var_os(SAYS).is_some() {
        let tunables = Linux::commons().pool.tunables();
        let read = tunables.set_from_environment().map_err(|error| error.0);
        let now: Vec<u32> = Tunable::ALL.iter().map(|&tunable| tunables.get(tunable)).collect();
        println!("{read:?} {now:?}");
        return;
    }
    let says = |settings: &[(Tunable, &str)]| {
        let mut again = Command::new(std::env::current_exe().expect("this test is a file"));
        again.args(["messages::settings_come_from_the_environment", "--exact", "--nocapture"]).env(SAYS, "1");
        again.envs(settings.iter().map(|(tunable, text)| (tunable.variable(), text)));
        let outcome = again.output().expect("the program runs");
        assert!(outcome.status.success(), "{outcome:?}");
        String::from_utf8_lossy(&outcome.stdout).into_owned()
    };
    let reads = |settings: &[(Tunable, &str)], read: Result<(), Tunable>, set: &[(Tunable, u32)]| {
        let value =
            |tunable: Tunable| set.iter().find(|(one, _)| *one == tunable).map_or(tunable.default(), |one| one.1);
        let now: Vec<u32> = Tunable::ALL.iter().map(|&tunable| value(tunable)).collect();
        let (said, expected) = (says(settings), format!("{read:?} {now:?}"));
        assert!(said.contains(&expected), "{expected} is not in {said}");
    };
    let (first, last) = (Tunable::FairnessThreshold, Tunable::Lanes);
    reads(&[], Ok(()), &[]);
    reads(&[(first, "17"), (last, " 4\n")], Ok(()), &[(first, 17), (last, 4)]);
    // What comes before the one that is refused is set.
    for refused in ["33", "-1", "", "many"] {
        reads(&[(first, "17"), (last, refused)], Err(last), &[(first, 17)]);
    }
}
