//! Scenarios of the rt-mutex with its own tree: chains of owners, on a machine with priorities.

use lockyard::rtmutex::RawRtMutex;

use super::super::machine::execute;
use super::super::setting::Machine;
use super::super::weak::{Loom, Weak};
use super::exclusive::Of;
use super::{Protected, Scenario, barred};
use crate::lock::{Held, Lock, Way};

/// Two mutexes and their data.
#[derive(Debug, Default)]
struct Chain {
    locks: [RawRtMutex<Loom>; 2],
    data: [Protected; 2],
}

impl Chain {
    /// A section of the first mutex, of the second, or of the second inside the first.
    fn hold(&self, which: &[usize]) {
        let mut held = Vec::new();
        for &number in which {
            held.push(Held::new(&self.locks[number], Way::Write));
            self.data[number].section(Way::Write);
        }
    }

    fn finish(&self, turns: [u64; 2]) {
        for ((lock, data), turns) in self.locks.iter().zip(&self.data).zip(turns) {
            assert_eq!(data.turns(), turns);
            assert!(lock.at_rest(), "something is left in a lock that nobody uses: {}", lock.state());
        }
    }
}

/// One takes both, the others one each: whoever waits for the first lends to its owner, who may wait for the second.
pub(super) fn chain(of: &Of<'_>) -> Scenario {
    let machine = Machine { ranked: true, ..barred(of.machine, 3) };
    of.scenario("chain", 3, machine, |machine| {
        execute::<Weak, _>(
            machine,
            3,
            Chain::default,
            |chain, me| chain.hold([&[0, 1][..], &[1], &[0]][me]),
            |chain| chain.finish([2, 2]),
        );
    })
}
