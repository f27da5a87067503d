// The handler of a signal forks while its thread sleeps for a mutex: the child sleeps on, until its
// time is up.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int tid, child;

static void forks(int signal)
{
    (void)signal;
    pid_t made = fork();
    if (made == 0)
        alarm(1);
    else
        child = made;
}

static void *waits(void *unused)
{
    tid = (int)syscall(SYS_gettid);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void)
{
    pthread_t thread;
    int status;
    signal(SIGUSR1, forks);
    pthread_mutex_lock(&mutex);
    MUST(pthread_create(&thread, NULL, waits, NULL) == 0);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    SHOW(pthread_kill(thread, SIGUSR1));
    while (child == 0)
        sched_yield();
    MUST(waitpid(child, &status, 0) == child);
    printf("the child was ended by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    return 0;
}
