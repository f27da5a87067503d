// Every kind of mutex, with every call, by its owner and by others; the same for rwlocks,
// semaphores and spinlocks.
#include "check.h"

static pthread_mutex_t mutex;
static struct timespec past = { 1, 0 }, crooked = { 1, 1000000000 }, before_1970 = { -1, 0 };

static int try_it(void *m) { return pthread_mutex_trylock(m); }
static int unlock_it(void *m) { return pthread_mutex_unlock(m); }
static int timed_past(void *m) { return pthread_mutex_timedlock(m, &past); }
static int timed_crooked(void *m) { return pthread_mutex_timedlock(m, &crooked); }
static int timed_1969(void *m) { return pthread_mutex_timedlock(m, &before_1970); }
static int clock_past(void *m) { return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past); }
static int clock_unknown(void *m) { return pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &past); }
static int timed_later(void *m)
{
    struct timespec t = in_ms(CLOCK_REALTIME, 30);
    int result = pthread_mutex_timedlock(m, &t);
    MUST(not_before(CLOCK_REALTIME, t));
    return result;
}
static int clock_later(void *m)
{
    struct timespec t = in_ms(CLOCK_MONOTONIC, 30);
    int result = pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t);
    MUST(not_before(CLOCK_MONOTONIC, t));
    return result;
}

static void mutexes(const char *name, int kind)
{
    printf("-- %s\n", name);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    SHOW(pthread_mutexattr_settype(&attributes, kind));
    SHOW(pthread_mutex_init(&mutex, &attributes));
    printf("kind %d\n", mutex.__data.__kind & 3);
    // Nobody's; glibc's normal kind miscounts its users from here on.
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_init(&mutex, &attributes));
    SHOW(pthread_mutex_lock(&mutex));
    printf("owner is right: %d\n", mutex.__data.__owner == (int)syscall(SYS_gettid));
    SHOW(pthread_mutex_trylock(&mutex));
    if (kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK) {
        SHOW(pthread_mutex_lock(&mutex));
        printf("depth %d\n", (int)mutex.__data.__count);
    }
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    SHOW(pthread_mutex_timedlock(&mutex, &soon));
    SHOW(pthread_mutex_timedlock(&mutex, &past));
    SHOW(pthread_mutex_timedlock(&mutex, &crooked));
    SHOW(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past));
    SHOW(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &past));
    SHOW(elsewhere(try_it, &mutex));
    SHOW(elsewhere(timed_past, &mutex));
    SHOW(elsewhere(timed_crooked, &mutex));
    SHOW(elsewhere(timed_1969, &mutex));
    SHOW(elsewhere(timed_later, &mutex));
    SHOW(elsewhere(clock_past, &mutex));
    SHOW(elsewhere(clock_unknown, &mutex));
    SHOW(elsewhere(clock_later, &mutex));
    SHOW(pthread_mutex_destroy(&mutex));
    SHOW(elsewhere(unlock_it, &mutex));
    for (int i = 0; i < 7 && (kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK); i++)
        SHOW(pthread_mutex_unlock(&mutex));
    printf("owner %d\n", mutex.__data.__owner);
    SHOW(pthread_mutex_timedlock(&mutex, &crooked));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(elsewhere(try_it, &mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_consistent(&mutex));
    int ceiling;
    SHOW(pthread_mutex_getprioceiling(&mutex, &ceiling));
    SHOW(pthread_mutex_setprioceiling(&mutex, 1, &ceiling));
    SHOW(pthread_mutex_init(&mutex, &attributes));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_destroy(&mutex));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
}

static int rd(void *l) { return pthread_rwlock_rdlock(l); }
static int tryrd(void *l) { return pthread_rwlock_tryrdlock(l); }
static int trywr(void *l) { return pthread_rwlock_trywrlock(l); }
static int unlock_rw(void *l) { return pthread_rwlock_unlock(l); }
static int timedrd(void *l)
{
    struct timespec t = in_ms(CLOCK_REALTIME, 20);
    int result = pthread_rwlock_timedrdlock(l, &t);
    MUST(result == 0 || not_before(CLOCK_REALTIME, t));
    return result;
}
static int clockwr(void *l)
{
    struct timespec t = in_ms(CLOCK_MONOTONIC, 20);
    int result = pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t);
    MUST(result == 0 || not_before(CLOCK_MONOTONIC, t));
    return result;
}

