//! Random programs of pthread calls: what glibc answers to each call, and which sleeping calls each
//! ends, our library answers, too.
//!
//! `tests/programs/oracle.c` invents a program from a seed and runs it on glibc; then it runs the
//! same program under the library and compares. A failure prints the program, the line, and the
//! command that replays it. Sleepers that are stopped, readers that depend on each other, owners
//! that are dead, and forks with waiters are part of the programs.
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

type Choice = &'static [(&'static str, &'static str)];
const CHOICES: [Choice; 3] = [
    &[],
    &[("LOCKYARD_MUTEX", "spin"), ("LOCKYARD_RWLOCK", "qrw")],
    &[("LOCKYARD_MUTEX", "hq"), ("LOCKYARD_SPIN", "hq"), ("LOCKYARD_RWLOCK", "percpu-rwsem")],
];
/// The kernel's policy keeps a lock for a stopped waiter, as the kernel does: calm programs only.
const KERNEL: Choice = &[("LOCKYARD_RWLOCK", "rwsem:today-kernel")];
/// For one seed in so many there is a calm program, too.
const CALM: u64 = 4;

/// What has to happen now and then, and how often in a hundred programs at least.
const HAPPENS: [(&str, u64); 7] = [
    ("slept", 300),
    ("stops", 300),
    ("past_stopped", 50),
    ("past_writer", 10),
    ("asked_dead", 50),
    ("forks_beside", 30),
    ("in_children", 600),
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// Invents a program on glibc: what it is, and how often which things happened in it.
fn make(oracle: &Path, seed: u64, calm: bool) -> (String, String) {
    let mut command = Command::new(oracle);
    command.args(["make", &seed.to_string(), STEPS]).args(calm.then_some("calm"));
    let made = run(&mut command, LIMIT);
    assert!(made.ok && made.out.lines().count() > 10, "seed {seed} on glibc:\n{}{}", made.out, made.err);
    (made.out, made.err)
}

fn check(oracle: &Path, seed: u64, program: &str, choices: &[Choice]) {
    let path = oracle.with_file_name(format!("oracle-{}-{seed}.txt", std::process::id()));
    std::fs::write(&path, program).unwrap();
    for choice in choices {
        let mut command = Command::new(oracle);
        command.arg("check").env("LD_PRELOAD", library()).envs(choice.iter().copied());
        let found = running::run_with(&mut command, File::open(&path).unwrap(), LIMIT);
        assert!(
            found.ok && found.out == "same\n",
            "seed {seed} {choice:?}\n{}{}\nreplay: LOCKYARD_ORACLE_SEED={seed} cargo test -p lockyard-preload --test oracle",
            found.out,
            found.err
        );
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn random_programs_of_calls() {
    let oracle = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/oracle.c"));
    let one = number("LOCKYARD_ORACLE_SEED");
    let seeds = match one {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("LOCKYARD_ORACLE_SEEDS").unwrap_or(40),
    };
    println!("seeds {} to {}", seeds.start, seeds.end - 1);
    let mut happened = [0; HAPPENS.len()];
    for seed in seeds.clone() {
        let (program, counts) = make(&oracle, seed, false);
        for ((what, _), sum) in HAPPENS.iter().zip(&mut happened) {
            let count = counts.lines().find_map(|line| line.strip_prefix(what)?.trim().parse::<u64>().ok());
            *sum += count.unwrap_or_else(|| panic!("no count of {what}:\n{counts}"));
        }
        check(&oracle, seed, &program, &CHOICES);
        if one.is_some() || seed % CALM == 0 {
            check(&oracle, seed, &make(&oracle, seed, true).0, &[KERNEL]);
        }
    }
    for ((what, least), sum) in HAPPENS.iter().zip(happened) {
        println!("{what}: {sum}");
        let programs = seeds.end - seeds.start;
        assert!(programs < 20 || sum * 100 >= least * programs, "{what}: {sum} times in {programs} programs");
    }
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
    let in_vain = "2 5 1 0 = 110\n".repeat(300);
    let untold = format!("0 0 1 0 = 0\n{ends}\n{in_vain}");
    // Or agent 1 is stopped while agent 0 unlocks, and is said to sleep on when it goes on.
    let stop = "1 31 0 0 = 0\n0 7 0 0 = 0\n1 32 0 0 = 0";
    let untold_stop = format!("0 0 1 0 = 0\n0 0 0 0 = 0\n1 0 0 0 sleeps\n{stop}\n{in_vain}");
    for (text, words) in [
        // Agent 0 locks mutex 0, agent 1 tries to, and is said to have succeeded.
        ("0 0 0 0 = 0\n1 1 0 0 = 0\n", "line 2: agent 1, trylock(0, 0): result, expected 0, found 16"),
        (&format!("{ends}, 1 = 16\n"), "line 3: agent 1, lock(0, 0): result, expected 16, found 0"),
        (&untold, "agent 1, lock(0, 0): returned too early"),
        ("0 0 0 0 sleeps\n", "should sleep"),
        // Agent 0 locks mutex 0 and forks; the child unlocks it, tries twice, and is said to have
        // succeeded twice.
        (
            "0 0 0 0 = 0\n0 35 0 0 = 0; 7 0 0 = 0; 1 0 0 = 0; 1 0 0 = 0\n",
            "in the child: call 3, trylock(0, 0): expected 0, found 16",
        ),
        (&untold_stop, "agent 1, lock(0, 0): returned too early"),
        // Agent 0 ends with mutex 1, and a new thread is said to have it.
        ("0 0 1 0 = 0\n0 33 0 0 = 0\n0 7 1 0 = 0\n", "line 3: agent 0, unlock(1, 0): result, expected 0, found 1"),
    ] {
        std::fs::write(&program, text).unwrap();
        let mut command = Command::new(&oracle);
        command.arg("check").env("LD_PRELOAD", library());
        let found = running::run_with(&mut command, File::open(&program).unwrap(), LIMIT);
        assert!(!found.ok && found.out.contains(words), "{text}{}{}", found.out, found.err);
    }
    std::fs::remove_file(&program).unwrap();
}
