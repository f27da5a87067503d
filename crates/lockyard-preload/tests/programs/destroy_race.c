// The next owner may destroy and free a lock as soon as it owns it, while the thread that released
// it is still inside the call. Each object has a page of its own, which becomes inaccessible:
// a thread that touches it too late ends the program.
#include "check.h"

struct object { pthread_mutex_t mutex; pthread_rwlock_t rwlock; sem_t sem; int references; };
enum { THREADS = 3, ROUNDS = 4000 };
static struct object *_Atomic current[3];
static pthread_barrier_t barrier;
static int freed;

static void finish(struct object *object)
{
    MUST(pthread_mutex_destroy(&object->mutex) == 0);
    MUST(pthread_rwlock_destroy(&object->rwlock) == 0);
    MUST(munmap(object, 4096) == 0);
    freed++;
}

static struct object *make(void)
{
    struct object *object = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(object != MAP_FAILED);
    object->references = THREADS;
    sem_init(&object->sem, 0, 1);
    return object;
}

static void *worker(void *id)
{
    for (int round = 0; round < ROUNDS; round++) {
        int kind = round % 3;
        if (id == NULL)
            current[kind] = make();
        pthread_barrier_wait(&barrier);
        struct object *object = current[kind];
        // Hold it once, so that the others wait in their several ways.
        for (int last = 0, pass = 0; pass < 2; pass++) {
            switch (kind) {
            case 0: pthread_mutex_lock(&object->mutex); break;
            case 1: pthread_rwlock_wrlock(&object->rwlock); break;
            case 2: while (sem_wait(&object->sem) != 0) ; break;
            }
            if (round % 16 == 0)
                sched_yield();
            if (pass == 1)
                last = --object->references == 0;
            switch (kind) {
            case 0: pthread_mutex_unlock(&object->mutex); break;
            case 1: pthread_rwlock_unlock(&object->rwlock); break;
            case 2: sem_post(&object->sem); break;
            }
            if (last)
                finish(object);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("freed %d\n", freed);
    return 0;
}
