//! Threads that do not come: waiters that a handler keeps, and those that only the parent of a fork
//! has.
//!
//! A lock that is free is kept for a waiter for a while only; so after a thread was stopped for
//! much longer no lock is free beside a thread that waits for it ([`World::judge`]). A stopped
//! thread may have got the lock in its last steps: then it holds it, and others wait by right,
//! readers behind a writer that waits for it included.
//!
//! The child of a fork may use what the forking thread holds, whatever ghosts are queued for it.
//! What others held stays held there, so the child's threads use that one lock: as the forking
//! thread held it, alone or with other readers.

use std::sync::atomic::Ordering::Relaxed;

use lockyard_catalog::lock::Way;

use crate::child::with_heirs;
use crate::ground::Ground;
use crate::life::Life;
use crate::operation::{Operation, Pace};
use crate::ring::Event;
use crate::world::{KEPT, World};

impl<P: Ground> World<P> {
    /// When a thread that was stopped is about to go on: whether a lock was kept for it.
    ///
    /// # Panics
    /// If so.
    pub(crate) fn judge(&self) {
        if let Some((thread, lock, waited)) = self.kept(P::stamp(), self.setup.kept_ns) {
            panic!("{KEPT}thread {thread} has waited {} ms for lock {lock}, which nobody holds", waited / 1_000_000);
        }
    }

    /// A thread that runs and waits for a lock that has been free for longer than `most` ns: the
    /// thread, the lock, how long. A reader that was stopped between its addition and its taking
    /// that back kept the lock taken: the time counts from the end of the last stop in a call for
    /// it, and of such a call.
    pub(crate) fn kept(&self, now: u64, most: u64) -> Option<(usize, usize, u64)> {
        self.seats.iter().enumerate().find_map(|(thread, seat)| {
            let lock = seat.waits_for.load(Relaxed).checked_sub(1)?;
            let slot = &self.slots[lock];
            P::stopped_until(thread)?;
            let callers = self.seats.iter().enumerate().filter(|(_, other)| other.calls.load(Relaxed) == lock + 1);
            let stopped = callers.filter_map(|(other, _)| P::stopped_until(other)).max().unwrap_or(0);
            let since = seat.since.load(Relaxed).max(slot.moved.load(Relaxed)).max(stopped);
            let waited = now.saturating_sub(since);
            (waited > most && slot.subject.is_open(Way::Write)).then_some((thread, lock, waited))
        })
    }
}

impl<P: Ground> Life<'_, P> {
    /// An opportunity to fork, with lock `number` held.
    pub(crate) fn may_fork(&mut self, number: usize, way: Way) {
        let world = self.world;
        if world.setup.heirs == 0 || world.inherited.get().is_some() {
            return;
        }
        let forked = P::fork(&mut || self.use_in_child(number, way));
        if forked {
            self.become_child(number, way);
        }
    }

    /// The other threads of the parent are ghosts from here on.
    fn become_child(&self, number: usize, way: Way) {
        self.note(Event::Forks, way, number);
        let ghosts = self.world.seats.iter().enumerate().filter(|&(thread, _)| thread != self.me);
        for (_, seat) in ghosts {
            seat.waits_for.store(0, Relaxed);
            seat.calls.store(0, Relaxed);
            seat.token.store(0, Relaxed);
            seat.done.store(true, Relaxed);
        }
        self.world.inherited.set(number, way);
    }

    /// The life of a thread of the child.
    pub(crate) fn inherit(&mut self) {
        const MOST: u32 = 24;
        let Some((lock, way)) = self.world.inherited.get() else { return };
        let setup = &self.world.setup;
        let quota = setup.operations.unwrap_or(MOST).min(MOST);
        for _ in 0..quota {
            let pace = Pace { nap: setup.nap, naps_one_in: setup.naps_one_in };
            let mut operation = Operation { lock, nested: None, ..Operation::draw(&mut self.dice, 1, pace) };
            if way == Way::Read {
                operation.way = Way::Read;
            }
            self.perform(&operation);
        }
        self.seat.done.store(true, Relaxed);
        self.note(Event::Exits, Way::Write, quota as usize);
    }

    /// All of a child that is a process of its own: releases, and goes on with new threads.
    fn use_in_child(&mut self, number: usize, way: Way) {
        self.become_child(number, way);
        self.let_go(number, way);
        let world = self.world;
        let heirs: Vec<usize> = (world.setup.threads..world.seats.len()).collect();
        with_heirs(&heirs, &|heir| world.live(heir), || self.inherit());
        world.finish();
    }
}
