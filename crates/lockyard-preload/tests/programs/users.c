// Root's program becomes another user's, for a time or for good: the owner of its segment of
// statistics after each call. Run with LOCKYARD_STAT=1.
#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>

enum { NOBODY = 65534, SAME = -1 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char segment[64];

// What a call returned, and the owner of the file at the segment's name, -1: none.
static void tell(const char *call, int result)
{
    struct stat found;
    MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    printf("%s = %d: %d\n", call, result, stat(segment, &found) == 0 ? (int)found.st_uid : -1);
}
#define TELL(call) tell(#call, call)

static void refuse(int number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void *count(void *unused)
{
    for (int i = 0; i < 1000; i++)
        MUST(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

int main(int words, char **word)
{
    if (geteuid() != 0) {
        puts("skipped: only root's programs can become others'");
        return 0;
    }
    const char *how = words > 1 ? word[1] : "";
    snprintf(segment, sizeof segment, "/dev/shm/lockyard.%d", (int)getpid());
    TELL(geteuid());
    if (!strcmp(how, "for a time")) {
        TELL(seteuid(NOBODY));
        TELL(seteuid(0));
        TELL(setreuid(SAME, NOBODY));
        TELL(setreuid(SAME, 0));
        TELL(setreuid(NOBODY, SAME));
        TELL(setreuid(0, SAME));
        TELL(setresuid(SAME, NOBODY, SAME));
        TELL(setresuid(SAME, 0, SAME));
        TELL(setresuid(NOBODY, NOBODY, SAME));
        TELL(setresuid(0, 0, 0));
        TELL(setuid(0));
        TELL(setresuid(SAME, SAME, SAME));
        // Root's ids are all there, the right is not.
        TELL(setresuid(SAME, SAME, NOBODY));
        struct { unsigned version; int pid; } header = { 0x20080522, 0 };
        unsigned sets[6];
        MUST(syscall(SYS_capget, &header, sets) == 0);
        sets[0] &= ~(1u << 7); // CAP_SETUID
        MUST(syscall(SYS_capset, &header, sets) == 0);
        TELL(setuid(NOBODY));
        TELL(seteuid(0));
    } else if (!strcmp(how, "setuid")) {
        TELL(setuid(NOBODY));
    } else if (!strcmp(how, "setreuid")) {
        TELL(setreuid(NOBODY, NOBODY));
    } else if (!strcmp(how, "setresuid")) {
        TELL(setresuid(NOBODY, NOBODY, NOBODY));
    } else if (!strcmp(how, "keeping rights")) {
        MUST(prctl(PR_SET_KEEPCAPS, 1) == 0);
        TELL(setuid(NOBODY));
    } else if (!strcmp(how, "refused")) {
        refuse(SYS_setuid);
        int result = setuid(NOBODY);
        MUST(result == -1 && errno == ENOMEM);
        tell("setuid, refused", result);
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, count, NULL) == 0 && pthread_join(thread, NULL) == 0);
        count(NULL);
    } else if (!strcmp(how, "another file")) {
        MUST(unlink(segment) == 0);
        int file = open(segment, O_CREAT | O_EXCL | O_WRONLY, 0600);
        MUST(file >= 0);
        TELL(setuid(NOBODY));
    } else if (!strcmp(how, "another name")) {
        // One that the next process removes: no process has that number.
        unlink("/dev/shm/lockyard.4194305");
        MUST(link(segment, "/dev/shm/lockyard.4194305") == 0);
        TELL(setuid(NOBODY));
    }
    return 0;
}
