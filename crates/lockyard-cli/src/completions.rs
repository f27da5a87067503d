//! Scripts with which a shell completes the command: its options, and the names of locks, peers,
//! policies, machines, workloads and figures.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use lockyard_work::{Candidate, Origin, Workload};

use crate::selection;
use crate::simulate::machines;

/// Values of `--lock` of `run` and `compare`.
const PRELOADED: [&str; 9] =
    ["mutex", "spin", "hq", "rt", "glibc", "rwlock=rwsem", "rwlock=read-mostly", "rwlock=qrw", "spin=hq"];

/// The script for `shell`.
pub(crate) fn script(shell: Shell, command: Command, all: &'static [Candidate]) -> String {
    let mut command = command.mut_subcommands(|sub| {
        // For programs that exist: what the preload library has.
        let preloaded = matches!(sub.get_name(), "run" | "compare");
        sub.mut_args(|arg| match arg.get_id().as_str() {
            "lock" if preloaded => with(arg, PRELOADED.to_vec()),
            _ => with_names(arg, all),
        })
    });
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "lockyard", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// `arg`, with the names that it takes. (When the command is run, lists and other names of locks
/// are taken, too.)
fn with_names(arg: Arg, all: &'static [Candidate]) -> Arg {
    let names: Vec<&'static str> = match arg.get_id().as_str() {
        "lock" => selection::names(all, Origin::Lockyard),
        "peer" => selection::names(all, Origin::Peer),
        "policy" => all.iter().filter_map(|one| one.policy).collect(),
        // The command ends with the script: nothing is lost.
        "machine" => machines::listing().into_iter().filter_map(|row| Some(&*row.into_iter().next()?.leak())).collect(),
        "workload" => Workload::ALL.iter().map(|one| one.name()).collect(),
        "figures" => lockyard_figures::figures().iter().map(|figure| figure.id()).collect(),
        _ => return arg,
    };
    with(arg, names)
}

fn with(arg: Arg, names: Vec<&'static str>) -> Arg {
    arg.value_parser(PossibleValuesParser::new(names)).hide_possible_values(true)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_shell_completes_names() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell, crate::cli::Cli::command(), crate::candidates());
            for name in ["hq-spinlock", "parking_lot-mutex", "epyc9654_2s", "bkl-aim7", "today-kernel"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
            // Its scripts complete no words without an option before them.
            assert!(shell == Shell::Fish || script.contains("rwsem_06"), "{shell}");
        }
    }
}
