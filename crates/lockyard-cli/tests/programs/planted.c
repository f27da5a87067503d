// A program whose locks cost something known: `planted WHAT`. The test finds lines by their marks.
#include "plants.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t index_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t map = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both;
static atomic_int stop;
static volatile long count;

static void work(long turns)
{
    for (volatile long turn = 0; turn < turns; turn++)
        ;
}

// One thread of sixteen sleeps while it holds what the others need for a moment.
__attribute__((noinline)) static void *quick(void *nothing)
{
    while (!stop) {
        pthread_mutex_lock(&table); // MARK quick
        count++;
        pthread_mutex_unlock(&table);
        nap(500);
    }
    return nothing;
}

__attribute__((noinline)) static void *flusher(void *nothing)
{
    pthread_setname_np(pthread_self(), "flusher");
    for (int round = 0; round < 8; round++) {
        pthread_mutex_lock(&table); // MARK flusher
        nap(30000);
        pthread_mutex_unlock(&table);
        nap(20000);
    }
    stop = 1;
    return nothing;
}

// It gives the lock back to the one that waits for a moment, is faster than that one wakes up, and
// keeps it for long.
static atomic_int asked;

__attribute__((noinline)) static void *sleeper(void *nothing)
{
    while (!stop) {
        nap(20);
        if (atomic_exchange(&asked, 0)) {
            pthread_mutex_lock(&table); // MARK sleeper
            pthread_mutex_unlock(&table);
        }
    }
    return nothing;
}

__attribute__((noinline)) static void *retaker(void *nothing)
{
    for (int round = 0; round < 12; round++) {
        pthread_mutex_lock(&table);
        asked = 1;
        nap(200);
        pthread_mutex_unlock(&table);
        pthread_mutex_lock(&table); // MARK retaken
        nap(30000);
        pthread_mutex_unlock(&table);
        nap(5000);
    }
    stop = 1;
    return nothing;
}

// Two threads take two locks in two orders.
__attribute__((noinline)) static void *forth(void *nothing)
{
    pthread_mutex_lock(&table); // MARK forth first
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&index_lock); // MARK forth second
    return nothing;
}

__attribute__((noinline)) static void *back(void *nothing)
{
    pthread_mutex_lock(&index_lock); // MARK back first
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&table); // MARK back second
    return nothing;
}

// As `back`, but it gives up: longer than the command takes to look.
__attribute__((noinline)) static void *back_in_time(void *nothing)
{
    pthread_mutex_lock(&index_lock);
    pthread_barrier_wait(&both);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 5;
    if (pthread_mutex_timedlock(&table, &end) == 0) // MARK back in time
        pthread_mutex_unlock(&table);
    pthread_mutex_unlock(&index_lock);
    return nothing;
}

