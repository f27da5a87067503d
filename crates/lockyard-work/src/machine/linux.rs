//! The real machine: std threads, timer sleeps, PAUSE, and the time-stamp counter.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use lockyard::event::{self, Snapshot};
use lockyard::platform::linux::Linux;
use lockyard::platform::pi::PiPlatform;

use super::{Machine, MachineError, Usage};
use crate::peers::pthread::{mutex, rwlock, spin};

mod compute;
#[cfg(feature = "simulated")]
pub(super) mod gauge;
mod stamp;

/// Enough for any workload; mapped lazily, so thousands of threads cost address space only.
const STACK: usize = 256 << 10;

impl Machine for Linux {
    type Mutex = mutex::Mutex<mutex::Normal>;
    type RwLock = rwlock::RwLock<rwlock::PreferReader>;
    type Spin = spin::Spin;

    fn run(n: usize, body: &(dyn Fn(usize) + Sync)) -> Result<(), MachineError> {
        run_with_stacks(n, STACK, body)
    }

    fn sleep(ns: u64) {
        thread::sleep(Duration::from_nanos(ns));
    }

    /// A CPU that idles deeply wakes later than this.
    fn stay_away(ns: u64) {
        /// How late Linux lets a timer fire, unless a thread has asked for something else.
        const SLACK_NS: u64 = 50_000;
        Self::sleep(ns.saturating_sub(SLACK_NS).max(1));
    }

    #[inline(always)]
    fn pause(n: u32) {
        for _ in 0..n {
            core::hint::spin_loop();
        }
    }

    #[inline]
    fn work(ns: u64) {
        compute::spend(ns);
    }

    #[inline(always)]
    fn stamp() -> u64 {
        stamp::now()
    }

    fn pause_ns() -> f64 {
        static MEASURED: OnceLock<f64> = OnceLock::new();
        /// Long enough to hide the stamps, short enough to fit between two interrupts.
        const PAUSES: u32 = 2_000;
        *MEASURED.get_or_init(|| {
            let best = (0..7).map(|_| {
                let start = stamp::now();
                Self::pause(PAUSES);
                stamp::now().saturating_sub(start)
            });
            best.min().unwrap_or(0) as f64 / f64::from(PAUSES)
        })
    }

    fn pin(index: usize) {
        static CPUS: OnceLock<Vec<usize>> = OnceLock::new();
        let cpus = CPUS.get_or_init(allowed_cpus);
        if !cpus.is_empty() {
            run_on(&[cpus[index % cpus.len()]]);
        }
    }

    fn unpark_all(word: &Self::U32, _sleepers: u32) {
        <Self as PiPlatform>::unpark_all(word);
    }

    fn usage() -> Usage {
        // SAFETY: the call fills the structure, for which any bytes are valid.
        let usage = unsafe {
            let mut usage: libc::rusage = core::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Usage {
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            machine_ns: machine_ns(),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    fn program_cpu_ns() -> Option<u64> {
        // SAFETY: the call fills the structure, for which any bytes are valid.
        let (time, failed) = unsafe {
            let mut time: libc::timespec = core::mem::zeroed();
            let failed = libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
            (time, failed)
        };
        (failed == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn events() -> Snapshot {
        event::Snapshot::now()
    }

    fn describe() -> String {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo
            .lines()
            .find(|line| line.starts_with("model name"))
            .and_then(|line| line.split_once(':'))
            .map_or(std::env::consts::ARCH, |(_, name)| name.trim());
        let cpus = allowed_cpus().len();
        format!("{model}, {cpus} CPU{}", if cpus == 1 { "" } else { "s" })
    }
}

/// The calling thread may run on `cpus` alone.
fn run_on(cpus: &[usize]) {
    // SAFETY: an all-zero set is an empty one; CPU_SET checks its bounds, and the call only reads
    // the set.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Threads with `stack` bytes each. They wait until all exist; if one cannot be started, none runs
/// its body.
fn run_with_stacks(n: usize, stack: usize, body: &(dyn Fn(usize) + Sync)) -> Result<(), MachineError> {
    let go = OnceLock::new();
    thread::scope(|scope| {
        for index in 0..n {
            let go = &go;
            let builder = thread::Builder::new().name(format!("work-{index}")).stack_size(stack);
            let spawned = builder.spawn_scoped(scope, move || {
                if *go.wait() {
                    body(index);
                }
            });
            if let Err(error) = spawned {
                let _ = go.set(false);
                let what = format!("cannot start {n} threads: {index} were started, then: {error}");
                return Err(MachineError::new(what));
            }
        }
        let _ = go.set(true);
        Ok(())
    })
}

/// CPU time of everything on the machine: the first line of `/proc/stat`, in ticks of 10 ms,
/// without idle and waiting for disks, and without guests (which are counted as user time already).
/// Stolen time counts: it was not ours.
fn machine_ns() -> u64 {
    const TICK_NS: u64 = 10_000_000;
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let ticks = fields.map(|field| field.parse::<u64>().unwrap_or(0));
    ticks.enumerate().filter(|(column, _)| !matches!(column, 3 | 4)).map(|(_, ticks)| ticks).sum::<u64>() * TICK_NS
}

/// The CPUs this program may run on. Empty if the system does not say.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: the call fills the set, for which any bytes are valid; CPU_ISSET is asked within its
    // bounds.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        (0..8 * size_of::<libc::cpu_set_t>()).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_body_runs_once() {
        let seen: Vec<AtomicUsize> = (0..40).map(|_| AtomicUsize::new(0)).collect();
        Linux::run(40, &|i| {
            seen[i].fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn too_many_threads_are_an_error_and_nothing_runs() {
        // Stacks that cannot be had stand in for threads that cannot.
        let error = run_with_stacks(3, 1 << 46, &|_| panic!("ran")).unwrap_err().to_string();
        assert!(error.starts_with("cannot start 3 threads: 0 were started, then: "), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn stamps_advance_and_pauses_cost() {
        let start = Linux::stamp();
        Linux::pause(1000);
        assert!(Linux::stamp() > start);
        assert!(Linux::pause_ns() > 0.0);
        assert!(Linux::pauses(0) == 1);
    }

    #[test]
    fn the_machine_can_be_described() {
        assert!(Linux::describe().contains("CPU"));
        let usage = Linux::usage();
        assert!(usage.cpu_ns > 0 && usage.machine_ns > 0);
        assert_eq!(usage.since(&usage), Usage::default());
    }
}
