// A program that shuts itself in: the kernel ends it for a system call that glibc's locks do not
// make, from before its first lock on. All kinds of locks, contended.
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

static const int forbidden[] = { SYS_membarrier, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity, SYS_getpgid, SYS_gettid, SYS_getpid,
                                 SYS_getcpu, SYS_sched_getscheduler, SYS_sched_setscheduler, SYS_sched_getattr, SYS_sched_setattr, SYS_nanosleep,
                                 SYS_clock_nanosleep, SYS_openat, SYS_tgkill, SYS_tkill };
enum { COUNT = sizeof forbidden / sizeof *forbidden, THREADS = 6, ROUNDS = 4000 };

static void shut(void)
{
    struct sock_filter filter[2 * COUNT + 2] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
    int n = 1;
    for (int i = 0; i < COUNT; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { (unsigned short)n, filter };
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t sem;
static long counted, recursed, checked, written, spun, taken;
static volatile int sink;

static void hold(int rounds)
{
    for (int i = 0; i < rounds; i++)
        sink = i;
}

static void *contend(void *number)
{
    unsigned x = (unsigned)(intptr_t)number;
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 1103515245 + 12345;
        pthread_mutex_lock(&mutex);
        counted++;
        if ((x >> 16) % 64 == 0) {
            struct timespec at = in_ms(CLOCK_REALTIME, 1);
            pthread_cond_timedwait(&cond, &mutex, &at);
        }
        hold(x >> 16 & 1023);
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&cond);
        MUST(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
        recursed++;
        MUST(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        MUST(pthread_mutex_lock(&checking) == 0);
        checked++;
        MUST(pthread_mutex_unlock(&checking) == 0);
        if (x & 0x10000) {
            pthread_rwlock_rdlock(&rwlock);
        } else {
            pthread_rwlock_wrlock(&rwlock);
            written++;
        }
        hold(x >> 20 & 255);
        pthread_rwlock_unlock(&rwlock);
        pthread_spin_lock(&spin);
        spun++;
        // Now and then for longer than anybody spins.
        hold(i % 512 ? 16 : 2000000);
        pthread_spin_unlock(&spin);
        MUST(sem_wait(&sem) == 0);
        taken++;
        hold(64);
        MUST(sem_post(&sem) == 0);
    }
    return NULL;
}

static void *nothing(void *unused)
{
    return unused;
}

int main(void)
{
    // What glibc itself asks for at the first thread.
    pthread_t threads[THREADS];
    MUST(pthread_create(&threads[0], NULL, nothing, NULL) == 0 && pthread_join(threads[0], NULL) == 0);
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0 && sem_init(&sem, 0, 1) == 0);
    shut();
    // Twice: the second time with the records of those that have ended.
    for (int time = 0; time < 2; time++) {
        for (intptr_t i = 0; i < THREADS; i++)
            MUST(pthread_create(&threads[i], NULL, contend, (void *)(i + 1)) == 0);
        for (int i = 0; i < THREADS; i++)
            MUST(pthread_join(threads[i], NULL) == 0);
    }
    long all = 2L * THREADS * ROUNDS;
    MUST(counted == all && recursed == all && checked == all && spun == all && taken == all);
    MUST(written > 0 && written < all);
    puts("nothing was forbidden");
    return 0;
}
