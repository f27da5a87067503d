//! `cargo xtask lab cluster`: sweeps whose processes are killed, alone and on clusters of two
//! workers on this machine. What comes of each must be, to the byte, what one process makes.
//!
//! | part | what |
//! |---|---|
//! | `kills` | 2,000 cells in two shards, which are killed three times and go on |
//! | `recipes` | the guide's for Slurm, GNU parallel and Kubernetes, with their environment |
//! | `hyperqueue`, `dask` | the guide's, on two workers, one of which is killed in the middle |
//!
//! The Python packages are installed in a virtual environment below the folder that cargo builds
//! in.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use crate::tools::{self, Outcome, capture, cargo, kill_family, need};

/// The chapter with the recipes.
const RECIPES: &str = "docs/guide/src/sweeps.md";
const PACKAGES: &str = "hyperqueue distributed";
/// Of one recipe.
const LIMIT: Duration = Duration::from_secs(600);
/// Shards of the recipes.
const SHARDS: usize = 4;
/// 2,000 cells.
const MANY: &str = "machines = [\"skx_1s\", \"quad2008\"]\nlocks = [\"mutex\", \"rwsem\", \"qspinlock\", \"ticket\", \"semaphore\"]\n\
                    threads = [1, 2, 3, 4, 8]\nseeds = \"1:20\"\nduration = \"300us\"\n\
                    [[settings]]\n[[settings]]\nmodel.occupancy_ratio = 0.5\n";
/// 200 cells.
const FEW: &str = "machines = \"skx_2s_40c\"\nlocks = [\"mutex\", \"rwsem\"]\nthreads = [20, 40]\nseeds = \"1:50\"\nduration = \"2ms\"\n";

type Part = (&'static str, fn(&Sweep) -> Outcome<String>);
const PARTS: [Part; 4] = [("kills", kills), ("recipes", recipes), ("hyperqueue", hyperqueue), ("dask", dask)];

/// Its exit code.
pub(crate) fn main(words: &[&str]) -> u8 {
    if words.iter().any(|word| PARTS.iter().all(|(name, _)| name != word)) {
        return tools::misunderstood("lab cluster", words);
    }
    let chosen = PARTS.into_iter().filter(|(name, _)| words.is_empty() || words.contains(name));
    tools::report(run(&chosen.collect::<Vec<_>>()))
}

fn run(parts: &[Part]) -> Outcome {
    cargo("build --release -p lockyard-cli")?;
    for (name, part) in parts {
        println!("\n=== {name}");
        let sweep = Sweep::new(name)?;
        let said = part(&sweep).and_then(|said| sweep.compared().map(|equal| format!("{said}; {equal}")));
        println!("{name}: {}", said.map_err(|why| format!("{why}\nrerun: cargo xtask lab cluster {name}"))?);
    }
    Ok(())
}

/// A plan in a folder of its own.
struct Sweep {
    folder: PathBuf,
    whole: String,
}

/// A process that is killed with all it has started when it is no longer needed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The number of one that has ended may be another's by now.
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_family(&mut self.0);
        }
    }
}

