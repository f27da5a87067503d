// Process-shared spinlocks: more than a table has room for; in a mapping of each process's own;
// between a process with the library and one without it, whichever has initialised it.
#include "check.h"

struct shared {
    pthread_spinlock_t spin;
    atomic_int arrived;
    volatile long count;
};
enum { MANY = 1000, ROUNDS = 200000 };

static struct shared *map(int fd)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(at != MAP_FAILED);
    return at;
}

static void count(struct shared *shared)
{
    shared->arrived++;
    while (shared->arrived < 2)
        sched_yield();
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0) {
            while (pthread_spin_trylock(&shared->spin) == EBUSY)
                sched_yield();
        } else {
            MUST(pthread_spin_lock(&shared->spin) == 0);
        }
        shared->count++;
        MUST(pthread_spin_unlock(&shared->spin) == 0);
    }
}

// Runs this program again, with the library as here or without it.
static pid_t other(const char *what, int fd, int without)
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", fd);
        if (without)
            unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "shared_spins", what, number, (char *)NULL);
        _exit(2);
    }
    return pid;
}

static int ended(pid_t pid)
{
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void together(int without, int other_initialises)
{
    int fd = memfd_create("spin", 0);
    MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
    struct shared *shared = map(fd);
    if (other_initialises)
        MUST(ended(other("init", fd, without)) == 0);
    else
        SHOW(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED));
    pid_t pid = other("count", fd, without);
    count(shared);
    MUST(ended(pid) == 0);
    printf("without %d, the other initialises %d: counted %ld\n", without, other_initialises, shared->count);
    SHOW(pthread_spin_destroy(&shared->spin));
    munmap(shared, 4096);
    close(fd);
}

static int try(void *spin)
{
    int result = pthread_spin_trylock(spin);
    return result == 0 ? pthread_spin_unlock(spin) : result;
}

int main(int words, char **word)
{
    if (words == 3) {
        struct shared *shared = map(atoi(word[2]));
        if (strcmp(word[1], "init") == 0)
            MUST(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED) == 0);
        else
            count(shared);
        return 0;
    }
    static pthread_spinlock_t own, many[MANY];
    SHOW(pthread_spin_init(&own, PTHREAD_PROCESS_PRIVATE));
    SHOW(pthread_spin_lock(&own));
    for (int i = 0; i < MANY; i++)
        MUST(pthread_spin_init(&many[i], PTHREAD_PROCESS_SHARED) == 0);
    for (int i = 0; i < MANY; i++)
        MUST(pthread_spin_lock(&many[i]) == 0 && pthread_spin_trylock(&many[i]) == EBUSY);
    for (int i = 0; i < MANY; i++)
        MUST(pthread_spin_unlock(&many[i]) == 0 && pthread_spin_destroy(&many[i]) == 0);
    // One that was taken before the first shared one is still what it was.
    SHOW(elsewhere(try, (void *)&own));
    SHOW(pthread_spin_unlock(&own));
    SHOW(elsewhere(try, (void *)&own));
    for (int without = 0; without < 2; without++)
        for (int other_initialises = 0; other_initialises < 2; other_initialises++)
            together(without, other_initialises);
    return 0;
}
