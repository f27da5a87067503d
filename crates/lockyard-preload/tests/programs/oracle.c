// Random programs of pthread calls, result by result.
//
//   oracle make SEED STEPS [calm]    on glibc: invents a program, runs it, and writes it down with
//                                    every result; on standard error, how often which things
//                                    happened. Calm: no agent is stopped
//   oracle check                     under the library: reads that from standard input, runs it,
//                                    and says where the results differ
//
// A few agents (threads) do one call at a time, handed to them by futexes, not by pthread. A call
// that does not return is noted as such when its agent sleeps; the program goes on with the others,
// and notes which sleeping calls each later call has ended. Beside calls, these things happen:
//
// - A sleeping agent is stopped in a signal handler, and later let go on.
// - An agent ends with what it holds, and a new thread takes its place. What the dead one held
//   stays held until the program gives it up and takes a new object instead.
// - An agent forks. The child, where nobody else is, does calls of its own.
//
// Each program has one outcome; `oracle_rules.h` says what is left out for that.
//
// A line is `agent operation object mutex`, then ` = result` or ` sleeps`. It goes on with the
// calls of the child, after a fork, each behind a semicolon; and with the sleeping calls that
// returned, each behind a comma.
#include "oracle_rules.h"
#include <linux/futex.h>

static void futex(atomic_int *word, int op, int value)
{
    syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static _Thread_local struct agent *current;

static void stay(int signal)
{
    (void)signal;
    int saved = errno;
    current->stopped = 1;
    while (current->stop)
        futex(&current->stop, FUTEX_WAIT, 1);
    current->stopped = 0;
    errno = saved;
}

static void stop(struct agent *agent)
{
    agent->stop = 1;
    syscall(SYS_tgkill, getpid(), (int)agent->tid, SIGUSR1);
    while (!agent->stopped)
        sched_yield();
}

static void let_go_on(struct agent *agent)
{
    agent->has = agent->stop = 0;
    futex(&agent->stop, FUTEX_WAKE, 1);
    while (agent->stopped)
        sched_yield();
}

// What a child has to say, in memory that it shares with its parent: the calls it made up and their
// results, or where they differ from those in `script`, or where it hangs.
enum { WORDS = 4096 };
static char *told;
static const char *script;

static void invent(int i, int about);
static void replay(void);

// Forks; the child does some calls. Returns its exit status.
static int divide(int i, int a)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        if (script)
            replay();
        else
            invent(i, a);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static void *agent(void *argument)
{
    struct agent *self = current = argument;
    self->tid = (int)syscall(SYS_gettid);
    do {
        while (self->wanted == self->done)
            futex(&self->wanted, FUTEX_WAIT, self->done);
        if (self->op == FORK)
            self->result = divide((int)(self - agents), self->a);
        else if (self->op != END)
            self->result = self->b == PATIENT ? patient_call(self->op, self->a, self->b) : call(self->op, self->a, self->b);
        self->done++;
    } while (self->op != END);
    return NULL;
}

static void create(struct agent *self)
{
    self->tid = 0;
    MUST(pthread_create(&self->thread, NULL, agent, self) == 0);
    while (self->tid == 0)
        sched_yield();
}

static int is_done(struct agent *agent) { return agent->wanted == agent->done; }

// Has the agent do it; what is done to it from outside is done at once.
static void hand(struct agent *agent, enum op op, int a, int b)
{
    if (op == STOP) {
        stop(agent);
    } else if (op == GO_ON) {
        let_go_on(agent);
    } else {
        agent->op = op;
        agent->a = a;
        agent->b = b;
        agent->result = 0;
        agent->wanted++;
        futex(&agent->wanted, FUTEX_WAKE, 1);
        if (op == END) {
            pthread_join(agent->thread, NULL);
            create(agent);
        }
    }
}

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
static int limited(const struct agent *agent)
{
    if (agent->b == PATIENT)
        return 1;
    switch (agent->op) {
    case TIMEDLOCK_PAST: case TIMEDLOCK_SOON: case CLOCKLOCK_PAST: case CLOCKLOCK_SOON: case TIMEDLOCK_NEVER:
    case TIMEDRDLOCK: case TIMEDWRLOCK: case CLOCKWRLOCK: case SEM_TIMEDWAIT: case SEM_CLOCKWAIT:
    case COND_TIMEDWAIT_PAST: case COND_CLOCKWAIT_SOON: case FORK:
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
        seen = !limited(agent) && sleeps(agent) ? seen + 1 : 0;
        sched_yield();
    }
    return is_done(agent);
}

static void set_up(void)
{
    struct sigaction action = { .sa_handler = stay, .sa_flags = SA_RESTART };
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    told = mmap(NULL, WORDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(told != MAP_FAILED);
    for (int x = 0; x < OBJECTS; x++)
        MUST(renew(x) == 0);
    for (int i = 0; i < AGENTS; i++)
        create(&agents[i]);
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
    if (op <= SPIN_UNLOCK) return P;
    if (op != RENEW) return (int)random_below(OBJECTS);
    // Something that a dead agent holds.
    int first = (int)random_below(OBJECTS), n = 0;
    while (n < OBJECTS && !holds(DEAD, (first + n) % OBJECTS))
        n++;
    return (first + n) % OBJECTS;
}

static enum op pick_op(void)
{
    // Without a bias to unlocking, everything would be held and everybody asleep before long.
    if (random_below(4) == 0)
        return (enum op[]){ UNLOCK, RWUNLOCK, SEM_POST, COND_SIGNAL, SPIN_UNLOCK }[random_below(5)];
    enum op op = random_below(OPS);
    return (op == END || op == FORK) && random_below(4) ? LOCK : op;
}

// Makes up what the child of agent `i` does, above all to object `about`.
static void invent(int i, int about)
{
    char *end = told;
    alone(i);
    state += (unsigned long long)i + 1;
    for (int calls = 0, tries = 0; calls < 12 && tries < 1000; tries++) {
        enum op op = pick_op();
        int a = pick(op), b = M + (int)random_below(MUTEXES);
        if ((a != about && calls % 3 != 0) || op >= STOP || !allowed(i, op, a, b))
            continue;
        int result = call(op, a, b);
        note(i, op, a, b, result);
        end += sprintf(end, "; %d %d %d = %d", op, a, b, result);
        calls++;
    }
}

// What happened how often.
static int slept, stops, past_stopped, past_writer, asked_dead, forks_beside, in_children;

static void count(int i, enum op op, int a, int result)
{
    int takes = op == LOCK || op == RDLOCK || op == WRLOCK || op == SEM_WAIT || is_patient(op, a);
    int reads = op == RDLOCK || op == TRYRDLOCK || op == TIMEDRDLOCK;
    stops += op == STOP;
    past_stopped += takes && result == 0 && stopped_at(a) > 0;
    past_writer += reads && result == 0 && asleep_at(a) > 0 && !readers[a][i];
    asked_dead += op < STOP && holds(DEAD, a);
    for (int k = 0; k < AGENTS && op == FORK; k++)
        if (agents[k].asleep && holds(i, agents[k].a)) {
            forks_beside++;
            break;
        }
    for (const char *c = told; op == FORK && *c; c++)
        in_children += *c == ';';
}

// Has agent `i` do something, and writes the line.
static void step(int i, enum op op, int a, int b)
{
    // A wait gives up its mutex, if it gets so far.
    int gives_up = op == COND_WAIT && holder[b] == i + 1, from_outside = op == STOP || op == GO_ON;
    told[0] = 0;
    hand(&agents[i], op, a, b);
    printf("%d %d %d %d", i, op, a, b);
    if (from_outside || settle(&agents[i])) {
        int result = from_outside ? 0 : agents[i].result;
        printf(" = %d%s", result, op == FORK ? told : "");
        count(i, op, a, result);
        note(i, op, a, b, result);
    } else {
        printf(" sleeps");
        slept++;
        agents[i].asleep = 1;
        if (gives_up)
            holder[b] = depth[b] = 0;
    }
    for (int k = 0; k < AGENTS; k++)
        if (agents[k].asleep && !agents[k].stopped && (k != i || op == GO_ON) && settle(&agents[k])) {
            printf(", %d = %d", k, agents[k].result);
            agents[k].asleep = 0;
            note(k, agents[k].op, agents[k].a, agents[k].b, agents[k].result);
        }
    printf("\n");
}

static int make(unsigned long long seed, int steps, int calm)
{
    state = seed * 2 + 1;
    set_up();
    for (int done = 0, tries = 0; done < steps && tries < 100 * steps; tries++) {
        int i = (int)random_below(AGENTS), k = (int)random_below(AGENTS);
        enum op op = pick_op();
        int a = pick(op), b = M + (int)random_below(MUTEXES);
        unsigned about = agents[k].asleep ? random_below(5) : 4;
        if (about < 4)
            a = agents[k].asleep == 2 ? agents[k].b : agents[k].a;
        if (about < 2) {
            // Somebody who can end that sleep does so, or forks.
            op = a < R ? UNLOCK : a < S ? RWUNLOCK : a < C ? SEM_POST : COND_SIGNAL;
            for (int r = 0; r < AGENTS; r++)
                if (a < S && holds(r, a)) {
                    i = r;
                    op = random_below(8) ? op : FORK;
                }
        } else if (about < 4) {
            // Somebody else comes there.
            static const enum op first[] = { LOCK, RDLOCK, SEM_WAIT, COND_SIGNAL };
            int kind = (a >= R) + (a >= S) + (a >= C);
            static const unsigned some[] = { UNLOCK - LOCK, WRLOCK - RDLOCK, SEM_POST - SEM_WAIT, 2 };
            op = first[kind] + random_below(kind == 1 && random_below(2) ? RWUNLOCK - RDLOCK : some[kind]);
        }
        if (agents[i].asleep && !calm && random_below(3) == 0)
            op = agents[i].stopped ? GO_ON : STOP;
        else if (agents[i].asleep || op == STOP || op == GO_ON)
            continue;
        if (a == OBJECTS || !allowed(i, op, a, b))
            continue;
        step(i, op, a, is_patient(op, a) ? PATIENT : b);
        done++;
    }
    fprintf(stderr, "slept %d\nstops %d\npast_stopped %d\npast_writer %d\nasked_dead %d\nforks_beside %d\nin_children %d\n", slept, stops,
            past_stopped, past_writer, asked_dead, forks_beside, in_children);
    fflush(stdout);
    _exit(0);
}

static char program[1 << 16];

static void differs(int line, struct agent *agent, const char *what, int expected)
{
    printf("line %d: agent %d, %s(%d, %d): %s, expected %d, found %d%s\n", line, (int)(agent - agents), names[agent->op], agent->a, agent->b, what,
           expected, agent->result, is_done(agent) ? "" : " (has not returned)");
    if (*told)
        printf("in the child: %s\n", told);
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

// In a child: does what `script` says.
static void replay(void)
{
    int op, a, b, expected, used;
    for (int n = 1; sscanf(script, "; %d %d %d = %d%n", &op, &a, &b, &expected, &used) == 4; n++) {
        script += used;
        int length = sprintf(told, "call %d, %s(%d, %d): expected %d", n, names[op], a, b, expected);
        int found = call(op, a, b);
        if (found != expected) {
            sprintf(told + length, ", found %d", found);
            _exit(1);
        }
    }
    *told = 0;
}

static int check(void)
{
    size_t length = fread(program, 1, sizeof program - 1, stdin);
    char *rest = program + strlen(program), *at = program;
    (void)length;
    script = program;
    set_up();
    for (int line = 1; at < rest; line++) {
        int i, op, a, b, used, result, other;
        MUST(sscanf(at, "%d %d %d %d%n", &i, &op, &a, &b, &used) == 4);
        at += used;
        for (int k = 0; k < AGENTS; k++)
            if (agents[k].asleep && is_done(&agents[k]))
                differs(line, &agents[k], "returned too early", 0);
        script = at + strcspn(at, ";\n");
        hand(&agents[i], op, a, b);
        if (sscanf(at, " = %d%n", &result, &used) == 1) {
            at += used;
            if (op != STOP && op != GO_ON)
                expect(line, &agents[i], result);
            if (op == FORK)
                at += strcspn(at, "\n");
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
    int calm = count == 5 && strcmp(words[4], "calm") == 0;
    if (count == 4 + calm && strcmp(words[1], "make") == 0)
        return make(strtoull(words[2], NULL, 10), atoi(words[3]), calm);
    if (count == 2 && strcmp(words[1], "check") == 0)
        return check();
    fprintf(stderr, "oracle make SEED STEPS [calm] | oracle check\n");
    return 2;
}
