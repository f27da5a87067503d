// What may be done when, so that a program has one outcome, on glibc and on ours: see `oracle.c`.
//
// What POSIX leaves undefined is left out; whose turn it is among several sleepers that can run is,
// too. A sleeper that cannot run, because it is stopped, or because this is the child of a fork and
// it is in the parent, is in nobody's way: the others may come, sleep, and be served.
//
// That holds with these limits:
//
// - Our library keeps a free lock for a waiter that it woke; if that one is stopped, until 1.6 ms
//   after somebody was refused it. (Spinlocks tell the time modulo 8 ms, and may take old for new.)
//   A call that does not wait is PATIENT there: while it is refused the agent naps, and does it
//   again, a few times.
// - A running reader of ours may pass a writer that sleeps, until it has had a CPU after 0.4 ms,
//   though the lock prefers writers. There the agent naps before.
// - glibc's rwlock counts a waiting reader in when a writer releases, and a waiting writer when the
//   last reader does, whether it runs or not: from then on until it has gone on, it `has` the lock.
//   Where writers are preferred, the next writer has it, too, when a writer releases. Ours is free
//   for others, and either is right: calls that would tell are left out.
// - On glibc, the child of a fork does not own the recursive and error-checking mutexes, and the
//   rwlocks held for writing, of the thread that forked; on ours it does. They are left out there.
#include "oracle_calls.h"

// What is known from the results so far. `holder`: an agent's number and one; all that ended are
// agent DEAD; 0: nobody.
enum { DEAD = AGENTS };
static int holder[OBJECTS], depth[OBJECTS], readers[OBJECTS][AGENTS + 1], left_out[OBJECTS], in_child;

static int holds(int i, int x) { return holder[x] == i + 1 || readers[x][i]; }

static int reading(int x)
{
    int count = 0;
    for (int r = 0; r <= DEAD; r++)
        count += readers[x][r];
    return count;
}

// Whether the agent sleeps there; it may be at the mutex of its wait.
static int sleeps_at(int k, int x) { return agents[k].asleep && (agents[k].a == x || (agents[k].asleep == 2 && agents[k].b == x)); }

// How many sleep there that can run, and how many that cannot.
static int asleep_at(int x)
{
    int count = 0;
    for (int k = 0; k < AGENTS; k++)
        count += sleeps_at(k, x) && !agents[k].stopped;
    return count;
}

static int stopped_at(int x)
{
    int count = 0;
    for (int k = 0; k < AGENTS; k++)
        count += sleeps_at(k, x) && agents[k].stopped;
    return count;
}

// Whether anybody sleeps there, or will.
static int needed(int x)
{
    for (int k = 0; k < AGENTS; k++)
        if (agents[k].asleep && (agents[k].a == x || (agents[k].op == COND_WAIT && agents[k].b == x)))
            return 1;
    return 0;
}

// Whether, on glibc, somebody who sleeps there in this call, and is not agent `i`, has the lock.
static int had(int i, int x, enum op op)
{
    for (int k = 0; k < AGENTS; k++)
        if (k != i && sleeps_at(k, x) && agents[k].has && agents[k].op == op)
            return 1;
    return 0;
}

// Whether a writer who comes to those who are stopped there will find glibc's rwlock as ours.
static int may_write(int i, int x)
{
    for (int k = 0; k < AGENTS; k++)
        if (k != i && sleeps_at(k, x) && agents[k].stopped && (agents[k].op == RDLOCK || agents[k].has || reading(x)))
            return 0;
    return 1;
}

