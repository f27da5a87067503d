//! Programs as data: models and recordings, predicted, replayed, printed and reduced.

use super::*;

const MODEL: &str = r#"
[lock.CACHE]
objects = 1
[lock.MAP]
kind = "rwlock"
[[role]]
cpu = "2us"
takes = [
  { lock = "CACHE", hold = "300ns", count = 2 },
  { lock = "MAP", hold = "60ns", reads = 90 },
]
"#;

fn model(name: &str) -> (PathBuf, String) {
    let folder = scratch(name);
    let path = folder.join("app.toml");
    fs::write(&path, MODEL).expect("a model");
    (folder, path.to_string_lossy().into_owned())
}

#[test]
fn a_prediction_is_a_sentence_a_curve_and_alternatives() {
    let (folder, path) = model("predict");
    let [out, page] = ["found.json", "found.html"].map(|name| folder.join(name).to_string_lossy().into_owned());
    let arguments = [
        "predict",
        &path,
        "--machine",
        "quad2008",
        "--threads",
        "1,2,4",
        "--lock",
        "mutex",
        "--duration",
        "300us",
        "--out",
        &out,
        "--html",
        &page,
    ];
    let output = lockyard(&arguments);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.starts_with("app: scales to "), "{text}");
    for part in [
        "As it is",
        "what limits",
        "mutex on CACHE",
        "shards=8:CACHE",
        "hold/2:CACHE",
        "remove:CACHE",
        "saturates: CACHE at",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    let found: serde_json::Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let shown = fs::read_to_string(&page).unwrap();
    let sentence = found["sentence"].as_str().unwrap();
    assert!(shown.contains(sentence) && shown.matches("<svg ").count() == 2 && shown.ends_with("</html>\n"));
    assert!(text.contains(&format!("wrote {page}")), "{text}");
    let alternatives = found["alternatives"].as_array().unwrap();
    assert_eq!((alternatives.len(), found["interrupted"].as_bool()), (5, Some(false)));
    for (number, alternative) in alternatives.iter().enumerate() {
        let points = alternative["points"].as_array().unwrap();
        assert_eq!(points.len(), 3, "{alternative}");
        for point in points {
            let value = |name: &str| point[name].as_f64().unwrap();
            assert!(value("low") <= value("progress") && value("progress") <= value("high"), "{point}");
            // Shorter sections are worth what they were, and the CPUs do more than they could.
            if number == 3 {
                continue;
            }
            // Nobody does more than he has CPUs for.
            assert!(value("high") <= value("threads") * 1.01, "{point}");
            // What was lost and what was done are parts of the threads' time, and nearly all of it.
            let losses = point["losses"].as_array().unwrap().iter().map(|loss| loss["share"].as_f64().unwrap());
            let told = losses.sum::<f64>() + value("progress") / value("threads");
            assert!((0.9..1.05).contains(&told), "{told} of {point}");
        }
    }
    // A removed lock is one that nobody waits for.
    let best = |number: usize| alternatives[number]["points"][2]["progress"].as_f64().unwrap();
    assert!(best(4) > 1.2 * best(0), "{found}");
    let again = lockyard(&arguments);
    assert_eq!(stdout(&again), text, "the same to the last digit");
    fs::remove_dir_all(folder).unwrap();
}

