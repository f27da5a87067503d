/* Functions that are not inlined, and two that only pass lock calls on. */
#ifndef APART_H
#define APART_H

#include "check.h"

#define APART __attribute__((noinline)) static
/* No jump in place of a call and a return. */
#define STAYS __asm__ volatile("")

APART void my_lock(pthread_mutex_t *mutex)
{
    MUST(pthread_mutex_lock(mutex) == 0);
    STAYS;
}

APART void my_unlock(pthread_mutex_t *mutex)
{
    MUST(pthread_mutex_unlock(mutex) == 0);
    STAYS;
}

#endif
