// The objects, and the calls that an agent may do to them: see `oracle.c`.
#include "check.h"

enum { AGENTS = 4, MUTEXES = 5, RWLOCKS = 3, SEMS = 2, CONDS = 2, SPINS = 1, POOL = 300 };
enum { M = 0, R = M + MUTEXES, S = R + RWLOCKS, C = S + SEMS, P = C + CONDS, OBJECTS = P + SPINS, PATIENT = OBJECTS };

// Objects that are in use, and the memory they and those to come are in.
static union object {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    sem_t sem;
    pthread_cond_t cond;
    pthread_spinlock_t spin;
} pool[POOL], *objects[OBJECTS + 1];
static int used;

static const int kinds[S] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP,
                              PTHREAD_MUTEX_ERRORCHECK, PTHREAD_RWLOCK_PREFER_READER_NP,
                              PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP };

static int checks_owner(int m) { return kinds[m] == PTHREAD_MUTEX_RECURSIVE || kinds[m] == PTHREAD_MUTEX_ERRORCHECK; }
static int is_strict(int r) { return kinds[r] == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; }

// Calls; and from STOP on, what else happens.
enum op {
    LOCK, TRYLOCK, TIMEDLOCK_PAST, TIMEDLOCK_SOON, CLOCKLOCK_PAST, CLOCKLOCK_SOON, TIMEDLOCK_NEVER, UNLOCK, REINIT,
    RDLOCK, TRYRDLOCK, TIMEDRDLOCK, WRLOCK, TRYWRLOCK, TIMEDWRLOCK, CLOCKWRLOCK, RWUNLOCK,
    SEM_WAIT, SEM_TRYWAIT, SEM_TIMEDWAIT, SEM_CLOCKWAIT, SEM_POST, SEM_GETVALUE,
    COND_WAIT, COND_TIMEDWAIT_PAST, COND_CLOCKWAIT_SOON, COND_SIGNAL, COND_BROADCAST,
    SPIN_TRYLOCK, SPIN_LOCK, SPIN_UNLOCK,
    STOP, GO_ON, END, RENEW, FORK, OPS
};
static const char *const names[OPS] = {
    "lock", "trylock", "timedlock_past", "timedlock_soon", "clocklock_past", "clocklock_soon", "timedlock_never", "unlock", "reinit",
    "rdlock", "tryrdlock", "timedrdlock", "wrlock", "trywrlock", "timedwrlock", "clockwrlock", "rwunlock",
    "sem_wait", "sem_trywait", "sem_timedwait", "sem_clockwait", "sem_post", "sem_getvalue",
    "cond_wait", "cond_timedwait_past", "cond_clockwait_soon", "cond_signal", "cond_broadcast",
    "spin_trylock", "spin_lock", "spin_unlock",
    "stop", "go_on", "end", "renew", "fork",
};

static int init(int a)
{
    union object *object = objects[a];
    if (a < R) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, kinds[a]);
        return pthread_mutex_init(&object->mutex, &attributes);
    }
    if (a < S) {
        pthread_rwlockattr_t attributes;
        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setkind_np(&attributes, kinds[a]);
        return pthread_rwlock_init(&object->rwlock, &attributes);
    }
    if (a < C)
        return sem_init(&object->sem, 0, a - S);
    return a < P ? pthread_cond_init(&object->cond, NULL) : pthread_spin_init(&object->spin, 0);
}

// A new object, in memory that none has been in.
static int renew(int a)
{
    objects[a] = &pool[used++];
    return init(a);
}

