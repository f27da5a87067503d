// Objects of zeroes and of static initialisers, used before main, and after the last destructor;
// and what the library allocates by then.
#include "check.h"

extern void *__libc_malloc(size_t);
static atomic_int allocations;
void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t zero;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t nonrecursive = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int early[24], count;

__attribute__((constructor(101))) static void before(void)
{
    early[count++] = pthread_mutex_lock(&plain);
    early[count++] = pthread_mutex_trylock(&plain);
    early[count++] = pthread_mutex_unlock(&plain);
    early[count++] = pthread_mutex_lock(&recursive);
    early[count++] = pthread_mutex_lock(&recursive);
    early[count++] = pthread_mutex_unlock(&recursive);
    early[count++] = pthread_mutex_unlock(&recursive);
    early[count++] = pthread_mutex_unlock(&recursive);
    early[count++] = pthread_mutex_lock(&checked);
    early[count++] = pthread_mutex_lock(&checked);
    early[count++] = pthread_mutex_unlock(&checked);
    early[count++] = pthread_mutex_lock(&adaptive);
    early[count++] = pthread_mutex_unlock(&adaptive);
    early[count++] = pthread_mutex_lock(&zero);
    early[count++] = pthread_rwlock_rdlock(&rwlock);
    early[count++] = pthread_rwlock_unlock(&rwlock);
    early[count++] = pthread_rwlock_wrlock(&nonrecursive);
    early[count++] = pthread_cond_signal(&cond);
    // Held until the very end.
}

__attribute__((destructor(101))) static void after(void)
{
    int result = pthread_mutex_unlock(&zero) | pthread_rwlock_unlock(&nonrecursive) | pthread_mutex_lock(&plain);
    char line[] = "after main: 0\n";
    line[sizeof line - 3] += result != 0;
    if (write(1, line, sizeof line - 1) < 0)
        abort();
}

int main(void)
{
    int before_main = allocations;
    for (int i = 0; i < count; i++)
        printf("early %d = %d\n", i, early[i]);
    printf("allocations before main = %d\n", before_main);
    SHOW(pthread_mutex_trylock(&zero));
    SHOW(pthread_rwlock_tryrdlock(&nonrecursive));
    // Memory full of locked mutexes becomes zero: unlocked, without any call.
    static pthread_mutex_t many[64];
    for (int i = 0; i < 64; i++)
        MUST(pthread_mutex_lock(&many[i]) == 0);
    memset(many, 0, sizeof many);
    for (int i = 0; i < 64; i++)
        MUST(pthread_mutex_trylock(&many[i]) == 0);
    // Freed without destroy, and used as something else.
    union { pthread_mutex_t mutex; pthread_rwlock_t rwlock; pthread_cond_t cond; sem_t sem; } *one = calloc(1, sizeof *one);
    SHOW(pthread_mutex_lock(&one->mutex));
    SHOW(pthread_rwlock_init(&one->rwlock, NULL));
    SHOW(pthread_rwlock_rdlock(&one->rwlock));
    SHOW(pthread_rwlock_tryrdlock(&one->rwlock));
    SHOW(sem_init(&one->sem, 0, 1));
    SHOW(sem_trywait(&one->sem));
    SHOW(pthread_mutex_init(&one->mutex, NULL));
    SHOW(pthread_mutex_trylock(&one->mutex));
    SHOW(pthread_mutex_destroy(&one->mutex));
    SHOW(pthread_mutex_unlock(&one->mutex));
    SHOW(pthread_mutex_destroy(&one->mutex));
    SHOW(pthread_mutex_lock(&one->mutex));
    free(one);
    fflush(stdout);
    return 0;
}
