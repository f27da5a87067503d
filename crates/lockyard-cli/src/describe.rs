//! What stands behind the names of locks, peers and policies, for `lockyard list`.

/// A lock or peer, in one line. Empty for one that this table does not know yet.
pub(crate) fn lock(name: &str) -> &'static str {
    match name {
        "qspinlock" => "queued spinlock of 4 bytes whose waiters sleep when spinning is useless",
        "hq-spinlock" => "queued spinlock of 4 bytes that queues by NUMA node while it is contended",
        "cna" => "queued spinlock that hands over within a NUMA node, by moving waiters of others aside",
        "lockref" => "reference count and spinlock in one word of 8 bytes; as a lock, that spinlock",
        "mcs" => "MCS queue lock of 4 bytes, a baseline: strict order, each waiter on its own line",
        "ticket" => "ticket spinlock of 4 bytes, a baseline: strict order, all waiters on one line",
        "ttas" => "test-and-test-and-set spinlock, a baseline: no order, all waiters on one line",
        "pi-mutex" => "mutex with priority inheritance by the kernel's PI futexes: `RtMutex`",
        "rtmutex-tree" => "mutex with priority inheritance by an own waiter order; takes the right to set priorities",
        "mutex" => "spins on a running holder, then queues; handoff to who waited too long",
        "qrwlock" => "queued reader-writer spinlock of 16 bytes, for short sections",
        "rwsem" => "reader-writer semaphore with optimistic spinning and handoff",
        "read-mostly" => "reader-writer semaphore whose readers share no cache line while writers are rare",
        "semaphore" => "counting semaphore, used with one unit",
        "std-mutex" => "std::sync::Mutex",
        "std-rwlock" => "std::sync::RwLock",
        "parking_lot-mutex" => "parking_lot 0.13 Mutex",
        "parking_lot-rwlock" => "parking_lot 0.13 RwLock",
        "usync-mutex" => "usync 0.2 Mutex",
        "usync-rwlock" => "usync 0.2 RwLock",
        "spin-ttas" => "spin 0.12 Mutex: test and test-and-set",
        "spin-ticket" => "spin 0.12 TicketMutex: strict order",
        "sem_t" => "POSIX semaphore of the C library",
        "pthread-mutex" => "pthread_mutex_t, default kind",
        "pthread-mutex-adaptive" => "pthread_mutex_t, PTHREAD_MUTEX_ADAPTIVE_NP: spins first",
        "pthread-mutex-pi" => "pthread_mutex_t, PTHREAD_PRIO_INHERIT",
        "pthread-rwlock" => "pthread_rwlock_t, default kind: prefers readers",
        "pthread-rwlock-writer" => "pthread_rwlock_t, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP",
        "pthread-spin" => "pthread_spinlock_t",
        _ => "",
    }
}

/// A policy of a lock, in one line. Empty for one that this table does not know yet.
pub(crate) fn policy(lock: &str, name: &str) -> &'static str {
    match (lock, name) {
        ("rwsem", "today") => "the kernel's present fast paths with Lockyard's waiting: bounded turns for both sides",
        ("rwsem", "today-kernel") => "the kernel's present rwsem (v6.3 on)",
        ("rwsem", "v5.16") => "the entitlement to handoff is kept per waiter",
        ("rwsem", "no-rspin") => "v5.11: readers do not spin, they steal",
        ("rwsem", "limit-rspin") => "only one reader spins; reconstructed from its description",
        ("rwsem", "reader-steal-v2") => "as posted: also lets in the readers behind a first writer",
        ("rwsem", "reader-steal") => "readers go in past waiters",
        ("rwsem", "starvation-guard") => "no barging into a lock that readers hold",
        ("rwsem", "v5.10") => "the vanilla of the 2020 tables: the entitled writer spins",
        ("rwsem", "adaptive-rspin") => "readers stop spinning where writers failed to",
        ("rwsem", "timed-writer-spin") => "writers spin on readers for a while",
        ("rwsem", "timed-writer-spin-literal") => "... and look at a thread that no longer owns the lock",
        ("rwsem", "reader-spin-on-writer") => "readers spin while a writer runs",
        ("rwsem", "wake-all-readers") => "wakes all queued readers, up to 256",
        ("rwsem", "handoff-immediate") => "a waiter forbids barging at once",
        ("rwsem", "handoff-4ms") => "a waiter forbids barging after 4 ms",
        ("rwsem", "handoff-none") => "no bound on barging",
        ("rwsem", "xadd-baseline") => "v5.1: readers are woken up to the first writer",
        ("rwsem", "xadd-baseline-literal") => "... with its race between waking and counting readers",
        ("read-mostly", "adaptive") => "readers use their own lines when that pays",
        ("read-mostly", "always") => "... whenever no writer holds or waits: `PerCpuRwSem`",
        ("rtmutex-tree", "today") => {
            "the first waiter spins while the owner runs; time-sharing threads may pass it 32 times"
        }
        ("pi-mutex", "lateral") => {
            "time-sharing threads wait in turns in user space, the others spin shortly, then in the kernel"
        }
        ("pi-mutex", "merged") => "the first waiter spins while the owner runs, then waits in the kernel",
        ("pi-mutex", "published") => "the first waiter spins, as first published",
        ("pi-mutex", "off") => "every waiter waits in the kernel at once, as pthread's",
        ("rtmutex-tree", "top-spin-2016") => "the first waiter spins, as first published; strict order",
        ("rtmutex-tree", "no-spin") => "the first waiter sleeps at once; strict order",
        ("rtmutex-tree", "strict") => "the first waiter spins; strict order",
        ("lockref", "qspinlock") => "with a queued spinlock",
        ("lockref", "hq-spinlock") => "with a queued spinlock that queues by NUMA node",
        ("lockref", "cna") => "with a queued spinlock that hands over within a NUMA node",
        ("lockref", "mcs") => "with an MCS lock",
        ("lockref", "ticket") => "with a ticket lock",
        ("lockref", "ttas") => "with a test-and-test-and-set lock",
        ("qrwlock", "today") => "waiters take turns; a waiter that does not come keeps nobody out",
        ("qrwlock", "today-kernel") => "the kernel's: a waiting writer sets its bit with one or",
        ("qrwlock", "fetch-add") => "late 2017 to about 2021: ... with one addition",
        ("qrwlock", "byte-cas") => {
            "from the patch of 2015 on: compare-exchange of the writer's byte; no bound on writers passing"
        }
        ("qrwlock", "word-cas") => "before the patch: compare-exchange of the whole word; no bound on writers passing",
        ("semaphore", "opportunistic-safe") => "units are public, running threads may pass a waiter for a bounded time",
        ("semaphore", "direct-handoff") => "a unit goes to the first waiter, asleep or not: fair, convoys",
        ("semaphore", "opportunistic-2008") => "the published fix of 2008: units are public, no bound",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use lockyard_work::candidates;

    #[test]
    fn every_name_is_described() {
        for one in candidates() {
            assert!(!super::lock(one.name).is_empty(), "{}", one.name);
            if let Some(policy) = one.policy {
                assert!(!super::policy(one.name, policy).is_empty(), "{}", one.label());
            }
        }
    }
}