// One call. `a` is the object, `b` the mutex of a wait; in other calls, b is nothing, or PATIENT.
static int call(enum op op, int a, int b)
{
    struct timespec past = { 1, 0 }, never = { 1, 2000000000 };
    struct timespec soon = in_ms(CLOCK_REALTIME, 3), soon_monotonic = in_ms(CLOCK_MONOTONIC, 3);
    pthread_mutex_t *mutex = &objects[a]->mutex, *second = &objects[b]->mutex;
    pthread_rwlock_t *rwlock = &objects[a]->rwlock;
    sem_t *sem = &objects[a]->sem;
    pthread_cond_t *cond = &objects[a]->cond;
    pthread_spinlock_t *spin = &objects[a]->spin;
    int value = 0, result;
    errno = 0;
    switch (op) {
    case LOCK: return pthread_mutex_lock(mutex);
    case TRYLOCK: return pthread_mutex_trylock(mutex);
    case TIMEDLOCK_PAST: return pthread_mutex_timedlock(mutex, &past);
    case TIMEDLOCK_SOON: return pthread_mutex_timedlock(mutex, &soon);
    case CLOCKLOCK_PAST: return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &past);
    case CLOCKLOCK_SOON: return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &soon_monotonic);
    case TIMEDLOCK_NEVER: return pthread_mutex_timedlock(mutex, &never);
    case UNLOCK: return pthread_mutex_unlock(mutex);
    case REINIT: result = pthread_mutex_destroy(mutex); return result ? result : init(a);
    case RDLOCK: return pthread_rwlock_rdlock(rwlock);
    case TRYRDLOCK: return pthread_rwlock_tryrdlock(rwlock);
    case TIMEDRDLOCK: return pthread_rwlock_timedrdlock(rwlock, &past);
    case WRLOCK: return pthread_rwlock_wrlock(rwlock);
    case TRYWRLOCK: return pthread_rwlock_trywrlock(rwlock);
    case TIMEDWRLOCK: return pthread_rwlock_timedwrlock(rwlock, &past);
    case CLOCKWRLOCK: return pthread_rwlock_clockwrlock(rwlock, CLOCK_MONOTONIC, &past);
    case RWUNLOCK: return pthread_rwlock_unlock(rwlock);
    case SEM_WAIT: result = sem_wait(sem); return result ? errno : 0;
    case SEM_TRYWAIT: result = sem_trywait(sem); return result ? errno : 0;
    case SEM_TIMEDWAIT: result = sem_timedwait(sem, &past); return result ? errno : 0;
    case SEM_CLOCKWAIT: result = sem_clockwait(sem, CLOCK_MONOTONIC, &soon_monotonic); return result ? errno : 0;
    case SEM_POST: result = sem_post(sem); return result ? errno : 0;
    case SEM_GETVALUE: sem_getvalue(sem, &value); return value;
    case COND_WAIT: return pthread_cond_wait(cond, second);
    case COND_TIMEDWAIT_PAST: return pthread_cond_timedwait(cond, second, &past);
    case COND_CLOCKWAIT_SOON: return pthread_cond_clockwait(cond, second, CLOCK_MONOTONIC, &soon_monotonic);
    case COND_SIGNAL: return pthread_cond_signal(cond);
    case COND_BROADCAST: return pthread_cond_broadcast(cond);
    case SPIN_TRYLOCK: return pthread_spin_trylock(spin);
    case SPIN_LOCK: return pthread_spin_lock(spin);
    case SPIN_UNLOCK: return pthread_spin_unlock(spin);
    case RENEW: return renew(a);
    default: abort();
    }
}

// Waits out what our library does for a while only: see `oracle_rules.h`.
static int patient_call(enum op op, int a, int b)
{
    if ((op == TRYRDLOCK || op == TIMEDRDLOCK) && is_strict(a)) {
        usleep(50000);
        return call(op, a, b);
    }
    int result = -1;
    for (int n = 0; n < 8 && result != 0; n++) {
        usleep(2000);
        result = call(op, a, b);
    }
    return result;
}

// An agent: does call number `wanted`; `done` follows it. `asleep`: 1 in a call; 2 in a wait that
// was signalled, so that it is at its mutex now. `stopped`: in the handler, since `stop`.
static struct agent {
    pthread_t thread;
    atomic_int wanted, done, tid, stop, stopped;
    enum op op;
    int a, b, result, asleep;
    int has; // See `oracle_rules.h`.
} agents[AGENTS];
