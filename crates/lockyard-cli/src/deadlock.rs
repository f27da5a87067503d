//! Threads that wait for each other in a circle.
//!
//! A thread that waits releases nothing. So one look at all threads is enough, if every wait in the
//! circle had begun before it: [`SETTLED`] ago at least. A waiter that was woken, and has not run
//! since, may believe that a lock is held which is free; and a note of a lock outlasts the hold, if
//! another thread releases it, or its memory becomes another lock: where the two do not agree,
//! [`SETTLED_UNSURE`] ago. A wait with a deadline ends, and the circle with it. A lock that another
//! thread than its holder may release ([`RELEASED_BY_ALL`]) is no part of one.

use lockyard_segment::Sample;
use lockyard_segment::sample::{Hold, ThreadSample, Wait};

/// Shorter waits are not looked at, in nanoseconds.
pub(crate) const SETTLED: u64 = 100_000_000;

/// The same of waits for locks of which it is not [sure](Holder::is_sure) which thread has them.
const SETTLED_UNSURE: u64 = 10_000_000_000;

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
    for Holder { thread, hold, is_sure } in holders(threads, waiter, wait) {
        if !is_sure && wait.ns < SETTLED_UNSURE {
            continue;
        }
        path.push((at, Link { waiter, wait, holder: &threads[thread], hold }));
        let found = from(threads, thread, path, over);
        if found.is_some() {
            return found;
        }
        path.pop();
    }
    None
}

/// A thread that may hold what another one waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder<'a> {
    /// Its number.
    pub(crate) thread: usize,
    /// Since where, if that is noted.
    pub(crate) hold: Option<&'a Hold>,
    /// Whether its note and what the waiter was told agree.
    pub(crate) is_sure: bool,
}

