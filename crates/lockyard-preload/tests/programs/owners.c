// A thread ends with locks held. A thread that comes later is another, even with the dead one's
// name; so is every new thread of a child process.
#include "check.h"

static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static int dies(void *unused)
{
    (void)unused;
    MUST(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&checking) == 0 && pthread_mutex_lock(&normal) == 0);
    MUST(pthread_rwlock_wrlock(&rwlock) == 0);
    return 0;
}

static int later(void *unused)
{
    (void)unused;
    struct timespec past = { 0, 0 };
    MUST(pthread_mutex_trylock(&recursive) == EBUSY && pthread_mutex_timedlock(&recursive, &past) == ETIMEDOUT);
    MUST(pthread_mutex_unlock(&recursive) == EPERM);
    MUST(pthread_mutex_trylock(&checking) == EBUSY && pthread_mutex_timedlock(&checking, &past) == ETIMEDOUT);
    MUST(pthread_mutex_unlock(&checking) == EPERM);
    MUST(pthread_mutex_trylock(&normal) == EBUSY);
    MUST(pthread_rwlock_tryrdlock(&rwlock) == EBUSY && pthread_rwlock_timedrdlock(&rwlock, &past) == ETIMEDOUT);
    MUST(pthread_rwlock_trywrlock(&rwlock) == EBUSY && pthread_rwlock_timedwrlock(&rwlock, &past) == ETIMEDOUT);
    return 0;
}

static int forks(void *depth)
{
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        for (int i = 0; i < 20; i++)
            elsewhere(later, NULL);
        if (depth)
            elsewhere(forks, (char *)depth - 1);
        fflush(stdout);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}

int main(void)
{
    elsewhere(dies, NULL);
    for (int i = 0; i < 50; i++)
        elsewhere(later, NULL);
    puts("another thread is another owner");
    elsewhere(forks, (char *)3);
    puts("also along a chain of forks");
    return 0;
}
