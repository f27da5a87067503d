// Times that are none, or long over, and clocks that are not known: each timed call, on free
// objects and on held ones.
#include "check.h"

static struct { const char *name; struct timespec time; } times[] = {
    {"-1 s, 10^9 ns", {-1, 1000000000}}, {"-1 s, -1 ns", {-1, -1}}, {"-1 s, 0 ns", {-1, 0}},
    {"0 s, 10^9 ns", {0, 1000000000}}, {"0 s, -1 ns", {0, -1}}, {"0 s, 0 ns", {0, 0}},
    {"the last second, 10^9 ns", {INT64_MAX, 1000000000}}, {"the last second, -1 ns", {INT64_MAX, -1}},
    {"the first second, 0 ns", {INT64_MIN, 0}}, {"the first second, 10^9 ns", {INT64_MIN, 1000000000}},
};
static const struct { const char *name; clockid_t clock; } clocks[] = {
    {"real", CLOCK_REALTIME}, {"monotonic", CLOCK_MONOTONIC}, {"boot", CLOCK_BOOTTIME}, {"99", 99},
};
enum { CLOCKS = sizeof clocks / sizeof *clocks };

static pthread_mutex_t mutex;
static pthread_cond_t cond;
static pthread_rwlock_t rwlock;
static sem_t semaphore;
static const struct timespec *at;
// Below 0: the call that names no clock.
static int clock_number;

static int lock(void *unused)
{
    (void)unused;
    return clock_number < 0 ? pthread_mutex_timedlock(&mutex, at)
                            : pthread_mutex_clocklock(&mutex, clocks[clock_number].clock, at);
}

static int read_lock(void *unused)
{
    (void)unused;
    return clock_number < 0 ? pthread_rwlock_timedrdlock(&rwlock, at)
                            : pthread_rwlock_clockrdlock(&rwlock, clocks[clock_number].clock, at);
}

static int write_lock(void *unused)
{
    (void)unused;
    return clock_number < 0 ? pthread_rwlock_timedwrlock(&rwlock, at)
                            : pthread_rwlock_clockwrlock(&rwlock, clocks[clock_number].clock, at);
}

static const char *clock_name(void)
{
    return clock_number < 0 ? "own" : clocks[clock_number].name;
}

static void init_mutex(int kind)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind & 3);
    pthread_mutexattr_setprotocol(&attributes, kind & 4 ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE);
    MUST(pthread_mutex_init(&mutex, &attributes) == 0);
}

static void mutexes(void)
{
    for (int kind = 0; kind < 8; kind++) {
        init_mutex(kind);
        printf("mutex %d, clock %s: free %d", kind, clock_name(), lock(NULL));
        init_mutex(kind);
        MUST(pthread_mutex_lock(&mutex) == 0);
        printf(", held %d", elsewhere(lock, NULL));
        // (The owner of another kind would wait for itself.)
        if ((kind & 3) == PTHREAD_MUTEX_RECURSIVE || (kind & 3) == PTHREAD_MUTEX_ERRORCHECK)
            printf(", its own %d", lock(NULL));
        MUST(pthread_mutex_unlock(&mutex) == 0);
        puts("");
    }
}

static void rwlocks(void)
{
    for (int kind = 0; kind < 3; kind++) {
        pthread_rwlockattr_t attributes;
        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setkind_np(&attributes, kind);
        printf("rwlock %d, clock %s:", kind, clock_name());
        for (int state = 0; state < 3; state++) {
            for (int write = 0; write < 2; write++) {
                int (*call)(void *) = write ? write_lock : read_lock;
                MUST(pthread_rwlock_init(&rwlock, &attributes) == 0);
                if (state > 0)
                    MUST((state == 1 ? pthread_rwlock_rdlock(&rwlock) : pthread_rwlock_wrlock(&rwlock)) == 0);
                printf(" %d", elsewhere(call, NULL));
                if (state == 2)
                    printf(" its own %d", call(NULL));
            }
        }
        puts("");
    }
}

static void semaphores(void)
{
    for (unsigned value = 0; value < 2; value++) {
        MUST(sem_init(&semaphore, 0, value) == 0);
        int result = clock_number < 0 ? sem_timedwait(&semaphore, at)
                                      : sem_clockwait(&semaphore, clocks[clock_number].clock, at);
        printf("semaphore of %u, clock %s: %d\n", value, clock_name(), result ? errno : 0);
    }
}

static void condition_variables(void)
{
    for (int monotonic = 0; monotonic < 2; monotonic++) {
        for (int kind = 0; kind < 8; kind++) {
            pthread_condattr_t attributes;
            pthread_condattr_init(&attributes);
            pthread_condattr_setclock(&attributes, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME);
            MUST(pthread_cond_init(&cond, &attributes) == 0);
            init_mutex(kind);
            MUST(pthread_mutex_lock(&mutex) == 0);
            int result = clock_number < 0 ? pthread_cond_timedwait(&cond, &mutex, at)
                                          : pthread_cond_clockwait(&cond, &mutex, clocks[clock_number].clock, at);
            printf("condition variable %d, mutex %d, clock %s: %d", monotonic, kind, clock_name(), result);
            printf(", unlock %d\n", pthread_mutex_unlock(&mutex));
        }
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        printf("-- %s\n", times[i].name);
        at = &times[i].time;
        for (clock_number = -1; clock_number < CLOCKS; clock_number++) {
            mutexes();
            rwlocks();
            semaphores();
            condition_variables();
        }
    }
    return 0;
}
