// Readers that overlap without a gap, and writers: both get the lock again and again. Arguments:
// readers, writers, what a reader holds it for (microseconds). On glibc's default kind the writers
// would wait for the last reader.
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int stop, in, reads, writes;
static long hold_us;
static long long longest_read, longest_write;

static long long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

static void note(long long *longest, long long began)
{
    long long waited = now_us() - began, known = __atomic_load_n(longest, __ATOMIC_RELAXED);
    while (known < waited && !__atomic_compare_exchange_n(longest, &known, waited, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void *reader(void *unused)
{
    while (!stop) {
        long long began = now_us();
        MUST(pthread_rwlock_rdlock(&lock) == 0);
        note(&longest_read, began);
        MUST(in >= 0);
        reads++;
        usleep(hold_us);
        MUST(pthread_rwlock_unlock(&lock) == 0);
    }
    return unused;
}

static void *writer(void *unused)
{
    while (!stop) {
        long long began = now_us();
        MUST(pthread_rwlock_wrlock(&lock) == 0);
        note(&longest_write, began);
        MUST(in-- == 0);
        writes++;
        MUST(in++ == -1);
        MUST(pthread_rwlock_unlock(&lock) == 0);
        usleep(300);
    }
    return unused;
}

int main(int count, char **words)
{
    MUST(count == 4);
    int readers = atoi(words[1]), writers = atoi(words[2]);
    hold_us = atol(words[3]);
    pthread_t threads[64];
    for (int i = 0; i < readers + writers; i++)
        MUST(pthread_create(&threads[i], NULL, i < readers ? reader : writer, NULL) == 0);
    for (int i = 0; i < 1500 && !(i >= 100 && reads > 200 && writes > 20); i++)
        usleep(10000);
    stop = 1;
    int got = writes;
    for (int i = 0; i < readers + writers; i++)
        pthread_join(threads[i], NULL);
    fprintf(stderr, "%d reads, %d writes; longest wait %lld and %lld us\n", (int)reads, got, longest_read, longest_write);
    puts(reads > 200 && got > 20 ? "both" : "one side starved");
    return 0;
}
