//! What is printed and written.

use super::*;

#[test]
fn lists_name_what_the_commands_accept() {
    let list = |what: &str| stdout(&lockyard(&["list", what]));
    for lock in ["qspinlock", "mutex", "rwsem", "semaphore"] {
        assert!(list("locks").lines().any(|line| line.split_whitespace().next() == Some(lock)), "{lock}");
    }
    for policy in ["today", "v5.10", "no-rspin", "timed-writer-spin"] {
        assert!(list("policies").lines().any(|line| line.split_whitespace().next() == Some(policy)), "{policy}");
    }
    assert!(list("peers").contains("parking_lot-rwlock") && list("peers").contains("sem_t"));
    assert!(list("workloads").contains("starve-readers") && list("events").contains("rwsem_opt_lock"));
    let all = stdout(&lockyard(&["list"]));
    for head in ["Locks", "Policies", "Peers", "Workloads", "Events"] {
        assert!(all.lines().any(|line| line == head), "{head}");
    }
    assert!(all.lines().all(|line| !line.ends_with(' ')));
}

#[test]
fn every_peer_and_lock_is_described() {
    for what in ["locks", "peers"] {
        for line in stdout(&lockyard(&["list", what])).lines() {
            assert!(line.split_whitespace().count() > 2, "{line}");
        }
    }
}

