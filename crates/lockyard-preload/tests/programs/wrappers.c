// Locks taken by functions that only pass them on, and by some that do not: see the test.
#include <stdbool.h>
#include <string.h>
#include "apart.h"

enum { TURNS = 1000 };

static pthread_mutex_t users = PTHREAD_MUTEX_INITIALIZER, orders = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t jumped = PTHREAD_MUTEX_INITIALIZER, handed = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t roomy = PTHREAD_MUTEX_INITIALIZER, mixed = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static volatile long count;

APART bool my_trylock(pthread_mutex_t *mutex)
{
    bool taken = pthread_mutex_trylock(mutex) == 0;
    STAYS;
    return taken;
}

// With a frame of no fixed size.
APART void enter(pthread_mutex_t *mutex, int bytes)
{
    char *room = __builtin_alloca(bytes);
    memset(room, 1, bytes);
    my_lock(mutex);
    count += room[bytes - 1];
}

APART void leave(pthread_mutex_t *mutex)
{
    my_unlock(mutex);
    STAYS;
}

APART void of_users(void)
{
    my_lock(&users);
    count++;
    my_unlock(&users);
    STAYS;
}

APART void of_orders(int turn)
{
    enter(&orders, 16 + turn % 100);
    count++;
    leave(&orders);
    STAYS;
}

APART void jumps(void)
{
    pthread_mutex_lock(&jumped);
    count++;
    pthread_mutex_unlock(&jumped);
}

APART void has_room(void)
{
    char room[20000];
    memset(room, count & 1, sizeof room);
    my_lock(&roomy);
    count += room[count & 1023];
    my_unlock(&roomy);
    STAYS;
}

APART void mixes(int turn)
{
    if (turn % 2) {
        MUST(my_trylock(&mixed));
    } else {
        my_lock(&mixed);
    }
    count++;
    my_unlock(&mixed);
    STAYS;
}

APART void my_read(pthread_rwlock_t *rwlock)
{
    MUST(pthread_rwlock_rdlock(rwlock) == 0);
    STAYS;
}

APART void my_write(pthread_rwlock_t *rwlock)
{
    MUST(pthread_rwlock_wrlock(rwlock) == 0);
    STAYS;
}

APART void my_leave(pthread_rwlock_t *rwlock)
{
    MUST(pthread_rwlock_unlock(rwlock) == 0);
    STAYS;
}

APART void of_table(void)
{
    my_read(&table);
    my_read(&table);
    my_leave(&table);
    my_leave(&table);
    my_write(&table);
    my_leave(&table);
    STAYS;
}

// Two functions ask for locks.
APART pthread_mutex_t *make(void)
{
    pthread_mutex_t *made = malloc(sizeof *made);
    MUST(made != NULL && pthread_mutex_init(made, NULL) == 0);
    return made;
}

APART pthread_mutex_t *open_store(void)
{
    pthread_mutex_t *made = make();
    count += 1;
    return made;
}

APART pthread_mutex_t *open_cache(void)
{
    pthread_mutex_t *made = make();
    count += 2;
    return made;
}

APART void uses(pthread_mutex_t *mutex)
{
    my_lock(mutex);
    count++;
    my_unlock(mutex);
    STAYS;
}

// Another thread gives it back.
APART void hands_over(void)
{
    my_lock(&handed);
    STAYS;
}

static void *gives_back(void *nothing)
{
    my_unlock(&handed);
    return nothing;
}

// The queue's mutex is given up, and taken again, inside another function.
static void my_wait(pthread_mutex_t *mutex)
{
    struct timespec past = { 1, 0 };
    MUST(pthread_cond_timedwait(&filled, mutex, &past) == ETIMEDOUT);
    STAYS;
}

APART void awaits(void)
{
    my_lock(&queue);
    my_wait(&queue);
    my_unlock(&queue);
    STAYS;
}

static void *works(void *nothing)
{
    pthread_mutex_t *store = open_store(), *cache = open_cache();
    // Not the first of all.
    hands_over();
    pthread_t other;
    MUST(pthread_create(&other, NULL, gives_back, NULL) == 0 && pthread_join(other, NULL) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        of_users();
        of_orders(turn);
        jumps();
        has_room();
        mixes(turn);
        of_table();
        uses(store);
        uses(cache);
        awaits();
    }
    return nothing;
}

int main(void)
{
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, works, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}
