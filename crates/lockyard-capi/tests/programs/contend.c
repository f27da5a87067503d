/* Threads count with plain variables under each lock: the sums show whether it excluded, and every
 * way in takes part. */
#include <lockyard.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 6, ROUNDS = 20000, MONOTONIC = 1 };

static const struct timespec FAR = {1L << 40, 0};
/* Over since long: a timed way in that must wait gives up and is taken again. */
static const struct timespec PAST = {0, 0};

static ly_mutex_t mutex = LY_MUTEX_INIT;
static ly_rtmutex_t rtmutex = LY_RTMUTEX_INIT;
static ly_rwsem_t rwsem = LY_RWSEM_INIT;
static ly_read_mostly_t mostly = LY_READ_MOSTLY_INIT;
static ly_sem_t sem = LY_SEM_INIT(1);
static ly_spinlock_t spin = LY_SPINLOCK_INIT;
static ly_hq_spinlock_t hq = LY_HQ_SPINLOCK_INIT;
static ly_qrwlock_t qrw = LY_QRWLOCK_INIT;
static ly_lockref_t ref = LY_LOCKREF_INIT(1);

/* Two halves that only a writer may see differ. */
struct counter {
    volatile long first, second;
};

static struct counter counters[9];
static volatile bool torn;

static void add(struct counter *counter)
{
    counter->first = counter->first + 1;
    counter->second = counter->second + 1;
}

static void look(const struct counter *counter)
{
    if (counter->first != counter->second)
        torn = true;
}

static void under_mutex(int way)
{
    switch (way % 4) {
    case 0: ly_mutex_lock(&mutex); break;
    case 1: while (ly_mutex_trylock(&mutex) == EBUSY) {} break;
    case 2: while (ly_mutex_timedlock(&mutex, &PAST) == ETIMEDOUT) {} break;
    default: ly_mutex_clocklock(&mutex, MONOTONIC, &FAR); break;
    }
    add(&counters[0]);
    ly_mutex_unlock(&mutex);
}

static void under_rtmutex(int way)
{
    switch (way % 4) {
    case 0: ly_rtmutex_lock(&rtmutex); break;
    case 1: while (ly_rtmutex_trylock(&rtmutex) == EBUSY) {} break;
    case 2: while (ly_rtmutex_timedlock(&rtmutex, &PAST) == ETIMEDOUT) {} break;
    default: ly_rtmutex_clocklock(&rtmutex, MONOTONIC, &FAR); break;
    }
    add(&counters[7]);
    if (way % 64 == 0 && ly_rtmutex_lock(&rtmutex) != EDEADLK)
        torn = true;
    ly_rtmutex_unlock(&rtmutex);
}

static void under_rwsem(int way)
{
    switch (way % 4) {
    case 0: ly_rwsem_down_write(&rwsem); break;
    case 1: while (ly_rwsem_down_write_trylock(&rwsem) == EBUSY) {} break;
    case 2: while (ly_rwsem_down_write_timedlock(&rwsem, &PAST) == ETIMEDOUT) {} break;
    default: ly_rwsem_down_write_clocklock(&rwsem, MONOTONIC, &FAR); break;
    }
    add(&counters[1]);
    if (way % 8 < 4) {
        ly_rwsem_up_write(&rwsem);
    } else {
        ly_rwsem_downgrade_write(&rwsem);
        look(&counters[1]);
        ly_rwsem_up_read(&rwsem);
    }
    switch (way % 3) {
    case 0: ly_rwsem_down_read(&rwsem); break;
    case 1: while (ly_rwsem_down_read_trylock(&rwsem) == EBUSY) {} break;
    default: ly_rwsem_down_read_timedlock(&rwsem, &FAR); break;
    }
    look(&counters[1]);
    ly_rwsem_up_read(&rwsem);
}

