// A mutex that is taken again in a wait, by a function that only waits, and for which another
// thread waits after that.
#include "apart.h"

static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int full;
static atomic_int is_held, asker;

APART void my_wait(void)
{
    MUST(pthread_cond_wait(&filled, &queue) == 0);
    STAYS;
}

static void *asks(void *nothing)
{
    asker = syscall(SYS_gettid);
    my_lock(&queue);
    full = 1;
    MUST(pthread_cond_signal(&filled) == 0);
    my_unlock(&queue);
    while (!is_held)
        sched_yield();
    my_lock(&queue);
    my_unlock(&queue);
    return nothing;
}

APART void consumes(void)
{
    pthread_t thread;
    my_lock(&queue);
    MUST(pthread_create(&thread, NULL, asks, NULL) == 0);
    while (!full)
        my_wait();
    is_held = 1;
    until_asleep(asker);
    my_unlock(&queue);
    MUST(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    consumes();
    return 0;
}
