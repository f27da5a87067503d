//! The locks there are: Lockyard's, and the ones people use today.

use lockyard::platform::linux::Linux;

use crate::machine::Machine;
use crate::{locks, peers};

pub use crate::candidate::Candidate;

/// Every lock of the real machine: Lockyard's first, then the peers, by family.
pub fn candidates() -> &'static [Candidate] {
    static ALL: [Candidate; LOCKYARD + NATIVE + PEERS] = {
        let lockyard = lockyard_candidates::<Linux>();
        let native = locks::native::candidates();
        let peers = peers::candidates::<Linux>();
        let mut all = [peers[0]; LOCKYARD + NATIVE + PEERS];
        let mut index = 0;
        while index < all.len() {
            all[index] = match index {
                _ if index < LOCKYARD => lockyard[index],
                _ if index < LOCKYARD + NATIVE => native[index - LOCKYARD],
                _ => peers[index - LOCKYARD - NATIVE],
            };
            index += 1;
        }
        all
    };
    &ALL
}

/// How many locks of Lockyard's, with all policies, there are.
pub const LOCKYARD: usize = locks::COUNT;
/// How many more there are on the real machine.
const NATIVE: usize = locks::native::COUNT;
const PEERS: usize = peers::COUNT;

/// Lockyard's locks on the machine `M`, default policies first.
pub const fn lockyard_candidates<M: Machine>() -> [Candidate; LOCKYARD] {
    locks::candidates::<M>()
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
