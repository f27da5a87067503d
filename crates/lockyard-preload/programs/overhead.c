/* What a call costs that need not wait: nanoseconds of each kind, by a process's only thread and by
 * one of two.   overhead MILLISECONDS
 *
 * A line for each: NAME alone|beside NANOSECONDS. Of many short windows the fastest: the others
 * were interrupted. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 2000 };

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t sem;
static int failures;

/* A function for each, so that nothing stands between the calls but the loop. */
#define PAIR(name, first, second)                                                                                     \
    static void name(void)                                                                                            \
    {                                                                                                                 \
        for (int call = 0; call < CALLS; call++) {                                                                    \
            failures += first;                                                                                        \
            failures += second;                                                                                       \
        }                                                                                                             \
    }

PAIR(mutex_pair, pthread_mutex_lock(&normal), pthread_mutex_unlock(&normal))
PAIR(mutex_try_pair, pthread_mutex_trylock(&normal), pthread_mutex_unlock(&normal))
PAIR(recursive_pair, pthread_mutex_lock(&recursive), pthread_mutex_unlock(&recursive))
PAIR(checked_pair, pthread_mutex_lock(&checked), pthread_mutex_unlock(&checked))
PAIR(read_pair, pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock))
PAIR(write_pair, pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock))
PAIR(spin_pair, pthread_spin_lock(&spin), pthread_spin_unlock(&spin))
PAIR(sem_pair, sem_post(&sem), sem_wait(&sem))
PAIR(signals, pthread_cond_signal(&cond), pthread_cond_broadcast(&cond))

static const struct {
    const char *name;
    void (*calls)(void);
} kinds[] = {
    { "mutex", mutex_pair },     { "mutex_try", mutex_try_pair }, { "mutex_recursive", recursive_pair },
    { "mutex_checked", checked_pair }, { "rwlock_read", read_pair }, { "rwlock_write", write_pair },
    { "spin", spin_pair },       { "sem", sem_pair },             { "cond_nobody", signals },
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static double ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void measure(const char *where, double length)
{
    for (int kind = 0; kind < KINDS; kind++) {
        double fastest = 1e18, end = ns() + length;
        while (ns() < end) {
            double start = ns();
            kinds[kind].calls();
            double took = ns() - start;
            fastest = took < fastest ? took : fastest;
        }
        printf("%s %s %.3f\n", kinds[kind].name, where, fastest / CALLS);
    }
}

static void *asleep(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

int main(int count, char **words)
{
    double length = count == 2 ? atof(words[1]) * 1e6 : 0;
    if (length <= 0) {
        fprintf(stderr, "overhead MILLISECONDS\n");
        return 2;
    }
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    sem_init(&sem, 0, 0);
    measure("alone", length);
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t other;
    pthread_mutex_lock(&gate);
    if (pthread_create(&other, NULL, asleep, &gate) != 0)
        return 1;
    measure("beside", length);
    pthread_mutex_unlock(&gate);
    pthread_join(other, NULL);
    return failures != 0;
}
