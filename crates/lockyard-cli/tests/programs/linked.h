// liblockyard's locks under the names of the C library's: a program that is linked with them.
#include <lockyard.h>

#define pthread_mutex_t ly_mutex_t
#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER LY_MUTEX_INIT
#define pthread_mutex_lock ly_mutex_lock
#define pthread_mutex_timedlock ly_mutex_timedlock
#define pthread_mutex_unlock ly_mutex_unlock

#define pthread_rwlock_t ly_rwsem_t
#undef PTHREAD_RWLOCK_INITIALIZER
#define PTHREAD_RWLOCK_INITIALIZER LY_RWSEM_INIT
#define pthread_rwlock_rdlock ly_rwsem_down_read
#define pthread_rwlock_wrlock ly_rwsem_down_write
#define reader_unlock ly_rwsem_up_read
#define writer_unlock ly_rwsem_up_write

#define pthread_spinlock_t ly_spinlock_t
#define pthread_spin_init(lock, shared) ly_spin_init(lock)
#define pthread_spin_lock ly_spin_lock
#define pthread_spin_unlock ly_spin_unlock

#define pthread_cond_t ly_cond_t
#undef PTHREAD_COND_INITIALIZER
#define PTHREAD_COND_INITIALIZER LY_COND_INIT
#define pthread_cond_wait ly_cond_wait
#define pthread_cond_timedwait ly_cond_timedwait
#define pthread_cond_signal ly_cond_signal
#define pthread_cond_broadcast ly_cond_broadcast
