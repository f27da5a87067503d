//! Ctrl-C, and readers that leave.

use super::*;

/// Starts a run, sends SIGINT `times` once it measures, and returns what came of it.
fn interrupted(arguments: &[&str], times: usize) -> Output {
    let mut child = Command::new(cargo_bin!("lockyard"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The first line of progress: the first cell has begun.
    let mut progress = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    progress.read_line(&mut line).expect("a line");
    for _ in 0..times {
        thread::sleep(Duration::from_millis(150));
        kill_process(Pid::from_child(&child), Signal::INT).expect("the child is there");
    }
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut progress, &mut rest).expect("stderr closes");
    let mut output = child.wait_with_output().expect("the child ends");
    output.stderr = [line.into_bytes(), rest].concat();
    output
}

#[test]
fn an_interrupted_bench_reports_what_it_has() {
    let long = ["bench", "--lock", "mutex", "--peer", "std-mutex", "--secs", "0.05", "--rounds", "2000", "--json"];
    let output = interrupted(&long, 1);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"));
    let text = stdout(&output);
    assert!(text.lines().count() >= 1);
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a whole JSON object");
        assert_eq!(line["interrupted"], true);
        assert!(line["rounds"].as_u64().expect("a number") >= 1);
    }
}

#[test]
fn an_interrupted_grid_scores_what_it_has() {
    let output = interrupted(
        &["bench", "--grid", "--lock", "mutex", "--peer", "none", "--secs", "0.05", "--rounds", "2000", "--json"],
        1,
    );
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let text = stdout(&output);
    let score: serde_json::Value = serde_json::from_str(text.lines().next().expect("a line")).expect("a JSON object");
    assert_eq!((&score["score"], &score["complete"]), (&"mutex".into(), &false.into()));
    assert!(text.lines().count() > 1);
}

#[test]
fn an_interrupted_compare_still_writes_a_whole_page() {
    let folder = scratch("interrupted");
    let path = folder.join("page.html").to_string_lossy().into_owned();
    let output = interrupted(&["compare", "--family", "mutex", "--secs-total", "300", "--html", &path, "--json"], 1);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(names(&folder), ["page.html"]);
    let page = fs::read_to_string(&path).expect("the page");
    assert!(page.contains("This run was interrupted") && page.trim_end().ends_with("</html>"));
    let data: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(data["interrupted"], true);
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_second_interrupt_ends_at_once_and_leaves_nothing() {
    let folder = scratch("twice");
    let file = folder.join("result.json");
    let path = file.to_string_lossy().into_owned();
    let output = interrupted(
        &["bench", "--lock", "mutex", "--peer", "none", "--secs", "600", "--rounds", "1", "--out", &path],
        2,
    );
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(output.stdout.is_empty() && names(&folder).is_empty());
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(cargo_bin!("lockyard"))
        .args(["list", "events"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the child ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}
