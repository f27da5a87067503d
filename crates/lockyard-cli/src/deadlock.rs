//! Threads that wait for each other in a circle.
//!
//! A thread that waits releases nothing. So one look at all threads is enough, if every wait in the
//! circle had begun before it: [`SETTLED`] ago at least. A waiter that was woken, and has not run
//! since, may believe that a lock is held which is free: where no thread has noted that it holds
//! the lock, [`SETTLED_UNNOTED`] ago. A wait with a deadline ends, and the circle with it. A lock
//! that another thread than its holder may release ([`RELEASED_BY_ALL`]) is no part of one.

use lockyard_segment::Sample;
use lockyard_segment::sample::{Hold, ThreadSample, Wait};

/// Shorter waits are not looked at, in nanoseconds.
pub(crate) const SETTLED: u64 = 100_000_000;

/// The same of waits for locks of which only the waiter says that they are held.
const SETTLED_UNNOTED: u64 = 10_000_000_000;

/// Kinds of liblockyard's locks that any thread may release. (Not those of pthread's spinlocks.)
pub(crate) const RELEASED_BY_ALL: [&str; 4] = ["semaphore", "ly_spinlock", "hq_spinlock", "qrwlock"];

/// A thread of a circle, and what the next one holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    /// The thread that waits.
    pub(crate) waiter: &'a ThreadSample,
    /// For what.
    pub(crate) wait: &'a Wait,
    /// The thread that holds it: the waiter of the next link.
    pub(crate) holder: &'a ThreadSample,
    /// Since where, if that is noted.
    pub(crate) hold: Option<&'a Hold>,
}

/// A circle among the threads of `sample`, if there is one.
pub(crate) fn circle(sample: &Sample) -> Option<Vec<Link<'_>>> {
    // A thread that waits for a lock that any thread may release leads nowhere.
    let free = |thread: &ThreadSample| {
        let class = thread.waits.as_ref().and_then(|wait| sample.classes.get(wait.class));
        class.is_some_and(|class| RELEASED_BY_ALL.contains(&class.kind.as_str()))
    };
    let threads = &sample.waiters;
    let mut over: Vec<bool> = threads.iter().map(free).collect();
    (0..threads.len()).find_map(|start| from(threads, start, &mut Vec::new(), &mut over))
}

/// Follows the waits from thread number `at`, depth first. `over`: leads nowhere.
fn from<'a>(
    threads: &'a [ThreadSample],
    at: usize,
    path: &mut Vec<(usize, Link<'a>)>,
    over: &mut [bool],
) -> Option<Vec<Link<'a>>> {
    if let Some(begin) = path.iter().position(|(index, _)| *index == at) {
        return Some(path[begin..].iter().map(|(_, link)| *link).collect());
    }
    if over[at] {
        return None;
    }
    over[at] = true;
    let waiter = &threads[at];
    let wait = waiter.waits.as_ref().filter(|wait| wait.ns >= SETTLED && !wait.has_deadline)?;
    for (index, hold) in holders(threads, waiter, wait) {
        if hold.is_none() && wait.ns < SETTLED_UNNOTED {
            continue;
        }
        path.push((at, Link { waiter, wait, holder: &threads[index], hold }));
        let found = from(threads, index, path, over);
        if found.is_some() {
            return found;
        }
        path.pop();
    }
    None
}

/// The thread that holds what `waiter` waits for: by the notes of the threads, else by what the
/// waiter was told.
pub(crate) fn holders<'a>(
    threads: &'a [ThreadSample],
    waiter: &ThreadSample,
    wait: &Wait,
) -> Vec<(usize, Option<&'a Hold>)> {
    let same = || threads.iter().enumerate().filter(|(_, thread)| thread.process == waiter.process);
    let noted: Vec<_> = same()
        .filter_map(|(index, thread)| Some((index, Some(thread.holds.iter().find(|hold| hold.lock == wait.lock)?))))
        .collect();
    if !noted.is_empty() {
        return noted;
    }
    same()
        .filter(|(_, thread)| wait.holder != 0 && thread.thread == wait.holder)
        .map(|(index, _)| (index, None))
        .collect()
}

