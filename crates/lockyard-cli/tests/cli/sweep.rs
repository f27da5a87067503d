//! Sweeps: shards that are killed and go on, and what comes of them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;

use super::*;

/// 40 cells.
const PLAN: &str = "machines = [\"skx_1s\", \"quad2008\"]\nlocks = [\"mutex\", \"rtmutex-tree\"]\nthreads = 3\nseeds = \"1:5\"\n\
                    duration = \"300us\"\nsettings = [{}, { model.occupancy_ratio = 0.5 }]\n";
const CELLS: usize = 40;

/// A plan in a folder of its own.
struct Sweep {
    folder: PathBuf,
    plan: String,
}

impl Sweep {
    fn new(name: &str) -> Self {
        let folder = scratch(name);
        let plan = folder.join("plan.toml");
        fs::write(&plan, PLAN).expect("writable");
        Self { plan: plan.to_str().expect("UTF-8").to_owned(), folder }
    }

    /// `lockyard sweep PLAN` with `more`.
    fn run(&self, more: &[&str]) -> Output {
        lockyard(&[&["sweep", &self.plan], more].concat())
    }

    #[track_caller]
    fn done(&self, more: &[&str]) {
        let output = self.run(more);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }

    #[track_caller]
    fn refused(&self, more: &[&str], part: &str) {
        refused(&[&["sweep", &self.plan], more].concat(), part);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("plan.sweep").join(name)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.file(name)).expect("the shard's file");
        assert!(text.ends_with('\n') || text.is_empty());
        text.lines().map(str::to_owned).collect()
    }

    fn merge(&self, more: &[&str]) -> Output {
        lockyard(&[&["sweep", "merge", &self.plan], more].concat())
    }

    /// The merged lines, all of them.
    #[track_caller]
    fn merged(&self, more: &[&str]) -> String {
        let output = self.merge(more);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    }

    /// What a sweep in one piece comes to.
    fn in_one_piece(&self) -> String {
        let dir = self.folder.join("whole");
        let dir = dir.to_str().expect("UTF-8");
        self.done(&["--dir", dir, "--jobs", "2"]);
        self.merged(&[dir])
    }

    fn end(self) {
        fs::remove_dir_all(self.folder).expect("ours");
    }
}

/// The number of line ends in a file that may not be there yet.
fn ends(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|&&byte| byte == b'\n').count())
}

#[test]
fn a_sweep_that_is_killed_again_and_again_is_the_one_in_one_piece() {
    let sweep = Sweep::new("sweep-killed");
    // Long enough to be killed in.
    fs::write(&sweep.plan, PLAN.replace("300us", "1ms")).expect("writable");
    let mut killed = 0;
    for (shard, name) in [("1/2", "1-of-2.jsonl"), ("2/2", "2-of-2.jsonl")] {
        for lines in [1, 4, 9, 13] {
            let mut child = Command::new(cargo_bin!("lockyard"))
                .args(["sweep", &sweep.plan, "--shard", shard, "--jobs", "2", "--resume"])
                .stderr(Stdio::null())
                .spawn()
                .expect("the binary runs");
            while ends(&sweep.file(name)) < lines && child.try_wait().expect("a child").is_none() {
                thread::yield_now();
            }
            child.kill().expect("killed or gone");
            killed += usize::from(child.wait().expect("a child").signal() == Some(9));
        }
        sweep.done(&["--shard", shard, "--resume"]);
        assert_eq!(sweep.lines(name).len(), CELLS / 2);
    }
    assert!(killed > 0, "no process was killed before its end");
    let merged = sweep.merged(&[]);
    let cells: Vec<u64> = merged.lines().map(|line| field(line, "cell").as_u64().expect("a number")).collect();
    assert_eq!(cells, (1..=CELLS as u64).collect::<Vec<_>>());
    assert_eq!(merged, sweep.in_one_piece());
    sweep.end();
}

fn field(line: &str, name: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(line).expect("a JSON object a line")[name].clone()
}

