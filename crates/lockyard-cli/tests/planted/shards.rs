//! Locks of one class.

use super::*;

/// The first class of the program that does `what`, as programs are told.
fn first_class(program: &Path, what: &str) -> serde_json::Value {
    let output = stat(&["--json"], program, what).output().expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let line = text.lines().next_back().expect("a line");
    let document: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}"));
    document["classes"][0].clone()
}

/// The threads were told to split further what they protect, which had been done. Whether that is
/// what helps depends on what else the machine does: the advice has tests of its own.
#[test]
fn the_only_lock_of_many_that_threads_wait_for_is_known() {
    for program in [preloaded::program("shards", ""), preloaded::linked("shards")] {
        let class = first_class(&program, "one");
        let hottest = class["hottest"][0]["wait_ns"].as_u64().unwrap_or(0);
        assert!(2 * hottest > class["wait_ns"]["sum"].as_u64().expect("a number"), "{class}");
    }
}

/// It was one of three: each process has a copy.
#[test]
fn the_only_lock_of_each_process_is_none_of_many() {
    let class = first_class(&preloaded::program("shards", ""), "forked");
    assert!(class["contended"].as_u64() > Some(0), "{class}");
    assert_eq!(class["hottest"], serde_json::json!([]), "{class}");
}
