//! A simulated thread.
//!
//! ```text
//!  New ──▶ Runnable ◀──────────── wake ─────────┐
//!             │ switched in                      │
//!             ▼                                  │
//!          Running ──preempted──▶ Runnable       │
//!             │ blocks                           │
//!             └──────────▶ Sleeping ─────────────┘         … ──▶ Done
//! ```
//!
//! A task is *on a CPU* from the beginning of the switch to it until it leaves; that is what
//! `is_running` tells. While on a CPU it is suspended in one of several ways ([`Doing`]), which
//! decide whether it can be preempted there.

use corosensei::Yielder;

use super::heap::Ps;
use crate::machine::line::NOBODY;
use crate::scheduler::class::Class;

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    New,
    Runnable,
    Running,
    Sleeping,
    Done,
}

/// What a running task is doing while other events happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It is being switched in.
    Switching,
    /// Computing (or between two operations) until then.
    Computing { until: Ps },
    /// Waiting for a line, for stores, or for another CPU: cannot be interrupted.
    Memory,
    /// Spinning, and nothing that it looks at has changed.
    Watching,
}

/// How time is accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Account {
    Running = 0,
    Spinning = 1,
    Runnable = 2,
    Sleeping = 3,
}

/// Lines that the last run of a spin closure looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    /// Lines, with the version that was seen first.
    lines: [(u32, u32); Watch::MOST],
    len: u8,
    /// There were more: poll.
    pub(crate) overflow: bool,
    pub(crate) recording: bool,
}

impl Watch {
    const MOST: usize = 8;

    pub(crate) const NOTHING: Self =
        Self { lines: [(NOBODY, 0); Self::MOST], len: 0, overflow: false, recording: false };

    /// Forgets everything, and notes from now on.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.len = 0;
        self.overflow = false;
        self.recording = true;
    }

    /// The closure looks at a line. `true`: for the first time.
    #[inline]
    pub(crate) fn note(&mut self, line: u32, version: u32) -> bool {
        if self.entry(line).is_some() {
            return false;
        }
        match self.lines.get_mut(usize::from(self.len)) {
            Some(slot) => {
                *slot = (line, version);
                self.len += 1;
            }
            None => self.overflow = true,
        }
        true
    }

    fn entry(&mut self, line: u32) -> Option<&mut (u32, u32)> {
        self.lines[..usize::from(self.len)].iter_mut().find(|entry| entry.0 == line)
    }

    /// What was seen of a line is as of `version`.
    pub(crate) fn update(&mut self, line: u32, version: u32) {
        if let Some(entry) = self.entry(line) {
            entry.1 = version;
        }
    }

    /// The version that was seen of a line.
    pub(crate) fn seen(&mut self, line: u32) -> Option<u32> {
        self.entry(line).map(|entry| entry.1)
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        self.lines[..usize::from(self.len)].iter().copied()
    }
}

/// The polling rhythm of a spin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    /// When the last poll ended.
    pub(crate) last: Ps,
    /// Distance to the next poll.
    pub(crate) step: Ps,
    /// The distance doubles up to this.
    pub(crate) longest: Ps,
}

impl Rhythm {
    /// The first poll at or after `time`; the rhythm goes on from there.
    pub(crate) fn poll_after(&mut self, time: Ps) -> Ps {
        let mut poll = self.last + self.step;
        while self.step < self.longest && poll < time {
            self.step = (self.step * 2).min(self.longest);
            poll += self.step;
        }
        if poll < time {
            poll += (time - poll).div_ceil(self.step) * self.step;
        }
        if self.step < self.longest {
            self.step = (self.step * 2).min(self.longest);
        }
        poll
    }
}