#[test]
fn a_torn_line_is_cut_off_and_done_again() {
    let sweep = Sweep::new("sweep-torn");
    sweep.done(&["--shard", "1/4"]);
    let (path, name) = (sweep.file("1-of-4.jsonl"), "1-of-4.jsonl");
    let whole = sweep.lines(name);
    for left in [1, 100] {
        let length = fs::metadata(&path).expect("there").len();
        OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(length - left)).expect("shorter");
        let output = lockyard(&["sweep", "status", &sweep.plan]);
        assert!(stdout(&output).contains("9 of 40 cells are done"), "{}", stdout(&output));
        assert_eq!(sweep.merge(&[]).status.code(), Some(1));
        sweep.done(&["--shard", "1/4", "--resume"]);
        assert_eq!(sweep.lines(name), whole, "{left}");
    }
    sweep.end();
}

#[test]
fn a_line_is_that_of_sim_with_cell_and_key() {
    let sweep = Sweep::new("sweep-sim");
    let merged = sweep.in_one_piece();
    // The last: quad2008, changed, rtmutex-tree, seed 5.
    let line = merged.lines().last().expect("a line");
    let options =
        ["--machine", "quad2008", "--lock", "rtmutex-tree", "--threads", "3", "--seed", "5", "--duration", "300us"];
    let sim = lockyard(&[&["sim", "--json", "--set", "model.occupancy_ratio=0.5"], &options[..]].concat());
    let record = stdout(&sim);
    let (version, rest) = line.split_once(",\"cell\":40,\"key\":").expect("a number");
    let (key, rest) = rest.split_once(',').expect("a record");
    assert_eq!(format!("{version},{rest}\n"), record);
    assert_eq!((key.len(), version), (18, format!("{{\"version\":\"{}\"", env!("CARGO_PKG_VERSION")).as_str()));
    assert_eq!(field(line, "set")["model.occupancy_ratio"], 0.5);
    sweep.end();
}

#[test]
fn lines_of_another_plan_or_version_are_refused() {
    let sweep = Sweep::new("sweep-other");
    sweep.done(&["--shard", "2/4", "--jobs", "1"]);
    sweep.refused(&["--shard", "2/4"], "it has 10 of 10 cells already; go on with --resume, or remove it");
    let path = sweep.file("2-of-4.jsonl");
    let text = fs::read_to_string(&path).expect("there");
    fs::copy(&path, sweep.file("1-of-4.jsonl")).expect("copied");
    sweep.refused(&["--shard", "1/4", "--resume"], "line 1: cell 2 is not of shard 1/4");
    fs::remove_file(sweep.file("1-of-4.jsonl")).expect("ours");

    let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    fs::write(&path, text.replace(&version, "\"version\":\"0.0.9\"")).expect("writable");
    sweep.refused(&["--shard", "2/4", "--resume"], "line 1: it was written by lockyard 0.0.9, and this is ");
    refused(&["sweep", "merge", &sweep.plan], "written by lockyard 0.0.9");
    fs::write(&path, format!("{text}{{}}\n")).expect("writable");
    sweep.refused(&["--shard", "2/4", "--resume"], "line 11: it is no line of a sweep");
    assert_eq!(fs::read_to_string(&path).expect("there"), format!("{text}{{}}\n"), "a refusal changes nothing");

    fs::write(&path, &text).expect("writable");
    fs::write(&sweep.plan, PLAN.replace("threads = 3", "threads = 2")).expect("writable");
    sweep.refused(&["--shard", "2/4", "--resume"], "is of another plan; was the plan, a machine file");
    refused(&["sweep", "status", &sweep.plan], "line 1: cell 2 with key");
    // Settings of hierarchical locks decide results too.
    fs::write(&sweep.plan, PLAN).expect("writable");
    let arguments = ["sweep", &sweep.plan, "--shard", "2/4", "--resume"];
    let output = with_environment(&[("LOCKYARD_HQ_LANES", "2")], &arguments);
    is_refusal(&output, &arguments, "is of another plan");
    sweep.done(&["--shard", "2/4", "--resume"]);
    sweep.end();
}

