// Cancellation: in every cancellation point, before it, while it is disabled; the mutex is held
// again when the handlers run.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int tid, handler, stage, asynchronous;

static void cleanup(void *m)
{
    // EPERM, unless the mutex is held by this very thread.
    handler = m ? 100 + pthread_mutex_unlock(m) : 200;
}

static void *in_cond_wait(void *unused)
{
    (void)unused;
    if (asynchronous)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(cleanup, &mutex);
    tid = (int)syscall(SYS_gettid);
    for (;;)
        pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(0);
}

static void *in_timedwait(void *unused)
{
    (void)unused;
    struct timespec t = in_ms(CLOCK_REALTIME, 100000);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(cleanup, &mutex);
    tid = (int)syscall(SYS_gettid);
    for (;;)
        pthread_cond_timedwait(&cond, &mutex, &t);
    pthread_cleanup_pop(0);
}

static void *in_clockwait(void *unused)
{
    (void)unused;
    struct timespec t = in_ms(CLOCK_MONOTONIC, 100000);
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(cleanup, &mutex);
    tid = (int)syscall(SYS_gettid);
    for (;;)
        pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &t);
    pthread_cleanup_pop(0);
}

static void *in_sem_wait(void *unused)
{
    (void)unused;
    pthread_cleanup_push(cleanup, NULL);
    tid = (int)syscall(SYS_gettid);
    for (;;)
        sem_wait(&sem);
    pthread_cleanup_pop(0);
}

static void *in_sem_timedwait(void *unused)
{
    (void)unused;
    struct timespec t = in_ms(CLOCK_REALTIME, 100000);
    pthread_cleanup_push(cleanup, NULL);
    tid = (int)syscall(SYS_gettid);
    for (;;)
        sem_timedwait(&sem, &t);
    pthread_cleanup_pop(0);
}

static void *in_sem_clockwait(void *unused)
{
    (void)unused;
    struct timespec t = in_ms(CLOCK_MONOTONIC, 100000);
    pthread_cleanup_push(cleanup, NULL);
    tid = (int)syscall(SYS_gettid);
    for (;;)
        sem_clockwait(&sem, CLOCK_MONOTONIC, &t);
    pthread_cleanup_pop(0);
}

static void *before_the_wait(void *point)
{
    while (stage == 0)
        sched_yield();
    // The request is pending: the call acts on it at once.
    return ((void *(*)(void *))point)(NULL);
}

static void *disabled(void *unused)
{
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_mutex_lock(&mutex);
    tid = (int)syscall(SYS_gettid);
    while (stage == 0)
        pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    while (sem_wait(&sem) != 0)
        ;
    stage = 2;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    return NULL;
}

static void *no_point(void *unused)
{
    // Mutexes and rwlocks are not cancellation points, even if they wait.
    (void)unused;
    tid = (int)syscall(SYS_gettid);
    pthread_mutex_lock(&mutex);
    pthread_rwlock_rdlock(&rwlock);
    stage = 3;
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_unlock(&mutex);
    return (void *)7;
}

static void *listens(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    tid = (int)syscall(SYS_gettid);
    while (stage == 0)
        pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    return (void *)7;
}

static void *signals(void *unused)
{
    // Nor is a signal, whatever it has to do for the waiter.
    (void)unused;
    while (!asynchronous)
        sched_yield();
    pthread_mutex_lock(&mutex);
    stage = 1;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    return (void *)7;
}

// The request comes while another has the mutex: it is the thread's again before its handlers run.
static void cancel_while_held(void)
{
    pthread_t thread;
    void *result;
    tid = handler = 0;
    MUST(pthread_create(&thread, NULL, in_cond_wait, NULL) == 0);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    MUST(pthread_mutex_lock(&mutex) == 0);
    int cancelled = pthread_cancel(thread);
    struct timespec time = { 0, 2000000 };
    nanosleep(&time, NULL);
    int early = handler;
    int unlocked = pthread_mutex_unlock(&mutex);
    MUST(pthread_join(thread, &result) == 0);
    printf("while the mutex is held: %d, %d, handler %d, then %d\n", cancelled, unlocked, early,
           (int)handler);
}

