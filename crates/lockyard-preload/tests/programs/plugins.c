// Libraries, loaded and unloaded one after the other. Their paths are the arguments.
#include "check.h"

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        void *library = dlopen(words[i], RTLD_NOW);
        MUST(library != NULL);
        int (*plugin)(void) = (int (*)(void))dlsym(library, "plugin");
        MUST(plugin() / 1000 == ETIMEDOUT);
        MUST(dlclose(library) == 0);
    }
    return 0;
}