#[test]
fn two_processes_do_not_write_one_file() {
    let sweep = Sweep::new("sweep-twice");
    fs::create_dir(sweep.folder.join("plan.sweep")).expect("new");
    let file = File::create(sweep.file("1-of-1.jsonl")).expect("new");
    file.try_lock().expect("ours alone");
    sweep.refused(&["--resume"], "another process does shard 1/1 now; give --wait TIME");
    sweep.refused(&["--resume", "--wait", "10ms"], "another process does shard 1/1 now");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| sweep.done(&["--resume", "--wait", "10min"]));
        drop(file);
        waiting.join().expect("it went on");
    });
    sweep.end();
}

#[test]
fn merging_wants_every_cell_and_no_two_that_differ() {
    let sweep = Sweep::new("sweep-merge");
    refused(&["sweep", "merge", &sweep.plan], "plan.sweep': cannot be read: no such file");
    sweep.done(&["--shard", "1/2", "--jobs", "1"]);
    let output = sweep.merge(&[]);
    assert_eq!((output.status.code(), stdout(&output).lines().count()), (Some(1), CELLS / 2));
    let line = stderr(&output);
    assert!(line.starts_with("lockyard: 20 of 40 cells are missing: 2, 4, 6,") && line.lines().count() == 1, "{line}");
    let output = lockyard(&["sweep", "status", &sweep.plan]);
    assert!(stdout(&output).contains("2/2        0   20        0   not begun"), "{}", stdout(&output));
    // Cut in another way, cells are there twice, and equal.
    for shard in ["1/3", "2/3", "3/3"] {
        sweep.done(&["--shard", shard, "--jobs", "1"]);
    }
    assert_eq!(sweep.merged(&[]), sweep.in_one_piece());
    let out = sweep.folder.join("result.jsonl");
    assert_eq!(sweep.merged(&["--out", out.to_str().expect("UTF-8")]), "");
    assert_eq!(fs::read_to_string(&out).expect("written"), sweep.merged(&[]));
    // A host that computes wrongly.
    let other = sweep.folder.join("other");
    fs::create_dir(&other).expect("new");
    let wrong = sweep.lines("3-of-3.jsonl").join("\n").replacen("\"operations\":", "\"operations\":1", 1) + "\n";
    fs::write(other.join("3-of-3.jsonl"), wrong).expect("writable");
    fs::remove_file(&out).expect("ours");
    let (plan, other) = (&sweep.plan, other.to_str().expect("UTF-8"));
    let usual = sweep.folder.join("plan.sweep");
    let words = ["sweep", "merge", plan, usual.to_str().expect("UTF-8"), other, "--out", out.to_str().expect("UTF-8")];
    let output = lockyard(&words);
    let line = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{line}");
    for part in ["differs between '", "plan.sweep/1-of-2.jsonl', line 2", "other/3-of-3.jsonl', line 1", "cell 3 "] {
        assert!(line.contains(part) && line.lines().count() == 1, "{part}: {line}");
    }
    assert!(!out.exists());
    sweep.end();
}

#[test]
fn simulations_that_failed_are_done_and_told() {
    let sweep = Sweep::new("sweep-failed");
    sweep.done(&[]);
    let path = sweep.file("1-of-1.jsonl");
    let text = fs::read_to_string(&path).expect("there");
    fs::write(&path, text.replacen(",\"machine\":", ",\"failed\":\"given up\",\"machine\":", 1)).expect("writable");
    let output = lockyard(&["sweep", "status", &sweep.plan]);
    assert!(stdout(&output).ends_with("40 of 40 cells are done, 1 of them failed\n"), "{}", stdout(&output));
    let (merged, again) = (sweep.merge(&[]), sweep.run(&["--resume"]));
    assert_eq!((merged.status.code(), stdout(&merged).lines().count()), (Some(1), CELLS));
    assert!(stderr(&merged).contains("1 simulation of 40 failed"), "{}", stderr(&merged));
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("1 of 40 simulations failed"), "{}", stderr(&again));
    assert_eq!(sweep.lines("1-of-1.jsonl").len(), CELLS);
    sweep.end();
}

