//! How long a thread spins.

#[cfg(doc)]
use super::Platform;
use super::ThreadId;

/// What a look of [`Platform::spin_paced`] comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance<T> {
    /// The spin ends with this.
    Done(T),
    /// Nobody has written since the last look: the next one comes soon, and disturbs nobody.
    Same,
    /// Somebody has, and this look was in vain: the distance to the next doubles.
    Changed,
}

/// How long a spin may last: the conditions under which [`Platform::spin`] gives up.
///
/// Every field is a reason to stop; a wait ends at the first that applies. They are data, not code,
/// so that a machine which knows when each becomes true (the simulator) need not poll.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Stop after about this long, in nanoseconds of spinning. `u32::MAX` means no such limit.
    pub ns: u32,
    /// Stop at this absolute time of [`Platform::now`].
    pub deadline: Option<u64>,
    /// Stop when this thread is seen not to be running.
    pub running: Option<ThreadId>,
    /// Stop when [`Platform::should_yield`] says so.
    pub courteous: bool,
    /// Not a reason to stop: the distance between polls, in nanoseconds, at first, and the one to
    /// which it doubles. (0, 0) polls at every relax.
    pub stride_ns: (u32, u32),
}

impl Patience {
    /// Spin for about `ns` nanoseconds.
    #[inline(always)]
    pub const fn ns(ns: u32) -> Self {
        Self { ns, deadline: None, running: None, courteous: false, stride_ns: (0, 0) }
    }

    /// ... but no longer than until `deadline`.
    #[inline(always)]
    pub(crate) const fn until(mut self, deadline: Option<u64>) -> Self {
        self.deadline = deadline;
        self
    }

    /// ... and only while `thread` is running.
    #[inline(always)]
    pub(crate) const fn while_running(mut self, thread: ThreadId) -> Self {
        self.running = Some(thread);
        self
    }

    /// ... polling ever more rarely, from every `first` to every `last` nanoseconds: a rival that
    /// looks at the word less disturbs its owner less.
    #[inline(always)]
    pub(crate) const fn stride(mut self, first: u32, last: u32) -> Self {
        self.stride_ns = (first, last);
        self
    }

    /// ... and only while nobody else needs this CPU.
    #[inline(always)]
    pub(crate) const fn courteous(mut self) -> Self {
        self.courteous = true;
        self
    }
}
