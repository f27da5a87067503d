// Loads a memcached server and checks every answer.
//
//   memcached-client PORT THREADS SECONDS
//
// Each thread owns keys that nobody else writes: a get must return exactly what was set last, or
// nothing (evicted). All threads share a few counters, incremented by the server: at the end each
// must be the sum of the increments acknowledged. Prints "OPERATIONS operations, SECONDS seconds,
// ERRORS errors".
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OWN = 2000, SHARED = 8, LONGEST = 1024 };
static int port, seconds;
static atomic_long operations, errors, incremented[SHARED];
static atomic_int stop;

struct connection { int socket; char buffer[8192]; size_t start, end; };

static void die(const char *what) { perror(what); exit(1); }

static struct connection *dial(void)
{
    struct connection *c = calloc(1, sizeof *c);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    c->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->socket, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
    return c;
}

static void say(struct connection *c, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t sent = write(c->socket, text, length);
        if (sent <= 0)
            die("write");
        text += sent;
        length -= (size_t)sent;
    }
}

static char next(struct connection *c)
{
    if (c->start == c->end) {
        ssize_t got = read(c->socket, c->buffer, sizeof c->buffer);
        if (got <= 0)
            die("the server closed the connection");
        c->start = 0;
        c->end = (size_t)got;
    }
    return c->buffer[c->start++];
}

// A line without its end.
static void line(struct connection *c, char *into, size_t room)
{
    size_t length = 0;
    for (char x; (x = next(c)) != '\n';)
        if (x != '\r' && length + 1 < room)
            into[length++] = x;
    into[length] = 0;
}

static size_t value(char *into, unsigned long key, unsigned version)
{
    size_t length = 16 + (key * 37 + version * 101) % (LONGEST - 16);
    for (size_t i = 0; i < length; i++)
        into[i] = (char)('a' + (key + version * 7 + i) % 26);
    return length;
}

static void *worker(void *id)
{
    struct connection *c = dial();
    unsigned versions[OWN] = { 0 };
    unsigned long random = (unsigned long)id * 7919 + 1;
    char request[LONGEST + 128], answer[LONGEST + 128], expected[LONGEST];
    long mine = 0;
    while (!stop) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        unsigned k = (unsigned)(random >> 33) % OWN;
        unsigned long key = (unsigned long)id * OWN + k;
        unsigned what = (unsigned)(random >> 55) % 16;
        mine++;
        if (what == 0) {
            unsigned s = k % SHARED;
            say(c, request, (size_t)sprintf(request, "incr shared%u 1\r\n", s));
            line(c, answer, sizeof answer);
            if (answer[0] >= '0' && answer[0] <= '9')
                incremented[s]++;
            else
                errors++;
        } else if (what <= 4 || versions[k] == 0) {
            size_t length = value(expected, key, ++versions[k]);
            size_t head = (size_t)sprintf(request, "set key%lu 0 0 %zu\r\n", key, length);
            memcpy(request + head, expected, length);
            memcpy(request + head + length, "\r\n", 2);
            say(c, request, head + length + 2);
            line(c, answer, sizeof answer);
            errors += strcmp(answer, "STORED") != 0;
        } else {
            say(c, request, (size_t)sprintf(request, "get key%lu\r\n", key));
            line(c, answer, sizeof answer);
            if (strcmp(answer, "END") == 0)
                continue;
            unsigned long found_key = 0;
            size_t found_length = 0, length = value(expected, key, versions[k]);
            if (sscanf(answer, "VALUE key%lu 0 %zu", &found_key, &found_length) != 2 || found_key != key || found_length != length)
                errors++;
            if (found_length >= sizeof answer)
                die("an answer that makes no sense");
            for (size_t i = 0; i < found_length; i++)
                answer[i] = next(c);
            errors += memcmp(answer, expected, length < found_length ? length : found_length) != 0;
            line(c, answer, sizeof answer);
            line(c, answer, sizeof answer);
            errors += strcmp(answer, "END") != 0;
        }
    }
    operations += mine;
    close(c->socket);
    free(c);
    return NULL;
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    port = atoi(words[1]);
    int threads = atoi(words[2]);
    seconds = atoi(words[3]);
    struct connection *c = dial();
    char text[256];
    for (int s = 0; s < SHARED; s++) {
        say(c, text, (size_t)sprintf(text, "set shared%d 0 0 1\r\n0\r\n", s));
        line(c, text, sizeof text);
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pthread_t *all = calloc((size_t)threads, sizeof *all);
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, worker, (void *)(i + 1));
    sleep((unsigned)seconds);
    stop = 1;
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (int s = 0; s < SHARED; s++) {
        say(c, text, (size_t)sprintf(text, "get shared%d\r\n", s));
        line(c, text, sizeof text);
        line(c, text, sizeof text);
        if (atol(text) != incremented[s]) {
            fprintf(stderr, "shared%d is %s, not %ld\n", s, text, (long)incremented[s]);
            errors++;
        }
        line(c, text, sizeof text);
    }
    printf("%ld operations, %.6f seconds, %ld errors\n", (long)operations, (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec),
           (long)errors);
    return errors != 0;
}
