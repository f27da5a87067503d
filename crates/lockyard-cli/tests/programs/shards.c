// Locks of one class, of which threads want one: `shards uneven`. The test finds lines by their marks.
#include "plants.h"

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

int main(void)
{
    run(customer, FEW, NULL, 0);
    puts("done");
    return 0;
}
