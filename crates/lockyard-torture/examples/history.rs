//! `cargo xtask explore history`: the table of historical bugs, and what shows each.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (text, sound) = lockyard_torture::history::table();
    print!("{text}");
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