/// Progress counted an operation at the time that it took after the change: half the hold twice as
/// often was no gain.
#[test]
fn a_program_with_shorter_sections_gains_what_its_operations_gain() {
    let (folder, path) = model("predict-hold");
    fs::write(&path, "[lock.BIG]\n[[role]]\ncpu = \"200ns\"\ntakes = [{ lock = \"BIG\", hold = \"10us\" }]\n").unwrap();
    let words = "--machine quad2008 --threads 1 --lock none --what-if hold/2:BIG --duration 2ms --json";
    let arguments = ["predict", &path].into_iter().chain(words.split(' '));
    let output = lockyard(&arguments.collect::<Vec<_>>());
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let gain = |name: &str| {
        let value = |number: usize| found["alternatives"][number]["points"][0][name].as_f64().unwrap();
        value(1) / value(0)
    };
    let (progress, rate) = (gain("progress"), gain("ops_per_s"));
    assert!(rate > 1.8 && (progress / rate - 1.0).abs() < 0.01, "progress × {progress}, operations × {rate}");
    assert!(found["sentence"].as_str().unwrap().contains("hold/2:BIG × 1.9"), "{found}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_prediction_in_csv_has_a_line_per_point() {
    let (folder, path) = model("predict-csv");
    let arguments = [
        "predict",
        &path,
        "--machine",
        "quad2008",
        "--threads",
        "2",
        "--lock",
        "none",
        "--what-if",
        "rwlock:CACHE",
        "--duration",
        "200us",
        "--csv",
    ];
    let text = stdout(&lockyard(&arguments));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[2].contains("rwlock:CACHE,2,"), "{text}");
    assert!(lines.iter().all(|line| line.split(',').count() == 15), "{text}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_a_prediction_cannot_do_is_refused() {
    let (folder, path) = model("predict-refused");
    let on = |more: &[&'static str]| -> Vec<String> {
        let words = ["predict", path.as_str(), "--machine", "quad2008"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let cases: [(&[&'static str], &str); 6] = [
        (&["--class", "LIST"], "unknown class 'LIST'; known are CACHE, MAP"),
        (&["--class", "MAP", "--lock", "hq-spinlock"], "hq-spinlock has no read side, and MAP is read"),
        (&["--what-if", "shards=0:CACHE"], "needs a number of shards"),
        (&["--what-if", "remove:LIST"], "unknown lock 'LIST'"),
        (&["--threads", "0"], "--threads: 0 is out of bounds"),
        (&["--lock", "mutx"], "did you mean 'mutex'"),
    ];
    for (more, part) in cases {
        let words = on(more);
        refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), part);
    }
    refused(&["predict", "/nowhere/app.toml", "--machine", "quad2008"], "/nowhere/app.toml: no such file");
    let bad = folder.join("bad.toml");
    fs::write(&bad, "[[role]]\ncpu = \"2us\"\nholds = 3\n").unwrap();
    let bad = bad.to_string_lossy();
    refused(&["predict", &bad, "--machine", "quad2008"], "bad.toml:3: unknown field `holds`");
    refused(&["bench", "--workload", &bad, "--lock", "mutex"], "bad.toml:3: unknown field `holds`");
    fs::remove_dir_all(folder).unwrap();
}

/// `sim` let waiters spin as in a kernel, `predict` as on Linux: mcs lost nothing, or 97 %.
#[test]
fn a_program_spins_alike_in_sim_and_predict() {
    let (folder, path) = model("spins");
    fs::write(&path, "[lock.TABLE]\n[[role]]\ncpu = \"8us\"\ntakes = [{ lock = \"TABLE\", hold = \"2us\" }]\n")
        .unwrap();
    let run = |more: &str| {
        let words = "--machine epyc9654_2s:nps4 --lock mcs --threads 16 --duration 3ms --workload";
        let arguments: Vec<&str> = ["sim"].into_iter().chain(words.split(' ')).chain([&*path, more]).collect();
        stdout(&lockyard(&arguments))
    };
    let progress = |more: &str| serde_json::from_str::<serde_json::Value>(&run(more)).unwrap();
    // A waiter is eleven holds from its turn: longer than spins last on Linux.
    assert!(progress("--json")["metrics"]["progress"].as_f64().unwrap() < 1.0);
    let text = run("--in-kernel");
    assert!(text.contains("spin         as a kernel's locks"), "{text}");
    let text = run("--placement=fill");
    assert!(text.contains("spin         as a program's locks on Linux"), "{text}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_model_is_a_workload() {
    let (folder, path) = model("workload");
    let simulated = [
        "sim",
        "--machine",
        "quad2008",
        "--lock",
        "mutex",
        "--workload",
        &path,
        "--threads",
        "2",
        "--duration",
        "200us",
    ];
    let text = stdout(&lockyard(&simulated));
    assert!(text.contains("app, 2 threads") && text.contains("ops_per_s"), "{text}");
    // All models were "replay" to programs.
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&lockyard(&[&simulated[..], &["--json"]].concat()))).expect("JSON");
    assert_eq!((document["workload"].as_str(), document["program"].as_str()), (Some("replay"), Some("app")));
    let table = stdout(&lockyard(&[&simulated[..], &["--csv"]].concat()));
    assert!(table.lines().next().is_some_and(|head| head.ends_with(",program")), "{table}");
    assert!(table.lines().nth(1).is_some_and(|line| line.ends_with(",app")), "{table}");
    let native = |secs: &str| -> Vec<serde_json::Value> {
        let locks = ["bench", "--lock", "rwsem", "--peer", "pthread-mutex", "--workload", &path];
        let cell = ["--threads", "2", "--secs", secs, "--rounds", "1", "--allow-one-cpu", "--json"];
        let output = lockyard(&[&locks[..], &cell[..]].concat());
        let lines: Vec<_> = stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 2, "{}", stderr(&output));
        lines
    };
    let runs = |line: &serde_json::Value| line["metrics"]["ops_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
    // Beside other programs, the threads may not get a CPU in a short window.
    let windows = ["0.01", "0.1", "1", "10"];
    assert!(windows.iter().any(|secs| native(secs).iter().all(runs)), "{:?}", native("0.01"));
    fs::remove_dir_all(folder).unwrap();
}

const LINES: &str = "\
lockyard recording 1
program app
class mutex CACHE
lock 0
window 1 0
";

fn recorded() -> String {
    let mut text = LINES.to_owned();
    for round in 0..40 {
        let at = round * 2_000;
        text += &format!("{} 1 request 0 write\n", at + 1_900);
        if round % 4 == 0 {
            text += &format!("{} 1 grant 0\n", at + 1_930);
        }
        text += &format!("{} 1 release 0\n", at + 2_000);
    }
    text
}

#[test]
fn a_recording_goes_through_both_forms_and_comes_to_a_model() {
    let folder = scratch("recording");
    let place = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (lines, file, model) = (place("app.txt"), place("app.lyr"), place("app.toml"));
    fs::write(&lines, recorded()).unwrap();
    let done = lockyard(&["import", &lines, "--out", &file]);
    assert!(stdout(&done).ends_with("90 events in 1 window\n"), "{}{}", stdout(&done), stderr(&done));
    assert_eq!(stdout(&lockyard(&["script", &file])), recorded());
    assert!(lockyard(&["model", &file, "--op", "CACHE=2", "--out", &model]).status.success());
    let text = fs::read_to_string(&model).unwrap();
    assert!(text.contains("count = 2") && text.contains("hold = \"100ns\""), "{text}");
    let report = stdout(&lockyard(&["report", &file, "--machine", "quad2008"]));
    let first = report.lines().next().unwrap_or_default();
    assert!(first.starts_with("Locks are not your problem: 0.4 % ") && first.contains("CACHE, at about"), "{report}");
    for path in [&file, &lines, &model] {
        let arguments =
            ["predict", path, "--machine", "quad2008", "--threads", "1", "--lock", "none", "--duration", "100us"];
        assert!(stdout(&lockyard(&arguments)).starts_with("app: scales to all 1 thread"), "{path}");
    }
    // Cut in the middle: what stands before is read, and a line says so.
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 3);
    fs::write(&file, &bytes).unwrap();
    let cut = lockyard(&["script", &file]);
    assert_eq!(stdout(&cut), recorded());
    assert!(stderr(&cut).contains("the file was cut off at byte"), "{}", stderr(&cut));
    refused(&["script", &model], "it is no recording of lockyard; a model is for predict and --workload");
    refused(&["model", &file, "--op", "CACHE"], "--op: 'CACHE' is not CLASS=N");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_is_none_is_refused_in_a_line() {
    let folder = scratch("strange-files");
    let place = |name: &str, bytes: &[u8]| -> String {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let none = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n5 1 request 0 write\n";
    let files = [
        (place("empty.lyr", b""), "empty.lyr: it is empty"),
        (place("noise.lyr", b"\xff\xfe\x00\x01"), "noise.lyr: it is neither text nor a recording"),
        (place("head.lyr", b"LYREC\r\n\x1a\x01"), "head.lyr: it was cut off in its head"),
        (place("first.lyr", b"LYREC\r\n\x1a\x04\0\0\0\x01"), "first.lyr: the file was cut off at byte 12, before any"),
        (place("newer.lyr", b"LYREC\r\n\x1a\x05\0\0\0"), "its version is 5; this lockyard reads versions up to 4"),
        (place("none.txt", none.as_bytes()), "none.txt: the recording has no section"),
        (folder.to_string_lossy().into_owned(), "is a directory"),
    ];
    for (path, part) in &files {
        refused(&["predict", path, "--machine", "quad2008"], part);
        refused(&["sim", "--machine", "quad2008", "--lock", "mutex", "--workload", path], part);
        refused(&["bench", "--lock", "mutex", "--workload", path, "--allow-one-cpu"], part);
        refused(&["model", path], if part.contains("neither") { "it is no recording" } else { part });
    }
    let program = place("app.toml", MODEL.as_bytes());
    refused(
        &["sim", "--machine", "quad2008", "--lock", "mutex", "--workload", &program, "--threads", "0"],
        "--threads: 0",
    );
    let report = stdout(&lockyard(&["report", &files[5].0, "--machine", "quad2008"]));
    assert!(report.starts_with("Nothing can be said: "), "{report}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_recording_may_begin_with_comments_and_have_any_times() {
    let folder = scratch("any-times");
    let path = folder.join("app.txt");
    let most = u64::MAX;
    let window = format!("window 1 0\n0 1 request 0 write\n{most} 1 release 0\n").repeat(3);
    fs::write(&path, format!("# by hand\n\nlockyard recording 1\nclass mutex A\nlock 0\n{window}")).unwrap();
    let path = path.to_string_lossy();
    let report = lockyard(&["report", &path, "--machine", "quad2008"]);
    assert!(report.status.success() && stdout(&report).contains("Locks cost you little so far"), "{}", stderr(&report));
    assert!(lockyard(&["model", &path]).status.success());
    fs::remove_dir_all(folder).unwrap();
}

/// Every example in the help of these commands is taken as it stands.
#[test]
fn the_examples_in_the_help_are_taken() {
    let folder = scratch("examples");
    let help = |command: &str| stdout(&lockyard(&[command, "--help"]));
    let block = |text: &str, from: &str| -> String {
        let begin = text.lines().skip_while(|line| !line.contains(from));
        let lines = begin.take_while(|line| !line.trim().is_empty());
        lines.map(|line| format!("{}\n", line.trim_start().split("   ").next().unwrap_or(""))).collect()
    };
    let text = help("predict");
    let ten_lines = block(&text, "[lock.CACHE]");
    fs::write(folder.join("app.toml"), &ten_lines).unwrap();
    fs::write(folder.join("app.txt"), block(&help("import"), "lockyard recording 1")).unwrap();
    let run = |words: &[&str]| {
        let words: Vec<&str> = words.iter().copied().filter(|word| *word != "lockyard").collect();
        Command::new(cargo_bin!("lockyard")).args(&words).current_dir(&folder).output().expect("the binary runs")
    };
    for (command, least) in [("import", 1), ("script", 1), ("model", 2), ("report", 1), ("predict", 4)] {
        let text = help(command);
        let examples: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("lockyard ")).collect();
        let examples = examples.into_iter().filter(|line| line.starts_with(&format!("lockyard {command} ")));
        let mut seen = 0;
        for example in examples {
            seen += 1;
            let alone = [" > ", " | ", " && "].iter().fold(example, |line, end| line.split(end).next().unwrap_or(line));
            let words = alone.split_whitespace();
            let mut words: Vec<&str> = words.collect();
            if command == "predict" {
                // One small point each: that they are taken is what is asked.
                let threads = words.iter().position(|word| *word == "--threads");
                threads.into_iter().for_each(|at| drop(words.drain(at..at + 2)));
                words.extend(["--threads", "2", "--duration", "20us"]);
            }
            let output = run(&words);
            assert!(output.status.success(), "{example}: {}", stderr(&output));
        }
        assert!(seen >= least, "{command}: {text}");
    }
    fs::remove_dir_all(folder).unwrap();
}
