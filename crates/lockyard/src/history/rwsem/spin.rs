//! Spinning for an rwsem before queueing for it.
//!
//! A newcomer spins while it looks as if the lock will be free soon: a writer that runs holds it,
//! or nobody, or, where the policy says so and for a limited time, readers. One thread at a time
//! looks at the lock; the other spinners stand behind it in the [OSQ](crate::wait::osq). A spinner
//! may pass queued waiters, unless one of those has asked for handoff.
//!
//! # What the spinner does
//!
//! | owner word says | it |
//! |---|---|
//! | a writer | watches the word while that thread runs; leaves if it does not |
//! | nobody | tries; the lock is about to be free, or has just been taken |
//! | readers | writer, timed policies: tries for [`reader_budget`], then marks the word nonspinnable and leaves. Reader: tries |
//! | nonspinnable | leaves |
//!
//! # Bounds
//!
//! A spin ends at [`Platform::spin_budget`] after its start, and whenever the machine says that the
//! CPU is needed elsewhere. Two states could last longer than anybody's budget where that is
//! unlimited, and are bounded on their own:
//!
//! * *The owner gap.* A thread has changed the count and not yet the owner word. In the kernel it
//!   cannot be preempted there; here it can. Held with no owner for [`NULL_OWNER_NS`]: leave.
//! * *The swallowed wake-up.* A reader that tried (added its bias) may have been the only reason
//!   why the last holder woke nobody. The kernel relies on it to try again; but after a request for
//!   handoff its tries are all in vain. It therefore wakes the heir when it takes its bias back and
//!   finds the lock free but promised ([`KernelRwSem::take_bias_back`]; invariant 11).
//!
//! # Memory ordering
//!
//! Taking is Acquire. Taking a bias back is Relaxed: nothing was read or written under it. "The
//! owner is still the same, and runs": two loads in either order; a record may be looked at at any
//! time.

use crate::cancel::Until;
use crate::event::Event;
use crate::platform::thread::{Thread, ThreadId};
use crate::platform::{Ordering::*, Patience, Platform, Word};

use super::grant::Mode;
use super::owner::{self, Kind, OwnerState, READER_OWNED};
use super::policy::{CountScheme, Policy, ReaderSpin, RtNullOwner};
use super::{BIAS, HANDOFF, KernelRwSem, LOCKED, READFAIL, WRITER, biased};

/// How long the lock may look held by nobody before a spinner takes the holder to be off its CPU.
/// Long enough for the holder's store to get through to the line on a large machine where everybody
/// else is after it as well.
const NULL_OWNER_NS: u64 = 50_000;

/// How long a writer spins on `readers` readers: 10 µs, and half a microsecond for each, up to 25
/// µs.
const fn reader_budget(readers: u64) -> u64 {
    let counted = if readers > 30 { 30 } else { readers };
    10_000 + counted * 500
}

/// One spin: whose, for what, and until when.
struct Spinner {
    me: ThreadId,
    kind: Kind,
    realtime: bool,
    patience: Patience,
}

impl Spinner {
    /// Out of time.
    fn late<P: Platform>(&self) -> bool {
        self.patience.deadline.is_some_and(|end| P::now() >= end)
    }
}

impl<P: Platform, Y: Policy> KernelRwSem<P, Y> {
    /// Whether spinning is worth beginning.
    pub(super) fn can_spin(&self, kind: Kind) -> bool {
        let word = self.owner.load(Relaxed);
        let state = owner::state::<Y>(word, kind);
        let running = match (state, owner::identity(word)) {
            (OwnerState::Writer(id), _) => P::is_running(id),
            (OwnerState::Reader, Some(id)) if Y::ONCPU_CHECK_ON_READERS => P::is_running(id),
            _ => true,
        };
        let yes = state != OwnerState::Nonspinnable && running && !P::should_yield();
        if !yes {
            P::count(Event::RwsemOptFail, 1);
        }
        yes
    }

