//! Simulated machines: runs, traces, figures.

use super::*;

#[test]
fn a_simulation_repeats_to_the_last_digit_and_is_a_record() {
    let arguments =
        ["sim", "--machine", "skx_1s", "--lock", "mutex,rwsem", "--threads", "2,6", "--duration", "300us", "--json"];
    let output = lockyard(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(lockyard(&arguments).stdout, output.stdout);
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect();
    assert_eq!(lines.len(), 4);
    for line in &lines {
        assert!(line["kops_per_s"].as_f64().is_some_and(|rate| rate > 0.0) && line["machine_id"] == "skx_1s", "{line}");
        assert!(line["transfers_per_op"].as_object().is_some_and(|classes| !classes.is_empty()), "{line}");
        assert_eq!(line["hottest"][0]["name"], "lock");
    }
}

#[test]
fn the_microbenchmark_draws_if_asked_to() {
    let run = |workload: &[&str]| {
        let usual = [
            "sim",
            "--machine",
            "skx_1s",
            "--lock",
            "rwsem",
            "--threads",
            "1",
            "--read-pct",
            "30",
            "--cs",
            "1",
            "--json",
        ];
        let output = lockyard(&[&usual[..], workload].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let record: serde_json::Value = serde_json::from_str(stdout(&output).trim()).expect("a JSON object");
        (record["reads"].as_u64(), record["writes"].as_u64(), record["read_pct"].as_u64())
    };
    let drawn = run(&["--workload", "rwsem-micro", "--mix", "random"]);
    // Alone, where nobody can be disturbed, the two differ in what is usual, and in nothing else.
    assert_eq!(drawn, run(&["--workload", "contend", "--think", "0"]));
    assert!(drawn.0 > Some(0) && drawn.0 < drawn.1 && drawn.2 == Some(30), "{drawn:?}");
}

#[test]
fn a_simulation_names_the_tunables_of_hierarchical_locks() {
    let arguments = [
        "sim",
        "--machine",
        "skx_1s",
        "--lock",
        "hq-spinlock,mutex",
        "--threads",
        "2",
        "--duration",
        "200us",
        "--events",
    ];
    let text = stdout(&lockyard(&arguments));
    assert_eq!(text.matches("hq-spinlock tunables: all at their defaults").count(), 1, "{text}");
    let text = stdout(&with_environment(&[("LOCKYARD_HQ_FAIRNESS_THRESHOLD", "7")], &arguments));
    assert!(text.contains("hq-spinlock tunables: fairness_threshold 7 (default 1000)"), "{text}");
}

#[test]
fn a_trace_is_one_json_document() {
    let folder = scratch("trace");
    let path = folder.join("trace.json");
    let out = path.to_str().expect("a path in UTF-8");
    let output = lockyard(&["trace", "--machine", "skx_1s", "--threads", "4", "--duration", "200us", "--out", out]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(&path).expect("the trace was written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("a JSON document");
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 100));
    assert_eq!(names(&folder), ["trace.json"]);
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_rerun_figure_is_printed_and_drawn() {
    let folder = scratch("reproduce");
    let page = folder.join("page.html");
    let page_name = page.to_str().expect("UTF-8");
    // The cheapest figures: nothing, or next to nothing, is simulated.
    let output = lockyard(&["reproduce", "rwsem_06", "rwsem_12", "--html", page_name]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in [
        "rwsem_06_timed_spin_loop_ns",
        "4-socket Broadwell",
        "n/a: no machine file",
        "verdict:",
        "Scores",
        "all changes",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&format!("wrote {page_name}")));
    assert_eq!(names(&folder), ["page.html"]);
    let html = fs::read_to_string(&page).expect("the page is there");
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("<script") && !html.contains("src=") && !html.contains("href="));
    for tag in ["svg", "table", "tr", "td", "th", "details", "dl", "div", "g", "text"] {
        let opened = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn a_rerun_figure_is_one_document_and_does_not_depend_on_workers() {
    let json = |workers: &str| stdout(&lockyard(&["reproduce", "rwsem_06", "--json", "--workers", workers]));
    let text = json("1");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["figures"][0]["figure"], "rwsem_06_timed_spin_loop_ns");
    assert!(document["figures"][0]["cells"][0]["simulated"]["median"].as_f64().is_some_and(|ns| ns > 0.0));
    assert!(document["figures"][0]["score"]["error"]["median"].is_number());
    assert_eq!(text, json("2"));
}

#[test]
fn every_record_names_the_version_and_what_was_set() {
    let folder = scratch("columns");
    let model = folder.join("app.toml");
    let text = "[lock.A]\n[[role]]\ncpu = \"1us\"\ntakes = [{ lock = \"A\", hold = \"50ns\" }]\n";
    fs::write(&model, text).expect("writable");
    let set = ["--set", "model.occupancy_ratio=0.5", "--set", "model.data_share=0.25"];
    let sim = [&["sim", "--machine", "skx_1s", "--duration", "100us"], &set[..]].concat();
    let model = model.to_str().expect("UTF-8");
    let predict = ["predict", model, "--machine", "skx_1s", "--threads", "2", "--lock", "none", "--duration", "100us"];
    let predict = [&predict, &set[..]].concat();
    let reproduce = [&["reproduce", "rwsem_06"], &set[..]].concat();
    let bench = ["bench", "--lock", "mutex", "--peer", "none", "--secs", "0.001", "--rounds", "1", "--threads", "1"];
    let printed = |command: &[&str], form| {
        let output = lockyard(&[command, &[form]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let version = env!("CARGO_PKG_VERSION");
    for command in [&sim[..], &predict, &reproduce, &bench] {
        let text = printed(command, "--json");
        let value: serde_json::Value = serde_json::from_str(&text).expect("an object");
        assert_eq!(value["version"], version, "{command:?}");
        assert_eq!(text.matches("\"version\"").count(), 1, "{command:?}");
        if command != bench {
            let wanted = serde_json::json!({ "model.data_share": 0.25, "model.occupancy_ratio": 0.5 });
            assert_eq!(value["set"], wanted, "{command:?}");
        }
    }
    for command in [&sim[..], &predict, &bench] {
        let text = printed(command, "--csv");
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().expect("a header");
        let at = |name| head.iter().position(|column| *column == name);
        let line = lines.next().expect("a line");
        // From the end: a machine's name may have a comma.
        let field = |name| at(name).map(|at| line[line.len() - (head.len() - at)]);
        if command == predict {
            assert_eq!((at("version"), line[0]), (Some(0), version));
        } else {
            assert_eq!(field("version"), Some(version), "{command:?}");
        }
        if command != bench {
            assert_eq!(field("set"), Some("model.data_share=0.25;model.occupancy_ratio=0.5"), "{command:?}");
        }
    }
    fs::remove_dir_all(folder).expect("ours");
}
