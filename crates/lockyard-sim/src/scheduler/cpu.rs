//! A CPU: a hardware thread with a task, a queue, and a store buffer.

use super::idle::Governor;
use super::queue::Queue;
use crate::engine::heap::Ps;
use crate::machine::buffer::StoreBuffer;
use crate::machine::line::NOBODY;

/// What a CPU's siblings notice of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    Idle,
    Spinning,
    Busy,
}

/// Whether a CPU's timer has interrupted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    None,
    /// Its handler waits for the shared line.
    Queued,
    /// Its handler ends then.
    Until(Ps),
}

/// A CPU.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) core: u16,
    /// The task on it.
    pub(crate) current: u32,
    pub(crate) queue: Queue,
    pub(crate) buffer: StoreBuffer,
    /// Shared lines that it has asked for ahead of a load, and when each is here.
    fills: Vec<(u32, Ps)>,
    pub(crate) activity: Activity,
    /// The fair task that was woken here last.
    pub(crate) buddy: u32,
    /// Somebody better waits.
    pub(crate) need_resched: bool,
    /// Distinguishes the event that ends a switch from older ones.
    pub(crate) stamp: u32,
    pub(crate) ticking: bool,
    pub(crate) interrupt: Interrupt,
    /// Its task waits for the end of the interrupt.
    pub(crate) stopped: bool,
    pub(crate) governor: Governor,
    /// The idle state it is in; `None` polls.
    pub(crate) idle_state: Option<usize>,
    pub(crate) idle_since: Ps,
    /// All time it idled, without the present.
    pub(crate) idle_time: Ps,
    pub(crate) switches: u64,
    pub(crate) rq_line: u32,
}

impl Cpu {
    pub(crate) fn new(core: u16, rq_line: u32) -> Self {
        Self {
            core,
            current: NOBODY,
            queue: Queue::default(),
            buffer: StoreBuffer::default(),
            fills: Vec::new(),
            activity: Activity::Idle,
            buddy: NOBODY,
            need_resched: false,
            stamp: 0,
            ticking: false,
            interrupt: Interrupt::None,
            stopped: false,
            governor: Governor::default(),
            idle_state: None,
            idle_since: 0,
            idle_time: 0,
            switches: 0,
            rq_line,
        }
    }

    /// `line`, which no task waits for, is here at `done`.
    pub(crate) fn expect_fill(&mut self, line: u32, now: Ps, done: Ps) {
        self.fills.retain(|fill| fill.1 > now);
        self.fills.push((line, done));
    }

    /// How long a load of `line`, which its core shares, still waits for it.
    #[inline(always)]
    pub(crate) fn rest_of_fill(&self, line: u32, now: Ps) -> Ps {
        self.fills.iter().find(|fill| fill.0 == line).map_or(0, |fill| fill.1.saturating_sub(now))
    }

    /// Whether it has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.current == NOBODY && self.queue.is_empty()
    }
}
