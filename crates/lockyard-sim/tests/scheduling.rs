//! The scheduler model: sleeping and waking, slices, priorities, idle states; and what is detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering as Host};

use lockyard::platform::{Ordering::*, Patience, Platform, Word};
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::model::Model;
use lockyard_sim::scheduler::class::{Class, FairForm};
use lockyard_sim::{
    Config, Error, Sim, Simulation, Start, clock_ps, compute, cpu, inside, operation, pin_here, set_class, words,
};

fn machine(id: &str) -> Arc<Model> {
    catalog::machine(id).unwrap()
}

fn config(id: &str) -> Config {
    Config { start: Start::Together, ..Config::new(machine(id)) }
}

/// Time from a wake-up call to the sleeper's running, for sleeps of about `ns`.
fn wake_latency(config: &Config, ns: u64) -> u64 {
    let simulation = Simulation::new(config, 2).unwrap();
    simulation.new_line();
    let word = simulation.place("word", words::U32::default()).unwrap();
    simulation.new_line();
    let answer = simulation.place("answer", words::U32::default()).unwrap();
    let called = AtomicU64::new(0);
    let latency = AtomicU64::new(0);
    simulation
        .run(|thread| {
            for round in 0..40 {
                if thread == 0 {
                    Sim::park(word, round, None);
                    latency.store(clock_ps() - called.load(Host::Relaxed), Host::Relaxed);
                    answer.swap(round + 1, AcqRel);
                } else {
                    compute(ns);
                    word.swap(round + 1, AcqRel);
                    called.store(clock_ps(), Host::Relaxed);
                    Sim::unpark(word);
                    Sim::spin(Patience::ns(u32::MAX), || (answer.load(Acquire) > round).then_some(()));
                }
            }
        })
        .unwrap();
    latency.load(Host::Relaxed) / 1000
}

/// Threads 0 and 1 share CPU 0 of four idle ones; 1 sleeps and is woken from CPU 2 while 0
/// computes. Where does it run?
fn woken_on(id: &str) -> usize {
    let simulation = Simulation::new(&config(id), 3).unwrap();
    for (thread, cpu) in [0, 0, 2].into_iter().enumerate() {
        simulation.assign(thread, cpu, false);
    }
    simulation.new_line();
    let word = simulation.place("word", words::U32::default()).unwrap();
    let found = AtomicUsize::new(usize::MAX);
    simulation
        .run(|thread| match thread {
            0 => compute(2_000_000),
            1 => {
                Sim::park(word, 0, None);
                found.store(cpu(), Host::Relaxed);
            }
            _ => {
                compute(1_500_000);
                word.swap(1, AcqRel);
                Sim::unpark(word);
                // A CPU that runs out of work would take it.
                compute(1_000_000);
            }
        })
        .unwrap();
    found.load(Host::Relaxed)
}

#[test]
fn a_wake_up_looks_for_an_idle_cpu_where_the_system_does() {
    // The kernel of 2008 queued a woken task where it had slept.
    assert_eq!(woken_on("quad2008"), 0);
    assert_ne!(woken_on("skx_1s"), 0);
}

#[test]
fn waking_costs_the_exit_latency_that_fits_the_sleep() {
    // intel_idle: a 30 us sleep pays 10 us (C1E) on a 2-socket Skylake and 1 us (C1) on an 8-socket
    // Ivy Bridge.
    let with_states = |id: &str, states: f64| {
        let model = catalog::with(id, &[("idle.deepest", states)]).unwrap();
        Config { start: Start::Together, ..Config::new(model) }
    };
    let ivy = wake_latency(&with_states("ivb_ex_8s", 4.0), 32_000);
    let deep = with_states("skx_2s_40c", 3.0);
    let skylake = wake_latency(&deep, 32_000);
    // The sleeper has paid for half of the switch, 650 ns, before.
    assert!((11_350..13_350).contains(&skylake), "{skylake}");
    assert!((2_350..4_350).contains(&ivy), "{ivy}");
    // A wake-up inside the kernel is the scheduler's part alone.
    let inside = wake_latency(&Config { in_kernel: true, ..deep.clone() }, 32_000);
    assert!(inside + 200 < skylake, "{inside} and {skylake}");
    // Nothing deeper than the shallowest state in use: no such exit latency.
    let shallow = wake_latency(&with_states("skx_2s_40c", 1.0), 32_000);
    assert!((7_000..9_000).contains(&(skylake - shallow)), "{shallow} and {skylake}");
    // Turn-around of a shallow sleep: 2 to 5 us.
    let short = wake_latency(&deep, 8_000);
    assert!((2_000..5_500).contains(&short), "{short}");
    assert!(wake_latency(&deep, 2_000_000) > 130_000);
}

