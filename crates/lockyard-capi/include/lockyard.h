/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * Lockyard: the Linux kernel's adaptive locks, for C.
 *
 * Link with `pkg-config --cflags --libs lockyard`. lockyard.hpp has classes for C++.
 *
 * Promises, of every function here:
 *  - All-zero bytes are an unlocked lock (LY_..._INIT says so): memory from calloc, and statics,
 *    need no call. Only a ly_read_mostly_t owns something, and has a destroy function.
 *  - Errors are errno values as return codes, 0 is success. errno itself is never touched, nothing
 *    is allocated (ly_stat_open may), nothing is thrown, no thread-local destructor runs.
 *  - A thread that cannot have the lock spins for a bounded time, while that is useful, and then
 *    sleeps.
 *  - What happened before a lock was released happened before the acquisition that follows.
 *  - No call is a cancellation point, and none returns EINTR.
 *  - Locks are not recursive, are not shared between processes, and must not be moved or copied
 *    while in use.
 *  - After fork the child has the locks as they were; those that other threads held stay held. The
 *    forking thread unlocks what it held, a ly_rtmutex_t up to four forks deep. A ly_rtmutex_t that
 *    another thread held: initialise it again.
 *
 * A lock's memory must stay until every unlock call on it has returned; a ly_spinlock_t alone may
 * be freed by its next owner as soon as that one has unlocked it. Pointers to locks must be valid;
 * they are not checked.
 *
 * A *turn* is 0.4 ms: for so long per waiter ahead, running threads may pass a waiter; then it is
 * let in before all others.
 */

#ifndef LOCKYARD_H
#define LOCKYARD_H

/* Made by `cargo xtask lint --fix` from crates/lockyard-capi/src. Do not edit. */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct timespec; /* strict C99 has none */

#ifdef __cplusplus
#define LY_U64_(value) static_cast<uint64_t>(value)
#else
#define LY_U64_(value) ((uint64_t)(value))
#endif

/** Unlocked: the same as all-zero bytes. */
#define LY_MUTEX_INIT {{0}}
/** Without waiters: the same as all-zero bytes. */
#define LY_COND_INIT {{0}}
/** Unlocked. */
#define LY_RTMUTEX_INIT {{0}}
/** Unlocked. */
#define LY_RWSEM_INIT {{0}}
/** Unlocked. */
#define LY_READ_MOSTLY_INIT {{0}}
/**
 * A semaphore with `units` (a constant where a static needs one; at most LY_SEM_MAX). All-zero
 * bytes have none.
 */
#define LY_SEM_INIT(units) {{LY_U64_(units)}}
/** The most units a semaphore holds. */
#define LY_SEM_MAX 2147483647u
/** Unlocked. */
#define LY_SPINLOCK_INIT {0}
/** Unlocked. */
#define LY_HQ_SPINLOCK_INIT {0}
/** Unlocked. */
#define LY_QRWLOCK_INIT {{0}}
/** Unlocked, with `count` references (0 to INT32_MAX). All-zero bytes have none. */
#define LY_LOCKREF_INIT(count) {LY_U64_(count) << 32}


/**
 * The condition variable of ly_mutex_t. 8 bytes.
 *
 * The thread that has waited longest is woken first. It is moved, asleep, into the queue of the
 * mutex, and wakes when that is free. The memory may go as soon as all waiters were woken by a
 * signal, and the calls that timed out have returned.
 */
typedef struct ly_cond_t {
    uint32_t word[2];
} ly_cond_t;

/**
 * A mutex: spins while the owner runs, sleeps otherwise. 32 bytes.
 *
 * Bound on bypass: one turn, and one more per waiter ahead. The thread that locked it must unlock
 * it. Uncontended: one compare-exchange each way.
 */
typedef struct ly_mutex_t {
    uint32_t word[8];
} ly_mutex_t;

/**
 * A reference count and a spinlock in 8 bytes: references come and go without the lock, as long as
 * nobody holds it.
 *
 * The count is negative once the object is dead.
 */
typedef struct ly_lockref_t {
    uint64_t word;
} ly_lockref_t;

/**
 * A queued reader-writer spinlock for short sections with many readers. 16 bytes.
 *
 * Bound on bypass: one turn, and one more per waiter ahead, readers and writers alike. Reading is
 * not recursive.
 */
typedef struct ly_qrwlock_t {
    uint32_t word[4];
} ly_qrwlock_t;

