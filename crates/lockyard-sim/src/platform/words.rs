//! The atomics of the simulated machine: plain integers whose every access asks the engine for the
//! line first.
//!
//! Outside simulated threads (before a run, after it) they are plain integers and cost nothing.

use core::cell::UnsafeCell;
use core::fmt;
use core::panic::Location;

use lockyard::platform::{ConstZero, Lanes, Ordering, Pair, Word};

use crate::engine::access::Seen;
use crate::engine::host::Host;
use crate::engine::order::{Access, observe_at};
use crate::machine::buffer::Write;
use crate::platform::Sim;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $value:ty, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$value>);

        // SAFETY: a simulation runs on one host thread, and its words are only touched by it: by
        // one task at a time, or by the host code that set it up. Moving a whole program with its
        // words between host threads is moving plain integers.
        unsafe impl Send for $name {}
        // SAFETY: as above; `Sync` is what the seam wants, two host threads never share a word.
        unsafe impl Sync for $name {}

        impl $name {
            #[inline(always)]
            fn address(&self) -> usize {
                self.0.get() as usize
            }

            #[inline(always)]
            pub(crate) fn peek(&self) -> $value {
                // SAFETY: see `Sync`: nobody else is at it.
                unsafe { *self.0.get() }
            }

            #[inline(always)]
            fn poke(&self, value: $value) {
                // SAFETY: as in `peek`.
                unsafe { *self.0.get() = value };
            }

            #[track_caller]
            #[inline]
            fn update<R>(&self, order: Ordering, act: impl FnOnce(&Self) -> R) -> R {
                let Some(host) = Host::here() else { return act(self) };
                let access = host.begin_update(self.address(), order);
                let result = act(self);
                host.end_update(access);
                result
            }

            #[track_caller]
            #[inline(always)]
            fn modify(&self, order: Ordering, change: impl FnOnce($value) -> $value) -> $value {
                let place = Location::caller();
                self.update(order, |word| {
                    let old = word.peek();
                    word.poke(change(old));
                    observe_at(word.address(), Access::Update(order), place);
                    old
                })
            }
        }

        impl Word<$value> for $name {
            #[inline(always)]
            fn prefetch(&self) {
                if let Some(host) = Host::here() {
                    host.prefetch(self.address());
                }
            }

            #[track_caller]
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                let Some(host) = Host::here() else { return self.peek() };
                match host.begin_load(self.address(), <$value>::MAX.into()) {
                    Seen::Buffer(value) => value as $value,
                    Seen::Memory(access) => {
                        let value = self.peek();
                        host.observe(self.address(), Access::Load(order));
                        host.end_load(access);
                        value
                    }
                }
            }

            #[track_caller]
            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                match Host::here() {
                    Some(host) => {
                        let mask = <$value>::MAX.into();
                        host.observe(self.address(), Access::Store(order));
                        host.store(Write { address: self.address(), value: value.into(), mask, bytes: $bytes }, order);
                    }
                    None => self.poke(value),
                }
            }

            #[track_caller]
            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |_| value)
            }

            #[track_caller]
            #[inline(always)]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let place = Location::caller();
                self.update(success, |word| {
                    let found = word.peek();
                    if found == current {
                        word.poke(new);
                        observe_at(word.address(), Access::Update(success), place);
                        Ok(found)
                    } else {
                        observe_at(word.address(), Access::Failure(failure), place);
                        Err(found)
                    }
                })
            }

            #[track_caller]
            #[inline(always)]
            fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |old| old.wrapping_add(value))
            }

            #[track_caller]
            #[inline(always)]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |old| old.wrapping_sub(value))
            }

            #[track_caller]
            #[inline(always)]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |old| old | value)
            }

            #[track_caller]
            #[inline(always)]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.modify(order, |old| old & value)
            }
        }

        impl ConstZero for $name {
            const ZERO: Self = Self(UnsafeCell::new(0));
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.peek().fmt(f)
            }
        }
    };
}

word! {
    /// The 32-bit atomic.
    U32, u32, 4
}
word! {
    /// The 64-bit atomic.
    U64, u64, 8
}
word! {
    /// The 32-bit atomic with lanes: a lane operation is one access of the word's line.
    LaneWord, u32, 4
}

impl LaneWord {
    #[track_caller]
    fn lane_store(&self, shift: u32, lane: u32, value: u32, order: Ordering) {
        match Host::here() {
            Some(host) => {
                let (value, mask) = (u64::from(value) << shift, u64::from(lane) << shift);
                host.observe(self.address(), Access::Update(order));
                host.store(Write { address: self.address(), value, mask, bytes: 4 }, order);
            }
            None => self.poke(self.peek() & !(lane << shift) | value << shift),
        }
    }

