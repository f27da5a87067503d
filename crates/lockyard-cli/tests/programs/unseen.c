// A program of which little or nothing is seen: `unseen WHAT`. The test finds lines by their marks.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4 };

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

static void nap(long us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&time, NULL);
}

// Nothing happens but under the lock.
__attribute__((noinline)) static void *convoy(void *nothing)
{
    for (int round = 0; round < 1500; round++) {
        pthread_mutex_lock(&table); // MARK convoy
        for (volatile long turn = 0; turn < 20000; turn++)
            ;
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

static void run(void *(*each)(void *))
{
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++)
        pthread_create(&threads[at], NULL, each, NULL);
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
}

// All wait at a semaphore, and at nothing else.
static sem_t unit;

static void *pass(void *nothing)
{
    for (int round = 0; round < 50; round++) {
        sem_wait(&unit);
        nap(1000);
        sem_post(&unit);
    }
    return nothing;
}

// A mutex that processes may share, and a wait for it that ends by its deadline.
static void shared(void)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&table, &kind);
    pthread_mutex_lock(&table);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1;
    pthread_mutex_timedlock(&table, &end);
}

// The work begins when the first thread has ended.
static void *after_first(void *nothing)
{
    char stat[256] = "";
    while (!strstr(stat, ") Z ")) {
        FILE *file = fopen("/proc/self/stat", "r");
        if (!file || !fgets(stat, sizeof stat, file))
            exit(1);
        fclose(file);
    }
    run(convoy);
    puts("done");
    exit(0);
    return nothing;
}

static void first_ends(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, after_first, NULL);
    pthread_exit(NULL);
}

// A daemon that goes on until its input ends. With a thread that waits, it tells of itself: the
// file is there before its parent ends.
static void *waiter(void *nothing)
{
    pthread_mutex_lock(&table);
    pthread_mutex_unlock(&table);
    return nothing;
}

static void leave(int waits)
{
    char name[64], nothing;
    int ready[2];
    pthread_t thread;
    pthread_mutex_lock(&table);
    pthread_mutex_unlock(&table);
    if (pipe(ready) != 0)
        exit(1);
    if (fork() != 0) {
        close(ready[1]);
        if (read(ready[0], &nothing, 1) != 0)
            exit(1);
        return;
    }
    close(ready[0]);
    setsid();
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    dup2(null, 2);
    if (waits) {
        pthread_mutex_lock(&table);
        pthread_create(&thread, NULL, waiter, NULL);
        snprintf(name, sizeof name, "/dev/shm/lockyard.%d", (int)getpid());
        while (access(name, F_OK) != 0)
            nap(1000);
    }
    close(ready[1]);
    getchar();
    _exit(0);
}

int main(int words, char **word)
{
    const char *what = words > 1 ? word[1] : "";
    if (!strcmp(what, "convoy"))
        run(convoy);
    else if (!strcmp(what, "units")) {
        sem_init(&unit, 0, 1);
        run(pass);
    }
    else if (!strcmp(what, "shared"))
        shared();
    else if (!strcmp(what, "first ends"))
        first_ends();
    else if (!strcmp(what, "left"))
        leave(1);
    else if (!strcmp(what, "left quietly"))
        leave(0);
    else if (!strcmp(what, "bare"))
        execve(word[0], (char *[]){ word[0], "convoy", NULL }, (char *[]){ NULL });
    else
        return 2;
    puts("done");
    return 0;
}