impl Sweep {
    /// An empty sweep, and what it comes to in one piece.
    fn new(name: &str) -> Outcome<Self> {
        let folder = tools::target().join("cluster").join(name);
        let broken = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(broken)?;
        }
        fs::create_dir_all(folder.join("bin")).map_err(broken)?;
        fs::write(folder.join("plan.toml"), if name == "kills" { MANY } else { FEW }).map_err(broken)?;
        let mut sweep = Self { folder, whole: String::new() };
        capture(&mut sweep.lockyard("sweep plan.toml --dir whole"))?;
        sweep.whole = capture(&mut sweep.lockyard("sweep merge plan.toml whole"))?;
        Ok(sweep)
    }

    /// `program` in the folder, where `lockyard` is found.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = env::var_os("PATH").unwrap_or_default();
        let places = [self.folder.join("bin"), tools::target().join("release")].into_iter();
        let path = env::join_paths(places.chain(env::split_paths(&path))).unwrap_or(path);
        command.current_dir(&self.folder).env("PATH", path).stdin(Stdio::null());
        command
    }

    fn lockyard(&self, words: &str) -> Command {
        let mut command = self.command(tools::target().join("release/lockyard"));
        command.args(words.split(' '));
        command
    }

    /// `command`, started, which writes to the file `log`.
    fn started(&self, mut command: Command, log: &str) -> Outcome<Running> {
        let path = self.folder.join(log);
        let broken = |error: std::io::Error| format!("{}: {error}", path.display());
        let out = fs::File::create(&path).map_err(broken)?;
        let errors = out.try_clone().map_err(broken)?;
        let child = command.stdout(out).stderr(errors).spawn();
        child.map(Running).map_err(|error| format!("{command:?}: {error}"))
    }

    /// How many lines the file of a shard has.
    fn lines(&self, number: usize, count: usize) -> usize {
        let path = self.folder.join(format!("plan.sweep/{number}-of-{count}.jsonl"));
        fs::read(path).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
    }

    /// Fails unless every cell was done once, and all are those of one piece.
    fn compared(&self) -> Outcome<String> {
        let merged = capture(&mut self.lockyard("sweep merge plan.toml"))?;
        let files = fs::read_dir(self.folder.join("plan.sweep")).map_err(|error| error.to_string())?;
        let lines: usize = files
            .flatten()
            .filter_map(|file| fs::read_to_string(file.path()).ok())
            .map(|text| text.lines().count())
            .sum();
        let cells = merged.lines().count();
        if lines != cells {
            return Err(format!("{lines} lines of {cells} cells: some were done twice"));
        }
        if !merged.lines().zip(1..).all(|(line, cell)| line.contains(&format!(",\"cell\":{cell},\"key\":"))) {
            return Err("the cells are not numbered from 1 on".to_owned());
        }
        if merged != self.whole {
            return Err(format!("{}: not the bytes of one piece", self.folder.display()));
        }
        Ok(format!("{cells} cells, each once, {} bytes equal to those of one piece", merged.len()))
    }
}

