// Ten thousand short threads, a few at a time, each of which waits for something once.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int count;

static void *one(void *unused)
{
    (void)unused;
    pthread_rwlock_rdlock(&rwlock);
    pthread_mutex_lock(&mutex);
    count++;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_unlock(&rwlock);
    return NULL;
}

int main(void)
{
    for (int round = 0; round < 2500; round++) {
        pthread_t threads[4];
        pthread_mutex_lock(&mutex);
        for (int i = 0; i < 4; i++)
            MUST(pthread_create(&threads[i], NULL, one, NULL) == 0);
        while (count < 4 * round + 4)
            pthread_cond_wait(&cond, &mutex);
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    printf("threads: %d\n", count);
    return 0;
}
