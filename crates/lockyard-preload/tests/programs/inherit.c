// Mutexes with priority inheritance: glibc's, or ours when asked for. Every call that does not hang
// in glibc, exclusion, and condition variables.
#include "check.h"

enum { THREADS = 4, ROUNDS = 20000 };

static pthread_mutex_t mutex;
static struct timespec past = { 1, 0 }, crooked = { 1, 1000000000 };

static int try_it(void *m) { return pthread_mutex_trylock(m); }
static int unlock_it(void *m) { return pthread_mutex_unlock(m); }
static int timed_past(void *m) { return pthread_mutex_timedlock(m, &past); }
static int timed_crooked(void *m) { return pthread_mutex_timedlock(m, &crooked); }
static int timed_later(void *m)
{
    struct timespec t = in_ms(CLOCK_REALTIME, 30);
    int result = pthread_mutex_timedlock(m, &t);
    MUST(not_before(CLOCK_REALTIME, t));
    return result;
}

static void make(pthread_mutex_t *made, int kind)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    MUST(pthread_mutexattr_settype(&attributes, kind) == 0);
    MUST(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    MUST(pthread_mutex_init(made, &attributes) == 0);
}

static void calls(const char *name, int kind)
{
    printf("-- %s\n", name);
    make(&mutex, kind);
    printf("kind %d\n", mutex.__data.__kind & 0x23); // without a note of glibc's own
    SHOW(pthread_mutex_lock(&mutex));
    // What the kernel goes by.
    MUST((mutex.__data.__lock & 0x3fffffff) == (int)syscall(SYS_gettid));
    if (kind != PTHREAD_MUTEX_NORMAL)
        SHOW(pthread_mutex_lock(&mutex));
    SHOW(elsewhere(try_it, &mutex));
    SHOW(elsewhere(timed_past, &mutex));
    SHOW(elsewhere(timed_crooked, &mutex));
    SHOW(elsewhere(timed_later, &mutex));
    SHOW(elsewhere(unlock_it, &mutex));
    SHOW(pthread_mutex_destroy(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    if (kind != PTHREAD_MUTEX_NORMAL) {
        SHOW(pthread_mutex_unlock(&mutex));
        SHOW(pthread_mutex_unlock(&mutex));
    }
    SHOW(pthread_mutex_timedlock(&mutex, &past));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_consistent(&mutex));
    int ceiling;
    SHOW(pthread_mutex_getprioceiling(&mutex, &ceiling));
    SHOW(pthread_mutex_destroy(&mutex));
}

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long count, turns;

static void *adds(void *nothing)
{
    for (int round = 0; round < ROUNDS; round++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        count++;
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return nothing;
}

static void *waits(void *number)
{
    for (int round = 0; round < 500; round++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        while (turns % THREADS != (long)(intptr_t)number)
            MUST(pthread_cond_wait(&cond, &mutex) == 0);
        turns++;
        MUST(pthread_cond_broadcast(&cond) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

static void together(void *(*function)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t at = 0; at < THREADS; at++)
        MUST(pthread_create(&threads[at], NULL, function, (void *)at) == 0);
    for (int at = 0; at < THREADS; at++)
        MUST(pthread_join(threads[at], NULL) == 0);
}

int main(void)
{
    calls("normal", PTHREAD_MUTEX_NORMAL);
    calls("recursive", PTHREAD_MUTEX_RECURSIVE);
    calls("errorcheck", PTHREAD_MUTEX_ERRORCHECK);
    for (int kind = PTHREAD_MUTEX_NORMAL; kind <= PTHREAD_MUTEX_ERRORCHECK; kind++) {
        make(&mutex, kind);
        count = turns = 0;
        together(adds);
        together(waits);
        printf("%ld %ld\n", count, turns);
        struct timespec soon = in_ms(CLOCK_REALTIME, 20);
        pthread_mutex_lock(&mutex);
        SHOW(pthread_cond_timedwait(&cond, &mutex, &soon));
        SHOW(pthread_mutex_unlock(&mutex));
        SHOW(pthread_mutex_destroy(&mutex));
    }
    long long (*fallbacks)(unsigned, const char **) = (long long (*)(unsigned, const char **))dlsym(RTLD_DEFAULT, "lockyard_preload_fallbacks");
    if (fallbacks)
        fprintf(stderr, "%lld\n", fallbacks(0, NULL));
    return 0;
}
