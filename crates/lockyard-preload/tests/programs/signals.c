// Signal handlers: they post semaphores, whatever they have interrupted; they interrupt sem_wait,
// and nothing else.
#include "check.h"
#include <sys/time.h>

static sem_t sem, posted;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static atomic_int tid, handled;

static void post(int number)
{
    (void)number;
    int saved = errno;
    MUST(sem_post(&posted) == 0);
    handled++;
    errno = saved;
}

static void *waits(void *how)
{
    int result = 0;
    struct timespec t = in_ms(CLOCK_REALTIME, 100000);
    tid = (int)syscall(SYS_gettid);
    errno = 0;
    switch ((intptr_t)how) {
    case 0: result = sem_wait(&sem); break;
    case 1: result = sem_timedwait(&sem, &t); break;
    case 2: result = pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); break;
    case 3: result = pthread_mutex_timedlock(&mutex, &t); pthread_mutex_unlock(&mutex); break;
    }
    return (void *)(intptr_t)(result == 0 ? 0 : errno);
}

static void interrupt(const char *name, intptr_t how)
{
    pthread_t thread;
    void *result;
    tid = handled = 0;
    if (how >= 2)
        pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, waits, (void *)how);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    pthread_kill(thread, SIGUSR1);
    while (handled == 0)
        sched_yield();
    if (how >= 2) {
        until_asleep(tid);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, &result);
    printf("%s: %d\n", name, (int)(intptr_t)result);
}

enum { TICKS = 2000 };

static void *poster(void *main_thread)
{
    for (int i = 0; i < TICKS; i++) {
        pthread_kill((pthread_t)main_thread, SIGUSR1);
        while (handled <= i)
            sched_yield();
    }
    return NULL;
}

int main(void)
{
    sem_init(&sem, 0, 0);
    sem_init(&posted, 0, 0);
    struct sigaction action = { .sa_handler = post };
    sigaction(SIGUSR1, &action, NULL);
    interrupt("sem_wait", 0);
    interrupt("sem_timedwait", 1);
    interrupt("mutex_lock", 2);
    interrupt("mutex_timedlock", 3);
    int value;
    sem_getvalue(&posted, &value);
    printf("posts: %d\n", value);
    // Handlers interrupt calls on the same semaphore, and on everything else.
    while (sem_trywait(&posted) == 0)
        ;
    handled = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, poster, (void *)pthread_self());
    int net = 0;
    struct timespec past = { 1, 0 };
    while (handled < TICKS) {
        net += sem_trywait(&posted) == 0;
        net += sem_timedwait(&posted, &past) == 0;
        net -= sem_post(&posted) == 0;
        net += sem_wait(&posted) == 0;
        pthread_mutex_lock(&mutex);
        pthread_cond_timedwait(&cond, &mutex, &past);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
    sem_getvalue(&posted, &value);
    printf("handled: %d, units: %d\n", (int)handled, net + value);
    return 0;
}
