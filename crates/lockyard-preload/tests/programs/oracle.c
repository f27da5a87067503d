// Random programs of pthread calls, result by result.
//
//   oracle make SEED STEPS    on glibc: invents a program, runs it, and writes it down with every
//                             result
//   oracle check              under the library: reads that from standard input, runs it, and says
//                             where the results differ
//
// A few agents (threads) do one call at a time, handed to them by futexes, not by pthread. A call
// that does not return is noted as such when its agent sleeps; the program goes on with the others,
// and notes which sleeping calls each later call has ended. While an agent sleeps at an object, the
// program does only such things to it as cannot make two agents race: so each program has one
// outcome. What POSIX leaves undefined is left out; whose turn it is among several sleepers is,
// too.
#include "check.h"
#include <linux/futex.h>

enum { AGENTS = 4, MUTEXES = 5, RWLOCKS = 2, SEMS = 2, CONDS = 2, SPINS = 1 };
enum { M = 0, R = M + MUTEXES, S = R + RWLOCKS, C = S + SEMS, P = C + CONDS, OBJECTS = P + SPINS };

static union { pthread_mutex_t mutex; pthread_rwlock_t rwlock; sem_t sem; pthread_cond_t cond; pthread_spinlock_t spin; } objects[OBJECTS];
static const int kinds[MUTEXES] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP,
                                    PTHREAD_MUTEX_ERRORCHECK };

enum op {
    LOCK, TRYLOCK, TIMEDLOCK_PAST, TIMEDLOCK_SOON, CLOCKLOCK_PAST, CLOCKLOCK_SOON, TIMEDLOCK_NEVER, UNLOCK, REINIT,
    RDLOCK, TRYRDLOCK, TIMEDRDLOCK, WRLOCK, TRYWRLOCK, TIMEDWRLOCK, CLOCKWRLOCK, RWUNLOCK,
    SEM_WAIT, SEM_TRYWAIT, SEM_TIMEDWAIT, SEM_CLOCKWAIT, SEM_POST, SEM_GETVALUE,
    COND_WAIT, COND_TIMEDWAIT_PAST, COND_CLOCKWAIT_SOON, COND_SIGNAL, COND_BROADCAST,
    SPIN_TRYLOCK, SPIN_LOCK, SPIN_UNLOCK, OPS
};
static const char *const names[OPS] = {
    "lock", "trylock", "timedlock_past", "timedlock_soon", "clocklock_past", "clocklock_soon", "timedlock_never", "unlock", "reinit",
    "rdlock", "tryrdlock", "timedrdlock", "wrlock", "trywrlock", "timedwrlock", "clockwrlock", "rwunlock",
    "sem_wait", "sem_trywait", "sem_timedwait", "sem_clockwait", "sem_post", "sem_getvalue",
    "cond_wait", "cond_timedwait_past", "cond_clockwait_soon", "cond_signal", "cond_broadcast",
    "spin_trylock", "spin_lock", "spin_unlock",
};

static int make_mutex(int m)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kinds[m - M]);
    return pthread_mutex_init(&objects[m].mutex, &attributes);
}