/// A simulated thread.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) state: State,
    pub(crate) doing: Doing,
    /// The CPU it runs on, or ran on last.
    pub(crate) cpu: u32,
    /// Where it may run; anywhere if none.
    pub(crate) pinned: Option<u32>,
    pub(crate) class: Class,
    /// Its class when nothing is lent to it.
    pub(crate) own_class: Class,
    /// Distinguishes the event by which it goes on from older ones.
    pub(crate) stamp: u32,
    /// Computation left when it was preempted.
    pub(crate) left: Ps,
    /// Depth in the simulated kernel: not preemptible there.
    pub(crate) kernel: u32,
    /// To be preempted as soon as possible.
    pub(crate) give_up: bool,
    pub(crate) yielder: *const Yielder<(), ()>,
    /// Its stack.
    pub(crate) stack: core::ops::Range<usize>,
    /// While it is suspended: everything of its stack below has returned.
    pub(crate) stack_top: usize,
    /// The registry has no record for it.
    pub(crate) anonymous: bool,
    /// Windows that it is in, one inside the other.
    pub(crate) windows: u32,
    /// It holds nothing: a handler may keep it.
    pub(crate) may_stop: bool,
    /// Until when a handler has kept it; `Ps::MAX` while one does.
    pub(crate) stopped_until: Ps,
    /// It is a thread of the process that this one was forked from.
    pub(crate) ghost: bool,

    // Spinning.
    pub(crate) watch: Watch,
    pub(crate) watch_stamp: u32,
    pub(crate) rhythm: Rhythm,
    pub(crate) spinning: bool,
    pub(crate) courteous: bool,
    pub(crate) spin_stamp: u32,
    /// When its patience is spent.
    pub(crate) spin_limit: Ps,
    /// The task that must run for the spin to go on.
    pub(crate) spins_for: u32,
    /// Tasks that spin only while this one runs.
    pub(crate) spun_for_by: Vec<u32>,

    // Sleeping.
    /// The futex bucket in which it waits.
    pub(crate) bucket: Option<u32>,
    /// Until when it sleeps, as the program's clock shows it, ns.
    pub(crate) deadline: Option<u64>,
    /// Woken before it slept.
    pub(crate) woken: bool,
    pub(crate) timer_stamp: u32,
    /// Its sleep is as long as its timer says: no idle state makes it longer.
    pub(crate) comes_back: bool,
    /// Granted the kernel's lock that it queued for.
    pub(crate) granted: bool,
    pub(crate) node_line: u32,
    /// Line of its own lock, which wake-ups take.
    pub(crate) lock_line: u32,

    // Scheduling.
    pub(crate) virtual_time: Ps,
    /// Start of its present turn on the CPU.
    pub(crate) turn_since: Ps,
    /// Until when its virtual time has been counted.
    pub(crate) counted: Ps,
    /// When it left a CPU last.
    pub(crate) left_at: Ps,
    pub(crate) queue_key: (u64, u64),

    // Accounting.
    pub(crate) account: Account,
    pub(crate) since: Ps,
    pub(crate) spent: [Ps; 4],
    pub(crate) transfers: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) migrations: u64,
    pub(crate) operations: u64,
}

impl Task {
    pub(crate) fn new(cpu: u32, stack: core::ops::Range<usize>) -> Self {
        Self {
            state: State::New,
            doing: Doing::Switching,
            cpu,
            pinned: None,
            class: Class::Fair,
            own_class: Class::Fair,
            stamp: 0,
            left: 0,
            kernel: 0,
            give_up: false,
            yielder: core::ptr::null(),
            stack_top: stack.start,
            stack,
            anonymous: false,
            windows: 0,
            may_stop: false,
            stopped_until: 0,
            ghost: false,
            watch: Watch::NOTHING,
            watch_stamp: 0,
            rhythm: Rhythm { last: 0, step: 1, longest: 1 },
            spinning: false,
            courteous: false,
            spin_stamp: 0,
            spin_limit: 0,
            spins_for: NOBODY,
            spun_for_by: Vec::new(),
            bucket: None,
            deadline: None,
            woken: false,
            timer_stamp: 0,
            comes_back: false,
            granted: false,
            node_line: NOBODY,
            lock_line: NOBODY,
            virtual_time: 0,
            turn_since: 0,
            counted: 0,
            left_at: 0,
            queue_key: (0, 0),
            account: Account::Sleeping,
            since: 0,
            spent: [0; 4],
            transfers: 0,
            voluntary: 0,
            involuntary: 0,
            migrations: 0,
            operations: 0,
        }
    }

    /// CPU time used until `now`.
    pub(crate) fn cpu_time(&self, now: Ps) -> Ps {
        let busy = self.spent[Account::Running as usize] + self.spent[Account::Spinning as usize];
        match self.account {
            Account::Running | Account::Spinning => busy + now.saturating_sub(self.since),
            Account::Runnable | Account::Sleeping => busy,
        }
    }

    /// Whether it is on a CPU.
    pub(crate) fn on_cpu(&self) -> bool {
        self.state == State::Running
    }

    /// From `now` on its time goes to `account`.
    pub(crate) fn charge(&mut self, now: Ps, account: Account) {
        self.spent[self.account as usize] += now - self.since;
        self.since = now;
        self.account = account;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_come_at_multiples_of_the_period() {
        let mut rhythm = Rhythm { last: 100, step: 40, longest: 40 };
        assert_eq!(rhythm.poll_after(101), 140);
        assert_eq!(rhythm.poll_after(140), 140);
        assert_eq!(rhythm.poll_after(141), 180);
        assert_eq!(rhythm.poll_after(10_000), 10_020);
    }

    #[test]
    fn strides_double_up_to_the_longest() {
        let mut rhythm = Rhythm { last: 0, step: 10, longest: 40 };
        // Polls at 10, 30, 70, 110, 150 …
        assert_eq!(rhythm.poll_after(5), 10);
        rhythm = Rhythm { last: 0, step: 10, longest: 40 };
        assert_eq!(rhythm.poll_after(31), 70);
        rhythm.last = 70;
        assert_eq!(rhythm.poll_after(71), 110);
    }

    #[test]
    fn a_watch_remembers_each_line_once_and_says_when_it_is_full() {
        let mut watch = Watch::NOTHING;
        for line in [3, 3, 4] {
            watch.note(line, line + 1);
        }
        watch.update(4, 7);
        assert_eq!((watch.lines().collect::<Vec<_>>(), watch.overflow), (vec![(3, 4), (4, 7)], false));
        for line in 0..20 {
            watch.note(line, 0);
        }
        assert!(watch.overflow);
    }
}
