// Waiters of fixed priorities at a spinlock, on one CPU, are served by them; a time-sharing waiter
// that came first is served last. (On glibc's spinlock each of them would keep the owner from its
// CPU, so nothing is compared.) Then they come again and again, beside threads that share the time.
#include "check.h"

enum { WAITERS = 4, CROWD = 6, ROUNDS = 300 };
static const int priorities[WAITERS] = { 0, 1, 5, 9 };

static pthread_spinlock_t spin;
static int order[WAITERS], served, count;
static atomic_int tids[WAITERS];

static void have_priority(int priority)
{
    struct sched_param param = { .sched_priority = priority };
    if (priority != 0)
        MUST(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0);
}

static void *waiter(void *which)
{
    int number = (int)(intptr_t)which;
    have_priority(priorities[number]);
    tids[number] = (int)syscall(SYS_gettid);
    MUST(pthread_spin_lock(&spin) == 0);
    order[served++] = priorities[number];
    MUST(pthread_spin_unlock(&spin) == 0);
    return NULL;
}

static void *worker(void *which)
{
    have_priority((int)(intptr_t)which % 3);
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec little = { .tv_nsec = 20000 };
        MUST(pthread_spin_lock(&spin) == 0);
        count++;
        if (round % 8 == 0)
            nanosleep(&little, NULL);
        MUST(pthread_spin_unlock(&spin) == 0);
        if (round % 3 == 0)
            nanosleep(&little, NULL);
    }
    return NULL;
}

static void on_one_cpu(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    MUST(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void crowd(void)
{
    pthread_t threads[CROWD];
    count = 0;
    for (int i = 0; i < CROWD; i++)
        MUST(pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    printf("%d rounds\n", count);
}

int main(void)
{
    struct sched_param param = { .sched_priority = 9 };
    pthread_t threads[WAITERS];
    pid_t pid = fork();
    if (pid == 0)
        _exit(sched_setscheduler(0, SCHED_FIFO, &param) != 0);
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        puts("skipped: no right to set priorities (CAP_SYS_NICE or RLIMIT_RTPRIO)");
        return 0;
    }
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    crowd();
    on_one_cpu();
    for (int time = 0; time < 10; time++) {
        served = 0;
        pthread_spin_lock(&spin);
        for (int i = 0; i < WAITERS; i++) {
            tids[i] = 0;
            MUST(pthread_create(&threads[i], NULL, waiter, (void *)(intptr_t)i) == 0);
            while (tids[i] == 0)
                sched_yield();
            until_asleep(tids[i]);
        }
        pthread_spin_unlock(&spin);
        for (int i = 0; i < WAITERS; i++)
            pthread_join(threads[i], NULL);
        printf("%d %d %d %d\n", order[0], order[1], order[2], order[3]);
    }
    crowd();
    return 0;
}
