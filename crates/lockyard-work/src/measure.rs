//! One measurement: a lock type, a machine type and a cell in; a record out.
//!
//! [`measure_exclusive`], [`measure_shared`] and [`measure_counted`] are the functions a
//! [`Candidate`](crate::Candidate) points to. Each is compiled for its lock and machine, so the
//! pointer is followed once per run and never inside a loop.

use crate::erased;
use crate::error::Error;
use crate::machine::Machine;
use crate::record::Record;
use crate::spec::{Spec, Workload};
use crate::subject::{Counted, Exclusive, Family, Label, Shared};
use crate::tally::Run;
use crate::workload::{
    bkl_aim7, boot_model, build_model, contend, futex_hash, kv_model, lockref_model, pf1_model, pi_cross, pi_inversion,
    pi_stress, qrw_loop, replay, starve, torture_spin, uncontended,
};

/// Whether a lock that is called `label`, and that readers can share or not, can run `spec`.
pub(crate) fn check(label: &Label, shared: bool, spec: &Spec) -> Result<(), Error> {
    spec.validate()?;
    if spec.reads() && !shared {
        let why = "it has no read side";
        return Err(Error::Unsupported { lock: label.full(), workload: spec.workload, why });
    }
    if let Some(why) = spec.replay.as_ref().and_then(|replay| replay.refuses(shared)) {
        return Err(Error::Unsupported { lock: label.full(), workload: spec.workload, why });
    }
    if spec.workload.needs_priorities() && label.family != Family::Mutex {
        let why = "it may spin for ever on an owner that it keeps from running; choose a mutex";
        return Err(Error::Unsupported { lock: label.full(), workload: spec.workload, why });
    }
    Ok(())
}

/// Runs `spec` on `S`, called `label`, which has no read side.
///
/// # Errors
/// The cell makes no sense or needs a read side, the machine cannot run it, or the lock does not
/// exclude.
pub fn measure_exclusive<M: Machine, S: Exclusive + 'static>(label: &Label, spec: &Spec) -> Result<Record, Error> {
    check(label, false, spec)?;
    let run = match spec.workload {
        Workload::Uncontended => uncontended::exclusive::<M, S>(spec),
        Workload::TortureSpin | Workload::TortureSpin2021 => torture_spin::run::<M, S>(spec),
        Workload::BklAim7 => bkl_aim7::run::<M, S>(spec),
        Workload::LockrefModel => lockref_model::run::<M, lockref_model::Beside<M, S>>(spec),
        Workload::KvModel => kv_model::run::<M, S>(spec),
        Workload::FutexHash => futex_hash::run::<M, S>(spec),
        Workload::PiStress => pi_stress::run::<M, S>(spec),
        Workload::PiCross => pi_cross::run::<M, S>(spec),
        Workload::PiInversion => pi_inversion::run::<M, S>(spec),
        Workload::Replay => replay::run::<M>(spec, erased::exclusive::<M, S>, false),
        // `check` let no workload through that reads.
        _ => contend::exclusive::<M, S>(spec),
    };
    Ok(Record::of::<M>(label, spec, run?))
}

/// Runs `spec` on `S`, called `label`, which has a reference count of its own and no read side.
///
/// # Errors
/// As [`measure_exclusive`].
pub fn measure_counted<M: Machine, S: Counted + 'static>(label: &Label, spec: &Spec) -> Result<Record, Error> {
    if spec.workload != Workload::LockrefModel {
        return measure_exclusive::<M, S>(label, spec);
    }
    check(label, false, spec)?;
    Ok(Record::of::<M>(label, spec, lockref_model::run::<M, S>(spec)?))
}

/// Runs `spec` on `S`, called `label`, whose write side also runs what needs no read side.
///
/// # Errors
/// As [`measure_exclusive`].
pub fn measure_shared<M: Machine, S: Shared + 'static>(label: &Label, spec: &Spec) -> Result<Record, Error> {
    check(label, true, spec)?;
    let run: Result<Run, Error> = match spec.workload {
        Workload::Uncontended => uncontended::shared::<M, S>(spec),
        Workload::Contend | Workload::RwsemMicro => contend::mixed::<M, S>(spec),
        Workload::QrwLoop => qrw_loop::run::<M, S>(spec),
        Workload::TortureSpin | Workload::TortureSpin2021 => torture_spin::run::<M, S>(spec),
        Workload::BklAim7 => bkl_aim7::run::<M, S>(spec),
        Workload::LockrefModel => lockref_model::run::<M, lockref_model::Beside<M, S>>(spec),
        Workload::KvModel => kv_model::run::<M, S>(spec),
        Workload::FutexHash => futex_hash::run::<M, S>(spec),
        Workload::Pf1Model => pf1_model::run::<M, S>(spec),
        Workload::BootModel => boot_model::run::<M, S>(spec),
        Workload::BuildModel => build_model::run::<M, S>(spec),
        Workload::PiStress | Workload::PiCross | Workload::PiInversion => {
            unreachable!("`check` lets mutexes through only")
        }
        Workload::StarveWriters | Workload::StarveReaders => starve::run::<M, S>(spec),
        Workload::Replay => replay::run::<M>(spec, erased::shared::<M, S>, true),
    };
    Ok(Record::of::<M>(label, spec, run?))
}