/// Waits until `done`, unless `running` ends before.
fn until(running: &mut Running, what: &str, done: impl Fn() -> bool) -> Outcome {
    while !done() {
        if let Some(status) = running.0.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("{what}: ended before ({status})"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn finish(mut running: Running, log: &Path) -> Outcome {
    match tools::wait(&mut running.0, LIMIT)? {
        Some(true) => Ok(()),
        _ => Err(format!("failed, or took too long: {}", log.display())),
    }
}

fn kills(sweep: &Sweep) -> Outcome<String> {
    let mut kills = 0;
    for (number, stops) in [(1, &[150, 600][..]), (2, &[400][..])] {
        let words = format!("sweep plan.toml --shard {number}/2 --resume");
        for &lines in stops {
            let mut running = sweep.started(sweep.lockyard(&words), "log")?;
            until(&mut running, "a process to be killed", || sweep.lines(number, 2) >= lines)?;
            drop(running);
            kills += 1;
            println!("killed: shard {number}/2 has {} of 1000 lines", sweep.lines(number, 2));
        }
        capture(&mut sweep.lockyard(&words))?;
    }
    Ok(format!("{kills} kills"))
}

/// The block of the guide's chapter on sweeps that contains `mark`.
fn block(mark: &str) -> Outcome<String> {
    let path = tools::root().join(RECIPES);
    let chapter = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut blocks = chapter.split("\n```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let found = blocks.find(|(_, text)| text.contains(mark)).map(|(_, text)| format!("{text}\n"));
    found.ok_or_else(|| format!("{}: no block with '{mark}'", path.display()))
}

fn recipes(sweep: &Sweep) -> Outcome<String> {
    let write =
        |name: &str, text: &str| fs::write(sweep.folder.join(name), text).map_err(|error| format!("{name}: {error}"));
    let clean = || fs::remove_dir_all(sweep.folder.join("plan.sweep")).map_err(|error| error.to_string());
    let mut said = String::new();
    write("sweep.sbatch", &block("#SBATCH")?)?;
    write("bin/srun", "#!/bin/sh\nexec \"$@\"\n")?;
    capture(sweep.command("chmod").args(["+x", "bin/srun"]))?;
    for id in 1..=SHARDS {
        let task = [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_COUNT", SHARDS), ("SLURM_CPUS_PER_TASK", 2)];
        let task = task.map(|(name, value)| (name, value.to_string()));
        capture(sweep.command("sh").arg("sweep.sbatch").env("SLURM_ARRAY_TASK_MIN", "1").envs(task))?;
    }
    let _ = write!(said, "Slurm's script: {}", sweep.compared()?);
    clean()?;
    // GNU parallel need not be there; xargs does the same with one line.
    let line = block("parallel --jobs")?.replace("parallel --jobs 2 --retries 3", "xargs -P 2 -I{}");
    capture(sweep.command("sh").args(["-c", &line]))?;
    let _ = write!(said, "; GNU parallel's line, by xargs: {}", sweep.compared()?);
    clean()?;
    let job = block("completionMode: Indexed")?;
    let words = job.split_once("command: [").and_then(|(_, rest)| rest.split_once(']'));
    let words = words.ok_or_else(|| format!("{RECIPES}: the job has no command"))?.0.split(',');
    let words: Vec<&str> = words.map(|word| word.trim().trim_matches('"')).collect();
    for index in 0..SHARDS {
        capture(sweep.command(words[0]).args(&words[1..]).env("JOB_COMPLETION_INDEX", index.to_string()))?;
    }
    Ok(format!("{said}; Kubernetes' command"))
}

/// The Python of a virtual environment that has the packages.
fn python() -> Outcome<PathBuf> {
    need("python3", "python3-venv")?;
    let folder = tools::target().join("cluster-python");
    let python = folder.join("bin/python");
    if capture(Command::new(&python).args(["-c", "import hyperqueue, distributed"])).is_err() {
        let line = format!("python3 -m venv {0} && {0}/bin/python -m pip install {PACKAGES}", folder.display());
        println!("$ {line}");
        capture(Command::new("sh").args(["-c", &line])).map_err(|why| format!("{why}\nrun: {line}"))?;
    }
    Ok(python)
}

/// Runs the guide's recipe `name`, and kills the process `worker` while two shards are in the
/// middle.
fn with_a_kill(sweep: &Sweep, name: &str, argument: &str, worker: u32) -> Outcome<String> {
    let script = format!("sweep-{name}.py");
    let text = block(&format!("# {script}"))?;
    fs::write(sweep.folder.join(&script), text).map_err(|error| format!("{script}: {error}"))?;
    let mut recipe = sweep.command(python()?);
    recipe.args([&script, argument]);
    let mut recipe = sweep.started(recipe, "recipe.log")?;
    let of_shard = sweep.whole.lines().count() / SHARDS;
    let lines = || (1..=SHARDS).map(|number| sweep.lines(number, SHARDS)).collect::<Vec<_>>();
    let in_the_middle = || lines().iter().filter(|lines| (2..of_shard - 5).contains(*lines)).count() >= 2;
    until(&mut recipe, "the recipe", in_the_middle)?;
    capture(Command::new("kill").args(["-KILL", &worker.to_string()]))?;
    let then = lines();
    println!("killed worker {worker}: shards have {then:?} of {of_shard} lines");
    finish(recipe, &sweep.folder.join("recipe.log"))?;
    Ok(format!("one of two workers killed when the shards had {then:?} of {of_shard} lines"))
}

fn hyperqueue(sweep: &Sweep) -> Outcome<String> {
    let server = sweep.folder.join("server");
    let server = server.to_string_lossy();
    let mut command = sweep.command(python()?);
    command.args(["-c", include_str!("workers.py"), &server]).stdin(Stdio::piped());
    let mut cluster = sweep.started(command, "cluster.log")?;
    let log = sweep.folder.join("cluster.log");
    // The line is written at once, newline included.
    let workers = || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("workers "))?;
        line.split(' ').nth(1)?.parse().ok()
    };
    until(&mut cluster, "the workers", || workers().is_some())?;
    let worker = workers().ok_or("no workers")?;
    with_a_kill(sweep, "hyperqueue", &server, worker)
}

fn dask(sweep: &Sweep) -> Outcome<String> {
    let dask = |words: &str, log: &str| {
        let mut command = sweep.command(python()?.with_file_name("dask"));
        command.args(words.split(' ')).args(["--scheduler-file", "scheduler.json", "--no-dashboard"]);
        sweep.started(command, log)
    };
    let mut scheduler = dask("scheduler --host 127.0.0.1 --port 0", "scheduler.log")?;
    until(&mut scheduler, "dask scheduler", || sweep.folder.join("scheduler.json").exists())?;
    let worker = |log| dask("worker --host 127.0.0.1 --nworkers 1 --nthreads 1 --no-nanny", log);
    let workers = [worker("worker1.log")?, worker("worker2.log")?];
    with_a_kill(sweep, "dask", "scheduler.json", workers[0].0.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_the_recipes() {
        for mark in
            ["#SBATCH", "parallel --jobs", "completionMode: Indexed", "# sweep-hyperqueue.py", "# sweep-dask.py"]
        {
            let text = block(mark).unwrap();
            assert!(text.contains("lockyard") && !text.contains("```"), "{mark}: {text}");
        }
        assert!(block("no such recipe").is_err());
    }
}