/**
 * A reader-writer lock whose readers write no shared cache line while writers are rare. 192 bytes.
 *
 * For locks that many threads read all the time: a reader counts itself near its CPU. A writer
 * reads all those counters, microseconds on a machine with hundreds of CPUs. Until some reads have
 * met, or with many writers, it is as ly_rwsem_t, with the same bound for both. Reading is not
 * recursive. Destroy it before its memory goes: see ly_read_mostly_destroy.
 */
typedef struct ly_read_mostly_t {
    uint64_t word[24];
} ly_read_mostly_t;

/**
 * A mutex with priority inheritance: its owner runs at the priority of the most urgent
 * thread that waits for it. 24 bytes.
 *
 * Order: by priority; among time-sharing threads as the mutex, one turn, and one more per waiter
 * ahead. It is checked: calls that could only hang, and unlocking what another thread has locked,
 * return errors. Needs no privilege. Uncontended: one compare-exchange each way.
 */
typedef struct ly_rtmutex_t {
    uint64_t word[3];
} ly_rtmutex_t;

/**
 * A reader-writer lock that spins and sleeps as the mutex does. 32 bytes.
 *
 * Bound on bypass, for readers and for writers: one turn, and one more per waiter ahead. Reading
 * is not recursive: a thread that reads and asks again may wait for a writer that waits for it.
 */
typedef struct ly_rwsem_t {
    uint64_t word[4];
} ly_rwsem_t;

/**
 * A counting semaphore. 24 bytes.
 *
 * Bound on bypass: one turn, and one more per waiter ahead. Any thread may post.
 */
typedef struct ly_sem_t {
    uint64_t word[3];
} ly_sem_t;

/**
 * A queued spinlock that sleeps when spinning does not pay. 4 bytes.
 *
 * For sections of a microsecond and less. Bound on bypass: one turn, and one more per waiter
 * ahead. Any thread may unlock it.
 */
typedef struct ly_spinlock_t {
    uint32_t word;
} ly_spinlock_t;

/**
 * A queued spinlock whose waiters queue by NUMA node while it is contended from several nodes. 4
 * bytes.
 *
 * Bound on bypass: one turn, and one more per waiter ahead in the own node, times the nodes. Any
 * thread may unlock it.
 */
typedef struct ly_hq_spinlock_t {
    uint32_t word;
} ly_hq_spinlock_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Lockyard's version, such as "0.1.0": of the library that runs, which may be newer than the
 * header.
 */
const char *ly_version(void);

/**
 * Makes `*cond` one without waiters, whatever it was. Not needed for zeroed memory.
 */
void ly_cond_init(struct ly_cond_t *cond);

/**
 * Unlocks the mutex, which the caller must have locked, waits for a signal, and locks the mutex
 * again: no signal is lost in between. May return without a signal. All that wait at the same time
 * must do so with the same mutex. Always 0.
 */
int ly_cond_wait(struct ly_cond_t *cond, struct ly_mutex_t *mutex);

/**
 * As ly_cond_wait, until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: there was no signal until then. EINVAL: the nanoseconds are not between 0 and
 * 999999999; the mutex was not unlocked. The mutex is locked in each case.
 */
int ly_cond_timedwait(struct ly_cond_t *cond, struct ly_mutex_t *mutex, const struct timespec *abstime);

/**
 * As ly_cond_timedwait, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
 */
int ly_cond_clockwait(struct ly_cond_t *cond, struct ly_mutex_t *mutex, int clock, const struct timespec *abstime);

/**
 * Wakes the thread that has waited longest, if one waits; it returns when it has the mutex. The
 * caller may hold the mutex or not. Always 0.
 */
int ly_cond_signal(struct ly_cond_t *cond);

/**
 * Wakes all threads that wait now, one after another as the mutex becomes free. Always 0.
 */
int ly_cond_broadcast(struct ly_cond_t *cond);

/**
 * Makes `*object` unlocked, with `count` references (at most 65535).
 */
void ly_lockref_init(struct ly_lockref_t *object, uint16_t count);

/**
 * Takes one more reference: the caller has one. Of a dead object none is counted; above 2147483647
 * they are not told apart, and the object is never given up.
 */
void ly_lockref_get(struct ly_lockref_t *object);

/**
 * Takes a reference if there is one already, and there are fewer than 2147483647. Whether it did.
 */
bool ly_lockref_get_not_zero(struct ly_lockref_t *object);

/**
 * Takes a reference unless the object is dead, or there are 2147483647. Whether it did.
 */
bool ly_lockref_get_not_dead(struct ly_lockref_t *object);

/**
 * Gives a reference up without ever taking the lock: how many are left. -1: there was none, or the
 * lock was in the way; nothing was given up.
 */
