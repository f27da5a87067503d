// A program that shuts itself in, takes locks for code without a file, and then forks: the kernel
// ends a process that opens a file.
#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
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

// Calls its first argument with its second one.
#ifdef __x86_64__
static const unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7,
                                      0xff, 0xd0, 0x48, 0x83, 0xc4, 8,    0xc3 };
#else
static const unsigned code[] = { 0xa9bf7bfd, 0xaa0003e2, 0xaa0103e0,
                                 0xd63f0040, 0xa8c17bfd, 0xd65f03c0 };
#endif
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
typedef int call(pthread_mutex_t *);
static int (*without_file)(call *, pthread_mutex_t *);

static void make_code(void)
{
    const int access = PROT_READ | PROT_WRITE;
    void *place = mmap(NULL, sizeof code, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(place != MAP_FAILED);
    memcpy(place, code, sizeof code);
    MUST(mprotect(place, sizeof code, PROT_READ | PROT_EXEC) == 0);
    __builtin___clear_cache(place, (char *)place + sizeof code);
    without_file = (int (*)(call *, pthread_mutex_t *))place;
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
    make_code();
    shut();
    MUST(without_file(pthread_mutex_lock, &other) == 0);
    MUST(without_file(pthread_mutex_unlock, &other) == 0);
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
