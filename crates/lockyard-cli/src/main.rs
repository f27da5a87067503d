//! The `lockyard` command. Everything is in the library beside it, so that its checks can be tried
//! without starting it.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockyard_cli::main()
}
