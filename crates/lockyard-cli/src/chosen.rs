//! Kinds of locks that are glibc's because somebody said so: `--lock`, or the environment.

use lockyard_segment::{CHOSEN, Sample};

/// Kinds of objects that can be glibc's by choice: in statistics, by their variables, and in words.
const CHOICES: [(&str, &str, &str); 4] = [
    ("mutex", "LOCKYARD_MUTEX", "mutexes"),
    ("rwlock", "LOCKYARD_RWLOCK", "rwlocks"),
    ("spin", "LOCKYARD_SPIN", "spinlocks"),
    ("sem", "LOCKYARD_SEM", "semaphores"),
];

/// Which kinds of objects of `sample` are glibc's because somebody said so.
pub(crate) fn by_sample(sample: &Sample) -> Option<String> {
    let said: Vec<&str> = sample
        .fallbacks
        .iter()
        .filter_map(|(reason, count)| reason.strip_prefix(CHOSEN).filter(|_| *count > 0))
        .collect();
    left_by(|kind, _| said.contains(&kind))
}

/// The same of a program that told nothing: it had this command's environment.
pub(crate) fn by_environment() -> Option<String> {
    left_by(|_, name| std::env::var_os(name).is_some_and(|value| value.eq_ignore_ascii_case("glibc")))
}

/// How mutexes with priority inheritance are served, if some of `sample` are not.
pub(crate) fn inheriting(sample: &Sample) -> Option<&'static str> {
    let left = sample.fallbacks.iter().any(|(reason, count)| reason == "inherit" && *count > 0);
    left.then_some(
        "those that inherit priority are served with LOCKYARD_MUTEX=rt in the environment, \
         or by `lockyard run --lock rt`",
    )
}

fn left_by(is_chosen: impl Fn(&str, &str) -> bool) -> Option<String> {
    let (variables, kinds): (Vec<_>, Vec<_>) = CHOICES
        .iter()
        .filter(|(kind, name, _)| is_chosen(kind, name))
        .map(|(_, name, kinds)| (format!("{name}=glibc"), *kinds))
        .unzip();
    let verb = if kinds.len() == 1 { "leaves" } else { "leave" };
    (!kinds.is_empty()).then(|| format!("{} {verb} its {} to glibc", variables.join(" "), kinds.join(", ")))
}
