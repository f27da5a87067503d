// For dlopen.c: a library that has locks of its own, uses them while it is loaded and unloaded, and
// leaves nothing behind.
#include <pthread.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int value;
__attribute__((constructor)) static void loaded(void) { pthread_mutex_lock(&mutex); value = 1; pthread_mutex_unlock(&mutex); }
__attribute__((destructor)) static void unloaded(void) { pthread_mutex_lock(&mutex); pthread_mutex_destroy(&mutex); }
int plugin(void)
{
    struct timespec past = { 1, 0 };
    pthread_mutex_lock(&mutex);
    int result = pthread_cond_timedwait(&cond, &mutex, &past) * 1000 + value++;
    pthread_mutex_unlock(&mutex);
    return result;
}

void plugin_lock(pthread_mutex_t *shared)
{
    pthread_mutex_lock(shared);
}

void plugin_unlock(pthread_mutex_t *shared)
{
    pthread_mutex_unlock(shared);
}
