/* Takes locks so often: for tests that count what a recording says. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };

static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t cursor;
static int rounds = 1000;
static void *work(void *), *(*job)(void *) = work;

static void *work(void *argument) {
    (void)argument;
    for (int round = 0; round < rounds; round++) {
        pthread_mutex_lock(&hot); // MARK hot
        pthread_mutex_unlock(&hot);
        if (round % 10 == 0)
            pthread_rwlock_wrlock(&table);
        else
            pthread_rwlock_rdlock(&table);
        pthread_rwlock_unlock(&table);
        pthread_spin_lock(&cursor);
        pthread_spin_unlock(&cursor);
    }
    return NULL;
}

/* Every lock is first taken by all threads at once. */
enum { FIRST = 64 };
static pthread_mutex_t first[FIRST]; /* zero is PTHREAD_MUTEX_INITIALIZER */
static pthread_barrier_t all;

static void *take_first(void *argument) {
    (void)argument;
    for (int i = 0; i < FIRST; i++) {
        pthread_barrier_wait(&all);
        pthread_mutex_lock(&first[i]);
        pthread_mutex_unlock(&first[i]);
    }
    return NULL;
}

static void threads(int count) {
    pthread_t thread[THREADS];
    for (int begun = 0; begun < count; begun += THREADS) {
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&thread[i], NULL, job, NULL) != 0)
                abort();
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    pthread_spin_init(&cursor, PTHREAD_PROCESS_PRIVATE); // MARK cursor
    if (strcmp(what, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            /* Its first lock: from here on it is recorded. */
            pthread_mutex_lock(&hot);
            pthread_mutex_unlock(&hot);
            threads(THREADS);
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
    if (strcmp(what, "at once") == 0) {
        pthread_barrier_init(&all, NULL, THREADS);
        job = take_first;
    }
    if (strcmp(what, "many") == 0) {
        /* Threads that come and go. On a busy machine they run one after another, and so write to
           one ring: 200 times 20 rounds of 6 events are less than the 32768 that it holds. */
        rounds = 20;
        threads(200);
    } else if (strcmp(what, "long") == 0) {
        /* More than a ring holds, in each thread. */
        rounds = 10000;
        threads(THREADS);
    } else {
        threads(THREADS);
    }
    if (strcmp(what, "stuck") == 0) {
        pthread_mutex_lock(&hot);
        pthread_mutex_lock(&hot); /* For ever. */
    }
    if (strcmp(what, "deaf") == 0)
        signal(SIGTERM, SIG_IGN);
    if (strcmp(what, "holds") == 0)
        pthread_mutex_lock(&hot);
    if (strcmp(what, "wait") == 0 || strcmp(what, "deaf") == 0 || strcmp(what, "holds") == 0 ||
        strcmp(what, "long") == 0) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    puts("done");
    return 3;
}
