//! `liblockyard_preload.so`: unmodified programs on Lockyard's locks.
//!
//! ```text
//! LD_PRELOAD=liblockyard_preload.so memcached …
//! ```
//!
//! It defines pthread's mutexes, reader-writer locks, condition variables and spinlocks, unnamed
//! semaphores, and C11's, in place of glibc's. The state lives in the object itself; there is no
//! table, no allocation, and nothing to initialise: an object of zeroes works, before `main` and
//! after its library's destructors.
//!
//! | file | what |
//! |---|---|
//! | `mutex`, `condvar`, `rwlock`, `semaphore`, `spin` | the calls, and which bytes of the object mean what |
//! | `c11` | `mtx_*`, `cnd_*`, and names with two underscores |
//! | `config`, `policies` | which lock serves which object |
//! | `environment` | what the environment says |
//! | `real` | glibc's functions, for what stays glibc's |
//! | `thread`, `holds` | what is known of each thread |
//! | `rank` | which threads have fixed priorities |
//! | `deadline` | the timed calls' clocks |
//! | `deepbind` | libraries that would bind glibc's locks past ours |
//! | `cancel`, `fork`, `atfork` | what POSIX asks of threads that end, of processes that divide |
//! | `counters` | what stayed glibc's, by reason |
//! | `watch` | what `lockyard stat` is told, lock by lock |
//! | `signals` | what `lockyard record` is told of condition variables and semaphores |
//! | `user` | processes that change their user, and their statistics |
//!
//! # Whose is an object?
//!
//! | object | whose |
//! |---|---|
//! | mutex: normal, adaptive, recursive, error-checking; private | ours |
//! | mutex: priority inheritance; private, not robust | with `LOCKYARD_MUTEX=rt` ours, else glibc's, counted |
//! | mutex: process-shared, robust, priority ceiling | glibc's, counted |
//! | rwlock, private, of any kind | ours; a thread that reads may read again, unless of the kind that says no |
//! | condition variable | its mutex's; process-shared: glibc's, counted |
//! | spinlock, private; `sem_init(…, 0, …)` | ours |
//! | process-shared spinlocks and semaphores, `sem_open` | glibc's, counted where they are made |
//! | barriers, `pthread_once`, locks inside glibc, raw futexes (Rust's std, Go, folly, abseil, HotSpot's monitors) | glibc's or their own: not seen |
//!
//! # Limits
//!
//! Waiters of fixed priorities (`SCHED_FIFO`, `SCHED_RR`) are served by them, as on glibc. See
//! `rank`.
//!
//! Linux, glibc 2.31 or later, x86-64 and AArch64 (measured on 2.36, x86-64). Programs linked
//! statically, and setuid programs, ignore preloads. Waits of threads beyond the 65,022 with a
//! record are naps. A thread with asynchronous cancellation may be cancelled where POSIX allows it
//! to be, which inside a mutex or rwlock call it does not. Not to be combined with sanitizers and
//! valgrind's thread tools, which stand in the same place.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lockyard::platform::linux::threads;

pub mod atfork;
pub mod c11;
pub mod cancel;
pub mod condvar;
mod config;
pub mod counters;
mod deadline;
pub mod deepbind;
mod environment;
mod fork;
mod holds;
pub mod mutex;
mod policies;
pub mod rank;
mod real;
pub mod rwlock;
pub mod semaphore;
mod signals;
pub mod spin;
mod thread;
pub mod user;
mod watch;

/// Runs when the library is loaded; nothing depends on it but forks with waiters, statistics, and
/// programs that later give up the right to open files.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = {
    extern "C" fn on_load() {
        atfork::register();
        threads::when_left(on_leave);
        rank::learn();
        user::look_up();
        publish();
        config::read_ahead();
    }
    on_load
};

/// Runs in a thread that ends, when its record is about to be another's.
fn on_leave() {
    thread::block().leave();
    lockyard_segment::left();
}

/// Makes lock events and the counts of `counters` readable from other processes, if `LOCKYARD_STAT`
/// asks for it, as `lockyard run` does. Objects made before are not in it.
fn publish() {
    // Constructors run in the reverse of the order in which libraries were loaded.
    if HAS_GIVEN_WAY.load(Relaxed) {
        return;
    }
    if environment::variable(c"LOCKYARD_STAT").is_some_and(|value| !matches!(value, b"" | b"0")) {
        // Refused: the program runs without statistics, and `lockyard stat` says that there are
        // none.
        if lockyard_segment::open(b"preload").is_ok() {
            config::watch();
            thread::block().slow_down();
        }
    }
}

/// Whether another library tells of this process.
static HAS_GIVEN_WAY: AtomicBool = AtomicBool::new(false);

/// For liblockyard or lockyard-stat in the same process, which tell of it in this library's place.
#[unsafe(no_mangle)]
pub extern "C" fn lockyard_preload_quit() {
    HAS_GIVEN_WAY.store(true, Relaxed);
    lockyard_segment::quit();
}

/// Runs when the process exits in the ordinary way.
#[used]
#[unsafe(link_section = ".fini_array")]
static ON_EXIT: extern "C" fn() = {
    extern "C" fn on_exit() {
        lockyard_segment::close();
    }
    on_exit
};