    /// Spins. `true`: the lock is ours.
    pub(super) fn spin(&self, thread: &Thread<P>, kind: Kind, until: Until<'_, P>) -> bool {
        let budget = P::spin_budget();
        let end = match budget {
            u32::MAX => until.wake_time(),
            ns => until.wake_time_or(P::now() + u64::from(ns)),
        };
        let patience = Patience::ns(budget).until(end).courteous();
        let mut taken = false;
        if self.osq.join(thread, patience) {
            let me = thread.id();
            taken = self.spin_as_head(&Spinner { me, kind, realtime: P::is_realtime(me), patience });
            self.osq.leave(thread);
        }
        if !taken {
            P::count(Event::RwsemOptFail, 1);
        }
        taken
    }

    fn spin_as_head(&self, spinner: &Spinner) -> bool {
        let mut before = OwnerState::Null;
        let mut readers_end = 0;
        loop {
            let state = self.watch(spinner.kind, spinner.patience);
            if state == OwnerState::Nonspinnable {
                return false;
            }
            if self.spinner_take(spinner) {
                return true;
            }
            if !state.is_writer() {
                let last_try = match Y::RT_NULL_OWNER {
                    RtNullOwner::Quit => true,
                    RtNullOwner::OneRetry => !before.is_writer(),
                };
                if P::should_yield() || spinner.realtime && last_try {
                    return false;
                }
                if state == OwnerState::Reader && before != OwnerState::Reader {
                    let readers = self.count.load(Relaxed) >> BIAS.trailing_zeros();
                    readers_end = P::now() + reader_budget(readers);
                }
                if !spinner.realtime
                    && let Some(taken) = self.wait_for_change(spinner, state, readers_end)
                {
                    return taken;
                }
            }
            if spinner.late::<P>() {
                return false;
            }
            before = state;
            P::relax();
        }
    }

