// C11 threads: the same objects under other names and numbers.
#include "check.h"
#include <threads.h>

static mtx_t mutex, recursive;
static cnd_t cond;
static int ready, count;

static int worker(void *unused)
{
    (void)unused;
    for (int i = 0; i < 10000; i++) {
        mtx_lock(&mutex);
        count++;
        mtx_unlock(&mutex);
    }
    mtx_lock(&mutex);
    ready++;
    cnd_signal(&cond);
    mtx_unlock(&mutex);
    return mtx_trylock(&recursive);
}

int main(void)
{
    SHOW(mtx_init(&mutex, mtx_timed));
    SHOW(mtx_init(&recursive, 64));
    SHOW(mtx_init(&recursive, mtx_plain | mtx_recursive));
    SHOW(cnd_init(&cond));
    SHOW(mtx_lock(&recursive));
    SHOW(mtx_lock(&recursive));
    thrd_t threads[3];
    for (int i = 0; i < 3; i++)
        thrd_create(&threads[i], worker, NULL);
    mtx_lock(&mutex);
    while (ready < 3)
        MUST(cnd_wait(&cond, &mutex) == thrd_success);
    mtx_unlock(&mutex);
    for (int i = 0; i < 3; i++) {
        int result;
        thrd_join(threads[i], &result);
        printf("trylock elsewhere: %d\n", result);
    }
    printf("count %d\n", count);
    struct timespec past = { 1, 0 };
    SHOW(mtx_trylock(&mutex));
    SHOW(mtx_trylock(&mutex));
    SHOW(mtx_timedlock(&mutex, &past));
    SHOW(cnd_timedwait(&cond, &mutex, &past));
    SHOW(cnd_broadcast(&cond));
    SHOW(mtx_unlock(&mutex));
    SHOW(mtx_unlock(&recursive));
    SHOW(mtx_unlock(&recursive));
    SHOW(mtx_unlock(&recursive));
    mtx_destroy(&mutex);
    mtx_destroy(&recursive);
    cnd_destroy(&cond);
    return 0;
}
