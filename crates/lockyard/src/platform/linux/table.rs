//! A table with a place for every name, in memory for those that are in use.
//!
//! The first [`CHUNK`] places lie in the program's zero pages. The others come by chunks of as
//! many: the kernel maps a chunk when a thread claims the first place of it. A chunk is never
//! unmapped, so a place may be looked at after its thread has gone. A child of a fork has copies of
//! all of them.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `chunks[n]` | where chunk n lies; null: it is not mapped | the first claimer, null → chunk by compare-exchange |
//!
//! **Ordering.** The exchange is Release and a look is Acquire: the kernel has zeroed the chunk
//! before. The claimer that loses the exchange unmaps its own chunk, which nobody has seen.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::*};

use crate::platform::thread::ThreadId;

/// Places that are mapped together.
pub const CHUNK: usize = 64;
const CHUNKS: usize = (ThreadId::ANONYMOUS.raw() as usize + 1) / CHUNK;

/// What a [`Table`] holds.
///
/// # Safety
/// [`NEW`](Self::NEW) consists of zero bytes.
pub unsafe trait Place: Sync + 'static {
    /// A place that nobody has claimed.
    const NEW: Self;
}

/// See the [module text](self). Its indices are those of [`ThreadId::raw`], and 0.
#[derive(Debug)]
pub struct Table<T> {
    first: [T; CHUNK],
    chunks: [AtomicPtr<T>; CHUNKS],
}

impl<T: Place> Table<T> {
    /// A table in which nobody has claimed a place.
    pub const fn new() -> Self {
        Self { first: [const { T::NEW }; CHUNK], chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS] }
    }

    /// The place `index`, if it is mapped. Past the table's end: `None`.
    #[inline(always)]
    pub fn get(&'static self, index: u32) -> Option<&'static T> {
        let index = index as usize;
        if index < CHUNK {
            return Some(&self.first[index]);
        }
        if index > ThreadId::MAX_INDEX as usize {
            return None;
        }
        let chunk = self.chunks.get(index / CHUNK)?.load(Acquire);
        // SAFETY: null, or the start of a chunk of `CHUNK` places, which stays.
        (!chunk.is_null()).then(|| unsafe { &*chunk.add(index % CHUNK) })
    }

    /// The place 0, which no name has.
    #[inline(always)]
    pub fn first(&'static self) -> &'static T {
        &self.first[0]
    }

    /// The place `index`, mapped if it was not. `None`: past the end, or the kernel has no memory.
    pub fn claim(&'static self, index: u32) -> Option<&'static T> {
        self.get(index).or_else(|| {
            if index <= ThreadId::MAX_INDEX {
                self.map(self.chunks.get(index as usize / CHUNK)?);
            }
            self.get(index)
        })
    }

    /// All places that are mapped, with their indices, up to `last`.
    pub fn mapped(&'static self, last: u32) -> impl Iterator<Item = (u32, &'static T)> {
        let chunk_of = |index: u32| index - index % CHUNK as u32;
        (0..=chunk_of(last)).step_by(CHUNK).filter(|&first| self.get(first).is_some()).flat_map(move |first| {
            let end = last.min(first + CHUNK as u32 - 1);
            (first..=end).filter_map(|index| Some((index, self.get(index)?)))
        })
    }

    #[cold]
    fn map(&self, chunk: &AtomicPtr<T>) {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        let length = size_of::<[T; CHUNK]>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        const { assert!(align_of::<T>() <= 4096, "a mapping is aligned to a page") };
        // SAFETY: a new mapping.
        let Ok(mapping) = (unsafe { mmap_anonymous(null_mut(), length, access, MapFlags::PRIVATE) }) else { return };
        // Zero bytes are a `Place`.
        if chunk.compare_exchange(null_mut(), mapping.cast(), Release, Relaxed).is_err() {
            // SAFETY: mapped above, and not published. That it fails harms nobody.
            let _ = unsafe { munmap(mapping, length) };
        }
    }
}

impl<T: Place> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    // SAFETY: a zero word.
    unsafe impl Place for AtomicU32 {
        const NEW: Self = AtomicU32::new(0);
    }

    #[test]
    fn places_are_there_when_they_are_claimed_and_stay_where_they_are() {
        static TABLE: Table<AtomicU32> = Table::new();
        let last = ThreadId::MAX_INDEX;
        assert!(TABLE.get(0).is_some() && TABLE.get(63).is_some() && TABLE.get(64).is_none());
        for index in [128, 191, 0x4000, last] {
            assert!(index == 191 || TABLE.get(index).is_none());
            let place = TABLE.claim(index).unwrap();
            assert_eq!(place.swap(index, Relaxed), 0);
            assert!(core::ptr::eq(place, TABLE.claim(index).unwrap()));
        }
        assert!([last + 1, u32::MAX].iter().all(|&beyond| TABLE.claim(beyond).is_none()));
        let used = |last| TABLE.mapped(last).filter(|(_, place)| place.load(Relaxed) != 0).map(|(index, _)| index);
        assert!(used(last).eq([128, 191, 0x4000, last]) && used(190).eq([128]) && used(100).count() == 0);
        assert_eq!((TABLE.mapped(last).count(), TABLE.mapped(130).count()), (4 * CHUNK - 1, 64 + 3));
    }

    #[test]
    fn threads_that_claim_a_chunk_at_once_get_the_same() {
        static TABLE: Table<AtomicU32> = Table::new();
        let places = || (1..CHUNKS as u32).map(|chunk| chunk * CHUNK as u32 + 5);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| places().for_each(|index| _ = TABLE.claim(index).unwrap().fetch_add(1, Relaxed)));
            }
        });
        assert!(places().all(|index| TABLE.get(index).unwrap().load(Relaxed) == 4));
    }
}
