// A library loaded with RTLD_DEEPBIND and a mutex that it shares with the program. Argument: the
// library.
#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long count;
static void (*lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *);
enum { ROUNDS = 200000 };

static void *here(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static void *there(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        lock(&mutex);
        count++;
        unlock(&mutex);
    }
    return unused;
}

int main(int words, char **word)
{
    MUST(words == 2);
    MUST(dlopen("/no/such/library.so", RTLD_NOW | RTLD_DEEPBIND) == NULL && dlerror() != NULL);
    void *library = dlopen(word[1], RTLD_NOW | RTLD_DEEPBIND);
    MUST(library != NULL);
    *(void **)&lock = dlsym(library, "plugin_lock");
    *(void **)&unlock = dlsym(library, "plugin_unlock");
    MUST(lock != NULL && unlock != NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&threads[i], NULL, i % 2 ? here : there, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("counted %ld\n", count);
    return 0;
}