// Nothing happens but under the lock.
__attribute__((noinline)) static void *convoy(void *nothing)
{
    for (int round = 0; round < 1500; round++) {
        pthread_mutex_lock(&table); // MARK convoy
        work(60000); // long beside what a thread loses its CPU for
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

// The same, under a spinlock, which one thread holds for longer.
static pthread_spinlock_t cursor;

__attribute__((noinline)) static void *stepper(void *nothing)
{
    while (!stop) {
        pthread_spin_lock(&cursor); // MARK stepper
        work(500);
        pthread_spin_unlock(&cursor);
        work(500);
    }
    return nothing;
}

__attribute__((noinline)) static void *strider(void *nothing)
{
    for (int round = 0; round < 20; round++) {
        pthread_spin_lock(&cursor); // MARK strider
        nap(20000);
        pthread_spin_unlock(&cursor);
        nap(500);
    }
    stop = 1;
    return nothing;
}

// Threads take a lock, and in it another one, which one thread holds asleep.
static pthread_mutex_t entrance = PTHREAD_MUTEX_INITIALIZER, vault = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void *visitor(void *nothing)
{
    while (!stop) {
        pthread_mutex_lock(&entrance); // MARK visitor
        pthread_mutex_lock(&vault); // MARK inner
        count++;
        pthread_mutex_unlock(&vault);
        pthread_mutex_unlock(&entrance);
    }
    return nothing;
}

__attribute__((noinline)) static void *cashier(void *nothing)
{
    for (int round = 0; round < 40; round++) {
        pthread_mutex_lock(&vault); // MARK cashier
        nap(10000);
        pthread_mutex_unlock(&vault);
        nap(1000);
    }
    stop = 1;
    return nothing;
}

// At first one thread waits for the inner lock, and nobody for it; then threads sleep under the
// outer one.
__attribute__((noinline)) static void *guard(void *nothing)
{
    for (int round = 0; round < 20; round++) {
        pthread_mutex_lock(&entrance); // MARK guard
        nap(5000);
        pthread_mutex_unlock(&entrance);
        nap(500);
    }
    return nothing;
}

// A writer leaves the readers hardly a moment.
__attribute__((noinline)) static void *reader(void *nothing)
{
    while (!stop) {
        pthread_rwlock_rdlock(&map); // MARK reader
        count++;
        reader_unlock(&map);
        nap(100);
    }
    return nothing;
}

__attribute__((noinline)) static void *writer(void *nothing)
{
    for (int round = 0; round < 60; round++) {
        pthread_rwlock_wrlock(&map); // MARK writer
        nap(5000);
        writer_unlock(&map);
    }
    stop = 1;
    return nothing;
}

// Every thread has a lock of its own.
__attribute__((noinline)) static void *alone(void *nothing)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    for (int round = 0; round < 200000; round++) {
        pthread_mutex_lock(&own);
        work(20);
        pthread_mutex_unlock(&own);
    }
    return nothing;
}

// An interpreter with one lock for all threads, made of a condition variable.
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int taken;

__attribute__((noinline)) static void *interpret(void *nothing)
{
    for (int round = 0; round < 400; round++) {
        pthread_mutex_lock(&table);
        while (taken)
            pthread_cond_wait(&turn, &table);
        taken = 1;
        pthread_mutex_unlock(&table);
        work(400000);
        pthread_mutex_lock(&table);
        taken = 0;
        pthread_cond_signal(&turn);
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

// A child whose threads wait for each other is killed; the parent goes on for a while.
static void killed(void)
{
    pid_t child = fork();
    if (child == 0) {
        run(forth, 1, back, 1);
        _exit(0);
    }
    nap(300000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    pthread_mutex_lock(&table);
    pthread_mutex_unlock(&table);
    nap(2500000); // the command looks for deadlocks every two seconds
}

// A daemon that begins as root.
static int daemon_of_nobody(void)
{
    pthread_mutex_lock(&table);
    pthread_mutex_unlock(&table);
    if (setuid(65534) != 0)
        return 1;
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}

int main(int words, char **word)
{
    const char *what = words > 1 ? word[1] : "";
    pthread_barrier_init(&both, NULL, 2);
    if (!strcmp(what, "hold"))
        run(quick, THREADS - 1, flusher, 1);
    else if (!strcmp(what, "retaken"))
        run(sleeper, 1, retaker, 1);
    else if (!strcmp(what, "deadlock")) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // any process of this user may show its stacks
        run(forth, 1, back, 1);
    }
    else if (!strcmp(what, "circle"))
        run(forth, 1, back_in_time, 1);
    else if (!strcmp(what, "convoy"))
        run(convoy, FEW, NULL, 0);
    else if (!strcmp(what, "spins")) {
        pthread_spin_init(&cursor, PTHREAD_PROCESS_PRIVATE); // MARK cursor
        run(stepper, FEW, strider, 1);
    }
    else if (!strcmp(what, "nested"))
        run(visitor, FEW, cashier, 1);
    else if (!strcmp(what, "late")) {
        run(visitor, 1, cashier, 1);
        run(guard, FEW, NULL, 0);
    }
    else if (!strcmp(what, "readers"))
        run(reader, FEW, writer, 1);
    else if (!strcmp(what, "daemon"))
        return daemon_of_nobody();
    else if (!strcmp(what, "interpreter"))
        run(interpret, FEW, NULL, 0);
    else if (!strcmp(what, "killed"))
        killed();
    else if (!strcmp(what, "quiet"))
        run(alone, 2, NULL, 0);
    else
        return 2;
    puts("done");
    return 0;
}
