// What stays glibc's: process-shared, robust, priority inheritance and ceiling. They work as ever,
// and under the library they are counted.
#include "check.h"

static int shared_across_fork(void)
{
    struct { pthread_mutex_t mutex; pthread_cond_t cond; pthread_rwlock_t rwlock; sem_t sem; pthread_spinlock_t spin; int ready, count; } *both =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_rwlockattr_t rwlock;
    pthread_mutexattr_init(&mutex);
    pthread_condattr_init(&cond);
    pthread_rwlockattr_init(&rwlock);
    SHOW(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
    SHOW(pthread_mutex_init(&both->mutex, &mutex));
    SHOW(pthread_cond_init(&both->cond, &cond));
    SHOW(pthread_rwlock_init(&both->rwlock, &rwlock));
    SHOW(sem_init(&both->sem, 1, 0));
    SHOW(pthread_spin_init(&both->spin, PTHREAD_PROCESS_SHARED));
    fflush(stdout);
    pid_t pid = fork();
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&both->mutex);
        pthread_rwlock_wrlock(&both->rwlock);
        pthread_spin_lock(&both->spin);
        both->count++;
        pthread_spin_unlock(&both->spin);
        pthread_rwlock_unlock(&both->rwlock);
        pthread_mutex_unlock(&both->mutex);
    }
    if (pid == 0) {
        pthread_mutex_lock(&both->mutex);
        both->ready = 1;
        pthread_cond_signal(&both->cond);
        pthread_mutex_unlock(&both->mutex);
        while (sem_wait(&both->sem) != 0)
            ;
        _exit(0);
    }
    pthread_mutex_lock(&both->mutex);
    while (!both->ready)
        pthread_cond_wait(&both->cond, &both->mutex);
    pthread_mutex_unlock(&both->mutex);
    SHOW(sem_post(&both->sem));
    waitpid(pid, NULL, 0);
    return both->count;
}

static int leave_locked(void *m) { return pthread_mutex_lock(m); }

int main(void)
{
    printf("shared: %d\n", shared_across_fork());
    pthread_mutexattr_t attributes;
    pthread_mutex_t mutex;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec past = { 1, 0 };

    pthread_mutexattr_init(&attributes);
    SHOW(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    SHOW(pthread_mutex_init(&mutex, &attributes));
    SHOW(elsewhere(leave_locked, &mutex));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_mutex_consistent(&mutex));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_trylock(&mutex));
    SHOW(pthread_cond_timedwait(&cond, &mutex, &past));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_mutex_destroy(&mutex));

    pthread_mutexattr_init(&attributes);
    SHOW(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    SHOW(pthread_mutex_init(&mutex, &attributes));
    SHOW(pthread_mutex_lock(&mutex));
    SHOW(pthread_cond_timedwait(&cond, &mutex, &past));
    SHOW(pthread_mutex_unlock(&mutex));

    pthread_mutexattr_init(&attributes);
    SHOW(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT));
    SHOW(pthread_mutex_init(&mutex, &attributes));
    int ceiling = 0;
    SHOW(pthread_mutex_getprioceiling(&mutex, &ceiling));

    // The same condition variable with an ordinary mutex, before and after.
    pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&plain);
    SHOW(pthread_cond_timedwait(&cond, &plain, &past));
    pthread_mutex_unlock(&plain);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutex_lock(&mutex);
    SHOW(pthread_cond_timedwait(&cond, &mutex, &past));
    SHOW(pthread_mutex_unlock(&mutex));
    SHOW(pthread_cond_destroy(&cond));

    sem_t *named = sem_open("/lockyard-fallback-test", O_CREAT, 0600, 1);
    MUST(named != SEM_FAILED);
    sem_unlink("/lockyard-fallback-test");
    SHOW(sem_wait(named));
    SHOW(sem_trywait(named));
    SHOW(sem_post(named));
    SHOW(sem_close(named));

    // To standard error, which is not compared: what was counted, and in order not to be blind,
    // that there was something.
    long long (*fallbacks)(unsigned, const char **) = (long long (*)(unsigned, const char **))dlsym(RTLD_DEFAULT, "lockyard_preload_fallbacks");
    if (fallbacks) {
        const char *name;
        for (unsigned i = 0; fallbacks(i, &name) >= 0; i++)
            fprintf(stderr, "%s %lld\n", name, fallbacks(i, &name));
    }
    return 0;
}
