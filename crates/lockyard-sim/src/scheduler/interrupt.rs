//! The timer's interrupt.
//!
//! The timers of all busy CPUs fire at the same instants, the multiples of the tick (`skew_tick=0`,
//! Linux's default), and their handlers write what all CPUs share: the locks of timekeeping and of
//! RCU. That they queue for it is what the option is there for ("jitter on moderate to large
//! systems", Red Hat's guide to real-time tuning). So at each tick every busy CPU asks for one line
//! of the machine; its handler ends `os.tick_cost` after it has got it. A few CPUs are through
//! within that time; on a machine of many sockets the last of a hundred come tens of microseconds
//! late, and whatever lock they hold is held for so long.
//!
//! ```text
//!  none ──tick──▶ queued ──the line is here──▶ until(t) ──t──▶ none
//! ```
//!
//! A task whose CPU is interrupted stops as soon as it computes (it ends the access to memory that
//! it has begun). Idle CPUs have no tick, and when no CPU is busy there are no ticks at all.

use crate::engine::Engine;
use crate::engine::heap::{Ps, What};
use crate::engine::host::Host;
use crate::engine::task::Doing;
use crate::machine::line::{Asker, NOBODY};

use super::cpu::Interrupt;

impl Engine {
    /// A CPU is busy: there will be a tick.
    pub(super) fn start_ticks(&mut self) {
        if self.next_tick == Ps::MAX {
            self.next_tick = (self.now / self.model.os.tick + 1) * self.model.os.tick;
            self.schedule(self.next_tick, What::Ticks);
        }
    }

    /// The timers fire.
    pub(crate) fn ticks(&mut self) {
        self.next_tick = Ps::MAX;
        // With nothing else due, nothing will ever happen here: no reason to go on ticking.
        if self.heap.is_empty() {
            return;
        }
        for cpu in 0..self.cpus.len() as u32 {
            let target = &mut self.cpus[cpu as usize];
            if target.current == NOBODY {
                continue;
            }
            let queued = std::mem::replace(&mut target.interrupt, Interrupt::Queued) == Interrupt::Queued;
            let core = target.core;
            if !queued {
                self.request(self.tick_line, Asker::Interrupt { cpu }, core, true);
            }
            self.start_ticks();
        }
    }

    /// The handler of `cpu` has got the shared line.
    pub(crate) fn interrupt_served(&mut self, cpu: u32) {
        let until = self.now + self.uneven(self.model.os.tick_cost);
        let target = &mut self.cpus[cpu as usize];
        target.interrupt = Interrupt::Until(until);
        let stopped = std::mem::take(&mut target.stopped);
        let current = target.current;
        if stopped && current != NOBODY {
            self.wake_at(until, current);
        }
    }

    /// Whether the CPU of the running task is in its timer's handler.
    #[inline(always)]
    pub(crate) fn interrupted(&self) -> bool {
        match self.cpus[self.here as usize].interrupt {
            Interrupt::None => false,
            Interrupt::Queued => true,
            Interrupt::Until(end) => self.now < end,
        }
    }
}

impl Host {
    /// Waits for the end of the interrupt.
    pub(crate) fn stand_still(self) {
        let engine = self.engine();
        let (task, now) = (engine.current, engine.now);
        engine.tasks[task as usize].doing = Doing::Computing { until: now };
        match engine.cpus[engine.here as usize].interrupt {
            Interrupt::Until(end) if now < end => engine.wake_at(end, task),
            Interrupt::Queued => engine.cpus[engine.here as usize].stopped = true,
            Interrupt::None | Interrupt::Until(_) => return,
        }
        self.suspend();
    }
}
