//! What a cell is, in sixteen digits.
//!
//! A key is a hash of all that decides a result: the numbers of the machine, those changed in
//! them, placement, lock, workload, seed, the settings of hierarchical locks, and this tool's
//! version. Two lines with one key must be equal.

use std::fmt::{self, Write};

use lockyard_sim::Config;
use lockyard_work::Spec;
use serde::{Serialize, Serializer};

use crate::hq;
use crate::report::json::VERSION;
use crate::simulate::Run;

/// The key of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn of(run: &Run) -> Self {
        let Run { config: Config { machine, seed, placement, in_kernel, as_linux, .. }, lock, spec } = run;
        let mut hash = Hash(0xcbf2_9ce4_8422_2325);
        // Hashing does not fail.
        let _ = write!(hash, "lockyard {VERSION};{};{:016x}", machine.label(), machine.fingerprint());
        for (path, value) in machine.changes() {
            let _ = write!(hash, ";{path}={value}");
        }
        let _ = write!(hash, ";{placement};{seed};{in_kernel};{}", lock.label());
        if *as_linux {
            let _ = hash.write_str(";as-linux");
        }
        for setting in hq::settings().iter().filter(|setting| setting.value != setting.default) {
            let _ = write!(hash, ";{}={}", setting.name, setting.value);
        }
        cell(&mut hash, spec);
        Self(hash.0)
    }
}

/// What the threads do. A field that is added to a cell must be named here: it is no result's that
/// was made before.
fn cell(hash: &mut Hash, spec: &Spec) {
    let Spec {
        workload,
        threads,
        readers,
        writers,
        cs,
        cs_sleep,
        lines,
        think,
        think_shape,
        read_pct,
        ratio,
        mix,
        jobs,
        duration,
        warmup,
        seed,
        replay,
    } = spec;
    let (sleep, duration, warmup) = (cs_sleep.as_nanos(), duration.as_nanos(), warmup.as_nanos());
    let shape = think_shape.name();
    let _ = write!(hash, ";{workload};{threads};{readers};{writers};{cs};{sleep};{lines};{think};{shape};{read_pct}");
    let _ = write!(hash, ";{ratio};{mix:?};{jobs};{duration};{warmup};{seed}");
    if let Some(replay) = replay {
        let _ = write!(hash, ";{};{:?};{:?};{}", replay.name, replay.tested, replay.touch, replay.waits);
        let _ = write!(hash, ";{}", replay.model);
    }
}

/// Sixteen digits.
impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

/// As it is shown.
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// FNV-1a, which is the same everywhere.
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        Ok(())
    }
}
