// The pattern of fork handlers: a lock is held over a fork, with waiters. The child has no waiters:
// it unlocks, and goes on, with threads of its own and another fork.
#include "check.h"

enum { THREADS = 3, ROUNDS = 6 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static sem_t semaphore;

static void lock_mutex(void) { MUST(pthread_mutex_lock(&mutex) == 0); }
static void unlock_mutex(void) { MUST(pthread_mutex_unlock(&mutex) == 0); }
static void lock_write(void) { MUST(pthread_rwlock_wrlock(&rwlock) == 0); }
static void unlock_rwlock(void) { MUST(pthread_rwlock_unlock(&rwlock) == 0); }
static void lock_spin(void) { MUST(pthread_spin_lock(&spinlock) == 0); }
static void unlock_spin(void) { MUST(pthread_spin_unlock(&spinlock) == 0); }
static void take_unit(void) { MUST(sem_wait(&semaphore) == 0); }
static void give_unit(void) { MUST(sem_post(&semaphore) == 0); }

static const struct kind {
    const char *name;
    void (*lock)(void);
    void (*unlock)(void);
} kinds[] = {
    {"mutex", lock_mutex, unlock_mutex},
    {"rwlock", lock_write, unlock_rwlock},
    {"spinlock", lock_spin, unlock_spin},
    {"semaphore", take_unit, give_unit},
};

static const struct kind *kind;
static _Atomic int stop;
static long count;

static int readers; // also fight; a parent's reader that is not in must not count in the child

static void *fight(void *nothing)
{
    for (int i = 0; !stop; i++) {
        if (readers && i % 4 && kind->lock == lock_write) {
            MUST(pthread_rwlock_rdlock(&rwlock) == 0);
            unlock_rwlock();
            continue;
        }
        kind->lock();
        count++;
        kind->unlock();
    }
    return nothing;
}

static void *some(void *nothing)
{
    for (int i = 0; i < 1000; i++) {
        kind->lock();
        count++;
        kind->unlock();
    }
    return nothing;
}

// In a child: the caller has held the lock since before the fork.
static void go_on(void)
{
    alarm(20);
    kind->unlock();
    pthread_t threads[THREADS];
    count = 0;
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, some, NULL) == 0);
    some(NULL);
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    MUST(count == (THREADS + 1) * 1000);
}

static void in_child(void (*task)(void))
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        task();
        _exit(0);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void fork_again(void)
{
    go_on();
    kind->lock();
    in_child(go_on);
    kind->unlock();
}

int main(int words, char **word)
{
    readers = words > 1 && word[1][0] == 'r';
    MUST(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE) == 0);
    MUST(sem_init(&semaphore, 0, 1) == 0);
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        kind = &kinds[k];
        stop = 0;
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            MUST(pthread_create(&threads[i], NULL, fight, NULL) == 0);
        for (int round = 0; round < ROUNDS; round++) {
            kind->lock();
            if (round % 2)
                usleep(3000); // long enough for all to wait
            in_child(fork_again);
            kind->unlock();
        }
        stop = 1;
        for (int i = 0; i < THREADS; i++)
            MUST(pthread_join(threads[i], NULL) == 0);
        printf("%s: %d children went on\n", kind->name, ROUNDS);
    }
    return 0;
}