#[test]
fn a_thread_stays_away_as_long_as_it_was_seen_to() {
    let away = |config: &Config, stay: fn(u64)| {
        let took = AtomicU64::new(0);
        let simulation = Simulation::new(config, 1).unwrap();
        let body = |_| {
            for _ in 0..20 {
                let from = clock_ps();
                stay(700_000);
                took.store((clock_ps() - from) / 1000, Host::Relaxed);
            }
        };
        simulation.run(body).unwrap();
        took.load(Host::Relaxed)
    };
    let config = config("skx_2s_40c");
    // Both halves of a switch are around it.
    assert!((700_000..705_000).contains(&away(&config, inside::stay_away)));
    // One that asks for that time has the slack of its timer on top.
    assert!(away(&config, inside::sleep) > 750_000);
}

#[test]
fn a_changed_word_is_not_slept_on_and_timers_end_sleeps() {
    let simulation = Simulation::new(&config("skx_2s_40c"), 1).unwrap();
    let word = simulation.place("word", words::U32::default()).unwrap();
    simulation
        .run(|_| {
            let begin = clock_ps();
            Sim::park(word, 1, None);
            assert!(clock_ps() - begin < 2_000_000);
            let deadline = Sim::now() + 100_000;
            Sim::park(word, 0, Some(deadline));
            let late = clock_ps() / 1000 - deadline;
            // 50 us of slack, an idle exit, a switch.
            assert!((50_000..200_000).contains(&late), "{late}");
        })
        .unwrap();
}

#[test]
fn fair_tasks_share_a_cpu_and_slices_end() {
    for fair in [FairForm::Cfs, FairForm::Eevdf] {
        let simulation = Simulation::new(&Config { fair, ..config("quad2008") }, 6).unwrap();
        let report = simulation
            .run(|_| {
                pin_here(0);
                while clock_ps() < 600_000_000_000 {
                    compute(100_000);
                    operation();
                }
            })
            .unwrap();
        let counts: Vec<u64> = report.threads.iter().map(|thread| thread.operations).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least > 0 && most - least <= most / 3, "{fair:?} {counts:?}");
        assert!(report.threads.iter().all(|thread| thread.involuntary_switches >= 4));
    }
}

#[test]
fn waiting_tasks_go_to_idle_cpus() {
    let simulation = Simulation::new(&config("quad2008"), 4).unwrap();
    for thread in 0..4 {
        simulation.assign(thread, 0, false);
    }
    let report = simulation.run(|_| compute(200_000_000)).unwrap();
    assert!(report.whole.ns < 260_000_000, "{}", report.whole.ns);
    assert_eq!(report.threads.iter().filter(|thread| thread.migrations > 0).count(), 3);
}

#[test]
fn realtime_preempts_by_priority() {
    let simulation = Simulation::new(&config("quad2008"), 2).unwrap();
    simulation.new_line();
    let word = simulation.place("word", words::U32::default()).unwrap();
    let done = AtomicUsize::new(0);
    simulation
        .run(|thread| {
            set_class(Class::Fifo(if thread == 0 { 2 } else { 1 }));
            pin_here(0);
            if thread == 0 {
                Sim::park(word, 0, None);
                assert_eq!(done.load(Host::Relaxed), 0, "the lower one ran on");
            } else {
                compute(50_000);
                word.swap(1, AcqRel);
                Sim::unpark(word);
                compute(1_000_000);
                done.store(1, Host::Relaxed);
            }
        })
        .unwrap();
}

