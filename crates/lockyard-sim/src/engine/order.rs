//! Who has seen what: vector clocks over the orderings that the program asked for, whatever the simulated machine made of them.
//!
//! Every thread counts its own steps and knows how far it has seen each other thread. A release publishes that knowledge at a word, an acquire that reads from it
//! takes it over, as C++20 and Rust have it: a read-modify-write continues the release sequence of the one before, a plain store ends it, fences
//! make releases of later stores and acquires of earlier loads. Two accesses to protected data, one of them a write, that this does not order are a race: on
//! some machine the later one may not see the earlier. No schedule has to show it; one that takes the way past the missing ordering is enough.
//!
//! Not seen: what a stale value would lead to. Loads read the newest value here; that is for the model checkers.

use std::collections::HashMap;
use std::panic::Location;

use lockyard::platform::Ordering;

use super::host::Host;
use super::watch::short;
use crate::error::Error;

/// An access to a word, as the program wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    Load(Ordering),
    Store(Ordering),
    Update(Ordering),
}

impl Access {
    fn acquires(self) -> bool {
        let (Self::Load(order) | Self::Update(order)) = self else { return false };
        matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
    }

    fn releases(self) -> bool {
        let (Self::Store(order) | Self::Update(order)) = self else { return false };
        matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
    }
}

/// How far each thread has been seen.
type Clock = Vec<u32>;

fn join(into: &mut Clock, other: &[u32]) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    into.iter_mut().zip(other).for_each(|(own, &theirs)| *own = (*own).max(theirs));
}

#[derive(Debug, Default)]
struct Knowledge {
    now: Clock,
    /// What an acquire fence would take over.
    loaded: Clock,
    /// What later stores publish by virtue of a release fence.
    fenced: Clock,
}

/// The last accesses to a protected word.
#[derive(Debug, Default)]
struct Touches {
    write: Option<(usize, u32, &'static Location<'static>)>,
    /// Of each thread, its last read since.
    reads: Vec<(usize, u32, &'static Location<'static>)>,
}

/// Everything that is known of who has seen what.
#[derive(Debug, Default)]
pub(crate) struct Order {
    threads: Vec<Knowledge>,
    words: HashMap<usize, Clock>,
    protected: Vec<(usize, usize)>,
    touches: HashMap<usize, Touches>,
}

impl Order {
    pub(crate) fn protect(&mut self, address: usize, size: usize) {
        self.protected.push((address, size));
    }

    fn thread(&mut self, thread: usize) -> &mut Knowledge {
        while self.threads.len() <= thread {
            let mut now = vec![0; self.threads.len() + 1];
            now[self.threads.len()] = 1;
            self.threads.push(Knowledge { now, ..Knowledge::default() });
        }
        &mut self.threads[thread]
    }

    fn fence(&mut self, thread: usize) {
        let own = self.thread(thread);
        let loaded = std::mem::take(&mut own.loaded);
        join(&mut own.now, &loaded);
        own.fenced = own.now.clone();
        own.now[thread] += 1;
    }

    fn access(&mut self, thread: usize, address: usize, access: Access) {
        self.thread(thread);
        let own = &mut self.threads[thread];
        if !matches!(access, Access::Store(_))
            && let Some(word) = self.words.get(&address)
        {
            join(if access.acquires() { &mut own.now } else { &mut own.loaded }, word);
        }
        if matches!(access, Access::Load(_)) {
            return;
        }
        let published = if access.releases() { own.now.clone() } else { own.fenced.clone() };
        let word = self.words.entry(address).or_default();
        if matches!(access, Access::Store(_)) {
            word.clear();
        }
        join(word, &published);
        own.now[thread] += 1;
    }

    /// An access to protected data. With whom it races, if it does.
    fn touch(
        &mut self,
        thread: usize,
        address: usize,
        writes: bool,
        place: &'static Location<'static>,
    ) -> Option<(usize, &'static Location<'static>)> {
        self.thread(thread);
        let now = &self.threads[thread].now;
        let unseen = |&&(other, step, _): &&(usize, u32, &'static Location<'static>)| {
            other != thread && now.get(other).is_none_or(|&seen| seen < step)
        };
        let touches = self.touches.entry(address).or_default();
        let write = touches.write.iter().find(unseen);
        let race =
            write.or_else(|| touches.reads.iter().filter(|_| writes).find(unseen)).map(|other| (other.0, other.2));
        let step = now[thread];
        if writes {
            touches.write = Some((thread, step, place));
            touches.reads.clear();
        } else {
            touches.reads.retain(|read| read.0 != thread);
            touches.reads.push((thread, step, place));
        }
        race
    }