    #[track_caller]
    fn lane_exchange(
        &self,
        shift: u32,
        lane: u32,
        current: u32,
        new: u32,
        orders: (Ordering, Ordering),
    ) -> Result<u32, u32> {
        let (success, failure) = orders;
        let place = Location::caller();
        self.update(success, |word| {
            let whole = word.peek();
            let found = whole >> shift & lane;
            if found != current {
                observe_at(word.address(), Access::Failure(failure), place);
                return Err(found);
            }
            word.poke(whole & !(lane << shift) | new << shift);
            observe_at(word.address(), Access::Update(success), place);
            Ok(found)
        })
    }
}

impl Lanes for LaneWord {
    #[track_caller]
    #[inline]
    fn store_byte(&self, lane: u32, value: u8, order: Ordering) {
        self.lane_store(lane * 8, 0xff, value.into(), order);
    }

    #[track_caller]
    #[inline]
    fn store_half(&self, lane: u32, value: u16, order: Ordering) {
        self.lane_store(lane * 16, 0xffff, value.into(), order);
    }

    #[track_caller]
    #[inline]
    fn compare_exchange_byte(
        &self,
        lane: u32,
        current: u8,
        new: u8,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u8, u8> {
        let result = self.lane_exchange(lane * 8, 0xff, current.into(), new.into(), (success, failure));
        result.map(|value| value as u8).map_err(|value| value as u8)
    }

    #[track_caller]
    #[inline]
    fn compare_exchange_half(
        &self,
        lane: u32,
        current: u16,
        new: u16,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u16, u16> {
        let result = self.lane_exchange(lane * 16, 0xffff, current.into(), new.into(), (success, failure));
        result.map(|value| value as u16).map_err(|value| value as u16)
    }

    #[track_caller]
    #[inline]
    fn take_beside(&self, beside: u8) -> Option<u8> {
        let free = u32::from(beside) << 8;
        let taken = self.lane_exchange(0, 0xffff, free, free | 1, (Ordering::Acquire, Ordering::Relaxed));
        taken.is_ok().then_some(beside)
    }

    #[track_caller]
    #[inline]
    fn swap_half(&self, lane: u32, value: u16, order: Ordering) -> u16 {
        let shift = lane * 16;
        let old = self.modify(order, |word| word & !(0xffff << shift) | u32::from(value) << shift);
        (old >> shift) as u16
    }
}

fn peek_pair(pair: &Pair<Sim>) -> u64 {
    u64::from(pair.high.peek()) << 32 | u64::from(pair.low.peek())
}

/// Reads both halves: one access of their line.
#[track_caller]
pub(super) fn pair_load(pair: &Pair<Sim>) -> u64 {
    let Some(host) = Host::here() else { return peek_pair(pair) };
    let access = host.begin_wide_load(pair.low.address());
    let value = peek_pair(pair);
    host.observe(pair.low.address(), Access::Load(Ordering::Relaxed));
    host.end_load(access);
    value
}

/// Exchanges both halves: one access of their line.
#[track_caller]
pub(super) fn pair_exchange(pair: &Pair<Sim>, current: u64, new: u64, order: Ordering) -> Result<u64, u64> {
    let place = Location::caller();
    pair.low.update(order, |low| {
        let found = peek_pair(pair);
        if found != current {
            return Err(found);
        }
        low.poke(new as u32);
        pair.high.poke((new >> 32) as u32);
        observe_at(low.address(), Access::Update(order), place);
        observe_at(pair.high.address(), Access::Update(order), place);
        Ok(found)
    })
}

impl U32 {
    pub(crate) fn place(&self) -> usize {
        self.address()
    }
}

impl U64 {
    pub(crate) fn place(&self) -> usize {
        self.address()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockyard::platform::Ordering::*;

    #[test]
    fn outside_a_simulation_words_are_plain() {
        let word = LaneWord::default();
        word.store(0x0403_0201, Relaxed);
        word.store_byte(1, 0xaa, Release);
        assert_eq!(word.load(Relaxed), 0x0403_aa01);
        assert_eq!(word.compare_exchange_byte(0, 2, 9, AcqRel, Relaxed), Err(1));
        assert_eq!(word.compare_exchange_half(0, 0xaa01, 7, AcqRel, Relaxed), Ok(0xaa01));
        assert_eq!(word.swap_half(1, 5, AcqRel), 0x0403);
        assert_eq!(word.load(Relaxed), 0x0005_0007);
        word.store_half(1, 0x1234, Release);
        assert_eq!(word.load(Relaxed), 0x1234_0007);
        let wide = U64::default();
        assert_eq!((wide.fetch_add(3, Relaxed), wide.fetch_or(4, Relaxed), wide.swap(1, Relaxed)), (0, 3, 7));
    }
}
