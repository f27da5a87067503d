// A program whose locks are a child's, or of the program that it was before exec, or are not seen:
// `processes WHAT`.
// The test finds lines by their marks.
#include "plants.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER, index_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static atomic_int stop;

// ---- of a child, whose first thread takes no lock

// No barrier is in sight of the first locks: both threads come to them at once.
__attribute__((noinline)) static void *forth(void *nothing)
{
    pthread_mutex_lock(&table); // MARK forth first
    nap(100000);
    pthread_mutex_lock(&index_lock); // MARK forth second
    return nothing;
}

__attribute__((noinline)) static void *back(void *nothing)
{
    pthread_mutex_lock(&index_lock); // MARK back first
    nap(100000);
    pthread_mutex_lock(&table); // MARK back second
    return nothing;
}

__attribute__((noinline)) static void *holder(void *nothing)
{
    pthread_setname_np(pthread_self(), "kidhog");
    pthread_mutex_lock(&table); // MARK holder
    pthread_barrier_wait(&both);
    nap(300000);
    pthread_mutex_unlock(&table);
    return nothing;
}

__attribute__((noinline)) static void *asker(void *nothing)
{
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&table); // MARK asker
    pthread_mutex_unlock(&table);
    return nothing;
}

static void *calm(void *nothing)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    for (int round = 0; round < 1000; round++) {
        pthread_mutex_lock(&own);
        pthread_mutex_unlock(&own);
    }
    return nothing;
}

static void child(void *(*first)(void *), void *(*second)(void *))
{
    pid_t child = fork();
    if (child == 0) {
        run(first, 1, second, 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

// A child that can open nothing by its first lock: out of descriptors, or in a sandbox.
static void shut(int is_sandbox)
{
    pthread_mutex_lock(&index_lock);
    pthread_mutex_unlock(&index_lock);
    pid_t child = fork();
    if (child == 0) {
        struct sock_filter allowed[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
        struct sock_fprog program = { 1, allowed };
        struct rlimit none = { 0, 0 };
        if (!is_sandbox && setrlimit(RLIMIT_NOFILE, &none) != 0)
            _exit(1);
        if (is_sandbox && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, 2, &program) != 0))
            _exit(1);
        run(holder, 1, asker, 1);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(1);
}

// Its threads wait for each other until it is killed.
static void killed(void)
{
    pid_t child = fork();
    if (child == 0) {
        run(forth, 1, back, 1);
        _exit(0);
    }
    nap(600000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

// ---- before exec

__attribute__((noinline)) static void *before(void *nothing)
{
    while (!stop) {
        pthread_mutex_lock(&table); // MARK before
        nap(10000);
        pthread_mutex_unlock(&table);
    }
    return nothing;
}

static void become(char *program, char *what)
{
    pthread_t threads[FEW];
    for (int at = 0; at < FEW; at++)
        pthread_create(&threads[at], NULL, before, NULL);
    nap(500000);
    stop = 1;
    for (int at = 0; at < FEW; at++)
        pthread_join(threads[at], NULL);
    execv(program, (char *[]){ program, what, NULL });
    exit(1);
}

// It gets out of a deadlock by becoming another program, which tells nothing if `environment` is
// empty.
static void get_out(char *program, char *what, char **environment)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, forth, NULL);
    pthread_create(&threads[1], NULL, back, NULL);
    nap(600000);
    execve(program, (char *[]){ program, what, NULL }, environment);
    exit(1);
}

// ---- little of which is seen

// The lock is its own: nobody sees it.
static atomic_flag own = ATOMIC_FLAG_INIT;
static volatile int turns;

static void *spinner(void *nothing)
{
    pthread_mutex_lock(&table);
    pthread_mutex_unlock(&table);
    while (!stop) {
        while (atomic_flag_test_and_set(&own))
            if (stop)
                return nothing;
        for (turns = 0; turns < 3000; turns++)
            ;
        atomic_flag_clear(&own);
    }
    return nothing;
}

static void spin(void)
{
    pthread_t threads[FEW];
    for (int at = 0; at < FEW; at++)
        pthread_create(&threads[at], NULL, spinner, NULL);
    nap(500000);
    stop = 1;
    for (int at = 0; at < FEW; at++)
        pthread_join(threads[at], NULL);
}

// The program ends while one waits. The holder has never waited for a lock.
static void *stuck(void *nothing)
{
    pthread_setname_np(pthread_self(), "stuck");
    pthread_mutex_lock(&table);
    pthread_barrier_wait(&both);
    nap(60000000);
    return nothing;
}

static void end_stuck(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, stuck, NULL);
    pthread_create(&threads[1], NULL, asker, NULL);
    nap(600000);
    puts("done");
    exit(0);
}

int main(int words, char **word)
{
    const char *what = words > 1 ? word[1] : "";
    pthread_barrier_init(&both, NULL, 2);
    if (!strcmp(what, "killed"))
        killed();
    else if (!strcmp(what, "hold"))
        child(holder, asker);
    else if (!strcmp(what, "calm child"))
        child(calm, calm);
    else if (!strcmp(what, "calm"))
        run(calm, 1, calm, 1);
    else if (!strcmp(what, "becomes calm"))
        become(word[0], "calm");
    else if (!strcmp(what, "becomes limited")) {
        struct rlimit less = { 1 << 20, 1 << 20 };
        setrlimit(RLIMIT_FSIZE, &less);
        become(word[0], "calm");
    }
    else if (!strcmp(what, "becomes nothing"))
        become(word[0], "nothing");
    else if (!strcmp(what, "gets out"))
        get_out(word[0], "calm", environ);
    else if (!strcmp(what, "gets out quietly"))
        get_out(word[0], "lingers", (char *[]){ NULL });
    else if (!strcmp(what, "lingers"))
        nap(1000000);
    else if (!strcmp(what, "no files") || !strcmp(what, "sandbox"))
        shut(!strcmp(what, "sandbox"));
    else if (!strcmp(what, "spin"))
        spin();
    else if (!strcmp(what, "stuck"))
        end_stuck();
    else if (strcmp(what, "nothing") != 0)
        return 2;
    puts("done");
    return 0;
}
