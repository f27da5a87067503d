//! Who has seen what: vector clocks over the orderings that the program asked for, whatever the
//! simulated machine made of them.
//!
//! Every thread counts its own steps and knows how far it has seen each other thread. A release
//! publishes that knowledge at a word, an acquire that reads from it takes it over, as C++20 and
//! Rust have it: a read-modify-write continues the release sequence of the one before, a plain
//! store ends it, fences make releases of later stores and acquires of earlier loads. Two accesses
//! to protected data, one of them a write, that this does not order are a race: on some machine the
//! later one may not see the earlier. No schedule has to show it; one that takes the way past the
//! missing ordering is enough.
//!
//! *Links* are the words of queue nodes that others write to find and to wake each other. Whoever
//! writes one must know of the last store to it, by which its thread has cleared it or a head has
//! changed a queue: or on some machine that store comes last, and the link is lost. What the
//! bearers of a hierarchical lock's headship note for each other is protected data.
//!
//! Not seen: what a stale value would lead to. Loads read the newest value here; that is for the
//! model checkers.

use std::collections::{HashMap, HashSet};
use std::panic::Location;

use lockyard::platform::Ordering;

use super::host::Host;
use super::watch::short;
use crate::error::Error;
use crate::weakening::Weakening;

/// An access to a word, as the program wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    Load(Ordering),
    Store(Ordering),
    Update(Ordering),
    /// A compare-exchange that only reads.
    Failure(Ordering),
}

impl Access {
    /// The same, with another ordering.
    fn ordered(self, order: Ordering) -> Self {
        match self {
            Self::Load(_) => Self::Load(order),
            Self::Store(_) => Self::Store(order),
            Self::Update(_) => Self::Update(order),
            Self::Failure(_) => Self::Failure(order),
        }
    }

    fn fails(self) -> bool {
        matches!(self, Self::Failure(_))
    }

    fn writes(self) -> bool {
        matches!(self, Self::Store(_) | Self::Update(_))
    }

    fn acquires(self) -> bool {
        let (Self::Load(order) | Self::Update(order) | Self::Failure(order)) = self else { return false };
        matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
    }

    fn releases(self) -> bool {
        let (Self::Store(order) | Self::Update(order)) = self else { return false };
        matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
    }
}

/// Size of the smallest word.
const GRAIN: usize = 4;

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

/// An access: whose, at which of its steps, and where in the source.
type Step = (usize, u32, &'static Location<'static>);

/// Whether somebody who knows as much as `now` knows of `step`.
fn knows(now: &[u32], (thread, step, _): Step) -> bool {
    now.get(thread).is_some_and(|&seen| seen >= step)
}

/// A word of a queue node that other threads write.
#[derive(Debug)]
struct Link {
    owner: usize,
    /// The last plain store to it, and the read-modify-writes since, which come behind it in any
    /// case: knowing of one of them is enough.
    stored: Vec<Step>,
}

/// The last accesses to a protected word.
#[derive(Debug, Default)]
struct Touches {
    write: Option<Step>,
    /// Of each thread, its last read since.
    reads: Vec<Step>,
}

/// Everything that is known of who has seen what.
#[derive(Debug, Default)]
pub(crate) struct Order {
    threads: Vec<Knowledge>,
    words: HashMap<usize, Clock>,
    /// Every fourth byte of what is protected.
    protected: HashSet<usize>,
    touches: HashMap<usize, Touches>,
    links: HashMap<usize, Link>,
    /// An ordering that counts for less than what is said.
    weakening: Option<Weakening>,
    /// How often it did.
    pub(crate) weakened: u64,
}

impl Order {
    pub(crate) fn new(weakening: Option<Weakening>) -> Self {
        Self { weakening, ..Self::default() }
    }

    pub(crate) fn protect(&mut self, address: usize, size: usize) {
        self.protected.extend((address / GRAIN..(address + size).div_ceil(GRAIN)).map(|grain| grain * GRAIN));
    }

    /// The word at `address` is in a queue node of `owner`, and others write it.
    pub(crate) fn link(&mut self, address: usize, owner: usize) {
        self.links.insert(address, Link { owner, stored: Vec::new() });
    }

    /// Before an access to a word that may be a link: the store that may come behind it, if there
    /// is one.
    fn overwritten(
        &mut self,
        thread: usize,
        address: usize,
        access: Access,
        place: &'static Location<'static>,
    ) -> Option<Step> {
        if !access.writes() || !self.links.contains_key(&address) {
            return None;
        }
        self.thread(thread);
        let (link, now) = (self.links.get_mut(&address)?, &self.threads[thread].now);
        let store = matches!(access, Access::Store(_));
        // The owner's own exchanges undo nothing.
        let asked = store || thread != link.owner;
        let known = link.stored.iter().any(|&step| knows(now, step));
        let lost = link.stored.first().copied().filter(|_| asked && !known);
        if store {
            link.stored.clear();
        }
        if store || !link.stored.is_empty() {
            link.stored.push((thread, now[thread], place));
        }
        lost
    }

