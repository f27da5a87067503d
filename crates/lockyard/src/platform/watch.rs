//! What statistics are told of locks (feature `stat`), and who listens: plain data below the locks.
//!
//! | word | changed by |
//! |---|---|
//! | `WATCHER` | null, until the process opens its statistics; then the same for good |
//! | a lock's [`Class`] | 0, until the watcher gives the lock one: once |
//!
//! **Ordering.** A watcher is published with Release and read with Acquire. A class is a number
//! that stands for itself: Relaxed.

// This is where the seam ends: statistics are of the process, not of a simulated machine.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]
#![cfg_attr(not(feature = "unstable-internals"), allow(dead_code, unreachable_pub))]

#[cfg(feature = "stat")]
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

/// The class of a lock in the statistics: a word for the watcher. Without the feature, nothing.
#[derive(Default)]
pub struct Class {
    #[cfg(feature = "stat")]
    word: AtomicU32,
}

impl Class {
    /// No class yet.
    pub const fn new() -> Self {
        Self {
            #[cfg(feature = "stat")]
            word: AtomicU32::new(0),
        }
    }
}

impl core::fmt::Debug for Class {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Class")
    }
}

#[cfg(feature = "stat")]
impl Class {
    /// What the watcher has given the lock, or 0.
    pub fn get(&self) -> u32 {
        self.word.load(Relaxed)
    }

    /// Gives the lock `number`.
    ///
    /// # Errors
    /// The one that it has.
    pub fn give(&self, number: u32) -> Result<(), u32> {
        self.word.compare_exchange(0, number, Relaxed, Relaxed).map(|_| ())
    }

    /// Gives the lock `number` in place of what it had.
    pub fn set(&self, number: u32) {
        self.word.store(number, Relaxed);
    }
}

/// The thread that holds a lock, as far as the lock knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It does not.
    Unknown,
    /// The thread that the kernel calls so.
    Thread(u32),
    /// The thread with this record.
    Record(u32),
    /// Threads that have noted it, as readers do.
    Noted,
}

/// What a lock says of itself to one that waits for it.
pub trait Look {
    /// Its owner.
    fn owner(&self) -> Owner {
        Owner::Unknown
    }

    /// Whether threads wait for it.
    fn is_contended(&self) -> bool {
        true
    }
}

/// A waiter that a signal is about to move from a condition variable into its mutex's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The mutex's address. It is there until the waiter has been moved.
    pub mutex: usize,
    /// The waiter's record ([`ThreadId::raw`](super::thread::ThreadId::raw)). It sleeps.
    pub waiter: u32,
}

/// A call for a lock.
#[cfg(feature = "stat")]
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// What it says of itself.
    pub look: &'a dyn Look,
    /// The lock's class.
    pub class: &'a Class,
    /// The name of its type.
    pub kind: &'static str,
    /// Its address.
    pub lock: usize,
    /// Whether it is wanted together with other readers.
    pub shared: bool,
    /// Whether the thread that takes it is the one that releases it.
    pub owned: bool,
    /// Whether the wait ends by itself.
    pub ends: bool,
    /// The code that asks: an address in the function into which the call is inlined. 0: unknown.
    pub place: usize,
}

#[cfg(feature = "stat")]
impl core::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ask").field("kind", &self.kind).field("lock", &self.lock).finish_non_exhaustive()
    }
}

/// A way to take a lock: whether it did.
#[cfg(feature = "stat")]
pub type Take<'a> = &'a mut dyn FnMut() -> bool;

/// What listens. Called by threads that take locks: it takes none, and does not panic.
#[cfg(feature = "stat")]
#[derive(Debug)]
pub struct Watcher {
    /// Takes the lock: by the first function, which does not wait, or else by the second. Whether
    /// it was taken.
    pub take: fn(&Ask<'_>, Take<'_>, Take<'_>) -> bool,
    /// Takes the lock by the function, which does not wait. Whether it was taken.
    pub attempt: fn(&Ask<'_>, Take<'_>) -> bool,
    /// The thread has released the lock, and sleeps at a condition variable: it takes the lock when
    /// it is woken, unless it is moved into its queue.
    pub idle: fn(&Ask<'_>),
    /// Such a thread waits from now on for the lock.
    pub awaited: fn(Moved),
    /// The thread that slept runs again, moved or not.
    pub awake: fn(),
    /// It has the lock, in whose queue it was since that moment
    /// ([`Platform::now`](super::Platform::now)), asleep.
    pub moved: fn(&Ask<'_>, u64),
    /// The lock at this address is about to be released.
    pub releasing: fn(usize),
    /// The lock at this address was released; it may be gone.
    pub released: fn(usize),
}

#[cfg(feature = "stat")]
static WATCHER: AtomicPtr<Watcher> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `watcher` is told.
#[cfg(feature = "stat")]
pub fn watch(watcher: &'static Watcher) {
    WATCHER.store(core::ptr::from_ref(watcher).cast_mut(), Release);
}

/// What is to be told.
#[cfg(feature = "stat")]
#[inline(always)]
pub(crate) fn watcher() -> Option<&'static Watcher> {
    // SAFETY: null, or what `watch` was given, which lives for ever and is never changed.
    unsafe { WATCHER.load(Acquire).as_ref() }
}

/// The address after an instruction of the code into which this is inlined. 0: no way is known.
#[cfg(feature = "stat")]
#[inline(always)]
pub(crate) fn here() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let here: usize;
        // SAFETY: reads the instruction pointer, and nothing else.
        unsafe { core::arch::asm!("lea {}, [rip]", out(reg) here, options(nomem, nostack, preserves_flags)) };
        here
    }
    #[cfg(target_arch = "aarch64")]
    {
        let here: usize;
        // SAFETY: reads the instruction pointer, and nothing else.
        unsafe { core::arch::asm!("adr {}, . + 4", out(reg) here, options(nomem, nostack, preserves_flags)) };
        here
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}