int32_t ly_lockref_put_return(struct ly_lockref_t *object);

/**
 * Gives a reference up, and returns true, unless it is the last: then nothing is given up, the
 * object is locked, and it returns false.
 */
bool ly_lockref_put_or_lock(struct ly_lockref_t *object);

/**
 * Locks; waits for it. Always 0.
 */
int ly_lockref_lock(struct ly_lockref_t *object);

/**
 * Locks if it is free and nobody waits. EBUSY: it is not.
 */
int ly_lockref_trylock(struct ly_lockref_t *object);

/**
 * Unlocks what somebody has locked. Always 0.
 */
int ly_lockref_unlock(struct ly_lockref_t *object);

/**
 * Takes a reference to an object that the caller has locked.
 */
void ly_lockref_get_locked(struct ly_lockref_t *object);

/**
 * Gives up a reference to an object that the caller has locked, the last one too. How many are
 * left; nothing happens if there is none.
 */
uint32_t ly_lockref_put_locked(struct ly_lockref_t *object);

/**
 * Nobody gets a reference to the object any more, whatever is called. The caller has locked it.
 */
void ly_lockref_mark_dead(struct ly_lockref_t *object);

/**
 * The references: negative if the object is dead. Stale when it returns, unless the caller has
 * locked the object.
 */
int32_t ly_lockref_count(const struct ly_lockref_t *object);

/**
 * Makes `*mutex` unlocked, whatever it was. Not needed for zeroed memory.
 */
void ly_mutex_init(struct ly_mutex_t *mutex);

/**
 * Locks the mutex; waits for it. Always 0.
 */
int ly_mutex_lock(struct ly_mutex_t *mutex);

/**
 * Locks the mutex if it is free and not kept for a waiter whose turn is over. EBUSY: it is not.
 */
int ly_mutex_trylock(struct ly_mutex_t *mutex);

/**
 * Locks the mutex; waits for it until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999. A
 * mutex that is free is locked whatever the time says.
 */
int ly_mutex_timedlock(struct ly_mutex_t *mutex, const struct timespec *abstime);

/**
 * As ly_mutex_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
 */
int ly_mutex_clocklock(struct ly_mutex_t *mutex, int clock, const struct timespec *abstime);

/**
 * Unlocks the mutex, which the caller must have locked. Always 0.
 */
int ly_mutex_unlock(struct ly_mutex_t *mutex);

/**
 * Names the class under which `lockyard stat` shows the mutex; all with the same name are one
 * class. Without a name its class is the line that takes or tries it first while it is watched.
 * Call it before the mutex is used; a mutex that is initialised again has none. ENOSPC: there are
 * too many classes.
 */
int ly_mutex_set_class(struct ly_mutex_t *mutex, const char *name);

/**
 * Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory.
 */
void ly_qrwlock_init(struct ly_qrwlock_t *lock);

/**
 * Locks for reading; waits for it. Always 0.
 */
int ly_qrwlock_read_lock(struct ly_qrwlock_t *lock);

/**
 * Locks for reading if that needs no wait. EBUSY: it does.
 */
int ly_qrwlock_read_trylock(struct ly_qrwlock_t *lock);

/**
 * Unlocks what somebody has locked for reading. Always 0.
 */
int ly_qrwlock_read_unlock(struct ly_qrwlock_t *lock);

/**
 * Locks for writing; waits for it. Always 0.
 */
int ly_qrwlock_write_lock(struct ly_qrwlock_t *lock);

/**
 * Locks for writing if that needs no wait. EBUSY: it does.
 */
int ly_qrwlock_write_trylock(struct ly_qrwlock_t *lock);

/**
 * Unlocks what somebody has locked for writing. Always 0.
 */
int ly_qrwlock_write_unlock(struct ly_qrwlock_t *lock);

/**
 * Makes the write lock a read lock in one step. Always 0.
 */
int ly_qrwlock_downgrade_write(struct ly_qrwlock_t *lock);

/**
 * Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory. A lock that was used: see
 * ly_read_mostly_destroy.
 */
void ly_read_mostly_init(struct ly_read_mostly_t *lock);

/**
 * Gives back the counters that the lock has borrowed: before its memory is freed or initialised
 * again. The lock may be used meanwhile, and after that. EBUSY: it is held, some 10 ms after the
 * call if for writing; nothing was done.
 *
 * Without this call the lock keeps its counters: after 32 such
 * locks in a process the readers of new ones share a line, as those of ly_rwsem_t do.
 */
int ly_read_mostly_destroy(struct ly_read_mostly_t *lock);

