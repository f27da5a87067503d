//! `lockyard compare -- PROGRAM`.

use super::*;

/// The terminal's signal reaches the program as well: the rounds before it are told.
#[test]
fn an_interrupted_comparison_tells_what_it_has() {
    let runs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interrupted-{}", std::process::id()));
    fs::write(&runs, "").expect("a file");
    let program = format!("echo run >> {}; sleep 0.02; echo rate: 5", runs.display());
    let mut compare = Command::new(cargo_bin!("lockyard"));
    compare.args(["compare", "--rounds", "1000", "--metric", "rate: ([0-9]+)", "--", "sh", "-c", &program]);
    compare.env("LOCKYARD_PRELOAD", library()).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let compare = compare.spawn().expect("the binary runs");
    // The first run, and more than six rounds of four.
    while fs::read_to_string(&runs).expect("it is there").lines().count() < 32 {
        thread::yield_now();
    }
    kill_process_group(Pid::from_child(&compare), Signal::INT).expect("it is there");
    let output = compare.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text.contains("glibc again") && text.contains("Medians of "), "{output:?}");
    fs::remove_file(&runs).expect("it is there");
}

/// The program is run and read, as a server too. No test asserts which locks are faster.
#[test]
fn a_program_is_compared_on_other_locks() {
    let compare = |options: &[&str], program: &[&str]| {
        let mut command = Command::new(cargo_bin!("lockyard"));
        command.arg("compare").args(options).arg("--").args(program).env("LOCKYARD_PRELOAD", library());
        let output = command.output().expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let quiet = program("").to_string_lossy().into_owned();
    let (code, out, err) =
        compare(&["--rounds", "6", "--lock", "mutex", "--lock", "mutex=hq,rwlock=qrw"], &[&quiet, "quiet"]);
    assert_eq!(code, Some(0), "{err}");
    let sentence = out.lines().next().unwrap_or_default();
    assert!(sentence.contains("glibc against itself ") && sentence.contains(" to "), "{out}");
    for row in ["  glibc ", "  glibc again ", "  mutex ", "  mutex=hq,rwlock=qrw "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row}: {out}");
    }
    assert!(out.contains("Medians of 6 rounds"), "{out}");
    // Chosen, glibc's locks are those of the program as it is.
    let preloaded = ["sh", "-c", "test -z \"$LD_PRELOAD\" && echo rate: 2 || echo rate: 1"];
    let options = ["--rounds", "6", "--metric", "rate: ([0-9]+)", "--lock", "glibc", "--lock", "mutex"];
    let (code, out, err) = compare(&options, &preloaded);
    let ratio = |name: &str| out.lines().find(|line| line.starts_with(name))?.split_whitespace().rev().nth(3);
    assert_eq!(
        (code, ratio("  glibc, chosen "), ratio("  mutex ")),
        (Some(0), Some("1.000"), Some("0.500")),
        "{out}{err}"
    );
    // What it prints, in place of the time: the same on all locks.
    let says = |text: &str| format!("echo '{text}'; test -z \"$LOCKYARD_STAT\"");
    let options = ["--rounds", "6", "--metric", "rate: ([0-9,.]+)"];
    let (code, out, err) = compare(&options, &["sh", "-c", &says("rate: 1,250.5 per s")]);
    assert!(code == Some(0) && (out.contains("1,250") || out.contains("1,251")), "{out}{err}");
    // Whether there is a verdict is told by what runs beside this test; the ratios are not.
    let verdicts = ["No difference that these rounds show", "No verdict: other programs had "];
    let itself = "glibc against itself 1.000 (1.000 to 1.000)";
    assert!(verdicts.iter().any(|verdict| out.starts_with(verdict)) && out.contains(itself), "{out}");
    let rows = out.lines().filter(|line| line.split_whitespace().rev().take(3).eq(["1.000", "to", "1.000"]));
    assert_eq!(rows.count(), 3, "{out}");
    // A server, and its load.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("served-{}", std::process::id()));
    let (server, ready) =
        (format!("echo > {0}; exec sleep 600", folder.display()), format!("test -e {}", folder.display()));
    let options = [&options[..], &["--load", "echo rate: 7", "--ready", &ready]].concat();
    let (code, out, err) = compare(&options, &["sh", "-c", &server]);
    assert!(code == Some(0) && out.contains("  7.00 "), "{out}{err}");
    fs::remove_file(&folder).expect("it was started");
    // What cannot be compared is said in a line.
    for (options, program, part) in [
        (&["--rounds", "6"][..], &["sh", "-c", "echo no; exit 3"][..], "failed on glibc (exit status: 3); it said: no"),
        (&["--rounds", "6", "--metric", "x(1)"], &["true"], "found no number"),
        (&["--rounds", "5"], &["true"], "--rounds: 5 is out of bounds"),
        (&["--metric", "x"], &["true"], "must have one group"),
        (&["--lock", "mutx=hq"], &["true"], "did you mean 'mutex'?"),
    ] {
        let (code, _, err) = compare(options, program);
        assert!(code != Some(0) && err.lines().last().is_some_and(|line| line.contains(part)), "{part}: {err}");
    }
}
