/* The one shard of a cache: every operation takes one mutex for a moment, to move an entry to the
 * front of a list. It has the shape of RocksDB's block cache with one shard, without the rest of
 * RocksDB, so that a change to the mutex is measured in seconds.
 *
 *   shard THREADS SECONDS [THINK [SECTION]]
 *
 * THINK and SECTION are steps of a chain of multiplications outside and inside of the mutex, about
 * 1 ns each. Checked: the list holds each entry once, and the entries have been moved as often as
 * threads say. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 1024 };

struct entry {
    struct entry *next, *before;
    long moves;
};

static struct {
    pthread_mutex_t mutex;
    struct entry head;
} shard = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static struct entry entries[ENTRIES];
static long think = 1300, section = 60;
static volatile bool stop;

struct worker {
    pthread_t thread;
    unsigned long random;
    long operations;
};

static unsigned long chain(unsigned long value, long steps)
{
    for (long step = 0; step < steps; step++)
        value = value * 6364136223846793005ul + 1442695040888963407ul;
    return value;
}

static void put_first(struct entry *entry)
{
    entry->next = shard.head.next;
    entry->before = &shard.head;
    entry->next->before = entry;
    shard.head.next = entry;
}

static void *work(void *argument)
{
    struct worker *me = argument;
    unsigned long random = me->random;
    while (!stop) {
        /* Not always the same length, as no program's is. */
        random = chain(random, think / 2 + (long)((random >> 33) % (unsigned long)(think + 1)));
        struct entry *entry = &entries[(random >> 20) % ENTRIES];
        pthread_mutex_lock(&shard.mutex);
        random = chain(random, section);
        entry->before->next = entry->next;
        entry->next->before = entry->before;
        put_first(entry);
        entry->moves++;
        pthread_mutex_unlock(&shard.mutex);
        me->operations++;
    }
    me->random = random;
    return NULL;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    int threads = count > 2 ? atoi(words[1]) : 0, length = count > 2 ? atoi(words[2]) : 0;
    if (count > 3)
        think = atol(words[3]);
    if (count > 4)
        section = atol(words[4]);
    if (threads < 1 || length < 1 || think < 0 || section < 0 || count > 5) {
        fprintf(stderr, "shard THREADS SECONDS [THINK [SECTION]]\n");
        return 2;
    }
    shard.head.next = shard.head.before = &shard.head;
    for (int at = 0; at < ENTRIES; at++)
        put_first(&entries[at]);
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    if (workers == NULL)
        return 1;
    double start = seconds();
    for (int at = 0; at < threads; at++) {
        workers[at].random = (unsigned long)at * 7919 + 1;
        if (pthread_create(&workers[at].thread, NULL, work, &workers[at]) != 0) {
            perror("thread");
            return 1;
        }
    }
    sleep((unsigned)length);
    stop = true;
    long operations = 0, least = 0, moves = 0, errors = 0, length_of_list = 0;
    for (int at = 0; at < threads; at++) {
        pthread_join(workers[at].thread, NULL);
        operations += workers[at].operations;
        least = at == 0 || workers[at].operations < least ? workers[at].operations : least;
    }
    double took = seconds() - start;
    for (struct entry *entry = shard.head.next; entry != &shard.head && length_of_list <= ENTRIES; entry = entry->next) {
        errors += entry->next->before != entry;
        moves += entry->moves;
        length_of_list++;
    }
    errors += length_of_list != ENTRIES;
    errors += moves != operations;
    fprintf(stderr, "least of a thread: %.2f of the mean\n", (double)least * threads / (double)operations);
    printf("%ld operations, %.6f seconds, %ld errors\n", operations, took, errors);
    free(workers);
    return errors != 0;
}