    fn thread(&mut self, thread: usize) -> &mut Knowledge {
        while self.threads.len() <= thread {
            let mut now = vec![0; self.threads.len() + 1];
            now[self.threads.len()] = 1;
            self.threads.push(Knowledge { now, ..Knowledge::default() });
        }
        &mut self.threads[thread]
    }

    /// A child process begins: its threads know of all that was ever done.
    pub(super) fn fork(&mut self, threads: impl Iterator<Item = usize>) {
        let mut all = Clock::new();
        self.threads.iter().for_each(|other| join(&mut all, &other.now));
        threads.for_each(|thread| join(&mut self.thread(thread).now, &all));
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
        if !access.writes() {
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
        let unseen = |&&step: &&Step| step.0 != thread && !knows(now, step);
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
        self.protected.contains(&(address / GRAIN * GRAIN))
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
        let (race, what) = if order.is_protected(address) {
            let race = order.touch(thread, address, access.writes(), place);
            (race, "touched the same protected data, and nothing orders them")
        } else {
            let weaker = order.weakening.as_ref().filter(|weakening| weakening.is_at(access.fails(), place));
            let weaker = weaker.map(|weakening| access.ordered(weakening.order));
            order.weakened += u64::from(weaker.is_some());
            let access = weaker.unwrap_or(access);
            let lost = order.overwritten(thread, address, access, place);
            order.access(thread, address, access);
            (
                lost.map(|step| (step.0, step.2)),
                "wrote the same link of a queue node, and nothing says whose write is the last",
            )
        };
        if let (Some((other, there)), None) = (race, &engine.failure) {
            engine.failure = Some(Error::Race(format!(
                "thread {thread} at {}:{} and thread {other} at {}:{} {what}",
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

/// As [`Host::observe`], where the caller has no host at hand, and is a closure of whoever was
/// called from `place`.
#[inline(always)]
pub(crate) fn observe_at(address: usize, access: Access, place: &'static Location<'static>) {
    if let Some(host) = Host::here()
        && host.engine().seen.is_some()
    {
        host.note_access(address, access, place);
    }
}

#[cfg(test)]
mod tests {
    use lockyard::platform::Ordering::*;

    use super::*;

    const DATA: usize = 0x100;
    const FLAG: usize = 0x200;

    /// Thread 0 writes data and publishes with `store`; thread 1 looks with `load` and reads.
    /// Whether that is a race.
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

    /// Thread 0 clears its link and publishes its node with `publish`; thread 1 finds it with
    /// `find` and links itself. Whether the link may be lost.
    fn loses_a_link(publish: Ordering, find: Ordering) -> bool {
        let mut order = Order::default();
        let here = Location::caller();
        const LINK: usize = DATA;
        order.link(LINK, 0);
        let mut write = |thread, address, access| {
            let lost = order.overwritten(thread, address, access, here);
            order.access(thread, address, access);
            lost.is_some()
        };
        assert!(!write(0, LINK, Access::Store(Relaxed)));
        write(0, FLAG, Access::Update(publish));
        write(1, FLAG, Access::Update(find));
        write(1, LINK, Access::Store(Release))
    }

    #[test]
    fn who_writes_a_link_must_know_of_the_last_store_to_it() {
        assert!(!loses_a_link(AcqRel, AcqRel));
        assert!(loses_a_link(Acquire, AcqRel));
        assert!(loses_a_link(AcqRel, Release));
    }

    #[test]
    fn an_exchange_behind_the_store_is_as_good_to_know_of() {
        let here = Location::caller();
        let mut order = Order::default();
        order.link(DATA, 0);
        // Its own thread stores, and exchanges; thread 1 exchanges, which undoes nothing of it only
        // if it knows of the store.
        assert!(order.overwritten(0, DATA, Access::Store(Relaxed), here).is_none());
        assert!(order.overwritten(0, DATA, Access::Update(Relaxed), here).is_none());
        order.access(0, FLAG, Access::Update(Release));
        order.access(1, FLAG, Access::Update(Acquire));
        assert!(order.overwritten(1, DATA, Access::Update(Relaxed), here).is_none());
        order.access(1, FLAG, Access::Store(Release));
        order.access(2, FLAG, Access::Load(Acquire));
        assert!(order.overwritten(2, DATA, Access::Store(Relaxed), here).is_none());
        assert!(order.overwritten(3, DATA, Access::Update(Relaxed), here).is_some());
    }
}
