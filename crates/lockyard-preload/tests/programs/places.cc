// Locks of more places than there are classes; of the last, some are waited for: see the test.
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <utility>

#define MUST(condition) ((condition) ? void() : abort())

enum { PLACES = 300 };

static pthread_mutex_t locks[PLACES], last;
static struct timespec past = { 1, 0 };

template <int N> __attribute__((noinline)) static void take()
{
    MUST(pthread_mutex_lock(&locks[N]) == 0);
    MUST(pthread_mutex_unlock(&locks[N]) == 0);
}

template <int... N> static void take_all(std::integer_sequence<int, N...>)
{
    (take<N>(), ...);
}

__attribute__((noinline)) static void waits(pthread_mutex_t *mutex)
{
    MUST(pthread_mutex_timedlock(mutex, &past) == ETIMEDOUT);
}

__attribute__((noinline)) static void takes_last()
{
    MUST(pthread_mutex_lock(&last) == 0);
    waits(&last);
    MUST(pthread_mutex_unlock(&last) == 0);
}

int main()
{
    take_all(std::make_integer_sequence<int, PLACES>());
    takes_last();
    return 0;
}
