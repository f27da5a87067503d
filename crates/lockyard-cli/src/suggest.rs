//! The nearest valid name for a mistyped one, and the several names of a lock.

use crate::failure::Failure;

/// Names of the same lock. Capitals, `-` and `_` do not count, so `HqSpinLock` is `hq-spinlock`.
const SAME: [&[&str]; 9] = [
    &["pi-mutex", "rtmutex", "rt"],
    &["rtmutex-tree", "tree-rtmutex"],
    &["qspinlock", "spinlock", "spin"],
    &["hq-spinlock", "hq"],
    &["cna", "cna-spinlock"],
    &["mcs", "mcs-lock"],
    &["ticket", "ticket-lock"],
    &["ttas", "ttas-lock"],
    &["qrwlock", "qrw"],
];

fn plain(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], "")
}

/// The one of `valid` that is another name of the lock `name`: that of its type, of another tool.
pub(crate) fn lock<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let name = plain(name);
    let names = SAME.iter().find(|names| names.iter().any(|one| plain(one) == name));
    let is_it = |candidate: &&&str| {
        let candidate = plain(candidate);
        candidate == name || names.is_some_and(|names| names.iter().any(|one| plain(one) == candidate))
    };
    valid.iter().find(is_it).copied()
}

/// Finds `name` among `valid` names of a `kind`, given by `flag`; a "lock" by its other names, too.
///
/// # Errors
/// One line: the unknown name, the nearest valid one, and where all of them are listed.
pub(crate) fn known<'a>(kind: &str, flag: &str, name: &str, valid: &[&'a str]) -> Result<&'a str, Failure> {
    let exact = valid.iter().find(|candidate| **candidate == name).copied();
    if let Some(found) = exact.or_else(|| lock(name, valid).filter(|_| kind == "lock")) {
        return Ok(found);
    }
    let guess = nearest(name, valid).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    // A few names fit into the line.
    let all = if valid.len() <= 6 {
        format!("valid: {}", valid.join(", "))
    } else {
        let plural = kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"));
        format!("'lockyard list {plural}' shows all")
    };
    Err(Failure::usage(format!("{flag}: unknown {kind} '{name}'; {guess}{all}")))
}

/// The valid name closest to `name`, if any is close enough to be a likely slip.
pub(crate) fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let name = name.to_lowercase();
    valid
        .iter()
        .map(|candidate| (distance(&name, candidate), *candidate))
        .filter(|(far, candidate)| {
            let longer = candidate.chars().count().max(name.chars().count());
            let shared = name.chars().zip(candidate.chars()).take_while(|(a, b)| a == b).count();
            let inside = name.len() >= 3 && (candidate.contains(name.as_str()) || name.contains(candidate));
            *far <= (longer / 3).max(1) || shared >= 5 || inside
        })
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: [&str; 5] = ["mutex", "qspinlock", "rwsem", "semaphore", "hq-spinlock"];

    #[test]
    fn slips_are_recognised() {
        assert_eq!(nearest("mutx", &LOCKS), Some("mutex"));
        assert_eq!(nearest("Mutex", &LOCKS), Some("mutex"));
        assert_eq!(nearest("rwsme", &LOCKS), Some("rwsem"));
        assert_eq!(nearest("qspin", &LOCKS), Some("qspinlock"));
        assert_eq!(nearest("semaphor", &LOCKS), Some("semaphore"));
        assert_eq!(nearest("semaphoring", &LOCKS), Some("semaphore"));
        assert_eq!(nearest("banana", &LOCKS), None);
        assert_eq!(nearest("", &LOCKS), None);
    }

    #[test]
    fn a_lock_has_the_name_of_its_type_and_those_of_the_other_tools() {
        for (name, found) in [
            ("Mutex", "mutex"),
            ("SpinLock", "qspinlock"),
            ("spin", "qspinlock"),
            ("HqSpinLock", "hq-spinlock"),
            ("hq", "hq-spinlock"),
            ("RwSem", "rwsem"),
        ] {
            assert_eq!((lock(name, &LOCKS), known("lock", "--lock", name, &LOCKS).ok()), (Some(found), Some(found)));
        }
        assert_eq!(lock("RtMutex", &["mutex", "pi-mutex"]), Some("pi-mutex"));
        assert_eq!(lock("pi-mutex", &["mutex", "rt"]), Some("rt"));
        assert_eq!((lock("parking_lot", &LOCKS), lock("", &LOCKS)), (None, None));
        assert!(known("policy", "--policy", "Mutex", &LOCKS).is_err());
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "acb"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_message_is_one_line_with_a_way_on() {
        let line = known("lock", "--lock", "mutx", &LOCKS).unwrap_err().to_string();
        assert_eq!(
            line,
            "--lock: unknown lock 'mutx'; did you mean 'mutex'? valid: mutex, qspinlock, rwsem, semaphore, hq-spinlock"
        );
        let many = ["a", "b", "c", "d", "e", "f", "g"];
        let line = known("policy", "--policy", "zzz", &many).unwrap_err().to_string();
        assert_eq!(line, "--policy: unknown policy 'zzz'; 'lockyard list policies' shows all");
    }
}