// Whether agent `i` may do the call now.
static int allowed(int i, enum op op, int a, int b)
{
    if (left_out[a] || (op >= COND_WAIT && op <= COND_CLOCKWAIT_SOON && left_out[b]))
        return 0;
    switch (op) {
    case LOCK:
        // Its own normal mutex again, or one of the dead: nobody would ever wake it.
        return !asleep_at(a) && holder[a] != DEAD + 1 && (checks_owner(a) || holder[a] != i + 1);
    case TRYLOCK: case TIMEDLOCK_PAST: case CLOCKLOCK_PAST: case TIMEDLOCK_NEVER:
        return 1;
    case TIMEDLOCK_SOON: case CLOCKLOCK_SOON:
        return !asleep_at(a);
    case UNLOCK:
        return checks_owner(a) || holder[a] == i + 1;
    case REINIT:
        return !needed(a) && holder[a] == 0;
    case RDLOCK:
        if (holder[a] == DEAD + 1 || (is_strict(a) && asleep_at(a)) || (kinds[a] != PTHREAD_RWLOCK_PREFER_READER_NP && stopped_at(a) && !reading(a)))
            return 0;
        // Fall through.
    case TRYRDLOCK: case TIMEDRDLOCK:
        // The kind that prefers writers: not again, and not past a writer that sleeps.
        if (is_strict(a))
            return !readers[a][i] && !stopped_at(a) && (!asleep_at(a) || reading(a));
        return (!asleep_at(a) || reading(a)) && !had(i, a, WRLOCK);
    case WRLOCK:
        return !asleep_at(a) && !readers[a][i] && !readers[a][DEAD] && holder[a] != DEAD + 1 && may_write(i, a);
    case TRYWRLOCK: case TIMEDWRLOCK: case CLOCKWRLOCK:
        return (!asleep_at(a) || reading(a)) && !had(i, a, RDLOCK) && !had(i, a, WRLOCK);
    case RWUNLOCK:
        return holds(i, a);
    case SEM_WAIT: case SEM_CLOCKWAIT: case SEM_TIMEDWAIT: case SEM_TRYWAIT:
        return !asleep_at(a) && !(in_child && op == SEM_WAIT && call(SEM_GETVALUE, a, b) == 0);
    case SEM_POST: case SEM_GETVALUE:
        return 1;
    case COND_WAIT:
        return !needed(a) && !in_child && (holder[b] == i + 1 ? depth[b] == 1 : checks_owner(b));
    case COND_TIMEDWAIT_PAST: case COND_CLOCKWAIT_SOON:
        return !needed(a) && !asleep_at(b) && (holder[b] == i + 1 ? depth[b] == 1 : checks_owner(b));
    case COND_SIGNAL: case COND_BROADCAST:
        // A sleeper goes on to its mutex: nobody else may sleep there.
        for (int k = 0; k < AGENTS; k++)
            if (agents[k].asleep && agents[k].op == COND_WAIT && agents[k].a == a && !agents[k].stopped && asleep_at(agents[k].b))
                return 0;
        return 1;
    case SPIN_TRYLOCK: return 1;
    case SPIN_LOCK: return holder[a] == 0;
    case SPIN_UNLOCK: return holder[a] == i + 1;
    case STOP: return agents[i].asleep && !agents[i].stopped;
    case GO_ON:
        // As if it came now.
        a = agents[i].asleep == 2 ? agents[i].b : agents[i].a;
        return agents[i].stopped && (agents[i].has || (!asleep_at(a) && (agents[i].op != WRLOCK || may_write(i, a))));
    case END:
        for (int x = 0; x < OBJECTS; x++)
            if (holds(i, x) && needed(x))
                return 0;
        return 1;
    case RENEW:
        for (int k = 0; k < AGENTS; k++)
            if (readers[a][k])
                return 0;
        return holds(DEAD, a) && !needed(a) && used < POOL;
    case FORK: return 1;
    default: return 0;
    }
}

// Whether the call is to be patient: see the top of the file.
static int is_patient(enum op op, int a)
{
    switch (op) {
    case TRYLOCK: case TIMEDLOCK_PAST: case CLOCKLOCK_PAST: case TIMEDLOCK_NEVER: case TIMEDLOCK_SOON: case CLOCKLOCK_SOON:
    case TRYWRLOCK: case TIMEDWRLOCK: case CLOCKWRLOCK: case SEM_CLOCKWAIT: case SEM_TIMEDWAIT: case SEM_TRYWAIT:
        return stopped_at(a);
    case TRYRDLOCK: case TIMEDRDLOCK:
        // A running reader may pass a writer for 0.4 ms, of whatever kind the lock is.
        return stopped_at(a) || (is_strict(a) && asleep_at(a));
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
    case RWUNLOCK: {
        int wrote = holder[a] == i + 1;
        if (wrote)
            holder[a] = 0;
        else
            readers[a][i]--;
        int is_free = reading(a) == 0 && !had(-1, a, RDLOCK);
        for (int k = 0; k < AGENTS; k++)
            if (is_free && sleeps_at(k, a) && agents[k].stopped)
                agents[k].has = kinds[a] != PTHREAD_RWLOCK_PREFER_READER_NP || agents[k].op == (wrote ? RDLOCK : WRLOCK);
        break;
    }
    case SPIN_UNLOCK:
        holder[a] = 0;
        break;
    case COND_WAIT:
        if (result == 0)
            holder[b] = i + 1, depth[b] = 1;
        break;
    case COND_SIGNAL: case COND_BROADCAST:
        for (int k = 0; k < AGENTS; k++)
            if (agents[k].asleep && agents[k].op == COND_WAIT && agents[k].a == a)
                agents[k].asleep = 2;
        break;
    case END:
        for (int x = 0; x < OBJECTS; x++) {
            holder[x] = holder[x] == i + 1 ? DEAD + 1 : holder[x];
            readers[x][DEAD] += readers[x][i];
            readers[x][i] = 0;
        }
        break;
    case RENEW:
        holder[a] = depth[a] = readers[a][DEAD] = 0;
        break;
    default:
        break;
    }
}

// In the child of agent `i`'s fork: the others are not there. What they held stays held, and those
// who sleep never go on.
static void alone(int i)
{
    in_child = 1;
    for (int k = 0; k < AGENTS; k++) {
        if (k != i)
            note(k, END, 0, 0, 0);
        agents[k].stopped = agents[k].asleep;
    }
    for (int x = 0; x < S; x++)
        left_out[x] = holder[x] == i + 1 && (x >= R || checks_owner(x));
}
