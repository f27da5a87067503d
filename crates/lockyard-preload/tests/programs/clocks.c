// On which clock a timed wait sleeps: a call that sleeps on the real-time clock ends when that
// clock is set past its time. A mutex or rwlock may also look at it several times a second. The
// program watches its own child's system calls; to set the machine's clock it would need the right
// to.
#include "check.h"

#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#ifndef __x86_64__
int main(void)
{
    return 0;
}
#else
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, mine = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t reads = PTHREAD_RWLOCK_INITIALIZER, writes = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

// A mutex with priority inheritance is held by a thread of the same process: the kernel looks.
static pthread_mutex_t inheriting;
static pthread_cond_t inheriting_cond = PTHREAD_COND_INITIALIZER;
static atomic_int held;

static void *hold_inheriting(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&inheriting);
    held = 1;
    while (held)
        pause();
    return NULL;
}

static pthread_mutex_t *inherited(int by_other)
{
    pthread_mutexattr_t attributes;
    pthread_t thread;
    pthread_mutexattr_init(&attributes);
    MUST(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    MUST(pthread_mutex_init(&inheriting, &attributes) == 0);
    if (by_other)
        MUST(pthread_create(&thread, NULL, hold_inheriting, NULL) == 0);
    while (by_other && held == 0)
        sched_yield();
    return &inheriting;
}

static void call(int number)
{
    struct timespec real = in_ms(CLOCK_REALTIME, 250), monotonic = in_ms(CLOCK_MONOTONIC, 250);
    switch (number) {
    case 0:
        MUST(sem_timedwait(&semaphore, &real) == -1 && errno == ETIMEDOUT);
        break;
    case 1:
        MUST(sem_clockwait(&semaphore, CLOCK_REALTIME, &real) == -1 && errno == ETIMEDOUT);
        break;
    case 2:
        MUST(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &monotonic) == -1 && errno == ETIMEDOUT);
        break;
    case 3:
        pthread_mutex_lock(&mine);
        MUST(pthread_cond_timedwait(&cond, &mine, &real) == ETIMEDOUT);
        break;
    case 4:
        pthread_mutex_lock(&mine);
        MUST(pthread_cond_clockwait(&cond, &mine, CLOCK_REALTIME, &real) == ETIMEDOUT);
        break;
    case 5:
        pthread_mutex_lock(&mine);
        MUST(pthread_cond_clockwait(&cond, &mine, CLOCK_MONOTONIC, &monotonic) == ETIMEDOUT);
        break;
    case 6:
        MUST(pthread_mutex_timedlock(&mutex, &real) == ETIMEDOUT);
        break;
    case 7:
        MUST(pthread_mutex_clocklock(&mutex, CLOCK_REALTIME, &real) == ETIMEDOUT);
        break;
    case 8:
        MUST(pthread_rwlock_timedrdlock(&writes, &real) == ETIMEDOUT);
        break;
    case 9:
        MUST(pthread_rwlock_timedwrlock(&reads, &real) == ETIMEDOUT);
        break;
    case 10:
        MUST(pthread_rwlock_clockrdlock(&writes, CLOCK_REALTIME, &real) == ETIMEDOUT);
        break;
    case 11:
        MUST(pthread_rwlock_clockwrlock(&reads, CLOCK_REALTIME, &real) == ETIMEDOUT);
        break;
    case 12:
        MUST(pthread_mutex_timedlock(inherited(1), &real) == ETIMEDOUT);
        break;
    case 13:
        MUST(pthread_mutex_clocklock(inherited(1), CLOCK_REALTIME, &real) == ETIMEDOUT);
        break;
    case 14:
        pthread_mutex_lock(inherited(0));
        MUST(pthread_cond_timedwait(&inheriting_cond, &inheriting, &real) == ETIMEDOUT);
        break;
    }
}

static const char *names[] = {
    "sem_timedwait", "sem_clockwait, real", "sem_clockwait, monotonic",
    "cond_timedwait", "cond_clockwait, real", "cond_clockwait, monotonic",
    "mutex_timedlock", "mutex_clocklock, real", "rwlock_timedrdlock", "rwlock_timedwrlock",
    "rwlock_clockrdlock, real", "rwlock_clockwrlock, real", "mutex_timedlock, inheriting",
    "mutex_clocklock, inheriting, real", "cond_timedwait, inheriting",
};
enum { CALLS = sizeof names / sizeof *names, MAY_LOOK = 6 };

// Another thread's locks: a child finds them held.
static void *hold(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_rdlock(&reads);
    pthread_rwlock_wrlock(&writes);
    return NULL;
}

// Whether a timed futex call on the monotonic clock ends within 0.1 s (and what the two processes
// need).
static int is_short(pid_t pid, unsigned long long timeout)
{
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &now);
    errno = 0;
    end.tv_sec = ptrace(PTRACE_PEEKDATA, pid, (void *)timeout, NULL);
    end.tv_nsec = ptrace(PTRACE_PEEKDATA, pid, (void *)(timeout + 8), NULL);
    MUST(errno == 0);
    return (end.tv_sec - now.tv_sec) * 1000 + (end.tv_nsec - now.tv_nsec) / 1000000 <= 110;
}

// The clocks of the timed futex calls that the child makes: 1 monotonic, 2 real-time, 4 monotonic
// and short.
static int watch(int number)
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        MUST(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        raise(SIGSTOP);
        call(number);
        _exit(0);
    }
    int status, seen = 0;
    MUST(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    for (int entry = 1;; entry = !entry) {
        MUST(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
        MUST(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status))
            break;
        MUST(WIFSTOPPED(status));
        struct user_regs_struct registers;
        MUST(ptrace(PTRACE_GETREGS, pid, NULL, &registers) == 0);
        if (entry && registers.orig_rax == SYS_futex && registers.r10 != 0)
            seen |= registers.rsi & FUTEX_CLOCK_REALTIME || (registers.rsi & FUTEX_CMD_MASK) == FUTEX_LOCK_PI ? 2 : is_short(pid, registers.r10) ? 4 : 1;
    }
    MUST(WEXITSTATUS(status) == 0);
    return seen;
}

int main(void)
{
    sem_init(&semaphore, 0, 0);
    elsewhere((int (*)(void *))(void *)hold, NULL);
    for (int i = 0; i < CALLS; i++) {
        int seen = watch(i);
        if (i < MAY_LOOK)
            printf("%s: %d\n", names[i], seen);
        else
            printf("%s: %s\n", names[i], seen & 1 ? "late" : "in time");
    }
    return 0;
}
#endif