// One call. `a` is the object, `b` the mutex of a wait.
static int call(enum op op, int a, int b)
{
    struct timespec past = { 1, 0 }, never = { 1, 2000000000 };
    struct timespec soon = in_ms(CLOCK_REALTIME, 3), soon_monotonic = in_ms(CLOCK_MONOTONIC, 3);
    pthread_mutex_t *mutex = &objects[a].mutex, *second = &objects[b].mutex;
    pthread_rwlock_t *rwlock = &objects[a].rwlock;
    sem_t *sem = &objects[a].sem;
    int value = 0, result;
    errno = 0;
    switch (op) {
    case LOCK: return pthread_mutex_lock(mutex);
    case TRYLOCK: return pthread_mutex_trylock(mutex);
    case TIMEDLOCK_PAST: return pthread_mutex_timedlock(mutex, &past);
    case TIMEDLOCK_SOON: return pthread_mutex_timedlock(mutex, &soon);
    case CLOCKLOCK_PAST: return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &past);
    case CLOCKLOCK_SOON: return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &soon_monotonic);
    case TIMEDLOCK_NEVER: return pthread_mutex_timedlock(mutex, &never);
    case UNLOCK: return pthread_mutex_unlock(mutex);
    case REINIT: result = pthread_mutex_destroy(mutex); return result ? result : make_mutex(a);
    case RDLOCK: return pthread_rwlock_rdlock(rwlock);
    case TRYRDLOCK: return pthread_rwlock_tryrdlock(rwlock);
    case TIMEDRDLOCK: return pthread_rwlock_timedrdlock(rwlock, &past);
    case WRLOCK: return pthread_rwlock_wrlock(rwlock);
    case TRYWRLOCK: return pthread_rwlock_trywrlock(rwlock);
    case TIMEDWRLOCK: return pthread_rwlock_timedwrlock(rwlock, &past);
    case CLOCKWRLOCK: return pthread_rwlock_clockwrlock(rwlock, CLOCK_MONOTONIC, &past);
    case RWUNLOCK: return pthread_rwlock_unlock(rwlock);
    case SEM_WAIT: result = sem_wait(sem); return result ? errno : 0;
    case SEM_TRYWAIT: result = sem_trywait(sem); return result ? errno : 0;
    case SEM_TIMEDWAIT: result = sem_timedwait(sem, &past); return result ? errno : 0;
    case SEM_CLOCKWAIT: result = sem_clockwait(sem, CLOCK_MONOTONIC, &soon_monotonic); return result ? errno : 0;
    case SEM_POST: result = sem_post(sem); return result ? errno : 0;
    case SEM_GETVALUE: sem_getvalue(sem, &value); return value;
    case COND_WAIT: return pthread_cond_wait(&objects[a].cond, second);
    case COND_TIMEDWAIT_PAST: return pthread_cond_timedwait(&objects[a].cond, second, &past);
    case COND_CLOCKWAIT_SOON: return pthread_cond_clockwait(&objects[a].cond, second, CLOCK_MONOTONIC, &soon_monotonic);
    case COND_SIGNAL: return pthread_cond_signal(&objects[a].cond);
    case COND_BROADCAST: return pthread_cond_broadcast(&objects[a].cond);
    case SPIN_TRYLOCK: return pthread_spin_trylock(&objects[a].spin);
    case SPIN_LOCK: return pthread_spin_lock(&objects[a].spin);
    case SPIN_UNLOCK: return pthread_spin_unlock(&objects[a].spin);
    default: abort();
    }
}

// An agent: does call number `wanted`; `done` follows it.
static struct agent { atomic_int wanted, done; atomic_int tid; enum op op; int a, b, result; int asleep; } agents[AGENTS];

static void futex(atomic_int *word, int op, int value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void *agent(void *argument)
{
    struct agent *self = argument;
    self->tid = (int)syscall(SYS_gettid);
    for (;;) {
        while (self->wanted == self->done)
            futex(&self->wanted, FUTEX_WAIT, self->done);
        self->result = call(self->op, self->a, self->b);
        self->done++;
    }
    return NULL;
}

static void hand(struct agent *agent, enum op op, int a, int b)
{
    agent->op = op;
    agent->a = a;
    agent->b = b;
    agent->wanted++;
    futex(&agent->wanted, FUTEX_WAKE, 1);
}

static int is_done(struct agent *agent) { return agent->wanted == agent->done; }

static int sleeps(struct agent *agent)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)agent->tid);
    FILE *file = fopen(path, "r");
    char *end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file)
        fclose(file);
    return end && end[2] == 'S';
}

// Whether the call ends by itself. The kernel may call an agent asleep that lost its CPU on the way
// through a wait whose end has passed.
static int limited(enum op op)
{
    switch (op) {
    case TIMEDLOCK_PAST: case TIMEDLOCK_SOON: case CLOCKLOCK_PAST: case CLOCKLOCK_SOON: case TIMEDLOCK_NEVER:
    case TIMEDRDLOCK: case TIMEDWRLOCK: case CLOCKWRLOCK: case SEM_TIMEDWAIT: case SEM_CLOCKWAIT:
    case COND_TIMEDWAIT_PAST: case COND_CLOCKWAIT_SOON:
        return 1;
    default: return 0;
    }
}

// Waits until the agent has done its call, or sleeps in it: not for the moment, but whenever it is
// looked at.
static int settle(struct agent *agent)
{
    for (int seen = 0; seen < 5;) {
        if (is_done(agent))
            return 1;
        seen = !limited(agent->op) && sleeps(agent) ? seen + 1 : 0;
        sched_yield();
    }
    return is_done(agent);
}

static void set_up(void)
{
    for (int m = M; m < R; m++)
        make_mutex(m);
    pthread_rwlock_init(&objects[R].rwlock, NULL);
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&objects[R + 1].rwlock, &attributes);
    for (int s = S; s < C; s++)
        sem_init(&objects[s].sem, 0, s - S);
    pthread_spin_init(&objects[P].spin, 0);
    for (int i = 0; i < AGENTS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, agent, &agents[i]);
        while (agents[i].tid == 0)
            sched_yield();
    }
}

// What is known from the results so far.
static int holder[OBJECTS], depth[OBJECTS], readers[OBJECTS][AGENTS], asleep_at[OBJECTS];

static int recursive_or_checked(int m) { return kinds[m - M] == PTHREAD_MUTEX_RECURSIVE || kinds[m - M] == PTHREAD_MUTEX_ERRORCHECK; }

