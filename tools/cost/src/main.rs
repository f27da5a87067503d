//! What an uncontended lock costs, in instructions.
//!
//! `lockyard-cost NAME PAIRS` runs that many lock + unlock pairs of one kind while a second thread
//! is alive; `cargo xtask cost counts` runs it under callgrind and compares with `budget.txt`.
//! `lockyard-cost probes` runs every probe once; `cargo xtask cost counts` reads their machine
//! code. Functions here keep their names and are never inlined, so that both can find them.

mod pairs;
mod probes;

use std::process::ExitCode;
use std::sync::mpsc;

use pairs::PAIRS;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let job: Box<dyn FnOnce()> = match words.as_slice() {
        ["probes"] => Box::new(probes::run_all),
        [name, pairs] => match (PAIRS.iter().find(|entry| entry.0 == *name), pairs.parse()) {
            // The probes first: a thread's first lock registers it, which costs what the machine
            // makes it cost.
            (Some((_, run)), Ok(pairs)) => Box::new(move || {
                probes::run_all();
                run(pairs);
            }),
            _ => return usage(),
        },
        _ => return usage(),
    };
    beside_a_second_thread(job);
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    let names: Vec<&str> = PAIRS.iter().map(|entry| entry.0).collect();
    eprintln!("lockyard-cost probes | lockyard-cost NAME PAIRS, where NAME is one of {}", names.join(", "));
    ExitCode::from(2)
}

/// Runs `job` while another thread of this process lives, asleep.
fn beside_a_second_thread(job: impl FnOnce()) {
    let (alive, is_alive) = mpsc::channel::<()>();
    let (end, ended) = mpsc::channel::<()>();
    let second = std::thread::spawn(move || {
        drop(alive);
        let _ = ended.recv();
    });
    let _ = is_alive.recv();
    job();
    drop(end);
    let _ = second.join();
}
