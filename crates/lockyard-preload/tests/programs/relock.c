// Calls that can only hang, on mutexes with priority inheritance: until their deadlines.

#include "check.h"

static int in_time(pthread_mutex_t *mutex)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += 30000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    return pthread_mutex_timedlock(mutex, &end);
}

static void *ends_with_it(void *mutex)
{
    pthread_mutex_lock(mutex);
    return NULL;
}

int main(void)
{
    const int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_ERRORCHECK};
    for (int at = 0; at < 3; at++) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
        pthread_mutexattr_settype(&attributes, types[at]);
        pthread_mutex_t own;
        pthread_mutex_init(&own, &attributes);
        pthread_mutex_lock(&own);
        printf("own: %s\n", strerror(in_time(&own)));
        printf("own, a try: %s\n", strerror(pthread_mutex_trylock(&own)));
        pthread_mutex_unlock(&own);
        if (types[at] == PTHREAD_MUTEX_ERRORCHECK)
            continue;
        pthread_mutex_t left;
        pthread_mutex_init(&left, &attributes);
        pthread_t thread;
        pthread_create(&thread, NULL, ends_with_it, &left);
        pthread_join(thread, NULL);
        printf("of a thread that has ended: %s\n", strerror(in_time(&left)));
    }
    return 0;
}
