//! Running other programs: cargo, and tools that are installed when they are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a check ends in: nothing, or words for the person who must act, with the command to rerun.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A lock test that hangs must not hang the whole run: no single command may take longer than this.
pub(crate) const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The workspace's folder.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

static CALLER: OnceLock<PathBuf> = OnceLock::new();

/// Goes to the workspace's folder.
pub(crate) fn go_to_root() -> Outcome {
    let here = std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
    CALLER.get_or_init(|| here);
    std::env::set_current_dir(root()).map_err(|error| format!("{}: {error}", root().display()))
}

/// The folder in which the command was called.
pub(crate) fn caller() -> &'static Path {
    CALLER.get().map_or(Path::new("."), PathBuf::as_path)
}

/// The folder cargo builds in, `debug/` and `release/` inside it: where this very program lies.
pub(crate) fn target() -> PathBuf {
    let from_exe = std::env::current_exe().ok().and_then(|exe| exe.ancestors().nth(2).map(Path::to_owned));
    from_exe.unwrap_or_else(|| root().join("target"))
}

/// Runs `cargo` with the words of `arguments`.
pub(crate) fn cargo(arguments: &str) -> Outcome {
    cargo_with(&[], arguments)
}

/// Runs `cargo` with `environment` set; an empty value unsets the variable.
pub(crate) fn cargo_with(environment: &[(&str, &str)], arguments: &str) -> Outcome {
    let mut shown = String::new();
    let mut command = Command::new("cargo");
    for (name, value) in environment {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
            shown += &format!("{name}=\"{value}\" ");
        }
    }
    shown += &format!("cargo {arguments}");
    println!("$ {shown}");
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cargo does not start: {error}"))?;
    match wait(&mut child, LIMIT)? {
        Some(true) => Ok(()),
        Some(false) => Err(format!("rerun: {shown}")),
        None => Err(format!("stopped after {} minutes; rerun: {shown}", LIMIT.as_secs() / 60)),
    }
}

/// Runs a program and returns what it wrote to standard output.
pub(crate) fn capture(command: &mut Command) -> Outcome<String> {
    let shown = format!("{command:?}").replace('"', "");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{}\n{}: {shown}", String::from_utf8_lossy(&output.stderr).trim_end(), output.status))
}

/// Makes sure that `program` can be run, installing the Debian `package` if it cannot.
pub(crate) fn need(program: &str, package: &str) -> Outcome {
    need_if(|| installed(program), program, package)
}

/// Makes sure that `file` is there, installing the Debian `package` if it is not.
pub(crate) fn need_file(file: &str, package: &str) -> Outcome {
    need_if(|| Path::new(file).exists(), file, package)
}

fn need_if(there: impl Fn() -> bool, program: &str, package: &str) -> Outcome {
    if there() {
        return Ok(());
    }
    let line = format!("apt-get install -y --no-install-recommends {package}");
    let root = capture(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || !installed("apt-get") {
        return Err(format!("`{program}` is missing; run as root: apt-get update && {line}"));
    }
    println!("`{program}` is missing: {line}");
    let apt = |arguments: &str| {
        let mut command = Command::new("apt-get");
        command.args(arguments.split_whitespace()).env("DEBIAN_FRONTEND", "noninteractive");
        capture(&mut command)
    };
    apt("update -qq")?;
    apt(line.trim_start_matches("apt-get "))?;
    if there() { Ok(()) } else { Err(format!("`{program}` is still missing after: {line}")) }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Waits for a child: `Some(success)`, or `None` when the limit passed and it was killed with all
/// it had started.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Outcome<Option<bool>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(Some(status.success()));
        }
        if start.elapsed() > limit {
            kill_family(child)?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a child with all it has started.
pub(crate) fn kill_family(child: &mut Child) -> Outcome {
    let mut family = vec![child.id()];
    collect_children(child.id(), &mut family);
    drop(Command::new("kill").arg("-KILL").args(family.iter().map(u32::to_string)).status());
    child.wait().map(drop).map_err(|error| error.to_string())
}

fn collect_children(of: u32, family: &mut Vec<u32>) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "id (name) state parent ...": the name may hold spaces and brackets, so count from its
        // last bracket.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        if let (Some(id), true) = (id, parent == Some(of)) {
            family.push(id);
            collect_children(id, family);
        }
    }
}

/// The words that follow the name of a command mean nothing to it: the exit code.
pub(crate) fn misunderstood(name: &str, words: &[&str]) -> u8 {
    eprintln!("xtask: {name}: '{}' is not understood; see: cargo xtask {name} --help", words.join(" "));
    2
}

/// Prints what went wrong, if anything did: the exit code.
pub(crate) fn report(outcome: Outcome) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("xtask: {error}");
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_stopped_with_its_children() {
        let mut child = Command::new("sh").args(["-c", "sleep 600 & sleep 601 & wait"]).spawn().unwrap();
        let mut family = Vec::new();
        while family.len() < 2 {
            family.clear();
            collect_children(child.id(), &mut family);
        }
        assert_eq!(wait(&mut child, Duration::ZERO).unwrap(), None);
        let running = |id: &u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.contains("(sleep)") && !stat.contains(") Z")
        };
        let start = Instant::now();
        while family.iter().any(running) {
            assert!(start.elapsed() < Duration::from_secs(10), "still running");
        }
    }
}