static void cancel_in(const char *name, void *(*point)(void *))
{
    pthread_t thread;
    void *result;
    tid = handler = 0;
    MUST(pthread_create(&thread, NULL, point, NULL) == 0);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    int cancelled = pthread_cancel(thread);
    MUST(pthread_join(thread, &result) == 0);
    printf("%s: %d, %s, handler %d, mutex %d\n", name, cancelled, result == PTHREAD_CANCELED ? "cancelled" : "returned", (int)handler,
           pthread_mutex_trylock(&mutex) | pthread_mutex_unlock(&mutex));
}

static void cancel_before(const char *name, void *(*point)(void *))
{
    pthread_t thread;
    void *result;
    stage = handler = 0;
    MUST(pthread_create(&thread, NULL, before_the_wait, (void *)point) == 0);
    int cancelled = pthread_cancel(thread);
    stage = 1;
    MUST(pthread_join(thread, &result) == 0);
    printf("before %s: %d, %s, handler %d\n", name, cancelled, result == PTHREAD_CANCELED ? "cancelled" : "returned", (int)handler);
}

int main(void)
{
    sem_init(&sem, 0, 0);
    for (int round = 0; round < 3; round++) {
        cancel_in("cond_wait", in_cond_wait);
        cancel_in("cond_timedwait", in_timedwait);
        cancel_in("cond_clockwait", in_clockwait);
        cancel_in("sem_wait", in_sem_wait);
        cancel_in("sem_timedwait", in_sem_timedwait);
        cancel_in("sem_clockwait", in_sem_clockwait);
    }
    for (int round = 0; round < 8; round++)
        cancel_while_held();
    asynchronous = 1;
    cancel_in("cond_wait, asynchronous", in_cond_wait);
    asynchronous = 0;
    cancel_before("cond_wait", in_cond_wait);
    cancel_before("sem_wait", in_sem_wait);
    cancel_before("sem_timedwait", in_sem_timedwait);

    // Several wait; one is cancelled; a signal still reaches one of the others, and a broadcast the
    // rest.
    pthread_t threads[3];
    void *result;
    for (int i = 0; i < 3; i++) {
        tid = 0;
        pthread_create(&threads[i], NULL, i == 1 ? in_cond_wait : in_timedwait, NULL);
        while (tid == 0)
            sched_yield();
        until_asleep(tid);
    }
    for (int i = 0; i < 3; i++) {
        pthread_cancel(threads[i]);
        pthread_join(threads[i], &result);
        printf("one of three: %d\n", result == PTHREAD_CANCELED);
    }

    pthread_t thread, listener;
    stage = tid = 0;
    pthread_create(&listener, NULL, listens, NULL);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    pthread_create(&thread, NULL, signals, NULL);
    SHOW(pthread_cancel(thread));
    asynchronous = 1;
    pthread_join(thread, &result);
    printf("the signaller returned %d\n", (int)(intptr_t)result);
    pthread_join(listener, &result);
    printf("the waiter returned %d\n", (int)(intptr_t)result);
    asynchronous = stage = tid = 0;
    pthread_create(&thread, NULL, disabled, NULL);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    SHOW(pthread_cancel(thread));
    until_asleep(tid);
    pthread_mutex_lock(&mutex);
    stage = 1;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    until_asleep(tid);
    SHOW(sem_post(&sem));
    pthread_join(thread, &result);
    printf("disabled: stage %d, %d\n", (int)stage, result == PTHREAD_CANCELED);

    tid = 0;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    pthread_create(&thread, NULL, no_point, NULL);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    SHOW(pthread_cancel(thread));
    until_asleep(tid);
    pthread_mutex_unlock(&mutex);
    until_asleep(tid);
    pthread_rwlock_unlock(&rwlock);
    pthread_join(thread, &result);
    printf("no cancellation point: %d, stage %d\n", (int)(intptr_t)result, (int)stage);
    return 0;
}
