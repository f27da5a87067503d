//! The locks there are: Lockyard's, and the ones people use today.

use std::sync::LazyLock;

use lockyard::platform::linux::Linux;
use lockyard_catalog::adapters::Binary;
use lockyard_catalog::{entries, types};

use crate::machine::Machine;
use crate::measure::{measure_counted, measure_exclusive, measure_shared};
use crate::peers;
use crate::subject::Owned;

pub use crate::candidate::{Candidate, Measure};

macro_rules! candidate {
    (($machine:ty, $list:ident) $lock:ident $trait:ident $promises:tt) => {
        $list.extend([candidate!($trait $machine, types::$lock<$machine>, &entries::$lock)])
    };
    (count $machine:ty, $lock:ty, $entry:expr) => {
        candidate!(lock $machine, Binary<$lock>, $entry)
    };
    (weigh $machine:ty, $lock:ty, $entry:expr) => {
        candidate!(count $machine, $lock, $entry)
    };
    (references $machine:ty, $lock:ty, $entry:expr) => {
        Candidate::listed($entry, false, measure_counted::<$machine, Owned<$lock>>)
    };
    (shared $machine:ty, $lock:ty, $entry:expr) => {
        Candidate::listed($entry, true, measure_shared::<$machine, $lock>)
    };
    (shared_timed $machine:ty, $lock:ty, $entry:expr) => {
        candidate!(shared $machine, $lock, $entry)
    };
    ($other:ident $machine:ty, $lock:ty, $entry:expr) => {
        Candidate::listed($entry, false, measure_exclusive::<$machine, $lock>)
    };
}

/// Every lock of the real machine: Lockyard's first, then the peers, by family.
pub fn candidates() -> &'static [Candidate] {
    static ALL: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
        let mut all = lockyard_candidates::<Linux>();
        lockyard_catalog::locks!(lending => candidate (Linux, all));
        all.extend(peers::candidates::<Linux>());
        all
    });
    &ALL
}

/// Lockyard's locks on the machine `M`, default policies first.
pub fn lockyard_candidates<M: Machine>() -> Vec<Candidate> {
    let mut list = Vec::new();
    lockyard_catalog::locks!(bench => candidate (M, list));
    list
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::{Spec, Workload};
    use crate::subject::{Family, Origin};

    #[test]
    fn labels_are_unique() {
        let labels: BTreeSet<String> = candidates().iter().map(Candidate::label).collect();
        assert_eq!(labels.len(), candidates().len());
    }

    #[test]
    fn every_one_is_described() {
        assert!(candidates().iter().all(|candidate| !candidate.about.is_empty()));
    }

    #[test]
    fn every_family_has_both_origins() {
        for family in Family::ALL {
            for origin in [Origin::Lockyard, Origin::Peer] {
                assert!(candidates().iter().any(|c| c.family == family && c.origin == origin), "{family:?} {origin:?}");
            }
        }
    }

    #[test]
    fn a_mutex_does_not_read() {
        let mutex = candidates().iter().find(|candidate| candidate.name == "std-mutex").unwrap();
        assert!(!mutex.supports(Workload::QrwLoop) && mutex.supports(Workload::Contend));
        let spec = Spec { read_pct: 50.0, ..Spec::new(Workload::Contend) };
        let error = mutex.check(&spec).unwrap_err().to_string();
        assert_eq!(error, "std-mutex cannot run contend: it has no read side");
    }
}
