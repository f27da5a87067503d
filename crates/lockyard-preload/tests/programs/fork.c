// fork: from any thread, with waiters on what the forking thread holds, with handlers that lock
// everything; the child goes on alone and with threads of its own.
#include "check.h"

static pthread_mutex_t mutexes[3] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                                      PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop, rounds, waiting[8];
static int counter;

static void *hammer(void *which)
{
    pthread_mutex_t *mutex = &mutexes[(intptr_t)which % 3];
    while (!stop) {
        pthread_mutex_lock(mutex);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        rounds++;
        pthread_mutex_unlock(mutex);
    }
    return NULL;
}

static void *sleeper(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&other);
    waiting[7]++;
    while (!stop)
        pthread_cond_wait(&cond, &other);
    pthread_mutex_unlock(&other);
    return NULL;
}

static void *add(void *unused)
{
    (void)unused;
    for (int i = 0; i < 500; i++) {
        for (int m = 0; m < 3; m++)
            MUST(pthread_mutex_lock(&mutexes[m]) == 0);
        pthread_rwlock_wrlock(&rwlock);
        counter++;
        pthread_rwlock_unlock(&rwlock);
        for (int m = 0; m < 3; m++)
            MUST(pthread_mutex_unlock(&mutexes[m]) == 0);
        if (i % 50 == 0)
            sched_yield();
    }
    return NULL;
}

// What the child does with the locks that it holds: releases them, and lets threads of its own
// fight for them.
static void child(void)
{
    for (int m = 0; m < 3; m++)
        MUST(pthread_mutex_unlock(&mutexes[m]) == 0);
    MUST(pthread_rwlock_unlock(&rwlock) == 0);
    pthread_t threads[4];
    counter = 0;
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, add, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    MUST(counter == 2000);
    // The parent's sleeper is not here: signals go nowhere, and the child's own waits work.
    pthread_cond_signal(&cond);
    struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    MUST(pthread_mutex_lock(&other) == 0);
    MUST(pthread_cond_timedwait(&cond, &other, &soon) == ETIMEDOUT);
    MUST(pthread_mutex_unlock(&other) == 0);
    _exit(0);
}

static int fork_and_wait(void)
{
    // Lets the hammers queue behind what is held.
    for (int m = 0; m < 3; m++)
        pthread_mutex_lock(&mutexes[m]);
    pthread_rwlock_wrlock(&rwlock);
    pthread_mutex_lock(&other);
    for (int i = 0; i < 20; i++)
        sched_yield();
    pid_t pid = fork();
    if (pid == 0) {
        pthread_mutex_unlock(&other);
        alarm(20);
        child();
    }
    pthread_mutex_unlock(&other);
    pthread_rwlock_unlock(&rwlock);
    for (int m = 0; m < 3; m++)
        pthread_mutex_unlock(&mutexes[m]);
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    return status;
}

static int from_a_thread(void *unused)
{
    (void)unused;
    return fork_and_wait();
}

static pthread_mutex_t atforks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static void prepare(void) { pthread_mutex_lock(&atforks[0]); pthread_mutex_lock(&atforks[1]); }
static void parent(void) { pthread_mutex_unlock(&atforks[1]); pthread_mutex_unlock(&atforks[0]); }
// One is released, the other made anew: both are ways that allocators use.
static void in_child(void) { pthread_mutex_init(&atforks[1], NULL); pthread_mutex_unlock(&atforks[0]); }

static void *take_atforks(void *unused)
{
    (void)unused;
    while (!stop) {
        pthread_mutex_lock(&atforks[0]);
        pthread_mutex_lock(&atforks[1]);
        pthread_mutex_unlock(&atforks[1]);
        pthread_mutex_unlock(&atforks[0]);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[6];
    pthread_atfork(prepare, parent, in_child);
    for (intptr_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, hammer, (void *)i);
    pthread_create(&threads[3], NULL, sleeper, NULL);
    pthread_create(&threads[4], NULL, take_atforks, NULL);
    while (waiting[7] == 0 || rounds < 10)
        sched_yield();
    for (int i = 0; i < 10; i++)
        MUST(fork_and_wait() == 0);
    for (int i = 0; i < 5; i++)
        MUST(elsewhere(from_a_thread, NULL) == 0);
    // A grandchild.
    pid_t pid = fork();
    if (pid == 0) {
        MUST(pthread_mutex_lock(&atforks[0]) == 0 && pthread_mutex_unlock(&atforks[0]) == 0);
        MUST(pthread_mutex_lock(&atforks[1]) == 0 && pthread_mutex_unlock(&atforks[1]) == 0);
        pid_t again = fork();
        if (again == 0) {
            MUST(pthread_mutex_lock(&atforks[1]) == 0 && pthread_mutex_unlock(&atforks[1]) == 0);
            _exit(3);
        }
        int status;
        waitpid(again, &status, 0);
        _exit(WEXITSTATUS(status) + 1);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("grandchild: %d\n", WEXITSTATUS(status));
    stop = 1;
    pthread_mutex_lock(&other);
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&other);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    puts("all forks went well");
    return 0;
}
