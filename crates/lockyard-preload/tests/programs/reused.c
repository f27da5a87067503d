// Mutexes where others lay that were initialised by a call, and not destroyed.
#include "apart.h"

static pthread_mutex_t mutexes[2];
static volatile long count;

APART void make(pthread_mutex_t *mutex)
{
    MUST(pthread_mutex_init(mutex, NULL) == 0);
    STAYS;
}

APART void opens(void)
{
    make(&mutexes[0]);
    make(&mutexes[1]);
    STAYS;
}

APART void uses(void)
{
    my_lock(&mutexes[0]);
    count++;
    my_unlock(&mutexes[0]);
    STAYS;
}

APART void has_two(void)
{
    my_lock(&mutexes[1]);
    count++;
    my_unlock(&mutexes[1]);
    STAYS;
}

int main(void)
{
    opens();
    for (int i = 0; i < 2; i++)
        mutexes[i] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (int turn = 0; turn < 1000; turn++) {
        uses();
        has_two();
    }
    return 0;
}
