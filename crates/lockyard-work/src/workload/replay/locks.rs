//! The locks of a recorded program.

use lockyard_recording::model::{Kind, Lock};

use crate::erased::{Erased, exclusive, shared};
use crate::machine::Machine;
use crate::pool;

/// A new lock of the kind that a program has there, as those on the machine `M` are.
pub(super) fn recorded<M: Machine>(lock: &Lock, name: &str) -> Box<dyn Erased> {
    match lock.kind {
        Kind::Mutex => exclusive::<M, M::Mutex>(name),
        Kind::RwLock => shared::<M, M::RwLock>(name),
        Kind::Spin => exclusive::<M, M::Spin>(name),
        Kind::Semaphore => pool::pool::<M>(lock.units, name),
    }
}
