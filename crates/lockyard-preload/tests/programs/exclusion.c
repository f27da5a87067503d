// Exclusion and counting under contention, on every kind of object, more threads than CPUs.
#include "check.h"

enum { THREADS = 6, ROUNDS = 20000 };
static pthread_mutex_t mutexes[4] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
                                      PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP };
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t sem;
static volatile long counts[7];
static atomic_int readers;

static void *worker(void *id)
{
    unsigned random = 12345 + (unsigned)(uintptr_t)id;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1103515245 + 12345;
        int which = random >> 16 & 7;
        struct timespec t = in_ms(CLOCK_REALTIME, 60000);
        switch (which) {
        case 0: case 1: case 2: case 3:
            if (random & 1 << 20) {
                while (pthread_mutex_trylock(&mutexes[which]) != 0)
                    sched_yield();
            } else if (random & 1 << 21)
                MUST(pthread_mutex_timedlock(&mutexes[which], &t) == 0);
            else
                MUST(pthread_mutex_lock(&mutexes[which]) == 0);
            counts[which] = counts[which] + 1;
            if (which == 1) {
                MUST(pthread_mutex_lock(&mutexes[1]) == 0 && pthread_mutex_unlock(&mutexes[1]) == 0);
            }
            MUST(pthread_mutex_unlock(&mutexes[which]) == 0);
            break;
        case 4:
            if (random & 1 << 22) {
                MUST(pthread_rwlock_wrlock(&rwlock) == 0);
                MUST(readers == 0);
                counts[4] = counts[4] + 1;
            } else {
                MUST((random & 1 << 23 ? pthread_rwlock_timedrdlock(&rwlock, &t) : pthread_rwlock_rdlock(&rwlock)) == 0);
                readers++;
                long before = counts[4];
                MUST(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
                MUST(counts[4] == before);
                readers--;
            }
            MUST(pthread_rwlock_unlock(&rwlock) == 0);
            break;
        case 5:
            MUST(pthread_spin_lock(&spin) == 0);
            counts[5] = counts[5] + 1;
            MUST(pthread_spin_unlock(&spin) == 0);
            break;
        default:
            while ((random & 1 << 24 ? sem_timedwait(&sem, &t) : sem_wait(&sem)) != 0)
                ;
            counts[6] = counts[6] + 1;
            MUST(sem_post(&sem) == 0);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_spin_init(&spin, 0);
    sem_init(&sem, 0, 1);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 7; i++)
        printf("count %d = %ld\n", i, counts[i]);
    for (int i = 0; i < 4; i++)
        SHOW(pthread_mutex_destroy(&mutexes[i]));
    SHOW(pthread_rwlock_destroy(&rwlock));
    return 0;
}
