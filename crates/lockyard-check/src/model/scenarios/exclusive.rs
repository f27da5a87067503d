//! Scenarios of every lock: contention in each way it can be held, tries, timeouts, cancellation,
//! downgrade.

use std::sync::Arc;

use lockyard::cancel::{CancelToken, GaveUp, Until};
use lockyard::event::Event;

use super::super::machine::{execute, ring};
use super::super::setting::{DEADLINE, Machine};
use super::super::weak::{Loom, Weak};
use super::{Protected, Scenario, bar, barred, rung};
use crate::lock::{Lock, Shared, Timed, Way};

#[derive(Debug, Default)]
struct Subject<L> {
    lock: L,
    data: Protected,
    token: CancelToken<Loom>,
    /// Why it was cancelled.
    reason: Protected,
}

impl<L: Lock<P = Loom>> Subject<L> {
    fn hold(&self, way: Way) {
        self.lock.lock(way);
        self.inside(way);
    }

    /// A section of a lock that is held, and its end.
    fn inside(&self, way: Way) {
        self.data.section(way);
        // SAFETY: held that way.
        unsafe { self.lock.unlock(way) };
    }

    fn finish(&self, most: u64, least: u64) {
        let turns = self.data.turns();
        assert!((least..=most).contains(&turns), "{turns} write sections, not {least} to {most}");
        assert!(self.lock.at_rest(), "something is left in a lock that nobody uses: {}", self.lock.state());
    }
}

/// A scenario of one kind of lock.
pub(super) struct Of<'a> {
    pub(super) lock: &'a str,
    pub(super) machine: Machine,
    /// How the machine is called.
    pub(super) mode: &'a str,
}

