//! Lock events in words for somebody who has never read a lock.
//!
//! [`Event::what`] says when an event is counted, in the terms of the field; this table says what
//! it means for the program that waits. Events that are not in it fall back to the former.

use lockyard::event::Event;

/// Name prefixes of the events that belong to a lock, by the lock's name.
const OWN: &[(&str, &[&str])] = &[
    ("qspinlock", &["lock_", "pv_"]),
    ("hq-spinlock", &["hq_", "lock_", "pv_"]),
    ("cna", &["cna_", "lock_", "pv_"]),
    ("mcs", &["lock_", "pv_"]),
    ("ticket", &["lock_"]),
    ("lockref", &["lockref_", "lock_", "pv_"]),
    ("qrwlock", &["qrw_", "lock_", "pv_"]),
    ("mutex", &["mutex_", "osq_"]),
    ("rwsem", &["rwsem_", "osq_"]),
    ("semaphore", &["sem_", "osq_"]),
];

const PLAIN: &[(&str, &str)] = &[
    ("lock_pending", "got the lock as the only waiter, by spinning briefly"),
    ("lock_slowpath", "waited in the queue and reached its head"),
    ("pv_kick_unlock", "an unlock woke the sleeping head of the queue"),
    ("pv_lock_stealing", "took the lock past a queue whose head was not spinning"),
    ("pv_spurious_wakeup", "woke up for nothing"),
    ("pv_wait_again", "the head of the queue had to sleep once more"),
    ("pv_wait_early", "went to sleep early because the thread ahead was asleep"),
    ("pv_wait_head", "the head of the queue slept: the holder was not running"),
    ("pv_wait_node", "slept in the queue instead of burning CPU"),
    ("pv_hash_hops", "lookups to find the sleeping head of the queue"),
    ("hq_enter", "a contended lock began to queue its waiters by node"),
    ("hq_leave", "a lock without waiters became plain again"),
    ("hq_conflict", "a contended lock stayed plain: all its places in the pool were taken"),
    ("hq_local_handoff", "passed on inside a node"),
    ("hq_remote_handoff", "passed on to another node"),
    ("hq_forced_handoff", "… although the node had waiters left: it had had its share"),
    ("hq_rollback", "a lock about to become plain did not: somebody was coming"),
    ("qrw_read_slowpath", "a reader had to wait for a writer"),
    ("qrw_write_slowpath", "a writer had to wait"),
    ("qrw_waiting_fail", "a writer could not say at once that it waits: readers came and went"),
    ("qrw_wlock_fail", "a writer saw the lock free and lost it again"),
    ("qrw_sleep", "a waiter slept: the threads inside stayed too long"),
    ("qrw_opt_lock", "got the lock by spinning, without queueing"),
    ("qrw_opt_fail", "spinning did not pay: the thread went to queue"),
    ("qrw_lock", "got the lock after queueing"),
    ("qrw_fail", "gave up waiting: timeout or cancellation"),
    ("qrw_handoff", "the lock was kept for a waiter whose turn was over"),
    ("lockref_locked", "a reference had to wait for the lock beside it"),
    ("lockref_retry", "another thread changed the count at the same moment"),
    ("lockref_limit", "so many did that the reference was counted under the lock"),
    ("futex_sleep", "went to sleep on a word, in a table of this process"),
    ("futex_wake", "were woken through that table"),
    ("rwsem_sleep_reader", "a waiting reader was woken from sleep"),
    ("rwsem_sleep_writer", "a waiting writer was woken from sleep"),
    ("rwsem_wake_reader", "a group of waiting readers was let in together"),
    ("rwsem_wake_writer", "the first waiting writer was woken"),
    ("rwsem_opt_lock", "a writer got the lock by spinning, without sleeping"),
    ("rwsem_opt_rlock", "a reader got the lock by spinning, without sleeping"),
    ("rwsem_opt_fail", "spinning did not pay: the thread went to queue"),
    ("rwsem_opt_nospin", "a writer stopped spinning because readers stayed too long"),
    ("rwsem_rlock", "a reader got the lock after queueing"),
    ("rwsem_rlock_fast", "a reader went straight in: nobody was waiting"),
    ("rwsem_rlock_steal", "a reader went in past waiting threads: readers share"),
    ("rwsem_rlock_handoff", "a reader had waited its bound and was promised the lock"),
    ("rwsem_wlock", "a writer got the lock after queueing"),
    ("rwsem_wlock_handoff", "a writer had waited its bound and was promised the lock"),
    ("mutex_slowpath", "found the lock taken"),
    ("mutex_opt_lock", "got the lock by spinning on a running holder, no sleep"),
    ("mutex_opt_fail", "spinning did not pay: holder not running, or time was up"),
    ("mutex_lock", "got the lock after queueing"),
    ("mutex_sleep", "a waiter was woken from sleep"),
    ("mutex_wake", "an unlock woke the first waiter"),
    ("mutex_handoff", "an unlock gave the lock to one that had waited its bound"),
    ("sem_slowpath", "found no unit free"),
    ("sem_opt_fail", "spinning did not pay: the thread went to queue"),
    ("sem_opt_down", "got a unit by spinning, without sleeping"),
    ("sem_down", "got a unit after queueing"),
    ("sem_sleep", "a waiter was woken from sleep"),
    ("sem_wake", "a release woke the first waiter"),
    ("sem_handoff", "a release gave its unit to one that had waited its bound"),
    ("osq_wait", "waited behind another spinning thread"),
    ("osq_cancel", "left the line of spinning threads to make room"),
    ("park_sleep", "went to sleep in the kernel (a system call)"),
    ("park_wake", "woke another thread through the kernel (a system call)"),
];

/// What `name` means, for a stranger.
pub(crate) fn plain(name: &str) -> &'static str {
    let event = || Event::ALL.iter().find(|event| event.name() == name).map(|event| event.what());
    PLAIN.iter().find(|(known, _)| *known == name).map(|(_, words)| *words).or_else(event).unwrap_or("")
}

/// Whether the event `name` explains something about `lock`, and is not one of the spinlock inside
/// it.
pub(crate) fn belongs(name: &str, lock: &str) -> bool {
    match OWN.iter().find(|(known, _)| *known == lock) {
        Some((_, prefixes)) => name.starts_with("park_") || prefixes.iter().any(|prefix| name.starts_with(prefix)),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_real_events() {
        for (name, _) in PLAIN {
            assert!(Event::ALL.iter().any(|event| event.name() == *name), "{name} is not an event");
        }
    }

    #[test]
    fn every_event_has_words() {
        for event in Event::ALL {
            assert!(!plain(event.name()).is_empty(), "{}", event.name());
        }
        assert_eq!(plain("no_such_event"), "");
    }

    #[test]
    fn inner_locks_are_told_apart() {
        assert!(belongs("rwsem_rlock", "rwsem") && belongs("park_wake", "rwsem"));
        assert!(!belongs("lock_slowpath", "rwsem"));
        assert!(belongs("anything", "a-lock-of-next-year"));
    }
}