static void under_read_mostly(int way)
{
    switch (way % 4) {
    case 0: ly_read_mostly_write_lock(&mostly); break;
    case 1: while (ly_read_mostly_write_trylock(&mostly) == EBUSY) {} break;
    case 2: while (ly_read_mostly_write_timedlock(&mostly, &PAST) == ETIMEDOUT) {} break;
    default: ly_read_mostly_write_clocklock(&mostly, MONOTONIC, &FAR); break;
    }
    add(&counters[8]);
    if (way % 8 < 4) {
        ly_read_mostly_write_unlock(&mostly);
    } else {
        ly_read_mostly_downgrade_write(&mostly);
        look(&counters[8]);
        ly_read_mostly_read_unlock(&mostly);
    }
    switch (way % 3) {
    case 0: ly_read_mostly_read_lock(&mostly); break;
    case 1: while (ly_read_mostly_read_trylock(&mostly) == EBUSY) {} break;
    default: ly_read_mostly_read_timedlock(&mostly, &FAR); break;
    }
    look(&counters[8]);
    ly_read_mostly_read_unlock(&mostly);
}

/* After so many reads beside another the writer that leaves lets readers go apart. */
static void read_beside(void)
{
    ly_read_mostly_read_lock(&mostly);
    for (int read = 1; read < 100; read++) {
        ly_read_mostly_read_lock(&mostly);
        ly_read_mostly_read_unlock(&mostly);
    }
    ly_read_mostly_read_unlock(&mostly);
    ly_read_mostly_write_lock(&mostly);
    ly_read_mostly_write_unlock(&mostly);
}

static void under_sem(int way)
{
    switch (way % 3) {
    case 0: ly_sem_wait(&sem); break;
    case 1: while (ly_sem_timedwait(&sem, &PAST) == ETIMEDOUT) {} break;
    default: ly_sem_clockwait(&sem, MONOTONIC, &FAR); break;
    }
    add(&counters[2]);
    ly_sem_post(&sem);
}

static void under_spinlocks(int way)
{
    (void)way;
    ly_spin_lock(&spin);
    add(&counters[3]);
    ly_spin_unlock(&spin);
    ly_hq_spin_lock(&hq);
    add(&counters[4]);
    ly_hq_spin_unlock(&hq);
}

static void under_qrwlock(int way)
{
    ly_qrwlock_write_lock(&qrw);
    add(&counters[5]);
    if (way % 2 == 0) {
        ly_qrwlock_write_unlock(&qrw);
    } else {
        ly_qrwlock_downgrade_write(&qrw);
        look(&counters[5]);
        ly_qrwlock_read_unlock(&qrw);
    }
    ly_qrwlock_read_lock(&qrw);
    look(&counters[5]);
    ly_qrwlock_read_unlock(&qrw);
}

static void under_lockref(int way)
{
    ly_lockref_get(&ref);
    if (way % 2 == 0 && ly_lockref_get_not_zero(&ref) && !ly_lockref_put_or_lock(&ref))
        torn = true; /* it was not the last */
    ly_lockref_lock(&ref);
    add(&counters[6]);
    ly_lockref_put_locked(&ref);
    ly_lockref_unlock(&ref);
}

static void *work(void *nothing)
{
    for (int round = 0; round < ROUNDS; round++) {
        under_mutex(round);
        under_rtmutex(round);
        under_rwsem(round);
        under_read_mostly(round);
        under_sem(round);
        under_spinlocks(round);
        under_qrwlock(round);
        under_lockref(round);
    }
    return nothing;
}

int main(int words, char **word)
{
    pthread_t threads[THREADS];
    ly_mutex_set_class(&mutex, "accounts");
    read_beside();
    if (words > 1 && strcmp(word[1], "beside") == 0)
        return 0;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 9; i++)
        if (counters[i].first != (long)THREADS * ROUNDS || counters[i].second != counters[i].first) {
            fprintf(stderr, "counter %d: %ld and %ld, expected %ld\n", i, counters[i].first, counters[i].second,
                    (long)THREADS * ROUNDS);
            return 1;
        }
    if (torn || ly_lockref_count(&ref) != 1 || ly_sem_getvalue(&sem) != 1) {
        fprintf(stderr, "torn %d, references %d, units %u\n", torn, (int)ly_lockref_count(&ref), ly_sem_getvalue(&sem));
        return 1;
    }
    puts("every turn counted");
    return 0;
}
