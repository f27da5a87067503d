// What the test programs share. Every line they print is compared with what the same program prints
// on glibc's own locks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Prints a call and its result.
#define SHOW(call) printf("%s = %d\n", #call, (int)(call))
// Ends the program unless the condition holds.
#define MUST(condition)                                                      \
    do {                                                                     \
        if (!(condition)) {                                                  \
            printf("FAILED %s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            fflush(stdout);                                                  \
            _exit(1);                                                        \
        }                                                                    \
    } while (0)

__attribute__((constructor)) static void line_by_line(void)
{
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
}

static inline struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static inline int not_before(clockid_t clock, struct timespec t)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

// Runs a function in another thread and returns its result.
static inline int elsewhere(int (*function)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    MUST(pthread_create(&thread, NULL, (void *(*)(void *))(void *)function, argument) == 0);
    MUST(pthread_join(thread, &result) == 0);
    return (int)(intptr_t)result;
}

// Waits until another thread of this process sleeps until somebody wakes it (state S), so that what
// it waits for is known to be out of reach. State D is none of that: the kernel fetches a page for
// it, say, and it may not have come to the call yet (a virtual machine whose host has paged memory
// out shows it).
static inline void until_asleep(pid_t tid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    for (int seen = 0; seen < 3;) {
        FILE *file = fopen(path, "r");
        char *end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (file)
            fclose(file);
        seen = end && end[2] == 'S' ? seen + 1 : 0;
        sched_yield();
    }
}
