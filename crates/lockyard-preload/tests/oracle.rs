//! Random programs of pthread calls: what glibc answers to each call, and which sleeping calls each
//! ends, our library answers, too.
//!
//! `tests/programs/oracle.c` invents a program from a seed and runs it on glibc; then it runs the
//! same program under the library and compares. A failure prints the program, the line, and the
//! command that replays it.
//!
//! `LOCKYARD_ORACLE_SEED=N` replays one seed; `LOCKYARD_ORACLE_SEEDS=COUNT` runs so many.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

mod running;

use running::{compile, library, run};

const STEPS: &str = "150";
const LIMIT: Duration = Duration::from_secs(60);

const CHOICES: [&[(&str, &str)]; 3] = [
    &[],
    &[("LOCKYARD_MUTEX", "spin"), ("LOCKYARD_RWLOCK", "qrw")],
    &[("LOCKYARD_MUTEX", "hq"), ("LOCKYARD_RWLOCK", "rwsem:today-kernel"), ("LOCKYARD_SPIN", "hq")],
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

#[test]
fn random_programs_of_calls() {
    let oracle = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/oracle.c"));
    let seeds = match number("LOCKYARD_ORACLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("LOCKYARD_ORACLE_SEEDS").unwrap_or(60),
    };
    println!("seeds {} to {}", seeds.start, seeds.end - 1);
    let mut slept = 0;
    for seed in seeds.clone() {
        let made = run(Command::new(&oracle).args(["make", &seed.to_string(), STEPS]), LIMIT);
        assert!(made.ok && made.out.lines().count() > 10, "seed {seed} on glibc:\n{}{}", made.out, made.err);
        slept += made.out.matches("sleeps").count();
        let program = oracle.with_file_name(format!("oracle-{}-{seed}.txt", std::process::id()));
        std::fs::write(&program, &made.out).unwrap();
        for choice in CHOICES {
            let mut command = Command::new(&oracle);
            command.arg("check").env("LD_PRELOAD", library()).envs(choice.iter().copied());
            let found = running::run_with(&mut command, File::open(&program).unwrap(), LIMIT);
            assert!(
                found.ok && found.out == "same\n",
                "seed {seed} {choice:?}\n{}{}\nreplay: LOCKYARD_ORACLE_SEED={seed} cargo test -p lockyard-preload --test oracle",
                found.out,
                found.err
            );
        }
        std::fs::remove_file(&program).unwrap();
    }
    assert!(slept as u64 > seeds.end - seeds.start, "calls hardly ever slept: {slept}");
    println!("{slept} calls slept");
}

/// The oracle is no judge if it cannot tell a difference.
#[test]
fn a_wrong_result_is_noticed() {
    let oracle = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/oracle.c"));
    let program = oracle.with_file_name(format!("oracle-wrong-{}.txt", std::process::id()));
    // Agent 1 sleeps for mutex 0 until agent 0 unlocks it.
    let ends = "0 0 0 0 = 0\n1 0 0 0 sleeps\n0 7 0 0 = 0";
    // When is not said: agent 2 waits for mutex 1 in vain meanwhile, for a few milliseconds each
    // time.
    let untold = format!("0 0 1 0 = 0\n{ends}\n{}", "2 5 1 0 = 110\n".repeat(300));
    for (text, words) in [
        // Agent 0 locks mutex 0, agent 1 tries to, and is said to have succeeded.
        ("0 0 0 0 = 0\n1 1 0 0 = 0\n", "line 2: agent 1, trylock(0, 0): result, expected 0, found 16"),
        (&format!("{ends}, 1 = 16\n"), "line 3: agent 1, lock(0, 0): result, expected 16, found 0"),
        (&untold, "agent 1, lock(0, 0): returned too early"),
        ("0 0 0 0 sleeps\n", "should sleep"),
    ] {
        std::fs::write(&program, text).unwrap();
        let mut command = Command::new(&oracle);
        command.arg("check").env("LD_PRELOAD", library());
        let found = running::run_with(&mut command, File::open(&program).unwrap(), LIMIT);
        assert!(!found.ok && found.out.contains(words), "{text}{}{}", found.out, found.err);
    }
    std::fs::remove_file(&program).unwrap();
}
