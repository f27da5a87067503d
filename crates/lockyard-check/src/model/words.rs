//! The words of the checking machine: an atomic of the engine once it is known to be shared, a
//! plain cell before that.
//!
//! Lane operations are read-modify-writes of the whole word (see [`Lanes`]). That hides behaviours
//! in which a store of a byte is weaker than a read-modify-write.

use std::cell::{Cell, UnsafeCell};
use std::panic::Location;

use lockyard::platform::{Lanes, Ordering, Ordering::Relaxed, Word};

use super::engine::{Atom, Engine};
use super::notes::{Fixed, Track};
use super::sites::{Part, order};
use super::world::world;

macro_rules! word {
    ($name:ident, $value:ty, $atom:ident, $doc:literal) => {
        #[doc = $doc]
        pub struct $name<E: Engine> {
            track: Track,
            /// The record whose queue node it is in, if it is what others write there; or 0.
            owner: Cell<u32>,
            /// Of a word that is shared.
            atom: UnsafeCell<Option<E::$atom>>,
            /// Of one that is not, as far as is known.
            plain: Cell<$value>,
        }

        // SAFETY: all threads of an execution run on one thread of the host, one at a time; the
        // engine switches between whole operations.
        unsafe impl<E: Engine> Send for $name<E> {}
        // SAFETY: as above.
        unsafe impl<E: Engine> Sync for $name<E> {}

        impl<E: Engine> Default for $name<E> {
            fn default() -> Self {
                let (ordinal, shared) = world().make();
                let atom = (shared && E::MODELS_WORDS).then(|| <E::$atom as Atom<$value>>::new(0));
                let track = Track { ordinal, ..Track::default() };
                track.epoch.set(world().epoch.get());
                Self { track, owner: Cell::new(0), atom: UnsafeCell::new(atom), plain: Cell::new(0) }
            }
        }

        impl<E: Engine> core::fmt::Debug for $name<E> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:#x}", self.track.latest.get())
            }
        }

        #[allow(clippy::unnecessary_cast)] // one of the two widths
        impl<E: Engine> $name<E> {
            /// It is in a queue node of the record with this number, and others write it.
            pub(super) fn belong(&self, record: usize) {
                self.owner.set(record as u32);
            }

            /// Of an earlier execution? Then it is a new word, and zero.
            fn refresh(&self) {
                let epoch = world().epoch.get();
                if self.track.epoch.get() != epoch {
                    self.track.epoch.set(epoch);
                    self.track.version.set(0);
                    self.track.latest.set(0);
                    self.track.toucher.set(0);
                    self.plain.set(0);
                    // SAFETY: nobody is in an operation on it: executions come one after the other.
                    unsafe { *self.atom.get() = None };
                }
            }

            /// The engine's atomic, if the word is modelled. If not, the active thread touches it.
            /// (An execution in which something was learned does not count, and only has to come to
            /// its end.)
            fn atom(&self) -> Option<&E::$atom> {
                self.refresh();
                if world().is_learning() {
                    E::step();
                    return None;
                }
                // SAFETY: changed only between executions, and by `refresh`, before any operation
                // of the present one.
                let atom = unsafe { (*self.atom.get()).as_ref() };
                if atom.is_none() {
                    E::step();
                    world().touch(&self.track, || Fixed { word: std::ptr::from_ref(self).cast(), renew: Self::renew });
                }
                atom
            }

            /// What an operation of the engine found, unless something was learned while others ran
            /// before it: from then on nothing is modelled. (Half modelled, half not, an update
            /// would be lost, and the execution would fail for no fault of the lock's.)
            fn unless_learning(&self, found: $value) -> $value {
                if world().is_learning() { self.plain.get() } else { found }
            }

            /// Of a word of a queue node that others write: whether the node is another thread's.
            fn foreign(&self) -> Option<bool> {
                let owner = self.owner.get() as usize;
                (owner != 0 && world().is_running() && !world().is_learning())
                    .then(|| owner != world().record(world().active.get()))
            }

            /// The active thread has read it.
            fn seen(&self, value: $value) {
                if value as u64 == self.track.latest.get() && self.foreign().is_some() {
                    E::see(self.track_address());
                }
            }

            /// The active thread writes it; with `store` whatever was there.
            fn linked(&self, store: bool) {
                let (Some(foreign), word) = (self.foreign(), self.track_address()) else { return };
                // The owner's own exchanges undo nothing, and say nothing of what the others know.
                if foreign || store {
                    E::link(word);
                }
                if store {
                    E::set(word);
                }
            }

            fn track_address(&self) -> usize {
                std::ptr::from_ref(&self.track).addr()
            }

            /// An execution begins in which the word is modelled.
            fn renew(word: *const ()) {
                // SAFETY: a word that was touched, and that is never dropped.
                let word = unsafe { &*word.cast::<Self>() };
                word.refresh();
                if E::MODELS_WORDS {
                    // SAFETY: no thread of this execution runs yet.
                    unsafe { *word.atom.get() = Some(<E::$atom as Atom<$value>>::new(0)) };
                }
            }

            fn read(&self, order: Ordering) -> $value {
                let value = if let Some(atom) = self.atom() {
                    let me = world().active.get();
                    let value = atom.load(order);
                    world().active.set(me);
                    self.unless_learning(value)
                } else {
                    self.plain.get()
                };
                world().has_read(&self.track, value as u64);
                self.seen(value);
                value
            }

            fn write(&self, value: $value, order: Ordering) {
                if let Some(atom) = self.atom() {
                    let me = world().active.get();
                    atom.store(value, order);
                    world().active.set(me);
                }
                self.linked(true);
                self.plain.set(value);
                world().has_written(&self.track, value as u64);
                E::changed();
            }

            /// A read-modify-write: the engine's own where the word is shared.
            fn change(
                &self,
                shared: impl FnOnce(&E::$atom) -> $value,
                change: impl FnOnce($value) -> $value,
            ) -> $value {
                let old = if let Some(atom) = self.atom() {
                    let me = world().active.get();
                    let old = shared(atom);
                    world().active.set(me);
                    self.unless_learning(old)
                } else {
                    self.plain.get()
                };
                let new = change(old);
                self.linked(false);
                self.plain.set(new);
                world().has_read(&self.track, old as u64);
                world().has_written(&self.track, new as u64);
                E::changed();
                old
            }

            fn exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let outcome = if let Some(atom) = self.atom() {
                    let me = world().active.get();
                    let outcome = atom.compare_exchange(current, new, success, failure);
                    world().active.set(me);
                    let found = self.unless_learning(outcome.unwrap_or_else(|found| found));
                    if found == current { Ok(found) } else { Err(found) }
                } else {
                    let found = self.plain.get();
                    if found == current { Ok(found) } else { Err(found) }
                };
                match outcome {
                    Ok(old) => {
                        self.linked(false);
                        self.plain.set(new);
                        world().has_read(&self.track, old as u64);
                        world().has_written(&self.track, new as u64);
                        E::changed();
                    }
                    Err(found) => {
                        world().has_read(&self.track, found as u64);
                        self.seen(found);
                    }
                }
                outcome
            }
        }

        impl<E: Engine> Word<$value> for $name<E> {
            #[track_caller]
            fn load(&self, said: Ordering) -> $value {
                self.read(order(Location::caller(), Part::Load, said))
            }

            #[track_caller]
            fn store(&self, value: $value, said: Ordering) {
                self.write(value, order(Location::caller(), Part::Store, said));
            }

            #[track_caller]
            fn swap(&self, value: $value, said: Ordering) -> $value {
                let order = order(Location::caller(), Part::Rmw, said);
                self.change(|atom| atom.swap(value, order), |_| value)
            }

            #[track_caller]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = order(Location::caller(), Part::Rmw, success);
                let failure = order(Location::caller(), Part::Failure, failure);
                self.exchange(current, new, success, failure)
            }

            #[track_caller]
            fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = order(Location::caller(), Part::Rmw, success);
                let failure = order(Location::caller(), Part::Failure, failure);
                self.exchange(current, new, success, failure)
            }

            #[track_caller]
            fn fetch_add(&self, value: $value, said: Ordering) -> $value {
                let order = order(Location::caller(), Part::Rmw, said);
                self.change(|atom| atom.fetch_add(value, order), |old| old.wrapping_add(value))
            }

            #[track_caller]
            fn fetch_sub(&self, value: $value, said: Ordering) -> $value {
                let order = order(Location::caller(), Part::Rmw, said);
                self.change(|atom| atom.fetch_sub(value, order), |old| old.wrapping_sub(value))
            }

            #[track_caller]
            fn fetch_or(&self, value: $value, said: Ordering) -> $value {
                let order = order(Location::caller(), Part::Rmw, said);
                self.change(|atom| atom.fetch_or(value, order), |old| old | value)
            }

            #[track_caller]
            fn fetch_and(&self, value: $value, said: Ordering) -> $value {
                let order = order(Location::caller(), Part::Rmw, said);
                self.change(|atom| atom.fetch_and(value, order), |old| old & value)
            }
        }
    };
}

