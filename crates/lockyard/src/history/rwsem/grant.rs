//! Letting queued readers in, waking the first queued writer, and leaving the queue: all that
//! happens to the queue under the wait lock.
//!
//! # A grant pass
//!
//! The asymmetry of the lock is here. A queued *writer* is only woken; it takes the lock itself, or
//! is passed and sleeps again. Queued *readers* are made holders in their sleep.
//!
//! 1. The first waiter is a writer: wake it, if the caller's [`Mode`] says so. Done.
//! 2. It is a reader: *probe*. Add one bias, which keeps writers out from then on. If a writer was
//!    there, take it back (and ask for handoff, if the reader has waited its time). Done: that
//!    writer's release comes here again.
//! 3. Count the readers to be served, and add their biases: all of them hold the lock now.
//! 4. Only then unlink them and tell them one by one (`granted`). From that instant each may
//!    release and be gone.
//!
//! Steps 3 and 4 in this order are the two phases without which a granted reader could release a
//! bias that was not yet added (historical bug B2). Both walk the queue; it cannot change in
//! between.
//!
//! Callers: a release that leaves waiters on a free lock; a reader or writer that queues, for the
//! others' sake; a waiter that gives up being first; a reader that went in past waiters, for other
//! readers' sake (`Mode::ReadOwned`).
//!
//! # Memory ordering
//!
//! The probe is Acquire: it sees what earlier holders wrote, and hands it on through `granted`
//! (Release; the reader's test is Acquire). The adjustment of step 3 and the flags are Relaxed
//! read-modify-writes under the wait lock: they keep the release sequences of `count` alive.
//! Wake-ups come after the wait lock is dropped, and may arrive late: every wait is a loop.
//!
//! **Bound.** One pass serves at most [`MAX_GRANTS`] readers where the policy serves all; the
//! others have `WAITERS` still set for them, and are served by the next release, or the next to
//! queue. A pass over a head run is unbounded, as it was; its list of wake-ups is emptied under the
//! wait lock whenever it is full.

use crate::event::Event;
use crate::platform::thread::Thread;
use crate::platform::{Ordering::*, Platform, Word};
use crate::wait::queue::WakeList;
use crate::wait::section;

use super::owner::RD_NONSPINNABLE;
use super::policy::{AbortWake, CountScheme, EnqueueWake, Handoff, Policy, Track, WakeReaders};
use super::{BIAS, HANDOFF, KernelRwSem, MAX_GRANTS, WAITERS, WRITER};

/// `waiter.kind`: wants to write.
pub(super) const WRITES: u32 = 1;
/// `waiter.kind`: is entitled to the pending handoff.
pub(super) const HANDOFF_SET: u32 = 2;

/// Whom a pass may serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// The first waiter, whatever it wants.
    Any,
    /// Readers, if one is first.
    Readers,
    /// Readers, if one is first; the caller holds the lock for reading, so no writer can.
    ReadOwned,
}

/// Threads to wake after a pass.
pub(super) type Wakes = WakeList<MAX_GRANTS>;

