/* Every function of lockyard.h in every state a single thread can make (the checked mutex: two
 * threads): its result, and that errno stays. Also: an example of each call. */
#include <lockyard.h>

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value that no system call returns. */
#define MARK 4242

#define IS(call, result)                                                                                             \
    do {                                                                                                             \
        errno = MARK;                                                                                                \
        long found = (long)(call);                                                                                   \
        if (found != (long)(result) || errno != MARK) {                                                              \
            fprintf(stderr, "line %d: %s is %ld, expected %s; errno %d\n", __LINE__, #call, found, #result, errno);  \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)

/* As programs write them: statics need no call. */
static ly_mutex_t mutex = LY_MUTEX_INIT;
static ly_cond_t cond = LY_COND_INIT;
static ly_rtmutex_t rtmutex = LY_RTMUTEX_INIT;
static ly_rwsem_t rwsem = LY_RWSEM_INIT;
static ly_read_mostly_t mostly = LY_READ_MOSTLY_INIT;
static ly_sem_t sem = LY_SEM_INIT(2);
static ly_spinlock_t spin = LY_SPINLOCK_INIT;
static ly_hq_spinlock_t hq = LY_HQ_SPINLOCK_INIT;
static ly_qrwlock_t qrw = LY_QRWLOCK_INIT;
static ly_lockref_t ref = LY_LOCKREF_INIT(1);

static const struct timespec PAST = {1, 0};
static const struct timespec NONE = {1, 1000000000};

enum { REALTIME = 0, MONOTONIC = 1, CPUTIME = 2 };

static void mutexes(void)
{
    IS(ly_mutex_set_class(&mutex, "accounts"), 0);
    IS(ly_mutex_lock(&mutex), 0);
    IS(ly_mutex_trylock(&mutex), EBUSY);
    IS(ly_mutex_timedlock(&mutex, &PAST), ETIMEDOUT);
    IS(ly_mutex_timedlock(&mutex, &NONE), EINVAL);
    IS(ly_mutex_clocklock(&mutex, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_mutex_clocklock(&mutex, REALTIME, &PAST), ETIMEDOUT);
    IS(ly_mutex_clocklock(&mutex, CPUTIME, &PAST), EINVAL);
    IS(ly_mutex_unlock(&mutex), 0);
    /* What need not wait does not look at the time. */
    IS(ly_mutex_timedlock(&mutex, &NONE), 0);
    IS(ly_mutex_unlock(&mutex), 0);
    IS(ly_mutex_trylock(&mutex), 0);
    ly_mutex_init(&mutex);
    IS(ly_mutex_trylock(&mutex), 0);
    IS(ly_mutex_unlock(&mutex), 0);
}

/* Signals this thread, which holds the mutex until it waits. */
static void *signaller(void *all)
{
    IS(ly_mutex_lock(&mutex), 0);
    IS(all != NULL ? ly_cond_broadcast(&cond) : ly_cond_signal(&cond), 0);
    IS(ly_mutex_unlock(&mutex), 0);
    return NULL;
}

static void conditions(void)
{
    static const struct timespec FAR = {1L << 40, 0};
    pthread_t other;
    IS(ly_cond_signal(&cond), 0);
    IS(ly_cond_broadcast(&cond), 0);
    IS(ly_mutex_lock(&mutex), 0);
    IS(ly_cond_timedwait(&cond, &mutex, &PAST), ETIMEDOUT);
    IS(ly_cond_timedwait(&cond, &mutex, &NONE), EINVAL);
    IS(ly_cond_clockwait(&cond, &mutex, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_cond_clockwait(&cond, &mutex, REALTIME, &PAST), ETIMEDOUT);
    IS(ly_cond_clockwait(&cond, &mutex, CPUTIME, &PAST), EINVAL);
    /* Locked after each of them. */
    IS(ly_mutex_trylock(&mutex), EBUSY);
    for (int way = 0; way < 4; way++) {
        if (pthread_create(&other, NULL, signaller, way % 2 != 0 ? &other : NULL) != 0)
            exit(2);
        switch (way) {
        case 0: IS(ly_cond_wait(&cond, &mutex), 0); break;
        case 1: IS(ly_cond_timedwait(&cond, &mutex, &FAR), 0); break;
        case 2: IS(ly_cond_clockwait(&cond, &mutex, MONOTONIC, &FAR), 0); break;
        default: IS(ly_cond_clockwait(&cond, &mutex, REALTIME, &FAR), 0); break;
        }
        IS(ly_mutex_trylock(&mutex), EBUSY);
        if (pthread_join(other, NULL) != 0)
            exit(2);
    }
    ly_cond_init(&cond);
    IS(ly_mutex_unlock(&mutex), 0);
}

/* What another thread finds while this one has it locked; then it ends with a lock of its own. */
static void *stranger(void *left)
{
    IS(ly_rtmutex_trylock(&rtmutex), EBUSY);
    IS(ly_rtmutex_unlock(&rtmutex), EPERM);
    IS(ly_rtmutex_clocklock(&rtmutex, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_rtmutex_timedlock(&rtmutex, &PAST), ETIMEDOUT);
    IS(ly_rtmutex_timedlock(&rtmutex, &NONE), EINVAL);
    IS(ly_rtmutex_clocklock(&rtmutex, CPUTIME, &PAST), EINVAL);
    IS(ly_rtmutex_lock(left), 0);
    return left;
}

static void rtmutexes(void)
{
    ly_rtmutex_t left = LY_RTMUTEX_INIT;
    pthread_t other;
    IS(ly_rtmutex_lock(&rtmutex), 0);
    IS(ly_rtmutex_lock(&rtmutex), EDEADLK);
    IS(ly_rtmutex_timedlock(&rtmutex, &PAST), EDEADLK);
    IS(ly_rtmutex_trylock(&rtmutex), EBUSY);
    if (pthread_create(&other, NULL, stranger, &left) != 0 || pthread_join(other, NULL) != 0)
        exit(2);
    IS(ly_rtmutex_lock(&left), ENOTRECOVERABLE);
    IS(ly_rtmutex_clocklock(&left, MONOTONIC, &PAST), ENOTRECOVERABLE);
    IS(ly_rtmutex_trylock(&left), EBUSY);
    ly_rtmutex_init(&left);
    IS(ly_rtmutex_trylock(&left), 0);
    IS(ly_rtmutex_unlock(&left), 0);
    IS(ly_rtmutex_unlock(&rtmutex), 0);
    IS(ly_rtmutex_unlock(&rtmutex), EPERM);
    /* What need not wait does not look at the time. */
    IS(ly_rtmutex_timedlock(&rtmutex, &NONE), 0);
    IS(ly_rtmutex_unlock(&rtmutex), 0);
    IS(ly_rtmutex_trylock(&rtmutex), 0);
    IS(ly_rtmutex_unlock(&rtmutex), 0);
}

static void rwsems(void)
{
    IS(ly_rwsem_set_class(&rwsem, "table"), 0);
    IS(ly_rwsem_down_read(&rwsem), 0);
    IS(ly_rwsem_down_read_trylock(&rwsem), 0);
    IS(ly_rwsem_down_write_trylock(&rwsem), EBUSY);
    IS(ly_rwsem_down_write_timedlock(&rwsem, &PAST), ETIMEDOUT);
    IS(ly_rwsem_down_write_clocklock(&rwsem, CPUTIME, &PAST), EINVAL);
    IS(ly_rwsem_up_read(&rwsem), 0);
    IS(ly_rwsem_up_read(&rwsem), 0);
    IS(ly_rwsem_down_write(&rwsem), 0);
    IS(ly_rwsem_down_read_trylock(&rwsem), EBUSY);
    IS(ly_rwsem_down_read_timedlock(&rwsem, &PAST), ETIMEDOUT);
    IS(ly_rwsem_down_read_timedlock(&rwsem, &NONE), EINVAL);
    IS(ly_rwsem_down_read_clocklock(&rwsem, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_rwsem_downgrade_write(&rwsem), 0);
    IS(ly_rwsem_down_read_clocklock(&rwsem, MONOTONIC, &PAST), 0);
    IS(ly_rwsem_down_write_clocklock(&rwsem, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_rwsem_up_read(&rwsem), 0);
    IS(ly_rwsem_up_read(&rwsem), 0);
    IS(ly_rwsem_down_write_trylock(&rwsem), 0);
    IS(ly_rwsem_up_write(&rwsem), 0);
    IS(ly_rwsem_down_write_timedlock(&rwsem, &PAST), 0);
    ly_rwsem_init(&rwsem);
    IS(ly_rwsem_down_write_trylock(&rwsem), 0);
    IS(ly_rwsem_up_write(&rwsem), 0);
}

static void read_mostlies(void)
{
    IS(ly_read_mostly_set_class(&mostly, "table"), 0);
    IS(ly_read_mostly_read_lock(&mostly), 0);
    IS(ly_read_mostly_read_trylock(&mostly), 0);
    IS(ly_read_mostly_write_trylock(&mostly), EBUSY);
    IS(ly_read_mostly_write_timedlock(&mostly, &PAST), ETIMEDOUT);
    IS(ly_read_mostly_write_clocklock(&mostly, CPUTIME, &PAST), EINVAL);
    IS(ly_read_mostly_read_unlock(&mostly), 0);
    IS(ly_read_mostly_read_unlock(&mostly), 0);
    IS(ly_read_mostly_write_lock(&mostly), 0);
    IS(ly_read_mostly_read_trylock(&mostly), EBUSY);
    IS(ly_read_mostly_read_timedlock(&mostly, &PAST), ETIMEDOUT);
    IS(ly_read_mostly_read_timedlock(&mostly, &NONE), EINVAL);
    IS(ly_read_mostly_read_clocklock(&mostly, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_read_mostly_downgrade_write(&mostly), 0);
    IS(ly_read_mostly_read_clocklock(&mostly, MONOTONIC, &PAST), 0);
    IS(ly_read_mostly_write_clocklock(&mostly, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_read_mostly_read_unlock(&mostly), 0);
    IS(ly_read_mostly_read_unlock(&mostly), 0);
    IS(ly_read_mostly_write_trylock(&mostly), 0);
    IS(ly_read_mostly_write_unlock(&mostly), 0);
    IS(ly_read_mostly_write_timedlock(&mostly, &PAST), 0);
    IS(ly_read_mostly_destroy(&mostly), EBUSY);
    IS(ly_read_mostly_write_unlock(&mostly), 0);
    IS(ly_read_mostly_destroy(&mostly), 0);
    IS(ly_read_mostly_read_lock(&mostly), 0);
    IS(ly_read_mostly_destroy(&mostly), EBUSY);
    IS(ly_read_mostly_read_unlock(&mostly), 0);
    ly_read_mostly_init(&mostly);
    IS(ly_read_mostly_write_trylock(&mostly), 0);
    IS(ly_read_mostly_write_unlock(&mostly), 0);
}

static void semaphores(void)
{
    IS(ly_sem_set_class(&sem, "slots"), 0);
    IS(ly_sem_getvalue(&sem), 2);
    IS(ly_sem_wait(&sem), 0);
    IS(ly_sem_trywait(&sem), 0);
    IS(ly_sem_trywait(&sem), EAGAIN);
    IS(ly_sem_timedwait(&sem, &PAST), ETIMEDOUT);
    IS(ly_sem_timedwait(&sem, &NONE), EINVAL);
    IS(ly_sem_clockwait(&sem, MONOTONIC, &PAST), ETIMEDOUT);
    IS(ly_sem_post(&sem), 0);
    IS(ly_sem_clockwait(&sem, CPUTIME, &PAST), 0);
    IS(ly_sem_init(&sem, LY_SEM_MAX + 1u), EINVAL);
    IS(ly_sem_getvalue(&sem), 0);
    IS(ly_sem_init(&sem, LY_SEM_MAX), 0);
    IS(ly_sem_post(&sem), EOVERFLOW);
    IS(ly_sem_getvalue(&sem), LY_SEM_MAX);
}

static void spinlocks(void)
{
    IS(ly_spin_lock(&spin), 0);
    IS(ly_spin_trylock(&spin), EBUSY);
    IS(ly_spin_unlock(&spin), 0);
    IS(ly_spin_trylock(&spin), 0);
    ly_spin_init(&spin);
    IS(ly_spin_trylock(&spin), 0);
    IS(ly_spin_unlock(&spin), 0);

    IS(ly_hq_spin_lock(&hq), 0);
    IS(ly_hq_spin_trylock(&hq), EBUSY);
    IS(ly_hq_spin_unlock(&hq), 0);
    IS(ly_hq_spin_trylock(&hq), 0);
    ly_hq_spin_init(&hq);
    IS(ly_hq_spin_trylock(&hq), 0);
    IS(ly_hq_spin_unlock(&hq), 0);
}

static void qrwlocks(void)
{
    IS(ly_qrwlock_read_lock(&qrw), 0);
    IS(ly_qrwlock_read_trylock(&qrw), 0);
    IS(ly_qrwlock_write_trylock(&qrw), EBUSY);
    IS(ly_qrwlock_read_unlock(&qrw), 0);
    IS(ly_qrwlock_read_unlock(&qrw), 0);
    IS(ly_qrwlock_write_lock(&qrw), 0);
    IS(ly_qrwlock_read_trylock(&qrw), EBUSY);
    IS(ly_qrwlock_downgrade_write(&qrw), 0);
    IS(ly_qrwlock_read_trylock(&qrw), 0);
    IS(ly_qrwlock_read_unlock(&qrw), 0);
    IS(ly_qrwlock_read_unlock(&qrw), 0);
    IS(ly_qrwlock_write_trylock(&qrw), 0);
    IS(ly_qrwlock_write_unlock(&qrw), 0);
    IS(ly_qrwlock_write_trylock(&qrw), 0);
    ly_qrwlock_init(&qrw);
    IS(ly_qrwlock_write_trylock(&qrw), 0);
    IS(ly_qrwlock_write_unlock(&qrw), 0);
}

static void lockrefs(void)
{
    IS(ly_lockref_count(&ref), 1);
    ly_lockref_get(&ref);
    IS(ly_lockref_get_not_zero(&ref), true);
    IS(ly_lockref_get_not_dead(&ref), true);
    IS(ly_lockref_count(&ref), 4);
    IS(ly_lockref_put_or_lock(&ref), true);
    IS(ly_lockref_lock(&ref), 0);
    IS(ly_lockref_trylock(&ref), EBUSY);
    IS(ly_lockref_put_return(&ref), -1);
    ly_lockref_get_locked(&ref);
    IS(ly_lockref_put_locked(&ref), 3);
    IS(ly_lockref_put_locked(&ref), 2);
    IS(ly_lockref_put_locked(&ref), 1);
    IS(ly_lockref_unlock(&ref), 0);
    IS(ly_lockref_put_or_lock(&ref), false);
    IS(ly_lockref_put_locked(&ref), 0);
    ly_lockref_mark_dead(&ref);
    IS(ly_lockref_unlock(&ref), 0);
    IS(ly_lockref_get_not_dead(&ref), false);
    IS(ly_lockref_count(&ref) < 0, true);
    ly_lockref_init(&ref, 7);
    IS(ly_lockref_trylock(&ref), 0);
    IS(ly_lockref_unlock(&ref), 0);
    IS(ly_lockref_count(&ref), 7);
}

/* All-zero is unlocked, in memory that has seen no initialiser. */
static void zeroes(void)
{
    struct {
        ly_mutex_t mutex;
        ly_cond_t cond;
        ly_rtmutex_t rtmutex;
        ly_rwsem_t rwsem;
        ly_read_mostly_t mostly;
        ly_sem_t sem;
        ly_spinlock_t spin;
        ly_hq_spinlock_t hq;
        ly_qrwlock_t qrw;
        ly_lockref_t ref;
    } *all = calloc(1, sizeof *all);
    IS(all != NULL, true);
    IS(ly_mutex_trylock(&all->mutex), 0);
    IS(ly_cond_timedwait(&all->cond, &all->mutex, &PAST), ETIMEDOUT);
    IS(ly_rtmutex_trylock(&all->rtmutex), 0);
    IS(ly_rtmutex_unlock(&all->rtmutex), 0);
    IS(ly_rwsem_down_write_trylock(&all->rwsem), 0);
    IS(ly_read_mostly_write_trylock(&all->mostly), 0);
    IS(ly_sem_trywait(&all->sem), EAGAIN);
    IS(ly_spin_trylock(&all->spin), 0);
    IS(ly_hq_spin_trylock(&all->hq), 0);
    IS(ly_qrwlock_write_trylock(&all->qrw), 0);
    IS(ly_lockref_count(&all->ref), 0);
    free(all);
}

/* The sizes that the header and other people's structures rely on. */
_Static_assert(sizeof(ly_mutex_t) == 32 && alignof(ly_mutex_t) == 4, "ly_mutex_t");
_Static_assert(sizeof(ly_cond_t) == 8 && alignof(ly_cond_t) == 4, "ly_cond_t");
_Static_assert(sizeof(ly_rtmutex_t) == 24 && alignof(ly_rtmutex_t) == 8, "ly_rtmutex_t");
_Static_assert(sizeof(ly_rwsem_t) == 32 && alignof(ly_rwsem_t) == 8, "ly_rwsem_t");
_Static_assert(sizeof(ly_read_mostly_t) == 192 && alignof(ly_read_mostly_t) == 8, "ly_read_mostly_t");
_Static_assert(sizeof(ly_sem_t) == 24 && alignof(ly_sem_t) == 8, "ly_sem_t");
_Static_assert(sizeof(ly_spinlock_t) == 4 && alignof(ly_spinlock_t) == 4, "ly_spinlock_t");
_Static_assert(sizeof(ly_hq_spinlock_t) == 4 && alignof(ly_hq_spinlock_t) == 4, "ly_hq_spinlock_t");
_Static_assert(sizeof(ly_qrwlock_t) == 16 && alignof(ly_qrwlock_t) == 4, "ly_qrwlock_t");
_Static_assert(sizeof(ly_lockref_t) == 8 && alignof(ly_lockref_t) == 8, "ly_lockref_t");

int main(void)
{
    mutexes();
    conditions();
    rtmutexes();
    rwsems();
    read_mostlies();
    semaphores();
    spinlocks();
    qrwlocks();
    lockrefs();
    zeroes();
    IS(ly_stat_open(), 0);
    IS(ly_stat_open(), 0);
    IS(ly_spin_lock(&spin), 0);
    IS(ly_spin_unlock(&spin), 0);
    IS(strchr(ly_version(), '.') != NULL, true);
    puts("as documented");
    return 0;
}