word!(U32, u32, A32, "The 32-bit atomic.");
word!(U64, u64, A64, "The 64-bit atomic.");

impl<E: Engine> U32<E> {
    /// The newest value, without an access.
    pub(super) fn peek(&self) -> u32 {
        self.refresh();
        self.track.latest.get() as u32
    }

    /// Where the machine keeps what it knows of the word.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Changes the bits of `mask` to `bits` and returns the old word: a read-modify-write that
    /// begins with the newest value, as the hardware's does.
    fn change_lane(&self, mask: u32, bits: u32, order: Ordering) -> u32 {
        if bits == 0 {
            return self.change(|atom| atom.fetch_and(!mask, order), |old| old & !mask);
        }
        let mut word = self.peek();
        loop {
            match self.exchange(word, word & !mask | bits, order, Relaxed) {
                Ok(old) => return old,
                Err(found) => word = found,
            }
        }
    }

    /// Changes the bits of `mask` from `current` to `bits`.
    fn exchange_lane(
        &self,
        mask: u32,
        current: u32,
        bits: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32> {
        let mut word = self.peek() & !mask | current;
        loop {
            match self.exchange(word, word & !mask | bits, success, failure) {
                Ok(old) => return Ok(old),
                Err(found) if found & mask != current => return Err(found),
                Err(found) => word = found,
            }
        }
    }
}

impl<E: Engine> Lanes for U32<E> {
    #[track_caller]
    fn store_byte(&self, lane: u32, value: u8, said: Ordering) {
        let order = order(Location::caller(), Part::Store, said);
        self.change_lane(0xff << (lane * 8), u32::from(value) << (lane * 8), order);
    }

