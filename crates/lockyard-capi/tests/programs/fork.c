/* What the forking thread holds is the child's: it unlocks it and goes on, alone and with threads
 * of its own, also where threads of the parent wait. */
#define _POSIX_C_SOURCE 200809L
#include <lockyard.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIGHTERS = 5, FORKS = 15, OWN = 3, ROUNDS = 300 };

static ly_mutex_t mutex = LY_MUTEX_INIT;
static ly_rtmutex_t rtmutex = LY_RTMUTEX_INIT;
static ly_rwsem_t rwsem = LY_RWSEM_INIT;
static ly_sem_t sem = LY_SEM_INIT(1);
static ly_spinlock_t spin = LY_SPINLOCK_INIT;
static ly_hq_spinlock_t hq = LY_HQ_SPINLOCK_INIT;
static ly_qrwlock_t qrw = LY_QRWLOCK_INIT;

static int lock_mutex(void) { return ly_mutex_lock(&mutex); }
static int unlock_mutex(void) { return ly_mutex_unlock(&mutex); }
static int lock_rtmutex(void) { return ly_rtmutex_lock(&rtmutex); }
static int unlock_rtmutex(void) { return ly_rtmutex_unlock(&rtmutex); }
static int lock_rwsem(void) { return ly_rwsem_down_write(&rwsem); }
static int unlock_rwsem(void) { return ly_rwsem_up_write(&rwsem); }
static int lock_sem(void) { return ly_sem_wait(&sem); }
static int unlock_sem(void) { return ly_sem_post(&sem); }
static int lock_spin(void) { return ly_spin_lock(&spin); }
static int unlock_spin(void) { return ly_spin_unlock(&spin); }
static int lock_hq(void) { return ly_hq_spin_lock(&hq); }
static int unlock_hq(void) { return ly_hq_spin_unlock(&hq); }
static int lock_qrw(void) { return ly_qrwlock_write_lock(&qrw); }
static int unlock_qrw(void) { return ly_qrwlock_write_unlock(&qrw); }

static const struct kind {
    const char *name;
    int (*lock)(void);
    int (*unlock)(void);
} kinds[] = {
    {"mutex", lock_mutex, unlock_mutex}, {"rtmutex", lock_rtmutex, unlock_rtmutex}, {"rwsem", lock_rwsem, unlock_rwsem},
    {"sem", lock_sem, unlock_sem},       {"spin", lock_spin, unlock_spin},          {"hq", lock_hq, unlock_hq},
    {"qrwlock", lock_qrw, unlock_qrw},
};

static const struct kind *kind;
static _Atomic bool failed;
static volatile bool stop;
static long count;

static void turn(void)
{
    if (kind->lock())
        failed = true;
    count++;
    if (kind->unlock())
        failed = true;
}

static void *fight(void *nothing)
{
    while (!stop)
        turn();
    return nothing;
}

static void *own(void *nothing)
{
    for (int i = 0; i < ROUNDS; i++)
        turn();
    return nothing;
}

/* In the child: this thread holds the lock. */
static int child(void)
{
    pthread_t threads[OWN];
    alarm(30);
    if (kind->unlock())
        return 1;
    count = 0;
    own(NULL);
    for (int i = 0; i < OWN; i++)
        if (pthread_create(&threads[i], NULL, own, NULL))
            return 2;
    for (int i = 0; i < OWN; i++)
        pthread_join(threads[i], NULL);
    return failed || count != (OWN + 1) * ROUNDS ? 3 : 0;
}

int main(void)
{
    for (kind = kinds; kind < kinds + sizeof kinds / sizeof *kinds; kind++) {
        pthread_t threads[FIGHTERS];
        stop = false;
        for (int i = 0; i < FIGHTERS; i++)
            if (pthread_create(&threads[i], NULL, fight, NULL))
                return 1;
        for (int i = 0; i < FORKS; i++) {
            int status = 0;
            if (kind->lock())
                failed = true;
            pid_t pid = fork();
            if (pid == 0)
                _exit(child());
            if (kind->unlock() || failed || pid < 0 || waitpid(pid, &status, 0) != pid || status) {
                printf("%s: fork %d, status %#x\n", kind->name, i, (unsigned)status);
                return 1;
            }
        }
        stop = true;
        for (int i = 0; i < FIGHTERS; i++)
            pthread_join(threads[i], NULL);
    }
    puts("every child went on");
    return 0;
}
