// Recursive readers: a thread that reads may read again although a writer waits, unless the kind
// says no; many locks at a time; the writer gets in at last.
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int tid, written;

static void *writer(void *l)
{
    tid = (int)syscall(SYS_gettid);
    MUST(pthread_rwlock_wrlock(l) == 0);
    written++;
    MUST(pthread_rwlock_unlock(l) == 0);
    return NULL;
}

static int try_read(void *l)
{
    int result = pthread_rwlock_tryrdlock(l);
    return result == 0 ? pthread_rwlock_unlock(l) : result;
}

static void recursive(const char *name, int kind)
{
    pthread_rwlockattr_t attributes;
    pthread_t thread;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, kind);
    pthread_rwlock_init(&lock, &attributes);
    tid = written = 0;
    printf("-- %s\n", name);
    SHOW(pthread_rwlock_rdlock(&lock));
    pthread_create(&thread, NULL, writer, &lock);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    for (int i = 0; i < 100; i++)
        MUST(pthread_rwlock_rdlock(&lock) == 0);
    SHOW(pthread_rwlock_tryrdlock(&lock));
    printf("written %d\n", (int)written);
    for (int i = 0; i < 102; i++)
        MUST(pthread_rwlock_unlock(&lock) == 0);
    pthread_join(thread, NULL);
    printf("written %d\n", (int)written);
    SHOW(elsewhere(try_read, &lock));
}

// More locks at a time than anybody notes by name, each read twice with a writer waiting in
// between.
enum { LOCKS = 40 };
static pthread_rwlock_t many[LOCKS];

int main(void)
{
    recursive("default", PTHREAD_RWLOCK_PREFER_READER_NP);
    recursive("prefer writer", PTHREAD_RWLOCK_PREFER_WRITER_NP);
    pthread_t threads[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        MUST(pthread_rwlock_rdlock(&many[i]) == 0);
        tid = 0;
        pthread_create(&threads[i], NULL, writer, &many[i]);
        while (tid == 0)
            sched_yield();
        until_asleep(tid);
    }
    for (int i = 0; i < LOCKS; i++)
        MUST(pthread_rwlock_rdlock(&many[i]) == 0);
    for (int i = LOCKS - 1; i >= 0; i--)
        MUST(pthread_rwlock_unlock(&many[i]) == 0 && pthread_rwlock_unlock(&many[i]) == 0);
    for (int i = 0; i < LOCKS; i++)
        pthread_join(threads[i], NULL);
    printf("many: %d\n", (int)written);
    return 0;
}