/// The threads that hold what `waiter` waits for: by their notes, else by what the waiter was told.
/// An exclusive hold counts if it is of the thread of which the waiter was told, or began after the
/// wait: then it has a time.
pub(crate) fn holders<'a>(threads: &'a [ThreadSample], waiter: &ThreadSample, wait: &Wait) -> Vec<Holder<'a>> {
    let same = || threads.iter().enumerate().filter(|(_, thread)| thread.process == waiter.process);
    let is_told = |thread: usize| wait.holder != 0 && threads[thread].thread == wait.holder;
    let mut noted: Vec<(usize, &Hold)> = same()
        .filter_map(|(index, thread)| Some((index, thread.holds.iter().find(|hold| hold.lock == wait.lock)?)))
        .collect();
    let told = || same().filter(|(index, _)| is_told(*index));
    if noted.is_empty() {
        return told().map(|(thread, _)| Holder { thread, hold: None, is_sure: false }).collect();
    }
    let is_later = |hold: &Hold| hold.ns != 0 && hold.ns < wait.ns;
    let counts = |&&(thread, hold): &&(usize, &Hold)| !hold.shared && (is_told(thread) || is_later(hold));
    let mut counting: Vec<(usize, &Hold)> = noted.iter().filter(counts).copied().collect();
    // A hold that began after the wait shows that the one of which it was told is over.
    if counting.iter().any(|(_, hold)| is_later(hold)) {
        counting.retain(|(_, hold)| is_later(hold));
    }
    let is_sure = match &counting[..] {
        [_] => true,
        // Readers have it.
        [] if noted.iter().any(|&(thread, hold)| hold.shared && is_told(thread)) => {
            noted.retain(|(_, hold)| hold.shared);
            true
        }
        [] => noted.iter().all(|(_, hold)| hold.shared) || noted.len() == 1 && wait.holder == 0,
        _ => false,
    };
    let found = if counting.is_empty() { noted } else { counting };
    found.into_iter().map(|(thread, hold)| Holder { thread, hold: Some(hold), is_sure }).collect()
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
            holds: holds.iter().map(|&lock| Hold { lock, place: Place::default(), shared: false, ns: 0 }).collect(),
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
        let mut readers = [thread(1, 10, &[20]), thread(2, 0, &[10]), thread(3, 20, &[10])];
        readers[1..].iter_mut().for_each(|reader| reader.holds[0].shared = true);
        assert_eq!(names(&readers), [1, 3], "one of several that hold it");
        readers[0].waits.as_mut().expect("it waits").holder = 2;
        assert_eq!(names(&readers), [1, 3], "and not the one that the waiter was told of");
    }

    #[test]
    fn what_the_waiter_was_told_counts_where_nothing_is_noted() {
        let mut two = [thread(1, 10, &[20]), thread(2, 20, &[])];
        assert_eq!(names(&two), [0u32; 0]);
        two[0].waits.as_mut().expect("it waits").holder = 2;
        assert_eq!(names(&two), [0u32; 0], "it may have been released, and the waiter not run");
        two[0].waits.as_mut().expect("it waits").ns = SETTLED_UNSURE;
        assert_eq!(names(&two), [1, 2]);
        two[1].process = 2;
        assert_eq!(names(&two), [0u32; 0], "another process's thread of that name");
    }

    /// Unlocked by another thread, and taken by a third one, who works.
    #[test]
    fn a_hold_that_began_after_the_wait_ends_the_one_of_which_it_was_told() {
        let mut three = [thread(1, 10, &[20]), thread(2, 20, &[10]), thread(3, 0, &[10])];
        let wait = three[0].waits.as_mut().expect("it waits");
        (wait.holder, wait.ns) = (2, SETTLED_UNSURE);
        assert_eq!(names(&three), [1, 2]);
        three[2].holds[0].ns = 1;
        assert_eq!(names(&three), [0u32; 0]);
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

    /// A lock that another thread released, or whose memory became another one: the first thread's
    /// note stays. It waits for 20, whose holder waits for the lock; the last one works with it.
    fn stale() -> [ThreadSample; 3] {
        let mut threads = [thread(1, 20, &[10]), thread(2, 10, &[20]), thread(3, 0, &[10])];
        threads[1].waits.as_mut().expect("it waits").holder = 3;
        threads
    }

    /// Such programs ended after a "Deadlock: ...".
    #[test]
    fn a_note_that_has_outlasted_its_hold_makes_no_deadlock() {
        let mut threads = stale();
        assert_eq!(names(&threads), [0u32; 0]);
        threads[1].waits.as_mut().expect("it waits").ns = 2 * SETTLED_UNSURE;
        threads[0].waits.as_mut().expect("it waits").ns = 2 * SETTLED_UNSURE;
        assert_eq!(names(&threads), [0u32; 0], "however long the other one works");
        // The one that it was told of has given the lock away, and the last one has it since.
        threads[1].waits.as_mut().expect("it waits").holder = 4;
        threads[2].holds[0].ns = SETTLED;
        assert_eq!(names(&threads), [0u32; 0]);
        threads[2].waits = threads[0].waits.clone();
        assert_eq!(names(&threads), [2, 3], "it has the lock, and it waits");
    }

    #[test]
    fn where_notes_and_what_was_told_disagree_a_deadlock_is_named_later() {
        // Of two notes neither is known to be later.
        let mut unknown = stale();
        unknown[1].waits.as_mut().expect("it waits").holder = 0;
        // The note's hold has ended, or began as the wait did.
        let mut other = stale();
        other[2].holds.clear();
        for mut threads in [unknown, other] {
            assert_eq!(names(&threads), [0u32; 0]);
            threads[1].waits.as_mut().expect("it waits").ns = SETTLED_UNSURE;
            assert_eq!(names(&threads), [1, 2]);
        }
    }

    #[test]
    fn a_note_of_a_writer_that_has_outlasted_its_hold_is_no_readers() {
        let mut threads = stale();
        threads[2].holds[0].shared = true;
        assert_eq!(names(&threads), [0u32; 0]);
        threads[2].waits = threads[0].waits.clone();
        assert_eq!(names(&threads), [2, 3]);
    }
}
