//! A machine of one's own: a board with a few CPUs and no operating system. `board` uses `core`
//! only; what it needs to know of the hardware are the number of the CPU and a timer, for which
//! `main` stands in. Waiting is spinning: there is nobody to give the CPU to.

mod board {
    use core::hint::spin_loop;
    use core::sync::atomic::{Ordering, fence};

    use lockyard::platform::atomics::{LaneWord, U32, U64};
    use lockyard::platform::{Commons, ConstPlatform, Event, ParkedHeads, Patience, Platform, Pool, Word};
    use lockyard::platform::{Thread, ThreadId};

    use super::hardware;

    /// A lock of the board: every lock of `lockyard::raw` is one, behind the types of `lock_api`.
    pub(crate) type Mutex<T> = lockyard::lock_api::Mutex<lockyard::raw::RawMutex<Board>, T>;

    pub(crate) const CPUS: usize = 4;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Board;

    static THREADS: [Thread<Board>; CPUS] = [const { Thread::new() }; CPUS];
    static HEADS: ParkedHeads<Board> = ParkedHeads::new();
    static POOL: Pool<Board> = Pool::new();

    // SAFETY: the words are `core`'s; each CPU has a record of its own, which is static; a parked
    // thread looks at the word until it has changed; all fences are full.
    unsafe impl Platform for Board {
        type U32 = U32;
        type U64 = U64;
        type Lanes = LaneWord;

        fn relax() {
            spin_loop();
        }
        fn spin<T>(patience: Patience, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
            let end = Self::now().saturating_add(u64::from(patience.ns)).min(patience.deadline.unwrap_or(u64::MAX));
            loop {
                let value = ready();
                if value.is_some() || Self::now() >= end {
                    return value;
                }
                spin_loop();
            }
        }
        fn nap(round: u32) {
            (0..1u32 << round.min(10)).for_each(|_| spin_loop());
        }
        fn park(word: &U32, expected: u32, deadline: Option<u64>) {
            while word.load(Ordering::Acquire) == expected && deadline.is_none_or(|end| Self::now() < end) {
                spin_loop();
            }
        }
        fn unpark(_word: &U32) {}
        fn fence() {
            fence(Ordering::SeqCst);
        }
        fn fence_light() {
            fence(Ordering::SeqCst);
        }
        fn fence_heavy() -> bool {
            fence(Ordering::SeqCst);
            true
        }
        fn now() -> u64 {
            hardware::timer_ns()
        }
        fn tick() -> u64 {
            Self::now()
        }
        fn id() -> Option<ThreadId> {
            Self::current().map(Thread::id)
        }
        fn current() -> Option<&'static Thread<Self>> {
            let cpu = hardware::cpu();
            let record = THREADS.get(cpu)?;
            record.set_id(ThreadId::from_raw(cpu as u32 + 1)?);
            Some(record)
        }
        fn thread(id: ThreadId) -> &'static Thread<Self> {
            &THREADS[id.raw() as usize - 1]
        }
        fn is_running(_id: ThreadId) -> bool {
            true
        }
        fn should_yield() -> bool {
            false
        }
        fn spin_budget() -> u32 {
            20_000
        }
        fn cpus() -> u32 {
            CPUS as u32
        }
        fn node() -> u32 {
            0
        }
        fn nodes() -> u32 {
            1
        }
        fn commons() -> Commons<Self> {
            Commons { heads: &HEADS, pool: &POOL }
        }
        fn key<T>(lock: *const T) -> u64 {
            lock.addr() as u64
        }
        fn count(_event: Event, _amount: i64) {}
    }

    // SAFETY: `LaneWord` is a transparent atomic.
    unsafe impl ConstPlatform for Board {}
}

/// What the board's registers would say.
mod hardware {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::time::Instant;

    thread_local! {
        static CPU: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn cpu() -> usize {
        CPU.get()
    }

    pub(crate) fn run_on(cpu: usize) {
        CPU.set(cpu);
    }

    pub(crate) fn timer_ns() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

pub(crate) fn main() {
    static SUM: board::Mutex<u64> = board::Mutex::new(0);
    std::thread::scope(|scope| {
        for cpu in 0..board::CPUS {
            scope.spawn(move || {
                hardware::run_on(cpu);
                (0..1_000).for_each(|_| *SUM.lock() += 1);
            });
        }
    });
    assert_eq!(*SUM.lock(), 4_000);
    println!("{} CPUs without a system have counted to {}", board::CPUS, SUM.lock());
}
