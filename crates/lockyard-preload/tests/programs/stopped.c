// Waiters are stopped in a signal handler, as a collector stops threads. They own nothing: another
// thread gets the free lock, again and again. (Not here: a writer after readers that are stopped.
// glibc counts a waiting reader as soon as a writer releases, so there the writer waits for it.)
#include "check.h"

enum { MOST = 8, TIMES = 5 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static sem_t semaphore;

static void lock_mutex(void) { MUST(pthread_mutex_lock(&mutex) == 0); }
static void unlock_mutex(void) { MUST(pthread_mutex_unlock(&mutex) == 0); }
static int try_mutex(void) { return pthread_mutex_trylock(&mutex); }
static void lock_write(void) { MUST(pthread_rwlock_wrlock(&rwlock) == 0); }
static void lock_read(void) { MUST(pthread_rwlock_rdlock(&rwlock) == 0); }
static void unlock_rwlock(void) { MUST(pthread_rwlock_unlock(&rwlock) == 0); }
static int try_write(void) { return pthread_rwlock_trywrlock(&rwlock); }
static int try_read(void) { return pthread_rwlock_tryrdlock(&rwlock); }
static void lock_spin(void) { MUST(pthread_spin_lock(&spinlock) == 0); }
static void unlock_spin(void) { MUST(pthread_spin_unlock(&spinlock) == 0); }
static int try_spin(void) { return pthread_spin_trylock(&spinlock); }
static void take_unit(void)
{
    while (sem_wait(&semaphore) != 0)
        MUST(errno == EINTR);
}
static void give_unit(void) { MUST(sem_post(&semaphore) == 0); }
static int try_unit(void) { return sem_trywait(&semaphore); }

static const struct kind {
    const char *name;
    void (*hold)(void);    // what the collector does first
    void (*wait)(void);    // what the others wait for
    void (*release)(void);
    void (*take)(void);    // what the collector does while they are stopped
    int (*attempt)(void);
} kinds[] = {
    {"mutex", lock_mutex, lock_mutex, unlock_mutex, lock_mutex, try_mutex},
    {"rwlock: writers, then a writer", lock_write, lock_write, unlock_rwlock, lock_write, try_write},
    {"rwlock: writers, then a reader", lock_write, lock_write, unlock_rwlock, lock_read, try_read},
    {"spinlock", lock_spin, lock_spin, unlock_spin, lock_spin, try_spin},
    {"semaphore", take_unit, take_unit, give_unit, take_unit, try_unit},
};

static const struct kind *kind;
static _Atomic int waiting, stopped, go, served;

static void stop(int signal)
{
    (void)signal;
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGUSR2);
    stopped++;
    while (!go)
        sigsuspend(&set);
}

static void resume(int signal) { (void)signal; }

static void *waiter(void *nothing)
{
    waiting++;
    kind->wait();
    served++;
    kind->release();
    return nothing;
}

static void wait_for(_Atomic int *count, int value)
{
    while (*count < value)
        usleep(200);
}

static pthread_t threads[MOST];

static void stop_all(int count, long after_us)
{
    waiting = stopped = go = served = 0;
    for (int i = 0; i < count; i++)
        MUST(pthread_create(&threads[i], NULL, waiter, NULL) == 0);
    wait_for(&waiting, count);
    usleep(after_us);
    for (int i = 0; i < count; i++)
        MUST(pthread_kill(threads[i], SIGUSR1) == 0);
    wait_for(&stopped, count);
}

// A waiter may be stopped with the lock inside of the lock, in the few instructions in which it
// joins the queue: then it keeps all out. That is a matter of chance, so it does not happen three
// times in a row. A lock that is kept for a waiter is kept each time.
enum { PATIENCE_MS = 10000, CHANCES = 3 };
static _Atomic int done, rescued;

static void *rescuer(void *count)
{
    for (int ms = 0; ms < PATIENCE_MS && !done; ms++)
        usleep(1000);
    if (!done) {
        rescued = go = 1;
        for (int i = 0; i < *(int *)count; i++)
            MUST(pthread_kill(threads[i], SIGUSR2) == 0);
    }
    return NULL;
}

static void resume_all(int count)
{
    go = 1;
    for (int i = 0; i < count && !rescued; i++)
        MUST(pthread_kill(threads[i], SIGUSR2) == 0);
    for (int i = 0; i < count; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(served == count);
}

// Whether all were stopped meanwhile.
static int is_taken(int count, long after_us)
{
    kind->hold();
    stop_all(count, after_us);
    pthread_t rescue;
    done = rescued = 0;
    MUST(pthread_create(&rescue, NULL, rescuer, &count) == 0);
    kind->release();
    for (int i = 0; i < TIMES; i++) {
        kind->take();
        kind->release();
    }
    int refused = 0;
    while (kind->attempt() != 0) {
        MUST(++refused < 2000);
        usleep(1000);
    }
    kind->release();
    done = 1;
    MUST(pthread_join(rescue, NULL) == 0);
    resume_all(count);
    return !rescued;
}

static void one(int count, long after_us)
{
    for (int chance = 1; !is_taken(count, after_us); chance++)
        MUST(chance < CHANCES);
    printf("%s: %d stopped after %ld us, taken %d times and by a try\n",
           kind->name, count, after_us, TIMES);
}

static _Atomic int told, came;

static void *listener(void *nothing)
{
    lock_mutex();
    waiting++;
    while (!told)
        MUST(pthread_cond_wait(&cond, &mutex) == 0);
    came++;
    unlock_mutex();
    return nothing;
}

// Threads that are signalled get the mutex although others, stopped, were there before them.
static void signalled(int count, int listeners, long after_us)
{
    pthread_t heard[MOST];
    kind = &kinds[0];
    told = came = waiting = 0;
    for (int i = 0; i < listeners; i++)
        MUST(pthread_create(&heard[i], NULL, listener, NULL) == 0);
    for (int ready = 0; !ready;) {
        lock_mutex();
        ready = waiting == listeners;
        if (!ready)
            unlock_mutex();
    }
    stop_all(count, after_us);
    told = 1;
    MUST(pthread_cond_broadcast(&cond) == 0);
    unlock_mutex();
    wait_for(&came, listeners);
    printf("condition variable: %d heard beside %d stopped after %ld us\n", listeners, count, after_us);
    resume_all(count);
    for (int i = 0; i < listeners; i++)
        MUST(pthread_join(heard[i], NULL) == 0);
}

int main(void)
{
    struct sigaction action = {.sa_handler = stop};
    sigfillset(&action.sa_mask);
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_handler = resume;
    MUST(sigaction(SIGUSR2, &action, NULL) == 0);
    MUST(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0);
    MUST(sem_init(&semaphore, 0, 1) == 0);
    const long after[] = {0, 300, 3000, 30000};
    for (unsigned i = 0; i < sizeof after / sizeof *after; i++) {
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            kind = &kinds[k];
            one(1, after[i]);
            one(MOST, after[i]);
        }
        signalled(1, 1, after[i]);
        signalled(3, 4, after[i]);
    }
    return 0;
}
