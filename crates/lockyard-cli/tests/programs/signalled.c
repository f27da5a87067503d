// A program whose threads wait for a mutex that a signal makes them need: `signalled WHAT`. The
// test finds lines by their marks.
#include "plants.h"

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static atomic_int stop;

// It waits for nobody but the teller, which keeps the lock after it has signalled.
static int told;

__attribute__((noinline)) static void *listener(void *nothing)
{
    pthread_mutex_lock(&table);
    while (!stop) {
        while (!told && !stop)
            pthread_cond_wait(&turn, &table); // MARK listener
        told = 0;
    }
    pthread_mutex_unlock(&table);
    return nothing;
}

__attribute__((noinline)) static void *teller(void *nothing)
{
    for (int round = 0; round < 8; round++) {
        nap(20000);
        pthread_mutex_lock(&table); // MARK teller
        told = 1;
        stop = round == 7;
        pthread_cond_signal(&turn);
        nap(30000);
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

// It waits for the lock when the program ends, and was put there by a signal.
static atomic_int listens;

__attribute__((noinline)) static void *left(void *nothing)
{
    pthread_mutex_lock(&table);
    listens = 1;
    while (!told)
        pthread_cond_wait(&turn, &table); // MARK left
    pthread_mutex_unlock(&table);
    return nothing;
}

__attribute__((noinline)) static void leaver(void)
{
    while (!listens)
        nap(100);
    pthread_mutex_lock(&table); // MARK leaver
    told = 1;
    pthread_cond_signal(&turn);
    nap(300000);
}

// Its time is up again and again while another has the lock.
__attribute__((noinline)) static void *poller(void *nothing)
{
    pthread_mutex_lock(&table);
    while (!stop) {
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec += end.tv_nsec >= 999000000;
        end.tv_nsec = (end.tv_nsec + 1000000) % 1000000000;
        pthread_cond_timedwait(&turn, &table, &end); // MARK poller
    }
    pthread_mutex_unlock(&table);
    return nothing;
}

__attribute__((noinline)) static void *keeper(void *nothing)
{
    for (int round = 0; round < 8; round++) {
        nap(5000);
        pthread_mutex_lock(&table); // MARK keeper
        nap(30000);
        pthread_mutex_unlock(&table);
    }
    stop = 1;
    return nothing;
}

// Two threads need two locks, of which one gives its own up only to be signalled.
__attribute__((noinline)) static void *signalled(void *nothing)
{
    pthread_mutex_lock(&index_lock); // MARK signalled first
    pthread_mutex_lock(&table);
    listens = 1;
    while (!told)
        pthread_cond_wait(&turn, &table); // MARK signalled second
    return nothing;
}

__attribute__((noinline)) static void *signaller(void *nothing)
{
    while (!listens)
        nap(100);
    pthread_mutex_lock(&table); // MARK signaller first
    told = 1;
    pthread_cond_signal(&turn);
    pthread_mutex_lock(&index_lock); // MARK signaller second
    return nothing;
}

// Woken together, they have the lock one after the other.
static int awake;

__attribute__((noinline)) static void *herded(void *nothing)
{
    pthread_mutex_lock(&table);
    for (int round = 0; round < 20; round++) {
        awake++;
        while (told == round)
            pthread_cond_wait(&turn, &table); // MARK herded
        nap(5000);
    }
    pthread_mutex_unlock(&table);
    return nothing;
}

__attribute__((noinline)) static void *herder(void *nothing)
{
    for (int round = 0; round < 20;) {
        nap(200);
        pthread_mutex_lock(&table);
        if (awake == FEW) {
            awake = 0;
            told = ++round;
            pthread_cond_broadcast(&turn);
        }
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

// The mutex goes to a thread that asked for it before the signal.
static atomic_int queues;

__attribute__((noinline)) static void *before(void *nothing)
{
    for (int round = 0; round < 8; round++) {
        while (!queues)
            nap(50);
        queues = 0;
        pthread_mutex_lock(&table); // MARK before
        nap(30000);
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

__attribute__((noinline)) static void *late(void *nothing)
{
    for (int round = 0; round < 8; round++) {
        nap(40000);
        pthread_mutex_lock(&table); // MARK late
        queues = 1;
        nap(2000);
        told = 1;
        stop = round == 7;
        pthread_cond_signal(&turn);
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

// On one CPU with the signaller, which does not sleep between its signal and its second lock, and
// which this thread does not preempt when it is woken.
__attribute__((noinline)) static void *patient(void *nothing)
{
    struct sched_param none = { .sched_priority = 0 };
    if (sched_setscheduler(0, SCHED_BATCH, &none) != 0)
        _exit(3);
    return listener(nothing);
}

static void share_a_cpu(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        _exit(3);
}

// The signaller takes it again before the signalled thread has a CPU.
__attribute__((noinline)) static void *again(void *nothing)
{
    for (int round = 0; round < 8; round++) {
        nap(20000);
        pthread_mutex_lock(&table);
        told = 1;
        stop = round == 7;
        pthread_cond_signal(&turn);
        pthread_mutex_unlock(&table);
        pthread_mutex_lock(&table); // MARK again
        nap(30000);
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

int main(int words, char **word)
{
    const char *what = words > 1 ? word[1] : "";
    if (!strcmp(what, "kept"))
        run(listener, 1, teller, 1);
    else if (!strcmp(what, "herd"))
        run(herded, FEW, herder, 1);
    else if (!strcmp(what, "before")) {
        pthread_t other;
        pthread_create(&other, NULL, before, NULL);
        run(listener, 1, late, 1);
        pthread_join(other, NULL);
    } else if (!strcmp(what, "again")) {
        share_a_cpu();
        run(patient, 1, again, 1);
    } else if (!strcmp(what, "left")) {
        pthread_t waiter;
        pthread_create(&waiter, NULL, left, NULL);
        leaver();
    } else if (!strcmp(what, "polled"))
        run(poller, 1, keeper, 1);
    else if (!strcmp(what, "deadlock"))
        run(signalled, 1, signaller, 1);
    else
        return 2;
    puts("done");
    return 0;
}