/**
 * Locks for reading; waits for it. Always 0.
 */
int ly_read_mostly_read_lock(struct ly_read_mostly_t *lock);

/**
 * Locks for reading if that needs no wait. EBUSY: it does.
 */
int ly_read_mostly_read_trylock(struct ly_read_mostly_t *lock);

/**
 * Locks for reading; waits for it until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
 */
int ly_read_mostly_read_timedlock(struct ly_read_mostly_t *lock, const struct timespec *abstime);

/**
 * As ly_read_mostly_read_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another
 * clock.
 */
int ly_read_mostly_read_clocklock(struct ly_read_mostly_t *lock, int clock, const struct timespec *abstime);

/**
 * Unlocks what the caller locked for reading. Always 0.
 */
int ly_read_mostly_read_unlock(struct ly_read_mostly_t *lock);

/**
 * Locks for writing; waits for it. Always 0.
 */
int ly_read_mostly_write_lock(struct ly_read_mostly_t *lock);

/**
 * Locks for writing if that needs no wait. EBUSY: it does.
 */
int ly_read_mostly_write_trylock(struct ly_read_mostly_t *lock);

/**
 * Locks for writing; waits for it until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
 */
int ly_read_mostly_write_timedlock(struct ly_read_mostly_t *lock, const struct timespec *abstime);

/**
 * As ly_read_mostly_write_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL:
 * another clock.
 */
int ly_read_mostly_write_clocklock(struct ly_read_mostly_t *lock, int clock, const struct timespec *abstime);

/**
 * Unlocks what the caller locked for writing. Always 0.
 */
int ly_read_mostly_write_unlock(struct ly_read_mostly_t *lock);

/**
 * Makes the caller's write lock a read lock in one step: no writer comes in between, waiting
 * readers are let in. Always 0.
 */
int ly_read_mostly_downgrade_write(struct ly_read_mostly_t *lock);

/**
 * Names the class under which `lockyard stat` shows the lock; see ly_mutex_set_class.
 */
int ly_read_mostly_set_class(struct ly_read_mostly_t *lock, const char *name);

/**
 * Makes `*mutex` unlocked, whatever it was. Not needed for zeroed memory. In a forked child, for
 * one that another thread held.
 */
void ly_rtmutex_init(struct ly_rtmutex_t *mutex);

/**
 * Locks the mutex; waits for it, and lends its owner the caller's priority meanwhile.
 *
 * EDEADLK: the caller has locked it already, or its owner waits, perhaps through others, for one
 * that the caller has locked. ENOTRECOVERABLE: a thread has ended that had it locked; it stays
 * locked.
 */
int ly_rtmutex_lock(struct ly_rtmutex_t *mutex);

/**
 * Locks the mutex if it is free and not kept for a waiter. EBUSY: it is not.
 */
int ly_rtmutex_trylock(struct ly_rtmutex_t *mutex);

/**
 * As ly_rtmutex_lock, until `*abstime`, a time of CLOCK_REALTIME.
 *
 * Also ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and
 * 999999999. A mutex that is free is locked whatever the time says.
 */
int ly_rtmutex_timedlock(struct ly_rtmutex_t *mutex, const struct timespec *abstime);

/**
 * As ly_rtmutex_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
 */
int ly_rtmutex_clocklock(struct ly_rtmutex_t *mutex, int clock, const struct timespec *abstime);

/**
 * Unlocks the mutex. EPERM: the caller has not locked it; nothing happened.
 */
int ly_rtmutex_unlock(struct ly_rtmutex_t *mutex);

/**
 * Makes `*sem` unlocked, whatever it was. Not needed for zeroed memory.
 */
void ly_rwsem_init(struct ly_rwsem_t *sem);

/**
 * Locks for reading; waits for it. Always 0.
 */
int ly_rwsem_down_read(struct ly_rwsem_t *sem);

/**
 * Locks for reading if that needs no wait. EBUSY: it does.
 */
int ly_rwsem_down_read_trylock(struct ly_rwsem_t *sem);

/**
 * Locks for reading; waits for it until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
 */
int ly_rwsem_down_read_timedlock(struct ly_rwsem_t *sem, const struct timespec *abstime);

/**
 * As ly_rwsem_down_read_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another
 * clock.
 */
int ly_rwsem_down_read_clocklock(struct ly_rwsem_t *sem, int clock, const struct timespec *abstime);

/**
 * Unlocks what the caller locked for reading. Always 0.
 */
int ly_rwsem_up_read(struct ly_rwsem_t *sem);

/**
 * Locks for writing; waits for it. Always 0.
 */
