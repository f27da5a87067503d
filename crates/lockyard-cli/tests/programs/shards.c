// Locks of one class, of which threads want one: `shards one`, `shards forked`. The test finds
// lines by their marks.
#include "plants.h"

#include <sys/wait.h>

#define SHARDS 64
#define HOT 7

static pthread_mutex_t shard[SHARDS]; // zeros are as good as initialisers

__attribute__((noinline)) static void *customer(void *nothing)
{
    nap(1000); // until the others are there
    for (int round = 0; round < 1500; round++) {
        pthread_mutex_t *mine = &shard[round % 16 ? HOT : round / 16 % SHARDS];
        pthread_mutex_lock(mine); // MARK customer
        for (volatile int turn = 0; turn < 20000; turn++)
            ;
        pthread_mutex_unlock(mine);
    }
    return nothing;
}

// Each process has its own one.
__attribute__((noinline)) static void *worker(void *nothing)
{
    nap(1000);
    for (int round = 0; round < 500; round++) {
        pthread_mutex_lock(&shard[0]); // MARK worker
        for (volatile int turn = 0; turn < 20000; turn++)
            ;
        pthread_mutex_unlock(&shard[0]);
    }
    return nothing;
}

int main(int words, char **word)
{
    if (words > 1 && !strcmp(word[1], "forked")) {
        for (int children = 0; children < 2; children++)
            if (fork() == 0) {
                run(worker, FEW, NULL, 0);
                _exit(0);
            }
        run(worker, FEW, NULL, 0);
        while (wait(NULL) > 0)
            ;
    } else
        run(customer, FEW, NULL, 0);
    puts("done");
    return 0;
}
