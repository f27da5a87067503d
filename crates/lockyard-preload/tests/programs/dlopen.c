// A library with locks, loaded and unloaded again and again, by several threads. Its path is the
// argument.
#include "check.h"

static const char *path;

static void *load(void *unused)
{
    (void)unused;
    for (int i = 0; i < 200; i++) {
        void *library = dlopen(path, RTLD_NOW);
        MUST(library != NULL);
        int (*plugin)(void) = (int (*)(void))dlsym(library, "plugin");
        MUST(plugin() / 1000 == ETIMEDOUT);
        MUST(dlclose(library) == 0);
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[3];
    path = words[count - 1];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, load, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    puts("loaded and unloaded");
    return 0;
}