#[test]
fn the_environment_says_which_shard() {
    let sweep = Sweep::new("sweep-shards");
    let run = |variables: &[(&str, &str)], more: &[&str]| {
        let output = with_environment(variables, &[&["sweep", &sweep.plan], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    run(&[("SLURM_ARRAY_TASK_ID", "2"), ("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_COUNT", "4")], &[]);
    run(&[("JOB_COMPLETION_INDEX", "0")], &["--shards", "4"]);
    run(&[("HQ_TASK_ID", "3")], &["--shards", "4"]);
    run(&[("HQ_TASK_ID", "3")], &["--shard", "4/4"]);
    let files = names(&sweep.folder.join("plan.sweep"));
    assert_eq!(files, ["1-of-4.jsonl", "2-of-4.jsonl", "3-of-4.jsonl", "4-of-4.jsonl"]);
    assert_eq!(sweep.merged(&[]), sweep.in_one_piece());
    let arguments = ["sweep", &sweep.plan];
    is_refusal(&with_environment(&[("HQ_TASK_ID", "3")], &arguments), &arguments, "give --shards N");
    sweep.end();
}

#[test]
fn an_interrupted_shard_keeps_what_was_done() {
    let sweep = Sweep::new("sweep-interrupted");
    // So long that it never ends.
    fs::write(&sweep.plan, PLAN.replace("1:5", "1:1000").replace("300us", "20ms")).expect("writable");
    let mut child = Command::new(cargo_bin!("lockyard"))
        .args(["sweep", &sweep.plan, "--jobs", "1"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    while ends(&sweep.file("1-of-1.jsonl")) < 2 {
        assert!(child.try_wait().expect("a child").is_none());
        thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("the child is there");
    let output = child.wait_with_output().expect("the child ends");
    let done = sweep.lines("1-of-1.jsonl").len();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let wanted = format!("has {done} of 8000 cells; --resume goes on");
    assert!(done >= 2 && stderr(&output).contains(&wanted), "{}", stderr(&output));
    sweep.end();
}

#[test]
fn a_plan_is_refused_by_file_and_line() {
    let sweep = Sweep::new("sweep-refused");
    fs::write(&sweep.plan, format!("{PLAN}thread = 2\n")).expect("writable");
    sweep.refused(&[], "plan.toml:7: unknown field 'thread'; did you mean 'threads'?");
    fs::write(&sweep.plan, PLAN).expect("writable");
    sweep.refused(&["--shard", "5/4"], "--shard: '5/4' is not K/N");
    sweep.refused(&["--jobs", "x"], "--jobs: 'x' is not a whole number");
    sweep.refused(&["--shard", "1/2", "--shards", "2"], "cannot be used with");
    refused(&["sweep"], "<PLAN>");
    refused(&["sweep", "nowhere.toml"], "nowhere.toml: no such file");
    assert_eq!(names(&sweep.folder), ["plan.toml"], "nothing is written");
    let mut plan = OpenOptions::new().append(true).open(&sweep.plan).expect("there");
    writeln!(plan, "workloads = [\"contend\", \"app.toml\"]").expect("writable");
    sweep.refused(&[], "app.toml: no such file");
    fs::write(
        sweep.folder.join("app.toml"),
        "[lock.A]\n[[role]]\ncpu = \"1us\"\ntakes = [{ lock = \"A\", hold = \"50ns\" }]",
    )
    .expect("writable");
    sweep.done(&[]);
    assert_eq!(sweep.lines("1-of-1.jsonl").len(), 2 * CELLS);
    sweep.end();
}
