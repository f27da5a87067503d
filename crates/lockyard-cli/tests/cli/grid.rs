//! The grid, its scores, and the options of its cells.

use super::*;

/// The quick grid with windows that show nothing but the form.
const TINY: [&str; 5] = ["bench", "--grid", "--quick", "--secs", "0.001"];

fn json(output: &Output) -> Vec<serde_json::Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[test]
fn a_grid_says_its_time_first_and_scores_every_family() {
    let folder = scratch("grid");
    let file = folder.join("grid.jsonl");
    let output = lockyard(&[&TINY[..], &["--seed", "3", "--out", &file.to_string_lossy()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let first = stderr(&output).lines().next().unwrap_or_default().to_owned();
    assert!(first.starts_with("lockyard: grid: ") && first.contains(" measurements, about "), "{first}");

    let text = stdout(&output);
    let machine_and_score: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(2).collect();
    assert!(machine_and_score[1].starts_with("Score"), "the score is on top: {text}");
    for part in ["longest wait of 16 threads", "contended", "vs best peer", "16 threads, section 20, think 20, 8 lines"]
    {
        assert!(text.contains(part), "{part}");
    }

    let lines: Vec<serde_json::Value> = fs::read_to_string(&file)
        .expect("the file")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect();
    let (scores, cells): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["score"].is_string());
    for family in ["mutex", "spin", "rw", "semaphore"] {
        let score = scores.iter().find(|score| score["score"] == family).expect("a score of the family");
        assert!(
            score["contended"]["cells"].as_u64() > Some(15) && score["alone"]["cells"].as_u64() > Some(1),
            "{score}"
        );
        assert!(
            score["lock"].is_string() && score["wait_64"]["ours"].is_number() && score["complete"] == true,
            "{score}"
        );
    }
    assert!(cells.iter().any(|cell| cell["read_pct"] == 99.9 && cell["lock"] == "rwsem"));
    assert!(cells.iter().any(|cell| cell["think_shape"] == "exponential" && cell["threads"] == 64));
    assert!(cells.iter().all(|cell| cell["seed"] == 3 && cell["rounds"] == 1));
    fs::remove_dir_all(folder).expect("removable");
}

#[test]
fn a_grid_of_chosen_locks_compares_with_the_chosen_peers() {
    let chosen = ["--lock", "qspinlock", "--peer", "pthread-mutex", "--rounds", "2", "--csv"];
    let output = lockyard(&[&TINY[..], &chosen].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.lines().next().is_some_and(|head| head.ends_with(",lines,think_shape,version")));
    let locks: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split(',').nth(2)).collect();
    assert!(locks.len() > 40 && locks.chunks(2).all(|pair| pair == ["qspinlock", "pthread-mutex"]));
    assert!(text.lines().skip(1).all(|line| line.split(',').nth(12) == Some("2")), "two rounds each");
}

#[test]
fn lines_and_drawn_think_times_are_options_of_bench_and_sim() {
    let cell = ["--lines", "0,8", "--cs", "20", "--think", "0.25x,5,1x", "--think-shape", "exponential", "--json"];
    let tiny = ["bench", "--lock", "mutex", "--peer", "none", "--secs", "0.01", "--rounds", "1"];
    let simulated = ["sim", "--machine", "skx_1s", "--lock", "mutex", "--threads", "2", "--duration", "200us"];
    for command in [&tiny[..], &simulated] {
        let output = lockyard(&[command, &cell].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let cells: Vec<_> = json(&output)
            .iter()
            .map(|line| (line["lines"].as_u64(), line["think"].as_u64(), line["think_shape"].clone()))
            .collect();
        let drawn = |lines, think| (Some(lines), Some(think), "exponential".into());
        // A quarter of the section is five PAUSEs: one cell, not two.
        assert_eq!(cells, [drawn(0, 5), drawn(8, 5), drawn(0, 20), drawn(8, 20)]);
    }
}

#[test]
fn fractions_of_a_percent_are_drawn_and_kept() {
    let arguments = ["sim", "--machine", "skx_1s", "--lock", "rwsem", "--threads", "1", "--duration", "3ms", "--json"];
    let output = lockyard(&[&arguments[..], &["--read-pct", "95,99.5"]].concat());
    let lines = json(&output);
    assert_eq!((lines[0]["read_pct"].as_u64(), lines[1]["read_pct"].as_f64()), (Some(95), Some(99.5)));
    let share = |line: &serde_json::Value| line["writes"].as_f64().zip(line["operations"].as_f64()).map(|(w, o)| w / o);
    assert!(share(&lines[0]) > Some(0.04) && share(&lines[1]) < Some(0.01) && share(&lines[1]) > Some(0.001));
}
