//! What `report` says of the critical path.

use std::fmt::Write;

use lockyard_recording::Recording;
use lockyard_recording::critical::{CriticalPath, OnPath};

use super::told::MOST;
use crate::report::numbers;

/// So many threads are named.
const THREADS: usize = 3;
/// A smaller share of it is not told.
const LEAST: f64 = 0.005;

/// Its lines; none, if there was one thread.
pub(super) fn told(recording: &Recording, path: &CriticalPath) -> String {
    let first = recording.windows.first().map(|window| window.thread);
    if path.length_ns == 0 || recording.windows.iter().all(|window| Some(window.thread) == first) {
        return String::new();
    }
    let share = |ns: u64| ns as f64 / path.length_ns.max(1) as f64;
    let class = |one: &OnPath| {
        let name = &recording.classes[one.class].name;
        let (held, handed) = (share(one.held_ns) * 100.0, share(one.handed_ns) * 100.0);
        let what = match one.held_ns {
            0 => format!("{name}, from one thread to the next"),
            _ => format!("{name} ({held:.1} % in its sections, {handed:.1} % from one thread to the next)"),
        };
        (share(one.ns()), what)
    };
    let mut parts = vec![
        (share(path.outside_ns), "outside of all sections".to_owned()),
        (share(path.asleep_ns), "asleep outside of all sections, barriers and joins too".to_owned()),
        (share(path.unexplained_ns), "in waits that no recorded thread ended".to_owned()),
    ];
    parts.extend(path.classes.iter().map(class));
    parts.retain(|(share, _)| *share >= LEAST);
    parts.sort_by(|one, other| other.0.total_cmp(&one.0));
    parts.truncate(MOST);
    let mut out = format!(
        "\nCritical path: {} in which each wait is followed to the thread that ended it ({})\n",
        numbers::time(path.length_ns as f64),
        numbers::count(path.changes as usize, "change of thread").replace("change of threads", "changes of thread"),
    );
    for (share, what) in parts {
        let _ = writeln!(out, "  {:>5.1} %  {what}", share * 100.0);
    }
    let threads = path.threads.iter().take(THREADS);
    let threads: Vec<String> =
        threads.map(|(thread, ns)| format!("{} ({:.0} %)", recording.called(*thread), share(*ns) * 100.0)).collect();
    let _ = writeln!(out, "  Most of it is along {}.", threads.join(", "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_part_of_the_path_comes_first() {
        let text = "lockyard recording 1\nclass mutex TABLE\nlock 0\nthread 2 eater\n\
            window 1 0\n100 1 request 0 write\n400 1 release 0\n\
            window 2 0\n150 2 request 0 write\n410 2 grant 0\n710 2 release 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        let told = told(&recording, &recording.critical_path());
        let lines: Vec<&str> = told.trim().lines().collect();
        assert!(lines[0].contains("710 ns") && lines[0].ends_with("(1 change of thread)"), "{told}");
        assert_eq!(lines[1].trim(), "85.9 %  TABLE (84.5 % in its sections, 1.4 % from one thread to the next)");
        assert_eq!(lines[2].trim(), "14.1 %  outside of all sections");
        assert_eq!(lines[3].trim(), "Most of it is along thread 1 (56 %), thread 2 \"eater\" (42 %).");
        assert_eq!(lines.len(), 4, "{told}");
    }

    /// It was left out where no thread had waited for another: that the lock with most waits was
    /// not on it was not to be seen.
    #[test]
    fn a_path_along_one_thread_is_told_where_there_are_several() {
        let head = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n10 1 request 0 write\n90 1 release 0\n";
        let told = |text: &str| {
            let recording = Recording::from_text("a", text).unwrap();
            told(&recording, &recording.critical_path())
        };
        assert!(told(head).is_empty());
        let two = told(&format!("{head}window 2 0\n5 2 off 5\n"));
        assert!(two.contains("(0 changes of thread)") && two.contains("88.9 %  A (88.9 %"), "{two}");
    }
}