impl Of<'_> {
    pub(super) fn scenario(
        &self,
        what: &str,
        threads: usize,
        machine: Machine,
        execution: impl Fn(Machine) + Send + Sync + 'static,
    ) -> Scenario {
        Scenario {
            name: format!("{}/{what}/{}", self.lock, self.mode),
            machine,
            threads,
            preemptions: bar(threads).0,
            reaches: Vec::new(),
            execution: Arc::new(execution),
        }
    }

    /// Each thread holds the lock once, in its way.
    pub(super) fn contend<L: Lock<P = Loom> + 'static>(&self, ways: &'static [Way]) -> Scenario {
        let threads = ways.len();
        let writes = ways.iter().filter(|way| **way == Way::Write).count() as u64;
        let text: String = ways.iter().map(|way| if *way == Way::Write { 'w' } else { 'r' }).collect();
        self.scenario(&text, threads, barred(self.machine, threads), move |machine| {
            execute::<Weak, _>(
                machine,
                threads,
                Subject::<L>::default,
                |subject, me| subject.hold(ways[me]),
                |subject| subject.finish(writes, writes),
            );
        })
    }

    /// As [`Of::contend`] with two threads, each twice.
    pub(super) fn twice<L: Lock<P = Loom> + 'static>(&self, ways: &'static [Way; 2]) -> Scenario {
        let writes = 2 * ways.iter().filter(|way| **way == Way::Write).count() as u64;
        let text: String = ways.iter().map(|way| if *way == Way::Write { 'w' } else { 'r' }).collect();
        self.scenario(&format!("twice-{text}"), 2, self.machine, move |machine| {
            execute::<Weak, _>(
                machine,
                2,
                Subject::<L>::default,
                |subject, me| {
                    subject.hold(ways[me]);
                    subject.hold(ways[me]);
                },
                |subject| subject.finish(writes, writes),
            );
        })
    }

    /// One holds, one tries.
    pub(super) fn attempt<L: Lock<P = Loom> + 'static>(&self, ways: &'static [Way; 2]) -> Scenario {
        let most = ways.iter().filter(|way| **way == Way::Write).count() as u64;
        let least = u64::from(ways[0] == Way::Write);
        let text: String = ways.iter().map(|way| if *way == Way::Write { 'w' } else { 'r' }).collect();
        self.scenario(&format!("try-{text}"), 2, self.machine, move |machine| {
            execute::<Weak, _>(
                machine,
                2,
                Subject::<L>::default,
                |subject, me| {
                    if me == 0 {
                        subject.hold(ways[0]);
                    } else if subject.lock.try_lock(ways[1]) {
                        subject.inside(ways[1]);
                    }
                },
                |subject| subject.finish(most, least),
            );
        })
    }

    /// The first holds, the second waits until the clock rings, the others wait. `ways` names them;
    /// one more thread rings.
    pub(super) fn timeout<L: Timed<P = Loom> + 'static>(&self, ways: &'static [Way]) -> Scenario {
        self.leaver::<L>("timeout", ways, Until::deadline(DEADLINE))
    }

    /// As [`Of::timeout`]; one more thread cancels.
    pub(super) fn cancel<L: Timed<P = Loom> + 'static>(&self, ways: &'static [Way]) -> Scenario {
        self.leaver::<L>("cancel", ways, Until::FOREVER)
    }

    /// Each thread holds the lock once; the second has no time to wait for it. `ways` names them.
    pub(super) fn late<L: Timed<P = Loom> + 'static>(&self, ways: &'static [Way]) -> Scenario {
        let threads = ways.len();
        let writes = ways.iter().filter(|way| **way == Way::Write).count() as u64;
        let least = writes - u64::from(ways[1] == Way::Write);
        let text: String = ways.iter().map(|way| if *way == Way::Write { 'w' } else { 'r' }).collect();
        let machine = Machine { start: 2 * DEADLINE, ..barred(self.machine, threads) };
        self.scenario(&format!("late-{text}"), threads, machine, move |machine| {
            execute::<Weak, _>(
                machine,
                threads,
                Subject::<L>::default,
                |subject, me| {
                    if me != 1 {
                        subject.hold(ways[me]);
                    } else if subject.lock.lock_until(ways[1], Until::deadline(DEADLINE)).is_ok() {
                        subject.inside(ways[1]);
                    }
                },
                |subject| subject.finish(writes, least),
            );
        })
    }

    fn leaver<L: Timed<P = Loom> + 'static>(
        &self,
        what: &str,
        ways: &'static [Way],
        until: Until<'static, Loom>,
    ) -> Scenario {
        let threads = ways.len() + 1;
        let writes = ways.iter().filter(|way| **way == Way::Write).count() as u64;
        let least = writes - u64::from(ways[1] == Way::Write);
        let text: String = ways.iter().map(|way| if *way == Way::Write { 'w' } else { 'r' }).collect();
        let rings = what == "timeout";
        let machine = Machine { budget: Some(4), ..self.machine };
        let machine = if rings { rung(machine) } else { machine };
        let mut scenario = self.scenario(&format!("{what}-{text}"), threads, machine, move |machine| {
            execute::<Weak, _>(
                machine,
                threads,
                Subject::<L>::default,
                |subject, me| {
                    if me == ways.len() {
                        if rings {
                            ring::<Weak>();
                        } else {
                            subject.reason.section(Way::Write);
                            subject.token.cancel();
                        }
                    } else if me == 1 {
                        let until = if rings { until } else { Until::cancelled(&subject.token) };
                        match subject.lock.lock_until(ways[1], until) {
                            Ok(()) => subject.inside(ways[1]),
                            Err(GaveUp::Cancelled) => subject.reason.section(Way::Read),
                            Err(GaveUp::TimedOut) => {}
                        }
                    } else {
                        subject.hold(ways[me]);
                    }
                },
                |subject| subject.finish(writes, least),
            );
        });
        scenario.preemptions = Some(2);
        scenario
    }

    /// The first writes, downgrades and reads; the others hold the lock in their ways.
    pub(super) fn downgrade<L: Shared<P = Loom> + 'static>(&self, ways: &'static [Way]) -> Scenario {
        let threads = ways.len() + 1;
        let writes = 1 + ways.iter().filter(|way| **way == Way::Write).count() as u64;
        let text: String = ways.iter().map(|way| if *way == Way::Write { 'w' } else { 'r' }).collect();
        self.scenario(&format!("downgrade-{text}"), threads, barred(self.machine, threads), move |machine| {
            execute::<Weak, _>(
                machine,
                threads,
                Subject::<L>::default,
                |subject, me| {
                    if me > 0 {
                        return subject.hold(ways[me - 1]);
                    }
                    subject.lock.lock(Way::Write);
                    subject.data.section(Way::Write);
                    // SAFETY: held to write.
                    unsafe { subject.lock.downgrade() };
                    subject.inside(Way::Read);
                },
                |subject| subject.finish(writes, writes),
            );
        })
    }
}

impl Scenario {
    /// The path for whose sake it exists.
    pub(super) fn reaching(mut self, events: &[Event]) -> Self {
        self.reaches.extend_from_slice(events);
        self
    }
}
