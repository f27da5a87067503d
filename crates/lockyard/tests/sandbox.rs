//! Processes whose system calls are refused. One shuts itself in: the kernel ends it for a call
//! that the C library's own locks do not make, from before its threads' first lock on. Others are
//! started with a call that fails, as on old kernels and in containers: each lock does without.

// This test is about the system's processes and threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod child;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

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

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Loads a word of what a filter is shown: the call's number is at 0, its arguments from 16 on.
fn word(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
}

/// Goes on if the word is `number`, else past the next `past` steps.
fn is(number: u32, past: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, past, number)
}

fn ends(with: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, 0, 0, with)
}

/// From now on this process, and what it executes, is filtered.
fn shut(filter: &mut [libc::sock_filter]) -> bool {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: as the calls ask: numbers, and a program that lasts as long as the call.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// Each of [`FORBIDDEN`] ends the process.
fn deadly() -> Vec<libc::sock_filter> {
    let mut filter = vec![word(0)];
    for number in FORBIDDEN {
        filter.extend([is(number as u32, 1), ends(libc::SECCOMP_RET_KILL_PROCESS)]);
    }
    filter.push(ends(libc::SECCOMP_RET_ALLOW));
    filter
}

/// The call with `number` fails with `error`: always, or with the argument `masked.0` if that is
/// `masked.2` under the mask `masked.1`.
fn refusing(number: i64, masked: Masked, error: i32) -> Vec<libc::sock_filter> {
    let fails = ends(libc::SECCOMP_RET_ERRNO | error as u32);
    let mut filter = vec![word(0)];
    match masked {
        None => filter.extend([is(number as u32, 1), fails]),
        Some((argument, mask, value)) => filter.extend([
            is(number as u32, 4),
            word(16 + 8 * argument),
            step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, mask),
            is(value, 1),
            fails,
        ]),
    }
    filter.push(ends(libc::SECCOMP_RET_ALLOW));
    filter
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
        if !shut(&mut deadly()) {
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

/// An argument, and its value under a mask.
type Masked = Option<(u32, u32, u32)>;

/// What may be refused: its name, the call, the argument that tells it apart, the error.
const REFUSALS: [(&str, i64, Masked, i32); 10] = [
    ("membarrier, on old kernels", libc::SYS_membarrier, None, libc::ENOSYS),
    ("membarrier, in sandboxes", libc::SYS_membarrier, None, libc::EPERM),
    ("rseq", libc::SYS_rseq, None, libc::ENOSYS),
    ("getcpu", libc::SYS_getcpu, None, libc::ENOSYS),
    ("FUTEX_LOCK_PI2", libc::SYS_futex, Some((1, 0x7f, 13)), libc::ENOSYS),
    ("affinity", libc::SYS_sched_getaffinity, None, libc::EPERM),
    ("sched_getattr", libc::SYS_sched_getattr, None, libc::EPERM),
    ("sched_setattr", libc::SYS_sched_setattr, None, libc::EPERM),
    ("prctl", libc::SYS_prctl, Some((0, u32::MAX, 78)), libc::EPERM),
    ("/sys and /proc", libc::SYS_openat, None, libc::ENOENT),
];

/// Not a test of its own: the process whose call is refused.
#[test]
fn role() {
    let Ok(refused) = std::env::var("SANDBOX_ROLE") else { return };
    if refused == "/sys and /proc" {
        // Not before: the program could not be loaded.
        assert!(shut(&mut refusing(libc::SYS_openat, None, libc::ENOENT)));
    }
    let is_it = |found: &&(_, _, _, _)| found.0 == refused;
    let (_, number, masked, error) = *REFUSALS.iter().find(is_it).expect("one of them");
    let argument = |at: u32| masked.filter(|(argument, ..)| *argument == at).map_or(0, |(_, _, value)| value as usize);
    // SAFETY: refused, or else wrong arguments.
    let done = unsafe { libc::syscall(number, argument(0), argument(1), 0, 0, 0, 0) };
    assert_eq!((done, std::io::Error::last_os_error().raw_os_error()), (-1, Some(error)), "it is not refused");
    let (scene, rt) = (Scene::default(), lockyard::RtMutex::new(0));
    run(&scene);
    assert!(scene.counts.iter().all(|count| count.load(Relaxed) == THREADS * ROUNDS), "a lock let two in");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS / 2 {
                    *rt.lock() += 1;
                    // A wait with an end is another call.
                    *rt.try_lock_for(Duration::from_secs(60)).expect("in a minute") += 1;
                }
            });
        }
    });
    assert_eq!(*rt.lock(), THREADS * ROUNDS);
}

#[test]
fn locks_do_without_what_a_kernel_or_a_sandbox_refuses() {
    for (name, number, masked, error) in REFUSALS {
        let mut command = Command::new(std::env::current_exe().expect("this test is a file"));
        command.args(["--exact", "role", "--nocapture"]).env("SANDBOX_ROLE", name);
        if number != libc::SYS_openat {
            let mut filter = refusing(number, masked, error);
            // SAFETY: two system calls, and nothing else.
            unsafe {
                command.pre_exec(move || if shut(&mut filter) { Ok(()) } else { Err(std::io::ErrorKind::Other.into()) })
            };
        }
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{name}: {:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}
