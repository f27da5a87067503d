//! A process that shuts itself in: the kernel ends it for a system call that the C library's own
//! locks do not make, from before its threads' first lock on.

// This test is about the system's processes and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod child;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard::cancel::Until;
use lockyard::condvar::RawCondvar;
use lockyard::history::rwsem::{KernelRwSem, policy};
use lockyard::mutex::RawMutex;
use lockyard::platform::linux::Linux;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;
use lockyard::semaphore::RawSemaphore;
use lockyard::spin::hq::RawHqSpinLock;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_check::adapters::Binary;
use lockyard_check::lock::{Held, Lock};

use child::{crew, in_child};

const FORBIDDEN: [i64; 16] = [
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getpgid,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getcpu,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_openat,
    libc::SYS_tgkill,
];

/// From now on each of [`FORBIDDEN`] ends the process.
fn shut() -> bool {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    // The call's number is the first word of what a filter is shown.
    let mut filter = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for number in FORBIDDEN {
        filter.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32));
        filter.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    }
    filter.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: as the calls ask: numbers, and a program that lasts as long as the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

const THREADS: u32 = 6;
const ROUNDS: u32 = 2_000;

#[derive(Default)]
struct Scene {
    spin: RawQSpinLock<Linux>,
    hq: RawHqSpinLock<Linux>,
    mutex: RawMutex<Linux>,
    rwsem: RawRwSem<Linux>,
    kernels: KernelRwSem<Linux, policy::TodayKernel>,
    qrwlock: RawQRwLock<Linux>,
    semaphore: Binary<RawSemaphore<Linux>>,
    condvar: RawCondvar<Linux>,
    counts: [AtomicU32; 7],
}

fn held<L: Lock<P = Linux>>(lock: &L, count: &AtomicU32, round: u32) {
    let _held = Held::new(lock, L::WAYS[0]);
    let seen = count.load(Relaxed);
    // Now and then for longer than anybody spins.
    let length = if round.is_multiple_of(500) { 400_000 } else { 20 };
    for step in 0..length {
        std::hint::black_box(step);
    }
    count.store(seen + 1, Relaxed);
}

fn contend(scene: &Scene) {
    for round in 0..ROUNDS {
        held(&scene.spin, &scene.counts[0], round);
        held(&scene.hq, &scene.counts[1], round);
        held(&scene.mutex, &scene.counts[2], round);
        held(&scene.rwsem, &scene.counts[3], round);
        held(&scene.kernels, &scene.counts[4], round);
        held(&scene.qrwlock, &scene.counts[5], round);
        held(&scene.semaphore, &scene.counts[6], round);
        if round.is_multiple_of(64) {
            scene.mutex.acquire();
            // SAFETY: acquired above; all who wait do so with this mutex. Whether it was signalled
            // does not matter.
            let _ = unsafe { scene.condvar.wait(&scene.mutex, Until::after(50_000)) };
            // SAFETY: `wait` has acquired it.
            unsafe { scene.mutex.release() };
        }
        scene.condvar.signal();
    }
}

/// With threads of the C library, also because those of std ask for more when they begin.
fn run(scene: &Scene) {
    crew(|threads| (0..THREADS).for_each(|_| threads.spawn(|| contend(scene))));
}

#[test]
fn nothing_is_asked_of_the_kernel_that_the_c_librarys_locks_do_not_ask() {
    in_child(|| {
        lockyard::platform::read_ahead();
        if !shut() {
            return Err("no sandbox");
        }
        let scene = Scene::default();
        // The second time with the records of those that have ended.
        run(&scene);
        run(&scene);
        let all = |count: &AtomicU32| count.load(Relaxed) == 2 * THREADS * ROUNDS;
        scene.counts.iter().all(all).then_some(()).ok_or("a lock let two in")
    });
}
