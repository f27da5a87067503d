/* Producers and consumers with condition variables and with semaphores: what a recording says of
 * them is what they print at their end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef LINKED
#include "linked.h"
#endif

enum { THREADS = 2, ITEMS = 500 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled, emptied = PTHREAD_COND_INITIALIZER;
static int items;
static long waits, signals;
static sem_t full, empty;

static void *produce(void *argument) {
    (void)argument;
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&lock);
        while (items == 4) {
            waits++;
            pthread_cond_wait(&emptied, &lock); // MARK emptied
        }
        items++;
        signals++;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *consume(void *argument) {
    (void)argument;
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&lock);
        while (items == 0) {
            waits++;
            pthread_cond_wait(&filled, &lock);
        }
        items--;
        if (items == 3)
            pthread_cond_broadcast(&emptied); // BROADCAST emptied
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *post(void *argument) {
    (void)argument;
    for (int i = 0; i < ITEMS; i++) {
        while (sem_wait(&empty) != 0) {
        }
        sem_post(&full);
    }
    return NULL;
}

static void *take(void *argument) {
    (void)argument;
    for (int i = 0; i < ITEMS; i++) {
        while (sem_wait(&full) != 0) {
        }
        sem_post(&empty);
    }
    return NULL;
}

static void handle(int number) {
    (void)number;
    sem_post(&full);
}

static void run(void *(*one)(void *), void *(*other)(void *)) {
    pthread_t thread[2 * THREADS];
    for (int i = 0; i < 2 * THREADS; i++)
        if (pthread_create(&thread[i], NULL, i % 2 ? one : other, NULL) != 0)
            abort();
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* 10 ms from now on. */
static const struct timespec *soon(void) {
    static struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 10 * 1000 * 1000;
    if (at.tv_nsec >= 1000 * 1000 * 1000) {
        at.tv_nsec -= 1000 * 1000 * 1000;
        at.tv_sec++;
    }
    return &at;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    int shared = strcmp(what, "shared semaphores") == 0;
    if (shared || strcmp(what, "semaphores") == 0) {
        sem_init(&full, shared, 0);  // MARK full
        sem_init(&empty, shared, 4); // MARK empty
        run(post, take);
        /* A try that fails, one that does not, a wait whose time is up, a signal handler. */
        if (sem_trywait(&full) == 0 || errno != EAGAIN || sem_trywait(&empty) != 0)
            abort();
        if (sem_timedwait(&full, soon()) == 0 || errno != ETIMEDOUT)
            abort();
        /* A time that is none: refused, though a unit is there. */
        struct timespec none = {0, -1};
        if (sem_timedwait(&empty, &none) == 0 || errno != EINVAL)
            abort();
        signal(SIGUSR1, handle);
        errno = 77;
        raise(SIGUSR1);
        if (errno != 77 || sem_wait(&full) != 0 || errno != 77)
            abort();
    } else {
#ifndef LINKED
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        if (strcmp(what, "shared conditions") == 0) {
            /* All of them are the C library's then. */
            pthread_mutexattr_t mutex;
            pthread_mutexattr_init(&mutex);
            pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
            pthread_mutex_init(&lock, &mutex);
            pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
            pthread_cond_init(&emptied, &attributes);
        }
        pthread_cond_init(&filled, &attributes); // MARK filled
#endif
        run(produce, consume);
        pthread_mutex_lock(&lock);
        waits++;
        if (pthread_cond_timedwait(&filled, &lock, soon()) != ETIMEDOUT)
            abort();
        pthread_mutex_unlock(&lock);
    }
    printf("%ld waits, %ld signals\n", waits, signals);
    return 3;
}