static void rwlocks(const char *name, int kind)
{
    printf("-- rwlock %s\n", name);
    pthread_rwlockattr_t attributes;
    pthread_rwlock_t lock;
    pthread_rwlockattr_init(&attributes);
    SHOW(pthread_rwlockattr_setkind_np(&attributes, kind));
    SHOW(pthread_rwlock_init(&lock, &attributes));
    SHOW(pthread_rwlock_rdlock(&lock));
    SHOW(pthread_rwlock_rdlock(&lock));
    SHOW(pthread_rwlock_tryrdlock(&lock));
    SHOW(elsewhere(tryrd, &lock));
    SHOW(elsewhere(unlock_rw, &lock));
    SHOW(pthread_rwlock_trywrlock(&lock));
    SHOW(elsewhere(trywr, &lock));
    SHOW(elsewhere(clockwr, &lock));
    SHOW(elsewhere(timedrd, &lock));
    SHOW(pthread_rwlock_unlock(&lock));
    SHOW(pthread_rwlock_timedwrlock(&lock, &past));
    SHOW(pthread_rwlock_timedwrlock(&lock, &crooked));
    SHOW(pthread_rwlock_clockwrlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &past));
    for (int i = 0; i < 3; i++)
        SHOW(pthread_rwlock_unlock(&lock));
    SHOW(pthread_rwlock_wrlock(&lock));
    SHOW(pthread_rwlock_rdlock(&lock));
    SHOW(pthread_rwlock_wrlock(&lock));
    SHOW(pthread_rwlock_tryrdlock(&lock));
    SHOW(pthread_rwlock_trywrlock(&lock));
    SHOW(pthread_rwlock_timedrdlock(&lock, &past));
    SHOW(pthread_rwlock_timedwrlock(&lock, &past));
    SHOW(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &crooked));
    SHOW(elsewhere(tryrd, &lock));
    SHOW(elsewhere(trywr, &lock));
    SHOW(elsewhere(timedrd, &lock));
    SHOW(elsewhere(clockwr, &lock));
    SHOW(pthread_rwlock_unlock(&lock));
    SHOW(elsewhere(clockwr, &lock));
    SHOW(pthread_rwlock_init(&lock, &attributes));
    SHOW(elsewhere(rd, &lock));
    SHOW(pthread_rwlock_unlock(&lock));
    SHOW(pthread_rwlock_destroy(&lock));
}

static void semaphores(void)
{
    puts("-- semaphore");
    sem_t sem;
    int value;
    SHOW(sem_init(&sem, 0, 0x80000000u));
    printf("errno %d\n", errno);
    SHOW(sem_init(&sem, 0, 2));
    SHOW(sem_wait(&sem));
    SHOW(sem_timedwait(&sem, &crooked));
    SHOW(sem_getvalue(&sem, &value));
    printf("value %d\n", value);
    SHOW(sem_trywait(&sem));
    printf("errno %d\n", errno);
    SHOW(sem_timedwait(&sem, &crooked));
    printf("errno %d\n", errno);
    SHOW(sem_timedwait(&sem, &past));
    printf("errno %d\n", errno);
    SHOW(sem_clockwait(&sem, CLOCK_PROCESS_CPUTIME_ID, &past));
    printf("errno %d\n", errno);
    struct timespec t = in_ms(CLOCK_MONOTONIC, 20);
    SHOW(sem_clockwait(&sem, CLOCK_MONOTONIC, &t));
    printf("errno %d %d\n", errno, not_before(CLOCK_MONOTONIC, t));
    SHOW(sem_post(&sem));
    SHOW(sem_clockwait(&sem, CLOCK_MONOTONIC, &past));
    SHOW(sem_init(&sem, 0, 0x7fffffff));
    SHOW(sem_post(&sem));
    printf("errno %d\n", errno);
    SHOW(sem_getvalue(&sem, &value));
    printf("value %d\n", value);
    SHOW(sem_destroy(&sem));
}

static int spin_try(void *l) { return pthread_spin_trylock(l); }

static void spinlocks(int shared)
{
    printf("-- spinlock %d\n", shared);
    pthread_spinlock_t lock;
    SHOW(pthread_spin_init(&lock, shared));
    SHOW(pthread_spin_lock(&lock));
    SHOW(elsewhere(spin_try, (void *)&lock));
    SHOW(pthread_spin_unlock(&lock));
    SHOW(pthread_spin_trylock(&lock));
    SHOW(pthread_spin_trylock(&lock));
    SHOW(pthread_spin_unlock(&lock));
    SHOW(pthread_spin_destroy(&lock));
}

int main(void)
{
    mutexes("normal", PTHREAD_MUTEX_NORMAL);
    mutexes("recursive", PTHREAD_MUTEX_RECURSIVE);
    mutexes("errorcheck", PTHREAD_MUTEX_ERRORCHECK);
    mutexes("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP);
    rwlocks("default", PTHREAD_RWLOCK_PREFER_READER_NP);
    rwlocks("prefer writer", PTHREAD_RWLOCK_PREFER_WRITER_NP);
    rwlocks("nonrecursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    semaphores();
    spinlocks(PTHREAD_PROCESS_PRIVATE);
    spinlocks(PTHREAD_PROCESS_SHARED);
    return 0;
}
