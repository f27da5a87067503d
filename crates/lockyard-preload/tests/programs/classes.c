// Locks made, and taken, at places that the statistics must tell apart: see the test.
#include "check.h"

enum { THREADS = 4, ROUNDS = 20000, MADE = 10, TURNS = 1000 };

static pthread_mutex_t statically = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t made[MADE];
static long count;

__attribute__((noinline)) static void makes(void)
{
    for (int at = 0; at < MADE; at++)
        MUST(pthread_mutex_init(&made[at], NULL) == 0);
    puts("made");
}

__attribute__((noinline)) static void *counts(void *nothing)
{
    for (int round = 0; round < ROUNDS; round++) {
        MUST(pthread_mutex_lock(&statically) == 0);
        count++;
        // Half of the time somebody else has to wait.
        if (round % 100 == 0)
            sched_yield();
        MUST(pthread_mutex_unlock(&statically) == 0);
    }
    return nothing;
}

__attribute__((noinline)) static void reads(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        MUST(pthread_rwlock_rdlock(&table) == 0);
        MUST(pthread_rwlock_unlock(&table) == 0);
        MUST(pthread_rwlock_wrlock(&table) == 0);
        MUST(pthread_rwlock_unlock(&table) == 0);
    }
}

int main(void)
{
    pthread_t threads[THREADS];
    struct timespec past = { 1, 0 };
    makes();
    for (int turn = 0; turn < TURNS; turn++)
        for (int at = 0; at < MADE; at++) {
            MUST((turn % 2 ? pthread_mutex_lock(&made[at]) : pthread_mutex_trylock(&made[at])) == 0);
            MUST(pthread_mutex_unlock(&made[at]) == 0);
        }
    for (int at = 0; at < THREADS; at++)
        MUST(pthread_create(&threads[at], NULL, counts, NULL) == 0);
    for (int at = 0; at < THREADS; at++)
        MUST(pthread_join(threads[at], NULL) == 0);
    reads();
    MUST(count == THREADS * ROUNDS);
    // One that gives up.
    pthread_mutex_lock(&made[0]);
    MUST(pthread_mutex_timedlock(&made[0], &past) == ETIMEDOUT);
    pthread_mutex_unlock(&made[0]);
    return 0;
}