// Whether the call may be done now: see the top of the file.
static int allowed(int i, enum op op, int a, int b)
{
    int reading = 0;
    for (int r = 0; r < AGENTS; r++)
        reading += readers[a][r];
    switch (op) {
    case LOCK:
        // Its own normal mutex again: nobody would ever wake it.
        return !asleep_at[a] && (recursive_or_checked(a) || holder[a] != i + 1);
    case TRYLOCK: case TIMEDLOCK_PAST: case CLOCKLOCK_PAST: case TIMEDLOCK_NEVER:
        return 1;
    case TIMEDLOCK_SOON: case CLOCKLOCK_SOON:
        return !asleep_at[a];
    case UNLOCK:
        return recursive_or_checked(a) || holder[a] == i + 1;
    case REINIT:
        return !asleep_at[a] && holder[a] == 0;
    case RDLOCK: case TRYRDLOCK: case TIMEDRDLOCK:
        // The kind that prefers writers forbids it; past a writer that sleeps, only those who read
        // already.
        return a == R ? !asleep_at[a] || readers[a][i] : !asleep_at[a] && !readers[a][i];
    case WRLOCK:
        return !asleep_at[a] && !readers[a][i];
    case TRYWRLOCK: case TIMEDWRLOCK: case CLOCKWRLOCK:
        return !asleep_at[a] || reading;
    case RWUNLOCK:
        return holder[a] == i + 1 || readers[a][i];
    case SEM_WAIT: case SEM_CLOCKWAIT: case SEM_TIMEDWAIT: case SEM_TRYWAIT:
        return !asleep_at[a];
    case SEM_POST: case SEM_GETVALUE:
        return 1;
    case COND_WAIT:
        return !asleep_at[a] && (holder[b] == i + 1 ? depth[b] == 1 : recursive_or_checked(b));
    case COND_TIMEDWAIT_PAST: case COND_CLOCKWAIT_SOON:
        return !asleep_at[a] && !asleep_at[b] && (holder[b] == i + 1 ? depth[b] == 1 : recursive_or_checked(b));
    case COND_SIGNAL: case COND_BROADCAST:
        // A sleeper goes on to its mutex: nobody else may sleep there.
        for (int k = 0; k < AGENTS; k++)
            if (agents[k].asleep && agents[k].op == COND_WAIT && agents[k].a == a && asleep_at[agents[k].b])
                return 0;
        return 1;
    case SPIN_TRYLOCK: return 1;
    case SPIN_LOCK: return holder[a] == 0;
    case SPIN_UNLOCK: return holder[a] == i + 1;
    default: return 0;
    }
}

// Notes what a call that has returned means.
static void note(int i, enum op op, int a, int b, int result)
{
    switch (op) {
    case LOCK: case TRYLOCK: case TIMEDLOCK_PAST: case TIMEDLOCK_SOON: case CLOCKLOCK_PAST: case CLOCKLOCK_SOON: case TIMEDLOCK_NEVER:
        if (result == 0) {
            depth[a] = holder[a] == i + 1 ? depth[a] + 1 : 1;
            holder[a] = i + 1;
        }
        break;
    case UNLOCK:
        if (result == 0 && --depth[a] == 0)
            holder[a] = 0;
        break;
    case RDLOCK: case TRYRDLOCK: case TIMEDRDLOCK:
        readers[a][i] += result == 0;
        break;
    case WRLOCK: case TRYWRLOCK: case TIMEDWRLOCK: case CLOCKWRLOCK: case SPIN_LOCK: case SPIN_TRYLOCK:
        if (result == 0)
            holder[a] = i + 1;
        break;
    case RWUNLOCK:
        if (holder[a] == i + 1)
            holder[a] = 0;
        else
            readers[a][i]--;
        break;
    case SPIN_UNLOCK:
        holder[a] = 0;
        break;
    case COND_WAIT:
        if (result == 0)
            holder[b] = i + 1, depth[b] = 1;
        break;
    default:
        break;
    }
}

static unsigned long long state;
static unsigned random_below(unsigned bound)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % bound;
}

static int pick(enum op op)
{
    if (op <= REINIT) return M + (int)random_below(MUTEXES);
    if (op <= RWUNLOCK) return R + (int)random_below(RWLOCKS);
    if (op <= SEM_GETVALUE) return S + (int)random_below(SEMS);
    if (op <= COND_BROADCAST) return C + (int)random_below(CONDS);
    return P;
}

static void count_sleepers(void)
{
    memset(asleep_at, 0, sizeof asleep_at);
    for (int i = 0; i < AGENTS; i++)
        if (agents[i].asleep) {
            asleep_at[agents[i].a]++;
            // Signalled, and now at its mutex; or still to be: then it must not meet another there.
            if (agents[i].op == COND_WAIT && agents[i].asleep == 2)
                asleep_at[agents[i].b]++;
        }
}

