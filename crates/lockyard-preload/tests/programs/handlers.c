// A child whose first handler locks. It is registered before the constructor of the preload library
// runs: where that of a library of the program does it, too.
#include "check.h"
#include <sys/wait.h>

static pthread_mutex_t inherited = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;

static void in_child(void)
{
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_init(&inherited, NULL);
        pthread_mutex_lock(&inherited);
        pthread_mutex_unlock(&inherited);
    }
}

static void early(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;

int main(void)
{
    int pipes[2];
    MUST(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        MUST(write(pipes[1], "x", 1) == 1);
        _exit(0);
    }
    char ready;
    MUST(read(pipes[0], &ready, 1) == 1);
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&own);
        pthread_mutex_unlock(&own);
    }
    waitpid(child, NULL, 0);
    return 0;
}