#[test]
fn a_spinner_notices_that_its_owner_sleeps_and_a_polite_one_that_it_is_in_the_way() {
    let simulation = Simulation::new(&config("skx_2s_40c"), 3).unwrap();
    let word = simulation.place("word", words::U32::default()).unwrap();
    simulation
        .run(|thread| match thread {
            0 => {
                compute(30_000);
                inside::sleep(1_000_000);
            }
            1 => {
                let owner = lockyard::platform::ThreadId::from_raw(1).unwrap();
                let patience = Patience { running: Some(owner), ..Patience::ns(u32::MAX) };
                assert!(Sim::spin(patience, || (word.load(Relaxed) == 1).then_some(())).is_none());
                let ns = clock_ps() / 1000;
                assert!((30_000..32_500).contains(&ns), "{ns}");
                pin_here(7);
                let patience = Patience { courteous: true, ..Patience::ns(u32::MAX) };
                assert!(Sim::spin(patience, || (word.load(Relaxed) == 1).then_some(())).is_none());
                assert!(Sim::should_yield());
            }
            _ => {
                compute(100_000);
                set_class(Class::Fifo(1));
                pin_here(7);
                assert_eq!(cpu(), 7);
            }
        })
        .unwrap();
}

#[test]
fn deadlocks_are_named() {
    let simulation = Simulation::new(&config("quad2008"), 2).unwrap();
    let word = simulation.place("the word", words::U32::default()).unwrap();
    let error = simulation
        .run(|thread| {
            if thread == 0 {
                Sim::park(word, 0, None);
            } else {
                Sim::spin(Patience::ns(u32::MAX), || (word.load(Relaxed) == 9).then_some(()));
            }
        })
        .unwrap_err();
    let Error::Deadlock(text) = error else { panic!("{error}") };
    assert!(text.contains("thread 0 sleeps on the word") && text.contains("thread 1 spins on the word"), "{text}");
}

#[test]
fn who_queues_in_the_kernel_is_named_with_the_holder() {
    let limit = Config { time_limit_ns: 100_000, ..config("skx_2s_40c") };
    let simulation = Simulation::new(&limit, 12).unwrap();
    let word = simulation.place("the word", words::U32::default()).unwrap();
    let error = simulation
        .run(|_| {
            loop {
                Sim::park(word, 1, None);
            }
        })
        .unwrap_err();
    let Error::TimeLimit(text) = error else { panic!("{error}") };
    let queues = text.split(", thread ").find(|part| part.contains("queues for the lock of futex bucket"));
    assert!(queues.is_some_and(|_| text.contains("which thread ") && text.contains(" holds")), "{text}");
}