static int make(unsigned long long seed, int steps)
{
    state = seed * 2 + 1;
    set_up();
    for (int step = 0; step < steps;) {
        int i = (int)random_below(AGENTS);
        enum op op = random_below(OPS);
        // Without a bias to unlocking, everything would be held and everybody asleep before long.
        if (random_below(4) == 0)
            op = (enum op[]){ UNLOCK, RWUNLOCK, SEM_POST, COND_SIGNAL, SPIN_UNLOCK }[random_below(5)];
        int a = pick(op), b = M + (int)random_below(MUTEXES), awake = 0;
        int k = (int)random_below(AGENTS);
        if (agents[k].asleep && random_below(2)) {
            // Somebody who can end that sleep does so.
            a = agents[k].asleep == 2 ? agents[k].b : agents[k].a;
            op = a < R ? UNLOCK : a < S ? RWUNLOCK : a < C ? SEM_POST : COND_SIGNAL;
            for (int r = 0; r < AGENTS; r++)
                if (a < S && (holder[a] == r + 1 || readers[a][r]))
                    i = r;
        }
        for (int r = 0; r < AGENTS; r++)
            awake += !agents[r].asleep;
        if (awake == 0)
            break;
        if (agents[i].asleep || !allowed(i, op, a, b))
            continue;
        // A wait gives up its mutex, if it gets so far.
        int gives_up = op == COND_WAIT && holder[b] == i + 1;
        hand(&agents[i], op, a, b);
        int done = settle(&agents[i]);
        printf("%d %d %d %d", i, op, a, b);
        if (done) {
            printf(" = %d", agents[i].result);
            note(i, op, a, b, agents[i].result);
        } else {
            printf(" sleeps");
            agents[i].asleep = 1;
            if (gives_up)
                holder[b] = depth[b] = 0;
        }
        if (op == COND_SIGNAL || op == COND_BROADCAST)
            for (int k = 0; k < AGENTS; k++)
                if (agents[k].asleep && agents[k].op == COND_WAIT && agents[k].a == a)
                    agents[k].asleep = 2;
        for (int k = 0; k < AGENTS; k++)
            if (k != i && agents[k].asleep && settle(&agents[k])) {
                printf(", %d = %d", k, agents[k].result);
                agents[k].asleep = 0;
                note(k, agents[k].op, agents[k].a, agents[k].b, agents[k].result);
            }
        printf("\n");
        count_sleepers();
        step++;
    }
    fflush(stdout);
    _exit(0);
}

static char program[1 << 16];

static void differs(int line, struct agent *agent, const char *what, int expected)
{
    printf("line %d: agent %d, %s(%d, %d): %s, expected %d, found %d%s\n", line, (int)(agent - agents), names[agent->op], agent->a, agent->b, what,
           expected, agent->result, is_done(agent) ? "" : " (has not returned)");
    printf("%s", program);
    fflush(stdout);
    _exit(1);
}

// Waits for a call that is expected to return; it has as long as the test's limit allows.
static void expect(int line, struct agent *agent, int expected)
{
    time_t start = time(NULL);
    while (!is_done(agent)) {
        if (time(NULL) - start > 20)
            differs(line, agent, "hangs", expected);
        sched_yield();
    }
    if (agent->result != expected)
        differs(line, agent, "result", expected);
}

static int check(void)
{
    size_t length = fread(program, 1, sizeof program - 1, stdin);
    char *rest = program + strlen(program), *at = program;
    (void)length;
    set_up();
    for (int line = 1; at < rest; line++) {
        int i, op, a, b, used, result, other;
        MUST(sscanf(at, "%d %d %d %d%n", &i, &op, &a, &b, &used) == 4);
        at += used;
        for (int k = 0; k < AGENTS; k++)
            if (agents[k].asleep && is_done(&agents[k]))
                differs(line, &agents[k], "returned too early", 0);
        hand(&agents[i], op, a, b);
        if (sscanf(at, " = %d%n", &result, &used) == 1) {
            at += used;
            expect(line, &agents[i], result);
        } else {
            MUST(strncmp(at, " sleeps", 7) == 0);
            at += 7;
            agents[i].asleep = 1;
            if (settle(&agents[i]))
                differs(line, &agents[i], "should sleep", 0);
        }
        while (sscanf(at, ", %d = %d%n", &other, &result, &used) == 2) {
            at += used;
            expect(line, &agents[other], result);
            agents[other].asleep = 0;
        }
        at++;
    }
    puts("same");
    fflush(stdout);
    _exit(0);
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "make") == 0)
        return make(strtoull(words[2], NULL, 10), atoi(words[3]));
    if (count == 2 && strcmp(words[1], "check") == 0)
        return check();
    fprintf(stderr, "oracle make SEED STEPS | oracle check\n");
    return 2;
}