    fn is_protected(&self, address: usize) -> bool {
        self.protected.iter().any(|&(start, size)| (start..start + size).contains(&address))
    }
}

impl Host {
    /// Takes note of an access, if anybody cares.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn observe(self, address: usize, access: Access) {
        if self.engine().seen.is_some() {
            self.note_access(address, access, Location::caller());
        }
    }

    #[cold]
    fn note_access(self, address: usize, access: Access, place: &'static Location<'static>) {
        let engine = self.engine();
        let thread = engine.current as usize;
        let Some(order) = &mut engine.seen else { return };
        if !order.is_protected(address) {
            return order.access(thread, address, access);
        }
        let race = order.touch(thread, address, !matches!(access, Access::Load(_)), place);
        if let (Some((other, there)), None) = (race, &engine.failure) {
            engine.failure = Some(Error::Race(format!(
                "thread {thread} at {}:{} and thread {other} at {}:{} touched the same protected data, and nothing orders them",
                short(place.file()),
                place.line(),
                short(there.file()),
                there.line()
            )));
        }
    }

    /// Takes note of a full fence.
    #[inline(always)]
    pub(crate) fn observe_fence(self) {
        let engine = self.engine();
        let thread = engine.current as usize;
        if let Some(order) = &mut engine.seen {
            order.fence(thread);
        }
    }
}

/// As [`Host::observe`], where the caller has no host at hand.
#[inline(always)]
#[track_caller]
pub(crate) fn observe(address: usize, access: Access) {
    if let Some(host) = Host::here() {
        host.observe(address, access);
    }
}

#[cfg(test)]
mod tests {
    use lockyard::platform::Ordering::*;

    use super::*;

    const DATA: usize = 0x100;
    const FLAG: usize = 0x200;

    /// Thread 0 writes data and publishes with `store`; thread 1 looks with `load` and reads. Whether that is a race.
    fn races(store: Access, load: Access, fences: bool) -> bool {
        let mut order = Order::default();
        let here = Location::caller();
        order.touch(0, DATA, true, here);
        if fences {
            order.fence(0);
        }
        order.access(0, FLAG, store);
        order.access(1, FLAG, load);
        if fences {
            order.fence(1);
        }
        order.touch(1, DATA, false, here).is_some()
    }

    #[test]
    fn a_release_and_an_acquire_order_and_nothing_less_does() {
        use Access::{Load, Store, Update};
        assert!(!races(Store(Release), Load(Acquire), false));
        assert!(!races(Update(Release), Update(AcqRel), false));
        assert!(races(Store(Relaxed), Load(Acquire), false));
        assert!(races(Store(Release), Load(Relaxed), false));
        assert!(races(Store(Release), Update(Release), false));
        assert!(!races(Store(Relaxed), Load(Relaxed), true));
    }

    #[test]
    fn an_update_continues_a_release_sequence_and_a_store_ends_it() {
        let here = Location::caller();
        for (between, races) in [(Access::Update(Relaxed), false), (Access::Store(Relaxed), true)] {
            let mut order = Order::default();
            order.touch(0, DATA, true, here);
            order.access(0, FLAG, Access::Store(Release));
            order.access(1, FLAG, between);
            order.access(2, FLAG, Access::Load(Acquire));
            assert_eq!(order.touch(2, DATA, false, here).is_some(), races);
        }
    }

    #[test]
    fn a_writer_must_have_seen_the_readers() {
        let here = Location::caller();
        let mut order = Order::default();
        order.touch(0, DATA, false, here);
        order.touch(1, DATA, false, here);
        order.access(0, FLAG, Access::Update(Release));
        order.access(2, FLAG, Access::Update(Acquire));
        assert_eq!(order.touch(2, DATA, true, here).map(|race| race.0), Some(1));
    }
}