#[cfg(test)]
mod tests {
    use lockyard_segment::sample::{ClassSample, Place};

    use super::*;

    fn thread(thread: u32, waits_for: u64, holds: &[u64]) -> ThreadSample {
        let wait = |lock| Wait {
            lock,
            class: 0,
            place: Place::default(),
            since: 1,
            ns: SETTLED,
            holder: 0,
            has_deadline: false,
        };
        ThreadSample {
            process: 1,
            thread,
            name: String::new(),
            waits: (waits_for != 0).then(|| wait(waits_for)),
            holds: holds.iter().map(|&lock| Hold { lock, place: Place::default(), ns: 0 }).collect(),
        }
    }

    fn names(threads: &[ThreadSample]) -> Vec<u32> {
        names_at("mutex", threads)
    }

    fn names_at(kind: &str, threads: &[ThreadSample]) -> Vec<u32> {
        let class = ClassSample { kind: kind.to_owned(), ..ClassSample::default() };
        let sample = Sample { classes: vec![class], waiters: threads.to_vec(), ..Sample::default() };
        circle(&sample).map_or(Vec::new(), |links| links.iter().map(|link| link.waiter.thread).collect())
    }

    #[test]
    fn what_any_thread_may_release_is_no_part_of_a_deadlock() {
        let two = [thread(1, 10, &[20]), thread(2, 20, &[10])];
        assert_eq!((names_at("mutex", &two), names_at("semaphore", &two)), (vec![1, 2], vec![]));
        // pthread's is released by its owner, liblockyard's by any thread.
        assert_eq!((names_at("spinlock", &two), names_at("ly_spinlock", &two)), (vec![1, 2], vec![]));
    }

    #[test]
    fn circles_are_found_and_chains_are_not() {
        let chain = [thread(1, 10, &[20]), thread(2, 30, &[10]), thread(3, 0, &[30])];
        assert_eq!(names(&chain), [0u32; 0]);
        let two = [thread(9, 10, &[]), thread(1, 10, &[20]), thread(2, 20, &[10])];
        assert_eq!(names(&two), [2, 1], "who waits for the circle is not in it");
        assert_eq!(names(&[thread(1, 10, &[10])]), [1], "itself");
        let readers = [thread(1, 10, &[20]), thread(2, 0, &[10]), thread(3, 20, &[10])];
        assert_eq!(names(&readers), [1, 3], "one of several that hold it");
    }

    #[test]
    fn what_the_waiter_was_told_counts_where_nothing_is_noted() {
        let mut two = [thread(1, 10, &[20]), thread(2, 20, &[])];
        assert_eq!(names(&two), [0u32; 0]);
        two[0].waits.as_mut().expect("it waits").holder = 2;
        assert_eq!(names(&two), [0u32; 0], "it may have been released, and the waiter not run");
        two[0].waits.as_mut().expect("it waits").ns = SETTLED_UNNOTED;
        assert_eq!(names(&two), [1, 2]);
        two[1].process = 2;
        assert_eq!(names(&two), [0u32; 0], "another process's thread of that name");
    }

    #[test]
    fn a_wait_that_has_just_begun_is_none_of_a_deadlock() {
        let mut two = [thread(1, 10, &[20]), thread(2, 20, &[10])];
        two[1].waits.as_mut().expect("it waits").ns = SETTLED - 1;
        assert_eq!(names(&two), [0u32; 0]);
    }

    #[test]
    fn a_circle_with_a_deadline_in_it_is_no_deadlock() {
        let mut two = [thread(1, 10, &[20]), thread(2, 20, &[10])];
        assert_eq!(names(&two), [1, 2]);
        two[1].waits.as_mut().expect("it waits").has_deadline = true;
        assert_eq!(names(&two), [0u32; 0]);
    }
}
