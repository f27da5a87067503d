//! Machine files: whatever the text is, it is refused in one line that names the place, or it is a
//! machine that runs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lockyard::spin::qspinlock::RawQSpinLock;
use lockyard_sim::machine::catalog;
use lockyard_sim::{Config, Error, Sim, Simulation};

fuzz_target!(|text: &str| {
    let model = match catalog::read("fuzzed.toml", text) {
        Ok(model) => model,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
            return;
        }
    };
    let _ = (model.label(), model.fingerprint(), model.pause_ns());
    // Numbers inside their ranges make a machine on which time goes on: two threads pass a lock to
    // and fro.
    let config = Config { time_limit_ns: 1_000_000_000, event_limit: 100_000, ..Config::new(model) };
    let simulation = match Simulation::new(&config, 2) {
        Ok(simulation) => simulation,
        Err(_) => return,
    };
    let lock = simulation.place("lock", RawQSpinLock::<Sim>::default()).expect("room for a lock");
    let outcome = simulation.run(|_| {
        for _ in 0..3 {
            lock.acquire();
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
    });
    if let Err(error) = outcome {
        assert!(matches!(error, Error::TimeLimit(_)), "{error}");
    }
});
