// A mutex that is taken again in a wait, by a function that only waits, and for which another
// thread waits after that.
#include "check.h"

#define APART __attribute__((noinline)) static
#define STAYS __asm__ volatile("")

static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int full;
static atomic_int is_held, asker;

APART void my_lock(void)
{
    MUST(pthread_mutex_lock(&queue) == 0);
    STAYS;
}

APART void my_unlock(void)
{
    MUST(pthread_mutex_unlock(&queue) == 0);
    STAYS;
}

APART void my_wait(void)
{
    MUST(pthread_cond_wait(&filled, &queue) == 0);
    STAYS;
}

static void *asks(void *nothing)
{
    asker = syscall(SYS_gettid);
    my_lock();
    full = 1;
    MUST(pthread_cond_signal(&filled) == 0);
    my_unlock();
    while (!is_held)
        sched_yield();
    my_lock();
    my_unlock();
    return nothing;
}

APART void consumes(void)
{
    pthread_t thread;
    my_lock();
    MUST(pthread_create(&thread, NULL, asks, NULL) == 0);
    while (!full)
        my_wait();
    is_held = 1;
    until_asleep(asker);
    my_unlock();
    MUST(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    consumes();
    return 0;
}
