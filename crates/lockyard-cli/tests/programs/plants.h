// What programs with a planted lock problem share. With LINKED they use liblockyard's locks.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef LINKED
#include "linked.h"
#else
#define reader_unlock pthread_rwlock_unlock
#define writer_unlock pthread_rwlock_unlock
#endif

enum { THREADS = 16, FEW = 4 };

static void nap(long us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&time, NULL);
}

static void run(void *(*first)(void *), int firsts, void *(*second)(void *), int seconds)
{
    pthread_t threads[THREADS];
    for (int at = 0; at < firsts + seconds; at++)
        pthread_create(&threads[at], NULL, at < firsts ? first : second, NULL);
    for (int at = 0; at < firsts + seconds; at++)
        pthread_join(threads[at], NULL);
}