int ly_rwsem_down_write(struct ly_rwsem_t *sem);

/**
 * Locks for writing if that needs no wait. EBUSY: it does.
 */
int ly_rwsem_down_write_trylock(struct ly_rwsem_t *sem);

/**
 * Locks for writing; waits for it until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: then it was not to be had. EINVAL: the nanoseconds are not between 0 and 999999999.
 */
int ly_rwsem_down_write_timedlock(struct ly_rwsem_t *sem, const struct timespec *abstime);

/**
 * As ly_rwsem_down_write_timedlock, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another
 * clock.
 */
int ly_rwsem_down_write_clocklock(struct ly_rwsem_t *sem, int clock, const struct timespec *abstime);

/**
 * Unlocks what the caller locked for writing. Always 0.
 */
int ly_rwsem_up_write(struct ly_rwsem_t *sem);

/**
 * Makes the caller's write lock a read lock in one step: no writer comes in between, waiting
 * readers are let in. Always 0.
 */
int ly_rwsem_downgrade_write(struct ly_rwsem_t *sem);

/**
 * Names the class under which `lockyard stat` shows the lock; see ly_mutex_set_class.
 */
int ly_rwsem_set_class(struct ly_rwsem_t *sem, const char *name);

/**
 * Makes `*sem` a semaphore with `units`. EINVAL: more than LY_SEM_MAX; nothing was written.
 */
int ly_sem_init(struct ly_sem_t *sem, unsigned int units);

/**
 * Takes a unit; waits for one. Always 0.
 */
int ly_sem_wait(struct ly_sem_t *sem);

/**
 * Takes a unit if there is one that is not kept for a waiter. EAGAIN: there is none.
 */
int ly_sem_trywait(struct ly_sem_t *sem);

/**
 * Takes a unit; waits for one until `*abstime`, a time of CLOCK_REALTIME.
 *
 * ETIMEDOUT: then there was none. EINVAL: the nanoseconds are not between 0 and 999999999.
 */
int ly_sem_timedwait(struct ly_sem_t *sem, const struct timespec *abstime);

/**
 * As ly_sem_timedwait, by `clock`: CLOCK_REALTIME or CLOCK_MONOTONIC. EINVAL: another clock.
 */
int ly_sem_clockwait(struct ly_sem_t *sem, int clock, const struct timespec *abstime);

/**
 * Adds a unit and wakes a waiter, if there is one that listens. Safe in signal handlers.
 * EOVERFLOW: there are LY_SEM_MAX already.
 */
int ly_sem_post(struct ly_sem_t *sem);

/**
 * The units there are. Stale when it returns.
 */
unsigned int ly_sem_getvalue(const struct ly_sem_t *sem);

/**
 * Names the class under which `lockyard stat` shows the semaphore; see ly_mutex_set_class.
 */
int ly_sem_set_class(struct ly_sem_t *sem, const char *name);

/**
 * Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory.
 */
void ly_spin_init(struct ly_spinlock_t *lock);

/**
 * Locks; waits for it. Always 0.
 */
int ly_spin_lock(struct ly_spinlock_t *lock);

/**
 * Locks if it is free and nobody waits: never overtakes. EBUSY: it is not.
 */
int ly_spin_trylock(struct ly_spinlock_t *lock);

/**
 * Unlocks what somebody has locked. Always 0.
 */
int ly_spin_unlock(struct ly_spinlock_t *lock);

/**
 * Makes `*lock` unlocked, whatever it was. Not needed for zeroed memory.
 */
void ly_hq_spin_init(struct ly_hq_spinlock_t *lock);

/**
 * Locks; waits for it. Always 0.
 */
int ly_hq_spin_lock(struct ly_hq_spinlock_t *lock);

/**
 * Locks if it is free and nobody waits: never overtakes. EBUSY: it is not.
 */
int ly_hq_spin_trylock(struct ly_hq_spinlock_t *lock);

/**
 * Unlocks what somebody has locked. Always 0.
 */
int ly_hq_spin_unlock(struct ly_hq_spinlock_t *lock);

/**
 * Lets `lockyard stat` see what this process's locks do, from now on: see `lockyard stat --help`.
 * Lock calls become a few nanoseconds dearer.
 *
 * The shared library does this by itself at its start when LOCKYARD_STAT is set in the environment
 * and not 0. Otherwise an errno value: what kept `/dev/shm/lockyard.PID` from being made. The
 * locks work as well without. This one function may allocate: it registers handlers for fork and
 * exit.
 */
int ly_stat_open(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOCKYARD_H */
