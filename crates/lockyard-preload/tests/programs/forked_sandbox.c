// A program that shuts itself in, and then forks: the kernel ends a child that opens a file.
#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *take(void *unused)
{
    for (int i = 0; i < 1000; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
    return unused;
}

static void shut(void)
{
    struct sock_filter filter[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
                                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(void)
{
    take(NULL);
    shut();
    pid_t child = fork();
    if (child == 0) {
        take(NULL);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    puts("no file was opened");
    return 0;
}