/// Whether a waiter wants to write.
pub(super) fn writes<P: Platform>(thread: &Thread<P>) -> bool {
    thread.waiter.kind.load(Relaxed) & WRITES != 0
}

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// Runs `change` under the wait lock.
    pub(super) fn locked<R>(&self, change: impl FnOnce() -> R) -> R {
        section::locked(&self.wait_lock, change)
    }

    /// Runs `change` under the wait lock and wakes, afterwards, whom it has listed.
    pub(super) fn locked_waking<R>(&self, change: impl FnOnce(&mut Wakes) -> R) -> R {
        let mut wakes = Wakes::new();
        let result = self.locked(|| change(&mut wakes));
        wakes.wake::<P>();
        result
    }

    /// A grant pass.
    #[cold]
    #[inline(never)]
    pub(super) fn wake(&self, mode: Mode) {
        self.locked_waking(|wakes| self.grant(mode, wakes));
    }

    /// The last reader has left a lock with waiters.
    #[cold]
    #[inline(never)]
    pub(super) fn read_released(&self) {
        self.clear_nonspinnable();
        self.wake(Mode::Any);
    }

    /// Makes `thread` a waiter: to be called before it is in a queue.
    pub(super) fn prepare(&self, thread: &Thread<P>, kind: u32, note: u32) {
        let waiter = &thread.waiter;
        waiter.granted.store(0, Relaxed);
        waiter.kind.store(kind, Relaxed);
        waiter.note.store(note, Relaxed);
        if let Handoff::After(ns) = Y::HANDOFF {
            waiter.due.store(P::now().saturating_add(ns), Relaxed);
        }
    }

    /// The pass itself, under the wait lock.
    pub(super) fn grant(&self, mode: Mode, wakes: &mut Wakes) {
        let Some(first) = self.queue.first() else { return };
        let behind_writer = writes(first);
        if behind_writer && mode == Mode::Any {
            wakes.push(first.id());
            P::count(Event::RwsemWakeWriter, 1);
            return;
        }
        if behind_writer && !(Y::PAST_WRITER && mode == Mode::ReadOwned) {
            return;
        }
        if Y::OVERFLOW_GUARD && (self.count.load(Relaxed) as i64) < 0 {
            return;
        }
        let probed = mode != Mode::ReadOwned;
        if probed && !self.probe(first) {
            return;
        }
        let unit = Y::COUNT.unit();
        let (readers, all) = self.readers_to_serve();
        if readers == 0 {
            return;
        }
        let mut add = unit.wrapping_mul(readers - u64::from(probed));
        if all {
            add = add.wrapping_sub(Y::COUNT.waiters());
        }
        if Y::HANDOFF.exists() && !behind_writer && self.count.load(Relaxed) & HANDOFF != 0 {
            add = add.wrapping_sub(HANDOFF);
        }
        P::count(Event::RwsemWakeReader, 1);
        if Y::TWO_PHASE_GRANT {
            self.adjust(add);
            self.tell(readers, wakes);
        } else {
            self.tell(readers, wakes);
            self.adjust(add);
        }
    }

    fn adjust(&self, add: u64) {
        if add != 0 {
            self.count.fetch_add(add, Relaxed);
        }
    }

    /// Keeps writers out for `first`, a reader. `false`: a writer is in.
    fn probe(&self, first: &Thread<P>) -> bool {
        let open = match Y::COUNT {
            CountScheme::Biased => self.biased_probe(),
            CountScheme::Bits => self.bits_probe(first),
        };
        if open {
            // Early, for spinners. A reader that saw the mark against readers when it came
            // passes it on.
            let extra = if Y::ADAPTIVE_RSPIN { first.waiter.note.load(Relaxed) & RD_NONSPINNABLE } else { 0 };
            if extra != 0 {
                P::count(Event::RwsemOptNorspin, 1);
            }
            self.owned_by_reader(first.id(), extra);
        }
        open
    }

    fn bits_probe(&self, first: &Thread<P>) -> bool {
        let count = self.count.fetch_add(BIAS, Acquire);
        if count & WRITER == 0 {
            return true;
        }
        let mut undo = BIAS;
        if Y::HANDOFF.exists() && P::now() > first.waiter.due.load(Relaxed) {
            if count & HANDOFF == 0 {
                undo -= HANDOFF; // which sets it
                P::count(Event::RwsemRlockHandoff, 1);
            }
            if Y::TRACK == Track::Flag {
                first.waiter.kind.store(HANDOFF_SET, Relaxed);
            }
        }
        self.count.fetch_sub(undo, Relaxed);
        false
    }

    /// How many queued readers a pass serves, and whether nobody is left then.
    fn readers_to_serve(&self) -> (u64, bool) {
        let (mut readers, mut all) = (0, true);
        let mut next = self.queue.first();
        while let Some(waiter) = next {
            if writes(waiter) {
                all = false;
                if Y::WAKE_READERS == WakeReaders::HeadRun {
                    break;
                }
            } else if Y::WAKE_READERS == WakeReaders::All && readers == MAX_GRANTS as u64 {
                all = false;
                break;
            } else {
                readers += 1;
            }
            next = self.queue.after(waiter);
        }
        (readers, all)
    }

    /// Unlinks the first `readers` readers and tells them that the lock is theirs.
    fn tell(&self, readers: u64, wakes: &mut Wakes) {
        let mut told = 0;
        let mut next = self.queue.first();
        while told < readers
            && let Some(waiter) = next
        {
            next = self.queue.after(waiter);
            if writes(waiter) {
                continue;
            }
            let name = waiter.id();
            self.queue.remove(waiter);
            // From here on its thread may return, and wait elsewhere.
            waiter.waiter.granted.store(1, Release);
            wakes.push(name);
            told += 1;
            if told % MAX_GRANTS as u64 == 0 {
                wakes.wake::<P>();
            }
        }
    }

    /// A reader has queued (`first`: before it the queue was empty) and left `count`: serves the
    /// waiters that can be served.
    pub(super) fn grant_after_reader(&self, count: u64, first: bool, wakes: &mut Wakes) {
        let held = Y::COUNT.held(count);
        match Y::ENQUEUE_WAKE {
            EnqueueWake::C => return self.grant_by_holder(count, wakes),
            EnqueueWake::B if !held => self.clear_nonspinnable(),
            EnqueueWake::A | EnqueueWake::B => {}
        }
        if !held || first && !Y::COUNT.written(count) {
            self.grant(Mode::Any, wakes);
        }
    }

    /// A writer has queued behind others and seen `count`.
    pub(super) fn grant_after_writer(&self, count: u64, wakes: &mut Wakes) {
        if Y::ENQUEUE_WAKE == EnqueueWake::C {
            self.grant_by_holder(count, wakes);
        } else if Y::COUNT.written(count) {
            // Its release wakes.
        } else if Y::COUNT.held(count) {
            self.grant(Mode::Readers, wakes);
        } else if Y::ENQUEUE_WAKE == EnqueueWake::B {
            self.grant(Mode::Any, wakes);
        }
    }

    fn grant_by_holder(&self, count: u64, wakes: &mut Wakes) {
        if Y::COUNT.written(count) {
            return;
        }
        if Y::COUNT.held(count) {
            self.grant(Mode::Readers, wakes);
        } else {
            self.clear_nonspinnable();
            self.grant(Mode::Any, wakes);
        }
    }

    /// `thread` gives up waiting. `promised`: it has asked for handoff and takes that back with it.
    /// If it was first it may have consumed the only wake-up, or have blocked those behind it: they
    /// are looked after (historical bug B10).
    pub(super) fn abort(&self, thread: &Thread<P>, promised: bool, wakes: &mut Wakes) {
        let was_first = self.queue.is_first(thread);
        let empty = self.queue.remove(thread);
        match Y::COUNT {
            CountScheme::Biased if empty => {
                self.count.fetch_sub(Y::COUNT.waiters(), Relaxed);
            }
            CountScheme::Bits if empty => {
                self.count.fetch_and(!(WAITERS | HANDOFF), Relaxed);
            }
            CountScheme::Bits if promised => {
                self.count.fetch_and(!HANDOFF, Relaxed);
            }
            _ => {}
        }
        let wake = match Y::ABORT_WAKE {
            AbortWake::FirstAny => was_first,
            AbortWake::WriterOnly => writes(thread),
        };
        if wake && !empty {
            self.grant(Mode::Any, wakes);
        }
    }
}