#[test]
fn help_version_completions_and_manual_pages() {
    let shown = |arguments: &[&str]| {
        let output = lockyard(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
        stdout(&output)
    };
    assert!(shown(&["--version"]).starts_with("lockyard "));
    assert!(shown(&["--help"]).contains("Examples:"));
    for command in ["compare", "bench", "run", "stat", "hq"] {
        assert!(shown(&[command, "--help"]).contains("Examples:"), "{command}");
    }
    for command in ["list", "completions", "man"] {
        assert!(shown(&[command, "--help"]).contains("Usage:"), "{command}");
    }
    assert!(shown(&["completions", "bash"]).contains("--read-pct"));
    assert!(shown(&["man"]).contains(".TH lockyard 1"));
    assert!(shown(&["man", "bench"]).contains("lockyard\\-bench"));
    assert!(shown(&["completions", "fish"]).contains("stat") && shown(&["man"]).contains("lockyard\\-stat"));
    assert!(shown(&["man", "hq"]).contains("LOCKYARD_HQ_"));
}

/// The arguments of a bench that takes a moment.
const TINY: [&str; 9] = ["bench", "--lock", "mutex", "--peer", "std-mutex", "--secs", "0.02", "--rounds", "1"];

#[test]
fn json_lines_hold_the_record() {
    let output = lockyard(&[&TINY[..], &["--json", "--threads", "2,3", "--cs", "5", "--seed", "9"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines: Vec<serde_json::Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect();
    assert_eq!(lines.len(), 4, "two locks, two cells");
    for line in &lines {
        assert_eq!(line["workload"], "contend");
        assert_eq!((&line["cs"], &line["seed"], &line["rounds"]), (&5.into(), &9.into(), &1.into()));
        let record = &line["records"][0];
        let counts = record["counts"].as_array().expect("counts");
        let operations: f64 = counts.iter().map(|count| count.as_f64().expect("a number")).sum();
        let kops = operations * 1e6 / record["duration_ns"].as_f64().expect("a number");
        assert!((line["kops_per_s"].as_f64().expect("a number") - kops).abs() <= 1e-6 * kops, "{line}");
        assert!(line["machine"]["cpus_usable"].as_u64().expect("a number") > 0);
        assert_eq!(line["records"].as_array().expect("records").len(), 1);
        assert_eq!(counts.len() as u64, line["threads"].as_u64().expect("a number"));
        assert_eq!(line["interrupted"], false);
    }
    assert_eq!(lines[0]["lock"], "mutex");
    assert_eq!(lines[0]["origin"], "lockyard");
    // On a busy machine the peer may leave a thread without a turn in so short a window: no ratio.
    let served = lines[1]["records"][0]["idle_threads"] == 0;
    assert_eq!(lines[0]["ratio_to_best_peer"].is_number(), served, "{}", lines[0]);
    assert_eq!((&lines[1]["lock"], &lines[1]["origin"]), (&"std-mutex".into(), &"peer".into()));
}

#[test]
fn csv_has_a_header_and_a_line_per_lock_and_cell() {
    let output = lockyard(&[&TINY[..], &["--csv", "--threads", "1:3:2"]].concat());
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("family,origin,lock,policy,workload,threads,cs,"));
    assert!(lines[0].contains(",kops_per_s,") && lines[0].contains(",wait_max_ns,"));
    assert_eq!(lines.len(), 5);
    assert!(lines[1].starts_with("mutex,lockyard,mutex,,contend,1,"));
    assert!(lines[4].starts_with("mutex,peer,std-mutex,,contend,3,"));
}

#[test]
fn tables_are_for_people_and_files_take_their_ending_as_format() {
    let folder = scratch("out");
    let file = folder.join("result.csv");
    let path = file.to_string_lossy().into_owned();
    let output = lockyard(&[&TINY[..], &["--out", &path, "--events"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("vs best peer") && table.contains("▸ mutex") && table.contains("fairness "));
    assert!(!table.contains('\x1b'), "no colours outside a terminal");
    assert!(fs::read_to_string(&file).expect("the file").starts_with("family,"));
    assert_eq!(names(&folder), ["result.csv"]);
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn compare_writes_a_whole_page_if_asked() {
    let folder = scratch("compare");
    let path = folder.join("page.html").to_string_lossy().into_owned();
    let output = lockyard(&["--secs-total", "0.5", "--html", &path, "--sim"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(names(&folder), ["page.html"]);

    let page = fs::read_to_string(&path).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.matches("<svg ").count() >= 4 && page.matches("<svg ").count() == page.matches("</svg>").count());
    assert!(page.contains("★ best peer") && page.contains("prefers-color-scheme: dark"));
    for loaded in ["<script", "<link", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(loaded), "{loaded}");
    }
    assert_eq!(page.matches("://").count(), page.matches("http://www.w3.org/2000/svg").count());

    let text = stdout(&output);
    for part in [
        "NUMA nodes",
        "mutex locks",
        "rw locks",
        "starve-writers: 8 readers against 1 writer",
        "Summary",
        "simulated",
        "wrote ",
    ] {
        assert!(text.contains(part), "{part}");
    }
    fs::remove_dir_all(folder).expect("removable");
}

/// No file, and no simulation, of which nobody has spoken.
#[test]
fn compare_prints_its_data_as_one_document() {
    let folder = scratch("document");
    let mut command = Command::new(cargo_bin!("lockyard"));
    let output =
        command.args(["--secs-total", "0.5", "--json"]).current_dir(&folder).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(names(&folder).is_empty());
    let data: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(data["interrupted"], false);
    let groups: Vec<&str> = data["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .map(|group| group["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(groups, ["mutex", "spin", "rw", "semaphore"]);
    for group in data["groups"].as_array().expect("groups") {
        for cell in group["cells"].as_array().expect("cells") {
            let origins: Vec<&str> = cell["locks"]
                .as_array()
                .expect("locks")
                .iter()
                .map(|lock| lock["origin"].as_str().expect("one"))
                .collect();
            assert!(origins.contains(&"lockyard") && origins.contains(&"peer"), "{}", cell["title"]);
        }
    }

    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn stat_shows_tunables_and_statistics() {
    let arguments = ["hq", "--secs", "0.05", "--threads", "4"];
    let lanes = [("LOCKYARD_HQ_LANES", "2"), ("LOCKYARD_HQ_FAIRNESS_THRESHOLD", "100")];
    let output = with_environment(&lanes, &arguments);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in ["Tunables in force", "LOCKYARD_HQ_FAIRNESS_THRESHOLD", "0 … 65535", "records in use", "hq_conflict"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b') && text.lines().all(|line| line == line.trim_end()), "{text}");

    let output = with_environment(&lanes, &[&arguments[..], &["--json", "--workload", "kv-model"]].concat());
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let setting = |name: &str| {
        let settings = document["tunables"].as_array().expect("a list").clone();
        settings.into_iter().find(|setting| setting["name"] == name).expect("a setting")
    };
    assert_eq!((&setting("lanes")["value"], &setting("lanes")["default"]), (&2.into(), &0.into()));
    assert_eq!(setting("fairness_threshold")["value"], 100);
    assert_eq!(document["pool"]["lanes"], 2);
    assert!(document["pool"]["most_in_use"].is_u64() && document["locks"].is_array());
    assert_eq!(document["record"]["workload"], "kv-model");
}