/// The closure's lines were forgotten by the wait inside it, and the thread watched its own place
/// in the bucket lock's queue for ever.
#[test]
fn closures_that_wait_or_wake_are_errors() {
    type Act = fn(&words::U32);
    let acts: [(Act, &str); 4] = [
        (Sim::unpark, "thread 0 wakes another inside the closure of a spin"),
        (|word| Sim::park(word, 0, Some(1_000)), "thread 0 sleeps inside"),
        (|_| Sim::nap(0), "thread 0 naps inside"),
        (
            |word| {
                Sim::spin(Patience::ns(100), || (word.load(Relaxed) == 9).then_some(()));
            },
            "thread 0 spins inside",
        ),
    ];
    for (act, said) in acts {
        let simulation = Simulation::new(&config("quad2008"), 1).unwrap();
        let word = simulation.place("the word", words::U32::default()).unwrap();
        let run = simulation.run(|_| {
            Sim::spin(Patience::ns(1_000), || {
                act(word);
                Some(())
            });
        });
        let Err(Error::Seam(text)) = run else { panic!("{said}: {run:?}") };
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn endless_runs_panics_and_nonsense_are_errors() {
    let limit = Config { time_limit_ns: 1_000_000, ..config("quad2008") };
    let error = Simulation::new(&limit, 1)
        .unwrap()
        .run(|_| {
            loop {
                compute(100)
            }
        })
        .unwrap_err();
    assert!(matches!(error, Error::TimeLimit(_)), "{error}");
    let limit = Config { event_limit: 1_000, ..config("quad2008") };
    let simulation = Simulation::new(&limit, 2).unwrap();
    let word = simulation.place("the word", words::U32::default()).unwrap();
    let error = simulation
        .run(|_| {
            loop {
                word.fetch_add(1, Relaxed);
            }
        })
        .unwrap_err();
    assert!(matches!(error, Error::EventLimit(_)), "{error}");
    let error = Simulation::new(&config("quad2008"), 2).unwrap().run(|thread| assert!(thread == 0, "no")).unwrap_err();
    assert_eq!(error, Error::Panic("thread 1 panicked: no".to_owned()));
    assert!(Simulation::new(&config("quad2008"), 0).is_err());
    assert!(Simulation::new(&config("quad2008"), 5_000).is_err());
}

#[test]
fn the_heavy_fence_sees_every_store() {
    // Store buffering: each side stores, then loads the other's word. With the light fence on one
    // side and the heavy one on the other, at least one sees the other.
    for delay in (0..3_000).step_by(150) {
        let simulation = Simulation::new(&Config { seed: delay, ..config("skx_2s_40c") }, 2).unwrap();
        simulation.assign(1, 20, false);
        simulation.new_line();
        let a = simulation.place("a", words::U32::default()).unwrap();
        simulation.new_line();
        let b = simulation.place("b", words::U32::default()).unwrap();
        let seen = [AtomicU64::new(9), AtomicU64::new(9)];
        simulation
            .run(|thread| {
                // Both lines are shared, so stores wait for ownership.
                let _ = (a.load(Relaxed), b.load(Relaxed));
                compute(10_000);
                if thread == 0 {
                    compute(delay);
                    a.store(1, Release);
                    Sim::fence_light();
                    seen[0].store(b.load(Relaxed).into(), Host::Relaxed);
                } else {
                    b.fetch_add(1, AcqRel);
                    assert!(Sim::fence_heavy());
                    seen[1].store(a.load(Relaxed).into(), Host::Relaxed);
                }
            })
            .unwrap();
        let seen = [seen[0].load(Host::Relaxed), seen[1].load(Host::Relaxed)];
        assert_ne!(seen, [0, 0], "delay {delay}");
    }
}

#[test]
fn four_thousand_threads_on_a_thousand_cpus() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/machines/ivb_ex_8s.toml")).unwrap();
    let text = text.replace("cores_per_cluster = 15", "cores_per_cluster = 64");
    let path = std::env::temp_dir().join(format!("lockyard-sim-{}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let machine = catalog::machine(path.to_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    let machine = machine.unwrap();
    assert_eq!(machine.topology().cpus(), 1024);
    let simulation = Simulation::new(&Config::new(machine), 4096).unwrap();
    let lock = simulation.place("lock", lockyard::mutex::RawMutex::<Sim>::default()).unwrap();
    let report = simulation
        .run(|_| {
            lock.acquire();
            // SAFETY: acquired above.
            unsafe { lock.release() };
            operation();
        })
        .unwrap();
    assert_eq!(report.operations(), 4096);
}

/// A spinner looks at a line, at another one for which it has to wait, and at the first line again;
/// the change falls in between.
#[test]
fn a_change_between_two_looks_at_a_line_is_noticed() {
    for delay in (0..1_200).step_by(10) {
        let simulation = Simulation::new(&Config { seed: delay, ..config("skx_2s_40c") }, 3).unwrap();
        simulation.assign(1, 20, false);
        simulation.new_line();
        let pair = simulation.place("pair", [words::U32::default(), words::U32::default()]).unwrap();
        simulation.new_line();
        let far = simulation.place("far", words::U32::default()).unwrap();
        simulation
            .run(|thread| match thread {
                0 => {
                    let patience = lockyard::platform::Patience::ns(u32::MAX);
                    let seen = Sim::spin(patience, || {
                        let first = pair[0].load(Acquire);
                        far.load(Relaxed);
                        pair[1].load(Relaxed);
                        (first != 0).then_some(())
                    });
                    assert!(seen.is_some());
                }
                1 => {
                    compute(1_000 + delay);
                    pair[0].store(1, Release);
                }
                _ => {
                    compute(1_400);
                    far.fetch_add(1, Relaxed);
                }
            })
            .unwrap_or_else(|error| panic!("after {delay} ns: {error}"));
    }
}
