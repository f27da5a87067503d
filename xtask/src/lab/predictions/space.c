/* Small programs that span the space of uses of locks: space KIND THREADS SECONDS
 *
 * Each operation computes outside of the lock (think) and inside (hold), by a loop that is
 * calibrated when the program starts, a half to one and a half times as long as said. Prints
 * operations, the seconds they took, and how many CPUs' worth of computing that was: the progress
 * that `lockyard predict` speaks of. `space` alone lists the kinds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum form { MUTEX, RWLOCK, NESTED, CHAIN, SLEEP, ROLES, QUEUE, POSTS, TRY };

static const struct kind {
    const char *name;
    enum form form;
    int locks;
    long hold, think; /* ns */
} kinds[] = {
    { "hot", MUTEX, 1, 1000, 1000 },
    { "short", MUTEX, 1, 150, 150 },
    { "no-think", MUTEX, 1, 1000, 0 },
    { "think10", MUTEX, 1, 500, 5000 },
    { "think100", MUTEX, 1, 500, 50000 },
    { "long", MUTEX, 1, 50000, 50000 },
    { "hashed", MUTEX, 16, 1000, 1000 },
    { "readers", RWLOCK, 1, 1000, 1000 },
    { "nested", NESTED, 2, 500, 2000 },
    { "chain", CHAIN, 2, 500, 1000 },
    { "sleep", SLEEP, 1, 2000, 20000 },
    { "roles", ROLES, 1, 300, 3000 },
    { "try", TRY, 1, 1000, 2000 },
    { "queue", QUEUE, 1, 200, 4000 },
    { "posts", POSTS, 1, 200, 4000 },
};
enum { KINDS = sizeof kinds / sizeof *kinds, MOST_LOCKS = 16, ROOM = 64 };

static const struct kind *kind;
static struct lock {
    _Alignas(128) pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    _Alignas(128) long data[16];
} locks[MOST_LOCKS];
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static sem_t items, places;
static int queued;
static _Atomic int stop;
static double per_ns;

struct worker {
    _Alignas(128) pthread_t thread;
    unsigned long random;
    int number;
    long operations;
    double worked; /* ns */
};

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

static unsigned long steps(unsigned long value, long count)
{
    for (long step = 0; step < count; step++)
        value = value * 6364136223846793005ul + 1442695040888963407ul;
    return value;
}

static void calibrate(void)
{
    enum { STEPS = 2000000 };
    double best = 1e18;
    for (int round = 0; round < 9; round++) {
        double begin = now();
        volatile unsigned long kept = steps((unsigned long)round, STEPS);
        (void)kept;
        double took = now() - begin;
        best = took < best ? took : best;
    }
    per_ns = STEPS / best;
}

static void compute(struct worker *me, long ns)
{
    if (ns == 0)
        return;
    double length = ns * (0.5 + (double)(me->random >> 40) / (1 << 24));
    me->random = steps(me->random, (long)(length * per_ns));
    me->worked += length;
}

static void inside(struct worker *me, struct lock *lock, long ns)
{
    lock->data[0]++;
    lock->data[15]++;
    compute(me, ns);
}

static void take(struct worker *me, struct lock *lock, long ns)
{
    pthread_mutex_lock(&lock->mutex);
    inside(me, lock, ns);
    pthread_mutex_unlock(&lock->mutex);
}

static void operate(struct worker *me)
{
    struct lock *lock = &locks[(me->random >> 20) % (unsigned)kind->locks];
    switch (kind->form) {
    case MUTEX:
        take(me, lock, kind->hold);
        break;
    case RWLOCK:
        if ((me->random >> 30) % 10 == 0)
            pthread_rwlock_wrlock(&lock->rwlock);
        else
            pthread_rwlock_rdlock(&lock->rwlock);
        compute(me, kind->hold);
        pthread_rwlock_unlock(&lock->rwlock);
        break;
    case NESTED:
        pthread_mutex_lock(&locks[0].mutex);
        inside(me, &locks[0], kind->hold);
        take(me, &locks[1], kind->hold);
        pthread_mutex_unlock(&locks[0].mutex);
        break;
    case CHAIN:
        take(me, &locks[0], kind->hold);
        compute(me, kind->think);
        take(me, &locks[1], kind->hold);
        break;
    case SLEEP:
        pthread_mutex_lock(&locks[0].mutex);
        inside(me, &locks[0], kind->hold);
        usleep(50);
        pthread_mutex_unlock(&locks[0].mutex);
        break;
    case ROLES: /* every second thread holds it ten times as long */
        take(me, &locks[0], me->number % 2 ? 10 * kind->hold : kind->hold);
        break;
    case TRY:
        if (pthread_mutex_trylock(&locks[0].mutex) == 0) {
            inside(me, &locks[0], kind->hold);
            pthread_mutex_unlock(&locks[0].mutex);
        }
        break;
    case QUEUE: /* every second thread takes out what the others put in */
        pthread_mutex_lock(&locks[0].mutex);
        while (!stop && queued == (me->number % 2 ? 0 : ROOM))
            pthread_cond_wait(me->number % 2 ? &filled : &emptied, &locks[0].mutex);
        queued += me->number % 2 ? -1 : 1;
        inside(me, &locks[0], kind->hold);
        pthread_mutex_unlock(&locks[0].mutex);
        pthread_cond_signal(me->number % 2 ? &emptied : &filled);
        break;
    case POSTS:
        sem_wait(me->number % 2 ? &items : &places);
        take(me, &locks[0], kind->hold);
        sem_post(me->number % 2 ? &places : &items);
        break;
    }
    compute(me, kind->think);
    me->operations++;
}

static void *work(void *argument)
{
    struct worker *me = argument;
    while (!stop)
        operate(me);
    return NULL;
}

int main(int count, char **words)
{
    for (int at = 0; at < KINDS; at++) {
        if (count < 2)
            puts(kinds[at].name);
        else if (strcmp(kinds[at].name, words[1]) == 0)
            kind = &kinds[at];
    }
    if (count < 4 || kind == NULL)
        return count < 2 ? 0 : 2;
    int threads = atoi(words[2]);
    struct worker *workers = aligned_alloc(128, (size_t)threads * sizeof *workers);
    calibrate();
    for (int at = 0; at < MOST_LOCKS; at++) {
        pthread_mutex_init(&locks[at].mutex, NULL);
        pthread_rwlock_init(&locks[at].rwlock, NULL);
    }
    sem_init(&items, 0, 0);
    sem_init(&places, 0, ROOM);
    double begin = now();
    for (int at = 0; at < threads; at++) {
        workers[at] = (struct worker){ .random = steps((unsigned long)at + 1, 9), .number = at };
        if (pthread_create(&workers[at].thread, NULL, work, &workers[at]) != 0)
            return 1;
    }
    usleep((useconds_t)(atof(words[3]) * 1e6));
    double took = now() - begin, worked = 0;
    long operations = 0;
    /* Those that wait for an item or a place leave. */
    pthread_mutex_lock(&locks[0].mutex);
    stop = 1;
    pthread_cond_broadcast(&filled);
    pthread_cond_broadcast(&emptied);
    pthread_mutex_unlock(&locks[0].mutex);
    for (int at = 0; at < 2 * threads; at++)
        sem_post(at % 2 ? &items : &places);
    for (int at = 0; at < threads; at++) {
        pthread_join(workers[at].thread, NULL);
        operations += workers[at].operations;
        worked += workers[at].worked;
    }
    printf("%.6f CPUs computed\n%ld operations, %.6f seconds, 0 errors\n", worked / took, operations, took / 1e9);
    return 0;
}
