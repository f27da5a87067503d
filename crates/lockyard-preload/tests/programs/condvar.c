// Condition variables: clocks, all kinds of mutexes, a ring of threads, herds, destruction right
// after a broadcast, signals without the mutex.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int turn, inside, woken;

static void *ring(void *id)
{
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != (int)(intptr_t)id)
            MUST(pthread_cond_wait(&cond, &mutex) == 0);
        MUST(inside++ == 0);
        turn = (turn + 1) % 5;
        pthread_cond_broadcast(&cond);
        MUST(--inside == 0);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

// A bounded queue: what is put in comes out once, in spite of signals that are given without the
// mutex.
enum { ITEMS = 20000, ROOM = 4 };
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static int queue[ROOM], head, length;
static long long sum;

static void *producer(void *first)
{
    for (int i = (int)(intptr_t)first; i < ITEMS; i += 2) {
        pthread_mutex_lock(&mutex);
        while (length == ROOM)
            pthread_cond_wait(&not_full, &mutex);
        queue[(head + length++) % ROOM] = i;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&not_empty);
    }
    return NULL;
}

static void *consumer(void *unused)
{
    (void)unused;
    for (int i = 0; i < ITEMS / 2; i++) {
        pthread_mutex_lock(&mutex);
        while (length == 0)
            pthread_cond_wait(&not_empty, &mutex);
        sum += queue[head];
        head = (head + 1) % ROOM;
        length--;
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

// A gate in memory of its own, destroyed by whoever has opened it, as soon as all have been woken.
struct gate { pthread_mutex_t mutex; pthread_cond_t cond; int waiting, open, left; };

static void *passer(void *argument)
{
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->mutex);
    gate->waiting++;
    pthread_cond_broadcast(&gate->cond);
    while (!gate->open)
        pthread_cond_wait(&gate->cond, &gate->mutex);
    int last = --gate->left == 0;
    pthread_mutex_unlock(&gate->mutex);
    if (last) {
        MUST(pthread_cond_destroy(&gate->cond) == 0);
        MUST(pthread_mutex_destroy(&gate->mutex) == 0);
        memset(gate, 0x5a, sizeof *gate);
        free(gate);
    }
    return NULL;
}

static void gates(void)
{
    for (int round = 0; round < 300; round++) {
        struct gate *gate = calloc(1, sizeof *gate);
        pthread_t threads[4];
        gate->left = 4;
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, passer, gate);
        pthread_mutex_lock(&gate->mutex);
        while (gate->waiting < 4)
            pthread_cond_wait(&gate->cond, &gate->mutex);
        gate->open = 1;
        pthread_cond_broadcast(&gate->cond);
        pthread_mutex_unlock(&gate->mutex);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        woken += 4;
    }
}

static int ready, go;
static int signaller(void *m)
{
    // The waiter holds the mutex until it waits.
    pthread_mutex_lock(m);
    go = 1;
    int result = pthread_cond_signal(&cond);
    pthread_mutex_unlock(m);
    return result;
}

static void *waits_with(void *m)
{
    int error = pthread_mutex_lock(m);
    ready = 1;
    while (!go)
        error |= pthread_cond_wait(&cond, m);
    return (void *)(intptr_t)(error | pthread_mutex_unlock(m));
}

static void kinds(void)
{
    int all[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP };
    for (int i = 0; i < 4; i++) {
        pthread_mutexattr_t attributes;
        pthread_mutex_t m;
        pthread_t thread;
        void *result;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, all[i]);
        pthread_mutex_init(&m, &attributes);
        go = 0;
        pthread_create(&thread, NULL, waits_with, &m);
        printf("kind %d: signal %d", all[i], elsewhere(signaller, &m));
        pthread_join(thread, &result);
        printf(", waited %d, left %d\n", (int)(intptr_t)result, pthread_mutex_trylock(&m));
        // An expired wait gives the mutex back as it was, and notices times that do not exist.
        struct timespec past = { 1, 0 }, crooked = { 1, -1 }, soon = in_ms(CLOCK_MONOTONIC, 20), later = in_ms(CLOCK_REALTIME, 20);
        SHOW(pthread_cond_timedwait(&cond, &m, &past));
        SHOW(pthread_cond_timedwait(&cond, &m, &crooked));
        SHOW(pthread_cond_clockwait(&cond, &m, CLOCK_MONOTONIC, &soon));
        MUST(not_before(CLOCK_MONOTONIC, soon));
        SHOW(pthread_cond_timedwait(&cond, &m, &later));
        MUST(not_before(CLOCK_REALTIME, later));
        SHOW(pthread_cond_clockwait(&cond, &m, CLOCK_PROCESS_CPUTIME_ID, &past));
        printf("owner is right: %d\n", m.__data.__owner == (int)syscall(SYS_gettid));
        SHOW(pthread_mutex_unlock(&m));
        if (all[i] == PTHREAD_MUTEX_RECURSIVE || all[i] == PTHREAD_MUTEX_ERRORCHECK)
            SHOW(pthread_cond_wait(&cond, &m));
        if (all[i] == PTHREAD_MUTEX_RECURSIVE) {
            pthread_mutex_lock(&m);
            pthread_mutex_lock(&m);
            SHOW(pthread_cond_timedwait(&cond, &m, &past));
            printf("depth %d\n", (int)m.__data.__count);
            SHOW(pthread_mutex_unlock(&m));
            SHOW(pthread_mutex_unlock(&m));
            SHOW(pthread_mutex_unlock(&m));
        }
    }
}

int main(void)
{
    pthread_t threads[5];
    for (intptr_t i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, ring, (void *)i);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    printf("ring: turn %d\n", turn);
    pthread_create(&threads[0], NULL, producer, (void *)0);
    pthread_create(&threads[1], NULL, producer, (void *)1);
    pthread_create(&threads[2], NULL, consumer, NULL);
    pthread_create(&threads[3], NULL, consumer, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("queue: sum %lld\n", sum);
    gates();
    printf("gates: %d\n", woken);
    kinds();
    // The clock of the attribute, and of none.
    pthread_condattr_t attributes;
    pthread_cond_t timed;
    pthread_condattr_init(&attributes);
    SHOW(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    SHOW(pthread_cond_init(&timed, &attributes));
    pthread_mutex_lock(&mutex);
    struct timespec t = in_ms(CLOCK_MONOTONIC, 30);
    SHOW(pthread_cond_timedwait(&timed, &mutex, &t));
    MUST(not_before(CLOCK_MONOTONIC, t));
    SHOW(pthread_cond_signal(&timed));
    SHOW(pthread_cond_broadcast(&timed));
    SHOW(pthread_cond_destroy(&timed));
    SHOW(pthread_cond_init(&timed, NULL));
    SHOW(pthread_cond_destroy(&timed));
    return 0;
}