    #[track_caller]
    fn store_half(&self, lane: u32, value: u16, said: Ordering) {
        let order = order(Location::caller(), Part::Store, said);
        self.change_lane(0xffff << (lane * 16), u32::from(value) << (lane * 16), order);
    }

    #[track_caller]
    fn compare_exchange_byte(
        &self,
        lane: u32,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        let success = order(Location::caller(), Part::Rmw, success);
        let failure = order(Location::caller(), Part::Failure, failure);
        let shift = lane * 8;
        let outcome =
            self.exchange_lane(0xff << shift, u32::from(current) << shift, u32::from(new) << shift, success, failure);
        outcome.map(|old| (old >> shift) as u8).map_err(|found| (found >> shift) as u8)
    }

    #[track_caller]
    fn take_beside(&self, beside: u8) -> Option<u8> {
        let success = order(Location::caller(), Part::Rmw, Ordering::Acquire);
        let (beside, mut mask) = (u32::from(beside) << 8, 0xffff);
        if world().machine().parted {
            if self.load(Relaxed) & 0xff00 != beside {
                return None;
            }
            mask = 0xff;
        }
        let old = self.exchange_lane(mask, beside & mask, beside & mask | 1, success, Relaxed).ok()?;
        Some((old >> 8) as u8)
    }

    #[track_caller]
    fn load_middle(&self) -> u16 {
        (self.load(Ordering::Relaxed) >> 8) as u16
    }

    /// Without a look before the claim: it says nothing of what is there by then.
    #[track_caller]
    fn take_bare(&self, claim: u8, value: u8) -> Option<bool> {
        let success = order(Location::caller(), Part::Rmw, Ordering::Acquire);
        if !world().machine().parted {
            return self.exchange(0, value.into(), success, Relaxed).is_ok().then_some(true);
        }
        self.exchange_lane(0xff, 0, claim.into(), success, Relaxed).ok()?;
        let bare = self.load(Ordering::Acquire) & !0xff == 0;
        if bare {
            self.change_lane(0xff, value.into(), Relaxed);
        }
        Some(bare)
    }

    #[track_caller]
    fn compare_exchange_half(
        &self,
        lane: u32,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        let success = order(Location::caller(), Part::Rmw, success);
        let failure = order(Location::caller(), Part::Failure, failure);
        let shift = lane * 16;
        let outcome =
            self.exchange_lane(0xffff << shift, u32::from(current) << shift, u32::from(new) << shift, success, failure);
        outcome.map(|old| (old >> shift) as u16).map_err(|found| (found >> shift) as u16)
    }

    #[track_caller]
    fn swap_half(&self, lane: u32, value: u16, said: Ordering) -> u16 {
        let order = order(Location::caller(), Part::Rmw, said);
        let shift = lane * 16;
        (self.change_lane(0xffff << shift, u32::from(value) << shift, order) >> shift) as u16
    }
}
