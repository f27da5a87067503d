// On which clock a timed wait sleeps: a call that sleeps on the real-time clock ends when that clock is set past its time. The program watches its own child's
// system calls; to set the machine's clock it would need the right to.
#include "check.h"

#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#ifndef __x86_64__
int main(void)
{
    return 0;
}
#else
static sem_t semaphore;

static void call(int number)
{
    struct timespec real = in_ms(CLOCK_REALTIME, 30), monotonic = in_ms(CLOCK_MONOTONIC, 30);
    switch (number) {
    case 0:
        MUST(sem_timedwait(&semaphore, &real) == -1 && errno == ETIMEDOUT);
        break;
    case 1:
        MUST(sem_clockwait(&semaphore, CLOCK_REALTIME, &real) == -1 && errno == ETIMEDOUT);
        break;
    case 2:
        MUST(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &monotonic) == -1 && errno == ETIMEDOUT);
        break;
    }
}

// The clocks of the timed futex calls that the child makes: 1 monotonic, 2 real-time, 3 both.
static int watch(int number)
{
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        MUST(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        raise(SIGSTOP);
        call(number);
        _exit(0);
    }
    int status, seen = 0;
    MUST(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    for (int entry = 1;; entry = !entry) {
        MUST(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
        MUST(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status))
            break;
        MUST(WIFSTOPPED(status));
        struct user_regs_struct registers;
        MUST(ptrace(PTRACE_GETREGS, pid, NULL, &registers) == 0);
        if (entry && registers.orig_rax == SYS_futex && registers.r10 != 0)
            seen |= registers.rsi & FUTEX_CLOCK_REALTIME ? 2 : 1;
    }
    MUST(WEXITSTATUS(status) == 0);
    return seen;
}

int main(void)
{
    sem_init(&semaphore, 0, 0);
    const char *names[] = {"sem_timedwait", "sem_clockwait, real", "sem_clockwait, monotonic"};
    for (int i = 0; i < 3; i++)
        printf("%s: %d\n", names[i], watch(i));
    return 0;
}
#endif
