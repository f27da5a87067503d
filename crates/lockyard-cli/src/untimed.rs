//! What a report has no times of, in words.

use lockyard_segment::Sample;

use crate::report::numbers;

/// What a report never has times of.
pub(crate) const NOT_TIMED: &str = "semaphores, barriers and condition variables";

/// How often a thread waited for a semaphore, if one did: of these there are events alone.
pub(crate) fn semaphore_waits(sample: &Sample) -> Option<String> {
    let waits = sample.event("sem_slowpath") as usize;
    (waits > 0).then(|| format!("{} for semaphores", numbers::count(waits, "wait")))
}

/// That a process took no lock that is timed, and what it waited for instead.
pub(crate) fn none_taken(sample: &Sample) -> String {
    let waits = semaphore_waits(sample).map_or_else(String::new, |waits| format!(" ({waits})"));
    format!("it took no mutex, rwlock or spinlock; {NOT_TIMED} are not timed{waits}")
}
