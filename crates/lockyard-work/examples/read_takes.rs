//! Whether a load takes a cache line over that another core has written to, here: the owner's copy
//! is gone then, and the reader may write without asking.
//!
//! Textbooks have such a load share the line (MESI), or leave it with the owner, who supplies it
//! (MOESI). Processors may also guess that whoever reads will write next, as with a lock. Which it
//! is decides how often a spinning waiter gets a lock that its owner releases and takes again at
//! once. Two threads on two CPUs make the accesses of each script in turns; cycles of the timestamp
//! counter that the last one takes, beside nothing at all. x86-64 only.
//!
//! `cargo run --release -p lockyard-work --example read_takes`

#[cfg(target_arch = "x86_64")]
mod scripts {
    use std::arch::x86_64::{_mm_lfence, _mm_mfence, _rdtsc};
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering::*};

    const ROUNDS: u64 = 50_000;

    /// Two lines: neighbours are fetched together.
    #[derive(Debug, Default)]
    #[repr(align(256))]
    struct Line(AtomicU64);

    #[derive(Debug, Clone, Copy)]
    enum Act {
        Load,
        Change,
        Nothing,
    }

    /// Cycles of one access, everything before it done, nothing after it begun.
    fn timed(line: &Line, act: Act) -> u64 {
        let stamp = || {
            // SAFETY: every x86-64 has these fences and a timestamp counter, and Linux lets
            // programs read it.
            unsafe {
                _mm_mfence();
                _mm_lfence();
                let stamp = _rdtsc();
                _mm_lfence();
                stamp
            }
        };
        let begin = stamp();
        match act {
            Act::Load => _ = black_box(line.0.load(Relaxed)),
            Act::Change => _ = line.0.fetch_add(1, Relaxed),
            Act::Nothing => {}
        }
        stamp() - begin
    }

    fn pin(cpu: usize) {
        // SAFETY: an all-zero set is valid, and is written to by the macro's function only.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `cpu` is below the size of a set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        // SAFETY: the set outlives the call; zero is the calling thread.
        unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    }

    /// The median of what the last access of the script takes.
    fn median(script: &[(usize, Act)]) -> u64 {
        let (line, turn) = (Line::default(), Line::default());
        let steps = script.len() as u64;
        let perform = |me: usize| {
            pin(me);
            let mut last = Vec::new();
            for round in 0..ROUNDS {
                for (step, &(_, act)) in script.iter().enumerate().filter(|(_, step)| step.0 == me) {
                    let mine = round * steps + step as u64;
                    while turn.0.load(Acquire) != mine {
                        std::hint::spin_loop();
                    }
                    // Whoever was before has stopped looking.
                    (0..10).for_each(|_| std::hint::spin_loop());
                    let cycles = timed(&line, act);
                    if step + 1 == script.len() {
                        last.push(cycles);
                    }
                    turn.0.store(mine + 1, Release);
                }
            }
            last
        };
        let mut all = std::thread::scope(|scope| {
            let other = scope.spawn(|| perform(1));
            let mut all = perform(0);
            all.extend(other.join().expect("the other thread does not panic"));
            all
        });
        all.sort_unstable();
        all[all.len() / 2]
    }

    pub(super) fn run() {
        use Act::{Change, Load, Nothing};
        let (a, b) = (0, 1);
        let nothing = median(&[(a, Nothing)]);
        let over = |script: &[(usize, Act)]| median(script).saturating_sub(nothing);
        let hit = over(&[(a, Change), (b, Load), (b, Load)]);
        let gone = over(&[(a, Change), (b, Load), (a, Load)]);
        println!("cycles of the last access, beyond {nothing} for nothing");
        println!("{:>5}  A changes, B loads, B loads: a hit", hit);
        println!("{:>5}  A changes, B loads: the line comes", over(&[(a, Change), (b, Load)]));
        println!("{:>5}  A changes, B loads, A loads: does A have it still?", gone);
        println!("{:>5}  A changes, B loads, B changes: may B write?", over(&[(a, Change), (b, Load), (b, Change)]));
        println!(
            "{:>5}  A changes, B loads, A loads, B loads: do both have it?",
            over(&[(a, Change), (b, Load), (a, Load), (b, Load)])
        );
        println!(
            "{:>5}  A changes, B loads, A loads, B changes: may B write?",
            over(&[(a, Change), (b, Load), (a, Load), (b, Change)])
        );
        println!(
            "A load {} a line that its owner has written to.",
            if gone > 4 * hit + 20 { "takes over" } else { "shares" }
        );
    }
}

fn main() {
    #[cfg(target_arch = "x86_64")]
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        scripts::run();
    } else {
        println!("This takes two CPUs.");
    }
    #[cfg(not(target_arch = "x86_64"))]
    println!("This takes the timestamp counter of x86-64.");
}
