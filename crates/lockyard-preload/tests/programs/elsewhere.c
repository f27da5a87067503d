// A library, loaded and unloaded, each time at another address. Its path is the argument.
#include "check.h"
#include <sys/mman.h>

int main(int count, char **words)
{
    MUST(count == 2);
    void *before = NULL;
    for (int i = 0; i < 300; i++) {
        void *library = dlopen(words[1], RTLD_NOW);
        MUST(library != NULL);
        int (*plugin)(void) = (int (*)(void))dlsym(library, "plugin");
        MUST((void *)plugin != before);
        before = (void *)plugin;
        MUST(plugin() / 1000 == ETIMEDOUT);
        MUST(dlclose(library) == 0);
        // What lies there keeps the next one away.
        mmap((void *)((unsigned long)before & ~4095ul), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    static pthread_mutex_t last = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&last);
    pthread_mutex_unlock(&last);
    return 0;
}
