// Locks that are taken by calls of other names than most: `entries timed`, `entries c11`. The test
// finds lines by their marks.
#include "plants.h"

#include <stdlib.h>
#include <threads.h>

static pthread_rwlock_t map;
static mtx_t slow, fast;
static atomic_int stop;

static struct timespec soon(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 60;
    return time;
}

__attribute__((noinline)) static void *timed_writer(void *nothing)
{
    for (int round = 0; round < 20; round++) {
        struct timespec until = soon();
        pthread_rwlock_timedwrlock(&map, &until); // MARK timed writer
        nap(10000);
        pthread_rwlock_unlock(&map);
    }
    stop = 1;
    return nothing;
}

__attribute__((noinline)) static void *timed_reader(void *nothing)
{
    while (!stop) {
        struct timespec until = soon();
        pthread_rwlock_timedrdlock(&map, &until); // MARK timed reader
        pthread_rwlock_unlock(&map);
        nap(200);
    }
    return nothing;
}

__attribute__((noinline)) static void *slow_one(void *nothing)
{
    for (int round = 0; round < 20; round++) {
        mtx_lock(&slow); // MARK slow
        nap(10000);
        mtx_unlock(&slow);
        nap(300);
    }
    stop = 1;
    return nothing;
}

__attribute__((noinline)) static void *both_ones(void *nothing)
{
    while (!stop) {
        mtx_lock(&fast);
        mtx_unlock(&fast);
        mtx_lock(&slow); // MARK waits
        mtx_unlock(&slow);
        nap(300);
    }
    return nothing;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "timed") == 0) {
        pthread_rwlock_init(&map, NULL); // MARK map
        run(timed_writer, 1, timed_reader, FEW);
    } else {
        mtx_init(&slow, mtx_plain); // MARK made
        mtx_init(&fast, mtx_plain);
        run(slow_one, 1, both_ones, FEW);
    }
    puts("done");
    return EXIT_SUCCESS;
}