    /// While readers or nobody own the lock: tries whenever it looks free. `None`: another state,
    /// look again.
    fn wait_for_change(&self, spinner: &Spinner, state: OwnerState, readers_end: u64) -> Option<bool> {
        let timed = state == OwnerState::Reader && spinner.kind == Kind::Write;
        let limit = match state {
            OwnerState::Reader if timed => Some(readers_end),
            OwnerState::Null => Some(P::now() + NULL_OWNER_NS),
            _ => None,
        };
        let end = match (spinner.patience.deadline, limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let seen = P::spin(spinner.patience.until(end), || {
            if owner::state::<Y>(self.owner.load(Relaxed), spinner.kind) != state {
                return Some(None);
            }
            match spinner.kind {
                Kind::Write => self.spinner_take(spinner).then_some(Some(true)),
                // The try is for the caller: it may have to wake somebody, which does not belong in
                // a poll.
                Kind::Read => (self.count.load(Relaxed) & (WRITER | HANDOFF | READFAIL) == 0).then_some(None),
            }
        });
        if let Some(outcome) = seen {
            return outcome;
        }
        let expired = limit.is_some_and(|limit| P::now() >= limit);
        if P::should_yield() || spinner.late::<P>() || !expired {
            return Some(false);
        }
        if timed {
            self.set_nonspinnable();
            P::count(Event::RwsemOptNospin, 1);
            return Some(false);
        }
        // No owner for long: either its holder is off its CPU before it could say so, or the heir
        // of a handoff is on its way.
        if Y::COUNT.held(self.count.load(Relaxed)) { Some(false) } else { None }
    }

    /// Watches a writer that owns the lock, while it runs. Returns what the owner word says then.
    pub(super) fn watch(&self, kind: Kind, patience: Patience) -> OwnerState {
        let seen = self.owner.load(Relaxed);
        let state = owner::state::<Y>(seen, kind);
        let OwnerState::Writer(id) = state else { return state };
        let change = P::spin(patience.while_running(id), || {
            let word = self.owner.load(Relaxed);
            if word != seen {
                return Some(owner::state::<Y>(word, kind));
            }
            let stop = Y::WATCH_STOPS_ON_HANDOFF && self.count.load(Relaxed) & HANDOFF != 0;
            stop.then_some(OwnerState::Nonspinnable)
        });
        change.unwrap_or(OwnerState::Nonspinnable)
    }

    fn spinner_take(&self, spinner: &Spinner) -> bool {
        match spinner.kind {
            Kind::Read => self.spinner_read_try(spinner.me),
            Kind::Write => {
                let taken = self.write_past_waiters(spinner.me);
                if taken {
                    P::count(Event::RwsemOptLock, 1);
                }
                taken
            }
        }
    }

    /// Takes the lock for writing if nobody holds it and nobody was promised it. Waiters may be
    /// passed.
    pub(super) fn write_past_waiters(&self, me: ThreadId) -> bool {
        let mut count = self.count.load(Relaxed);
        loop {
            let next = match Y::COUNT {
                CountScheme::Biased => match count {
                    0 | biased::WAIT => count.wrapping_add(biased::W),
                    _ => return false,
                },
                CountScheme::Bits if count & (LOCKED | HANDOFF) == 0 => count | WRITER,
                CountScheme::Bits => return false,
            };
            match self.count.compare_exchange_weak(count, next, Acquire, Relaxed) {
                Ok(_) => {
                    self.owned_by_writer(me);
                    return true;
                }
                Err(found) => count = found,
            }
        }
    }

    /// Takes the lock for reading if no writer holds it and nobody was promised it. Waiters may be
    /// passed. For threads that must not queue.
    pub(super) fn read_past_waiters(&self, me: ThreadId) -> bool {
        if Y::COUNT == CountScheme::Biased {
            let taken = self.biased_read_past_waiters();
            if taken {
                self.owned_by_reader(me, 0);
            }
            return taken;
        }
        let mut count = self.count.load(Relaxed);
        while count & (WRITER | HANDOFF | READFAIL) == 0 {
            match self.count.compare_exchange_weak(count, count + BIAS, Acquire, Relaxed) {
                Ok(_) => {
                    self.owned_by_reader(me, 0);
                    return true;
                }
                Err(found) => count = found,
            }
        }
        false
    }

    /// One try of a spinning reader: adds its bias, takes it back if a writer was there, or there
    /// was no room.
    pub(super) fn spinner_read_try(&self, me: ThreadId) -> bool {
        if self.count.load(Relaxed) & (WRITER | HANDOFF | READFAIL) != 0 {
            return false;
        }
        if self.count.fetch_add(BIAS, Acquire) & (WRITER | HANDOFF | READFAIL) != 0 {
            self.take_bias_back();
            return false;
        }
        self.owned_by_reader(me, 0);
        P::count(Event::RwsemOptRlock, 1);
        true
    }

    /// A reader that has tried, or is about to spin, removes its bias. If it leaves the lock free
    /// but promised, the wake-up for the heir may have been withheld because of us.
    pub(super) fn take_bias_back(&self) {
        let count = self.count.fetch_sub(BIAS, Relaxed).wrapping_sub(BIAS);
        if count & (LOCKED | HANDOFF) == HANDOFF {
            self.wake(Mode::Any);
        }
    }

    /// One more try after a failed spin, if other readers have come to own the lock since `before`
    /// was read: a new phase of readers.
    pub(super) fn phase_try(&self, me: ThreadId, before: u32) -> bool {
        let word = self.owner.load(Relaxed);
        let new_phase = word & READER_OWNED != 0 && owner::identity(word) != owner::identity(before);
        let taken = new_phase && self.spinner_read_try(me);
        if taken {
            P::count(Event::RwsemOptRlock2, 1);
            P::count(Event::RwsemOptFail, -1);
        }
        taken
    }

    /// A place among the readers that may spin, where that is limited.
    pub(super) fn spin_slot(&self) -> bool {
        let ReaderSpin::Limited(most) = Y::READER_SPIN else { return true };
        let mut spinning = self.reader_spinners.load(Relaxed);
        while spinning < most {
            match self.reader_spinners.compare_exchange_weak(spinning, spinning + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(found) => spinning = found,
            }
        }
        false
    }

    /// Gives the place back.
    pub(super) fn leave_spin_slot(&self) {
        if let ReaderSpin::Limited(_) = Y::READER_SPIN {
            self.reader_spinners.fetch_sub(1, Relaxed);
        }
    }
}
