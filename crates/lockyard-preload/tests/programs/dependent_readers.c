// A reader that holds the lock waits for another reader, which comes after a writer: the default
// kinds let it in, and so does an attempt that does not wait.
#include "check.h"

static pthread_rwlock_t lock;
static atomic_int tid, written, read_count;
static sem_t done;

static void *writer(void *timed)
{
    struct timespec far = in_ms(CLOCK_REALTIME, 60000);
    tid = (int)syscall(SYS_gettid);
    MUST((timed ? pthread_rwlock_timedwrlock(&lock, &far) : pthread_rwlock_wrlock(&lock)) == 0);
    written++;
    MUST(pthread_rwlock_unlock(&lock) == 0);
    return NULL;
}

static void *reader(void *timed)
{
    struct timespec far = in_ms(CLOCK_REALTIME, 60000);
    MUST((timed ? pthread_rwlock_timedrdlock(&lock, &far) : pthread_rwlock_rdlock(&lock)) == 0);
    read_count++;
    sem_post(&done);
    MUST(pthread_rwlock_unlock(&lock) == 0);
    return NULL;
}

static int try_read(void *unused)
{
    int result = pthread_rwlock_tryrdlock(&lock);
    return result == 0 ? pthread_rwlock_unlock(&lock) : result + (unused != NULL);
}

static int read_in_time(void *ms)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, (long)(intptr_t)ms);
    int result = pthread_rwlock_timedrdlock(&lock, &soon);
    return result == 0 ? pthread_rwlock_unlock(&lock) : result;
}

static pthread_t waiting_writer(void *timed)
{
    pthread_t thread;
    tid = 0;
    MUST(pthread_create(&thread, NULL, writer, timed) == 0);
    while (tid == 0)
        sched_yield();
    until_asleep(tid);
    return thread;
}

static void depends(const char *name, int kind, int writers, int readers, void *timed)
{
    pthread_rwlockattr_t attributes;
    pthread_t waiting[8], reading[64];
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, kind);
    pthread_rwlock_init(&lock, &attributes);
    sem_init(&done, 0, 0);
    written = read_count = 0;
    printf("-- %s, %d writers, %d readers%s\n", name, writers, readers, timed ? ", timed" : "");
    SHOW(pthread_rwlock_rdlock(&lock));
    for (int i = 0; i < writers; i++)
        waiting[i] = waiting_writer(timed);
    SHOW(elsewhere(try_read, NULL));
    SHOW(elsewhere(read_in_time, (void *)0));
    SHOW(elsewhere(read_in_time, (void *)1));
    // All at once, and then one for the other.
    for (int i = 0; i < readers; i++)
        MUST(pthread_create(&reading[i], NULL, reader, timed) == 0);
    for (int i = 0; i < readers; i++)
        MUST(sem_wait(&done) == 0);
    for (int i = 0; i < readers; i++)
        pthread_join(reading[i], NULL);
    for (int i = 0; i < 8; i++) {
        MUST(pthread_create(&reading[0], NULL, reader, timed) == 0);
        MUST(sem_wait(&done) == 0);
        pthread_join(reading[0], NULL);
    }
    printf("read %d, written %d\n", (int)read_count, (int)written);
    SHOW(pthread_rwlock_unlock(&lock));
    for (int i = 0; i < writers; i++)
        pthread_join(waiting[i], NULL);
    printf("written %d\n", (int)written);
    SHOW(elsewhere(try_read, NULL));
}

int main(int argc, char **argv)
{
    depends("default", PTHREAD_RWLOCK_PREFER_READER_NP, 1, 1, NULL);
    depends("prefer writer", PTHREAD_RWLOCK_PREFER_WRITER_NP, 1, 1, NULL);
    depends("default", PTHREAD_RWLOCK_PREFER_READER_NP, 1, 1, &lock);
    depends("default", PTHREAD_RWLOCK_PREFER_READER_NP, 4, 50, NULL);
    depends("default", PTHREAD_RWLOCK_PREFER_READER_NP, 4, 50, &lock);

    if (argc > 1 && !strcmp(argv[1], "default"))
        return 0;
    // The kind that says no.
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock, &attributes);
    written = 0;
    SHOW(pthread_rwlock_rdlock(&lock));
    pthread_t thread = waiting_writer(NULL);
    // (Ours lets running threads pass a waiter for 0.4 ms.)
    usleep(100000);
    SHOW(elsewhere(try_read, NULL));
    SHOW(elsewhere(read_in_time, (void *)20));
    printf("written %d\n", (int)written);
    SHOW(pthread_rwlock_unlock(&lock));
    pthread_join(thread, NULL);
    printf("written %d\n", (int)written);
    return 0;
}
