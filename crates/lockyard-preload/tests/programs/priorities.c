// Waiters of fixed priorities, on one CPU, are served by them, whichever call gave them their
// priorities; a time-sharing waiter that came first is served last.
#include "check.h"

enum { MUTEX, SIGNAL, BROADCAST, WRITE, SEMAPHORE, KINDS };
enum { SETSCHEDPARAM, ATTRIBUTES, SETSCHEDPRIO, SETSCHEDULER, SETPARAM, BY_MAIN, BY_MAIN_AND_KERNEL, WAYS };
enum { WAITERS = 4 };
static const char *kinds[] = { "mutex", "cond_signal", "cond_broadcast", "rwlock, write", "semaphore" };
static const char *ways[] = { "setschedparam", "attributes", "setschedprio", "sched_setscheduler", "sched_setparam",
                              "setschedparam by main", "sched_setscheduler by main" };
static const int priorities[WAITERS] = { 0, 1, 5, 9 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static int kind, way, tokens, gates[WAITERS][2];
static int order[WAITERS];
static atomic_int served, tids[WAITERS], comes[WAITERS];

static void have_priority(int priority)
{
    struct sched_param param = { .sched_priority = priority }, other = { .sched_priority = 2 };
    if (way == SETSCHEDPARAM) {
        MUST(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0);
    } else if (way == SETSCHEDPRIO) {
        MUST(pthread_setschedparam(pthread_self(), SCHED_RR, &other) == 0);
        MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        MUST(pthread_setschedprio(pthread_self(), priority) == 0);
    } else if (way == SETSCHEDULER) {
        MUST(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
    } else if (way == SETPARAM) {
        MUST(sched_setscheduler(syscall(SYS_gettid), SCHED_FIFO | SCHED_RESET_ON_FORK, &other) == 0);
        MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
        MUST(sched_setparam(0, &param) == 0);
    }
}

static void note(int number)
{
    order[served++] = priorities[number];
}

static void *waiter(void *which)
{
    int number = (int)(intptr_t)which;
    char byte;
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    if (priorities[number] != 0)
        have_priority(priorities[number]);
    tids[number] = (int)syscall(SYS_gettid);
    MUST(read(gates[number][0], &byte, 1) == 1);
    comes[number] = 1;
    switch (kind) {
    case MUTEX:
        MUST(pthread_mutex_lock(&mutex) == 0);
        note(number);
        pthread_mutex_unlock(&mutex);
        break;
    case WRITE:
        MUST(pthread_rwlock_wrlock(&rwlock) == 0);
        note(number);
        pthread_rwlock_unlock(&rwlock);
        break;
    case SEMAPHORE:
        MUST(sem_wait(&semaphore) == 0);
        note(number);
        sem_post(&semaphore);
        break;
    default:
        pthread_mutex_lock(&mutex);
        while (tokens == 0)
            pthread_cond_wait(&cond, &mutex);
        tokens--;
        note(number);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static pthread_t start(int number)
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct sched_param param = { .sched_priority = priorities[number] };
    pthread_attr_init(&attributes);
    if (way == ATTRIBUTES && param.sched_priority != 0) {
        MUST(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
        MUST(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO) == 0);
        MUST(pthread_attr_setschedparam(&attributes, &param) == 0);
    }
    MUST(pthread_create(&thread, &attributes, waiter, (void *)(intptr_t)number) == 0);
    pthread_attr_destroy(&attributes);
    while (tids[number] == 0)
        sched_yield();
    if (param.sched_priority != 0 && way == BY_MAIN)
        MUST(pthread_setschedparam(thread, SCHED_FIFO, &param) == 0);
    if (param.sched_priority != 0 && way == BY_MAIN_AND_KERNEL)
        MUST(sched_setscheduler(tids[number], SCHED_FIFO, &param) == 0);
    return thread;
}

static void play(void)
{
    pthread_t threads[WAITERS];
    served = tokens = 0;
    for (int i = 0; i < WAITERS; i++) {
        tids[i] = comes[i] = 0;
        MUST(pipe(gates[i]) == 0);
        threads[i] = start(i);
    }
    if (kind == MUTEX)
        pthread_mutex_lock(&mutex);
    if (kind == WRITE)
        pthread_rwlock_wrlock(&rwlock);
    for (int i = 0; i < WAITERS; i++) {
        MUST(write(gates[i][1], "", 1) == 1);
        while (comes[i] == 0)
            sched_yield();
        until_asleep(tids[i]);
    }
    switch (kind) {
    case MUTEX:
        pthread_mutex_unlock(&mutex);
        break;
    case WRITE:
        pthread_rwlock_unlock(&rwlock);
        break;
    case SEMAPHORE:
        sem_post(&semaphore);
        break;
    default:
        pthread_mutex_lock(&mutex);
        tokens = WAITERS;
        for (int i = 0; kind == SIGNAL && i < WAITERS; i++)
            pthread_cond_signal(&cond);
        if (kind == BROADCAST)
            pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&mutex);
    }
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(threads[i], NULL);
        close(gates[i][0]);
        close(gates[i][1]);
    }
    if (kind == SEMAPHORE)
        sem_wait(&semaphore);
}

static void *write_once(void *tid)
{
    *(atomic_int *)tid = (int)syscall(SYS_gettid);
    MUST(pthread_rwlock_wrlock(&rwlock) == 0);
    note(0);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    return NULL;
}

static void *read_urgently(void *nothing)
{
    struct sched_param param = { .sched_priority = 5 };
    MUST(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0);
    struct timespec at = in_ms(CLOCK_REALTIME, 5000);
    MUST(pthread_rwlock_timedrdlock(&rwlock, &at) == 0);
    note(2);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    return nothing;
}

// A reader is not kept out for a writer of lower priority that waits.
static void read_past_a_writer(void)
{
    pthread_t writer, reader;
    served = tids[0] = 0;
    MUST(pthread_rwlock_rdlock(&rwlock) == 0);
    MUST(pthread_create(&writer, NULL, write_once, &tids[0]) == 0);
    while (tids[0] == 0)
        sched_yield();
    until_asleep(tids[0]);
    MUST(pthread_create(&reader, NULL, read_urgently, NULL) == 0);
    MUST(pthread_join(reader, NULL) == 0);
    printf("rwlock, a reader of priority 5 beside a reader: %d before the writer that waits\n", served);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    MUST(pthread_join(writer, NULL) == 0);
}

// With a number: only the priorities that are given in that way.
int main(int count, char **words)
{
    int first = count > 1 ? atoi(words[1]) : 0, last = count > 1 ? first : WAYS - 1;
    struct sched_param param = { .sched_priority = 9 };
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    MUST(sched_setaffinity(0, sizeof one, &one) == 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(sched_setscheduler(0, SCHED_FIFO, &param) != 0);
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    if (status != 0) {
        puts("skipped: no right to set priorities (CAP_SYS_NICE or RLIMIT_RTPRIO)");
        return 0;
    }
    sem_init(&semaphore, 0, 0);
    for (way = first; way <= last; way++)
        for (kind = 0; kind < KINDS; kind++) {
            play();
            printf("%s, %s:", kinds[kind], ways[way]);
            for (int i = 0; i < WAITERS; i++)
                printf(" %d", order[i]);
            puts("");
        }
    read_past_a_writer();
    return 0;
}
